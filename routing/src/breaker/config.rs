//! The settings of a breaker.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use aconite_dialects::{
    outcome::Class,
    units::{Millis, Probability},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::State;

mod check;

/// Whose rules a breaker follows where resilience4j's lose permits, mix up calls or notice late.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Semantics {
    /// Ours.
    #[default]
    Strict,
    /// Those of resilience4j 2.3, and the settings that came with 2.4.
    R4j,
}

/// What opens a closed breaker.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Kind {
    /// The failure rate or the slow-call rate of the window.
    #[default]
    FailureRate,
    /// Failures in a row. `consecutive_successes` in a row close it again, and one failure of a probe opens it.
    Consecutive,
}

/// What a window is measured in.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum SlidingWindowType {
    /// The last calls.
    #[default]
    CountBased,
    /// The last seconds, the current one included.
    TimeBased,
}

/// Which duration of a call is compared with the slow threshold.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum SlowCallDuration {
    /// The time to the first content, where there was one, so that a long answer is not a slow one. Else the whole call.
    #[default]
    FirstContent,
    /// The whole call.
    Total,
}

/// Whether a rate-limited call counts as a failure, besides the cool-down.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum CountRateLimited {
    /// No: it is not in the window.
    #[default]
    Never,
    /// It is a failure in the window, but does not add to failures in a row.
    RateOnly,
    /// It is a failure.
    Failure,
}

/// How long a breaker stays open: one length of time, or one for each attempt in turn, of which the last repeats.
///
/// An attempt is one time that the breaker opens. Attempts are counted from 1 since it was last closed.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(untagged, expecting = "expected a length of time such as 60s, or a list of them")]
#[schemars(inline)]
pub enum WaitDuration {
    /// The same for each attempt. With `strict`, `wait_multiplier` makes it grow.
    Fixed(Millis),
    /// By attempt.
    ByAttempt(Vec<Millis>),
}

/// The settings of a breaker. Those above `semantics` are resilience4j's, under its names.
///
/// The defaults suit calls that take up to a minute. Those of resilience4j are in brackets, and are set by
/// [`resilience4j`](Self::resilience4j).
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct BreakerConfig {
    /// The failure rate that opens the breaker, in percent, above 0 up to 100. A rate equal to it opens. Default 50 (50).
    #[schemars(extend("x-unit" = "%", "exclusiveMinimum" = 0, "maximum" = 100))]
    pub failure_rate_threshold: f32,
    /// The share of slow calls that opens the breaker, in percent, above 0 up to 100. Default 50 (100).
    #[schemars(extend("x-unit" = "%", "exclusiveMinimum" = 0, "maximum" = 100))]
    pub slow_call_rate_threshold: f32,
    /// A call that takes longer is slow. Default 30 s (60 s).
    pub slow_call_duration_threshold: Millis,
    /// What the window is measured in. Default `count_based`.
    pub sliding_window_type: SlidingWindowType,
    /// The size of the window, in calls or in seconds, 1 to 1,000,000. Default 10 (100).
    #[schemars(range(min = 1, max = 1_000_000))]
    pub sliding_window_size: u32,
    /// How many calls the window must hold before rates exist, at least 1. Default 5 (100).
    ///
    /// For a window over calls, at most its size counts.
    #[schemars(range(min = 1))]
    pub minimum_number_of_calls: u32,
    /// How many probes are admitted half open, 1 to 10,000. Default 5 (10).
    #[schemars(range(min = 1, max = 10_000))]
    pub permitted_number_of_calls_in_half_open_state: u32,
    /// How long the breaker stays open, at least 1 ms. A call is admitted once more than this has passed. Default 60 s
    /// (60 s).
    pub wait_duration_in_open_state: WaitDuration,
    /// How long the breaker stays half open at most. Default 0: without a limit (0).
    pub max_wait_duration_in_half_open_state: Millis,
    /// The state after that: `open` or `closed`. Default `open` (`open`).
    pub transition_to_state_after_wait_duration: State,
    /// Whether the breaker becomes half open by itself when its wait is over, not with the next call. Default false.
    pub automatic_transition_from_open_to_half_open_enabled: bool,
    /// The state at the start. Default `closed`.
    pub initial_state: State,
    /// The outcomes that are failures. Default: as the table of outcomes says; with `r4j`, all errors.
    ///
    /// With `r4j`, an error in neither list is then a success, as in resilience4j.
    pub record_outcomes: Option<BTreeSet<Class>>,
    /// The outcomes that count for nothing. They win over `record_outcomes`. Default: none besides those of the table.
    pub ignore_outcomes: BTreeSet<Class>,
    /// Outcomes that open the breaker at once, and for how long, at least 1 ms.
    ///
    /// Default: `quota` and `auth` for 30 minutes, since waiting a minute repairs neither (none).
    pub transition_on_result: BTreeMap<Class, Millis>,

    /// Whose rules it follows. Default `strict`. With `r4j`, the settings below must keep their defaults.
    pub semantics: Semantics,
    /// What opens it. Default `failure_rate`.
    pub kind: Kind,
    /// How many failures in a row open it, if `kind` is `consecutive`. Default 5.
    #[schemars(range(min = 1))]
    pub consecutive_failures: u32,
    /// How many successes in a row close it, if `kind` is `consecutive`, up to the number of probes. Default 2.
    #[schemars(range(min = 1))]
    pub consecutive_successes: u32,
    /// How many probes decide half open, up to the number that is permitted. Default: all of them.
    #[schemars(range(min = 1))]
    pub minimum_number_of_calls_in_half_open_state: Option<u32>,
    /// Which duration the slow threshold is for. Default `first_content`.
    pub slow_call_duration: SlowCallDuration,
    /// Whether a call that has been in flight for longer than the slow threshold counts as slow already. Default true.
    pub in_flight_overdue: bool,
    /// What the wait is multiplied by for each further attempt, at least 1. Default 2.
    #[schemars(range(min = 1))]
    pub wait_multiplier: f64,
    /// The longest wait that comes from multiplying. Default 10 minutes.
    pub max_wait_duration_in_open_state: Millis,
    /// How much a wait is made longer or shorter by chance, as a share of it. Default 0.1.
    pub wait_jitter: Probability,
    /// Attempts are counted from 1 again after the breaker was closed for this long. Default 5 minutes.
    pub stable_duration: Millis,
    /// A probe without a result for this long says nothing, and another one may be made. At least 1 ms.
    /// Default 65 s: the usual total timeout and 5 s.
    pub probe_lease: Millis,
    /// After how many probes without a verdict, while half open, an active probe is asked for, and only one call for each
    /// `probe_interval` is admitted. Default: three times the permitted number.
    #[schemars(range(min = 1))]
    pub max_inconclusive: Option<u32>,
    /// The time between two probes after that, at least 1 ms. Default 10 s.
    pub probe_interval: Millis,
    /// After the breaker has closed by itself, the share of admitted calls grows from a tenth to all in ten steps over this
    /// time. Default 10 s. 0: all at once.
    pub ramp_duration: Millis,
    /// Whether a rate-limited call counts as a failure. Default `never`.
    pub count_rate_limited: CountRateLimited,
    /// How long a rate-limited provider is left alone if it does not say how long. Default 5 s.
    pub cool_down: Millis,
    /// The longest wait that a provider can ask for. Default 1 h.
    pub max_cool_down: Millis,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self {
            failure_rate_threshold: 50.0,
            slow_call_rate_threshold: 50.0,
            slow_call_duration_threshold: Millis(30_000),
            sliding_window_type: SlidingWindowType::CountBased,
            sliding_window_size: 10,
            minimum_number_of_calls: 5,
            permitted_number_of_calls_in_half_open_state: 5,
            wait_duration_in_open_state: WaitDuration::Fixed(Millis(60_000)),
            max_wait_duration_in_half_open_state: Millis(0),
            transition_to_state_after_wait_duration: State::Open,
            automatic_transition_from_open_to_half_open_enabled: false,
            initial_state: State::Closed,
            record_outcomes: None,
            ignore_outcomes: BTreeSet::new(),
            transition_on_result: [Class::Quota, Class::Auth].map(|class| (class, Millis(1_800_000))).into(),
            semantics: Semantics::Strict,
            kind: Kind::FailureRate,
            consecutive_failures: 5,
            consecutive_successes: 2,
            minimum_number_of_calls_in_half_open_state: None,
            slow_call_duration: SlowCallDuration::FirstContent,
            in_flight_overdue: true,
            wait_multiplier: 2.0,
            max_wait_duration_in_open_state: Millis(600_000),
            wait_jitter: Probability::of(0.1),
            stable_duration: Millis(300_000),
            probe_lease: Millis(65_000),
            max_inconclusive: None,
            probe_interval: Millis(10_000),
            ramp_duration: Millis(10_000),
            count_rate_limited: CountRateLimited::Never,
            cool_down: Millis(5_000),
            max_cool_down: Millis(3_600_000),
        }
    }
}

