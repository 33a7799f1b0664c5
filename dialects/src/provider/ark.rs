//! Volcengine Ark, which serves Doubao.

use serde_json::{Value, json};

use super::{
    OPENAI_SHAPED, Provider,
    compatible::{Plain, plain},
    openai,
};
use crate::{
    Cause, Failure, FailureContext,
    outcome::Sign::{Text, Word},
};

pub(super) static PROVIDER: Provider = Provider {
    telemetry: Some("ark"),
    hosts: &["ark.*.volces.com", "ark.*.bytepluses.com"],
    path: |asked| openai::claim(asked, matches!(asked.steps, ["api", "v3", ..])),
    failure: |_, cause, facts| failure(cause, facts),
    signs: &[
        (Text("request too large for"), Cause::RequestTooLargeForLimit),
        (Word("ratelimitexceeded.endpointtpmexceeded"), Cause::RateLimitTokens),
        (Word("modelaccounttpmratelimitexceeded"), Cause::RateLimitTokens),
        (Word("ratelimitexceeded.endpointrpmexceeded"), Cause::RateLimitRequests),
        (Word("modelaccountrpmratelimitexceeded"), Cause::RateLimitRequests),
        (Word("requestbursttoofast"), Cause::SlowDown),
        (Word("quotaexceeded"), Cause::QuotaExhausted),
        (Word("serveroverloaded"), Cause::Overloaded),
        (Word("sensitivecontentdetected"), Cause::ContentFilter),
        (Word("authenticationerror"), Cause::Auth),
        (Word("accountoverdueerror"), Cause::Billing),
        (Word("accessdenied"), Cause::Permission),
        (Word("invalidendpointormodel.notfound"), Cause::ModelNotFound),
        (Word("modelnotopen"), Cause::ModelNotFound),
        (Word("internalserviceerror"), Cause::ServerError),
        (Text("maximum context length"), Cause::ContextLength),
        (Word("invalidparameter"), Cause::InvalidRequest),
        (Word("missingparameter"), Cause::InvalidRequest),
    ],
    ..OPENAI_SHAPED
};

/// The codes of rate limits are general knowledge; the envelope is documented.
fn failure(cause: Cause, facts: &FailureContext<'_>) -> Option<Failure> {
    let Plain { status, message, .. } = plain(cause, facts)?;
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
        Cause::RequestTooLargeForLimit => ("RateLimitExceeded.EndpointTPMExceeded", "TooManyRequests"),
        Cause::SlowDown => ("RequestBurstTooFast", "TooManyRequests"),
        Cause::ServerError | Cause::Timeout | Cause::NotReady => {
            ("InternalServiceError", "InternalServerError")
        }
        _ => return None,
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
    Some(Failure::json(status, &body).with("x-request-id", id))
}
