//! AWS Bedrock runtime.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::json;

use super::{BLANK, Provider, anthropic};
use crate::{
    Cause, Event, EventFormat, Failure, FailureContext, Finish, Operation,
    content::{Mark, Stream, any_filled, filled},
    dialect::Claim,
    embeddings::{Numbers, Vectors},
    json::{Document, Node},
    outcome::Sign::{Text, Word},
    parts::Parts,
};

pub(super) static PROVIDER: Provider = Provider {
    telemetry: Some("aws.bedrock"),
    hosts: &["bedrock-runtime.*.amazonaws.com", "bedrock-runtime-fips.*.amazonaws.com"],
    path: |asked| match asked.tail().1 {
        "invoke" | "invoke-with-response-stream" | "converse" | "converse-stream"
            if !asked.is_get() && asked.steps.contains(&"model") =>
        {
            Claim::For(Operation::Chat)
        }
        _ => Claim::No,
    },
    has_model_in_path: true,
    streams: &[&CONVERSE],
    framing: EventFormat::AwsEventStream,
    asks_for_stream: |head| match &*head.last_step() {
        "invoke-with-response-stream" | "converse-stream" => Some(true),
        "invoke" | "converse" => Some(false),
        _ => None,
    },
    failure: |_, cause, facts| failure(cause, facts),
    frame: |_, _, cause, _, _| frame(cause),
    vectors,
    content: &[
        "output.message.content[].text",
        "output.message.content[].toolUse",
        "content[].text",
        "content[].name",
        "generation",
        "outputs[].text",
        "results[].outputText",
    ],
    finish: &["stopReason", "stop_reason"],
    finish_words: &[
        (Finish::Stop, "end_turn"),
        (Finish::Length, "max_tokens"),
        (Finish::ToolCalls, "tool_use"),
        (Finish::ContentFilter, "content_filtered"),
        (Finish::Context, "model_context_window_exceeded"),
    ],
    parts: Parts {
        model: &["model"],
        usage: &["usage"],
        text: &[
            "output.message.content[].text",
            "delta.text",
            "content[].text",
            "generation",
            "outputs[].text",
        ],
        tool_name: &["output.message.content[].toolUse.name", "start.toolUse.name", "content[].name"],
        tool_id: &["output.message.content[].toolUse.toolUseId", "start.toolUse.toolUseId", "content[].id"],
        tool_arguments: &["output.message.content[].toolUse.input", "delta.toolUse.input", "content[].input"],
    },
    signs: &[
        (Text("too many tokens, please wait"), Cause::RateLimitTokens),
        (Word("throttlingexception"), Cause::RateLimitRequests),
        (Word("servicequotaexceededexception"), Cause::QuotaExhausted),
        (Word("modelnotreadyexception"), Cause::NotReady),
        (Word("modeltimeoutexception"), Cause::Timeout),
        (Word("modelerrorexception"), Cause::ServerError),
        (Word("modelstreamerrorexception"), Cause::ServerError),
        (Word("internalserverexception"), Cause::ServerError),
        (Word("serviceunavailableexception"), Cause::Overloaded),
        (Word("accessdeniedexception"), Cause::Permission),
        (Word("unrecognizedclientexception"), Cause::Auth),
        (Word("resourcenotfoundexception"), Cause::ModelNotFound),
        (Word("conflictexception"), Cause::Conflict),
        (Text("content filtering policy"), Cause::ContentFilter),
        (Text("input is too long"), Cause::ContextLength),
        (Text("prompt is too long"), Cause::ContextLength),
        (Word("validationexception"), Cause::InvalidRequest),
    ],
    ..BLANK
};

