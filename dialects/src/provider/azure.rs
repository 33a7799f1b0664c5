//! Azure OpenAI and Foundry: OpenAI's API under paths that name a deployment, with errors of its own.

use std::time::Duration;

use serde_json::{Value, json};

use super::{OPENAI_SHAPED, Provider, compatible::plain, openai};
use crate::{
    Cause, Failure, FailureContext,
    failure::whole_seconds,
    outcome::Sign::{Text, Word},
};

pub(super) static PROVIDER: Provider = Provider {
    telemetry: Some("azure.ai.openai"),
    hosts: &["*.openai.azure.com", "*.services.ai.azure.com", "*.cognitiveservices.azure.com"],
    path: |asked| {
        let is_own = matches!(
            asked.steps,
            [.., "openai", "deployments", _, _] | [.., "openai", "deployments", _, _, _]
        );
        openai::claim(asked, is_own)
    },
    has_model_in_path: true,
    failure: |_, cause, facts| failure(cause, facts),
    signs: &[
        (Word("deploymentnotfound"), Cause::ModelNotFound),
        (Text("token rate limit"), Cause::RateLimitTokens),
        (Text("call rate limit"), Cause::RateLimitRequests),
        (Word("internalservererror"), Cause::ServerError),
        (Word("serviceunavailable"), Cause::Overloaded),
        (Word("timeout"), Cause::Timeout),
    ],
    ..OPENAI_SHAPED
};

const USUAL_WAIT: Duration = Duration::from_secs(6);

/// Azure's `code` is a string and there is no `type`; the rate limit's text is that of users' reports, other texts are
/// general knowledge.
fn failure(cause: Cause, facts: &FailureContext<'_>) -> Option<Failure> {
    let error = |status, code: &str, message: String| {
        Failure::json(status, &json!({"error": {"code": code, "message": message}}))
            .with("apim-request-id", facts.uuid())
            .with("x-ms-region", "East US")
    };
    let wait = facts.wait_or(USUAL_WAIT);
    let seconds = whole_seconds(wait);
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
