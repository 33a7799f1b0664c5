//! What a provider asks for, growing waits, and the way back to full load.

use aconite_dialects::{
    outcome::{Response, classify},
    units::Millis,
};
use aconite_routing::{
    Now,
    breaker::{EventKind, Reason, State, Verdict, WaitDuration},
    exhausted::{Choice, OnExhausted, choose},
};

use super::*;

fn strict() -> BreakerConfig {
    settings(Semantics::Strict, 10, 5, 50.0)
}

/// How long a closed breaker refuses calls after these rate limits, one a second.
fn cool_down(config: BreakerConfig, told: &[Outcome]) -> Duration {
    let mut bench = Bench::new(config);
    let tickets: Vec<_> = told.iter().map(|_| bench.acquire()).collect();
    let start = bench.now;
    for (ticket, outcome) in tickets.into_iter().zip(told) {
        bench.breaker.report(ticket, outcome, Duration::ZERO, bench.now);
        bench.wait(1_000);
    }
    let denied = bench.try_acquire().unwrap_err();
    assert_eq!((denied.reason, bench.state()), (Reason::CoolDown, State::Closed));
    let until = denied.retry_at.unwrap();
    assert_eq!(bench.breaker.status(bench.now).cool_down_until, Some(until));
    assert!(bench.breaker.try_acquire(until).is_err(), "at the moment itself it is too early");
    assert!(bench.breaker.try_acquire(until + ms(1)).is_ok());
    until - start
}

#[test]
fn t_45_a_shorter_wait_does_not_shorten_a_longer_one() {
    assert_eq!(cool_down(strict(), &[limited(Some(5)), limited(Some(1))]), ms(5_000));
    assert_eq!(cool_down(strict(), &[limited(Some(5)), limited(Some(9))]), ms(10_000), "a longer one counts");
}

#[test]
fn t_46_a_wait_until_a_moment_that_is_past() {
    let header = |name: &str| (name == "retry-after").then_some("Thu, 01 Jan 2015 00:00:00 GMT");
    let response = Response { status: 429, header: &header, body: b"", now: 1_800_000_000 };
    let outcome = classify(None, None, &response);
    assert_eq!((outcome.class, outcome.wait), (Class::Rate, Some(Duration::ZERO)));
    assert_eq!(cool_down(strict(), &[outcome]), ms(5_000));
    assert_eq!(cool_down(strict(), &[limited(None)]), ms(5_000));
}

#[test]
fn t_47_a_wait_of_thirty_years_is_capped() {
    assert_eq!(cool_down(strict(), &[limited(Some(1_000_000_000))]), ms(3_600_000));
    let config = BreakerConfig { max_cool_down: Millis(60_000), ..strict() };
    assert_eq!(cool_down(config, &[limited(Some(u64::MAX))]), ms(60_000));
}

#[test]
fn t_56_rate_limits_alone_cool_down_and_leave_the_window() {
    let mut bench = Bench::new(strict());
    bench.calls(5, success());
    let burst: Vec<_> = (0..20).map(|_| bench.acquire()).collect();
    bench.events();
    for ticket in burst {
        bench.breaker.report(ticket, &limited(Some(2)), Duration::ZERO, bench.now);
    }
    assert_eq!(
        (bench.state(), bench.metrics().failure_rate, bench.metrics().buffered),
        (State::Closed, 0.0, 5)
    );
    assert_eq!(bench.events(), [EventKind::CoolDown { until: bench.now + ms(2_000) }], "told once");
    assert_eq!(bench.breaker.counters().rate_limited, 20);
    assert_eq!(bench.reason(), Reason::CoolDown);

    let mut compat = Bench::new(settings(Semantics::R4j, 10, 5, 50.0));
    (0..5).for_each(|_| compat.report(&limited(Some(2))));
    assert_eq!(compat.state(), State::Open, "to resilience4j it is an exception like any other");
}

#[test]
fn a_rate_limited_probe_decides_nothing() {
    let (mut bench, probe) = Bench::half_open(strict());
    bench.breaker.report(probe, &limited(Some(7)), Duration::ZERO, bench.now);
    assert_eq!((bench.state(), bench.metrics().buffered), (State::HalfOpen, 0));
    assert_eq!(bench.reason(), Reason::CoolDown);
    bench.wait(7_001);
    bench.calls(3, success());
    assert_eq!(bench.state(), State::Closed);
}

#[test]
fn what_the_provider_asks_for_keeps_the_breaker_open() {
    for (seconds, expected) in [(90, 90_000), (3, 10_000), (1_000_000, 3_600_000)] {
        let mut bench = Bench::new(strict());
        let failing = Report { told_wait: Some(Duration::from_secs(seconds)), ..failure() };
        bench.calls(4, failing);
        let _ = bench.acquire();
        assert_eq!(bench.state(), State::Closed, "an error that names a wait is no cool-down");
        bench.call(failure());
        assert_eq!(bench.breaker.status(bench.now).open_until, Some(bench.now + ms(expected)));
    }
    let mut compat = Bench::new(settings(Semantics::R4j, 10, 5, 50.0));
    compat.calls(5, Report { told_wait: Some(ms(90_000)), ..failure() });
    assert_eq!(compat.breaker.status(compat.now).open_until, Some(compat.now + ms(10_000)));
}

