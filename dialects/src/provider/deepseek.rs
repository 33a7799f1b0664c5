//! DeepSeek.

use serde_json::json;

use super::{OPENAI_SHAPED, Provider, compatible::plain};
use crate::Failure;

pub(super) static PROVIDER: Provider = Provider {
    telemetry: Some("deepseek"),
    hosts: &["api.deepseek.com"],
    // The envelope is general knowledge. There are no headers for limits.
    failure: |_, cause, facts| {
        let plain = plain(cause, facts)?;
        Some(Failure::json(plain.status, &json!({"error": plain.error()})))
    },
    ..OPENAI_SHAPED
};
