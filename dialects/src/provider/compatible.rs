//! What providers that serve OpenAI's API have in common: the words that most use, and [`OPENAI_SHAPED`], from which
//! their rows start.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Provider, openai};
use crate::{
    Cause, Event, EventFormat, Failure, FailureContext, Finish, Operation, dialect::Claim, parts::Parts,
};

/// A server of OpenAI's API of which nothing else is known. It has no path of its own.
pub(super) const OPENAI_SHAPED: Provider = Provider {
    telemetry: None,
    hosts: &[],
    headers: &[],
    serves_openai: true,
    path: |_| Claim::No,
    streams_by_default: false,
    has_model_in_path: false,
    streams: openai::STREAMS,
    failure: |_, cause, facts| {
        let plain = plain(cause, facts)?;
        Some(limited(Failure::json(plain.status, &json!({"error": plain.error()})), cause, facts))
    },
    frame,
    vectors: openai::vectors,
    hits: None,
    content: &[
        "choices[].message.content",
        "choices[].message.refusal",
        "choices[].message.tool_calls",
        "choices[].message.function_call",
        "choices[].text",
        // Responses.
        "output[].content[].text",
        "output[].content[].refusal",
        "output[].arguments",
    ],
    finish: &["choices[].finish_reason", "incomplete_details.reason", "response.incomplete_details.reason"],
    finish_words: &[
        (Finish::Stop, "stop"),
        (Finish::Length, "length"),
        (Finish::ToolCalls, "tool_calls"),
        (Finish::ContentFilter, "content_filter"),
    ],
    finish_other: openai::incomplete,
    parts: Parts {
        model: &["model", "response.model"],
        usage: &["usage", "response.usage"],
        text: &[
            "choices[].message.content",
            "choices[].delta.content",
            "choices[].text",
            "output[].content[].text",
            "response.output_text.delta:delta",
            "response.output_text.done:text",
            "response.content_part.done:part.text",
            "response.output_item.done:item.content[].text",
            "response.output[].content[].text",
        ],
        tool_name: &[
            "choices[].message.tool_calls[].function.name",
            "choices[].delta.tool_calls[].function.name",
            "output[].name",
            "item.name",
            "response.output[].name",
        ],
        tool_id: &[
            "choices[].message.tool_calls[].id",
            "choices[].delta.tool_calls[].id",
            "output[].call_id",
            "item.call_id",
            "response.output[].call_id",
        ],
        tool_arguments: &[
            "choices[].message.tool_calls[].function.arguments",
            "choices[].delta.tool_calls[].function.arguments",
            "output[].arguments",
            "item.arguments",
            "response.output[].arguments",
            "response.function_call_arguments.delta:delta",
            "response.function_call_arguments.done:arguments",
        ],
    },
    signs: &[],
    is_failure: |_| false,
    is_partial: |_| false,
    ..super::BLANK
};

const USUAL_WAIT: Duration = Duration::from_secs(6);

/// Adds `retry-after` where a limit is the cause.
pub(super) fn limited(failure: Failure, cause: Cause, facts: &FailureContext<'_>) -> Failure {
    match (cause, facts.retry_after) {
        (Cause::RateLimitTokens | Cause::RateLimitRequests, _) => {
            failure.with_retry_after(facts.wait_or(USUAL_WAIT))
        }
        (Cause::Overloaded, Some(wait)) => failure.with_retry_after(wait),
        _ => failure,
    }
}

