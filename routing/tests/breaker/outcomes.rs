//! Which outcome counts for what.

use aconite_dialects::{
    Cause, Dialect, Operation,
    outcome::{Response, classify},
    units::Millis,
};
use aconite_routing::breaker::{CountRateLimited, SlowCallDuration, State, Timing, Verdict};

use super::*;

fn verdict(config: &BreakerConfig, class: Class) -> Verdict {
    config.report(&outcome(class), Duration::ZERO).verdict
}

fn read(status: u16, headers: &[(&str, &str)], body: &str) -> Outcome {
    let header = |name: &str| headers.iter().find(|(each, _)| *each == name).map(|(_, value)| *value);
    let response = Response { status, header: &header, body: body.as_bytes(), now: 1_800_000_000 };
    classify(Some(Dialect::OpenAi), Some(Operation::Chat), &response)
}

#[test]
fn t_39_an_outcome_that_opens_needs_a_time() {
    let read = |json: &str| serde_json::from_str::<BreakerConfig>(json);
    assert!(read(r#"{"transition_on_result": {"quota": null}}"#).is_err());
    let config = read(r#"{"transition_on_result": {"quota": 0}}"#).unwrap();
    let problems = Breaker::new(config, Duration::ZERO).unwrap_err();
    assert_eq!(problems[0].path, "transition_on_result.quota");
    let config = read(r#"{"transition_on_result": {"quota": "30m"}}"#).unwrap();
    assert!(Breaker::new(config, Duration::ZERO).is_ok());
}

#[test]
fn t_40_ignoring_wins_over_recording() {
    for semantics in BOTH {
        let config = BreakerConfig {
            record_outcomes: Some([Class::Server].into()),
            ignore_outcomes: [Class::Server].into(),
            ..settings(semantics, 10, 5, 50.0)
        };
        assert_eq!(verdict(&config, Class::Server), Verdict::Ignored);
    }
}

#[test]
fn t_41_an_error_in_no_list() {
    for (semantics, expected) in [(Semantics::R4j, Verdict::Success), (Semantics::Strict, Verdict::Failure)] {
        let config = BreakerConfig {
            record_outcomes: Some([Class::Server, Class::Context].into()),
            ..settings(semantics, 10, 5, 50.0)
        };
        assert_eq!(verdict(&config, Class::Cut), expected);
        assert_eq!(verdict(&config, Class::Context), Verdict::Failure, "it is listed");
    }
}

#[test]
fn t_42_an_outcome_counts_as_its_cause_does() {
    let config = settings(Semantics::Strict, 10, 5, 50.0);
    for (cause, expected) in [
        (Cause::Overloaded, Verdict::Failure),
        (Cause::ContextLength, Verdict::Ignored),
        (Cause::RateLimitTokens, Verdict::RateLimited),
        (Cause::Refusal, Verdict::Ignored),
    ] {
        assert_eq!(config.report(&cause.into(), Duration::ZERO).verdict, expected, "{cause}");
    }
}

#[test]
fn t_43_a_success_can_be_recorded_as_a_failure() {
    for semantics in BOTH {
        let config = BreakerConfig {
            record_outcomes: Some([Class::Degraded].into()),
            ..settings(semantics, 10, 5, 50.0)
        };
        assert_eq!(verdict(&config, Class::Degraded), Verdict::Failure);
        assert_eq!(verdict(&settings(semantics, 10, 5, 50.0), Class::Degraded), Verdict::Success);
        assert_eq!(verdict(&config, Class::Ok), Verdict::Success);
    }
}

#[test]
fn t_44_a_body_without_content_or_without_anything() {
    for semantics in BOTH {
        let config = settings(semantics, 10, 5, 50.0);
        let json = &[("content-type", "application/json")];
        let verdict = |body: &str| config.report(&read(200, json, body), Duration::ZERO).verdict;
        assert_eq!(verdict("null"), Verdict::Success);
        assert_eq!(verdict(""), Verdict::Failure, "not an answer");
    }
}

/// The table, class by class.
#[test]
fn what_each_class_says() {
    let config = settings(Semantics::Strict, 10, 5, 50.0);
    for class in Class::ALL {
        let expected = match class.name() {
            "ok" | "degraded_200" => (Verdict::Success, false),
            "connect" | "cut" | "garbled" | "server" | "quota" | "auth" | "not_found" => {
                (Verdict::Failure, false)
            }
            "headers_timeout" | "ttft_timeout" | "idle" | "throughput" => (Verdict::Failure, true),
            "rate" => (Verdict::RateLimited, false),
            "client" | "context" | "policy" => (Verdict::Ignored, false),
            "cancelled" => (Verdict::Cancelled, false),
            "lossy" | "local" => (Verdict::Inconclusive, false),
            other => panic!("{other} has no row"),
        };
        let report = config.report(&outcome(*class), Duration::ZERO);
        assert_eq!((report.verdict, report.is_slow), expected, "{class}");
        let r4j = config_of_r4j(*class);
        let is_failure = !matches!(class.name(), "ok" | "degraded_200" | "cancelled");
        assert_eq!(r4j.verdict == Verdict::Failure, is_failure, "{class}");
        assert!(!r4j.is_slow);
    }
}

fn config_of_r4j(class: Class) -> Report {
    BreakerConfig::resilience4j().report(&outcome(class), Duration::ZERO)
}

#[test]
fn the_slow_threshold_is_for_the_first_content_or_the_whole_call() {
    let timing = Timing { first_content: Some(ms(200)), total: ms(60_000) };
    let mut config = settings(Semantics::Strict, 10, 5, 50.0);
    let measured = |config: &BreakerConfig, timing| config.report(&outcome(Class::Ok), timing).duration;
    assert_eq!(measured(&config, timing), ms(200));
    assert_eq!(measured(&config, ms(700).into()), ms(700));
    assert_eq!(measured(&settings(Semantics::R4j, 10, 5, 50.0), timing), ms(60_000));
    config.slow_call_duration = SlowCallDuration::Total;
    assert_eq!(measured(&config, timing), ms(60_000));
}

#[test]
fn a_timeout_is_slow_though_it_is_shorter_than_the_threshold() {
    let mut bench = Bench::new(settings(Semantics::Strict, 10, 5, 50.0));
    bench.report(&outcome(Class::TtftTimeout));
    assert_eq!((bench.metrics().failed, bench.metrics().slow), (1, 1));
}

#[test]
fn t_53_a_stream_that_is_cut_after_its_first_content_is_a_failure() {
    for semantics in BOTH {
        let mut bench = Bench::new(settings(semantics, 10, 5, 50.0));
        let ticket = bench.acquire();
        bench.breaker.first_content(&ticket, bench.now);
        assert_eq!(bench.metrics().buffered, 0, "nothing is known at the first content");
        let body = "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n";
        let cut = read(200, &[("content-type", "text/event-stream")], body);
        assert_eq!(cut.class, Class::Cut);
        let timing = Timing { first_content: Some(ms(5)), total: ms(900) };
        bench.breaker.report(ticket, &cut, timing, bench.now);
        assert_eq!((bench.metrics().buffered, bench.metrics().failed), (1, 1));
    }
}

#[test]
fn an_exhausted_quota_opens_for_longer_at_once() {
    let config = BreakerConfig {
        transition_on_result: [(Class::Quota, Millis(1_800_000))].into(),
        ..settings(Semantics::Strict, 10, 5, 50.0)
    };
    let quota = outcome(Class::Quota);
    let open_for = |bench: &Bench| bench.breaker.status(bench.now).open_until.map(|until| until - bench.now);
    let mut bench = Bench::new(config.clone());
    bench.report(&quota);
    assert_eq!(open_for(&bench), Some(ms(1_800_000)));

    let (mut bench, probe) = Bench::half_open(config.clone());
    bench.breaker.report(probe, &quota, Duration::ZERO, bench.now);
    assert_eq!(open_for(&bench), Some(ms(1_800_000)), "a probe that finds it too");

    let mut bench = Bench::new(BreakerConfig { minimum_number_of_calls: 1, ..config });
    bench.report(&quota);
    assert_eq!(open_for(&bench), Some(ms(1_800_000)), "the failure that opens it by its rate too");
}

#[test]
fn any_outcome_can_open_at_once_unless_it_is_ignored() {
    let config = BreakerConfig {
        transition_on_result: [Class::Rate, Class::Context, Class::Degraded]
            .map(|class| (class, Millis(90_000)))
            .into(),
        ..settings(Semantics::Strict, 10, 5, 50.0)
    };
    for (class, state) in
        [(Class::Rate, State::Open), (Class::Degraded, State::Open), (Class::Context, State::Closed)]
    {
        let mut bench = Bench::new(config.clone());
        bench.report(&outcome(class));
        assert_eq!(bench.state(), state, "{class}");
    }
}

#[test]
fn rate_limits_are_failures_if_they_are_asked_to_be() {
    for (count, opens_rate, opens_row) in [
        (CountRateLimited::Never, false, false),
        (CountRateLimited::RateOnly, true, false),
        (CountRateLimited::Failure, true, true),
    ] {
        for (kind, opens) in [
            (aconite_routing::breaker::Kind::FailureRate, opens_rate),
            (aconite_routing::breaker::Kind::Consecutive, opens_row),
        ] {
            let config =
                BreakerConfig { count_rate_limited: count, kind, ..settings(Semantics::Strict, 10, 5, 50.0) };
            let mut bench = Bench::new(config);
            for _ in 0..5 {
                bench.report(&limited(Some(1)));
                bench.wait(1_001);
            }
            assert_eq!(bench.state() == State::Open, opens, "{count:?} {kind:?}");
        }
    }
}
