//! Requests that can be sent once more.
use std::sync::Arc;

use aconite_toxics::Scope;
use bytes::Bytes;

use super::{
    body::{Body, Flow},
    governor::BodyGovernor,
    ongoing::Ongoing,
    source::{Source, Tee},
};

/// A request's body that can be sent once more.
pub(crate) enum Again {
    Full(Bytes),
    Tee(Tee, Arc<Ongoing>, Scope),
}

impl Again {
    /// The body from its beginning; `None` if that has not been kept.
    pub(crate) fn body(self) -> Option<Body> {
        match self {
            Self::Full(bytes) => Some(Body::Full(bytes)),
            Self::Tee(tee, ongoing, scope) => {
                if !tee.is_whole() {
                    return None;
                }
                ongoing.capture_request_anew();
                let governor = BodyGovernor::new(ongoing, scope, Vec::new(), false);
                Some(Body::Flow(Box::new(Flow::request(Source::Tee(tee), governor, None))))
            }
        }
    }
}
