//! What a model is asked.

use super::{Json, Unmapped};

/// A request for the next turn of a conversation, in no provider's words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The model that is asked for.
    pub model: String,
    /// What was said so far, in order. System turns stand where they stood.
    pub turns: Vec<Turn>,
    /// The tools on offer.
    pub tools: Vec<Tool>,
    /// Whether a tool is to be called, and which.
    pub tool_choice: ToolChoice,
    /// Whether several tools may be called in one turn. None: as the provider likes.
    pub parallel_tools: Option<bool>,
    /// The form that the answer's text must have.
    pub format: Format,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// How much the model is to reason. None: as the provider likes.
    pub reasoning: Option<ReasoningRequest>,
    /// The most tokens that the answer may have, 1 or more.
    pub max_tokens: Option<u64>,
    /// Texts before which the answer ends.
    pub stop: Vec<String>,
    /// Whether the answer is to come as a stream.
    pub stream: bool,
    /// Whether a stream is to end with the usage. Formats that always send it do not look at this.
    pub stream_usage: bool,
    /// A name for the end user, so that the provider can tell abuse.
    pub user: Option<String>,
    /// Labels that the caller attached.
    pub metadata: Option<Json>,
    /// Fields that an answer in the format of this request repeats word for word (Responses does that).
    pub echo: Vec<(String, Json)>,
    /// Every field that the model has no place for. It passes through only where the request is sent in the format in
    /// which it came, which is best done with the original bytes.
    pub unmapped: Vec<Unmapped>,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    /// The application, before all else.
    System,
    /// The application, in the word of OpenAI's newer models. Others take it for `System`.
    Developer,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// Tools that were called. All its parts are tool results.
    Tool,
}

/// One turn of the conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub parts: Vec<Part>,
    /// The speaker's name, where several have the same role.
    pub name: Option<String>,
}

impl Turn {
    /// A turn without a name.
    pub fn new(role: Role, parts: Vec<Part>) -> Self {
        Self { role, parts, name: None }
    }

    /// All of its text, that of tool results included.
    pub fn text(&self) -> String {
        text_of(&self.parts)
    }
}

/// A piece of a turn or of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text.
    Text(String),
    /// An image, a sound, a document or a film.
    Media(Media),
    /// The model calls a tool.
    ToolCall(ToolCall),
    /// What a tool answered.
    ToolResult(ToolResult),
    /// What the model thought before it answered.
    Reasoning(Reasoning),
    /// The words by which the model declined.
    Refusal(String),
}

/// The texts of the parts, joined by line ends.
pub(super) fn text_of(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.clone()),
        Part::ToolResult(result) => Some(result.text()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Something that is not text.
#[derive(Clone, Debug, PartialEq)]
pub struct Media {
    /// What it is.
    pub kind: MediaKind,
    /// Where its bytes are.
    pub source: MediaSource,
    /// How closely it is to be looked at (OpenAI: `low`, `high`, `auto`).
    pub detail: Option<String>,
    /// The name of the file.
    pub name: Option<String>,
}

/// What a medium is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum MediaKind {
    Image,
    Audio,
    Video,
    Document,
}

impl MediaKind {
    pub(super) fn of_mime(mime: &str) -> Self {
        match mime.split('/').next() {
            Some("image") => Self::Image,
            Some("audio") => Self::Audio,
            Some("video") => Self::Video,
            _ => Self::Document,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Audio => "audio",
            Self::Video => "video",
            Self::Document => "document",
        }
    }
}

/// Where the bytes of a medium are.
#[derive(Clone, Debug, PartialEq)]
pub enum MediaSource {
    /// In the request.
    Base64 {
        /// The media type, such as `image/png`.
        mime: String,
        /// The bytes in base64.
        data: String,
    },
    /// Somewhere on the web.
    Url {
        /// Where.
        url: String,
        /// The media type, where it is told.
        mime: Option<String>,
    },
    /// A file that was uploaded to the provider before. Another provider does not have it.
    File(String),
    /// A document given as plain text.
    Text(String),
}