impl BreakerConfig {
    /// The semantics and the defaults of resilience4j.
    #[must_use]
    pub fn resilience4j() -> Self {
        Self {
            slow_call_rate_threshold: 100.0,
            slow_call_duration_threshold: Millis(60_000),
            sliding_window_size: 100,
            minimum_number_of_calls: 100,
            permitted_number_of_calls_in_half_open_state: 10,
            transition_on_result: BTreeMap::new(),
            semantics: Semantics::R4j,
            ..Self::default()
        }
    }

    pub(super) fn is_strict(&self) -> bool {
        self.semantics == Semantics::Strict
    }

    /// How many results of probes there are at a verdict.
    pub(super) fn half_open_minimum(&self) -> u32 {
        let permitted = self.permitted_number_of_calls_in_half_open_state;
        match self.semantics {
            Semantics::Strict => {
                self.minimum_number_of_calls_in_half_open_state.unwrap_or(permitted).min(permitted)
            }
            Semantics::R4j => self.minimum_number_of_calls.min(permitted),
        }
    }

    pub(super) fn inconclusive_limit(&self) -> u32 {
        let default = || self.permitted_number_of_calls_in_half_open_state.saturating_mul(3);
        self.max_inconclusive.unwrap_or_else(default)
    }

    /// How long the breaker is open at this attempt, from 1 on. `roll` decides about the jitter.
    pub(super) fn wait(&self, attempt: u32, roll: f64) -> Duration {
        let index = attempt.max(1) - 1;
        let (first, grows) = match &self.wait_duration_in_open_state {
            WaitDuration::Fixed(wait) => (*wait, self.is_strict()),
            WaitDuration::ByAttempt(waits) => {
                let at = waits.get(index as usize).or_else(|| waits.last());
                (at.copied().unwrap_or_default(), false)
            }
        };
        let mut wait = Duration::from(first);
        if grows && index > 0 {
            let cap = wait.max(self.max_wait_duration_in_open_state.into());
            let factor = self.wait_multiplier.powi(index.min(64).cast_signed());
            let grown = Duration::try_from_secs_f64(wait.as_secs_f64() * factor);
            wait = grown.map_or(cap, |grown| grown.min(cap));
        }
        let jitter = self.wait_jitter.get() * (2.0 * roll - 1.0);
        if self.is_strict() && jitter != 0.0 {
            wait = wait.mul_f64((1.0 + jitter).clamp(0.0, 2.0));
        }
        wait
    }
}
