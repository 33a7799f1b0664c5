//! Settings: what is read, refused and warned about.

use aconite_dialects::{
    SpecError,
    units::{Millis, Probability},
};
use aconite_routing::breaker::{CountRateLimited, Kind, SlidingWindowType, SlowCallDuration, State};

use super::*;

fn problems(config: &BreakerConfig) -> Vec<SpecError> {
    config.validate("routes[0].breaker").err().unwrap_or_default()
}

type Change = fn(&mut BreakerConfig);

fn refused(change: Change) -> String {
    let mut config = BreakerConfig::default();
    change(&mut config);
    let found = problems(&config);
    let [problem] = &*found else { panic!("{found:?}") };
    assert!(!problem.message.is_empty());
    problem.path.strip_prefix("routes[0].breaker.").unwrap().to_owned()
}

#[test]
fn the_defaults_hold_and_so_do_those_of_resilience4j() {
    for config in [BreakerConfig::default(), BreakerConfig::resilience4j()] {
        assert_eq!(problems(&config), []);
        let json = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<BreakerConfig>(&json).unwrap(), config);
    }
    assert_eq!(serde_json::from_str::<BreakerConfig>("{}").unwrap(), BreakerConfig::default());
    let r4j = BreakerConfig::resilience4j();
    assert_eq!((r4j.sliding_window_size, r4j.minimum_number_of_calls), (100, 100));
    assert_eq!(r4j.permitted_number_of_calls_in_half_open_state, 10);
}

#[test]
fn values_outside_their_range_are_refused() {
    let cases: [(&str, Change); 21] = [
        ("failure_rate_threshold", |c| c.failure_rate_threshold = 0.0),
        ("failure_rate_threshold", |c| c.failure_rate_threshold = 100.1),
        ("failure_rate_threshold", |c| c.failure_rate_threshold = f32::NAN),
        ("slow_call_rate_threshold", |c| c.slow_call_rate_threshold = 0.0),
        ("slow_call_duration_threshold", |c| c.slow_call_duration_threshold = Millis(0)),
        ("sliding_window_size", |c| c.sliding_window_size = 0),
        ("sliding_window_size", |c| c.sliding_window_size = 1_000_001),
        ("minimum_number_of_calls", |c| c.minimum_number_of_calls = 0),
        ("permitted_number_of_calls_in_half_open_state", |c| {
            c.permitted_number_of_calls_in_half_open_state = 0
        }),
        ("wait_duration_in_open_state", |c| c.wait_duration_in_open_state = WaitDuration::Fixed(Millis(0))),
        ("wait_duration_in_open_state", |c| c.wait_duration_in_open_state = WaitDuration::ByAttempt(vec![])),
        ("wait_duration_in_open_state[1]", |c| {
            c.wait_duration_in_open_state = WaitDuration::ByAttempt(vec![Millis(1), Millis(0)]);
        }),
        ("transition_to_state_after_wait_duration", |c| {
            c.transition_to_state_after_wait_duration = State::Disabled
        }),
        ("consecutive_failures", |c| c.consecutive_failures = 0),
        ("minimum_number_of_calls_in_half_open_state", |c| {
            c.minimum_number_of_calls_in_half_open_state = Some(6);
        }),
        ("wait_multiplier", |c| c.wait_multiplier = 0.5),
        ("max_inconclusive", |c| c.max_inconclusive = Some(0)),
        ("probe_lease", |c| c.probe_lease = Millis(0)),
        ("probe_interval", |c| c.probe_interval = Millis(0)),
        ("max_cool_down", |c| c.max_cool_down = Millis(u64::MAX)),
        ("cool_down", |c| c.max_cool_down = Millis(1)),
    ];
    for (path, change) in cases {
        assert_eq!(refused(change), path);
    }
    assert_eq!(
        refused(|c| {
            c.kind = Kind::Consecutive;
            c.consecutive_successes = 6;
        }),
        "consecutive_successes",
        "more than there are probes"
    );
}

#[test]
fn every_problem_is_told() {
    let config = BreakerConfig {
        failure_rate_threshold: 0.0,
        sliding_window_size: 0,
        probe_lease: Millis(0),
        ..BreakerConfig::default()
    };
    let paths: Vec<_> = problems(&config).into_iter().map(|problem| problem.path).collect();
    let expected = ["failure_rate_threshold", "sliding_window_size", "probe_lease"];
    assert_eq!(paths, expected.map(|field| format!("routes[0].breaker.{field}")));
}

#[test]
fn a_fixed_wait_is_multiplied_or_given_by_attempt_not_both() {
    assert_eq!(
        refused(|c| {
            c.wait_duration_in_open_state = WaitDuration::ByAttempt(vec![Millis(1)]);
            c.wait_multiplier = 3.0;
        }),
        "wait_multiplier"
    );
}

