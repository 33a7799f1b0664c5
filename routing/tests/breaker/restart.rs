//! New settings, and a new process.

use aconite_dialects::units::Millis;
use aconite_routing::breaker::{Reason, SlidingWindowType, Snapshot, State};

use super::*;

#[test]
fn t_51_new_thresholds_keep_the_window() {
    for semantics in BOTH {
        let config = settings(semantics, 10, 5, 100.0);
        let mut bench = Bench::new(config.clone());
        bench.call(success());
        bench.calls(4, failure());
        bench
            .breaker
            .reconfigure(BreakerConfig { failure_rate_threshold: 60.0, ..config.clone() }, bench.now)
            .unwrap();
        assert_eq!((bench.state(), bench.metrics().failed, bench.metrics().buffered), (State::Closed, 4, 5));
        bench.call(failure());
        assert_eq!(bench.state(), State::Open, "by the new threshold");
        let until = bench.breaker.status(bench.now).open_until;
        let longer = WaitDuration::Fixed(Millis(90_000));
        bench
            .breaker
            .reconfigure(BreakerConfig { wait_duration_in_open_state: longer, ..config }, bench.now)
            .unwrap();
        assert_eq!(bench.breaker.status(bench.now).open_until, until, "a wait that has begun");
    }
}

#[test]
fn a_window_of_another_kind_or_size_is_empty() {
    for semantics in BOTH {
        let config = settings(semantics, 10, 5, 100.0);
        let time = BreakerConfig { sliding_window_type: SlidingWindowType::TimeBased, ..config.clone() };
        let size = BreakerConfig { sliding_window_size: 11, ..config.clone() };
        for other in [time, size] {
            let mut bench = Bench::new(config.clone());
            bench.calls(4, failure());
            bench.breaker.reconfigure(other, bench.now).unwrap();
            assert_eq!((bench.state(), bench.metrics().buffered), (State::Closed, 0));
        }
    }
}

#[test]
fn t_52_new_settings_make_calls_in_flight_late() {
    let config = settings(Semantics::Strict, 10, 5, 50.0);
    let (mut bench, probe) = Bench::half_open(config.clone());
    let _others = [bench.acquire(), bench.acquire()];
    bench.breaker.reconfigure(config.clone(), bench.now).unwrap();
    assert_eq!(bench.reason(), Reason::ProbesInFlight, "the same settings change nothing");
    bench.breaker.reconfigure(BreakerConfig { failure_rate_threshold: 60.0, ..config }, bench.now).unwrap();
    bench.end(probe, failure());
    assert_eq!((bench.state(), bench.metrics().buffered), (State::HalfOpen, 0));
    assert_eq!(bench.breaker.counters().late_failures, 1);
    bench.calls(3, success());
    assert_eq!(bench.state(), State::Closed, "all permits are there again");
}

#[test]
fn wrong_settings_change_nothing() {
    let config = settings(Semantics::Strict, 10, 5, 50.0);
    let mut bench = Bench::new(config.clone());
    let wrong = BreakerConfig { sliding_window_size: 0, ..config.clone() };
    assert!(bench.breaker.reconfigure(wrong, bench.now).is_err());
    assert_eq!(bench.breaker.config(), &config);
}

#[test]
fn a_timer_can_be_switched_on_in_its_state() {
    let config = settings(Semantics::Strict, 10, 5, 50.0);
    let mut bench = Bench::opened(config.clone());
    bench.wait(4_000);
    let automatic =
        BreakerConfig { automatic_transition_from_open_to_half_open_enabled: true, ..config.clone() };
    bench.breaker.reconfigure(automatic, bench.now).unwrap();
    assert_eq!(bench.breaker.next_deadline(), Some(bench.now + ms(6_000)));

    let (mut bench, _probe) = Bench::half_open(config.clone());
    bench.wait(4_000);
    let limited = BreakerConfig { max_wait_duration_in_half_open_state: Millis(6_000), ..config };
    bench.breaker.reconfigure(limited, bench.now).unwrap();
    assert_eq!(bench.breaker.next_deadline(), Some(bench.now + ms(2_000)));
}

/// Restored in a process whose clock has just begun.
fn restored(config: &BreakerConfig, snapshot: &Snapshot, age: u64) -> Bench {
    let json = serde_json::to_string(snapshot).unwrap();
    let snapshot = serde_json::from_str(&json).unwrap();
    let now = ms(3);
    Bench { breaker: Breaker::restore(config.clone(), &snapshot, ms(age), now).unwrap(), now }
}

#[test]
fn a_snapshot_keeps_the_rest_of_the_wait() {
    let config = settings(Semantics::Strict, 10, 5, 50.0);
    let mut bench = Bench::new(config.clone());
    bench.calls(5, failure());
    bench.wait(4_000);
    let snapshot = bench.breaker.snapshot(bench.now);
    assert_eq!(snapshot.state(), State::Open);
    let mut after = restored(&config, &snapshot, 1_000);
    assert_eq!((after.state(), after.metrics().failed, after.metrics().attempts), (State::Open, 5, 1));
    after.wait(5_000);
    assert_eq!(after.reason(), Reason::Open);
    after.wait(1);
    let _probe = after.acquire();
}

#[test]
fn a_snapshot_that_is_older_than_the_wait_is_forgotten() {
    let config = settings(Semantics::Strict, 10, 5, 50.0);
    for state in State::ALL {
        let initial = BreakerConfig { initial_state: state, ..config.clone() };
        let bench = Bench::new(initial);
        let snapshot = bench.breaker.snapshot(bench.now);
        assert_eq!(restored(&config, &snapshot, 9_999).state(), state);
        assert_eq!(restored(&config, &snapshot, 10_000).state(), State::Closed);
    }
}

#[test]
fn a_cool_down_outlives_the_process() {
    let config = settings(Semantics::Strict, 10, 5, 50.0);
    let mut bench = Bench::new(config.clone());
    bench.report(&limited(Some(8)));
    let snapshot = bench.breaker.snapshot(bench.now);
    let mut after = restored(&config, &snapshot, 3_000);
    after.wait(5_000);
    assert_eq!(after.reason(), Reason::CoolDown);
    after.wait(1);
    let _call = after.acquire();
}

#[test]
fn a_snapshot_of_other_settings_is_taken_as_far_as_it_fits() {
    let count = settings(Semantics::Strict, 10, 5, 50.0);
    let mut bench = Bench::new(count.clone());
    bench.calls(2, failure());
    bench.calls(2, success());
    let snapshot = bench.breaker.snapshot(bench.now);
    let smaller = BreakerConfig { sliding_window_size: 3, ..count.clone() };
    let after = restored(&smaller, &snapshot, 0).metrics();
    assert_eq!((after.buffered, after.failed), (3, 1), "the last calls");
    let time = BreakerConfig { sliding_window_type: SlidingWindowType::TimeBased, ..count };
    assert_eq!(restored(&time, &snapshot, 0).metrics().buffered, 0);
}

#[test]
fn a_cool_down_ends_with_the_semantics_of_resilience4j() {
    let mut bench = Bench::new(settings(Semantics::Strict, 10, 5, 50.0));
    bench.report(&limited(Some(60)));
    bench.breaker.reconfigure(settings(Semantics::R4j, 10, 5, 50.0), bench.now).unwrap();
    let _call = bench.acquire();
}
