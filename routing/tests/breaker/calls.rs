//! Calls that end in another state than they began in, and overdue ones.

use aconite_dialects::units::Millis;
use aconite_routing::breaker::{EventKind, Role, SlowCallDuration, State, Verdict};

use super::*;

/// A breaker that is half open, `late` calls from before it opened, and its first probe.
fn with_late_calls(semantics: Semantics, late: usize) -> (Bench, Vec<Ticket>, Ticket) {
    let mut bench = Bench::new(settings(semantics, 10, 3, 50.0));
    let tickets = (0..late).map(|_| bench.acquire()).collect();
    bench.breaker.transition_to(State::Open, bench.now).unwrap();
    bench.wait(10_001);
    let probe = bench.acquire();
    assert_eq!(bench.state(), State::HalfOpen);
    bench.events();
    (bench, tickets, probe)
}

#[test]
fn t_15_a_late_success_never_ends_open() {
    for semantics in BOTH {
        let mut bench = Bench::new(settings(semantics, 4, 4, 50.0));
        let late: Vec<_> = (0..4).map(|_| bench.acquire()).collect();
        bench.calls(4, failure());
        late.into_iter().for_each(|ticket| bench.end(ticket, success()));
        assert_eq!(bench.state(), State::Open);
        let rate = if semantics == Semantics::R4j { 0.0 } else { 100.0 };
        assert_eq!(bench.metrics().failure_rate, rate, "strict leaves the window as it was when it opened");
    }
}

#[test]
fn t_16_a_late_failure_half_open() {
    for (semantics, state) in [(Semantics::R4j, State::Open), (Semantics::Strict, State::HalfOpen)] {
        let (mut bench, late, _probe) = with_late_calls(semantics, 3);
        late.into_iter().for_each(|ticket| bench.end(ticket, failure()));
        assert_eq!(bench.state(), state);
        if semantics == Semantics::Strict {
            assert_eq!(bench.metrics().buffered, 0);
            assert_eq!(bench.breaker.counters().late_failures, 3);
            assert_eq!(bench.events(), [EventKind::Late { verdict: Verdict::Failure }; 3]);
        }
    }
}

#[test]
fn t_17_a_late_success_half_open() {
    for (semantics, state) in [(Semantics::R4j, State::Closed), (Semantics::Strict, State::HalfOpen)] {
        let (mut bench, late, _probe) = with_late_calls(semantics, 3);
        late.into_iter().for_each(|ticket| bench.end(ticket, success()));
        assert_eq!(bench.state(), state);
        let expected = if semantics == Semantics::Strict { 3 } else { 0 };
        assert_eq!(bench.breaker.counters().late_successes, expected);
    }
}

#[test]
fn t_18_a_late_ignored_call_half_open() {
    for (semantics, admitted) in [(Semantics::R4j, true), (Semantics::Strict, false)] {
        let (mut bench, late, _probe) = with_late_calls(semantics, 1);
        let _others = [bench.acquire(), bench.acquire()];
        assert_eq!(bench.reason(), Reason::ProbesInFlight);
        late.into_iter().for_each(|ticket| bench.end(ticket, with(Verdict::Ignored)));
        assert_eq!(bench.try_acquire().is_ok(), admitted);
    }
}

#[test]
fn t_20_permits_that_nobody_took_are_released() {
    for (semantics, expected) in [(Semantics::R4j, 10), (Semantics::Strict, 0)] {
        let (mut bench, _, _probe) = with_late_calls(semantics, 0);
        let _others = [bench.acquire(), bench.acquire()];
        for _ in 0..10 {
            bench.breaker.release(Ticket::unasked(), bench.now);
        }
        let admitted = (0..20).filter(|_| bench.try_acquire().is_ok()).count();
        assert_eq!(admitted, expected);
    }
}

#[test]
fn a_probe_that_ends_after_the_verdict_is_late() {
    for (semantics, state) in [(Semantics::R4j, State::Open), (Semantics::Strict, State::Closed)] {
        let config = BreakerConfig {
            minimum_number_of_calls: 1,
            minimum_number_of_calls_in_half_open_state: (semantics == Semantics::Strict).then_some(1),
            ..settings(semantics, 10, 1, 50.0)
        };
        let (mut bench, probe) = Bench::half_open(config);
        let second = bench.acquire();
        bench.end(probe, success());
        assert_eq!(bench.state(), State::Closed);
        bench.end(second, failure());
        assert_eq!(bench.state(), state);
    }
}

#[test]
fn each_entry_into_a_state_is_an_epoch() {
    let mut bench = Bench::new(settings(Semantics::Strict, 10, 1, 50.0));
    let late = bench.acquire();
    assert_eq!(late.role(), Role::Normal);
    bench.breaker.transition_to(State::Closed, bench.now).unwrap();
    bench.end(late, failure());
    assert_eq!((bench.state(), bench.metrics().buffered), (State::Closed, 0));
}

