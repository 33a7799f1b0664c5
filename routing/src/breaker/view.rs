//! What can be read of a breaker. Nothing here changes it.

use std::fmt;

use super::{Breaker, BreakerConfig, Counters, State, window::Totals};
use crate::Moment;

/// The state for people, dashboards and routers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Status {
    /// The state.
    pub state: State,
    /// Whether it is open, but its wait is over, so that the next call is admitted.
    pub is_expired: bool,
    /// When the wait in OPEN is over.
    pub open_until: Option<Moment>,
    /// When the provider's cool-down is over, if it is in one.
    pub cool_down_until: Option<Moment>,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.state.name())?;
        if self.is_expired { f.write_str(" (expired)") } else { Ok(()) }
    }
}

/// The results that the breaker decides by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metrics {
    /// The calls in the window.
    pub buffered: u32,
    /// Those that failed.
    pub failed: u32,
    /// Those that were slow.
    pub slow: u32,
    /// In percent; -1 while there are fewer than the minimum of calls.
    pub failure_rate: f32,
    /// In percent; -1 while there are fewer than the minimum of calls.
    pub slow_call_rate: f32,
    /// The calls that were refused since the window began.
    pub not_permitted: u64,
    /// The calls in flight that are older than the slow threshold.
    pub overdue: u32,
    /// How many times the breaker opened since it was last closed for long enough.
    pub attempts: u32,
    /// How many probes may be made, half open.
    pub permits: u64,
}

impl Breaker {
    /// The state at this moment.
    #[must_use]
    pub fn status(&self, now: Moment) -> Status {
        let is_open = self.state == State::Open;
        Status {
            state: self.state,
            is_expired: is_open && now > self.open_until,
            open_until: is_open.then_some(self.open_until),
            cool_down_until: self.cool_down_until.filter(|_| self.is_cooling(now)),
        }
    }

    /// The window at this moment.
    #[must_use]
    pub fn metrics(&self, now: Moment) -> Metrics {
        let totals =
            if self.state.observes() { self.window.totals(now.max(self.now)) } else { Totals::default() };
        let (failure_rate, slow_call_rate) = self.rates(totals).unwrap_or((-1.0, -1.0));
        Metrics {
            buffered: totals.calls,
            failed: totals.failed,
            slow: totals.slow,
            failure_rate,
            slow_call_rate,
            not_permitted: self.not_permitted,
            overdue: self.in_flight.overdue(),
            attempts: self.attempts,
            permits: self.permits_left(),
        }
    }

    /// Totals since the breaker was made.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The settings.
    pub const fn config(&self) -> &BreakerConfig {
        &self.config
    }

    /// When a call may be admitted at the earliest, as far as the breaker knows. None if it cannot know: while it is forced open,
    /// and with the semantics of resilience4j while all probes are under way. The ramp after closing is left out.
    #[must_use]
    pub fn available_at(&self, now: Moment) -> Option<Moment> {
        let cooled = self.cool_down_until.filter(|_| self.is_cooling(now)).unwrap_or(now);
        match self.state {
            State::ForcedOpen => None,
            State::Open => Some(now.max(self.open_until)),
            State::Disabled | State::MetricsOnly => Some(now),
            State::Closed => Some(cooled),
            State::HalfOpen => {
                let due = self.probes.next_due(&self.config).unwrap_or(now);
                let free = if self.permits_left() > 0 { Some(now) } else { self.probes.next_expiry() };
                Some(cooled.max(due).max(free?))
            }
        }
    }

    /// For how long it has been in its state.
    pub(super) fn in_state_for(&self, now: Moment) -> std::time::Duration {
        self.state_before.saturating_add(now.saturating_sub(self.since))
    }

    pub(super) fn is_cooling(&self, now: Moment) -> bool {
        self.config.is_strict() && self.cool_down_until.is_some_and(|until| now <= until)
    }

    /// The share of calls that is admitted, between 0 and 1. After the breaker has closed it grows in ten steps.
    pub(super) fn admitted_share(&self, now: Moment) -> f64 {
        let ramp = std::time::Duration::from(self.config.ramp_duration);
        let closed_for = self.in_state_for(now);
        if !self.is_ramping || closed_for >= ramp {
            return 1.0;
        }
        let steps = (closed_for.as_secs_f64() / ramp.as_secs_f64() * 10.0).floor();
        (steps + 1.0) / 10.0
    }
}
