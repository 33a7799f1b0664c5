//! Gemini. Envelope, statuses and details are documented; the bodies are printed over several lines, as users' reports
//! show them. The wait is in the body: there is no `retry-after`.

use std::time::Duration;

use serde_json::{Value, json};

use super::{BLANK, Provider, compatible::data};
use crate::{
    Cause, EventFormat, Failure, FailureContext, Finish, Operation,
    content::{Mark, Stream, any_filled, filled, items},
    dialect::{Claim, RequestLine},
    embeddings::{Vectors, list},
    form::RequestHead,
    json::Node,
    outcome::Sign::{Text, Word},
    parts::Parts,
};

pub(super) static PROVIDER: Provider = Provider {
    telemetry: Some("gcp.gen_ai"),
    hosts: &["generativelanguage.googleapis.com", "aiplatform.googleapis.com", "*-aiplatform.googleapis.com"],
    path,
    has_model_in_path: true,
    streams: &[&GENERATE],
    framing_of_json: Some(EventFormat::JsonArray),
    asks_for_stream,
    failure: |_, cause, facts| failure(cause, facts),
    // An `error` object as the data, which is what the SDK looks for. No capture of a real one is known.
    frame: |_, _, cause, facts, _| said(cause, facts).map(|(_, body)| data(&body)),
    vectors,
    content: &[
        "candidates[].content.parts[].text",
        "candidates[].content.parts[].functionCall",
        "candidates[].content.parts[].inlineData",
    ],
    finish: &["candidates[].finishReason", "promptFeedback.blockReason"],
    finish_words: &[
        (Finish::Stop, "STOP"),
        (Finish::Length, "MAX_TOKENS"),
        (Finish::ContentFilter, "SAFETY"),
        (Finish::Recitation, "RECITATION"),
        (Finish::MalformedCall, "MALFORMED_FUNCTION_CALL"),
    ],
    parts: Parts {
        model: &["modelVersion"],
        usage: &["usageMetadata"],
        text: &["candidates[].content.parts[].text"],
        tool_name: &["candidates[].content.parts[].functionCall.name"],
        tool_id: &["candidates[].content.parts[].functionCall.id"],
        tool_arguments: &["candidates[].content.parts[].functionCall.args"],
    },
    signs: &[
        // A quota per day; the limits per minute are of the same status and text.
        (Text("perday"), Cause::QuotaExhausted),
        (Word("resource_exhausted"), Cause::RateLimitRequests),
        (Word("api_key_invalid"), Cause::Auth),
        (Word("unauthenticated"), Cause::Auth),
        (Word("permission_denied"), Cause::Permission),
        (Word("failed_precondition"), Cause::Billing),
        (Word("not_found"), Cause::ModelNotFound),
        (Word("unavailable"), Cause::Overloaded),
        (Word("deadline_exceeded"), Cause::Timeout),
        (Word("internal"), Cause::ServerError),
    ],
    ..BLANK
};

