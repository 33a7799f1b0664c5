//! OpenRouter.

use serde_json::{Value, json};

use super::{
    OPENAI_SHAPED, Provider,
    compatible::{Plain, data, plain},
};
use crate::{Cause, Failure, FailureContext};

pub(super) static PROVIDER: Provider = Provider {
    telemetry: Some("openrouter"),
    hosts: &["openrouter.ai"],
    failure: |_, cause, facts| {
        let (status, error) = error(cause, facts)?;
        Some(Failure::json(status, &json!({"error": error})))
    },
    // A chunk with the error beside a choice that has ended.
    frame: |_, _, cause, facts, _| {
        let (_, error) = error(cause, facts)?;
        let choice = json!({"index": 0, "delta": {"content": ""}, "finish_reason": "error"});
        Some(data(&json!({"error": error, "choices": [choice]})))
    },
    ..OPENAI_SHAPED
};

/// The code is the status, a number.
fn error(cause: Cause, facts: &FailureContext<'_>) -> Option<(u16, Value)> {
    let Plain { status, message, .. } = plain(cause, facts)?;
    Some((status, json!({"code": status, "message": message, "metadata": {}})))
}
