//! What a response says about why it failed.

use std::{borrow::Cow, time::Duration};

use super::{Class, Outcome, Response, is_container, wait};
use crate::{
    Cause, Operation,
    content::filled,
    json::{Kind, Node},
    parts::visit,
    provider::Provider,
};

use Sign::{Text, Word};

/// Something in a failure that tells its cause.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sign {
    /// A code, a type, a status or an exception of this name, in lower case.
    Word(&'static str),
    /// A message that contains this text, in lower case.
    Text(&'static str),
}

/// Everything in a response that can tell a cause.
#[derive(Debug, Default)]
pub(super) struct Signs {
    /// The status, or what an error in a success or a stream says it would be.
    status: Option<u16>,
    /// Codes, types and the like, in lower case.
    words: Vec<String>,
    /// The messages, in lower case.
    text: String,
    /// The wait that the body tells.
    wait: Option<Duration>,
}

/// Members whose value is a word.
const WORDS: &[&str] = &["code", "type", "status", "reason", "error_code", "error_type", "__type"];
/// Members whose value is a message.
const TEXTS: &[&str] = &["message", "msg", "detail", "description", "reason", "raw", "quotaId"];
/// Members with more about an error.
const NESTED: &[&str] =
    &["error", "errors", "details", "detail", "innererror", "metadata", "violations", "root_cause", "status"];

/// Errors are nested, but not deeper.
const MAX_DEPTH: usize = 8;

impl Signs {
    /// What a document says, and the head.
    pub(super) fn of(root: Node<'_>, response: Option<&Response<'_>>) -> Self {
        let mut signs = Self::of_head(response);
        // Gemini's streams that are a list, and lists of one error.
        let root = if root.kind() == Kind::Array { root.at(0).unwrap_or(root) } else { root };
        signs.read(root, 0);
        // An error of OpenAI's `response.failed`, and one of Cohere's streams.
        for outer in ["response", "delta"].iter().filter_map(|name| root.get(name)) {
            if let Some(error) = outer.get("error").filter(|error| filled(Some(*error))) {
                signs.read_error(error, 0);
            }
        }
        signs
    }

    /// What a body says that is not JSON. A page says nothing.
    pub(super) fn of_text(response: &Response<'_>, is_html: bool) -> Self {
        let mut signs = Self::of_head(Some(response));
        if !is_html {
            signs.add_text(&String::from_utf8_lossy(response.body));
        }
        signs
    }

    fn of_head(response: Option<&Response<'_>>) -> Self {
        let mut signs = Self::default();
        if let Some(response) = response {
            signs.status = (!(200..300).contains(&response.status)).then_some(response.status);
            if let Some(exception) = (response.header)("x-amzn-errortype") {
                signs.add_word(exception.split([':', ';']).next().unwrap_or_default());
            }
        }
        signs
    }

    pub(super) fn add_word(&mut self, word: &str) {
        let name = word.rsplit(['#', '/']).next().unwrap_or(word);
        if let Ok(status) = name.parse::<u16>()
            && (400..600).contains(&status)
        {
            self.status = self.status.or(Some(status));
        }
        self.words.push(name.to_ascii_lowercase());
    }

    fn add_text(&mut self, text: &str) {
        self.text.push_str(&text.to_lowercase());
        self.text.push('\n');
    }

    fn read(&mut self, node: Node<'_>, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        for name in WORDS {
            match node.get(name) {
                Some(word) if word.kind() == Kind::String => self.add_word(&word.text().unwrap_or_default()),
                Some(word) if word.kind() == Kind::Number => {
                    self.add_word(&String::from_utf8_lossy(word.raw()));
                }
                _ => {}
            }
        }
        for text in TEXTS.iter().filter_map(|name| node.get(name)?.text()) {
            self.add_text(&text);
        }
        if let Some(delay) = node.get("retryDelay").and_then(Node::text) {
            self.wait = wait::go_duration(&delay);
        }
        for more in NESTED.iter().filter_map(|name| node.get(name)) {
            self.read_error(more, depth + 1);
        }
    }

    /// An error is an object, a list of them, or a text. A text without spaces is a word too.
    fn read_error(&mut self, error: Node<'_>, depth: usize) {
        match error.kind() {
            Kind::Object => self.read(error, depth),
            Kind::Array if depth < MAX_DEPTH => {
                error.children().for_each(|each| self.read_error(each, depth + 1))
            }
            Kind::String => {
                let text: Cow<'_, str> = error.text().unwrap_or_default();
                if !text.contains(' ') {
                    self.add_word(&text);
                }
                self.add_text(&text);
            }
            _ => {}
        }
    }

    /// Whether a body whose status is a success says that it is a failure.
    pub(super) fn is_failure(&self, provider: &Provider, root: Node<'_>) -> bool {
        let first = if root.kind() == Kind::Array { root.at(0).unwrap_or(root) } else { root };
        let is_error =
            |error: Node<'_>| filled(Some(error)) && (is_container(error) || error.text().is_some());
        first.get("error").is_some_and(is_error)
            || first.get("type").and_then(Node::text).is_some_and(|kind| kind == "error")
            || first.get("object").and_then(Node::text).is_some_and(|kind| kind == "error")
            || (provider.is_failure)(first)
    }

    pub(super) fn wait(&self) -> Option<Duration> {
        self.wait.or_else(|| wait::of_text(&self.text))
    }

    /// The outcome of a failure. Without any sign, the provider failed.
    pub(super) fn outcome(&self, provider: &Provider, operation: Option<Operation>) -> Outcome {
        let class = || self.status.map_or(Class::Server, class_of_status);
        self.cause(provider, operation).map_or_else(|| Outcome::of(class()), Outcome::from)
    }

    /// The cause: by the provider's own signs, else by those that many share, else by the status.
    fn cause(&self, provider: &Provider, operation: Option<Operation>) -> Option<Cause> {
        let first =
            |signs: &[(Sign, Cause)]| signs.iter().find(|(sign, _)| self.has(*sign)).map(|(_, cause)| *cause);
        let is_server_error = self.status.is_some_and(|status| status >= 500);
        let own = first(provider.signs).or_else(|| first(OF_ANY_STATUS));
        let shared = || if is_server_error { None } else { first(SHARED) };
        let of_status = || cause_of_status(self.status?, operation);
        // A message alone is a weak sign: it counts where no status says more.
        let weak = || if self.status.is_none() { first(WEAK) } else { None };
        let bills = || {
            let is_billed = matches!(self.status, Some(400 | 402 | 403));
            (is_billed && first(BILLING).is_some()).then_some(Cause::Billing)
        };
        own.or_else(shared).or_else(bills).or_else(of_status).or_else(weak)
    }

    fn has(&self, sign: Sign) -> bool {
        match sign {
            Word(word) => self.words.iter().any(|has| has == word),
            Text(text) => self.text.contains(text),
        }
    }
}

