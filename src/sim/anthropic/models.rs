//! `/v1/models`.
use http::StatusCode;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::RESET;
use crate::sim::reply::Reply;

const MODELS: &[&str] = &["claude-opus-4-5", "claude-sonnet-4-5", "claude-haiku-4-5"];

pub(super) fn list() -> Reply {
    let data: Vec<_> = MODELS.iter().map(|id| model(id)).collect();
    let page = json!({"data": data, "has_more": false, "first_id": MODELS.first(), "last_id": MODELS.last()});
    Reply::json(StatusCode::OK, &page)
}

/// Messages are answered under any model's name, so every name exists.
pub(super) fn retrieve(id: &str) -> Reply {
    Reply::json(StatusCode::OK, &model(&percent_decode_str(id).decode_utf8_lossy()))
}

fn model(id: &str) -> Value {
    json!({
        "type": "model",
        "id": id,
        "display_name": id,
        "created_at": RESET,
        "lifecycle": "active",
        "max_input_tokens": 200_000,
        "max_tokens": 64_000,
    })
}
