//! Why an upstream gave no response, and whether the request may be sent again.
use std::{error::Error, sync::Arc};

use http::StatusCode;
use thiserror::Error;

use super::{MAX_HEADER_SECTION, MAX_HEADERS};
use crate::{
    dial::DialError,
    http::{
        body::{Body, Replay},
        target::Origin,
    },
    tls::{self, connect::ConnectError},
};

/// Why an upstream gave no response.
#[derive(Debug, Error)]
pub(crate) enum UpstreamError {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("TLS with {origin} failed: {}", tls::with_causes(source))]
    Tls { origin: Origin, source: ConnectError },
    #[error("no response from {origin}: {}", tls::with_causes(source))]
    Broken {
        origin: Origin,
        source: hyper::Error,
        /// Whether the upstream may have received anything of the request.
        sent: bool,
    },
    #[error("the response of {origin} {}", what_is_wrong(source))]
    Unreadable { origin: Origin, source: hyper::Error },
    #[error("an upstream of route `{0}` is a route itself")]
    Nested(Arc<str>),
}

impl UpstreamError {
    /// The status of the proxy's own answer.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Dial(error) => error.status(),
            Self::Tls { .. } | Self::Broken { .. } | Self::Unreadable { .. } | Self::Nested(_) => {
                StatusCode::BAD_GATEWAY
            }
        }
    }

    /// The code with which an HTTP/2 upstream reset the stream instead of responding.
    pub(crate) fn reset(&self) -> Option<h2::Reason> {
        let Self::Broken { source, .. } = self else { return None };
        let h2 = of_h2(source)?;
        h2.reason().filter(|_| h2.is_reset() && h2.is_remote())
    }

    /// Whether the upstream may have received anything of the request.
    pub(crate) fn is_sent(&self) -> bool {
        match self {
            Self::Dial(_) | Self::Tls { .. } | Self::Nested(_) => false,
            Self::Broken { sent, .. } => *sent,
            Self::Unreadable { .. } => true,
        }
    }

    /// A word for `x-aconite-error` and the journal.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Dial(error) => error.code(),
            Self::Tls { .. } => "upstream_tls",
            Self::Broken { .. } => "upstream_broken",
            Self::Unreadable { .. } => "bad_response",
            Self::Nested(_) => "nested_route",
        }
    }
}

/// Why a connection gave no response.
pub(super) struct SendError {
    /// The request's body, if nothing of the request was sent.
    pub(super) unsent: Option<Box<Body>>,
    /// The connection had been used before, and not a byte came for this request.
    pub(super) nothing_came: bool,
    pub(super) source: hyper::Error,
}

impl SendError {
    /// Whether nothing of the request was sent.
    pub(super) fn is_unsent(&self) -> bool {
        self.unsent.is_some()
    }

    /// Whether the upstream may have processed the request.
    pub(super) fn is_sent(&self) -> bool {
        !self.is_unsent() && !self.is_refused()
    }

    /// What the journal says of the attempt if it is not the last one.
    pub(super) fn outcome(&self) -> &'static str {
        if self.is_refused() { "refused" } else { "stale_connection" }
    }

    /// The body to send once more, if it is certain enough that the upstream has not processed the request: nothing of it
    /// was sent, a kept connection was dead (RFC 9112, section 9.3.1), or HTTP/2 says so (RFC 9113, section 8.7).
    pub(super) fn again(&mut self, again: Option<Replay>) -> Option<Body> {
        if let Some(unsent) = self.unsent.take() {
            return Some(*unsent);
        }
        again.filter(|_| self.nothing_came || self.is_refused()).and_then(Replay::body)
    }

    /// Whether an HTTP/2 upstream guarantees that it has not processed the request: it refused the stream, or went away
    /// naming an earlier stream as its last.
    fn is_refused(&self) -> bool {
        of_h2(&self.source).is_some_and(|h2| {
            let refused = h2.is_reset() && h2.reason() == Some(h2::Reason::REFUSED_STREAM);
            h2.is_remote() && (refused || h2.is_go_away())
        })
    }

    pub(super) fn into_error(self, origin: &Origin, sent: bool) -> UpstreamError {
        let (origin, source) = (origin.clone(), self.source);
        if source.is_parse() {
            UpstreamError::Unreadable { origin, source }
        } else {
            UpstreamError::Broken { origin, source, sent }
        }
    }
}

fn of_h2(error: &hyper::Error) -> Option<&h2::Error> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if let Some(h2) = current.downcast_ref() {
            return Some(h2);
        }
        cause = current.source();
    }
    None
}

fn what_is_wrong(error: &hyper::Error) -> String {
    if error.is_parse_too_large() {
        let kib = MAX_HEADER_SECTION / 1024;
        return format!("has a header section of more than {kib} KiB or {MAX_HEADERS} fields");
    }
    let causes = tls::with_causes(error);
    format!("is not valid HTTP/1.1 and cannot be forwarded: {causes}")
}
