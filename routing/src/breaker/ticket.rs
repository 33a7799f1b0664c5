//! What an admitted call holds, and why others are refused.

use crate::Moment;

/// What a call was admitted for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    /// An ordinary call.
    Normal,
    /// A call whose result decides whether a half-open breaker closes.
    Probe,
}

/// The admission of one call. Its result is reported with it, once.
///
/// It cannot be copied, so that no call has two results. The core does not notice when a ticket is lost: hold a
/// [`Permit`](super::Permit) where that can happen.
#[derive(Debug, Eq, PartialEq)]
#[must_use = "a call that is admitted has to report its result, or be released"]
pub struct Ticket {
    pub(super) epoch: u64,
    pub(super) call: u64,
    /// Where the call is in the list of those in flight.
    pub(super) slot: Option<usize>,
    pub(super) role: Role,
    pub(super) admitted: Moment,
}

impl Ticket {
    /// The ticket of a call that no breaker admitted. resilience4j counts its result like any other; with strict semantics
    /// it is always late.
    pub const fn unasked() -> Self {
        Self { epoch: 0, call: 0, slot: None, role: Role::Normal, admitted: Moment::ZERO }
    }

    /// What the call was admitted for.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// When the call was admitted.
    pub const fn admitted(&self) -> Moment {
        self.admitted
    }
}

/// Why a call was refused.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Reason {
    /// The breaker is open.
    Open,
    /// Somebody forced the breaker open.
    ForcedOpen,
    /// All probes are under way.
    ProbesInFlight,
    /// Too many probes said nothing; the next one is not due yet.
    ProbeInterval,
    /// The provider asked to be left alone.
    CoolDown,
    /// The breaker has just closed, and admits a share of the calls.
    Ramp,
}

/// A call was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the breaker does not permit a call: {reason:?}")]
pub struct Denied {
    /// Why.
    pub reason: Reason,
    /// When to ask again, where that is known. It is past this moment that a call is admitted, not at it.
    pub retry_at: Option<Moment>,
}
