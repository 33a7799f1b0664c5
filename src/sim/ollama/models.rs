//! `/api/tags` and `/api/show`.
use aconite_dialects::conversation::{Fields, parse};
use http::StatusCode;
use serde_json::{Value, json};

use super::refusal::Refusal;
use crate::sim::{digest::Digest, reply::Reply};

const MODELS: &[&str] = &["llama3.2:latest", "qwen3:latest", "nomic-embed-text:latest"];

pub(super) fn list() -> Reply {
    let models: Vec<_> = MODELS.iter().map(|name| model(name)).collect();
    Reply::json(StatusCode::OK, &json!({"models": models}))
}

fn model(name: &str) -> Value {
    json!({
        "name": name,
        "model": name,
        "modified_at": "2026-01-01T00:00:00Z",
        "size": 2_019_393_189_u64,
        "digest": Digest::of(name.as_bytes()).hex("", 64),
        "details": details(),
    })
}

fn details() -> Value {
    json!({
        "parent_model": "",
        "format": "gguf",
        "family": "llama",
        "families": ["llama"],
        "parameter_size": "3.2B",
        "quantization_level": "Q4_K_M",
    })
}

/// Chat answers under any model's name, so every name exists.
pub(super) fn show(body: &[u8]) -> Result<Reply, Refusal> {
    let document = parse(body)?;
    Fields::root(&document)?.required_string("model")?;
    let shown = json!({
        "modelfile": "",
        "template": "{{ .Prompt }}",
        "details": details(),
        "model_info": {},
        "capabilities": ["completion", "tools"],
        "modified_at": "2026-01-01T00:00:00Z",
    });
    Ok(Reply::json(StatusCode::OK, &shown))
}
