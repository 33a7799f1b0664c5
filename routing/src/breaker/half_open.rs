//! The probes of a half-open breaker.

use std::collections::BTreeMap;

use super::{
    BreakerConfig, Kind,
    window::{Totals, percent},
};
use crate::Moment;

/// Which calls may still be made half open.
#[derive(Clone, Debug, Default)]
pub(super) struct Probes {
    /// How many permits are left with the semantics of resilience4j. A returned one is added, whoever took it.
    pub(super) untagged: u64,
    /// The moments at which the probes in flight lose their permits, by number of call. All leases are equally long, so
    /// that the first one is the first to end.
    leases: BTreeMap<u64, Moment>,
    /// How many said nothing.
    pub(super) inconclusive: u32,
    /// When the interval since the last admission is over.
    pub(super) interval_until: Moment,
}

impl Probes {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn in_flight(&self) -> u32 {
        u32::try_from(self.leases.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn begin(&mut self, call: u64, now: Moment, config: &BreakerConfig) {
        self.leases.insert(call, now.saturating_add(config.probe_lease.into()));
        self.interval_until = now.saturating_add(config.probe_interval.into());
    }

    /// Ends a probe. Whether it still had its lease.
    pub(super) fn end(&mut self, call: u64) -> bool {
        self.leases.remove(&call).is_some()
    }

    /// When the next lease ends.
    pub(super) fn next_expiry(&self) -> Option<Moment> {
        self.leases.first_key_value().map(|(_, until)| *until)
    }

    /// Takes back a permit whose lease has ended. Whether there was one.
    pub(super) fn expire(&mut self, now: Moment) -> bool {
        let has_ended = self.next_expiry().is_some_and(|until| until <= now);
        if has_ended {
            self.leases.pop_first();
        }
        has_ended
    }

    /// Counts a probe that said nothing. Whether it is the one after which an active probe is asked for.
    pub(super) fn add_inconclusive(&mut self, limit: u32) -> bool {
        self.inconclusive = self.inconclusive.saturating_add(1);
        self.inconclusive == limit
    }

    /// When the next probe is due, if there were too many that said nothing.
    pub(super) fn next_due(&self, config: &BreakerConfig) -> Option<Moment> {
        (self.inconclusive >= config.inconclusive_limit()).then_some(self.interval_until)
    }
}

/// What the results of the probes say so far, if that cannot change any more: whether the breaker opens.
pub(super) fn verdict(config: &BreakerConfig, totals: Totals, successes_in_a_row: u32) -> Option<bool> {
    if config.kind == Kind::Consecutive {
        let closes = successes_in_a_row >= config.consecutive_successes;
        return (totals.failed > 0 || closes).then_some(totals.failed > 0);
    }
    let minimum = config.half_open_minimum();
    let exceeds = |failed: u32, slow: u32, calls: u32| {
        percent(failed, calls) >= config.failure_rate_threshold
            || percent(slow, calls) >= config.slow_call_rate_threshold
    };
    let Totals { calls, failed, slow } = totals;
    if calls >= minimum {
        return Some(exceeds(failed, slow, calls));
    }
    if !config.is_strict() {
        return None;
    }
    let missing = minimum - calls;
    let opens_at_best = exceeds(failed, slow, minimum);
    let opens_at_worst = exceeds(failed + missing, slow + missing, minimum);
    (opens_at_best == opens_at_worst).then_some(opens_at_best)
}
