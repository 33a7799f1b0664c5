//! OpenAI. The envelope is that of its OpenAPI document. The texts of rate limits, of too long prompts and of overload
//! are those of several users' reports; that of `server_error` and the status codes are documented.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{Cause, Failure, FailureContext, Operation};

const ORGANISATION: &str = "org-AconiteInjectedFault0000";
const TOKENS_PER_MINUTE: u64 = 30_000;
const REQUESTS_PER_MINUTE: u64 = 500;
const CONTEXT: u64 = 128_000;
const EMBEDDING_CONTEXT: u64 = 8_192;

/// A status and the `error` object.
struct ErrorParts {
    status: u16,
    error: Value,
}

pub(super) fn failure(
    operation: Option<Operation>,
    cause: Cause,
    facts: &FailureContext<'_>,
) -> Option<Failure> {
    let ErrorParts { status, error } = said(operation, cause, facts)?;
    let (requests, tokens) = buckets(cause, facts);
    let failure = Failure::json(status, &json!({"error": error}))
        .with("openai-version", "2020-10-01")
        .with("openai-organization", "aconite")
        .with("openai-processing-ms", "12")
        .with("x-request-id", request_id(facts))
        .with("x-ratelimit-limit-requests", requests.limit.to_string())
        .with("x-ratelimit-limit-tokens", tokens.limit.to_string())
        .with("x-ratelimit-remaining-requests", requests.remaining.to_string())
        .with("x-ratelimit-remaining-tokens", tokens.remaining.to_string())
        .with("x-ratelimit-reset-requests", go_duration(requests.reset))
        .with("x-ratelimit-reset-tokens", go_duration(tokens.reset));
    Some(match (cause, facts.retry_after) {
        (Cause::RateLimitRequests | Cause::RateLimitTokens, _) => {
            failure.with_retry_after(wait(cause, facts))
        }
        (Cause::Overloaded | Cause::SlowDown, Some(wait)) => failure.with_retry_after(wait),
        _ => failure,
    })
}

fn said(operation: Option<Operation>, cause: Cause, facts: &FailureContext<'_>) -> Option<ErrorParts> {
    let said = |status, kind: &str, code: Option<&str>, param: Option<&str>, message: String| {
        Some(ErrorParts {
            status,
            error: json!({"message": message, "type": kind, "param": param, "code": code}),
        })
    };
    let limited = |kind, message| said(429, kind, Some("rate_limit_exceeded"), None, message);
    let invalid = |status, code, param, message: &str| {
        said(status, "invalid_request_error", code, param, message.to_owned())
    };
    let model = facts.model_or("gpt-4o");
    match cause {
        Cause::RateLimitTokens => limited("tokens", rate_limit_text(cause, facts)),
        Cause::RateLimitRequests => limited("requests", rate_limit_text(cause, facts)),
        Cause::RequestTooLargeForLimit => limited("tokens", too_large_text(model)),
        Cause::ContextLength => {
            let (message, param, code) = context_length(operation);
            invalid(400, code, param, &message)
        }
        Cause::ServerError => {
            let id = request_id(facts);
            let message = format!(
                "The server had an error while processing your request. Sorry about that! You can retry your request, \
                 or contact us through our help center at help.openai.com if the error persists. (Please include the \
                 request ID {id} in your message.)"
            );
            said(500, "server_error", None, None, message)
        }
        // The text is general knowledge.
        Cause::ModelNotFound => {
            let message = format!("The model `{model}` does not exist or you do not have access to it.");
            invalid(404, Some("model_not_found"), None, &message)
        }
        _ => {
            let (status, kind, code, param, text) = fixed(cause)?;
            said(status, kind, code, param, text.to_owned())
        }
    }
}

type Fixed = (u16, &'static str, Option<&'static str>, Option<&'static str>, &'static str);

/// The causes whose words never differ. The texts of `auth`, `permission`, `invalid_request` and `content_filter`, and
/// all of `conflict`, `timeout` and `slow_down` but the type and code, are general knowledge.
fn fixed(cause: Cause) -> Option<Fixed> {
    Some(match cause {
        Cause::Overloaded => (
            503,
            "service_unavailable_error",
            Some("server_is_overloaded"),
            None,
            "Our servers are currently overloaded. Please try again later.",
        ),
        Cause::Capacity => (
            503,
            "server_error",
            None,
            None,
            "That model is currently overloaded with other requests. You can retry your request, or contact us through \
             our help center at help.openai.com if the error persists.",
        ),
        Cause::SlowDown => (
            429,
            "rate_limit_error",
            Some("slow_down"),
            None,
            "Your traffic increased too quickly. Reduce your request rate, hold it for a while, then raise it gradually.",
        ),
        Cause::QuotaExhausted | Cause::SpendLimit => (
            429,
            "insufficient_quota",
            Some("insufficient_quota"),
            None,
            "You exceeded your current quota, please check your plan and billing details. For more information on this \
             error, read the docs: https://platform.openai.com/docs/guides/error-codes/api-errors.",
        ),
        Cause::Billing => (
            429,
            "insufficient_quota",
            Some("credit_balance_exhausted"),
            None,
            "Your credit balance is exhausted. Add credits to continue using the API.",
        ),
        Cause::ContentFilter => (
            400,
            "invalid_request_error",
            Some("invalid_prompt"),
            None,
            "Invalid prompt: your prompt was flagged as potentially violating our usage policy. Please try again with a \
             different prompt: https://platform.openai.com/docs/guides/reasoning#advice-on-prompting",
        ),
        Cause::Auth => (
            401,
            "invalid_request_error",
            Some("invalid_api_key"),
            None,
            "Incorrect API key provided: sk-aconi***************************0000. You can find your API key at \
             https://platform.openai.com/account/api-keys.",
        ),
        Cause::Permission => (
            403,
            "request_forbidden",
            Some("unsupported_country_region_territory"),
            None,
            "Country, region, or territory not supported",
        ),
        Cause::InvalidRequest => (
            400,
            "invalid_request_error",
            Some("unsupported_parameter"),
            Some("max_tokens"),
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        ),
        Cause::Conflict => (
            409,
            "invalid_request_error",
            None,
            None,
            "The resource is being updated by another request. Please try again.",
        ),
        Cause::Timeout => (408, "server_error", None, None, "The request timed out. Please try again."),
        _ => return None,
    })
}

