//! Anthropic. The envelope and the types are documented, the headers and the texts those of users' reports.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{BLANK, Provider};
use crate::{
    Cause, Event, EventFormat, Failure, FailureContext, Finish, Operation,
    content::{Mark, Stream, any_filled, filled, kind},
    dialect::{Claim, RequestLine},
    failure::whole_seconds,
    outcome::Sign::Word,
    parts::Parts,
};

pub(super) static PROVIDER: Provider = Provider {
    telemetry: Some("anthropic"),
    hosts: &["api.anthropic.com"],
    headers: &["anthropic-version"],
    path,
    // Vertex.
    asks_for_stream: |head| head.last_step().ends_with(":streamRawPredict").then_some(true),
    streams: &[&MESSAGES],
    failure: |_, cause, facts| failure(cause, facts),
    frame: |_, _, cause, facts, _| frame(cause, facts),
    content: &["content[].text", "content[].name"],
    finish: &["stop_reason", "delta.stop_reason", "message.stop_reason"],
    finish_words: &[
        (Finish::Stop, "end_turn"),
        (Finish::Length, "max_tokens"),
        (Finish::ToolCalls, "tool_use"),
        (Finish::Refusal, "refusal"),
        (Finish::Context, "model_context_window_exceeded"),
        (Finish::Paused, "pause_turn"),
    ],
    parts: Parts {
        model: &["model", "message.model"],
        usage: &["usage", "message.usage"],
        text: &["content[].text", "delta.text"],
        tool_name: &["content[].name", "content_block.name"],
        tool_id: &["content[].id", "content_block.id"],
        tool_arguments: &["content[].input", "content_block.input", "delta.partial_json"],
    },
    signs: &[
        (Word("ramp_limit_exceeded"), Cause::SlowDown),
        (Word("enforced_spend_limit_reached"), Cause::SpendLimit),
        (Word("contract_spend_limit_reached"), Cause::SpendLimit),
    ],
    ..BLANK
};

fn path(asked: &RequestLine<'_>) -> Claim {
    if asked.is_get() {
        return Claim::No;
    }
    match asked.tail() {
        ("v1" | "", "messages") => Claim::For(Operation::Chat),
        ("messages", "count_tokens" | "batches") => Claim::Other,
        // Claude on Vertex.
        (_, last) if last.ends_with(":rawPredict") || last.ends_with(":streamRawPredict") => {
            Claim::For(Operation::Chat)
        }
        _ => Claim::No,
    }
}

/// `message_start` to `message_stop`; each event is named as its `type`.
pub(super) static MESSAGES: Stream = Stream {
    operations: &[],
    looks: |_, root| match kind(root).as_ref() {
        "error" => root.get("sequence_number").is_none(),
        "ping" => true,
        kind => kind.starts_with("message_") || kind.starts_with("content_block_"),
    },
    content: Mark {
        words: &[b"content_block_delta"],
        is: |root| {
            kind(root) == "content_block_delta"
                && root
                    .get("delta")
                    .is_some_and(|delta| any_filled(delta, &["text", "partial_json", "thinking"]))
        },
    },
    terminator: Mark { words: &[b"message_stop"], is: |root| kind(root) == "message_stop" },
    usage: Mark { words: &[b"\"usage"], is: |root| kind(root) == "message_delta" },
    failure: Mark { words: &[b"\"error"], is: |root| kind(root) == "error" },
    tool_call: Mark {
        words: &[b"tool_use", b"partial_json"],
        is: |root| {
            let start = root.get("content_block").map(kind);
            start.is_some_and(|kind| kind.ends_with("tool_use"))
                || root.get("delta").is_some_and(|delta| filled(delta.get("partial_json")))
        },
    },
    is_numbered: false,
};

const REQUESTS_PER_MINUTE: u64 = 50;
const INPUT_TOKENS_PER_MINUTE: u64 = 30_000;
const OUTPUT_TOKENS_PER_MINUTE: u64 = 8_000;
const CONTEXT: u64 = 200_000;
const USUAL_WAIT: Duration = Duration::from_secs(5);

fn failure(cause: Cause, facts: &FailureContext<'_>) -> Option<Failure> {
    let (status, error) = said(cause, facts)?;
    let mut failure = Failure::json(status, &body(&error, facts)).with("request-id", request_id(facts));
    if is_rate_limit(cause) {
        failure = with_limits(failure, cause, facts).with_retry_after(facts.wait_or(USUAL_WAIT));
    } else if let Some(wait) = facts.retry_after.filter(|_| status == 529 || cause == Cause::SlowDown) {
        failure = failure.with_retry_after(wait);
    }
    Some(match status {
        429 | 500.. => failure.with("x-should-retry", "true"),
        _ => failure,
    })
}

/// An event of the name `error`, whose data is the very body that the error would have had before the stream.
fn frame(cause: Cause, facts: &FailureContext<'_>) -> Option<Event> {
    let (_, error) = said(cause, facts)?;
    Some(Event::new(EventFormat::Sse, Some("error"), body(&error, facts).to_string().as_bytes()))
}

fn body(error: &Value, facts: &FailureContext<'_>) -> Value {
    json!({"type": "error", "error": error, "request_id": request_id(facts)})
}

fn said(cause: Cause, facts: &FailureContext<'_>) -> Option<(u16, Value)> {
    let (status, kind, message) = words(cause, facts)?;
    let mut error = json!({"type": kind, "message": message});
    let detail = match cause {
        Cause::SlowDown => "ramp_limit_exceeded",
        Cause::SpendLimit => "enforced_spend_limit_reached",
        _ => return Some((status, error)),
    };
    error["details"] = json!({"error_code": detail});
    Some((status, error))
}