/// Signs that count with every status: some servers send 500 for a prompt that is too long.
const OF_ANY_STATUS: &[(Sign, Cause)] = &[
    (Text("request too large for"), Cause::RequestTooLargeForLimit),
    (Word("context_length_exceeded"), Cause::ContextLength),
    (Word("exceed_context_size_error"), Cause::ContextLength),
    (Text("maximum context length"), Cause::ContextLength),
    (Text("context length"), Cause::ContextLength),
    (Text("context window"), Cause::ContextLength),
    (Text("available context size"), Cause::ContextLength),
    (Text("prompt is too long"), Cause::ContextLength),
    (Text("input is too long"), Cause::ContextLength),
    (Text("too large to process"), Cause::ContextLength),
    (Text("maximum number of tokens allowed"), Cause::ContextLength),
    (Text("longer than the maximum model length"), Cause::ContextLength),
    (Text("input tokens exceed"), Cause::ContextLength),
    (Text("too many tokens:"), Cause::ContextLength),
    (Text("`max_new_tokens` must be <="), Cause::ContextLength),
    (Text("`inputs` must have less than"), Cause::ContextLength),
    (Word("slow_down"), Cause::SlowDown),
];

/// Signs that many providers share, in the order in which they count.
const SHARED: &[(Sign, Cause)] = &[
    (Word("content_filter"), Cause::ContentFilter),
    (Word("content_policy_violation"), Cause::ContentFilter),
    (Word("invalid_prompt"), Cause::ContentFilter),
    (Word("bio_policy"), Cause::ContentFilter),
    (Word("misalignment_policy_violation"), Cause::ContentFilter),
    (Word("responsibleaipolicyviolation"), Cause::ContentFilter),
    (Text("content filter"), Cause::ContentFilter),
    (Text("content management policy"), Cause::ContentFilter),
    (Text("content policy"), Cause::ContentFilter),
    (Word("credit_balance_exhausted"), Cause::Billing),
    (Word("billing_error"), Cause::Billing),
    (Word("insufficient_balance"), Cause::Billing),
    (Word("billing_hard_limit_reached"), Cause::SpendLimit),
    (Word("insufficient_quota"), Cause::QuotaExhausted),
    (Text("insufficient balance"), Cause::Billing),
    (Text("insufficient credits"), Cause::Billing),
    (Text("credit balance is"), Cause::QuotaExhausted),
    (Text("spend limit"), Cause::SpendLimit),
    (Text("exceeded your current quota"), Cause::QuotaExhausted),
    (Text("quota exceeded"), Cause::QuotaExhausted),
    (Text("disk usage exceeded"), Cause::StorageFull),
    (Word("invalid_api_key"), Cause::Auth),
    (Word("authentication_error"), Cause::Auth),
    (Text("invalid api key"), Cause::Auth),
    (Text("incorrect api key"), Cause::Auth),
    (Text("api key not valid"), Cause::Auth),
    (Word("permission_error"), Cause::Permission),
    (Word("permission_denied"), Cause::Permission),
    (Word("request_forbidden"), Cause::Permission),
    (Word("unsupported_country_region_territory"), Cause::Permission),
    (Word("model_not_found"), Cause::ModelNotFound),
    (Word("not_found_error"), Cause::ModelNotFound),
    (Word("rate_limit_error"), Cause::RateLimitRequests),
    (Word("rate_limit_exceeded"), Cause::RateLimitRequests),
    (Word("overloaded_error"), Cause::Overloaded),
    (Word("server_is_overloaded"), Cause::Overloaded),
    (Word("service_unavailable_error"), Cause::Overloaded),
    (Word("overloaded"), Cause::Overloaded),
    (Word("timeout_error"), Cause::Timeout),
    (Word("server_error"), Cause::ServerError),
    (Word("api_error"), Cause::ServerError),
];