/// Also where the breaker keeps no list of the calls in flight.
#[test]
fn late_calls_are_known_by_their_epoch_alone() {
    let untracked = BreakerConfig { in_flight_overdue: false, ..settings(Semantics::Strict, 10, 1, 50.0) };
    let disabled =
        BreakerConfig { initial_state: State::Disabled, ..settings(Semantics::Strict, 10, 1, 50.0) };
    for config in [untracked, disabled] {
        let mut bench = Bench::new(config);
        let late = bench.acquire();
        bench.breaker.transition_to(State::Closed, bench.now).unwrap();
        bench.end(late, failure());
        bench.end(Ticket::unasked(), failure());
        assert_eq!((bench.state(), bench.metrics().buffered), (State::Closed, 0));
        assert_eq!(bench.breaker.counters().late_failures, 2);
    }
}

fn overdue(minimum: u32) -> BreakerConfig {
    BreakerConfig {
        slow_call_duration_threshold: Millis(5_000),
        slow_call_rate_threshold: 50.0,
        ..settings(Semantics::Strict, 10, minimum, 50.0)
    }
}

#[test]
fn t_60_hung_calls_open_at_the_slow_threshold() {
    let mut bench = Bench::new(overdue(5));
    let hung: Vec<_> = (0..10).map(|_| bench.acquire()).collect();
    let deadline = bench.breaker.next_deadline().unwrap();
    assert_eq!(deadline, bench.now + ms(5_000) + Duration::from_nanos(1));
    bench.wait(5_000);
    assert_eq!((bench.state(), bench.metrics().overdue), (State::Closed, 0));
    bench.events();
    bench.breaker.advance(deadline);
    bench.now = deadline;
    assert_eq!(bench.state(), State::Open);
    assert_eq!(
        bench.events(),
        [EventKind::SlowCallRateExceeded { rate: 100.0 }, moved(State::Closed, State::Open)]
    );
    assert_eq!(bench.breaker.next_deadline(), None);
    drop(hung);
}

#[test]
fn hung_calls_are_seen_by_a_breaker_that_records_metrics_only() {
    let mut bench = Bench::new(BreakerConfig { initial_state: State::MetricsOnly, ..overdue(5) });
    let _hung: Vec<_> = (0..5).map(|_| bench.acquire()).collect();
    bench.wait(5_001);
    assert_eq!((bench.state(), bench.metrics().overdue), (State::MetricsOnly, 5));
    assert_eq!(bench.events(), [EventKind::SlowCallRateExceeded { rate: 100.0 }]);
}

#[test]
fn an_overdue_call_counts_once_and_no_longer_once_it_ends() {
    let mut bench = Bench::new(overdue(5));
    bench.calls(2, success());
    let hung: Vec<_> = (0..2).map(|_| bench.acquire()).collect();
    bench.wait(5_001);
    assert_eq!((bench.state(), bench.metrics().overdue), (State::Closed, 2), "four of a minimum of five");
    let mut hung = hung.into_iter();
    let (cancelled, slow) = (hung.next().unwrap(), hung.next().unwrap());
    bench.end(cancelled, with(Verdict::Cancelled));
    assert_eq!(bench.metrics().overdue, 1);
    bench.end(slow, Report::new(Verdict::Success, ms(6_000)));
    assert_eq!((bench.metrics().overdue, bench.metrics().slow, bench.metrics().buffered), (0, 1, 3));
    bench.calls(7, success());
    assert_eq!(bench.state(), State::Closed);
}

#[test]
fn overdue_calls_do_not_lower_the_failure_rate() {
    let mut bench = Bench::new(BreakerConfig { slow_call_rate_threshold: 100.0, ..overdue(5) });
    let _hung = [bench.acquire(), bench.acquire()];
    bench.wait(5_001);
    bench.calls(2, success());
    bench.calls(2, failure());
    assert_eq!(bench.state(), State::Closed, "four calls of a minimum of five have a result");
    bench.call(failure());
    assert_eq!(bench.state(), State::Open);
}

#[test]
fn a_call_with_content_is_not_overdue_unless_the_whole_call_is_measured() {
    for (measure, state) in
        [(SlowCallDuration::FirstContent, State::Closed), (SlowCallDuration::Total, State::Open)]
    {
        let mut bench = Bench::new(BreakerConfig { slow_call_duration: measure, ..overdue(1) });
        let ticket = bench.acquire();
        bench.wait(4_999);
        bench.breaker.first_content(&ticket, bench.now);
        bench.wait(60_000);
        assert_eq!(bench.state(), state);
    }
}

#[test]
fn overdue_calls_count_only_if_they_are_asked_to() {
    for config in
        [BreakerConfig { in_flight_overdue: false, ..overdue(1) }, settings(Semantics::R4j, 1, 1, 50.0)]
    {
        let mut bench = Bench::new(config);
        let _hung = bench.acquire();
        bench.wait(3_600_000);
        assert_eq!((bench.state(), bench.breaker.next_deadline()), (State::Closed, None));
    }
}
