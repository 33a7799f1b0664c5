//! Vector stores. Statuses, prefixes and codes are those of the servers' sources.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use super::{Cause, Dialect, Facts, Failure};

/// The text begins with a prefix that names the kind of error. `retry-after` is in whole seconds, rounded up. What comes
/// after the prefix is general knowledge but for wrong dimensions.
pub(super) fn qdrant(cause: Cause, facts: &Facts<'_>) -> Option<Failure> {
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

/// A cause as the other stores tell it apart. The texts are general knowledge.
struct Told {
    status: u16,
    text: String,
    /// gRPC's code, which Pinecone sends.
    grpc: u8,
    milvus: u16,
    chroma: &'static str,
    elastic: &'static str,
}

fn told(cause: Cause, facts: &Facts<'_>) -> Option<Told> {
    let collection = facts.collection_or("documents");
    let told = |status, text: &str, grpc, milvus, chroma, elastic| {
        Some(Told { status, text: text.to_owned(), grpc, milvus, chroma, elastic })
    };
    match cause {
        Cause::RateLimitRequests | Cause::RateLimitTokens => {
            told(429, "Rate limit exceeded", 8, 8, "RateLimitError", "es_rejected_execution_exception")
        }
        Cause::QuotaExhausted => {
            told(429, "Quota exceeded", 8, 9, "QuotaError", "circuit_breaking_exception")
        }
        Cause::Auth => told(401, "Unauthorized", 16, 1800, "AuthorizationError", "security_exception"),
        Cause::Permission => told(403, "Forbidden", 7, 1401, "AuthError", "security_exception"),
        Cause::InvalidRequest => {
            told(400, "Invalid argument", 3, 1100, "InvalidArgumentError", "illegal_argument_exception")
        }
        Cause::DimensionMismatch => told(
            400,
            "Collection expecting embedding with dimension of 384, got 3",
            3,
            1100,
            "InvalidDimension",
            "illegal_argument_exception",
        ),
        Cause::CollectionMissing => {
            let text = format!("Collection [{collection}] does not exist");
            told(404, &text, 5, 100, "NotFoundError", "index_not_found_exception")
        }
        Cause::Conflict => told(
            409,
            "Already exists",
            6,
            65_535,
            "UniqueConstraintError",
            "version_conflict_engine_exception",
        ),
        Cause::Timeout => told(408, "request timeout", 4, 10_001, "InternalError", "timeout_exception"),
        Cause::ServerError => told(500, "Internal server error", 13, 5, "InternalError", "exception"),
        Cause::StorageFull => told(
            429,
            "Disk usage exceeded flood-stage watermark",
            8,
            7,
            "QuotaError",
            "cluster_block_exception",
        ),
        Cause::NotReady => told(
            503,
            "Collection is not fully loaded",
            14,
            103,
            "InternalError",
            "no_shard_available_action_exception",
        ),
        Cause::Overloaded | Cause::Capacity | Cause::ShardUnavailable => {
            told(503, "Service unavailable", 14, 2, "InternalError", "cluster_block_exception")
        }
        _ => None,
    }
}

/// The other stores.
pub(super) fn other(dialect: Dialect, cause: Cause, facts: &Facts<'_>) -> Option<Failure> {
    let Told { status, text, grpc, milvus, chroma, elastic } = told(cause, facts)?;
    Some(match dialect {
        Dialect::Pinecone => pinecone(status, grpc, &text, facts),
        Dialect::Weaviate => Failure::json(status, &json!({"error": [{"message": text}]})),
        // An error is a success that says no, but for a wrong key and a timeout.
        Dialect::Milvus => {
            let status = if matches!(status, 401 | 408) { status } else { 200 };
            Failure::json(status, &json!({"code": milvus, "message": text}))
        }
        Dialect::Chroma => Failure::json(chroma_status(chroma), &json!({"error": chroma, "message": text}))
            .with("chroma-trace-id", facts.hex(32)),
        _ => elasticsearch(status, elastic, &text),
    })
}

fn chroma_status(name: &str) -> u16 {
    match name {
        "AuthorizationError" => 401,
        "AuthError" => 403,
        "NotFoundError" => 404,
        "UniqueConstraintError" => 409,
        "RateLimitError" => 429,
        "InternalError" => 500,
        _ => 400,
    }
}

/// The envelope of the data plane, that of gRPC, is general knowledge.
fn pinecone(status: u16, code: u8, text: &str, facts: &Facts<'_>) -> Failure {
    let failure = Failure::json(status, &json!({"code": code, "message": text, "details": []}))
        .with("x-pinecone-request-id", facts.hex(16));
    if status == 429 { failure.with_retry_after(facts.wait_or(USUAL_WAIT)) } else { failure }
}

fn elasticsearch(status: u16, kind: &str, reason: &str) -> Failure {
    let cause = json!({"type": kind, "reason": reason});
    let body = json!({"error": {"root_cause": [cause], "type": kind, "reason": reason}, "status": status});
    // Its own client refuses a server that does not name itself.
    Failure::json(status, &body).with("x-elastic-product", "Elasticsearch")
}
