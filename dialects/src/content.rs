//! What an event of an answer's stream is for: content, the end, usage, a failure.

use std::{borrow::Cow, sync::LazyLock};

use memchr::memmem;

use crate::{
    Dialect, Event, EventFormat, Operation,
    event::Question,
    json::{Document, Kind, Node},
    provider::Provider,
};

/// What the events of a stream are for.
#[derive(Debug)]
pub(crate) struct Stream {
    /// The operations that are answered by it. Empty: all.
    pub(crate) operations: &'static [Operation],
    /// Whether an event looks like one of it, for streams of which nothing is known beforehand. No two streams may both
    /// claim an event.
    pub(crate) looks: fn(EventFormat, Node<'_>) -> bool,
    /// Events with a piece of the answer.
    pub(crate) content: Mark,
    /// The event by which a client knows that the answer is complete. `[DONE]` is one in every stream.
    pub(crate) terminator: Mark,
    /// Events that are there for their usage.
    pub(crate) usage: Mark,
    /// Events that say that the provider has failed.
    pub(crate) failure: Mark,
    /// Events with a piece of a tool call.
    pub(crate) tool_call: Mark,
    /// Whether its events have a `sequence_number`.
    pub(crate) is_numbered: bool,
}

/// How to tell events of one purpose from others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// Byte sequences of which such an event contains at least one: events without any are not parsed.
    pub(crate) words: &'static [&'static [u8]],
    /// Whether this document is such an event.
    pub(crate) is: fn(Node<'_>) -> bool,
}

impl Mark {
    /// There is no such event.
    pub(crate) const NONE: Self = Self { words: &[], is: |_| false };
}

/// How to read an answer's stream: as the stream of a provider and an operation, or each event for itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape(Option<&'static Stream>);

impl PartialEq for Shape {
    fn eq(&self, other: &Self) -> bool {
        self.0.map(std::ptr::from_ref) == other.0.map(std::ptr::from_ref)
    }
}

impl Eq for Shape {}

impl Shape {
    /// Nothing is known of the stream: each event is taken for what it looks like.
    pub const UNKNOWN: Self = Self(None);

    /// The shape of the answers to a request.
    pub fn of(dialect: Option<Dialect>, operation: Option<Operation>) -> Self {
        if dialect.is_none() && operation != Some(Operation::Responses) {
            return Self::UNKNOWN;
        }
        let streams = Provider::of(dialect).streams.iter().copied();
        let answers = |stream: &&Stream| {
            let operations = stream.operations;
            operations.is_empty() || operation.is_some_and(|operation| operations.contains(&operation))
        };
        Self(streams.into_iter().find(answers))
    }

    /// Whether the events have a `sequence_number`, which grows from one to the next.
    pub fn is_numbered(self) -> bool {
        self.0.is_some_and(|stream| stream.is_numbered)
    }

    /// Whether the event carries a piece of the answer: text, reasoning, a refusal's words, a tool call's arguments, sound
    /// or a picture, and not an empty one. This is what `{tokens: n}` counts; providers send about a token in each.
    pub fn is_content(self, event: &Event) -> bool {
        self.has(event, Question::Content, |stream| stream.content)
    }

    /// Whether the event is the one by which a client knows that the answer is complete.
    pub fn is_terminator(self, event: &Event) -> bool {
        let is_done = |event: &Event| {
            event.is_event() && event.framing() == EventFormat::Sse && event.data().trim_ascii() == b"[DONE]"
        };
        is_done(event) || self.has(event, Question::Terminator, |stream| stream.terminator)
    }

    /// Whether the event is there to tell what was used: OpenAI's last chunk without choices, Anthropic's
    /// `message_delta`. Events that bring usage along with something that a client needs more don't count.
    pub fn is_usage(self, event: &Event) -> bool {
        self.has(event, Question::Usage, |stream| stream.usage)
    }

    /// Whether the event says that the provider has failed, although the status was a success.
    pub fn is_failure(self, event: &Event) -> bool {
        event.is_aws_failure() || self.has(event, Question::Failure, |stream| stream.failure)
    }

    /// Whether the event carries a piece of a tool call: its name or its arguments.
    pub fn is_tool_call(self, event: &Event) -> bool {
        self.has(event, Question::ToolCall, |stream| stream.tool_call)
    }

    /// Whether the event has this mark of its stream. The event keeps the answer.
    fn has(self, event: &Event, question: Question, mark: impl Fn(&Stream) -> Mark) -> bool {
        event.is_event() && event.answer(self, question, || self.reads(event, mark))
    }

    fn reads(self, event: &Event, mark: impl Fn(&Stream) -> Mark) -> bool {
        let data = event.data();
        let could_be = |mark: Mark| mark.words.iter().any(|word| memmem::find(&data, word).is_some());
        if let Some(stream) = self.0
            && !could_be(mark(stream))
        {
            return false;
        }
        let Ok(document) = Document::parse(&data) else { return false };
        let root = document.root();
        let stream = self.0.or_else(|| look(event.framing(), root));
        stream.is_some_and(|stream| (mark(stream).is)(root))
    }
}

/// The stream of which an event looks to be.
fn look(framing: EventFormat, root: Node<'_>) -> Option<&'static Stream> {
    /// The streams of all providers, each once.
    static ALL: LazyLock<Vec<&'static Stream>> = LazyLock::new(|| {
        let mut all: Vec<&'static Stream> = Vec::new();
        for stream in Dialect::ALL.iter().flat_map(|dialect| dialect.provider().streams) {
            if !all.iter().any(|known| std::ptr::eq(*known, *stream)) {
                all.push(stream);
            }
        }
        all
    });
    ALL.iter().copied().find(|stream| (stream.looks)(framing, root))
}

/// The event's `type`.
pub(crate) fn kind(root: Node<'_>) -> Cow<'_, str> {
    root.get("type").and_then(Node::text).unwrap_or_default()
}

/// The items of a member that is a list.
pub(crate) fn items<'d>(node: Node<'d>, name: &str) -> impl Iterator<Item = Node<'d>> {
    node.get(name).filter(|list| list.kind() == Kind::Array).into_iter().flat_map(Node::children)
}

/// Whether one of these members is [`filled`].
pub(crate) fn any_filled(node: Node<'_>, names: &[&str]) -> bool {
    names.iter().any(|name| filled(node.get(name)))
}

/// There, and neither null nor empty.
pub(crate) fn filled(node: Option<Node<'_>>) -> bool {
    node.is_some_and(|node| match node.kind() {
        Kind::Null => false,
        Kind::String => node.raw() != b"\"\"",
        Kind::Array | Kind::Object => node.children().next().is_some(),
        Kind::Bool | Kind::Number => true,
    })
}

#[cfg(test)]
mod tests;
