//! From how an attempt came out to what a breaker counts.

use std::time::Duration;

use aconite_dialects::outcome::{Class, Outcome};

use super::{BreakerConfig, SlowCallDuration};

/// What a result says about the provider.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It works.
    Success,
    /// It does not.
    Failure,
    /// Nothing: the outcome is one that the configuration ignores, or the request's own fault.
    Ignored,
    /// It limits calls for now.
    RateLimited,
    /// Nothing: the failure was our own.
    Inconclusive,
    /// Nothing: the call was given up.
    Cancelled,
}

/// How long a call took.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timing {
    /// From its start to the first content, if any came.
    pub first_content: Option<Duration>,
    /// From its start to its end.
    pub total: Duration,
}

impl From<Duration> for Timing {
    /// A call without content, or whose content comes all at once.
    fn from(total: Duration) -> Self {
        Self { first_content: None, total }
    }
}

/// The result of a call, as a breaker counts it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Report {
    /// What it says about the provider.
    pub verdict: Verdict,
    /// The duration that is compared with the slow threshold.
    pub duration: Duration,
    /// Whether it is slow whatever its duration, such as a timeout that is shorter than the slow threshold.
    pub is_slow: bool,
    /// How long the provider asks to wait. Not capped.
    pub told_wait: Option<Duration>,
    /// For how long the breaker opens at once, unless the verdict is that nothing is known.
    pub open_for: Option<Duration>,
}

impl Report {
    /// A result with nothing but a verdict and a duration.
    pub const fn new(verdict: Verdict, duration: Duration) -> Self {
        Self { verdict, duration, is_slow: false, told_wait: None, open_for: None }
    }
}

/// What an outcome says about the provider, unless the configuration says otherwise.
const fn verdict_of(class: Class) -> Verdict {
    match class {
        // What is wrong with the content of a success is a matter of quality, not of availability.
        Class::Ok | Class::Degraded => Verdict::Success,
        Class::Rate => Verdict::RateLimited,
        Class::Client | Class::Context | Class::Policy => Verdict::Ignored,
        Class::Cancelled => Verdict::Cancelled,
        Class::Lossy | Class::Local => Verdict::Inconclusive,
        _ => Verdict::Failure,
    }
}

const fn is_timeout(class: Class) -> bool {
    matches!(class, Class::HeadersTimeout | Class::TtftTimeout | Class::Idle | Class::Throughput)
}

impl BreakerConfig {
    /// What a breaker with these settings counts for an outcome.
    ///
    /// A stream is reported when it has ended: it is a success once it reached its terminator, never at its first byte.
    #[must_use]
    pub fn report(&self, outcome: &Outcome, timing: impl Into<Timing>) -> Report {
        let (class, timing) = (outcome.class, timing.into());
        let verdict = self.verdict(class);
        let open_for = self.transition_on_result.get(&class).map(|wait| Duration::from(*wait));
        Report {
            verdict,
            duration: match (self.is_strict(), self.slow_call_duration) {
                (true, SlowCallDuration::FirstContent) => timing.first_content.unwrap_or(timing.total),
                _ => timing.total,
            },
            is_slow: self.is_strict() && is_timeout(class),
            told_wait: outcome.wait,
            open_for,
        }
    }

    fn verdict(&self, class: Class) -> Verdict {
        let is_listed = self.record_outcomes.as_ref().map(|list| list.contains(&class));
        match (self.ignore_outcomes.contains(&class), is_listed) {
            (true, _) => Verdict::Ignored,
            (_, Some(true)) => Verdict::Failure,
            _ if self.is_strict() => verdict_of(class),
            _ => match (class, is_listed) {
                (Class::Ok | Class::Degraded, _) => Verdict::Success,
                (Class::Cancelled, _) => Verdict::Cancelled,
                (_, None) => Verdict::Failure,
                (_, Some(_)) => Verdict::Success,
            },
        }
    }
}
