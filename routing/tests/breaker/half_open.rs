//! HALF_OPEN: permits, verdicts, leases, and what happens when probes say nothing.

use aconite_dialects::units::Millis;
use aconite_routing::breaker::{EventKind, Reason, Role, State, Verdict};

use super::*;

fn probes(semantics: Semantics, permitted: u32, minimum: u32) -> BreakerConfig {
    BreakerConfig {
        permitted_number_of_calls_in_half_open_state: permitted,
        ..settings(semantics, 10, minimum, 50.0)
    }
}

#[test]
fn t_21_how_many_results_decide() {
    for (semantics, state) in [(Semantics::R4j, State::Closed), (Semantics::Strict, State::HalfOpen)] {
        let (mut bench, probe) = Bench::half_open(probes(semantics, 5, 1));
        bench.end(probe, success());
        assert_eq!(bench.state(), state);
    }
    let config = BreakerConfig {
        minimum_number_of_calls_in_half_open_state: Some(2),
        ..probes(Semantics::Strict, 5, 1)
    };
    let (mut bench, probe) = Bench::half_open(config);
    bench.end(probe, success());
    assert_eq!(bench.state(), State::HalfOpen, "the second can still be a failure: 50 %");
    bench.call(success());
    assert_eq!(bench.state(), State::Closed);
}

#[test]
fn t_22_decides_once_the_others_cannot_change_it() {
    for (semantics, at) in [(Semantics::R4j, 5), (Semantics::Strict, 3)] {
        for (report, end) in [(failure(), State::Open), (success(), State::Closed)] {
            let (mut bench, probe) = Bench::half_open(probes(semantics, 5, 5));
            let mut tickets = vec![probe];
            tickets.extend((0..4).map(|_| bench.acquire()));
            for (count, ticket) in (1..).zip(tickets) {
                bench.end(ticket, report);
                assert_eq!(bench.state(), if count < at { State::HalfOpen } else { end }, "{count}");
            }
        }
    }
}

#[test]
fn slow_probes_open_as_early() {
    let (mut bench, probe) =
        Bench::half_open(BreakerConfig { slow_call_rate_threshold: 50.0, ..probes(Semantics::Strict, 5, 5) });
    bench.end(probe, Report::new(Verdict::Success, ms(60_001)));
    bench.call(Report::new(Verdict::Success, ms(60_001)));
    assert_eq!(bench.state(), State::HalfOpen);
    bench.call(Report::new(Verdict::Success, ms(60_001)));
    assert_eq!(bench.state(), State::Open);
}

#[test]
fn slow_probes_that_may_come_put_closing_off() {
    let (mut bench, probe) = Bench::half_open(BreakerConfig {
        failure_rate_threshold: 100.0,
        slow_call_rate_threshold: 50.0,
        ..probes(Semantics::Strict, 4, 4)
    });
    bench.end(probe, success());
    bench.call(success());
    assert_eq!(bench.state(), State::HalfOpen, "the other two can be slow: 50 %");
    bench.call(success());
    assert_eq!(bench.state(), State::Closed);
}

#[test]
fn t_23_opening_again_publishes_no_exceeded_rate() {
    for semantics in BOTH {
        let (mut bench, probe) = Bench::half_open(probes(semantics, 1, 1));
        bench.end(probe, failure());
        let error = EventKind::Error { duration: Duration::ZERO };
        assert_eq!(bench.events(), [error, moved(State::HalfOpen, State::Open)]);
    }
}

