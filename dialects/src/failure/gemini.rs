//! Gemini. Envelope, statuses and details are documented; the bodies are printed over several lines, as users' reports
//! show them. The wait is in the body: there is no `retry-after`.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Cause, Event, Facts, Failure, data};

const CONTEXT: u64 = 1_048_576;

pub(super) fn failure(cause: Cause, facts: &Facts<'_>) -> Option<Failure> {
    let (status, body) = said(cause, facts)?;
    let pretty = serde_json::to_string_pretty(&body).ok()? + "\n";
    let mut failure = Failure::json(status, &body);
    failure.body = pretty.into();
    failure.headers = vec![("content-type", "application/json; charset=UTF-8".to_owned())];
    Some(failure)
}

/// An `error` object as the data, which is what the SDK looks for. No capture of a real one is known.
pub(super) fn frame(cause: Cause, facts: &Facts<'_>) -> Option<Event> {
    said(cause, facts).map(|(_, body)| data(&body))
}

fn said(cause: Cause, facts: &Facts<'_>) -> Option<(u16, Value)> {
    let said = |code: u16, status: &str, message: String| {
        Some((code, json!({"error": {"code": code, "message": message, "status": status}})))
    };
    match cause {
        Cause::RateLimitTokens | Cause::RateLimitRequests => Some((429, limited(cause, facts))),
        Cause::ContextLength => {
            let asked = CONTEXT + 8_310;
            let message =
                format!("The input token count ({asked}) exceeds the maximum number of tokens allowed ({CONTEXT}).");
            said(400, "INVALID_ARGUMENT", message)
        }
        // The text is general knowledge; code and status are documented.
        Cause::ServerError => said(500, "INTERNAL", "An internal error has occurred. Please retry or report in https://developers.generativeai.google/guide/troubleshooting".to_owned()),
        Cause::Overloaded | Cause::Unavailable => {
            said(503, "UNAVAILABLE", "The model is overloaded. Please try again later.".to_owned())
        }
        // The text is general knowledge; code and status are documented.
        Cause::GatewayTimeout => {
            said(504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete.".to_owned())
        }
        _ => None,
    }
}

fn limited(cause: Cause, facts: &Facts<'_>) -> Value {
    let wait = facts.wait_or(Duration::from_secs(26));
    let model = facts.model_or("gemini-2.5-flash");
    let (metric, id, limit) = match cause {
        Cause::RateLimitRequests => (
            "generativelanguage.googleapis.com/generate_content_free_tier_requests",
            "GenerateRequestsPerMinutePerProjectPerModel-FreeTier",
            10,
        ),
        _ => (
            "generativelanguage.googleapis.com/generate_content_free_tier_input_token_count",
            "GenerateContentInputTokensPerModelPerMinute-FreeTier",
            250_000,
        ),
    };
    let seconds = wait.as_secs_f64();
    let message = format!(
        "You exceeded your current quota, please check your plan and billing details. For more information on this error, \
         head to: https://ai.google.dev/gemini-api/docs/rate-limits.\n* Quota exceeded for metric: {metric}, limit: \
         {limit}, model: {model}\nPlease retry in {seconds}s."
    );
    json!({"error": {
        "code": 429,
        "message": message,
        "status": "RESOURCE_EXHAUSTED",
        "details": [
            {
                "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                "violations": [{
                    "quotaMetric": metric,
                    "quotaId": id,
                    "quotaDimensions": {"location": "global", "model": model},
                    "quotaValue": limit.to_string(),
                }],
            },
            {
                "@type": "type.googleapis.com/google.rpc.Help",
                "links": [{
                    "description": "Learn more about Gemini API quotas",
                    "url": "https://ai.google.dev/gemini-api/docs/rate-limits",
                }],
            },
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": format!("{}s", wait.as_secs())},
        ],
    }})
}
