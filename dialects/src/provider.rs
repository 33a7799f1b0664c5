//! Providers: everything known of one stands together in a file of its own below this module, as a [`Provider`], and
//! [`Dialect`] has a row for each.
//!
//! A provider that serves OpenAI's API says only what differs: `..OPENAI_SHAPED`. A vector store starts from `..BLANK`,
//! of which nothing is known; so does whoever shares nothing with OpenAI.

use std::borrow::Cow;

use crate::{
    Cause, Event, EventFormat, Failure, FailureContext, Finish, Operation,
    content::Stream,
    dialect::{Claim, RequestLine, model_in_path},
    embeddings::Vectors,
    form::RequestHead,
    hits::Hits,
    json::{Node, Splices},
    named::named,
    outcome::Sign,
    parts::Parts,
};

mod anthropic;
mod ark;
mod azure;
mod bedrock;
mod chroma;
mod cohere;
mod compatible;
mod dashscope;
mod deepseek;
mod elasticsearch;
mod gemini;
mod milvus;
mod mistral;
mod ollama;
mod openai;
mod openrouter;
mod pinecone;
mod qdrant;
mod store;
mod weaviate;

use compatible::OPENAI_SHAPED;

/// What is known of one provider: data, and plain functions where data is not enough.
#[derive(Debug)]
pub struct Provider {
    /// Its value of OpenTelemetry's `gen_ai.provider.name`. None: it has no models.
    pub telemetry: Option<&'static str>,
    /// The hosts that it is publicly known by. `*` stands for any characters, dots included. There is one at least.
    pub hosts: &'static [&'static str],
    /// Request headers, in lower case, that only its clients send.
    pub headers: &'static [&'static str],
    /// Whether it serves OpenAI's paths, so that its host decides about a request to one of them.
    pub serves_openai: bool,
    /// What a path is for.
    pub(crate) path: fn(&RequestLine<'_>) -> Claim,
    /// Whether a chat or a completion is streamed if the body does not say it.
    pub(crate) streams_by_default: bool,
    /// Whether its paths name the model.
    pub(crate) has_model_in_path: bool,
    /// Its streams. The first whose operations include the request's is the one that answers it.
    pub(crate) streams: &'static [&'static Stream],
    /// How it frames its streams where the content type does not say.
    pub(crate) framing: EventFormat,
    /// How it frames a stream whose content type is `application/json`. None: it has no such stream.
    pub(crate) framing_of_json: Option<EventFormat>,
    /// Whether a request asks for a stream, or for none, by its path, its query and its headers. None: that is for the
    /// body to say.
    pub(crate) asks_for_stream: fn(&RequestHead<'_>) -> Option<bool>,
    /// What it answers for a cause. None: it is not known how it words this cause.
    pub(crate) failure: fn(Option<Operation>, Cause, &FailureContext<'_>) -> Option<Failure>,
    /// How it says in a stream that it has failed. The number is the `sequence_number` that the next event would have.
    pub(crate) frame: fn(&Self, Option<Operation>, Cause, &FailureContext<'_>, u64) -> Option<Event>,
    /// The vectors in its response to a request for embeddings. Empty: there are none, or the body is not such a response.
    pub(crate) vectors: for<'d> fn(Node<'d>) -> Vec<Vectors<'d>>,
    /// Where its responses to searches have their hits. None: it has no searches.
    pub(crate) hits: Option<&'static Hits>,
    /// Where a response has its content: texts and tool calls. Paths of names, with `[]` for every item of a list.
    pub(crate) content: &'static [&'static str],
    /// Where a response or an event says why it ended. Paths as of `content`.
    pub(crate) finish: &'static [&'static str],
    /// Its words for why a response ended. A reason that is missing is one that it does not tell.
    pub(crate) finish_words: &'static [(Finish, &'static str)],
    /// Edits of a response, or of an event, that tells why it ended by other means than the word. Empty: it does not.
    pub(crate) finish_other: for<'d> fn(Node<'d>, Finish) -> Splices,
    /// Where a chat response or an event has its other parts.
    pub(crate) parts: Parts,
    /// What tells a cause in its failures, before what all providers share. The first that is found counts.
    pub(crate) signs: &'static [(Sign, Cause)],
    /// Whether a body is a failure although its status is a success, other than by a member `error`.
    pub(crate) is_failure: fn(Node<'_>) -> bool,
    /// Whether a success is only a part of what was asked for.
    pub(crate) is_partial: fn(Node<'_>) -> bool,
}

/// A provider of which nothing is known.
const BLANK: Provider = Provider {
    telemetry: None,
    hosts: &[],
    headers: &[],
    serves_openai: false,
    path: |_| Claim::No,
    streams_by_default: false,
    has_model_in_path: false,
    streams: &[],
    framing: EventFormat::Sse,
    framing_of_json: None,
    asks_for_stream: |_| None,
    failure: |_, _, _| None,
    frame: |_, _, _, _, _| None,
    vectors: |_| Vec::new(),
    hits: None,
    content: &[],
    finish: &[],
    finish_words: &[],
    finish_other: |_, _| Splices::new(),
    parts: Parts::NONE,
    signs: &[],
    is_failure: |_| false,
    is_partial: |_| false,
};

/// Declares the rows: documentation, the name and its aliases, and the module below this one that has the `PROVIDER`.
macro_rules! rows {
    ($($(#[doc = $doc:literal])* $Variant:ident = $name:literal $(| $alias:literal)* in $module:ident,)*) => {
        named! {
            /// A provider's protocol, as far as it differs from the others'.
            pub enum Dialect {
                $($(#[doc = $doc])* $Variant = $name $(| $alias)*,)*
            }
        }

        impl Dialect {
            /// What is known of it.
            pub const fn provider(self) -> &'static Provider {
                match self {
                    $(Self::$Variant => &$module::PROVIDER,)*
                }
            }
        }
    };
}

// In the order of the documentation. A path is offered to the rows from the last to the first: the paths of vector stores
// are theirs alone, while those of OpenAI are served by many.
rows! {
    /// OpenAI, and everything that serves its API: vLLM, llama.cpp, LM Studio, gateways.
    OpenAi = "openai" | "vllm" | "llama.cpp" in openai,
    /// Azure OpenAI and Foundry.
    Azure = "azure" | "azure-openai" in azure,
    /// Anthropic messages.
    Anthropic = "anthropic" | "claude" in anthropic,
    /// Google Gemini, from the Gemini API or Vertex.
    Gemini = "gemini" | "vertex" | "google" in gemini,
    /// AWS Bedrock runtime.
    Bedrock = "bedrock" in bedrock,
    /// Cohere.
    Cohere = "cohere" in cohere,
    /// Mistral.
    Mistral = "mistral" in mistral,
    /// DeepSeek.
    DeepSeek = "deepseek" in deepseek,
    /// Alibaba Model Studio, which serves Qwen.
    DashScope = "dashscope" | "qwen" in dashscope,
    /// Volcengine Ark, which serves Doubao.
    Ark = "ark" | "doubao" in ark,
    /// Ollama's own API.
    Ollama = "ollama" in ollama,
    /// OpenRouter.
    OpenRouter = "openrouter" in openrouter,
    /// Qdrant over REST.
    Qdrant = "qdrant" in qdrant,
    /// Pinecone.
    Pinecone = "pinecone" in pinecone,
    /// Weaviate over REST and GraphQL.
    Weaviate = "weaviate" in weaviate,
    /// Milvus and Zilliz over REST.
    Milvus = "milvus" | "zilliz" in milvus,
    /// Chroma.
    Chroma = "chroma" in chroma,
    /// Elasticsearch and OpenSearch.
    Elasticsearch = "elasticsearch" | "opensearch" in elasticsearch,
}

/// What is known of a server whose dialect is not: it is taken for one of the many that serve OpenAI's API.
static UNKNOWN: Provider = OPENAI_SHAPED;

impl Provider {
    /// What is known of a dialect, or of a server whose dialect is not known.
    pub fn of(dialect: Option<Dialect>) -> &'static Self {
        dialect.map_or(&UNKNOWN, Dialect::provider)
    }

    /// The model that the path names, for providers whose paths do.
    pub fn model_in_path<'p>(&self, path: &'p str) -> Option<Cow<'p, str>> {
        if self.has_model_in_path { model_in_path(path) } else { None }
    }

    /// Whether a request is streamed whose body does not say it.
    pub fn streams_by_default(&self, operation: Option<Operation>) -> bool {
        self.streams_by_default && matches!(operation, Some(Operation::Chat | Operation::Completions))
    }
}
