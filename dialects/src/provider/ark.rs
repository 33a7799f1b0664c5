//! Volcengine Ark, which serves Doubao.

use serde_json::{Value, json};

use super::{
    OPENAI_SHAPED, Provider,
    compatible::{Plain, plain},
    openai,
};
use crate::{Cause, Facts, Failure};

pub(super) static PROVIDER: Provider = Provider {
    telemetry: Some("ark"),
    hosts: &["ark.*.volces.com", "ark.*.bytepluses.com"],
    path: |asked| openai::claim(asked, matches!(asked.steps, ["api", "v3", ..])),
    failure: |_, cause, facts| failure(cause, facts),
    ..OPENAI_SHAPED
};

/// The codes of rate limits are general knowledge; the envelope is documented.
fn failure(cause: Cause, facts: &Facts<'_>) -> Option<Failure> {
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
    Some(Failure::json(status, &body).with("x-request-id", id))
}
