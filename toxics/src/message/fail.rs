use std::time::Duration;

use aconite_dialects::{Cause, FailureContext, failure::render};
use bytes::Bytes;
use http::{
    HeaderName, HeaderValue, Response, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
    request, response,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{Number, Value};

use super::{
    cause::{self, Wording},
    header_lines::HeaderLines,
};
use crate::{Decision, Dice, ExchangeFilter, Instance, Level, Moment, Scope, Toxic, Verdict};

/// Responds with a failure, exactly as the provider of the request would.
///
/// Set a `cause`, which is rendered as the status, headers and body of the request's provider, or set the `status`
/// yourself. With `reach_upstream` the provider receives the request, processes it and bills it, and the caller still
/// gets the failure. `stream` makes no difference.
///
/// The OpenAI and Anthropic SDKs retry 408, 409, 429 (even for an exhausted quota) and 500 and above twice, after about
/// 0.4 and 0.8 seconds, and no other status. They respect `retry-after`, with exceptions: openai-python does not retry
/// if it is more than 120 s, openai-node 7 ignores values above 60 s, and for 0 or text they use their own delays
/// (openai-node 6: no delay). google-genai, qdrant-client, ollama and chromadb do not retry. A streaming call fails
/// like any other, because the response has not started.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fail {
    /// The cause of the failure, by name.
    #[serde(deserialize_with = "cause::read_some", skip_serializing_if = "Option::is_none")]
    cause: Option<Cause>,
    /// The status, 200 to 599, instead of a cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 200, max = 599))]
    status: Option<u16>,
    /// Header fields; they replace fields of the same name that the cause has.
    headers: HeaderLines,
    /// The body for `status`: a string is sent unchanged, anything else as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Value>,
    /// The field `retry-after`: a number of seconds, or any text, such as an HTTP-date, `inf` or garbage. Default: the
    /// value that the cause has.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<RetryAfter>,
    /// Whether the request is sent to the upstream first. Default false.
    reach_upstream: bool,
}

/// How long a caller is told to wait.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(untagged)]
#[schemars(inline)]
enum RetryAfter {
    /// Seconds.
    Seconds(#[schemars(with = "f64")] Number),
    /// What the field says, as it is.
    Text(String),
}

impl RetryAfter {
    fn text(&self) -> String {
        match self {
            Self::Seconds(seconds) => seconds.to_string(),
            Self::Text(text) => text.clone(),
        }
    }

    /// How long it is, where a caller could understand it.
    fn wait(&self) -> Option<Duration> {
        Duration::try_from_secs_f64(self.text().trim().parse().ok()?).ok()
    }
}

impl Toxic for Fail {
    const TYPE: &'static str = "fail";
    const LEVEL: Level = Level::Exchange;
    const NAMES_MODEL: bool = true;

    fn example() -> Self {
        Self { cause: Some(Cause::RateLimitTokens), ..Self::default() }
    }

