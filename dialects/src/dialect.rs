//! Whose protocol a message speaks, and what a request is for.
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A provider's protocol.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
#[expect(missing_docs, reason = "each is a provider's name")]
pub enum Dialect {
    #[serde(rename = "openai")]
    OpenAi,
    Anthropic,
    Qdrant,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[schemars(inline)]
pub enum Operation {
    /// A chat completion, or an Anthropic message.
    #[serde(rename = "chat")]
    Chat,
    /// `OpenAI`'s responses API.
    #[serde(rename = "responses")]
    Responses,
    /// Embeddings.
    #[serde(rename = "embeddings")]
    Embeddings,
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}
