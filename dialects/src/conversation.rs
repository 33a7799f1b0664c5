//! One model of a conversation, and readers and writers of it for each provider's wire format.
//!
//! A [`Request`] holds what every chat API asks with: turns, tools, sampling parameters. An [`Answer`] holds what it
//! answers, and [`Delta`]s are the same answer as a stream. A [`Codec`] reads and writes the three in one wire format.
//! Nothing here does I/O or reads a clock: ids, times and fingerprints are given.
//!
//! The codec that reads and the codec that writes need not be the same. Each field of a request is in exactly one of
//! these groups, so that a translator can tell what a hop to another provider costs:
//!
//! - mapped: it is a field of the model;
//! - unmapped: it has no counterpart in the model, and is kept with its path in [`Request::unmapped`];
//! - lost or emulated: the format that writes cannot express it, which [`Written::losses`] says;
//! - refused: leaving it out would change what is asked; writing fails with [`Untranslatable`].
//!
//! ```
//! use aconite_dialects::conversation::{ANTHROPIC, OPENAI_CHAT};
//!
//! let asked = br#"{"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 5}"#;
//! let request = OPENAI_CHAT.read_request("/v1/chat/completions", asked)?;
//! let written = ANTHROPIC.write_request(&request)?;
//! assert_eq!(
//!     written.body.text(),
//!     r#"{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hello"}]}"#
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod accumulator;
mod answer;
mod anthropic;
mod calls;
mod codec;
mod delta;
mod fields;
mod gemini;
mod loss;
mod ollama;
mod openai;
mod request;
mod text;

pub use accumulator::Accumulator;
pub use answer::{Answer, AnswerStart, Choice, Stop, Usage};
pub use anthropic::ANTHROPIC;
pub use codec::{Codec, Frame, StreamReader, StreamWriter, Written};
pub use delta::{Delta, ErrorKind, StreamError};
pub use fields::{Field, FieldError, Fields, Kind, Path, Problem, parse};
pub use gemini::GEMINI;
pub use loss::{Fate, Loss, Unmapped, Untranslatable};
pub use ollama::OLLAMA;
pub use openai::{OPENAI_CHAT, OPENAI_RESPONSES};
pub use request::{
    Format, Media, MediaKind, MediaSource, Part, Reasoning, ReasoningRequest, Request, Role, Sampling,
    Signature, Tool, ToolCall, ToolChoice, ToolResult, Turn,
};
pub use text::Json;

/// Every codec, in the order of the documentation.
pub const CODECS: &[&dyn Codec] = &[OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC, GEMINI, OLLAMA];

#[cfg(test)]
mod tests;
