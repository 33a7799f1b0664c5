//! How long a provider that asks to wait is left alone, in whatever form it asks.

use std::time::Duration;

use aconite_dialects::{
    Dialect, Operation,
    outcome::{Class, Response, classify},
};
use aconite_routing::{
    breaker::{Breaker, BreakerConfig},
    cooldown,
};
use proptest::prelude::*;

/// The seconds for which a breaker refuses calls after a 429 with these headers and this body.
fn seconds(dialect: Dialect, headers: &[(&str, &str)], body: &str) -> f64 {
    let header = |name: &str| headers.iter().find(|(each, _)| *each == name).map(|(_, value)| *value);
    let response = Response { status: 429, header: &header, body: body.as_bytes(), now: 1_800_000_000 };
    let outcome = classify(Some(dialect), Some(Operation::Chat), &response);
    assert_eq!(outcome.class, Class::Rate, "{headers:?} {body}");
    let now = Duration::from_secs(7);
    let mut breaker = Breaker::new(BreakerConfig::default(), now).unwrap();
    let ticket = breaker.try_acquire(now).unwrap();
    breaker.report(ticket, &outcome, Duration::ZERO, now);
    (breaker.status(now).cool_down_until.unwrap() - now).as_secs_f64()
}

#[test]
fn every_form_of_a_wait() {
    let openai = |headers: &[(&str, &str)]| seconds(Dialect::OpenAi, headers, "{}");
    assert_eq!(openai(&[("retry-after", "20")]), 20.0);
    assert_eq!(openai(&[("retry-after", "Fri, 15 Jan 2027 08:00:42 GMT")]), 42.0);
    assert_eq!(openai(&[("retry-after-ms", "1500"), ("retry-after", "9")]), 1.5);
    let limits =
        [("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "1m3s"), ("x-other", "1")];
    assert_eq!(openai(&limits), 63.0);
    let rfc3339 = [
        ("anthropic-ratelimit-requests-remaining", "0"),
        ("anthropic-ratelimit-requests-reset", "2027-01-15T08:00:30Z"),
    ];
    assert_eq!(seconds(Dialect::Anthropic, &rfc3339, "{}"), 30.0);
    let gemini = r#"{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow down", "details": [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"}]}}"#;
    assert_eq!(seconds(Dialect::Gemini, &[], gemini), 37.0);
    assert_eq!(openai(&[]), 5.0, "nothing is said");
    assert_eq!(openai(&[("retry-after", "soon")]), 5.0, "nothing that can be read");
}

proptest! {
    /// The end of a wait only moves to later moments, and never beyond the cap.
    #[test]
    fn an_end_only_moves_on(told in prop::collection::vec((0u64..100, prop::option::of(any::<u64>())), 1..30)) {
        let (base, longest) = (Duration::from_secs(5), Duration::from_secs(60));
        let (mut now, mut until) = (Duration::ZERO, None);
        for (ahead, told) in told {
            now += Duration::from_secs(ahead);
            let before = until;
            let length = cooldown::length(told.map(Duration::from_secs), base, longest);
            prop_assert!(length > Duration::ZERO && length <= longest);
            let has_moved = cooldown::raise(&mut until, now + length);
            prop_assert_eq!(has_moved, until != before);
            prop_assert!(until >= before && until >= Some(now + length) && until <= Some(now + longest).max(before));
        }
    }
}