#[test]
fn settings_that_resilience4j_does_not_have_are_refused_with_its_semantics() {
    let changes: [Change; 17] = [
        |c| c.kind = Kind::Consecutive,
        |c| c.consecutive_failures = 7,
        |c| c.consecutive_successes = 7,
        |c| c.minimum_number_of_calls_in_half_open_state = Some(1),
        |c| c.slow_call_duration = SlowCallDuration::Total,
        |c| c.in_flight_overdue = false,
        |c| c.wait_multiplier = 3.0,
        |c| c.max_wait_duration_in_open_state = Millis(1),
        |c| c.wait_jitter = Probability::ALWAYS,
        |c| c.stable_duration = Millis(1),
        |c| c.probe_lease = Millis(1),
        |c| c.max_inconclusive = Some(1),
        |c| c.probe_interval = Millis(1),
        |c| c.ramp_duration = Millis(1),
        |c| c.count_rate_limited = CountRateLimited::Failure,
        |c| c.cool_down = Millis(1),
        |c| c.max_cool_down = Millis(1),
    ];
    for change in changes {
        let mut config = BreakerConfig::resilience4j();
        change(&mut config);
        let found = problems(&config);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].hint.as_ref().unwrap().contains("strict"));
    }
}

#[test]
fn a_window_that_cannot_hold_the_minimum_is_warned_about() {
    let config = BreakerConfig {
        sliding_window_type: SlidingWindowType::TimeBased,
        sliding_window_size: 10,
        minimum_number_of_calls: 5,
        ..BreakerConfig::default()
    };
    assert_eq!(config.warnings(0.5, ""), []);
    assert_eq!(config.warnings(0.4, "")[0].path, "minimum_number_of_calls");
    assert_eq!(BreakerConfig::default().warnings(0.001, ""), [], "a window over calls fills up in any case");
}

#[test]
fn an_outcome_in_both_lists_is_warned_about() {
    let config = BreakerConfig {
        record_outcomes: Some([Class::Server, Class::Cut].into()),
        ignore_outcomes: [Class::Cut].into(),
        ..BreakerConfig::default()
    };
    assert_eq!(problems(&config), []);
    assert_eq!(config.warnings(1.0, "")[0].path, "record_outcomes");
}

#[test]
fn settings_are_read_with_their_units() {
    let json = r#"{
        "semantics": "r4j", "sliding_window_type": "time_based", "wait_duration_in_open_state": ["1s", 5000, "1m"],
        "slow_call_duration_threshold": "30s", "record_outcomes": ["server", "ttft_timeout"], "initial_state": "half_open",
        "transition_on_result": {}
    }"#;
    let config: BreakerConfig = serde_json::from_str(json).unwrap();
    let waits = [1_000, 5_000, 60_000].map(Millis).to_vec();
    assert_eq!(config.wait_duration_in_open_state, WaitDuration::ByAttempt(waits));
    assert_eq!(config.slow_call_duration_threshold, Millis(30_000));
    assert_eq!((config.semantics, config.initial_state), (Semantics::R4j, State::HalfOpen));
    for wrong in
        [r#"{"wait": 5}"#, r#"{"wait_duration_in_open_state": "5"}"#, r#"{"record_outcomes": ["oops"]}"#]
    {
        assert!(serde_json::from_str::<BreakerConfig>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_wait_grows_up_to_its_cap() {
    let mut config = settings(Semantics::Strict, 1, 1, 50.0);
    config.permitted_number_of_calls_in_half_open_state = 1;
    config.max_wait_duration_in_open_state = Millis(35_000);
    let mut bench = Bench::new(config);
    for wait in [10_000, 20_000, 35_000, 35_000] {
        bench.call(failure());
        assert_eq!(bench.breaker.status(bench.now).open_until, Some(bench.now + ms(wait)));
        bench.wait(wait + 1);
    }
}

#[test]
fn a_wait_that_cannot_be_read_is_explained() {
    let read = serde_json::from_str::<BreakerConfig>(r#"{"wait_duration_in_open_state": "5"}"#);
    assert!(read.unwrap_err().to_string().contains("such as 60s"));
}

#[test]
fn the_schema_describes_every_setting() {
    let schema = schemars::schema_for!(BreakerConfig).to_value();
    let properties = schema["properties"].as_object().unwrap();
    let json = serde_json::to_value(BreakerConfig::default()).unwrap();
    let fields: std::collections::BTreeSet<_> = json.as_object().unwrap().keys().collect();
    assert_eq!(properties.keys().collect::<std::collections::BTreeSet<_>>(), fields);
    for (name, property) in properties {
        assert!(property["description"].as_str().is_some_and(|text| text.contains("Default")), "{name}");
    }
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(properties["failure_rate_threshold"]["exclusiveMinimum"], 0);
    assert_eq!(properties["sliding_window_size"]["maximum"], 1_000_000);
    assert_eq!(properties["probe_lease"]["x-unit"], "ms");
}
