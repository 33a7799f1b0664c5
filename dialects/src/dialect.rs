//! Whose protocol a request speaks, and what it is for.

use std::borrow::Cow;

use memchr::memchr2;
use percent_encoding::percent_decode_str;

use crate::named::named;

mod hosts;
mod paths;

pub use hosts::known_hosts;

named! {
    /// A provider's protocol, as far as it differs from the others'.
    pub enum Dialect {
        /// OpenAI, and everything that serves its API: vLLM, llama.cpp, LM Studio, gateways.
        OpenAi = "openai" | "vllm" | "llama.cpp",
        /// Azure OpenAI and Foundry.
        Azure = "azure" | "azure-openai",
        /// Anthropic messages.
        Anthropic = "anthropic" | "claude",
        /// Google Gemini, from the Gemini API or Vertex.
        Gemini = "gemini" | "vertex" | "google",
        /// AWS Bedrock runtime.
        Bedrock = "bedrock",
        /// Cohere.
        Cohere = "cohere",
        /// Mistral.
        Mistral = "mistral",
        /// DeepSeek.
        DeepSeek = "deepseek",
        /// Alibaba Model Studio, which serves Qwen.
        DashScope = "dashscope" | "qwen",
        /// Volcengine Ark, which serves Doubao.
        Ark = "ark" | "doubao",
        /// Ollama's own API.
        Ollama = "ollama",
        /// OpenRouter.
        OpenRouter = "openrouter",
        /// Qdrant over REST.
        Qdrant = "qdrant",
        /// Pinecone.
        Pinecone = "pinecone",
        /// Weaviate over REST and GraphQL.
        Weaviate = "weaviate",
        /// Milvus and Zilliz over REST.
        Milvus = "milvus" | "zilliz",
        /// Chroma.
        Chroma = "chroma",
        /// Elasticsearch and OpenSearch.
        Elasticsearch = "elasticsearch" | "opensearch",
    }
}

impl Dialect {
    /// Whether its chat is OpenAI's but for host, path prefix and errors.
    pub const fn is_openai_shaped(self) -> bool {
        matches!(
            self,
            Self::OpenAi
                | Self::Azure
                | Self::Mistral
                | Self::DeepSeek
                | Self::DashScope
                | Self::Ark
                | Self::OpenRouter
        )
    }
}

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
    let shape = paths::shape(method, &path);
    let sender = has_header("anthropic-version").then_some(Dialect::Anthropic);
    let dialect = match (shape.dialect, owner) {
        (Some(Dialect::OpenAi), Some(owner)) if owner.is_openai_shaped() => Some(owner),
        (Some(Dialect::OpenAi), _) if shape.operation == Some(Operation::Models) => {
            owner.or(sender).or(shape.dialect)
        }
        (shape, owner) => shape.or(owner).or(sender),
    };
    Recognised { dialect, operation: shape.operation }
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
