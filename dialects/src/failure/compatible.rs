//! Providers whose protocol is OpenAI's or near to it, each with an envelope of its own, and the unknown ones.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Cause, Dialect, Event, Facts, Failure, Framing,
    plain::{Plain, plain},
};

const USUAL_WAIT: Duration = Duration::from_secs(6);

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
        Dialect::DashScope => dashscope(cause, status, kind, code, &message),
        // DeepSeek's envelope is general knowledge. It has no headers for limits.
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
    let plain = plain(cause, facts);
    Some(match cause {
        Cause::RateLimitTokens => remaining(limit("token"), "299", "0"),
        Cause::RateLimitRequests => remaining(limit("call"), "0", "30000"),
        Cause::ContentFilter => Failure::json(400, &filtered()).with("apim-request-id", facts.uuid()),
        Cause::ContextLength => {
            let plain = plain?;
            let error = json!({"message": plain.message, "type": plain.kind, "param": "messages", "code": plain.code});
            Failure::json(400, &json!({"error": error})).with("apim-request-id", facts.uuid())
        }
        Cause::Auth => error(
            401,
            "401",
            "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key for an \
             active subscription and use a correct regional API endpoint for your resource."
                .to_owned(),
        ),
        Cause::ModelNotFound => error(
            404,
            "DeploymentNotFound",
            "The API deployment for this resource does not exist. If you created the deployment within the last 5 minutes, \
             please wait a moment and try again."
                .to_owned(),
        ),
        Cause::Timeout => error(408, "Timeout", "The operation was timeout.".to_owned()),
        Cause::ServerError => error(500, "InternalServerError", plain?.message),
        Cause::Overloaded | Cause::Capacity => error(503, "ServiceUnavailable", plain?.message),
        _ => {
            let plain = plain?;
            error(plain.status, plain.code, plain.message)
        }
    })
}

/// Azure's refusal of a prompt: `content_filter_result` in the singular, and the status as a number.
fn filtered() -> Value {
    let safe = json!({"filtered": false, "severity": "safe"});
    json!({"error": {
        "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please \
                    modify your prompt and retry. To learn more about our content filtering policies please read our \
                    documentation: https://go.microsoft.com/fwlink/?linkid=2198766",
        "type": null,
        "param": "prompt",
        "code": "content_filter",
        "status": 400,
        "innererror": {
            "code": "ResponsibleAIPolicyViolation",
            "content_filter_result": {
                "hate": safe,
                "jailbreak": {"filtered": false, "detected": false},
                "self_harm": safe,
                "sexual": {"filtered": true, "severity": "high"},
                "violence": safe,
            },
        },
    }})
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
        Cause::Overloaded | Cause::Capacity => {
            (503, "ServiceUnavailableException", "Too many connections, please wait before trying again.")
        }
        Cause::NotReady => (429, "ModelNotReadyException", "The model is not ready. Try your request again."),
        Cause::Timeout => {
            (408, "ModelTimeoutException", "The model took too long to respond. Try your request again.")
        }
        Cause::QuotaExhausted => {
            (400, "ServiceQuotaExceededException", "Your request exceeds a service quota.")
        }
        Cause::Conflict => (400, "ConflictException", "The resource was changed by another request."),
        Cause::InvalidRequest | Cause::ContentFilter => {
            (400, "ValidationException", "The provided request is not valid.")
        }
        Cause::Auth => {
            (403, "UnrecognizedClientException", "The security token included in the request is invalid.")
        }
        Cause::Permission => {
            (403, "AccessDeniedException", "You don't have access to the model with the specified model ID.")
        }
        Cause::ModelNotFound => {
            (404, "ResourceNotFoundException", "The provided model identifier is not found.")
        }
        _ => return None,
    };
    Some(
        Failure::json(status, &json!({"message": message}))
            .with("x-amzn-requestid", facts.uuid())
            .with("x-amzn-errortype", exception),
    )
}

/// The codes are documented; that the compatible mode wraps them as OpenAI does is general knowledge. The misspelling is
/// the provider's own.
fn dashscope(cause: Cause, status: u16, kind: &str, code: &str, message: &str) -> Failure {
    let (status, code, kind, message) = match cause {
        Cause::RateLimitRequests => (
            429,
            "limit_requests",
            "limit_requests",
            "You exceeded your current requests limit. Please try again later.",
        ),
        Cause::RateLimitTokens | Cause::QuotaExhausted => (
            429,
            "insufficient_quota",
            "insufficient_quota",
            "Allocated quota exceeded, please increase your quota limit.",
        ),
        Cause::Billing => (
            400,
            "Arrearage",
            "Arrearage",
            "Access denied, please make sure your account is in good standing.",
        ),
        Cause::ContentFilter => (
            400,
            "data_inspection_failed",
            "data_inspection_failed",
            "Input data may contain inappropriate content.",
        ),
        Cause::Permission => (403, "access_denied", "access_denied", "Access denied."),
        Cause::ServerError => (
            500,
            "internal_error",
            "internal_error",
            "An internal error has occured, please try again later.",
        ),
        _ => (status, code, kind, message),
    };
    Failure::json(status, &json!({"error": {"message": message, "type": kind, "param": null, "code": code}}))
}

/// The codes of rate limits are general knowledge; the envelope is documented.
fn ark(cause: Cause, status: u16, message: &str, facts: &Facts<'_>) -> Failure {
    let (code, kind) = match cause {
        Cause::RateLimitTokens => ("RateLimitExceeded.EndpointTPMExceeded", "TooManyRequests"),
        Cause::RateLimitRequests => ("RateLimitExceeded.EndpointRPMExceeded", "TooManyRequests"),
        Cause::QuotaExhausted | Cause::SpendLimit => ("QuotaExceeded", "TooManyRequests"),
        Cause::Overloaded | Cause::Capacity => ("ServerOverloaded", "TooManyRequests"),
        Cause::ContentFilter => ("SensitiveContentDetected", "BadRequest"),
        Cause::Auth => ("AuthenticationError", "Unauthorized"),
        Cause::Billing => ("AccountOverdueError", "Forbidden"),
        Cause::Permission => ("AccessDenied", "Forbidden"),
        Cause::ModelNotFound => ("InvalidEndpointOrModel.NotFound", "NotFound"),
        Cause::ContextLength | Cause::InvalidRequest => ("InvalidParameter", "BadRequest"),
        _ => ("InternalServiceError", "InternalServerError"),
    };
    let status = match kind {
        "TooManyRequests" => 429,
        "Forbidden" => 403,
        "InternalServerError" => 500,
        _ => status,
    };
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
