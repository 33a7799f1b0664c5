//! Causes of failure, and how each provider words them.
//!
//! [`render`] gives what a provider answers instead of an answer; [`in_stream`] what it sends once a stream runs and
//! the status is out. What is said to be exact was read in documentation, in a server's or SDK's source, or in reports
//! of several users that agree; where nothing better than general knowledge exists, the item says so.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use crate::{Dialect, Event, Operation, named::named, provider::Provider};

mod gateway;

pub use gateway::page as gateway_page;

named! {
    /// Why a request fails.
    pub enum Cause {
        /// Too many requests per minute.
        RateLimitRequests = "rate_limit_requests",
        /// Too many tokens per minute.
        RateLimitTokens = "rate_limit_tokens" | "rate_limit",
        /// One request alone is larger than the limit per minute: a retry never helps.
        RequestTooLargeForLimit = "request_too_large_for_limit",
        /// The load rose too fast, though it is within the limits.
        SlowDown = "slow_down",
        /// The quota or the credit is used up.
        QuotaExhausted = "quota_exhausted",
        /// A limit on spending that the account's owner set is reached.
        SpendLimit = "spend_limit",
        /// The prompt does not fit into the model's context.
        ContextLength = "context_length" | "context_length_exceeded",
        /// The prompt was refused by a content filter, as an error.
        ContentFilter = "content_filter",
        /// The answer was filtered: a success without its content.
        FilteredAnswer = "filtered_answer",
        /// The model declined: a success that says no.
        Refusal = "refusal",
        /// The key is missing or wrong.
        Auth = "auth",
        /// The key may not do this.
        Permission = "permission",
        /// There is no such model, or it is not for this account.
        ModelNotFound = "model_not_found",
        /// A parameter is wrong.
        InvalidRequest = "invalid_request",
        /// The body is too large.
        PayloadTooLarge = "payload_too_large",
        /// A concurrent change got in the way.
        Conflict = "conflict",
        /// The provider gave up waiting.
        Timeout = "timeout",
        /// An internal error.
        ServerError = "server_error",
        /// The gateway in front got no valid answer: a page, not JSON.
        BadGateway = "bad_gateway",
        /// The gateway in front has no server to ask: a page, not JSON, unless the provider answers this itself.
        Unavailable = "unavailable",
        /// The gateway in front gave up waiting: a page, not JSON, unless the provider answers this itself.
        GatewayTimeout = "gateway_timeout",
        /// Everybody's load is too high.
        Overloaded = "overloaded",
        /// The account is not in good standing.
        Billing = "billing",
        /// There are no resources for this model now.
        Capacity = "capacity",
        /// The model or the collection is still being loaded.
        NotReady = "not_ready",
        /// The disk is full.
        StorageFull = "storage_full",
        /// A vector has another number of dimensions than the collection.
        DimensionMismatch = "dimension_mismatch",
        /// There is no such collection.
        CollectionMissing = "collection_missing",
        /// Some replicas are gone.
        ShardUnavailable = "shard_unavailable",
    }
}

/// What a failure tells about its request.
#[derive(Clone, Copy, Debug, Default)]
pub struct FailureContext<'a> {
    /// The model that was asked for. Empty: none that is known.
    pub model: &'a str,
    /// The collection of vectors that was asked. Empty: none that is known.
    pub collection: &'a str,
    /// What tells this failure from others: its ids derive from it, so that the same number gives the same bytes.
    pub id: u64,
    /// The time, in seconds since 1970: some limits are said to end at a time of day.
    pub now: u64,
    /// How long the caller is told to wait. None: as long as the cause usually takes, or, for causes where the
    /// provider only sometimes says it, nothing.
    pub retry_after: Option<Duration>,
}

impl FailureContext<'_> {
    pub(crate) fn model_or<'a>(&'a self, other: &'a str) -> &'a str {
        if self.model.is_empty() { other } else { self.model }
    }

    pub(crate) fn collection_or<'a>(&'a self, other: &'a str) -> &'a str {
        if self.collection.is_empty() { other } else { self.collection }
    }

    /// So many hexadecimal digits, the same for the same facts.
    pub(crate) fn hex(&self, digits: usize) -> String {
        let words = (0..).map(|word| mix(self.id.wrapping_add(word)));
        let mut hex: String = words.take(digits.div_ceil(16)).map(|word| format!("{word:016x}")).collect();
        hex.truncate(digits);
        hex
    }

    /// A random UUID (RFC 9562, section 5.4).
    pub(crate) fn uuid(&self) -> String {
        let (high, low) = (mix(self.id), mix(self.id.wrapping_add(1)));
        let (version, variant) = (0x4000 | high & 0xfff, 0x8000 | low >> 50);
        let (first, second, last) = (high >> 32, high >> 16 & 0xffff, low & 0xffff_ffff_ffff);
        format!("{first:08x}-{second:04x}-{version:04x}-{variant:04x}-{last:012x}")
    }

    /// So many characters of base 58, in which letters and digits that look alike are left out.
    pub(crate) fn base58(&self, characters: usize) -> String {
        const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
        let words = (0..).map(|word| mix(self.id.wrapping_add(word)));
        words.take(characters).map(|word| char::from(ALPHABET[(word % 58) as usize])).collect()
    }

    pub(crate) fn wait_or(&self, usual: Duration) -> Duration {
        self.retry_after.unwrap_or(usual)
    }
}

/// Spreads a number over all bits (the finaliser of `SplitMix64`).
fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// An answer that is a failure.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure {
    /// The HTTP status.
    pub status: u16,
    /// Its own headers, `content-type` among them. Not `date`, `content-length` and the like, which whoever sends it
    /// adds.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Bytes,
}

impl Failure {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self {
            status,
            headers: vec![("content-type", "application/json".to_owned())],
            body: body.to_string().into(),
        }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn with_retry_after(self, wait: Duration) -> Self {
        self.with("retry-after", whole_seconds(wait).to_string())
    }
}

/// Seconds, rounded up: a caller that waits so long has waited long enough.
pub(crate) fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// What the provider answers for a cause. None if it is not known how this provider words this cause, or the cause is
/// not a failure but a kind of answer ([`Cause::FilteredAnswer`], [`Cause::Refusal`]).
///
/// An unknown dialect speaks as most compatible servers do: a JSON object `error` with `message`, `type` and `code`.
pub fn render(
    dialect: Option<Dialect>,
    operation: Option<Operation>,
    cause: Cause,
    facts: &FailureContext<'_>,
) -> Option<Failure> {
    let own = (Provider::of(dialect).failure)(operation, cause, facts);
    own.or_else(|| gateway::failure(cause))
}

/// The frames by which a provider says, in a stream that runs, that it has failed. The stream then ends without its
/// terminator. Empty if no such frame of the provider is known, or not how it words the cause.
///
/// `seq` is the `sequence_number` that the next event of an OpenAI Responses stream would have.
pub fn in_stream(
    dialect: Option<Dialect>,
    operation: Option<Operation>,
    cause: Cause,
    facts: &FailureContext<'_>,
    seq: u64,
) -> Vec<Event> {
    let provider = Provider::of(dialect);
    (provider.frame)(provider, operation, cause, facts, seq).into_iter().collect()
}

#[cfg(test)]
mod tests;
