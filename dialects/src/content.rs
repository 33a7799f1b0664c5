//! What an event of an answer's stream is for: content, the end, usage, a failure.

use std::borrow::Cow;

use memchr::memmem;

use crate::{
    Dialect, Event, Framing, Operation,
    json::{Document, Kind, Node},
};

/// The shape of an answer's stream.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Shape {
    /// OpenAI chat and completions, and all who serve them: chunks with `choices`, then `[DONE]`.
    OpenAi,
    /// OpenAI Responses: events named `response.…`.
    Responses,
    /// Anthropic messages: `message_start` to `message_stop`.
    Anthropic,
    /// Gemini: chunks with `candidates`; the last one has a `finishReason`.
    Gemini,
    /// Ollama: lines, the last one with `done: true`.
    Ollama,
    /// Cohere: events with a `type` such as `content-delta`, to `message-end`.
    Cohere,
    /// Not known beforehand: each event is taken for what it looks like.
    #[default]
    Unknown,
}

impl Shape {
    /// The shape of the answers to a request.
    pub fn of(dialect: Option<Dialect>, operation: Option<Operation>) -> Self {
        match (dialect, operation) {
            (_, Some(Operation::Responses)) => Self::Responses,
            (Some(Dialect::Anthropic), _) => Self::Anthropic,
            (Some(Dialect::Gemini), _) => Self::Gemini,
            (Some(Dialect::Ollama), _) => Self::Ollama,
            (Some(Dialect::Cohere), _) => Self::Cohere,
            (Some(dialect), _) if dialect.is_openai_shaped() => Self::OpenAi,
            _ => Self::Unknown,
        }
    }

    /// Whether the event carries a piece of the answer: text, reasoning, a refusal's words or a tool call's arguments,
    /// and not an empty one. This is what `{tokens: n}` counts; providers send about a token in each.
    pub fn is_content(self, event: &Event) -> bool {
        self.look(
            event,
            &[b"\"content", b"\"text", b"delta", b"\"tool", b"\"parts", b"\"response", b"\"reasoning"],
            |shape, root| match shape {
                Self::Responses => {
                    is_type(root, |kind| kind.starts_with("response.") && kind.ends_with(".delta"))
                        && filled(root.get("delta"))
                }
                Self::Anthropic => {
                    is_type(root, |kind| kind == "content_block_delta")
                        && root
                            .get("delta")
                            .is_some_and(|delta| any_filled(delta, &["text", "partial_json", "thinking"]))
                }
                Self::Gemini => items(root, "candidates").any(|candidate| {
                    candidate.get("content").is_some_and(|content| {
                        items(content, "parts")
                            .any(|part| any_filled(part, &["text", "functionCall", "inlineData"]))
                    })
                }),
                Self::Ollama => {
                    filled(root.get("response"))
                        || root.get("message").is_some_and(|message| {
                            any_filled(message, &["content", "thinking", "tool_calls"])
                        })
                }
                Self::Cohere => is_type(root, |kind| {
                    matches!(kind, "content-delta" | "tool-call-delta" | "tool-plan-delta")
                }),
                Self::OpenAi | Self::Unknown => items(root, "choices").any(|choice| {
                    filled(choice.get("text"))
                        || choice.get("delta").is_some_and(|delta| {
                            any_filled(
                                delta,
                                &[
                                    "content",
                                    "reasoning_content",
                                    "reasoning",
                                    "refusal",
                                    "tool_calls",
                                    "function_call",
                                ],
                            )
                        })
                }),
            },
        )
    }