/// `embedding.values`, or `embeddings[].values`; of Vertex `predictions[].embeddings.values`, or of a multimodal model
/// one vector for each kind of input.
fn vectors(root: Node<'_>) -> Vec<Vectors<'_>> {
    let one = root.get("embedding").into_iter().chain(list(root.get("embeddings")));
    let predictions = || list(root.get("predictions"));
    let texts = predictions().filter_map(|prediction| prediction.get("embeddings"));
    let multimodal = predictions().flat_map(|prediction| {
        ["textEmbedding", "imageEmbedding"].into_iter().filter_map(move |name| prediction.get(name))
    });
    let values = one.chain(texts).filter_map(|vector| vector.get("values"));
    Vectors::floats(values.chain(multimodal)).into_iter().collect()
}

/// `streamGenerateContent`, and Vertex's `streamRawPredict`.
fn asks_for_stream(head: &RequestHead<'_>) -> Option<bool> {
    let step = head.last_step();
    let streams = step.rsplit_once(':').map(|(_, verb)| verb.starts_with("stream"));
    streams.or_else(|| head.query.split('&').any(|pair| pair == "alt=sse").then_some(true))
}

fn path(asked: &RequestLine<'_>) -> Claim {
    let (previous, last) = asked.tail();
    let Some((model, verb)) = last.rsplit_once(':') else {
        let is_list = matches!(previous, "v1beta" | "v1alpha" | "google") && last == "models";
        return if asked.is_get() && is_list { Claim::For(Operation::Models) } else { Claim::No };
    };
    match verb {
        "generateContent" | "streamGenerateContent" => Claim::For(Operation::Chat),
        "embedContent" | "batchEmbedContents" => Claim::For(Operation::Embeddings),
        // Vertex.
        "predict" if model.contains("embedding") => Claim::For(Operation::Embeddings),
        "countTokens" => Claim::Other,
        _ => Claim::No,
    }
}

/// Chunks with `candidates`; the last one has a `finishReason`.
static GENERATE: Stream = Stream {
    operations: &[],
    looks: |_, root| {
        root.get("candidates").is_some()
            || root.get("usageMetadata").is_some()
            || root.get("promptFeedback").is_some()
    },
    content: Mark {
        words: &[b"\"parts"],
        is: |root| parts(root).any(|part| any_filled(part, &["text", "functionCall", "inlineData"])),
    },
    terminator: Mark {
        words: &[b"finishReason"],
        is: |root| items(root, "candidates").any(|candidate| filled(candidate.get("finishReason"))),
    },
    usage: Mark {
        words: &[b"usageMetadata"],
        is: |root| root.get("usageMetadata").is_some() && root.get("candidates").is_none(),
    },
    failure: Mark { words: &[b"\"error"], is: |root| filled(root.get("error")) },
    tool_call: Mark {
        words: &[b"functionCall"],
        is: |root| parts(root).any(|part| filled(part.get("functionCall"))),
    },
    is_numbered: false,
};

fn parts(root: Node<'_>) -> impl Iterator<Item = Node<'_>> {
    let contents = items(root, "candidates").filter_map(|candidate| candidate.get("content"));
    contents.flat_map(|content| items(content, "parts"))
}

const CONTEXT: u64 = 1_048_576;

fn failure(cause: Cause, facts: &FailureContext<'_>) -> Option<Failure> {
    let (status, body) = said(cause, facts)?;
    let pretty = serde_json::to_string_pretty(&body).ok()? + "\n";
    let mut failure = Failure::json(status, &body);
    failure.body = pretty.into();
    failure.headers = vec![("content-type", "application/json; charset=UTF-8".to_owned())];
    Some(failure)
}

fn said(cause: Cause, facts: &FailureContext<'_>) -> Option<(u16, Value)> {
    let said = |code: u16, status: &str, message: &str| {
        Some((code, json!({"error": {"code": code, "message": message, "status": status}})))
    };
    match cause {
        Cause::RateLimitTokens | Cause::RateLimitRequests | Cause::QuotaExhausted => {
            Some((429, limited(cause, facts)))
        }
        Cause::ContextLength => {
            let asked = CONTEXT + 8_310;
            let message = format!(
                "The input token count ({asked}) exceeds the maximum number of tokens allowed ({CONTEXT})."
            );
            said(400, "INVALID_ARGUMENT", &message)
        }
        Cause::Auth => Some((400, invalid_key())),
        Cause::ModelNotFound => {
            let model = facts.model_or("gemini-2.5-flash");
            let message = format!(
                "models/{model} is not found for API version v1beta, or is not supported for generateContent. Call \
                 ListModels to see the list of available models and their supported methods."
            );
            said(404, "NOT_FOUND", &message)
        }
        _ => {
            let (code, status, message) = fixed(cause)?;
            said(code, status, message)
        }
    }
}

/// The causes whose words never differ. Codes and statuses are documented, the texts general knowledge but for that of
/// overload.
fn fixed(cause: Cause) -> Option<(u16, &'static str, &'static str)> {
    Some(match cause {
        Cause::ServerError => (
            500,
            "INTERNAL",
            "An internal error has occurred. Please retry or report in \
             https://developers.generativeai.google/guide/troubleshooting",
        ),
        Cause::Overloaded | Cause::Capacity | Cause::Unavailable => {
            (503, "UNAVAILABLE", "The model is overloaded. Please try again later.")
        }
        Cause::Timeout | Cause::GatewayTimeout => {
            (504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete.")
        }
        Cause::InvalidRequest => (400, "INVALID_ARGUMENT", "Request contains an invalid argument."),
        Cause::Billing => (
            400,
            "FAILED_PRECONDITION",
            "Gemini API free tier is not available in your country. Please enable billing on your project in Google AI \
             Studio.",
        ),
        Cause::Permission => (403, "PERMISSION_DENIED", "The caller does not have permission"),
        _ => return None,
    })
}

/// A wrong key is a wrong argument: 400, not 401.
fn invalid_key() -> Value {
    json!({"error": {
        "code": 400,
        "message": "API key not valid. Please pass a valid API key.",
        "status": "INVALID_ARGUMENT",
        "details": [{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "API_KEY_INVALID",
            "domain": "googleapis.com",
            "metadata": {"service": "generativelanguage.googleapis.com"},
        }],
    }})
}

fn limited(cause: Cause, facts: &FailureContext<'_>) -> Value {
    let wait = facts.wait_or(Duration::from_secs(26));
    let model = facts.model_or("gemini-2.5-flash");
    let (metric, id, limit) = match cause {
        Cause::RateLimitRequests => (
            "generativelanguage.googleapis.com/generate_content_free_tier_requests",
            "GenerateRequestsPerMinutePerProjectPerModel-FreeTier",
            10,
        ),
        Cause::QuotaExhausted => (
            "generativelanguage.googleapis.com/generate_content_free_tier_requests",
            "GenerateRequestsPerDayPerProjectPerModel-FreeTier",
            250,
        ),
        _ => (
            "generativelanguage.googleapis.com/generate_content_free_tier_input_token_count",
            "GenerateContentInputTokensPerModelPerMinute-FreeTier",
            250_000,
        ),
    };
    let retry = match cause {
        Cause::QuotaExhausted => String::new(),
        _ => format!("\nPlease retry in {}s.", wait.as_secs_f64()),
    };
    let message = format!(
        "You exceeded your current quota, please check your plan and billing details. For more information on this error, \
         head to: https://ai.google.dev/gemini-api/docs/rate-limits.\n* Quota exceeded for metric: {metric}, limit: \
         {limit}, model: {model}{retry}"
    );
    let mut details = vec![
        json!({
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [{
                "quotaMetric": metric,
                "quotaId": id,
                "quotaDimensions": {"location": "global", "model": model},
                "quotaValue": limit.to_string(),
            }],
        }),
        json!({
            "@type": "type.googleapis.com/google.rpc.Help",
            "links": [{
                "description": "Learn more about Gemini API quotas",
                "url": "https://ai.google.dev/gemini-api/docs/rate-limits",
            }],
        }),
    ];
    // A quota per day does not say when it ends.
    if cause != Cause::QuotaExhausted {
        let delay = format!("{}s", wait.as_secs());
        details.push(json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}));
    }
    json!({"error": {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED", "details": details}})
}
