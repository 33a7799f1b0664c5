//! What a breaker tells: events for the API and for metrics, and counters.

use std::{collections::VecDeque, time::Duration};

use super::{Reason, State, Verdict};
use crate::Moment;

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// When.
    pub at: Moment,
    /// What.
    pub kind: EventKind,
}

/// What happened. The first eight are resilience4j's events.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum EventKind {
    /// Another state was entered. Entering the same state anew is silent.
    StateTransition {
        /// The state before.
        from: State,
        /// The state now.
        to: State,
    },
    /// A call succeeded.
    Success {
        /// How long it took.
        duration: Duration,
    },
    /// A call failed.
    Error {
        /// How long it took.
        duration: Duration,
    },
    /// A call ended with an outcome that counts for nothing.
    IgnoredError {
        /// How long it took.
        duration: Duration,
    },
    /// A call was refused.
    NotPermitted {
        /// Why.
        reason: Reason,
    },
    /// The failure rate reached its threshold.
    FailureRateExceeded {
        /// In percent.
        rate: f32,
    },
    /// The slow-call rate reached its threshold.
    SlowCallRateExceeded {
        /// In percent.
        rate: f32,
    },
    /// Somebody reset the breaker.
    Reset,
    /// There were as many failures in a row as open the breaker.
    ConsecutiveFailuresExceeded {
        /// How many.
        failures: u32,
    },
    /// A call ended after the epoch that admitted it.
    Late {
        /// How it ended.
        verdict: Verdict,
    },
    /// A probe ended without a verdict about the provider.
    Inconclusive,
    /// A probe did not end in time.
    LeaseExpired,
    /// Too many probes said nothing: an active probe is asked for.
    ProbeWanted,
    /// The provider asked to be left alone.
    CoolDown {
        /// Until when.
        until: Moment,
    },
}

impl EventKind {
    /// Whether it tells of one call, not of the breaker.
    const fn is_of_a_call(&self) -> bool {
        matches!(
            self,
            Self::Success { .. }
                | Self::Error { .. }
                | Self::IgnoredError { .. }
                | Self::NotPermitted { .. }
                | Self::Late { .. }
                | Self::Inconclusive
        )
    }
}

/// How many events wait to be drained at most.
const MAX_EVENTS: usize = 1024;

/// Events that wait to be drained. If there are too many, events of single calls are dropped first, then the oldest.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    events: VecDeque<Event>,
    dropped: u64,
}

impl Queue {
    pub(super) fn push(&mut self, at: Moment, kind: EventKind) {
        if self.events.len() >= MAX_EVENTS {
            self.dropped += 1;
            if kind.is_of_a_call() {
                return;
            }
            self.events.pop_front();
        }
        self.events.push_back(Event { at, kind });
    }

    pub(super) fn drain(&mut self) -> Events {
        Events { events: std::mem::take(&mut self.events).into(), dropped: std::mem::take(&mut self.dropped) }
    }
}

/// What happened since events were last drained, the oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Events {
    /// The events.
    pub events: Vec<Event>,
    /// How many others were dropped because nobody drained them.
    pub dropped: u64,
}

/// Totals since the breaker was made. They never go back.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Calls that succeeded.
    pub successes: u64,
    /// Calls that failed.
    pub failures: u64,
    /// Calls that were slow, whether they succeeded or failed.
    pub slow: u64,
    /// Calls with an outcome that counts for nothing.
    pub ignored: u64,
    /// Calls that were rate limited, as far as they are not failures.
    pub rate_limited: u64,
    /// Calls that said nothing about the provider.
    pub inconclusive: u64,
    /// Calls that were cancelled or released.
    pub cancelled: u64,
    /// Calls that were refused.
    pub not_permitted: u64,
    /// Calls that succeeded after the epoch that admitted them.
    pub late_successes: u64,
    /// Calls that failed after the epoch that admitted them.
    pub late_failures: u64,
    /// Calls that ended otherwise after the epoch that admitted them.
    pub late_others: u64,
    /// Probes that did not end in time.
    pub leases_expired: u64,
    /// Times that the breaker opened.
    pub opened: u64,
}
