//! What is done before an exchange begins: its body is read if a toxic that may apply needs it.
use std::sync::{Arc, Mutex};

use http::{HeaderMap, StatusCode, Version, request};
use hyper::{body::Incoming, upgrade::OnUpgrade};

use crate::{
    http::{
        body::{
            BodySource, Tee,
            buffered::{BufferedBody, DecodeError, Fill, decoded},
        },
        client::{Client, in_band},
        message::{
            coding::Coded,
            facts::{self, Facts, body_form, may_be_json},
            headers,
        },
        proxy_error::ProxyError,
    },
    plan::{Armed, Plan},
};
use aconite_toxics::BodyForm;

pub(super) struct Prepared {
    pub(super) body: RequestBody,
    /// A toxic that the request brought along.
    pub(super) own: Option<Arc<Armed>>,
    pub(super) upgrade: Option<OnUpgrade>,
}

/// A request's body, which still has to be sent.
pub(super) enum RequestBody {
    None,
    /// It was read to its end, and written down.
    Read(Tee),
    Tee(Tee),
    Stream(Incoming),
    /// A part of it was read in vain.
    ///
    /// The lock is never taken: it lets what has this be shared, as a body by itself cannot be.
    Buffered(Mutex<Box<BufferedBody>>),
}

/// Finds the request's own toxic, and reads the body if only that tells whether a toxic applies.
///
/// # Errors
/// If the request's own toxic cannot be read, or the body breaks off while it is read.
pub(super) async fn prepare(
    client: &Client,
    plan: &Plan,
    head: &mut request::Parts,
    incoming: Incoming,
    facts: &mut Facts,
) -> Result<Prepared, ProxyError> {
    use http_body::Body as _;

    let upgrade = head.extensions.remove::<OnUpgrade>();
    let upgrade =
        upgrade.filter(|_| headers::wants_upgrade(&facts.headers) && head.version <= Version::HTTP_11);
    let own = in_band::toxic(&client.connection.site, &facts.headers, plan)?;
    if incoming.is_end_stream() {
        return Ok(Prepared { body: RequestBody::None, own, upgrade });
    }
    let needed = (plan.strikes_messages || own.is_some()) && {
        let request = facts.as_request_facts();
        plan.toxics.iter().chain(&own).any(|toxic| toxic.needs_body(&request))
    };
    let length = incoming.size_hint().exact();
    let limit = client.connection.site.max_edit_bytes();
    facts.unread = Some(facts::NOT_READ);
    if needed {
        facts.unread = unreadable(&facts.headers, length, limit);
    }
    let body = match facts.unread {
        None => read(client, incoming, facts).await?,
        Some(_) if remembers(&facts.headers, length) => {
            RequestBody::Tee(Tee::new(BodySource::Incoming(incoming), Tee::LIMIT as usize))
        }
        Some(_) => RequestBody::Stream(incoming),
    };
    Ok(Prepared { body, own, upgrade })
}

/// Whether a body that nobody reads is remembered, to be sent once more on another connection.
fn remembers(headers: &HeaderMap, length: Option<u64>) -> bool {
    length.map_or_else(|| headers::is_grpc(headers), |length| length <= Tee::LIMIT)
        || body_form(headers) == BodyForm::Document
}

/// Why the body cannot be read, as far as its head tells.
fn unreadable(headers: &HeaderMap, length: Option<u64>, limit: usize) -> Option<&'static str> {
    if length.is_some_and(|length| length > limit as u64) {
        Some(facts::TOO_LARGE)
    } else if !may_be_json(headers) {
        Some(facts::NOT_JSON)
    } else {
        (Coded::of(headers) == Coded::Unknown).then_some(facts::ENCODED)
    }
}

/// Reads the body, up to `max_edit_bytes`. What cannot be read is sent on as it came.
async fn read(client: &Client, incoming: Incoming, facts: &mut Facts) -> Result<RequestBody, ProxyError> {
    let limit = client.connection.site.max_edit_bytes();
    let coded = Coded::of(&facts.headers);
    let certain = body_form(&facts.headers) == BodyForm::Document || coded != Coded::Plain;
    let tee = Tee::new(BodySource::Incoming(incoming), limit);
    let mut held = BufferedBody::new(BodySource::Tee(tee.rewound()), client.http2);
    let mut begun = certain;
    let not_json = |new: &[u8]| {
        let first = new.iter().find(|byte| !byte.is_ascii_whitespace()).filter(|_| !begun);
        begun |= first.is_some();
        first.is_some_and(|byte| *byte != b'{')
    };
    match held.fill(limit, not_json).await {
        Fill::All => {}
        Fill::Broken => {
            return Err(ProxyError::new(
                StatusCode::BAD_REQUEST,
                "request_broken",
                "the request's body broke off",
            ));
        }
        Fill::Part => {
            let too_large = held.bytes().len() > limit;
            facts.unread = Some(if too_large { facts::TOO_LARGE } else { facts::NOT_JSON });
            tee.relax();
            let whole = tee.is_whole();
            return Ok(if whole {
                RequestBody::Tee(tee)
            } else {
                RequestBody::Buffered(Mutex::new(Box::new(held)))
            });
        }
    }
    client.control.chunks_end();
    let plain = match coded {
        Coded::By(coding) => decoded(coding, held.bytes(), limit).await.map_err(|error| match error {
            DecodeError::TooLarge => facts::TOO_LARGE,
            DecodeError::Invalid => facts::ENCODED,
        }),
        Coded::Plain | Coded::Unknown => Ok(held.bytes()),
    };
    match plain {
        Ok(plain) => facts.read(plain),
        Err(reason) => facts.unread = Some(reason),
    }
    // Trailers are not remembered.
    Ok(if tee.is_whole() {
        RequestBody::Read(tee)
    } else {
        RequestBody::Buffered(Mutex::new(Box::new(held)))
    })
}
