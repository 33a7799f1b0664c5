//! `/v1/models`.
use http::StatusCode;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::CREATED;
use crate::sim::reply::Reply;

const MODELS: &[&str] = &["gpt-4o", "gpt-4o-mini", "text-embedding-3-small", "text-embedding-3-large"];

pub(super) fn list() -> Reply {
    let data: Vec<_> = MODELS.iter().map(|id| model(id)).collect();
    Reply::json(StatusCode::OK, &json!({"object": "list", "data": data}))
}

/// Chat answers under any model's name, so every name exists.
pub(super) fn retrieve(id: &str) -> Reply {
    Reply::json(StatusCode::OK, &model(&percent_decode_str(id).decode_utf8_lossy()))
}

fn model(id: &str) -> Value {
    json!({"id": id, "object": "model", "created": CREATED, "owned_by": "system"})
}
