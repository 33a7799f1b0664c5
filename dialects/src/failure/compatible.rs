//! Providers whose protocol is OpenAI's or near to it, each with an envelope of its own, and the unknown ones.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Cause, Dialect, Event, Facts, Failure, Framing};

const USUAL_WAIT: Duration = Duration::from_secs(6);

/// A cause in the words that most providers use.
struct Plain {
    status: u16,
    kind: &'static str,
    code: &'static str,
    message: String,
}

fn plain(cause: Cause, facts: &Facts<'_>) -> Option<Plain> {
    let said =
        |status, kind, code, message: &str| Some(Plain { status, kind, code, message: message.to_owned() });
    let model = facts.model_or("the model");
    match cause {
        Cause::RateLimitTokens => said(
            429,
            "rate_limit_error",
            "rate_limit_exceeded",
            &format!("Rate limit reached for {model} on tokens per minute. Please try again later."),
        ),
        Cause::RateLimitRequests => said(
            429,
            "rate_limit_error",
            "rate_limit_exceeded",
            &format!("Rate limit reached for {model} on requests per minute. Please try again later."),
        ),
        Cause::ContextLength => said(
            400,
            "invalid_request_error",
            "context_length_exceeded",
            "This model's maximum context length is 32768 tokens. However, your messages resulted in 33792 tokens. Please \
             reduce the length of the messages.",
        ),
        Cause::ServerError => said(500, "server_error", "internal_error", "Internal server error"),
        Cause::Overloaded => {
            said(503, "server_error", "overloaded", "The server is overloaded. Please try again later.")
        }
        _ => None,
    }
}

/// A dialect of which nothing is known.
pub(super) fn unknown(cause: Cause, facts: &Facts<'_>) -> Option<Failure> {
    let Plain { status, kind, code, message } = plain(cause, facts)?;
    let body = json!({"error": {"message": message, "type": kind, "param": null, "code": code}});
    Some(limited(Failure::json(status, &body), cause, facts))
}

/// One of the smaller providers. Envelopes and statuses are documented or read in source, except where said.
pub(super) fn failure(dialect: Dialect, cause: Cause, facts: &Facts<'_>) -> Option<Failure> {
    let Plain { status, kind, code, message } = plain(cause, facts)?;
    let failure = match dialect {
        Dialect::Azure => azure(cause, facts)?,
        Dialect::Bedrock => bedrock(cause, facts)?,
        Dialect::Mistral => {
            let body =
                json!({"object": "error", "message": message, "type": kind, "param": null, "code": null});
            limited(Failure::json(status, &body), cause, facts)
        }
        Dialect::Cohere => Failure::json(status, &json!({"message": message, "id": facts.uuid()})),
        Dialect::Ollama => return ollama(cause, facts),
        Dialect::OpenRouter => {
            Failure::json(status, &json!({"error": {"code": status, "message": message, "metadata": {}}}))
        }
        Dialect::Ark => ark(cause, status, &message, facts),
        // That the compatible mode wraps its codes as OpenAI does is general knowledge, and so is DeepSeek's envelope.
        _ => Failure::json(
            status,
            &json!({"error": {"message": message, "type": kind, "param": null, "code": code}}),
        ),
    };
    Some(failure)
}

/// The line that Ollama ends a stream with when it fails: the text alone, and no `done`.
pub(super) fn ollama_frame(cause: Cause, facts: &Facts<'_>) -> Option<Event> {
    let text = ollama_text(cause, facts)?.1;
    Some(Event::new(Framing::Ndjson, None, json!({"error": text}).to_string().as_bytes()))
}

fn ollama(cause: Cause, facts: &Facts<'_>) -> Option<Failure> {
    let (status, text) = ollama_text(cause, facts)?;
    let mut failure = Failure::json(status, &json!({"error": text}));
    failure.headers = vec![("content-type", "application/json; charset=utf-8".to_owned())];
    Some(failure)
}

fn ollama_text(cause: Cause, facts: &Facts<'_>) -> Option<(u16, String)> {
    match cause {
        // It has no limits of its own: what it says is that its queue is full. The two spaces are in its source.
        Cause::RateLimitTokens | Cause::RateLimitRequests | Cause::Overloaded => {
            Some((503, "server busy, please try again.  maximum pending requests exceeded".to_owned()))
        }
        _ => plain(cause, facts).map(|plain| (plain.status, plain.message)),
    }
}