#[test]
fn t_57_what_is_done_when_all_refuse() {
    let now = ms(50_000);
    let at = [Some(ms(90_000)), None, Some(ms(60_000))];
    let decide = |policy| choose(policy, &at, now, now);
    assert_eq!(decide(OnExhausted::Degrade), Choice::Degrade);
    assert_eq!(decide(OnExhausted::FailFast), Choice::Fail { retry_after: Some(ms(10_000)) });
    assert_eq!(decide(OnExhausted::LeastBad), Choice::Ask(2));
    assert_eq!(decide(OnExhausted::Queue(Millis(9_999))), Choice::Fail { retry_after: Some(ms(10_000)) });
    assert_eq!(decide(OnExhausted::Queue(Millis(10_000))), Choice::WaitUntil(ms(60_001)));
    let queue = OnExhausted::Queue(Millis(10_000));
    assert_eq!(choose(queue, &at, now, ms(60_000)), Choice::Fail { retry_after: Some(ms(0)) }, "long enough");
    for policy in [OnExhausted::FailFast, OnExhausted::LeastBad, queue] {
        assert_eq!(choose(policy, &[None, None], now, now), Choice::Fail { retry_after: None });
    }
    // Out of three open breakers.
    let mut benches = [9_000, 3_000, 6_000].map(|wait| {
        let wait = WaitDuration::Fixed(Millis(wait));
        Bench::opened(BreakerConfig { wait_duration_in_open_state: wait, ..strict() })
    });
    let at = benches.each_ref().map(|bench| bench.breaker.available_at(bench.now));
    let now = benches[0].now;
    assert_eq!(choose(OnExhausted::LeastBad, &at, now, now), Choice::Ask(1));
    let Choice::WaitUntil(until) = choose(queue, &at, now, now) else { panic!("it waits") };
    assert!(benches[1].breaker.try_acquire(until).is_ok());
}

/// One call each second for ten minutes; the provider is down in every other minute.
#[test]
fn t_58_flapping() {
    let config = BreakerConfig {
        wait_duration_in_open_state: WaitDuration::Fixed(Millis(5_000)),
        max_wait_duration_in_open_state: Millis(40_000),
        permitted_number_of_calls_in_half_open_state: 1,
        ..strict()
    };
    let mut bench = Bench::new(config);
    let (mut probes_while_down, mut waits) = (0, Vec::new());
    for second in 0..600 {
        bench.wait(1_000);
        let was_closed = bench.state() == State::Closed;
        let is_down = second / 60 % 2 == 0;
        if let Ok(ticket) = bench.try_acquire() {
            probes_while_down += u32::from(is_down && !was_closed);
            bench.end(ticket, if is_down { failure() } else { success() });
            if let Some(until) = bench.breaker.status(bench.now).open_until {
                waits.push((until - bench.now).as_secs());
            }
        }
    }
    assert!(waits.is_sorted(), "{waits:?}");
    assert_eq!((waits[0], waits[1], *waits.last().unwrap()), (5, 10, 40), "{waits:?}");
    assert!(probes_while_down as usize <= waits.len(), "one probe for each wait");
    assert!(probes_while_down <= 10, "{probes_while_down} in five minutes of failure");
}

#[test]
fn t_59_the_ramp_after_closing() {
    let config = BreakerConfig {
        ramp_duration: Millis(10_000),
        permitted_number_of_calls_in_half_open_state: 1,
        ..strict()
    };
    let (mut bench, probe) = Bench::half_open(config);
    bench.end(probe, success());
    assert_eq!(bench.state(), State::Closed);
    let admitted = |bench: &mut Bench| {
        let mut admitted = 0;
        for roll in 0..1_000 {
            let now = Now { moment: bench.now, roll: f64::from(roll) / 1_000.0 };
            match bench.breaker.try_acquire(now) {
                Ok(ticket) => {
                    admitted += 1;
                    bench.breaker.record(ticket, success(), now);
                }
                Err(denied) => assert_eq!(denied.reason, Reason::Ramp),
            }
        }
        admitted
    };
    for tenth in 1..=10 {
        assert_eq!(admitted(&mut bench), tenth * 100);
        bench.wait(999);
        assert_eq!(admitted(&mut bench), tenth * 100);
        bench.wait(1);
    }
    assert_eq!(admitted(&mut bench), 1_000);

    let mut fresh = Bench::new(BreakerConfig { ramp_duration: Millis(10_000), ..strict() });
    assert_eq!(admitted(&mut fresh), 1_000, "a breaker that was never open has no ramp");
}

#[test]
fn a_ramp_begins_anew_with_each_recovery() {
    let config = BreakerConfig {
        ramp_duration: Millis(10_000),
        permitted_number_of_calls_in_half_open_state: 1,
        ..settings(Semantics::Strict, 1, 1, 50.0)
    };
    let (mut bench, probe) = Bench::half_open(config);
    bench.end(probe, success());
    bench.wait(9_999);
    bench.call(failure());
    assert_eq!(bench.state(), State::Open);
    bench.wait(60_000);
    let probe = bench.acquire();
    bench.end(probe, success());
    assert_eq!(bench.state(), State::Closed);
    let now = bench.now;
    assert!(bench.breaker.try_acquire(Now { moment: now, roll: 0.1 }).is_err());
    assert!(bench.breaker.try_acquire(Now { moment: now, roll: 0.09 }).is_ok());
}

#[test]
fn verdicts_without_a_call_are_counted() {
    let mut bench = Bench::new(strict());
    for verdict in
        [Verdict::Ignored, Verdict::Inconclusive, Verdict::Cancelled, Verdict::Success, Verdict::Failure]
    {
        bench.call(with(verdict));
    }
    let counters = *bench.breaker.counters();
    let counted =
        [counters.ignored, counters.inconclusive, counters.cancelled, counters.successes, counters.failures];
    assert_eq!((counted, bench.metrics().buffered), ([1; 5], 2));
}
