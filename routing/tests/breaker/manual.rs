//! What operators do.

use aconite_dialects::units::Millis;
use aconite_routing::breaker::{EventKind, IllegalTransition, Reason, State, Verdict};

use super::*;

fn in_state(semantics: Semantics, state: State) -> Bench {
    Bench::new(BreakerConfig { initial_state: state, ..settings(semantics, 10, 5, 50.0) })
}

#[test]
fn t_31_leaving_a_state_cancels_its_timer() {
    for semantics in BOTH {
        let config = BreakerConfig {
            automatic_transition_from_open_to_half_open_enabled: true,
            max_wait_duration_in_half_open_state: Millis(5_000),
            ..settings(semantics, 10, 5, 50.0)
        };
        for end in [State::Closed, State::ForcedOpen, State::Disabled] {
            for wait in [0, 10_000] {
                let mut bench = Bench::opened(config.clone());
                bench.wait(wait);
                bench.breaker.transition_to(end, bench.now).unwrap();
                assert_eq!(bench.breaker.next_deadline(), None);
                bench.wait(20_000);
                assert_eq!(bench.state(), end);
            }
        }
        let mut bench = Bench::opened(config.clone());
        bench.wait(9_000);
        bench.breaker.reset(bench.now);
        assert_eq!(bench.breaker.next_deadline(), None);
        bench.breaker.transition_to(State::Open, bench.now).unwrap();
        bench.wait(9_999);
        assert_eq!(bench.state(), State::Open, "the first wait ended long ago");
    }
}

#[test]
fn t_32_which_state_may_follow_which() {
    let illegal = [
        (State::Closed, State::HalfOpen),
        (State::MetricsOnly, State::Open),
        (State::MetricsOnly, State::HalfOpen),
    ];
    for semantics in BOTH {
        for from in State::ALL {
            for to in State::ALL {
                let mut bench = in_state(semantics, from);
                let result = bench.breaker.transition_to(to, bench.now);
                if illegal.contains(&(from, to)) {
                    assert_eq!(result, Err(IllegalTransition { from, to }));
                    assert_eq!((bench.state(), bench.events()), (from, vec![]));
                } else {
                    assert_eq!((result, bench.state()), (Ok(()), to));
                    let expected = if from == to { vec![] } else { vec![moved(from, to)] };
                    assert_eq!(bench.events(), expected, "{from} {to}");
                }
            }
        }
        let mut bench = in_state(semantics, State::MetricsOnly);
        assert!(bench.breaker.open_for(ms(1), bench.now).is_err());
        assert!(bench.breaker.open_until(ms(1), bench.now).is_err());
    }
}

#[test]
fn t_33_metrics_only_tells_once() {
    for semantics in BOTH {
        let mut bench = in_state(semantics, State::MetricsOnly);
        bench.calls(20, Report::new(Verdict::Failure, ms(60_001)));
        assert_eq!((bench.state(), bench.metrics().failure_rate), (State::MetricsOnly, 100.0));
        let events = bench.events();
        let count = |wanted: fn(&EventKind) -> bool| events.iter().filter(|event| wanted(event)).count();
        assert_eq!(count(|event| matches!(event, EventKind::FailureRateExceeded { .. })), 1);
        assert_eq!(count(|event| matches!(event, EventKind::SlowCallRateExceeded { .. })), 1);
        assert_eq!(count(|event| matches!(event, EventKind::Error { .. })), 20);
    }
}

#[test]
fn t_34_disabled_is_silent() {
    for semantics in BOTH {
        let mut bench = in_state(semantics, State::Disabled);
        bench.calls(20, failure());
        bench.calls(20, with(Verdict::Ignored));
        assert_eq!((bench.state(), bench.events()), (State::Disabled, vec![]));
        assert_eq!((bench.metrics().buffered, bench.metrics().failure_rate), (0, -1.0));
    }
}

#[test]
fn t_35_forced_open_counts_refusals_in_silence() {
    for semantics in BOTH {
        let mut bench = in_state(semantics, State::ForcedOpen);
        for count in 1..=3 {
            let denied = bench.try_acquire().unwrap_err();
            assert_eq!((denied.reason, denied.retry_at), (Reason::ForcedOpen, None));
            assert_eq!(bench.metrics().not_permitted, count);
        }
        bench.wait(86_400_000);
        assert_eq!(bench.reason(), Reason::ForcedOpen);
        assert_eq!(bench.events(), []);
        assert_eq!(bench.breaker.available_at(bench.now), None);
    }
}

#[test]
fn t_36_reset_tells_the_transition_first() {
    for semantics in BOTH {
        let mut bench = Bench::opened(settings(semantics, 10, 5, 50.0));
        bench.breaker.reset(bench.now);
        assert_eq!(bench.events(), [moved(State::Open, State::Closed), EventKind::Reset]);
        bench.call(failure());
        bench.events();
        bench.breaker.reset(bench.now);
        assert_eq!((bench.metrics().buffered, bench.events()), (0, vec![EventKind::Reset]));
    }
}

#[test]
fn an_operator_moves_the_end_of_open_and_strict_only_to_later() {
    for semantics in BOTH {
        let mut bench = Bench::opened(settings(semantics, 10, 5, 50.0));
        let until = |bench: &Bench| bench.breaker.status(bench.now).open_until.unwrap() - bench.now;
        bench.breaker.open_for(ms(20_000), bench.now).unwrap();
        assert_eq!(until(&bench), ms(20_000));
        bench.breaker.open_for(ms(5_000), bench.now).unwrap();
        let expected = if semantics == Semantics::R4j { 5_000 } else { 20_000 };
        assert_eq!(until(&bench), ms(expected));
        assert_eq!(bench.metrics().attempts, 1, "opening for a time is no attempt");
    }
}

#[test]
fn results_in_open_after_disabled_are_counted_in_an_empty_window() {
    for from in [State::Disabled, State::ForcedOpen] {
        let mut bench = in_state(Semantics::R4j, from);
        bench.breaker.transition_to(State::Open, bench.now).unwrap();
        bench.end(Ticket::unasked(), failure());
        assert_eq!((bench.state(), bench.metrics().failed), (State::Open, 1));
    }
}

#[test]
fn an_operator_who_closes_ends_the_cool_down_and_gets_all_calls() {
    let config = BreakerConfig { ramp_duration: Millis(10_000), ..settings(Semantics::Strict, 10, 5, 50.0) };
    for reset in [true, false] {
        let (mut bench, _probe) = Bench::half_open(config.clone());
        bench.report(&limited(Some(100)));
        assert_eq!(bench.reason(), Reason::CoolDown);
        if reset {
            bench.breaker.reset(bench.now);
        } else {
            bench.breaker.transition_to(State::Closed, bench.now).unwrap();
        }
        for roll in 0..100 {
            let roll = f64::from(roll) / 100.0;
            assert!(bench.breaker.try_acquire(aconite_routing::Now { moment: bench.now, roll }).is_ok());
        }
    }
}
