//! Ollama's own API.

use serde_json::json;

use super::{BLANK, Provider, compatible::plain};
use crate::{
    Cause, Event, EventFormat, Failure, FailureContext, Finish, Operation,
    content::{Mark, Stream, any_filled, filled},
    dialect::{Claim, RequestLine},
    embeddings::{Vectors, list},
    json::Node,
    parts::Parts,
};

pub(super) static PROVIDER: Provider = Provider {
    telemetry: Some("ollama"),
    hosts: &["ollama.com"],
    path,
    streams_by_default: true,
    streams: &[&LINES],
    framing: EventFormat::Ndjson,
    failure: |_, cause, facts| failure(cause, facts),
    frame: |_, _, cause, facts, _| frame(cause, facts),
    vectors,
    content: &["message.content", "message.tool_calls", "response"],
    finish: &["done_reason"],
    finish_words: &[(Finish::Stop, "stop"), (Finish::Length, "length")],
    parts: Parts {
        model: &["model"],
        usage: &["prompt_eval_count", "eval_count"],
        text: &["message.content", "response"],
        tool_name: &["message.tool_calls[].function.name"],
        tool_id: &["message.tool_calls[].id"],
        tool_arguments: &["message.tool_calls[].function.arguments"],
    },
    ..BLANK
};

/// `embeddings`, or in the older API `embedding`.
fn vectors(root: Node<'_>) -> Vec<Vectors<'_>> {
    Vectors::floats(root.get("embedding").into_iter().chain(list(root.get("embeddings"))))
        .into_iter()
        .collect()
}

fn path(asked: &RequestLine<'_>) -> Claim {
    match asked.tail() {
        ("api", "tags") if asked.is_get() => Claim::For(Operation::Models),
        _ if asked.is_get() => Claim::No,
        ("api", "chat") => Claim::For(Operation::Chat),
        ("api", "generate") => Claim::For(Operation::Completions),
        ("api", "embed" | "embeddings") => Claim::For(Operation::Embeddings),
        _ => Claim::No,
    }
}

/// Lines, the last one with `done: true`.
static LINES: Stream = Stream {
    operations: &[],
    looks: |framing, root| framing == EventFormat::Ndjson || root.get("done").is_some(),
    content: Mark {
        words: &[b"\"response", b"\"message"],
        is: |root| {
            filled(root.get("response"))
                || root
                    .get("message")
                    .is_some_and(|message| any_filled(message, &["content", "thinking", "tool_calls"]))
        },
    },
    terminator: Mark {
        words: &[b"\"done"],
        is: |root| root.get("done").is_some_and(|done| done.raw() == b"true"),
    },
    usage: Mark::NONE,
    failure: Mark { words: &[b"\"error"], is: |root| filled(root.get("error")) },
    tool_call: Mark {
        words: &[b"\"tool_calls"],
        is: |root| root.get("message").is_some_and(|message| filled(message.get("tool_calls"))),
    },
    is_numbered: false,
};

/// The line that Ollama ends a stream with when it fails: the text alone, and no `done`.
fn frame(cause: Cause, facts: &FailureContext<'_>) -> Option<Event> {
    let text = text(cause, facts)?.1;
    Some(Event::new(EventFormat::Ndjson, None, json!({"error": text}).to_string().as_bytes()))
}

fn failure(cause: Cause, facts: &FailureContext<'_>) -> Option<Failure> {
    let (status, text) = text(cause, facts)?;
    let mut failure = Failure::json(status, &json!({"error": text}));
    failure.headers = vec![("content-type", "application/json; charset=utf-8".to_owned())];
    Some(failure)
}

fn text(cause: Cause, facts: &FailureContext<'_>) -> Option<(u16, String)> {
    match cause {
        // The status is documented; the text is general knowledge.
        Cause::RateLimitTokens | Cause::RateLimitRequests => {
            Some((429, "rate limit exceeded, please try again later".to_owned()))
        }
        // Its queue is full. The two spaces are in its source.
        Cause::Overloaded => {
            Some((503, "server busy, please try again.  maximum pending requests exceeded".to_owned()))
        }
        _ => plain(cause, facts).map(|plain| (plain.status, plain.message)),
    }
}
