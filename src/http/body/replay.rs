//! Requests that can be sent once more.
use aconite_toxics::Scope;
use bytes::Bytes;

use super::{
    Body, ToxicBody,
    governor::BodyGovernor,
    source::{BodySource, Tee},
};
use crate::http::ongoing::Owner;

/// A request's body that can be sent once more.
pub(crate) enum Replay {
    Full(Bytes),
    Tee(Tee, Owner, Scope),
}

impl Replay {
    /// The body from its beginning; `None` if that has not been kept.
    pub(crate) fn body(self) -> Option<Body> {
        match self {
            Self::Full(bytes) => Some(Body::Full(bytes)),
            Self::Tee(tee, party, scope) => {
                if !tee.is_whole() {
                    return None;
                }
                if let Some(exchange) = party.exchange() {
                    exchange.capture_request_anew();
                }
                let governor = BodyGovernor::new(party, scope, Vec::new(), false);
                Some(Body::Toxic(Box::new(ToxicBody::request(BodySource::Tee(tee), governor, None))))
            }
        }
    }
}
