//! OpenAI's streams. Chat is that of all who serve its API; the events of the others are those of its OpenAPI document.

use crate::{
    Operation,
    content::{Mark, Stream, any_filled, filled, items, kind},
    json::{Kind, Node},
};

/// All of them, the one of any operation last.
pub(crate) static ALL: &[&Stream] = &[&RESPONSES, &TRANSCRIPTION, &SPEECH, &IMAGES, &CHAT];

const ERROR: Mark = Mark { words: &[b"\"error"], is: |root| filled(root.get("error")) };

/// Chat and completions: chunks with `choices`, then `[DONE]`.
pub(crate) static CHAT: Stream = Stream {
    operations: &[],
    looks: |_, root| root.get("choices").is_some() || has_bare_error(root),
    content: Mark { words: &[b"\"content", b"\"text", b"\"reasoning", b"delta", b"\"tool"], is: chunk },
    terminator: Mark::NONE,
    usage: Mark {
        words: &[b"\"usage"],
        is: |root| {
            root.get("usage").is_some_and(|usage| usage.kind() == Kind::Object)
                && items(root, "choices").next().is_none()
        },
    },
    failure: ERROR,
    tool_call: Mark {
        words: &[b"\"tool_calls", b"\"function_call"],
        is: |root| deltas(root).any(|delta| any_filled(delta, &["tool_calls", "function_call"])),
    },
    is_numbered: false,
};

/// An error without a type is chat's.
fn has_bare_error(root: Node<'_>) -> bool {
    filled(root.get("error")) && root.get("type").is_none() && root.get("done").is_none()
}

fn deltas(root: Node<'_>) -> impl Iterator<Item = Node<'_>> {
    items(root, "choices").filter_map(|choice| choice.get("delta"))
}

fn chunk(root: Node<'_>) -> bool {
    const PIECES: &[&str] =
        &["content", "reasoning_content", "reasoning", "refusal", "tool_calls", "function_call"];
    items(root, "choices").any(|choice| filled(choice.get("text")))
        || deltas(root).any(|delta| any_filled(delta, PIECES))
}

/// Responses: events named `response.…`, numbered, without `[DONE]`.
pub(crate) static RESPONSES: Stream = Stream {
    operations: &[Operation::Responses],
    looks: |_, root| {
        let kind = kind(root);
        kind.starts_with("response.") || kind == "error" && root.get("sequence_number").is_some()
    },
    content: Mark {
        words: &[b".delta"],
        is: |root| {
            let kind = kind(root);
            kind.starts_with("response.") && kind.ends_with(".delta") && filled(root.get("delta"))
        },
    },
    terminator: Mark {
        words: &[b"response."],
        is: |root| {
            matches!(kind(root).as_ref(), "response.completed" | "response.incomplete" | "response.failed")
        },
    },
    usage: Mark::NONE,
    failure: Mark {
        words: &[b"\"error", b"response.failed"],
        is: |root| matches!(kind(root).as_ref(), "error" | "response.failed"),
    },
    tool_call: Mark {
        words: &[b"_call_"],
        is: |root| {
            let kind = kind(root);
            kind.ends_with("_call_arguments.delta") || kind.ends_with("_call_input.delta")
        },
    },
    is_numbered: true,
};

/// A transcript: `transcript.text.delta` to `transcript.text.done`, which has the usage too. vLLM sends chunks as in chat.
static TRANSCRIPTION: Stream = Stream {
    operations: &[Operation::Transcription],
    looks: |_, root| kind(root).starts_with("transcript."),
    content: Mark {
        words: &[b"delta"],
        is: |root| kind(root) == "transcript.text.delta" && filled(root.get("delta")) || chunk(root),
    },
    terminator: Mark { words: &[b"transcript.text.done"], is: |root| kind(root) == "transcript.text.done" },
    usage: Mark {
        words: CHAT.usage.words,
        is: |root| root.get("choices").is_some() && (CHAT.usage.is)(root),
    },
    failure: ERROR,
    tool_call: Mark::NONE,
    is_numbered: false,
};

/// Speech, asked for with `stream_format: sse`: `speech.audio.delta` to `speech.audio.done`, which has the usage too.
static SPEECH: Stream = Stream {
    operations: &[Operation::Speech],
    looks: |_, root| kind(root).starts_with("speech."),
    content: Mark {
        words: &[b"speech.audio.delta"],
        is: |root| kind(root) == "speech.audio.delta" && filled(root.get("audio")),
    },
    terminator: Mark { words: &[b"speech.audio.done"], is: |root| kind(root) == "speech.audio.done" },
    usage: Mark::NONE,
    failure: ERROR,
    tool_call: Mark::NONE,
    is_numbered: false,
};

/// Pictures: `image_generation.partial_image` (or `image_edit.…`), as many as were asked for, to `….completed`, which has
/// the picture and the usage.
static IMAGES: Stream = Stream {
    operations: &[Operation::Images],
    looks: |_, root| kind(root).starts_with("image_"),
    content: Mark {
        words: &[b"image_generation.", b"image_edit."],
        is: |root| is_image(root, &["partial_image", "completed"]) && filled(root.get("b64_json")),
    },
    terminator: Mark { words: &[b".completed"], is: |root| is_image(root, &["completed"]) },
    usage: Mark::NONE,
    failure: ERROR,
    tool_call: Mark::NONE,
    is_numbered: false,
};

fn is_image(root: Node<'_>, what: &[&str]) -> bool {
    let kind = kind(root);
    kind.strip_prefix("image_generation.")
        .or_else(|| kind.strip_prefix("image_edit."))
        .is_some_and(|kind| what.contains(&kind))
}