impl MediaSource {
    /// What a URL points to: the data itself, if it is a `data:` URL in base64.
    pub(super) fn of_url(url: &str) -> Self {
        let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
        match data {
            Some((mime, data)) => Self::Base64 { mime: mime.to_owned(), data: data.to_owned() },
            None => Self::Url { url: url.to_owned(), mime: None },
        }
    }

    /// As a URL, if it is not a file that the provider holds.
    pub(super) fn url(&self) -> Option<String> {
        match self {
            Self::Base64 { mime, data } => Some(format!("data:{mime};base64,{data}")),
            Self::Url { url, .. } => Some(url.clone()),
            Self::File(_) | Self::Text(_) => None,
        }
    }
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// What its result refers to. Formats without ids get one that the reader derives.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as the model wrote them: JSON text, which may be cut or wrong. Empty: none.
    pub arguments: String,
    /// What the provider wants to see again when the call is sent back.
    pub seal: Option<Signature>,
}

impl ToolCall {
    /// The arguments as an object. None if they are something else.
    pub fn object(&self) -> Option<Json> {
        let text = if self.arguments.trim().is_empty() { "{}" } else { &self.arguments };
        Json::parse(text).filter(Json::is_object)
    }
}

/// What a tool answered to a call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// The id of the call.
    pub id: String,
    /// The name of the tool, where it is known.
    pub name: Option<String>,
    /// The result: text and media.
    pub parts: Vec<Part>,
    /// Whether the tool failed.
    pub is_error: bool,
}

impl ToolResult {
    /// All of its text.
    pub fn text(&self) -> String {
        text_of(&self.parts)
    }
}

/// What the model thought.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reasoning {
    /// The thought, or a summary. Empty if the provider keeps it to itself.
    pub text: String,
    /// What the provider wants to see again when the thought is sent back.
    pub seal: Option<Signature>,
}

/// A provider's own proof of something that it said. It means nothing to any other provider.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// The name of the format that it came in.
    pub format: &'static str,
    /// The proof: a signature, or encrypted content.
    pub data: String,
    /// The id of the item that it belongs to (Responses).
    pub id: Option<String>,
    /// Whether the data stands for the thought itself, which is not shown.
    pub is_redacted: bool,
}

/// A tool on offer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it is good for.
    pub description: Option<String>,
    /// The JSON Schema of its arguments. None: it takes none.
    pub parameters: Option<Json>,
    /// Whether the arguments must fit the schema exactly.
    pub strict: Option<bool>,
}

/// Whether a tool is to be called.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum ToolChoice {
    /// As the model likes.
    #[default]
    Auto,
    /// None.
    Never,
    /// At least one, whichever.
    Any,
    /// This one.
    Named(String),
}

/// The form of the answer's text.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Format {
    /// Free text.
    #[default]
    Text,
    /// Any JSON object.
    Json,
    /// JSON that fits a schema.
    Schema {
        /// The schema's name, which some formats require.
        name: Option<String>,
        /// The JSON Schema.
        schema: Json,
        /// Whether it must fit exactly.
        strict: Option<bool>,
    },
}

/// How tokens are chosen. None: as the provider likes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampling {
    /// From 0 (always the likeliest token) to 1 or 2.
    pub temperature: Option<f64>,
    /// Only the likeliest tokens, whose probabilities add up to this.
    pub top_p: Option<f64>,
    /// Only so many of the likeliest tokens.
    pub top_k: Option<u64>,
    /// How much a token is avoided that has occurred.
    pub presence_penalty: Option<f64>,
    /// How much a token is avoided for each time that it has occurred.
    pub frequency_penalty: Option<f64>,
    /// Makes choices repeatable.
    pub seed: Option<i64>,
    /// How many answers are wanted.
    pub choices: Option<u64>,
    /// Whether the probability of each token is wanted.
    pub logprobs: Option<bool>,
    /// How many alternatives for each token are wanted.
    pub top_logprobs: Option<u64>,
}

/// How much the model is to reason.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReasoningRequest {
    /// In a word: `none`, `minimal`, `low`, `medium`, `high`.
    pub effort: Option<String>,
    /// In tokens. 0: not at all.
    pub budget: Option<u64>,
    /// Whether the thoughts, or a summary, are wanted.
    pub is_shown: Option<bool>,
}
