//! Which upstreams an exchange tries: a policy chooses, one attempt after the other.
use std::{sync::Arc, time::Duration};

use aconite_dialects::Dialect;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::Target;
use crate::{http::message::facts::Facts, plan::PlanReceiver};

/// Chooses the upstreams of exchanges.
pub(crate) trait Policy: Send + Sync {
    /// The attempts of an exchange that begins.
    fn begin(&self, facts: &Facts) -> Box<dyn Attempts>;
}

/// Chooses the upstreams of one exchange.
pub(crate) trait Attempts: Send {
    /// The upstream to try next, by what the last attempt came to. `None` if the client gets that.
    ///
    /// It is asked for the first upstream, and after each attempt. If the last one is not repeatable, nothing else is tried.
    fn next(&mut self, last: Option<&AttemptResult<'_>>) -> Option<Candidate>;
}

/// An exchange makes at most so many attempts, whatever its policy says.
pub(crate) const MAX_ATTEMPTS: u32 = 64;

/// The largest body that is remembered for another attempt, in bytes.
pub(crate) const MAX_REPLAY: usize = 16 * 1024 * 1024;

/// An upstream to try.
#[derive(Clone)]
pub(crate) struct Candidate {
    /// A server or a simulated provider.
    pub(crate) target: Arc<Target>,
    /// What the upstream is told as Host.
    pub(crate) authority: Arc<str>,
    /// The dialect that the upstream speaks, which need not be the one that the exchange was asked in.
    pub(crate) dialect: Option<Dialect>,
    /// The toxics on attempts at this upstream.
    pub(crate) toxics: PlanReceiver,
    pub(crate) limits: Limits,
}

/// How long an attempt may take, and how much of its response is held back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Until the head of the response is there.
    pub(crate) head: Duration,
    /// From there until enough of the body is.
    pub(crate) body: Duration,
    /// How much of the body has to be there before the client gets any of it, in bytes: less if it ends before. 0 if the
    /// head is enough. Until then another attempt can take its place.
    pub(crate) hold_back: usize,
}

/// What an attempt came to.
#[cfg_attr(not(test), expect(dead_code, reason = "policies read it, and there is none yet"))]
#[derive(Clone, Debug)]
pub(crate) struct AttemptResult<'a> {
    /// The head of the response, if one came.
    pub(crate) head: Option<(StatusCode, &'a HeaderMap)>,
    /// What is held back of its body.
    pub(crate) body: Bytes,
    /// Why there is no response, or no more of it: a word for the journal.
    pub(crate) error: Option<&'static str>,
    /// Whether the upstream may have received anything of the request.
    pub(crate) sent: bool,
    pub(crate) received: ResponseProgress,
    /// Whether the request can be sent to another upstream: all of its body that has come is remembered.
    pub(crate) repeatable: bool,
}

/// How much of a response came, as far as it was waited for.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum ResponseProgress {
    Nothing,
    Head,
    /// A part of the body, or as much as is held back.
    Part,
    All,
}

#[cfg(test)]
mod tests;