/// Azure's `code` is a string and there is no `type`; the rate limit's text is that of users' reports, other texts are
/// general knowledge.
fn azure(cause: Cause, facts: &Facts<'_>) -> Option<Failure> {
    let error = |status, code: &str, message: String| {
        Failure::json(status, &json!({"error": {"code": code, "message": message}}))
            .with("apim-request-id", facts.uuid())
            .with("x-ms-region", "East US")
    };
    let wait = facts.wait_or(USUAL_WAIT);
    let seconds = super::whole_seconds(wait);
    let limit = |kind: &str| {
        let message = format!(
            "Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-10-21 have exceeded \
             {kind} rate limit of your current OpenAI S0 pricing tier. Please retry after {seconds} seconds. Please go \
             here: https://aka.ms/oai/quotaincrease if you would like to further increase the default rate limit."
        );
        error(429, "429", message).with_retry_after(wait)
    };
    let remaining = |failure: Failure, requests: &str, tokens: &str| {
        failure.with("x-ratelimit-remaining-requests", requests).with("x-ratelimit-remaining-tokens", tokens)
    };
    Some(match cause {
        Cause::RateLimitTokens => remaining(limit("token"), "299", "0"),
        Cause::RateLimitRequests => remaining(limit("call"), "0", "30000"),
        Cause::ContextLength => {
            let plain = plain(cause, facts)?;
            let error = json!({"message": plain.message, "type": plain.kind, "param": "messages", "code": plain.code});
            Failure::json(400, &json!({"error": error})).with("apim-request-id", facts.uuid())
        }
        Cause::ServerError => error(500, "InternalServerError", plain(cause, facts)?.message),
        Cause::Overloaded => error(503, "ServiceUnavailable", plain(cause, facts)?.message),
        _ => return None,
    })
}

/// The exceptions and their statuses are those of the service model; the header's form and the texts are general
/// knowledge.
fn bedrock(cause: Cause, facts: &Facts<'_>) -> Option<Failure> {
    let (status, exception, message) = match cause {
        Cause::RateLimitTokens => {
            (429, "ThrottlingException", "Too many tokens, please wait before trying again.")
        }
        Cause::RateLimitRequests => {
            (429, "ThrottlingException", "Too many requests, please wait before trying again.")
        }
        Cause::ContextLength => (400, "ValidationException", "Input is too long for requested model."),
        Cause::ServerError => (
            500,
            "InternalServerException",
            "The system encountered an unexpected error during processing. Try your request again.",
        ),
        Cause::Overloaded => {
            (503, "ServiceUnavailableException", "Too many connections, please wait before trying again.")
        }
        _ => return None,
    };
    Some(
        Failure::json(status, &json!({"message": message}))
            .with("x-amzn-requestid", facts.uuid())
            .with("x-amzn-errortype", exception),
    )
}

/// The codes of rate limits are general knowledge; the envelope is documented.
fn ark(cause: Cause, status: u16, message: &str, facts: &Facts<'_>) -> Failure {
    let (code, kind) = match cause {
        Cause::RateLimitTokens => ("RateLimitExceeded.EndpointTPMExceeded", "TooManyRequests"),
        Cause::RateLimitRequests => ("RateLimitExceeded.EndpointRPMExceeded", "TooManyRequests"),
        Cause::Overloaded => ("ServerOverloaded", "TooManyRequests"),
        Cause::ContextLength => ("InvalidParameter", "BadRequest"),
        _ => ("InternalServiceError", "InternalServerError"),
    };
    let status = if cause == Cause::Overloaded { 429 } else { status };
    let id = format!("02{}", facts.hex(53));
    let message = format!("{message} Request ID: {id}");
    let body: Value = json!({"error": {"code": code, "message": message, "param": "", "type": kind}});
    Failure::json(status, &body).with("x-request-id", id)
}

fn limited(failure: Failure, cause: Cause, facts: &Facts<'_>) -> Failure {
    match (cause, facts.retry_after) {
        (Cause::RateLimitTokens | Cause::RateLimitRequests, _) => {
            failure.with_retry_after(facts.wait_or(USUAL_WAIT))
        }
        (Cause::Overloaded, Some(wait)) => failure.with_retry_after(wait),
        _ => failure,
    }
}