    /// Whether the event is the one by which a client knows that the answer is complete.
    pub fn is_terminator(self, event: &Event) -> bool {
        if !event.is_event() {
            return false;
        }
        if event.framing() == Framing::Sse && event.data().trim_ascii() == b"[DONE]" {
            return true;
        }
        self.look(
            event,
            &[b"message_stop", b"response.", b"finishReason", b"\"done\"", b"message-end"],
            |shape, root| match shape {
                Self::Responses => is_type(root, |kind| {
                    matches!(kind, "response.completed" | "response.incomplete" | "response.failed")
                }),
                Self::Anthropic => is_type(root, |kind| kind == "message_stop"),
                Self::Gemini => {
                    items(root, "candidates").any(|candidate| filled(candidate.get("finishReason")))
                }
                Self::Ollama => root.get("done").is_some_and(|done| done.raw() == b"true"),
                Self::Cohere => is_type(root, |kind| kind == "message-end"),
                Self::OpenAi | Self::Unknown => false,
            },
        )
    }

    /// Whether the event is there to tell what was used: OpenAI's last chunk without choices, Anthropic's
    /// `message_delta`. Events that bring usage along with something that a client needs more don't count.
    pub fn is_usage(self, event: &Event) -> bool {
        self.look(event, &[b"\"usage"], |shape, root| match shape {
            Self::Anthropic => is_type(root, |kind| kind == "message_delta"),
            Self::OpenAi => {
                root.get("usage").is_some_and(|usage| usage.kind() == Kind::Object)
                    && items(root, "choices").next().is_none()
            }
            Self::Gemini => root.get("usageMetadata").is_some() && root.get("candidates").is_none(),
            _ => false,
        })
    }

    /// Whether the event says that the provider has failed, although the status was a success.
    pub fn is_failure(self, event: &Event) -> bool {
        self.look(event, &[b"\"error", b"response.failed"], |shape, root| match shape {
            Self::Responses => is_type(root, |kind| matches!(kind, "error" | "response.failed")),
            Self::Anthropic => is_type(root, |kind| kind == "error"),
            Self::Cohere => root.get("delta").is_some_and(|delta| filled(delta.get("error"))),
            _ => filled(root.get("error")),
        })
    }

    /// Asks about the document in an event, if it is one and has any of these words somewhere.
    fn look(self, event: &Event, words: &[&[u8]], ask: impl Fn(Self, Node<'_>) -> bool) -> bool {
        if !event.is_event() {
            return false;
        }
        let data = event.data();
        if !words.iter().any(|word| memmem::find(&data, word).is_some()) {
            return false;
        }
        let Ok(document) = Document::parse(&data) else { return false };
        let root = document.root();
        ask(if self == Self::Unknown { Self::guess(event.framing(), root) } else { self }, root)
    }

    fn guess(framing: Framing, root: Node<'_>) -> Self {
        if framing == Framing::Ndjson {
            return Self::Ollama;
        }
        match root.get("type").and_then(Node::text).as_deref() {
            Some(kind) if kind.starts_with("response.") => Self::Responses,
            Some(kind) if kind.contains('-') => Self::Cohere,
            Some("error") if root.get("sequence_number").is_some() => Self::Responses,
            Some(_) => Self::Anthropic,
            None if root.get("candidates").is_some() || root.get("usageMetadata").is_some() => Self::Gemini,
            None => Self::OpenAi,
        }
    }
}

fn is_type(root: Node<'_>, is: impl Fn(&str) -> bool) -> bool {
    root.get("type").and_then(Node::text).is_some_and(|kind: Cow<'_, str>| is(&kind))
}

fn items<'d>(node: Node<'d>, name: &str) -> impl Iterator<Item = Node<'d>> {
    node.get(name).filter(|list| list.kind() == Kind::Array).into_iter().flat_map(Node::children)
}

fn any_filled(node: Node<'_>, names: &[&str]) -> bool {
    names.iter().any(|name| filled(node.get(name)))
}

/// There, and neither null nor empty.
fn filled(node: Option<Node<'_>>) -> bool {
    node.is_some_and(|node| match node.kind() {
        Kind::Null => false,
        Kind::String => node.raw() != b"\"\"",
        Kind::Array | Kind::Object => node.children().next().is_some(),
        Kind::Bool | Kind::Number => true,
    })
}

#[cfg(test)]
mod tests;
