//! OPEN: its wait, its end, and who is told.

use aconite_dialects::units::Millis;
use aconite_routing::{
    Now,
    breaker::{Reason, State, WaitDuration},
};

use super::*;

#[test]
fn t_13_admits_after_the_wait_not_at_its_end() {
    for semantics in BOTH {
        let mut bench = Bench::opened(settings(semantics, 10, 5, 50.0));
        bench.wait(10_000);
        let denied = bench.try_acquire().unwrap_err();
        assert_eq!((denied.reason, denied.retry_at), (Reason::Open, Some(bench.now)));
        assert_eq!(bench.state(), State::Open);
        bench.wait(1);
        let _probe = bench.acquire();
        assert_eq!(bench.state(), State::HalfOpen);
    }
}

#[test]
fn t_14_refused_calls_are_counted_with_the_window_that_opened() {
    for semantics in BOTH {
        let mut bench = Bench::new(settings(semantics, 10, 5, 50.0));
        bench.calls(5, failure());
        for count in 1..=3 {
            assert_eq!(bench.reason(), Reason::Open);
            assert_eq!((bench.metrics().not_permitted, bench.metrics().failed), (count, 5));
        }
        bench.wait(10_001);
        let _probe = bench.acquire();
        assert_eq!(bench.metrics().not_permitted, 0, "a new window");
    }
}

#[test]
fn t_30_becomes_half_open_without_a_call() {
    for semantics in BOTH {
        let config = BreakerConfig {
            automatic_transition_from_open_to_half_open_enabled: true,
            ..settings(semantics, 10, 5, 50.0)
        };
        let mut bench = Bench::opened(config);
        let deadline = bench.now + ms(10_000);
        assert_eq!(bench.breaker.next_deadline(), Some(deadline));
        bench.wait(9_999);
        assert_eq!(bench.state(), State::Open);
        bench.wait(1);
        assert_eq!(bench.state(), State::HalfOpen, "at the deadline, unlike a call");
        assert_eq!(bench.breaker.drain_events().events[0].at, deadline);
    }
}

#[test]
fn t_37_a_router_that_asks_recovers_and_one_that_reads_is_told() {
    for semantics in BOTH {
        let mut bench = Bench::opened(settings(semantics, 10, 5, 50.0));
        for _ in 0..50 {
            assert!(!bench.breaker.status(bench.now).is_expired);
            bench.wait(200);
        }
        bench.wait(1);
        let before = format!("{:?}", bench.breaker);
        for _ in 0..50 {
            let status = bench.breaker.status(bench.now);
            assert_eq!((status.state, status.to_string()), (State::Open, "OPEN (expired)".to_owned()));
            let _ =
                (bench.metrics(), bench.breaker.available_at(bench.now), bench.breaker.snapshot(bench.now));
        }
        assert_eq!(format!("{:?}", bench.breaker), before, "reading changes nothing");
        let _probe = bench.acquire();
        assert_eq!(bench.breaker.status(bench.now).to_string(), "HALF_OPEN");
    }
}

#[test]
fn t_38_waits_by_attempt() {
    for semantics in BOTH {
        let waits = [1_000, 2_000, 3_000].map(Millis).to_vec();
        let config = BreakerConfig {
            wait_duration_in_open_state: WaitDuration::ByAttempt(waits),
            permitted_number_of_calls_in_half_open_state: 1,
            ..settings(semantics, 1, 1, 50.0)
        };
        let mut bench = Bench::new(config);
        for wait in [1_000, 2_000, 3_000, 3_000] {
            bench.call(failure());
            bench.wait(wait);
            assert_eq!(bench.reason(), Reason::Open, "{wait}");
            bench.wait(1);
        }
        bench.call(success());
        assert_eq!(bench.state(), State::Closed);
        // resilience4j counts from 1 again at once, strict after the breaker was closed for long enough.
        bench.wait(300_000);
        bench.call(failure());
        bench.wait(1_001);
        let _probe = bench.acquire();
    }
}

#[test]
fn attempts_go_on_after_a_short_recovery_with_strict_semantics() {
    for (semantics, wait) in [(Semantics::R4j, 10_000), (Semantics::Strict, 20_000)] {
        let config = BreakerConfig {
            permitted_number_of_calls_in_half_open_state: 1,
            ..settings(semantics, 1, 1, 50.0)
        };
        let mut bench = Bench::new(config);
        bench.call(failure());
        bench.wait(10_001);
        bench.call(success());
        bench.wait(299_999);
        bench.call(failure());
        bench.wait(wait);
        assert_eq!(bench.reason(), Reason::Open);
        bench.wait(1);
        let _probe = bench.acquire();
    }
}

#[test]
fn a_roll_makes_the_wait_longer_or_shorter_by_a_tenth() {
    for (roll, wait) in [(0.0, 9_000), (0.25, 9_500), (0.5, 10_000), (0.75, 10_500)] {
        let mut bench = Bench::new(settings(Semantics::Strict, 1, 1, 50.0));
        let ticket = bench.acquire();
        bench.breaker.record(ticket, failure(), Now { moment: bench.now, roll });
        assert_eq!(bench.breaker.status(bench.now).open_until, Some(bench.now + ms(wait)), "{roll}");
        let mut bench = Bench::new(settings(Semantics::R4j, 1, 1, 50.0));
        let ticket = bench.acquire();
        bench.breaker.record(ticket, failure(), Now { moment: bench.now, roll });
        assert_eq!(bench.breaker.status(bench.now).open_until, Some(bench.now + ms(10_000)));
    }
}

#[test]
fn t_48_moments_that_go_back_change_nothing() {
    for semantics in BOTH {
        let mut bench = Bench::new(settings(semantics, 10, 5, 50.0));
        bench.wait(3_600_000 * 2);
        bench.calls(5, failure());
        let before = bench.breaker.status(bench.now);
        for back in [3_600_000, 1] {
            let earlier = bench.now - ms(back);
            bench.breaker.advance(earlier);
            assert!(bench.breaker.try_acquire(earlier).is_err());
            assert_eq!(bench.breaker.status(bench.now), before);
        }
        bench.breaker.transition_to(State::Open, bench.now - ms(3_600_000)).unwrap();
        let until = bench.breaker.status(bench.now).open_until.unwrap();
        assert!(until >= bench.now + ms(10_000), "a wait that begins at an earlier moment begins now");
        let mut bench = Bench::opened(settings(semantics, 10, 5, 50.0));
        bench.breaker.advance(Duration::ZERO);
        bench.wait(10_000);
        assert_eq!(bench.reason(), Reason::Open, "the wait is as long as before");
        bench.wait(1);
        let _probe = bench.acquire();
    }
}

#[test]
fn an_open_breaker_that_nobody_asked_for_long_does_little() {
    for semantics in BOTH {
        let config = BreakerConfig {
            automatic_transition_from_open_to_half_open_enabled: true,
            max_wait_duration_in_half_open_state: Millis(1),
            wait_duration_in_open_state: WaitDuration::ByAttempt(vec![Millis(1)]),
            ..settings(semantics, 10, 5, 50.0)
        };
        let mut bench = Bench::opened(config);
        bench.wait(86_400_000);
        assert!(bench.events().len() < 100, "not one for each of 43 million cycles");
        assert!(bench.breaker.next_deadline().unwrap() > bench.now);
    }
}
