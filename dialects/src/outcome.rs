//! How an attempt came out: the inverse of [`failure`](crate::failure).
//!
//! [`classify`] reads a response, [`classify_event`] an event of a stream whose status was a success. Both tell the
//! [`Class`], which decides whether to retry, to fail over and to count a failure, the cause where it can be recognised, and
//! how long the provider asks to wait.

use std::time::Duration;

use crate::{
    Cause, Decoder, Dialect, Event, EventFormat, MediaType, Operation, Shape,
    json::{Document, Kind, Node},
    named::named,
    provider::Provider,
};

mod signs;
mod wait;

pub(crate) use signs::Sign;
use signs::Signs;

named! {
    /// The class of an attempt's outcome.
    pub enum Class {
        /// A success: a valid body, or a stream that reached its terminator.
        Ok = "ok",
        /// No connection: DNS, refused, TLS, or reset before the response started. Nothing was processed.
        Connect = "connect",
        /// No status line in time.
        HeadersTimeout = "headers_timeout",
        /// A response that had no content in time.
        TtftTimeout = "ttft_timeout",
        /// A stream that stalled after content.
        Idle = "idle",
        /// A stream that was slower than allowed.
        Throughput = "throughput",
        /// A body that ended early: without its terminator, or by a reset.
        Cut = "cut",
        /// A body that cannot be read: not JSON, or not the content type of an API.
        Garbled = "garbled",
        /// The provider failed: 5xx, overload, a timeout of its own.
        Server = "server",
        /// A limit on requests or tokens per time.
        Rate = "rate",
        /// The quota, the credit or the space is used up. Waiting does not help.
        Quota = "quota",
        /// The key is missing or wrong, or may not do this.
        Auth = "auth",
        /// There is no such model, deployment or collection.
        NotFound = "not_found",
        /// The request is invalid, for every provider.
        Client = "client",
        /// The request is larger than the model's context or the account's limit. Only a larger one can take it.
        Context = "context",
        /// The prompt or the response was refused or filtered.
        Policy = "policy",
        /// The request cannot be expressed for this provider.
        Lossy = "lossy",
        /// The client went away.
        Cancelled = "cancelled",
        /// The proxy itself failed. This says nothing about the provider.
        Local = "local",
        /// A success without content, or with a part of it.
        Degraded = "degraded_200",
    }
}

impl Cause {
    /// The class of an attempt that fails for this cause.
    pub const fn class(self) -> Class {
        match self {
            Self::RateLimitRequests | Self::RateLimitTokens | Self::SlowDown => Class::Rate,
            Self::RequestTooLargeForLimit | Self::ContextLength => Class::Context,
            Self::QuotaExhausted | Self::SpendLimit | Self::Billing | Self::StorageFull => Class::Quota,
            Self::ContentFilter | Self::FilteredAnswer | Self::Refusal => Class::Policy,
            Self::Auth | Self::Permission => Class::Auth,
            Self::ModelNotFound | Self::CollectionMissing => Class::NotFound,
            Self::InvalidRequest | Self::PayloadTooLarge | Self::Conflict | Self::DimensionMismatch => {
                Class::Client
            }
            Self::Timeout
            | Self::ServerError
            | Self::BadGateway
            | Self::Unavailable
            | Self::GatewayTimeout
            | Self::Overloaded
            | Self::Capacity
            | Self::NotReady
            | Self::ShardUnavailable => Class::Server,
        }
    }
}

/// How an attempt came out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Outcome {
    /// The class.
    pub class: Class,
    /// The cause, where it can be recognised. Its class is the outcome's.
    pub cause: Option<Cause>,
    /// How long the provider asks to wait before the next attempt. Not capped.
    pub wait: Option<Duration>,
}

impl Outcome {
    const fn of(class: Class) -> Self {
        Self { class, cause: None, wait: None }
    }
}

impl From<Cause> for Outcome {
    fn from(cause: Cause) -> Self {
        Self { cause: Some(cause), ..Self::of(cause.class()) }
    }
}

/// A whole response, or as much of it as has arrived.
#[derive(Clone, Copy)]
pub struct Response<'a> {
    /// The HTTP status.
    pub status: u16,
    /// The value of the header of this lower-case name.
    pub header: &'a dyn Fn(&str) -> Option<&'a str>,
    /// The body, without content encoding.
    pub body: &'a [u8],
    /// The time in seconds since 1970, for waits that are given as a date.
    pub now: u64,
}