#[test]
fn t_24_probes_that_say_nothing_never_stick() {
    for verdict in [Verdict::Ignored, Verdict::Inconclusive, Verdict::Cancelled] {
        for semantics in BOTH {
            let (mut bench, probe) = Bench::half_open(probes(semantics, 3, 3));
            assert_eq!(probe.role(), Role::Probe);
            bench.end(probe, with(verdict));
            bench.calls(7, with(verdict));
            let wanted = |events: &[EventKind]| events.contains(&EventKind::ProbeWanted);
            assert!(!wanted(&bench.events()));
            bench.call(with(verdict));
            // resilience4j goes on without a limit.
            assert_eq!(wanted(&bench.events()), semantics == Semantics::Strict);
            for _ in 0..5 {
                if semantics == Semantics::Strict {
                    let denied = bench.try_acquire().unwrap_err();
                    assert_eq!(denied.reason, Reason::ProbeInterval);
                    assert_eq!(denied.retry_at, bench.breaker.available_at(bench.now));
                    bench.wait(9_999);
                    assert_eq!(bench.reason(), Reason::ProbeInterval);
                    bench.wait(1);
                }
                bench.call(with(verdict));
                assert!(!wanted(&bench.events()), "asked for once");
            }
            bench.wait(10_000);
            bench.call(success());
            bench.wait(10_000);
            bench.call(success());
            bench.wait(10_000);
            if semantics == Semantics::R4j {
                bench.call(success());
            }
            assert_eq!(bench.state(), State::Closed);
        }
    }
}

#[test]
fn max_inconclusive_can_be_set() {
    let config = BreakerConfig { max_inconclusive: Some(1), ..probes(Semantics::Strict, 3, 3) };
    let (mut bench, probe) = Bench::half_open(config);
    bench.end(probe, with(Verdict::Inconclusive));
    assert_eq!(bench.reason(), Reason::ProbeInterval);
}

#[test]
fn t_27_a_lease_ends() {
    let config = BreakerConfig { probe_lease: Millis(2_000), ..probes(Semantics::Strict, 1, 1) };
    let (mut bench, probe) = Bench::half_open(config);
    let until = bench.now + ms(2_000);
    assert_eq!(bench.breaker.next_deadline(), Some(until));
    bench.wait(1_999);
    let denied = bench.try_acquire().unwrap_err();
    assert_eq!((denied.reason, denied.retry_at), (Reason::ProbesInFlight, Some(until)));
    bench.events();
    bench.wait(1);
    assert_eq!(bench.events(), [EventKind::LeaseExpired, EventKind::Inconclusive]);
    let second = bench.acquire();
    assert_eq!(bench.reason(), Reason::ProbesInFlight, "one permit came back, not two");
    bench.end(probe, failure());
    assert_eq!(bench.state(), State::HalfOpen, "its result is late");
    assert_eq!(bench.reason(), Reason::ProbesInFlight, "and its permit is returned once");
    bench.end(second, success());
    assert_eq!(bench.state(), State::Closed);
}

#[test]
fn t_28_half_open_for_too_long() {
    for semantics in BOTH {
        for then in [State::Open, State::Closed] {
            let config = BreakerConfig {
                max_wait_duration_in_half_open_state: Millis(5_000),
                transition_to_state_after_wait_duration: then,
                ..probes(semantics, 3, 3)
            };
            let (mut bench, _probe) = Bench::half_open(config);
            bench.wait(4_999);
            assert_eq!(bench.state(), State::HalfOpen);
            bench.wait(1);
            assert_eq!(bench.state(), then);
        }
    }
}

#[test]
fn t_29_probes_that_hang_for_ever() {
    for (semantics, admitted) in [(Semantics::R4j, false), (Semantics::Strict, true)] {
        let (mut bench, _probe) = Bench::half_open(probes(semantics, 1, 1));
        bench.wait(86_400_000);
        assert_eq!(bench.state(), State::HalfOpen);
        assert_eq!(bench.try_acquire().is_ok(), admitted);
    }
}

#[test]
fn a_window_over_time_is_one_over_calls_half_open() {
    for semantics in BOTH {
        let config = BreakerConfig {
            sliding_window_type: aconite_routing::breaker::SlidingWindowType::TimeBased,
            ..probes(semantics, 3, 3)
        };
        let (mut bench, probe) = Bench::half_open(config);
        bench.end(probe, success());
        bench.wait(3_600_000);
        assert_eq!(bench.metrics().buffered, 1);
    }
}
