use serde::Deserialize;

use super::*;
use crate::{
    FailureContext,
    failure::{Failure, in_stream, render},
};

const NOW: u64 = 1_764_460_800;

fn of(dialect: Option<Dialect>, operation: Option<Operation>, failure: &Failure) -> Outcome {
    let header = |name: &str| {
        failure.headers.iter().find(|(header, _)| *header == name).map(|(_, value)| value.as_str())
    };
    let response = Response { status: failure.status, header: &header, body: &failure.body, now: NOW };
    classify(dialect, operation, &response)
}

/// Every dialect and none, with every operation and none.
fn everywhere() -> impl Iterator<Item = (Option<Dialect>, Option<Operation>)> {
    let dialects = || Dialect::ALL.iter().copied().map(Some).chain([None]);
    let operations = || Operation::ALL.iter().copied().map(Some).chain([None]);
    dialects().flat_map(move |dialect| operations().map(move |operation| (dialect, operation)))
}

#[test]
fn every_failure_has_the_class_of_its_cause() {
    let mut wrong = Vec::new();
    for (dialect, operation) in everywhere() {
        for cause in Cause::ALL {
            for retry_after in [None, Some(Duration::from_secs(20))] {
                let facts = FailureContext { model: "m", now: NOW, retry_after, ..FailureContext::default() };
                let Some(failure) = render(dialect, operation, *cause, &facts) else { continue };
                let outcome = of(dialect, operation, &failure);
                let told = String::from_utf8_lossy(&failure.body).into_owned();
                assert!(outcome.cause.is_none_or(|cause| cause.class() == outcome.class), "{outcome:?}");
                if outcome.class != cause.class() {
                    wrong.push(format!("{dialect:?} {operation:?} {cause} {outcome:?}: {told}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_failure_in_a_stream_has_the_class_of_its_cause() {
    let (mut frames, mut wrong) = (0, Vec::new());
    for (dialect, operation) in everywhere() {
        for cause in Cause::ALL {
            let facts = FailureContext { model: "m", now: NOW, ..FailureContext::default() };
            for frame in in_stream(dialect, operation, *cause, &facts, 3) {
                frames += 1;
                let outcome = classify_event(dialect, operation, &frame).map(|outcome| outcome.class);
                let told = String::from_utf8_lossy(frame.raw()).into_owned();
                if outcome != Some(cause.class()) {
                    wrong.push(format!("{dialect:?} {operation:?} {cause} {outcome:?}: {told}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(frames > 100);
}

#[test]
fn a_wait_that_is_told_is_read() {
    let wait = Duration::from_secs(20);
    for dialect in [Dialect::OpenAi, Dialect::Azure, Dialect::Anthropic, Dialect::Gemini, Dialect::Qdrant] {
        for cause in [Cause::RateLimitRequests, Cause::RateLimitTokens] {
            let facts = FailureContext { now: NOW, retry_after: Some(wait), ..FailureContext::default() };
            let failure = render(Some(dialect), None, cause, &facts).unwrap();
            assert_eq!(of(Some(dialect), None, &failure).wait, Some(wait), "{dialect} {cause}");
        }
    }
}

fn wait(headers: &[(&str, &str)], status: u16) -> Option<Duration> {
    let header = |name: &str| headers.iter().find(|(header, _)| *header == name).map(|(_, value)| *value);
    let response = Response { status, header: &header, body: b"{}", now: NOW };
    classify(None, None, &response).wait
}

#[test]
fn waits_are_read_in_every_form() {
    let millis = |millis| Some(Duration::from_millis(millis));
    for (headers, told) in [
        (&[("retry-after", "2")][..], millis(2_000)),
        (&[("retry-after", "1.5")], millis(1_500)),
        (&[("retry-after", "9"), ("retry-after-ms", "300")], millis(300)),
        (&[("retry-after", "Sun, 30 Nov 2025 00:00:30 GMT")], millis(30_000)),
        (&[("retry-after", "Sat, 29 Nov 2025 00:00:30 GMT")], millis(0)),
        (&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "6m0s")], millis(360_000)),
        (&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "12ms")], millis(12)),
        (&[("x-ratelimit-remaining-tokens", "9"), ("x-ratelimit-reset-tokens", "12ms")], None),
        (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1764460810")], millis(10_000)),
        (
            &[
                ("anthropic-ratelimit-requests-remaining", "0"),
                ("anthropic-ratelimit-requests-reset", "2025-11-30T00:00:16Z"),
            ],
            millis(16_000),
        ),
        (&[("retry-after", "soon")], None),
        (&[("retry-after", "-1")], None),
        (&[("retry-after", "NaN")], None),
        (&[("retry-after", "1e300")], None),
        (&[], None),
    ] {
        assert_eq!(wait(headers, 429), told, "{headers:?}");
    }
    assert_eq!(wait(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "9")], 500), None);
    assert_eq!(wait(&[("retry-after", "7")], 503), millis(7_000));
}

/// A response as a provider gave it, and what it means.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recorded {
    what: String,
    dialect: Option<Dialect>,
    operation: Option<Operation>,
    /// None: an event of a stream.
    status: Option<u16>,
    #[serde(default)]
    headers: Vec<(String, String)>,
    /// A JSON document, or a text that is the body itself.
    body: serde_json::Value,
    /// None: no failure.
    class: Option<Class>,
    cause: Option<Cause>,
    wait_ms: Option<u64>,
}

#[test]
fn recorded_responses_are_classified() {
    let recorded: Vec<Recorded> = serde_json::from_str(include_str!("recorded.json")).unwrap();
    assert!(recorded.len() > 80);
    let mut wrong = Vec::new();
    for Recorded { what, dialect, operation, status, headers, body, class, cause, wait_ms } in recorded {
        let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
        let header =
            |name: &str| headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str());
        let outcome = match status {
            Some(status) => {
                let response = Response { status, header: &header, body: body.as_bytes(), now: NOW };
                Some(classify(dialect, operation, &response))
            }
            None => {
                let event = Event::new(EventFormat::Sse, header("event"), body.as_bytes());
                classify_event(dialect, operation, &event)
            }
        };
        let wait = wait_ms.map(Duration::from_millis);
        let as_told = match (outcome, class) {
            (None, None) => true,
            (Some(outcome), Some(class)) => {
                outcome.class == class && (cause.is_none() || outcome.cause == cause) && outcome.wait == wait
            }
            _ => false,
        };
        if !as_told {
            wrong.push(format!("{what}: {outcome:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_stream_is_classified_by_its_terminator_and_its_first_failure() {
    let stream = |body: &str| {
        let header = |name: &str| (name == "content-type").then_some("text/event-stream");
        let response = Response { status: 200, header: &header, body: body.as_bytes(), now: NOW };
        classify(Some(Dialect::OpenAi), Some(Operation::Chat), &response).class
    };
    let delta = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
    assert_eq!(stream(&format!("{delta}data: [DONE]\n\n")), Class::Ok);
    assert_eq!(stream(delta), Class::Cut);
    assert_eq!(stream(""), Class::Cut);
    assert_eq!(stream(&format!("{delta}data: {{\"error\":{{\"code\":429}}}}\n\n")), Class::Rate);
    assert_eq!(stream("data: {\"choices\":[{\"del\n\n"), Class::Garbled);
    assert_eq!(stream(": keep-alive\n\ndata: [DONE]\n\n"), Class::Ok);
}

proptest::proptest! {
    #[test]
    fn no_body_makes_it_panic(status: u16, body in "(\\{|\\}|\\[|\\]|\"|:|,|error|code|message|x|1| ){0,24}", dialect in 0_usize..19) {
        let dialect = Dialect::ALL.get(dialect).copied();
        let response = Response { status, header: &|_| None, body: body.as_bytes(), now: NOW };
        let outcome = classify(dialect, Some(Operation::Chat), &response);
        proptest::prop_assert!((200..300).contains(&status) || outcome.class != Class::Ok);
    }
}