/// Titan's: `embedding`, and once more by type. The other models answer as their own APIs do.
fn vectors(root: Node<'_>) -> Vec<Vectors<'_>> {
    let Some(by_type) = root.get("embeddingsByType") else { return Vec::new() };
    let floats = root.get("embedding").into_iter().chain(by_type.get("float"));
    let binary = by_type.get("binary").into_iter();
    Vectors::floats(floats).into_iter().chain(Vectors::of(Numbers::Int8, binary)).collect()
}

/// The payloads of `converse-stream`, which do not say what they are: the frame's `:event-type` does. Those of
/// `invoke-with-response-stream` have in `bytes` what the model's own API would have sent; of these Anthropic's are read.
static CONVERSE: Stream = Stream {
    operations: &[],
    looks: |_, root| {
        root.get("contentBlockIndex").is_some()
            || root.get("stopReason").is_some()
            || root.get("bytes").is_some()
    },
    content: Mark {
        words: &[b"\"delta", b"\"bytes"],
        is: |root| root.get("delta").is_some_and(is_piece) || invoked(root, anthropic::MESSAGES.content),
    },
    terminator: Mark {
        words: &[b"\"stopReason", b"\"bytes"],
        is: |root| filled(root.get("stopReason")) || invoked(root, anthropic::MESSAGES.terminator),
    },
    usage: Mark {
        words: &[b"\"usage", b"\"bytes"],
        is: |root| filled(root.get("usage")) || invoked(root, anthropic::MESSAGES.usage),
    },
    failure: Mark { words: &[b"\"bytes"], is: |root| invoked(root, anthropic::MESSAGES.failure) },
    tool_call: Mark {
        words: &[b"toolUse", b"\"bytes"],
        is: |root| {
            let is_tool = |part: &str| root.get(part).is_some_and(|part| filled(part.get("toolUse")));
            is_tool("start") || is_tool("delta") || invoked(root, anthropic::MESSAGES.tool_call)
        },
    },
    is_numbered: false,
};

fn is_piece(delta: Node<'_>) -> bool {
    let within = |name: &str, pieces: &[&str]| delta.get(name).is_some_and(|part| any_filled(part, pieces));
    filled(delta.get("text")) || within("toolUse", &["input"]) || within("reasoningContent", &["text"])
}

/// Whether the event that an `invoke` payload wraps has this mark.
fn invoked(root: Node<'_>, mark: Mark) -> bool {
    let Some(text) = root.get("bytes").and_then(Node::text) else { return false };
    let Ok(bytes) = STANDARD.decode(text.as_bytes()) else { return false };
    Document::parse(&bytes).is_ok_and(|document| (mark.is)(document.root()))
}

/// The exceptions and their statuses are those of the service model; the header's form and the texts are general
/// knowledge.
fn failure(cause: Cause, facts: &FailureContext<'_>) -> Option<Failure> {
    let (status, exception, message) = said(cause)?;
    Some(
        Failure::json(status, &json!({"message": message}))
            .with("x-amzn-requestid", facts.uuid())
            .with("x-amzn-errortype", exception),
    )
}

/// An exception of the stream, of those that the service model has for it. Their names start with a small letter there.
fn frame(cause: Cause) -> Option<Event> {
    let (_, exception, message) = said(cause)?;
    let name = match exception {
        "ThrottlingException" => "throttlingException",
        "InternalServerException" => "internalServerException",
        "ServiceUnavailableException" => "serviceUnavailableException",
        "ValidationException" => "validationException",
        "ModelTimeoutException" => "modelTimeoutException",
        _ => return None,
    };
    Some(Event::aws_exception(name, json!({"message": message}).to_string().as_bytes()))
}

/// The status, the exception and its message.
fn said(cause: Cause) -> Option<(u16, &'static str, &'static str)> {
    Some(match cause {
        Cause::RateLimitTokens => {
            (429, "ThrottlingException", "Too many tokens, please wait before trying again.")
        }
        Cause::RateLimitRequests => {
            (429, "ThrottlingException", "Too many requests, please wait before trying again.")
        }
        Cause::ContextLength => (400, "ValidationException", "Input is too long for requested model."),
        Cause::ServerError => (
            500,
            "InternalServerException",
            "The system encountered an unexpected error during processing. Try your request again.",
        ),
        Cause::Overloaded | Cause::Capacity => {
            (503, "ServiceUnavailableException", "Too many connections, please wait before trying again.")
        }
        Cause::NotReady => (429, "ModelNotReadyException", "The model is not ready. Try your request again."),
        Cause::Timeout => {
            (408, "ModelTimeoutException", "The model took too long to respond. Try your request again.")
        }
        Cause::QuotaExhausted => {
            (400, "ServiceQuotaExceededException", "Your request exceeds a service quota.")
        }
        Cause::Conflict => (400, "ConflictException", "The resource was changed by another request."),
        Cause::InvalidRequest => (400, "ValidationException", "The provided request is not valid."),
        Cause::ContentFilter => (400, "ValidationException", "Output blocked by content filtering policy"),
        Cause::Auth => {
            (403, "UnrecognizedClientException", "The security token included in the request is invalid.")
        }
        Cause::Permission => {
            (403, "AccessDeniedException", "You don't have access to the model with the specified model ID.")
        }
        Cause::ModelNotFound => {
            (404, "ResourceNotFoundException", "The provided model identifier is not found.")
        }
        _ => return None,
    })
}