/// Classifies a response to a request of this dialect and operation.
pub fn classify(dialect: Option<Dialect>, operation: Option<Operation>, response: &Response<'_>) -> Outcome {
    let content_type = (response.header)("content-type").unwrap_or_default();
    let is_success = (200..300).contains(&response.status);
    if is_success && let Some(framing) = EventFormat::of_media_type(MediaType::of(content_type)) {
        return stream(dialect, operation, framing, response.body);
    }
    let is_api = dialect.is_some() || operation.is_some();
    let Ok(document) = Document::parse(response.body) else {
        let is_html = content_type.trim_start().to_ascii_lowercase().starts_with("text/html");
        return match is_success {
            true if is_api && (is_html || answers_in_json(operation)) => Outcome::of(Class::Garbled),
            true => Outcome::of(Class::Ok),
            false => failure(dialect, operation, &Signs::of_text(response, is_html), response),
        };
    };
    let root = document.root();
    let signs = Signs::of(root, Some(response));
    if !is_success || signs.is_failure(Provider::of(dialect), root) {
        return failure(dialect, operation, &signs, response);
    }
    success(dialect, operation, root)
}

/// Classifies an event of a stream whose status was a success. None if it is not a sign of a failure.
pub fn classify_event(
    dialect: Option<Dialect>,
    operation: Option<Operation>,
    event: &Event,
) -> Option<Outcome> {
    let data = event.data();
    if !event.is_event() || data.trim_ascii().is_empty() || data.trim_ascii() == b"[DONE]" {
        return None;
    }
    let Ok(document) = Document::parse(&data) else { return Some(Outcome::of(Class::Garbled)) };
    let (provider, root) = (Provider::of(dialect), document.root());
    let mut signs = Signs::of(root, None);
    let name = event.name().unwrap_or_default();
    // The names of Bedrock's exceptions, and of DashScope's errors.
    let is_exception = name.ends_with("Exception") || name == "error";
    if is_exception {
        signs.add_word(&name);
    }
    if is_exception || Shape::of(dialect, operation).is_failure(event) || signs.is_failure(provider, root) {
        return Some(Outcome { wait: signs.wait(), ..signs.outcome(provider, operation) });
    }
    signs::finished(provider, root).map(Outcome::from)
}

/// Whether successes have a JSON body.
fn answers_in_json(operation: Option<Operation>) -> bool {
    !matches!(operation, None | Some(Operation::Speech | Operation::Transcription | Operation::Tool))
}

fn failure(
    dialect: Option<Dialect>,
    operation: Option<Operation>,
    signs: &Signs,
    response: &Response<'_>,
) -> Outcome {
    let outcome = signs.outcome(Provider::of(dialect), operation);
    let told = wait::of_headers(response).or_else(|| signs.wait());
    let reset = || (outcome.class == Class::Rate).then(|| wait::of_limits(response)).flatten();
    Outcome { wait: told.or_else(reset), ..outcome }
}

/// A success can still be filtered, cut short by the provider, empty or partial.
fn success(dialect: Option<Dialect>, operation: Option<Operation>, root: Node<'_>) -> Outcome {
    let provider = Provider::of(dialect);
    let generates =
        matches!(operation, Some(Operation::Chat | Operation::Responses | Operation::Completions));
    let has_content = provider.content.iter().any(|path| {
        let mut found = false;
        crate::parts::visit(root, path, &mut |node| found |= crate::content::filled(Some(node)));
        found
    });
    if let Some(cause) = signs::finished(provider, root)
        && !(cause == Cause::ContextLength && has_content)
    {
        return cause.into();
    }
    let is_empty = generates && !provider.content.is_empty() && !has_content;
    if is_empty || (provider.is_partial)(root) {
        return Outcome::of(Class::Degraded);
    }
    Outcome::of(Class::Ok)
}

/// Larger events are not read.
const MAX_EVENT: usize = 1 << 20;

/// A stream is a success once it has its terminator, and fails with the first event that says so.
fn stream(
    dialect: Option<Dialect>,
    operation: Option<Operation>,
    framing: EventFormat,
    body: &[u8],
) -> Outcome {
    let shape = Shape::of(dialect, operation);
    let mut decoder = Decoder::new(framing, MAX_EVENT);
    decoder.push(bytes::Bytes::copy_from_slice(body));
    let mut ended = false;
    while let Some(event) = decoder.next() {
        if let Some(outcome) = classify_event(dialect, operation, &event) {
            return outcome;
        }
        ended |= shape.is_terminator(&event);
    }
    Outcome::of(if ended { Class::Ok } else { Class::Cut })
}

/// Whether a node is there and is a list or an object with members.
fn is_container(node: Node<'_>) -> bool {
    matches!(node.kind(), Kind::Array | Kind::Object)
}

#[cfg(test)]
mod tests;
