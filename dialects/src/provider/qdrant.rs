//! Qdrant over REST. Statuses and prefixes are those of the server's source.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use super::{BLANK, Provider};
use crate::{
    Cause, Failure, FailureContext, Operation,
    dialect::{Claim, RequestLine},
    hits::{Hits, array},
    json::{Kind, Node},
    outcome::Sign::Text,
};

pub(super) static PROVIDER: Provider = Provider {
    hosts: &["*.cloud.qdrant.io"],
    path,
    failure: |_, cause, facts| failure(cause, facts),
    hits: Some(&HITS),
    is_failure: |root| root.get("status").is_some_and(|status| status.get("error").is_some()),
    signs: &[
        (Text("rate limiting exceeded"), Cause::RateLimitRequests),
        (Text("insufficient storage"), Cause::StorageFull),
        (Text("shard temporarily unavailable"), Cause::ShardUnavailable),
        (Text("vector dimension error"), Cause::DimensionMismatch),
        (Text("already exists"), Cause::Conflict),
    ],
    ..BLANK
};

static HITS: Hits = Hits {
    lists: |root| root.get("result").map_or_else(Vec::new, |result| lists(result)),
    totals: |root| {
        let next = root.get("result").and_then(|result| result.get("next_page_offset"));
        next.map(|next| (next, "null")).into_iter().collect()
    },
    ..Hits::NONE
};

/// `result` is a list, or has `points`, or `groups` of `hits`; for a batch it is a list of such.
fn lists(result: Node<'_>) -> Vec<Vec<Node<'_>>> {
    if let Some(points) = array(result.get("points")) {
        return vec![vec![points]];
    }
    if let Some(groups) = array(result.get("groups")) {
        return groups.children().filter_map(|group| Some(vec![array(group.get("hits"))?])).collect();
    }
    if result.kind() != Kind::Array {
        return Vec::new();
    }
    let is_batch = result
        .children()
        .next()
        .is_some_and(|first| first.kind() == Kind::Array || array(first.get("points")).is_some());
    if is_batch { result.children().flat_map(lists).collect() } else { vec![vec![result]] }
}

fn path(asked: &RequestLine<'_>) -> Claim {
    let Some(at) = asked.steps.iter().position(|step| *step == "collections") else { return Claim::No };
    Claim::For(match &asked.steps[at + 1..] {
        [_, "points", "query" | "search" | "recommend" | "discover", ..] => Operation::VectorSearch,
        [_, "points", "scroll"] => Operation::VectorScroll,
        [_, "points", "delete"] => Operation::VectorDelete,
        [_, "points", "batch" | "payload" | "vectors", ..] | [_, "points"] if asked.method == "PUT" => {
            Operation::VectorUpsert
        }
        [_, "points", "batch" | "payload" | "vectors"] => Operation::VectorUpsert,
        [_, "points", "payload" | "vectors", "delete" | "clear"] => Operation::VectorDelete,
        [_, "points"] => Operation::VectorGet,
        [_, "points", _] if asked.is_get() => Operation::VectorGet,
        [] | [_] | [_, "index" | "aliases" | "snapshots" | "exists" | "cluster", ..] => {
            Operation::VectorAdmin
        }
        _ => return Claim::Other,
    })
}

/// The text begins with a prefix that names the kind of error. `retry-after` is in whole seconds, rounded up. What comes
/// after the prefix is general knowledge but for wrong dimensions.
fn failure(cause: Cause, facts: &FailureContext<'_>) -> Option<Failure> {
    let collection = facts.collection_or("documents");
    let text = |status, text: &str| Some((status, text.to_owned()));
    let (status, text) = match cause {
        Cause::RateLimitRequests | Cause::RateLimitTokens => {
            text(429, "Rate limiting exceeded: Read rate limit exceeded, retry later")
        }
        // Who has no key is told so in plain text, before any JSON is made.
        Cause::Auth => {
            return Some(plain_text(401, "Must provide an API key or an Authorization bearer token"));
        }
        Cause::Permission => text(403, "Forbidden: Global read access is required"),
        Cause::InvalidRequest => text(400, "Bad request: Invalid request"),
        Cause::Conflict => Some((409, format!("Wrong input: Collection `{collection}` already exists!"))),
        Cause::Timeout => text(408, "Timeout: Operation 'Search' timed out after 60 seconds"),
        Cause::ServerError => text(500, "Service internal error: Something went wrong"),
        Cause::Overloaded | Cause::Capacity | Cause::NotReady | Cause::ShardUnavailable => {
            text(503, "Shard temporarily unavailable: The replica set is not ready yet")
        }
        Cause::DimensionMismatch => text(400, "Wrong input: Vector dimension error: expected dim: 4, got 3"),
        Cause::CollectionMissing => {
            Some((404, format!("Not found: Collection `{collection}` doesn't exist!")))
        }
        Cause::StorageFull | Cause::QuotaExhausted => {
            text(507, "Insufficient storage: Storage quota exceeded")
        }
        _ => None,
    }?;
    let failure = Failure::json(status, &json!({"status": {"error": text}, "time": 0.0}));
    Some(if status == 429 { failure.with_retry_after(facts.wait_or(USUAL_WAIT)) } else { failure })
}

const USUAL_WAIT: Duration = Duration::from_secs(1);

fn plain_text(status: u16, text: &'static str) -> Failure {
    let headers = vec![("content-type", "text/plain; charset=utf-8".to_owned())];
    Failure { status, headers, body: Bytes::from_static(text.as_bytes()) }
}
