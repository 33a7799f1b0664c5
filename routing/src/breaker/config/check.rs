//! Which settings contradict each other, or can have no effect.

use aconite_dialects::{SpecError, units::Millis};

use crate::breaker::{BreakerConfig, Kind, Semantics, SlidingWindowType, State, WaitDuration};

/// The largest window.
const MAX_WINDOW: u32 = 1_000_000;
/// The largest number of probes.
const MAX_PROBES: u32 = 10_000;

/// Waits beyond a hundred years are mistakes, and cannot be added to a moment without care.
const MAX_TIME: Millis = Millis(100 * 366 * 86_400_000);

impl BreakerConfig {
    /// What is wrong. `path` is where this configuration is; empty if it is the root.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the fields.
    pub fn validate(&self, path: &str) -> Result<(), Vec<SpecError>> {
        let mut problems = Problems { path, found: Vec::new() };
        self.check_window(&mut problems);
        self.check_times(&mut problems);
        self.check_states(&mut problems);
        self.check_strict(&mut problems);
        if problems.found.is_empty() { Ok(()) } else { Err(problems.found) }
    }

    /// What works, but probably not as meant, with this many calls for each second. `path` is as in
    /// [`validate`](Self::validate).
    #[must_use]
    pub fn warnings(&self, calls_per_second: f64, path: &str) -> Vec<SpecError> {
        let mut problems = Problems { path, found: Vec::new() };
        let expected = calls_per_second * f64::from(self.sliding_window_size);
        if self.kind == Kind::FailureRate
            && self.sliding_window_type == SlidingWindowType::TimeBased
            && expected < f64::from(self.minimum_number_of_calls)
        {
            problems.add(
                "minimum_number_of_calls",
                &format!(
                    "with {calls_per_second} calls a second a window of {} s holds {expected:.1} calls, \
                     and {} are needed before the breaker can open",
                    self.sliding_window_size, self.minimum_number_of_calls,
                ),
                Some("make the window longer, or the minimum smaller"),
            );
        }
        for class in self.record_outcomes.iter().flatten() {
            if self.ignore_outcomes.contains(class) {
                let message = format!("{class} is in `ignore_outcomes` too, which wins");
                problems.add("record_outcomes", &message, Some("keep it in one of the lists"));
            }
        }
        problems.found
    }

    fn check_window(&self, problems: &mut Problems<'_>) {
        for (field, percent) in [
            ("failure_rate_threshold", self.failure_rate_threshold),
            ("slow_call_rate_threshold", self.slow_call_rate_threshold),
        ] {
            if !(percent > 0.0 && percent <= 100.0) {
                let message = format!("{percent} is not a percentage above 0 and up to 100");
                problems.add(
                    field,
                    &message,
                    Some("a breaker that never opens is in the state metrics_only"),
                );
            }
        }
        problems.range("sliding_window_size", self.sliding_window_size, MAX_WINDOW);
        problems.range("minimum_number_of_calls", self.minimum_number_of_calls, u32::MAX);
        problems.range(
            "permitted_number_of_calls_in_half_open_state",
            self.permitted_number_of_calls_in_half_open_state,
            MAX_PROBES,
        );
    }

    fn check_times(&self, problems: &mut Problems<'_>) {
        match &self.wait_duration_in_open_state {
            WaitDuration::Fixed(wait) => problems.positive("wait_duration_in_open_state", *wait),
            WaitDuration::ByAttempt(waits) => {
                if waits.is_empty() {
                    problems.add(
                        "wait_duration_in_open_state",
                        "the list has no wait",
                        Some("give one wait for each attempt; the last one repeats"),
                    );
                }
                for (index, wait) in waits.iter().enumerate() {
                    problems.positive(&format!("wait_duration_in_open_state[{index}]"), *wait);
                }
                if self.wait_multiplier != Self::default().wait_multiplier {
                    problems.add(
                        "wait_multiplier",
                        "waits by attempt are not multiplied",
                        Some("give one wait that grows, or all waits"),
                    );
                }
            }
        }
        problems.positive("slow_call_duration_threshold", self.slow_call_duration_threshold);
        problems.limited("max_wait_duration_in_half_open_state", self.max_wait_duration_in_half_open_state);
        for (class, wait) in &self.transition_on_result {
            problems.positive(&format!("transition_on_result.{class}"), *wait);
        }
    }

    fn check_states(&self, problems: &mut Problems<'_>) {
        if !matches!(self.transition_to_state_after_wait_duration, State::Open | State::Closed) {
            let message = format!(
                "a breaker that stays half open for too long cannot become {}",
                self.transition_to_state_after_wait_duration
            );
            problems.add("transition_to_state_after_wait_duration", &message, Some("use open or closed"));
        }
    }

