//! Mistral. Its errors have no envelope.

use serde_json::json;

use super::{
    OPENAI_SHAPED, Provider,
    compatible::{Plain, limited, plain},
};
use crate::{Cause, Failure, FailureContext, Operation, dialect::Claim};

pub(super) static PROVIDER: Provider = Provider {
    telemetry: Some("mistral_ai"),
    hosts: &["api.mistral.ai"],
    path: |asked| match asked.tail() {
        ("fim", "completions") if !asked.is_get() => Claim::For(Operation::Completions),
        _ => Claim::No,
    },
    failure: |_, cause, facts| failure(cause, facts),
    ..OPENAI_SHAPED
};

fn failure(cause: Cause, facts: &FailureContext<'_>) -> Option<Failure> {
    let Plain { status, kind, message, .. } = plain(cause, facts)?;
    let body = json!({"object": "error", "message": message, "type": kind, "param": null, "code": null});
    Some(limited(Failure::json(status, &body), cause, facts))
}
