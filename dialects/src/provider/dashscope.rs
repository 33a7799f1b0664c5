//! Alibaba Model Studio, which serves Qwen.

use serde_json::json;

use super::{OPENAI_SHAPED, Provider, compatible::plain, openai};
use crate::{
    Cause, Failure, FailureContext, Operation,
    content::{Mark, Stream, any_filled, filled, items},
    dialect::{Claim, RequestLine},
    embeddings::{Vectors, list},
    json::Node,
    outcome::Sign::{Text, Word},
    parts::Parts,
};

pub(super) static PROVIDER: Provider = Provider {
    telemetry: Some("dashscope"),
    hosts: &["dashscope.aliyuncs.com", "dashscope-*.aliyuncs.com"],
    path,
    streams: STREAMS,
    // The native API has a header for it.
    asks_for_stream: |head| {
        (head.header)("x-dashscope-sse").map(|value| value.trim_ascii().eq_ignore_ascii_case(b"enable"))
    },
    failure: |_, cause, facts| failure(cause, facts),
    vectors,
    signs: &[
        (Text("free allocated quota"), Cause::QuotaExhausted),
        (Word("arrearage"), Cause::Billing),
        // The same code stands for tokens per minute.
        (Text("allocated quota exceeded"), Cause::RateLimitTokens),
        (Word("throttling.allocationquota"), Cause::RateLimitTokens),
        (Word("limit_requests"), Cause::RateLimitRequests),
        (Word("throttling"), Cause::RateLimitRequests),
        (Word("throttling.ratequota"), Cause::RateLimitRequests),
        (Word("data_inspection_failed"), Cause::ContentFilter),
        (Word("datainspectionfailed"), Cause::ContentFilter),
        (Word("invalidapikey"), Cause::Auth),
        (Word("access_denied"), Cause::Permission),
        (Word("accessdenied"), Cause::Permission),
        (Word("modelnotfound"), Cause::ModelNotFound),
        (Word("internalerror"), Cause::ServerError),
        (Word("internal_error"), Cause::ServerError),
        (Word("invalidparameter"), Cause::InvalidRequest),
    ],
    content: &[
        "output.choices[].message.content",
        "output.choices[].message.tool_calls",
        "output.text",
        "choices[].message.content",
        "choices[].message.tool_calls",
        "choices[].text",
        "output[].content[].text",
    ],
    finish: &["output.choices[].finish_reason", "choices[].finish_reason"],
    parts: Parts {
        text: &[
            "output.choices[].message.content",
            "output.text",
            "choices[].message.content",
            "choices[].delta.content",
            "choices[].text",
            "output[].content[].text",
        ],
        ..OPENAI_SHAPED.parts
    },
    is_failure: is_native_error,
    ..OPENAI_SHAPED
};

/// Natively `output.embeddings[].embedding`, else as OpenAI.
fn vectors(root: Node<'_>) -> Vec<Vectors<'_>> {
    let Some(output) = root.get("output") else { return openai::vectors(root) };
    let native = list(output.get("embeddings")).filter_map(|item| item.get("embedding"));
    Vectors::floats(native).into_iter().collect()
}

/// OpenAI's, and that of the native API: a client of either may ask for chat, so an event of chat is read as both.
static STREAMS: &[&Stream] = &[&openai::RESPONSES, &CHAT];

static CHAT: Stream = Stream {
    operations: &[],
    looks: |_, root| root.get("output").is_some() || is_native_error(root),
    content: Mark {
        words: &[b"\"content", b"\"text", b"\"reasoning", b"delta", b"\"tool"],
        is: |root| {
            choices(root).any(|choice| {
                filled(choice.get("text"))
                    || choice.get("message").is_some_and(|message| {
                        any_filled(message, &["content", "reasoning_content", "tool_calls"])
                    })
            }) || (openai::CHAT.content.is)(root)
        },
    },
    terminator: Mark {
        words: &[b"finish_reason"],
        is: |root| {
            let reasons = choices(root).filter_map(|choice| choice.get("finish_reason"));
            // The string "null" stands for none.
            reasons.filter_map(Node::text).any(|reason| reason != "null" && !reason.is_empty())
        },
    },
    usage: Mark {
        words: openai::CHAT.usage.words,
        is: |root| root.get("output").is_none() && (openai::CHAT.usage.is)(root),
    },
    failure: Mark {
        words: &[b"\"error", b"\"code"],
        is: |root| is_native_error(root) || (openai::CHAT.failure.is)(root),
    },
    tool_call: Mark {
        words: &[b"\"tool_calls"],
        is: |root| {
            let message = |choice: Node<'_>| {
                choice.get("message").is_some_and(|message| filled(message.get("tool_calls")))
            };
            choices(root).any(message) || (openai::CHAT.tool_call.is)(root)
        },
    },
    is_numbered: false,
};

fn is_native_error(root: Node<'_>) -> bool {
    filled(root.get("code")) && filled(root.get("message")) && root.get("request_id").is_some()
}

/// What a native event says: choices, or in the older form the output itself.
fn choices(root: Node<'_>) -> impl Iterator<Item = Node<'_>> {
    root.get("output").into_iter().flat_map(|output| items(output, "choices").chain([output]))
}

fn path(asked: &RequestLine<'_>) -> Claim {
    match asked.tail() {
        _ if matches!(asked.steps, ["compatible-mode", ..]) => openai::claim(asked, true),
        _ if asked.is_get() => Claim::No,
        ("text-generation" | "multimodal-generation", "generation") => Claim::For(Operation::Chat),
        ("text-embedding" | "multimodal-embedding", _) => Claim::For(Operation::Embeddings),
        _ => Claim::No,
    }
}

/// The codes are documented; that the compatible mode wraps them as OpenAI does is general knowledge. The misspelling is
/// the provider's own.
fn failure(cause: Cause, facts: &FailureContext<'_>) -> Option<Failure> {
    let plain = plain(cause, facts)?;
    let (status, code, kind, message) = match cause {
        Cause::RateLimitRequests => (
            429,
            "limit_requests",
            "limit_requests",
            "You exceeded your current requests limit. Please try again later.",
        ),
        Cause::QuotaExhausted => {
            (429, "insufficient_quota", "insufficient_quota", "Free allocated quota exceeded.")
        }
        Cause::RateLimitTokens => (
            429,
            "insufficient_quota",
            "insufficient_quota",
            "Allocated quota exceeded, please increase your quota limit.",
        ),
        Cause::Billing => (
            400,
            "Arrearage",
            "Arrearage",
            "Access denied, please make sure your account is in good standing.",
        ),
        Cause::ContentFilter => (
            400,
            "data_inspection_failed",
            "data_inspection_failed",
            "Input data may contain inappropriate content.",
        ),
        Cause::Permission => (403, "access_denied", "access_denied", "Access denied."),
        Cause::ServerError => (
            500,
            "internal_error",
            "internal_error",
            "An internal error has occured, please try again later.",
        ),
        _ => (plain.status, plain.code, plain.kind, plain.message.as_str()),
    };
    Some(Failure::json(
        status,
        &json!({"error": {"message": message, "type": kind, "param": null, "code": code}}),
    ))
}