    fn check(&self) -> Result<(), String> {
        match (self.cause, self.status) {
            (None, None) => return Err("give a `cause` or a `status`".to_owned()),
            (Some(_), Some(_)) => return Err("`cause` and `status` exclude each other".to_owned()),
            (Some(_), None) if self.body.is_some() => {
                return Err("a `cause` brings its own body; give a `status` for another".to_owned());
            }
            (Some(cause), None) => cause::check(cause, |dialect, cause| {
                render(dialect, None, cause, &FailureContext::default()).is_some()
            })?,
            (None, Some(status)) if !(200..=599).contains(&status) => {
                return Err("`status` lies between 200 and 599".to_owned());
            }
            (None, Some(status @ (204 | 304))) if self.body.is_some() => {
                return Err(format!("an answer with status {status} has no body"));
            }
            (None, Some(_)) => {}
        }
        if self.body.as_ref().is_some_and(|body| body.to_string().contains("{{")) {
            return Err("`body` is sent as it is, templates such as `{{name}}` are not expanded; write the text itself".to_owned());
        }
        match &self.retry_after {
            Some(retry_after) if HeaderValue::from_str(&retry_after.text()).is_err() => {
                Err("`retry_after` has characters that no header field has".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn start(&self, scope: &Scope, mut dice: Dice) -> Instance {
        let answer = self.answer(scope, &mut dice);
        Instance::Exchange(Box::new(Failing { answer, reach_upstream: self.reach_upstream }))
    }
}

impl Fail {
    /// What the caller is answered; nothing if it is not known how the provider words the cause.
    fn answer(&self, scope: &Scope, dice: &mut Dice) -> Option<Response<Bytes>> {
        let mut answer = match self.cause {
            Some(cause) => {
                let mut wording = Wording::new(cause, scope, dice);
                wording.retry_after = self.retry_after.as_ref().and_then(RetryAfter::wait);
                let failure = wording.answer()?;
                let mut answer = Response::new(failure.body);
                *answer.status_mut() = StatusCode::from_u16(failure.status).ok()?;
                for (name, value) in failure.headers {
                    let value = HeaderValue::from_bytes(value.as_bytes()).ok()?;
                    answer.headers_mut().append(HeaderName::from_static(name), value);
                }
                answer
            }
            None => {
                let (body, content_type) = self.body();
                let mut answer = Response::new(body);
                *answer.status_mut() = StatusCode::from_u16(self.status?).ok()?;
                if let Some(content_type) = content_type {
                    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
                }
                answer
            }
        };
        if let Some(retry_after) = &self.retry_after
            && let Ok(value) = HeaderValue::from_str(&retry_after.text())
        {
            answer.headers_mut().insert(RETRY_AFTER, value);
        }
        self.headers.set(answer.headers_mut());
        Some(answer)
    }

    fn body(&self) -> (Bytes, Option<&'static str>) {
        match &self.body {
            None => (Bytes::new(), None),
            Some(Value::String(text)) => {
                let is_json = serde_json::from_str::<IgnoredAny>(text).is_ok();
                let content_type = if is_json { "application/json" } else { "text/plain; charset=utf-8" };
                (Bytes::from(text.clone()), Some(content_type))
            }
            Some(json) => (Bytes::from(json.to_string()), Some("application/json")),
        }
    }
}

struct Failing {
    answer: Option<Response<Bytes>>,
    reach_upstream: bool,
}

impl Failing {
    fn fail(&mut self) -> Decision {
        match self.answer.take() {
            Some(answer) => Decision::instead(Verdict::Respond(Box::new(answer))),
            None => Decision::skip("cause_unknown_here"),
        }
    }
}

impl ExchangeFilter for Failing {
    fn on_request(&mut self, _: &mut request::Parts, _: Moment) -> Decision {
        if self.reach_upstream { Decision::forward() } else { self.fail() }
    }

    fn on_response(&mut self, _: &mut response::Parts, _: Moment) -> Decision {
        if self.reach_upstream { self.fail() } else { Decision::forward() }
    }
}

#[cfg(test)]
mod tests {
    use aconite_dialects::{Dialect, Operation};
    use serde_json::json;

    use super::*;
    use crate::message::script::{Exchange, answer, check, sse};

    fn fail(config: Value, scope: &Scope) -> Response<Bytes> {
        answer(Exchange::new::<Fail>(config, scope).request())
    }

    fn header<'a>(response: &'a Response<Bytes>, name: &str) -> Option<&'a str> {
        response.headers().get(name).map(|value| value.to_str().unwrap())
    }

    #[test]
    fn a_cause_is_worded_as_the_provider_does() {
        let anthropic = Scope { dialect: Some(Dialect::Anthropic), ..sse() };
        let openai = fail(json!({"cause": "rate_limit"}), &sse());
        let overloaded = fail(json!({"cause": "overloaded"}), &anthropic);
        assert_eq!((openai.status(), overloaded.status().as_u16()), (StatusCode::TOO_MANY_REQUESTS, 529));
        let error = |response: &Response<Bytes>| {
            serde_json::from_slice::<Value>(response.body()).unwrap()["error"].clone()
        };
        assert_eq!(error(&openai)["code"], "rate_limit_exceeded");
        assert_eq!(error(&overloaded)["type"], "overloaded_error");
        assert_eq!(header(&openai, "content-type"), Some("application/json"));
    }

    #[test]
    fn the_same_exchange_fails_with_the_same_bytes() {
        let twice = [(); 2].map(|()| fail(json!({"cause": "server_error"}), &sse()));
        assert_eq!(twice[0].body(), twice[1].body());
        assert_eq!(twice[0].headers(), twice[1].headers());
    }

    #[test]
    fn http_28_any_retry_after_is_sent_as_it_is() {
        for (given, sent) in [
            (json!(2), "2"),
            (json!(1.5), "1.5"),
            (json!("inf"), "inf"),
            (json!("1e400"), "1e400"),
            (json!("Wed, 21 Oct 2026 07:28:00 GMT"), "Wed, 21 Oct 2026 07:28:00 GMT"),
            (json!("soon"), "soon"),
        ] {
            for config in [json!({"cause": "rate_limit"}), json!({"status": 503})] {
                let mut config = config;
                config["retry_after"] = given.clone();
                assert_eq!(header(&fail(config, &sse()), "retry-after"), Some(sent));
            }
        }
        let config = json!({"cause": "rate_limit", "retry_after": 2, "headers": {"retry-after-ms": "abc"}});
        let answer = fail(config, &sse());
        assert_eq!(
            (header(&answer, "retry-after-ms"), header(&answer, "retry-after")),
            (Some("abc"), Some("2"))
        );
    }

    #[test]
    fn a_status_of_ones_own() {
        let answer = fail(json!({"status": 418, "body": {"why": "teapot"}, "headers": {"x-a": "b"}}), &sse());
        assert_eq!((answer.status().as_u16(), header(&answer, "x-a")), (418, Some("b")));
        assert_eq!(answer.body(), r#"{"why":"teapot"}"#);
        assert_eq!(header(&answer, "content-type"), Some("application/json"));
        let answer = fail(json!({"status": 500, "body": "{\"a\" : 1}"}), &sse());
        assert_eq!(
            (answer.body().as_ref(), header(&answer, "content-type")),
            (&b"{\"a\" : 1}"[..], Some("application/json"))
        );
        let answer = fail(json!({"status": 500, "body": "oops"}), &sse());
        assert_eq!(header(&answer, "content-type"), Some("text/plain; charset=utf-8"));
        let answer = fail(json!({"status": 500}), &sse());
        assert_eq!((answer.body().len(), header(&answer, "content-type")), (0, None));
    }

    #[test]
    fn the_provider_charges_and_the_caller_sees_a_failure() {
        let config = json!({"cause": "server_error", "reach_upstream": true});
        let mut exchange = Exchange::new::<Fail>(config, &sse());
        let decision = exchange.request();
        assert!(matches!(decision.verdict, Verdict::Forward) && !decision.struck);
        assert_eq!(answer(exchange.response()).status(), 500);
    }

    #[test]
    fn a_cause_that_the_provider_does_not_know_is_told() {
        let qdrant = Scope {
            dialect: Some(Dialect::Qdrant),
            operation: Some(Operation::VectorSearch),
            ..Scope::default()
        };
        let unknown = Cause::ALL.iter().find(|cause| {
            check::<Fail>(json!({"cause": cause.name()})).is_ok()
                && render(qdrant.dialect, qdrant.operation, **cause, &FailureContext::default()).is_none()
        });
        let cause = unknown.expect("no vector store knows them all").name();
        let decision = Exchange::new::<Fail>(json!({"cause": cause}), &qdrant).request();
        assert_eq!((decision.struck, decision.skipped), (false, Some("cause_unknown_here")));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for bad in [
            json!({}),
            json!({"cause": "rate_limit", "status": 429}),
            json!({"cause": "rate_limit", "body": "x"}),
            json!({"status": 99}),
            json!({"status": 600}),
            json!({"status": 204, "body": "x"}),
            json!({"cause": "refusal"}),
            json!({"status": 500, "body": "{{message}}"}),
            json!({"status": 500, "body": {"error": {"message": "no {{model}}"}}}),
            json!({"status": 500, "retry_after": "a\nb"}),
        ] {
            assert!(check::<Fail>(bad.clone()).is_err(), "{bad}");
        }
        let error = check::<Fail>(json!({"cause": "rate_limits"})).unwrap_err();
        assert!(error.contains("`rate_limit`"), "{error}");
    }
}
