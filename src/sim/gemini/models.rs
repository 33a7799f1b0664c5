//! `models`.
use http::StatusCode;
use serde_json::{Value, json};

use crate::sim::reply::Reply;

const MODELS: &[&str] = &["gemini-2.5-pro", "gemini-2.5-flash", "gemini-embedding-001"];

pub(super) fn list() -> Reply {
    let models: Vec<_> = MODELS.iter().map(|id| model(id)).collect();
    Reply::json(StatusCode::OK, &json!({"models": models}))
}

/// Every model's name is answered under, so every name exists.
pub(super) fn retrieve(id: &str) -> Reply {
    Reply::json(StatusCode::OK, &model(id))
}

fn model(id: &str) -> Value {
    let methods = if id.contains("embedding") {
        json!(["embedContent", "countTokens"])
    } else {
        json!(["generateContent", "countTokens"])
    };
    json!({
        "name": format!("models/{id}"),
        "version": "001",
        "displayName": id,
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": methods,
    })
}