/// The provider's own error as a frame. In chat it is a bare `error` object, which is what the SDKs look for; in Responses
/// an `error` event, which is flat and numbered.
pub(super) fn frame(
    provider: &Provider,
    operation: Option<Operation>,
    cause: Cause,
    facts: &FailureContext<'_>,
    seq: u64,
) -> Option<Event> {
    let failure = (provider.failure)(operation, cause, facts)?;
    let mut body: Value = serde_json::from_slice(&failure.body).ok()?;
    // Some have the error's members in the body itself.
    let mut error = body.get_mut("error").map(Value::take).unwrap_or(body);
    if let Some(members) = error.as_object_mut() {
        members.shift_remove("object");
    }
    if operation != Some(Operation::Responses) {
        return Some(data(&json!({"error": error})));
    }
    let code = error.get("code").filter(|code| !code.is_null()).or_else(|| error.get("type"));
    let flat = json!({
        "type": "error",
        "code": code,
        "message": error.get("message"),
        "param": error.get("param"),
        "sequence_number": seq,
    });
    Some(Event::new(EventFormat::Sse, Some("error"), flat.to_string().as_bytes()))
}

/// An unnamed event.
pub(super) fn data(value: &Value) -> Event {
    Event::new(EventFormat::Sse, None, value.to_string().as_bytes())
}

/// A cause in the words that most providers use.
pub(super) struct Plain {
    pub(super) status: u16,
    pub(super) kind: &'static str,
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl Plain {
    /// The object in OpenAI's envelope.
    pub(super) fn error(&self) -> Value {
        json!({"message": self.message, "type": self.kind, "param": null, "code": self.code})
    }
}

/// None for what only vector stores know, for what is not a failure, and for what a gateway says.
pub(super) fn plain(cause: Cause, facts: &FailureContext<'_>) -> Option<Plain> {
    const INVALID: &str = "invalid_request_error";
    let said =
        |status, kind, code, message: &str| Some(Plain { status, kind, code, message: message.to_owned() });
    let limited = |code, message: &str| said(429, "rate_limit_error", code, message);
    let model = facts.model_or("the model");
    match cause {
        Cause::RateLimitTokens => limited(
            "rate_limit_exceeded",
            &format!("Rate limit reached for {model} on tokens per minute. Please try again later."),
        ),
        Cause::RateLimitRequests => limited(
            "rate_limit_exceeded",
            &format!("Rate limit reached for {model} on requests per minute. Please try again later."),
        ),
        Cause::RequestTooLargeForLimit => limited(
            "rate_limit_exceeded",
            &format!("Request too large for {model}: it needs more tokens than the limit per minute."),
        ),
        Cause::SlowDown => limited("slow_down", "Requests increased too quickly. Please slow down."),
        Cause::QuotaExhausted | Cause::SpendLimit => {
            said(429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota.")
        }
        Cause::Billing => said(402, "billing_error", "insufficient_balance", "Insufficient Balance"),
        Cause::ContextLength => said(
            400,
            INVALID,
            "context_length_exceeded",
            "This model's maximum context length is 32768 tokens. However, your messages resulted in 33792 tokens. Please \
             reduce the length of the messages.",
        ),
        Cause::ContentFilter => {
            said(400, INVALID, "content_filter", "The content was blocked by the content filter.")
        }
        Cause::Auth => said(401, "authentication_error", "invalid_api_key", "Invalid API key provided."),
        Cause::Permission => said(
            403,
            "permission_error",
            "permission_denied",
            "This API key has no permission for this request.",
        ),
        Cause::ModelNotFound => {
            said(404, INVALID, "model_not_found", &format!("The model `{model}` does not exist."))
        }
        Cause::InvalidRequest => said(400, INVALID, "invalid_value", "A parameter has an invalid value."),
        Cause::Conflict => said(409, INVALID, "conflict", "The resource was changed by another request."),
        Cause::Timeout => said(408, "timeout_error", "timeout", "The request timed out."),
        Cause::ServerError => said(500, "server_error", "internal_error", "Internal server error"),
        Cause::Overloaded => {
            said(503, "server_error", "overloaded", "The server is overloaded. Please try again later.")
        }
        Cause::Capacity => said(
            503,
            "server_error",
            "insufficient_capacity",
            &format!("There is no capacity for {model} at the moment."),
        ),
        Cause::NotReady => said(503, "unavailable_error", "loading", "Loading model"),
        _ => None,
    }
}
