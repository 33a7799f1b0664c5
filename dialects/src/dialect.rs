//! Whose protocol a request speaks, and what it is for.

use std::borrow::Cow;

use memchr::memchr2;
use percent_encoding::percent_decode_str;

use crate::named::named;
pub use crate::provider::Dialect;

mod hosts;

pub use hosts::known_hosts;

named! {
    /// What a request is for.
    pub enum Operation {
        /// A conversation's next turn: chat completions, messages, generateContent, converse.
        Chat = "chat" | "messages",
        /// OpenAI's Responses API.
        Responses = "responses",
        /// A text's continuation: completions, Ollama's generate.
        Completions = "completions",
        /// Vectors for texts.
        Embeddings = "embeddings",
        /// Text for speech, translations included.
        Transcription = "transcription",
        /// Speech for text.
        Speech = "speech",
        /// Pictures: generated, edited, varied.
        Images = "images",
        /// Ordering documents by relevance.
        Rerank = "rerank",
        /// Listing models.
        Models = "models",
        /// A search for neighbours of a vector.
        VectorSearch = "vector.search",
        /// Reading points by id.
        VectorGet = "vector.get",
        /// Paging through points by filter.
        VectorScroll = "vector.scroll",
        /// Writing points.
        VectorUpsert = "vector.upsert",
        /// Deleting points.
        VectorDelete = "vector.delete",
        /// Managing collections, indexes and schemas.
        VectorAdmin = "vector.admin",
        /// A call of a tool over MCP.
        Tool = "tool",
    }
}

/// What is known of a request from its first line and host.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Recognised {
    /// Whose protocol it speaks.
    pub dialect: Option<Dialect>,
    /// What it is for.
    pub operation: Option<Operation>,
}

/// The first line of a request, as providers look at it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestLine<'a> {
    /// The method.
    pub(crate) method: &'a str,
    /// The segments of the path, decoded, without the empty ones.
    pub(crate) steps: &'a [&'a str],
}

impl<'a> RequestLine<'a> {
    pub(crate) fn is_get(&self) -> bool {
        self.method == "GET"
    }

    /// The last two segments. The first of them is empty if there is only one.
    pub(crate) fn tail(&self) -> (&'a str, &'a str) {
        match self.steps {
            [.., previous, last] => (previous, last),
            [last] => ("", last),
            [] => ("", ""),
        }
    }
}

/// What a provider says of a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Claim {
    /// The path is not the provider's.
    No,
    /// It is for this.
    For(Operation),
    /// It is the provider's, and for something that no name is known for.
    Other,
}

impl From<Option<Operation>> for Claim {
    fn from(operation: Option<Operation>) -> Self {
        operation.map_or(Self::No, Self::For)
    }
}

/// Recognises a request by its host and by the shape of its path, which is all that a reverse proxy has to go by.
///
/// `host` may have a port, `path` a query. The path is compared percent-decoded, and double slashes count as one.
/// Prefixes before the known part (a gateway's) don't matter. `has_header` tells whether the request has a header of
/// that lower-case name: `anthropic-version` tells the two `/v1/models` apart.
///
/// A host that a provider owns decides between protocols of the same shape; where host and shape disagree (Gemini's
/// OpenAI-compatible paths), the shape decides, since it is what the client will parse.
pub fn recognise(host: &str, method: &str, path: &str, has_header: impl Fn(&str) -> bool) -> Recognised {
    let owner = hosts::owner(host);
    let path = &path[..memchr2(b'?', b'#', path.as_bytes()).unwrap_or(path.len())];
    let path = percent_decode_str(path).decode_utf8_lossy();
    let shape = shape(method, &path);
    let sends = |dialect: &&Dialect| dialect.provider().headers.iter().any(|name| has_header(name));
    let sender = Dialect::ALL.iter().find(sends).copied();
    let dialect = match (shape.dialect, owner) {
        (Some(Dialect::OpenAi), Some(owner)) if owner.provider().serves_openai => Some(owner),
        (Some(Dialect::OpenAi), _) if shape.operation == Some(Operation::Models) => {
            owner.or(sender).or(shape.dialect)
        }
        (shape, owner) => shape.or(owner).or(sender),
    };
    Recognised { dialect, operation: shape.operation }
}

/// What a path is of, by its shape alone.
fn shape(method: &str, path: &str) -> Recognised {
    let steps: Vec<&str> = path.split('/').filter(|step| !step.is_empty()).collect();
    let asked = RequestLine { method, steps: &steps };
    for dialect in Dialect::ALL.iter().rev() {
        match (dialect.provider().path)(&asked) {
            Claim::No => {}
            Claim::For(operation) => {
                return Recognised { dialect: Some(*dialect), operation: Some(operation) };
            }
            Claim::Other => return Recognised { dialect: Some(*dialect), operation: None },
        }
    }
    // Paths that are nobody's own.
    let operation = match asked.tail() {
        _ if asked.is_get() => None,
        (_, "rerank") => Some(Operation::Rerank),
        (_, "mcp") => Some(Operation::Tool),
        _ => None,
    };
    Recognised { dialect: None, operation }
}

/// The model that a path names: Gemini's, Bedrock's and Azure's do, others have it in the body.
pub fn model_in_path(path: &str) -> Option<Cow<'_, str>> {
    let path = path.split(['?', '#']).next()?;
    let mut steps = path.split('/').filter(|step| !step.is_empty());
    steps.find(|step| matches!(*step, "models" | "model" | "deployments"))?;
    let step = steps.next()?;
    let decoded = percent_decode_str(step).decode_utf8_lossy();
    // Gemini's verb follows a colon, and so does the version in Bedrock's names.
    match decoded.rsplit_once(':') {
        Some((model, verb)) if verb.starts_with(|first: char| first.is_ascii_lowercase()) => {
            Some(Cow::Owned(model.to_owned()))
        }
        _ => Some(decoded),
    }
}

#[cfg(test)]
mod tests;