/// Texts that speak of money, in a refusal.
const BILLING: &[(Sign, Cause)] = &[
    (Text("billing"), Cause::Billing),
    (Text("payment"), Cause::Billing),
    (Text("insufficient funds"), Cause::Billing),
    (Text("out of credit"), Cause::Billing),
];

/// Signs that count if there is no status at all, as in a stream.
const WEAK: &[(Sign, Cause)] = &[
    (Text("rate limit"), Cause::RateLimitRequests),
    (Text("too many requests"), Cause::RateLimitRequests),
    (Text("requests increased too quickly"), Cause::SlowDown),
    (Text("no permission"), Cause::Permission),
    (Text("does not exist"), Cause::ModelNotFound),
    (Text("not found"), Cause::ModelNotFound),
    (Text("changed by another request"), Cause::Conflict),
    (Text("timed out"), Cause::Timeout),
    (Text("overloaded"), Cause::Overloaded),
    (Text("server busy"), Cause::Overloaded),
    (Text("loading model"), Cause::NotReady),
    (Word("unavailable_error"), Cause::NotReady),
    (Word("invalid_request_error"), Cause::InvalidRequest),
    (Word("conflict_error"), Cause::Conflict),
    (Word("request_too_large"), Cause::PayloadTooLarge),
    (Word("unsupported_parameter"), Cause::InvalidRequest),
    (Word("missing_required_parameter"), Cause::InvalidRequest),
    (Word("invalid_value"), Cause::InvalidRequest),
    (Text("invalid value"), Cause::InvalidRequest),
];

/// What a status alone tells. None if it has several causes.
fn cause_of_status(status: u16, operation: Option<Operation>) -> Option<Cause> {
    let is_store = operation.is_some_and(|operation| operation.name().starts_with("vector."));
    Some(match status {
        401 | 498 => Cause::Auth,
        402 => Cause::Billing,
        403 => Cause::Permission,
        404 if is_store => Cause::CollectionMissing,
        404 => Cause::ModelNotFound,
        408 => Cause::Timeout,
        409 => Cause::Conflict,
        413 => Cause::PayloadTooLarge,
        422 => Cause::InvalidRequest,
        500 => Cause::ServerError,
        502 => Cause::BadGateway,
        503 => Cause::Unavailable,
        504 => Cause::GatewayTimeout,
        507 => Cause::StorageFull,
        529 => Cause::Overloaded,
        _ => return None,
    })
}

/// The class of a failure of which only the status is known.
fn class_of_status(status: u16) -> Class {
    match status {
        401 | 403 | 498 => Class::Auth,
        402 | 507 => Class::Quota,
        404 | 410 => Class::NotFound,
        408 | 424 | 425 => Class::Server,
        429 => Class::Rate,
        499 => Class::Cancelled,
        // What is not supported will not be on the next attempt.
        501 | 400..=499 => Class::Client,
        // A redirect is not an answer of an API.
        300..=399 => Class::Garbled,
        _ => Class::Server,
    }
}

/// Why a response ended, where that is a failure: filtered, refused, cut short by the provider.
pub(super) fn finished(provider: &Provider, root: Node<'_>) -> Option<Cause> {
    let mut cause = None;
    for path in provider.finish {
        visit(root, path, &mut |node| {
            let reason = node.text().unwrap_or_default().to_ascii_lowercase();
            cause = cause.or(match reason.as_str() {
                "refusal" => Some(Cause::Refusal),
                "content_filter"
                | "content_filtered"
                | "guardrail_intervened"
                | "safety"
                | "recitation"
                | "blocklist"
                | "prohibited_content"
                | "spii"
                | "image_safety"
                | "model_armor"
                | "jailbreak" => Some(Cause::FilteredAnswer),
                "model_context_window_exceeded" => Some(Cause::ContextLength),
                "insufficient_system_resource" => Some(Cause::Capacity),
                "error" => Some(Cause::ServerError),
                "timeout" => Some(Cause::Timeout),
                _ => None,
            });
        });
    }
    cause
}
