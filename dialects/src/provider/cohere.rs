//! Cohere. Its errors are flat and have neither type nor code.

use serde_json::json;

use super::{
    BLANK, Provider,
    compatible::{Plain, plain},
};
use crate::{
    Failure, Finish, Operation,
    content::{Mark, Stream, filled, kind},
    dialect::{Claim, RequestLine},
    embeddings::{Numbers, Vectors, list},
    json::Node,
    parts::Parts,
};

pub(super) static PROVIDER: Provider = Provider {
    telemetry: Some("cohere"),
    hosts: &["api.cohere.com", "api.cohere.ai"],
    path,
    streams: &[&CHAT],
    failure: |_, cause, facts| {
        let Plain { status, message, .. } = plain(cause, facts)?;
        Some(Failure::json(status, &json!({"message": message, "id": facts.uuid()})))
    },
    vectors,
    content: &["message.content[].text", "message.tool_calls", "text", "generations[].text"],
    finish: &["finish_reason", "delta.finish_reason"],
    finish_words: &[
        (Finish::Stop, "COMPLETE"),
        (Finish::Length, "MAX_TOKENS"),
        (Finish::ToolCalls, "TOOL_CALL"),
    ],
    parts: Parts {
        usage: &["usage", "delta.usage", "meta.tokens", "meta.billed_units"],
        text: &["message.content[].text", "delta.message.content.text", "text", "generations[].text"],
        tool_name: &["message.tool_calls[].function.name", "delta.message.tool_calls.function.name"],
        tool_id: &["message.tool_calls[].id", "delta.message.tool_calls.id"],
        tool_arguments: &[
            "message.tool_calls[].function.arguments",
            "delta.message.tool_calls.function.arguments",
        ],
        ..Parts::NONE
    },
    ..BLANK
};

/// `embeddings` by type, each a list of vectors; in the older API a list of vectors itself, as Ollama's.
fn vectors(root: Node<'_>) -> Vec<Vectors<'_>> {
    let of =
        |name: &str, numbers| Vectors::of(numbers, list(root.get("embeddings").and_then(|by| by.get(name))));
    let types = [
        ("float", Numbers::Floats),
        ("base64", Numbers::Floats),
        ("int8", Numbers::Int8),
        ("binary", Numbers::Int8),
        ("uint8", Numbers::Uint8),
        ("ubinary", Numbers::Uint8),
    ];
    types.into_iter().filter_map(|(name, numbers)| of(name, numbers)).collect()
}

fn path(asked: &RequestLine<'_>) -> Claim {
    match asked.tail() {
        _ if asked.is_get() => Claim::No,
        ("v1" | "v2", "chat") => Claim::For(Operation::Chat),
        ("v1" | "v2", "embed") => Claim::For(Operation::Embeddings),
        ("v1" | "v2", "rerank") => Claim::For(Operation::Rerank),
        _ => Claim::No,
    }
}

/// Events with a `type` such as `content-delta`, to `message-end`.
static CHAT: Stream = Stream {
    operations: &[],
    looks: |_, root| kind(root).contains('-'),
    content: Mark {
        words: &[b"-delta"],
        is: |root| matches!(kind(root).as_ref(), "content-delta" | "tool-call-delta" | "tool-plan-delta"),
    },
    terminator: Mark { words: &[b"message-end"], is: |root| kind(root) == "message-end" },
    usage: Mark::NONE,
    failure: Mark {
        words: &[b"\"error"],
        is: |root| root.get("delta").is_some_and(|delta| filled(delta.get("error"))),
    },
    tool_call: Mark { words: &[b"tool-call-"], is: |root| kind(root).starts_with("tool-call-") },
    is_numbered: false,
};
