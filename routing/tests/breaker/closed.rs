//! Windows, rates and the trip.

use aconite_dialects::units::Millis;
use aconite_routing::breaker::{EventKind, Kind, Report, SlidingWindowType, State, Verdict};

use super::*;

#[test]
fn t_01_no_rate_below_the_minimum() {
    for semantics in BOTH {
        let mut bench = Bench::new(settings(semantics, 10, 5, 50.0));
        bench.calls(4, failure());
        assert_eq!(bench.state(), State::Closed);
        assert_eq!(bench.metrics().failure_rate, -1.0);
    }
}

#[test]
fn t_02_opens_with_the_minimum() {
    for semantics in BOTH {
        let mut bench = Bench::new(settings(semantics, 10, 5, 50.0));
        assert_eq!(bench.failures_to_open(), 5);
        assert_eq!(bench.metrics().failure_rate, 100.0);
    }
}

#[test]
fn t_03_a_rate_equal_to_the_threshold_opens() {
    for semantics in BOTH {
        let mut bench = Bench::new(settings(semantics, 10, 5, 50.0));
        bench.calls(5, success());
        bench.calls(4, failure());
        assert_eq!((bench.state(), bench.metrics().failure_rate), (State::Closed, 100.0 * 4.0 / 9.0));
        bench.call(failure());
        assert_eq!((bench.state(), bench.metrics().failure_rate), (State::Open, 50.0));
    }
}

/// After a full window of successes.
fn after_successes(size: u32, minimum: u32, percent: f32, expected: usize) {
    for semantics in BOTH {
        let mut bench = Bench::new(settings(semantics, size, minimum, percent));
        bench.calls(size as usize, success());
        assert_eq!(bench.failures_to_open(), expected);
    }
}

#[test]
fn t_04_opens_at_the_fifth_failure_after_successes() {
    after_successes(10, 5, 50.0, 5);
}

#[test]
fn t_05_opens_at_the_sixth_with_60_percent() {
    after_successes(10, 5, 60.0, 6);
}

#[test]
fn t_06_opens_at_the_third_with_30_percent() {
    after_successes(10, 5, 30.0, 3);
}

#[test]
fn t_07_opens_at_the_tenth_of_a_window_of_20() {
    after_successes(20, 10, 50.0, 10);
}

#[test]
fn t_08_a_window_over_calls_limits_the_minimum() {
    for semantics in BOTH {
        assert_eq!(Bench::new(settings(semantics, 3, 100, 50.0)).failures_to_open(), 3);
    }
}

fn time_based(semantics: Semantics, seconds: u32, minimum: u32) -> BreakerConfig {
    BreakerConfig {
        sliding_window_type: SlidingWindowType::TimeBased,
        ..settings(semantics, seconds, minimum, 50.0)
    }
}

#[test]
fn t_09_a_window_over_time_does_not_limit_the_minimum() {
    for semantics in BOTH {
        let mut bench = Bench::new(time_based(semantics, 5, 100));
        bench.calls(50, failure());
        assert_eq!((bench.state(), bench.metrics().failure_rate), (State::Closed, -1.0));
        assert_eq!(bench.metrics().buffered, 50);
    }
}

#[test]
fn t_10_a_window_over_time_forgets() {
    for semantics in BOTH {
        let mut bench = Bench::new(time_based(semantics, 5, 2));
        bench.call(failure());
        bench.wait(4_900);
        assert_eq!(bench.metrics().failed, 1);
        bench.wait(200);
        assert_eq!(bench.metrics().failed, 0);
        bench.call(failure());
        assert_eq!(bench.state(), State::Closed, "one failure is left of two");
    }
}

#[test]
fn t_11_slow_is_longer_than_the_threshold() {
    for semantics in BOTH {
        let config =
            BreakerConfig { slow_call_duration_threshold: Millis(100), ..settings(semantics, 10, 10, 50.0) };
        let mut bench = Bench::new(config);
        bench.call(Report::new(Verdict::Success, ms(100)));
        assert_eq!(bench.metrics().slow, 0);
        bench.call(Report::new(Verdict::Success, ms(100) + Duration::from_nanos(1)));
        assert_eq!(bench.metrics().slow, 1);
    }
}

#[test]
fn t_12_a_slow_failure_counts_twice_and_slow_calls_alone_open() {
    for semantics in BOTH {
        let config = BreakerConfig { slow_call_rate_threshold: 50.0, ..settings(semantics, 4, 4, 50.0) };
        let mut bench = Bench::new(config);
        bench.calls(2, success());
        bench.call(Report::new(Verdict::Failure, ms(60_001)));
        assert_eq!((bench.metrics().failed, bench.metrics().slow), (1, 1));
        bench.call(Report::new(Verdict::Success, ms(60_001)));
        assert_eq!(bench.state(), State::Open);
        assert_eq!((bench.metrics().failure_rate, bench.metrics().slow_call_rate), (25.0, 50.0));
        let rates = |event: &EventKind| matches!(event, EventKind::FailureRateExceeded { .. });
        assert!(!bench.events().iter().any(rates));
    }
}

#[test]
fn t_55_both_rates_exceeded_and_one_transition() {
    for semantics in BOTH {
        let mut bench = Bench::new(settings(semantics, 2, 1, 50.0));
        bench.call(Report::new(Verdict::Failure, ms(60_001)));
        assert_eq!(
            bench.events(),
            [
                EventKind::Error { duration: ms(60_001) },
                EventKind::FailureRateExceeded { rate: 100.0 },
                EventKind::SlowCallRateExceeded { rate: 100.0 },
                moved(State::Closed, State::Open),
            ]
        );
    }
}

#[test]
fn consecutive_failures_open_and_a_success_begins_anew() {
    let config = BreakerConfig { kind: Kind::Consecutive, ..settings(Semantics::Strict, 10, 1, 1.0) };
    let mut bench = Bench::new(config);
    bench.calls(4, failure());
    bench.call(success());
    bench.calls(4, failure());
    assert_eq!(bench.state(), State::Closed, "the rate is far beyond its threshold, which does not count");
    bench.call(with(Verdict::Ignored));
    bench.events();
    bench.call(failure());
    assert_eq!(bench.state(), State::Open);
    assert!(bench.events().contains(&EventKind::ConsecutiveFailuresExceeded { failures: 5 }));
}

#[test]
fn consecutive_successes_of_probes_close_and_one_failure_opens() {
    let config = BreakerConfig { kind: Kind::Consecutive, ..settings(Semantics::Strict, 10, 1, 50.0) };
    let (mut bench, probe) = Bench::half_open(config.clone());
    bench.end(probe, success());
    assert_eq!(bench.state(), State::HalfOpen);
    bench.call(success());
    assert_eq!(bench.state(), State::Closed);

    let (mut bench, probe) = Bench::half_open(config);
    bench.end(probe, success());
    bench.call(failure());
    assert_eq!(bench.state(), State::Open);
}