/// The limit is far from used up, and a retry never helps: more is asked for than a minute has.
fn too_large_text(model: &str) -> String {
    let asked = TOKENS_PER_MINUTE + 4_500;
    format!(
        "Request too large for {model} in organization {ORGANISATION} on tokens per min (TPM): Limit {TOKENS_PER_MINUTE}, \
         Requested {asked}. The input or output tokens must be reduced in order to run successfully. Visit \
         https://platform.openai.com/account/rate-limits to learn more."
    )
}

fn rate_limit_text(cause: Cause, facts: &FailureContext<'_>) -> String {
    let (unit, limit, requested) = match cause {
        Cause::RateLimitTokens => {
            // The bucket is empty, so the wait is as long as what is asked for takes to flow in.
            let asked = (wait(cause, facts).as_secs_f64() / 60.0 * TOKENS_PER_MINUTE as f64).round() as u64;
            ("tokens per min (TPM)", TOKENS_PER_MINUTE, asked.clamp(1, TOKENS_PER_MINUTE))
        }
        _ => ("requests per min (RPM)", requests_limit(facts), 1),
    };
    let (model, wait) = (facts.model_or("gpt-4o"), go_duration(wait(cause, facts)));
    format!(
        "Rate limit reached for {model} in organization {ORGANISATION} on {unit}: Limit {limit}, Used {limit}, \
         Requested {requested}. Please try again in {wait}. Visit https://platform.openai.com/account/rate-limits to \
         learn more."
    )
}

fn context_length(operation: Option<Operation>) -> (String, Option<&'static str>, Option<&'static str>) {
    let code = Some("context_length_exceeded");
    match operation {
        Some(Operation::Responses) => (
            "Your input exceeds the context window of this model. Please adjust your input and try again."
                .to_owned(),
            Some("input"),
            code,
        ),
        Some(Operation::Embeddings) => {
            let asked = EMBEDDING_CONTEXT + 1_024;
            let message = format!(
                "This model's maximum context length is {EMBEDDING_CONTEXT} tokens, however you requested {asked} tokens \
                 ({asked} in your prompt; 0 for the completion). Please reduce your prompt; or completion length."
            );
            (message, None, None)
        }
        _ => {
            let asked = CONTEXT + 1_024;
            let message = format!(
                "This model's maximum context length is {CONTEXT} tokens. However, your messages resulted in {asked} \
                 tokens. Please reduce the length of the messages."
            );
            (message, Some("messages"), code)
        }
    }
}

fn wait(cause: Cause, facts: &FailureContext<'_>) -> Duration {
    let usual = if cause == Cause::RateLimitTokens { 1_200 } else { 60_000 / REQUESTS_PER_MINUTE };
    facts.wait_or(Duration::from_millis(usual))
}

struct Bucket {
    limit: u64,
    remaining: u64,
    /// Until the bucket is full again.
    reset: Duration,
}

/// The buckets as the cause has left them: the one that it is about is empty, the other one nearly full.
fn buckets(cause: Cause, facts: &FailureContext<'_>) -> (Bucket, Bucket) {
    let per_request = Duration::from_millis(60_000 / requests_limit(facts));
    let limit = requests_limit(facts);
    let requests = match cause {
        Cause::RateLimitRequests => Bucket { limit, remaining: 0, reset: Duration::from_secs(60) },
        _ => Bucket { limit, remaining: limit.saturating_sub(1), reset: per_request },
    };
    let limit = TOKENS_PER_MINUTE;
    let tokens = match cause {
        Cause::RateLimitTokens => Bucket { limit, remaining: 0, reset: Duration::from_secs(60) },
        _ => Bucket { limit, remaining: limit, reset: Duration::ZERO },
    };
    (requests, tokens)
}

/// A limit that takes as long as the wait to let one more request in.
fn requests_limit(facts: &FailureContext<'_>) -> u64 {
    let wait = facts.retry_after.map_or(0, |wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
    60_000_u64.checked_div(wait).map_or(REQUESTS_PER_MINUTE, |limit| limit.clamp(1, REQUESTS_PER_MINUTE))
}

fn request_id(facts: &FailureContext<'_>) -> String {
    format!("req_{}", facts.hex(32))
}

/// A duration as Go prints it, and OpenAI with it: `0s`, `120ms`, `1.2s`, `6m0s`, `1h0m0s`.
fn go_duration(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    if seconds == 0 && millis > 0 {
        return format!("{millis}ms");
    }
    let fraction = format!(".{millis:03}");
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}{fraction}s"),
        (0, _) => format!("{minutes}m{seconds}{fraction}s"),
        _ => format!("{hours}h{minutes}m{seconds}{fraction}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_printed_as_go_prints_them() {
        for (millis, printed) in [
            (0, "0s"),
            (12, "12ms"),
            (1_000, "1s"),
            (1_200, "1.2s"),
            (9_816, "9.816s"),
            (20_000, "20s"),
            (360_000, "6m0s"),
            (3_600_000, "1h0m0s"),
            (61_050, "1m1.05s"),
        ] {
            assert_eq!(go_duration(Duration::from_millis(millis)), printed);
        }
    }
}