/// Types and statuses are documented or in the SDK's source. The texts of `auth`, `permission`, `billing`, `conflict`,
/// `timeout`, `slow_down`, `spend_limit` and `invalid_request` are general knowledge.
fn words(cause: Cause, facts: &FailureContext<'_>) -> Option<(u16, &'static str, String)> {
    let said = |status, kind, message: &str| Some((status, kind, message.to_owned()));
    match cause {
        Cause::RateLimitTokens | Cause::RateLimitRequests => {
            said(429, "rate_limit_error", &limit_text(cause, facts))
        }
        Cause::SlowDown => said(
            429,
            "rate_limit_error",
            "Your organization's usage is increasing too quickly. Please ramp up more gradually and try again later.",
        ),
        Cause::SpendLimit => {
            said(429, "rate_limit_error", "Your organization has reached its monthly spend limit.")
        }
        Cause::QuotaExhausted => said(
            400,
            "invalid_request_error",
            "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or \
             purchase credits.",
        ),
        Cause::Billing => said(
            402,
            "billing_error",
            "There is an issue with your organization's billing. Please check your plan.",
        ),
        Cause::ContextLength => {
            let asked = CONTEXT + 8_310;
            said(
                400,
                "invalid_request_error",
                &format!("prompt is too long: {asked} tokens > {CONTEXT} maximum"),
            )
        }
        Cause::InvalidRequest => said(400, "invalid_request_error", "max_tokens: Field required"),
        Cause::ContentFilter => {
            said(400, "invalid_request_error", "Output blocked by content filtering policy")
        }
        Cause::Auth => said(401, "authentication_error", "invalid x-api-key"),
        Cause::Permission => said(
            403,
            "permission_error",
            "Your API key does not have permission to use the specified resource.",
        ),
        Cause::ModelNotFound => {
            said(404, "not_found_error", &format!("model: {}", facts.model_or("claude-sonnet-4-5")))
        }
        Cause::Conflict => said(409, "conflict_error", "The resource was changed by another request."),
        Cause::PayloadTooLarge => said(413, "request_too_large", "Request exceeds the maximum size"),
        Cause::ServerError => said(500, "api_error", "Internal server error"),
        Cause::Timeout | Cause::GatewayTimeout => said(504, "timeout_error", "Request timed out"),
        Cause::Overloaded | Cause::Capacity => said(529, "overloaded_error", "Overloaded"),
        _ => None,
    }
}

fn is_rate_limit(cause: Cause) -> bool {
    matches!(cause, Cause::RateLimitTokens | Cause::RateLimitRequests)
}

fn limit_text(cause: Cause, facts: &FailureContext<'_>) -> String {
    let limit = match cause {
        Cause::RateLimitTokens => "30,000 input tokens",
        _ => "50 requests",
    };
    let (organisation, model) = (facts.uuid(), facts.model_or("claude-sonnet-4-5"));
    format!(
        "This request would exceed your organization's rate limit of {limit} per minute (org: {organisation}, model: \
         {model}). For details, refer to: https://docs.claude.com/en/api/rate-limits. You can see the response headers \
         for current usage. Please reduce the prompt length or the maximum tokens requested, or try again later. You may \
         also contact sales at https://claude.com/contact-sales to discuss your options for a rate limit increase."
    )
}

/// The four buckets as the cause has left them. What remains of tokens is rounded to thousands.
fn with_limits(failure: Failure, cause: Cause, facts: &FailureContext<'_>) -> Failure {
    let later = facts.now.saturating_add(whole_seconds(facts.wait_or(USUAL_WAIT)));
    let (requests, input) = match cause {
        Cause::RateLimitRequests => ((0, later), (INPUT_TOKENS_PER_MINUTE, facts.now)),
        _ => ((REQUESTS_PER_MINUTE - 1, facts.now), (0, later)),
    };
    let output = (OUTPUT_TOKENS_PER_MINUTE, facts.now);
    failure
        .with("anthropic-ratelimit-requests-limit", REQUESTS_PER_MINUTE.to_string())
        .with("anthropic-ratelimit-requests-remaining", requests.0.to_string())
        .with("anthropic-ratelimit-requests-reset", time(requests.1))
        .with("anthropic-ratelimit-input-tokens-limit", INPUT_TOKENS_PER_MINUTE.to_string())
        .with("anthropic-ratelimit-input-tokens-remaining", input.0.to_string())
        .with("anthropic-ratelimit-input-tokens-reset", time(input.1))
        .with("anthropic-ratelimit-output-tokens-limit", OUTPUT_TOKENS_PER_MINUTE.to_string())
        .with("anthropic-ratelimit-output-tokens-remaining", output.0.to_string())
        .with("anthropic-ratelimit-output-tokens-reset", time(output.1))
        .with(
            "anthropic-ratelimit-tokens-limit",
            (INPUT_TOKENS_PER_MINUTE + OUTPUT_TOKENS_PER_MINUTE).to_string(),
        )
        .with("anthropic-ratelimit-tokens-remaining", (input.0 + output.0).to_string())
        .with("anthropic-ratelimit-tokens-reset", time(input.1.min(output.1)))
}

/// RFC 3339, in whole seconds.
fn time(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX).to_string()
}

fn request_id(facts: &FailureContext<'_>) -> String {
    format!("req_011C{}", facts.base58(20))
}
