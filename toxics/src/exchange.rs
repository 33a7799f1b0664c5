//! Filters over one HTTP request and its answer.
use std::time::Duration;

use bytes::Bytes;
use http::{Response, request, response};

use crate::{BodyFilter, Moment, NEVER, Schedule, Scope, Weight};

/// Decides what happens to an HTTP exchange.
///
/// Like a stream filter it waits for nothing: it answers with a [`Decision`],
/// and the engine does the waiting.
pub trait ExchangeFilter: Send + Sync {
    /// The request's head arrived; the upstream knows nothing of it yet.
    fn on_request(&mut self, _head: &mut request::Parts, _now: Moment) -> Decision {
        Decision::forward()
    }

    /// The answer's head arrived from upstream; the client knows nothing of it yet.
    fn on_response(&mut self, _head: &mut response::Parts, _now: Moment) -> Decision {
        Decision::forward()
    }

    /// What works on the body of the message that the toxic acts on.
    ///
    /// Asked when the head has passed, or when the toxic joins while the body is already on its way.
    fn body(&mut self, _scope: &Scope) -> Option<BodyFilter> {
        None
    }
}

/// What to do with a message, and how long to wait first.
#[derive(Debug)]
pub struct Decision {
    /// How long to wait.
    pub after: Duration,
    /// What to do then.
    pub verdict: Verdict,
    /// Whether the toxic has changed anything, for the record.
    pub struck: bool,
    /// Why the toxic left alone what it should have changed, for the record.
    pub skipped: Option<&'static str>,
}

/// A length that a message declares whatever its body comes to: an extension of the head.
///
/// The proxy sends exactly this `content-length`. A body that is shorter ends with the connection; of a longer one the
/// surplus is not sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DeclaredLength(pub u64);

/// What becomes of a message.
#[derive(Debug)]
pub enum Verdict {
    /// It goes on its way.
    Forward,
    /// The client gets this answer instead.
    Respond(Box<Response<Bytes>>),
    /// Nothing more happens for so long (for ever if `None`); then the connection closes.
    Hang(Option<Duration>),
    /// The exchange ends without an answer.
    Abort(Ending),
}

impl Decision {
    /// Lets the message pass at once, unchanged.
    pub fn forward() -> Self {
        Self { after: Duration::ZERO, verdict: Verdict::Forward, struck: false, skipped: None }
    }

    /// Lets the message pass at once; the toxic has changed it.
    pub fn changed() -> Self {
        Self { struck: true, ..Self::forward() }
    }

    /// Lets the message pass at once, unchanged although the toxic should have changed it.
    pub fn skip(reason: &'static str) -> Self {
        Self { skipped: Some(reason), ..Self::forward() }
    }

    /// Lets the message pass after a while.
    pub fn delay(after: Duration) -> Self {
        Self { after, ..Self::changed() }
    }

    /// Does something else with the message, at once.
    pub fn instead(verdict: Verdict) -> Self {
        Self { verdict, ..Self::changed() }
    }
}

/// How a message ends before its time. The four differ for every SDK.
#[derive(
    Clone, Copy, Debug, Default, Eq, PartialEq, serde::Deserialize, schemars::JsonSchema, serde::Serialize,
)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Ending {
    /// A valid end of the HTTP message: the last chunk, END_STREAM.
    #[default]
    Clean,
    /// The connection closes by FIN, without the last chunk. In HTTP/2 its stream alone is reset, with CANCEL.
    Fin,
    /// The connection is reset: TCP RST, or RST_STREAM in HTTP/2.
    Rst,
    /// Silence; the connection stays open.
    Hang,
}

impl Ending {
    /// Ends a body now, and for the record.
    ///
    /// In silence everything that comes later is held: a filter has to go on sending it, since it leaves once the
    /// toxic is removed.
    pub(crate) fn strike<T: Weight>(self, now: Moment, out: &mut Schedule<T>) {
        out.strike(now);
        match self {
            Self::Clean => out.end(now),
            Self::Fin => out.close(now),
            Self::Rst => out.reset(now),
            Self::Hang => out.hold_until(NEVER),
        }
    }
}