    fn check_strict(&self, problems: &mut Problems<'_>) {
        if self.semantics == Semantics::R4j {
            self.check_unused(problems);
            return;
        }
        let permitted = self.permitted_number_of_calls_in_half_open_state;
        problems.range("consecutive_failures", self.consecutive_failures, u32::MAX);
        if self.kind == Kind::Consecutive {
            problems.range("consecutive_successes", self.consecutive_successes, permitted);
        }
        if let Some(minimum) = self.minimum_number_of_calls_in_half_open_state {
            problems.range("minimum_number_of_calls_in_half_open_state", minimum, permitted);
        }
        if !(self.wait_multiplier >= 1.0 && self.wait_multiplier <= 1_000.0) {
            let message = format!("{} is not a factor between 1 and 1000", self.wait_multiplier);
            problems.add("wait_multiplier", &message, None);
        }
        if let Some(limit) = self.max_inconclusive {
            problems.range("max_inconclusive", limit, u32::MAX);
        }
        problems.positive("max_wait_duration_in_open_state", self.max_wait_duration_in_open_state);
        problems.positive("probe_lease", self.probe_lease);
        problems.positive("probe_interval", self.probe_interval);
        problems.positive("max_cool_down", self.max_cool_down);
        for (field, time) in [
            ("stable_duration", self.stable_duration),
            ("ramp_duration", self.ramp_duration),
            ("cool_down", self.cool_down),
        ] {
            problems.limited(field, time);
        }
        if self.cool_down > self.max_cool_down {
            let message =
                format!("{} is longer than `max_cool_down`, {}", self.cool_down, self.max_cool_down);
            problems.add("cool_down", &message, None);
        }
    }

    /// resilience4j has none of these settings, so that whoever sets one expects what does not happen.
    fn check_unused(&self, problems: &mut Problems<'_>) {
        let default = Self::default();
        for (field, is_default) in [
            ("kind", self.kind == default.kind),
            ("consecutive_failures", self.consecutive_failures == default.consecutive_failures),
            ("consecutive_successes", self.consecutive_successes == default.consecutive_successes),
            (
                "minimum_number_of_calls_in_half_open_state",
                self.minimum_number_of_calls_in_half_open_state.is_none(),
            ),
            ("slow_call_duration", self.slow_call_duration == default.slow_call_duration),
            ("in_flight_overdue", self.in_flight_overdue == default.in_flight_overdue),
            ("wait_multiplier", self.wait_multiplier == default.wait_multiplier),
            (
                "max_wait_duration_in_open_state",
                self.max_wait_duration_in_open_state == default.max_wait_duration_in_open_state,
            ),
            ("wait_jitter", self.wait_jitter == default.wait_jitter),
            ("stable_duration", self.stable_duration == default.stable_duration),
            ("probe_lease", self.probe_lease == default.probe_lease),
            ("max_inconclusive", self.max_inconclusive.is_none()),
            ("probe_interval", self.probe_interval == default.probe_interval),
            ("ramp_duration", self.ramp_duration == default.ramp_duration),
            ("count_rate_limited", self.count_rate_limited == default.count_rate_limited),
            ("cool_down", self.cool_down == default.cool_down),
            ("max_cool_down", self.max_cool_down == default.max_cool_down),
        ] {
            if !is_default {
                let hint = "leave it out, or set `semantics` to `strict`";
                problems.add(field, "has no effect with the semantics of resilience4j", Some(hint));
            }
        }
    }
}

struct Problems<'p> {
    path: &'p str,
    found: Vec<SpecError>,
}

impl Problems<'_> {
    fn add(&mut self, field: &str, message: &str, hint: Option<&str>) {
        let error = SpecError::new(field, message);
        let error = if self.path.is_empty() { error } else { error.within(self.path) };
        self.found.push(match hint {
            Some(hint) => error.hint(hint),
            None => error,
        });
    }

    fn range(&mut self, field: &str, number: u32, max: u32) {
        if number == 0 {
            self.add(field, "0 is too few: it is at least 1", None);
        } else if number > max {
            self.add(field, &format!("{number} is more than {max}"), None);
        }
    }

    fn positive(&mut self, field: &str, time: Millis) {
        if time == Millis(0) {
            self.add(field, "0 is not a length of time: it is at least 1ms", None);
        }
        self.limited(field, time);
    }

    fn limited(&mut self, field: &str, time: Millis) {
        if time > MAX_TIME {
            self.add(field, &format!("{time} is longer than a hundred years"), None);
        }
    }
}
