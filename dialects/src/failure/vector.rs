//! Vector stores. Statuses, prefixes and codes are those of the servers' sources.

use std::time::Duration;

use serde_json::json;

use super::{Cause, Dialect, Facts, Failure};

/// The text begins with a prefix that names the kind of error. `retry-after` is in whole seconds, rounded up.
pub(super) fn qdrant(cause: Cause, facts: &Facts<'_>) -> Option<Failure> {
    let (status, text) = match cause {
        Cause::RateLimitRequests | Cause::RateLimitTokens => {
            (429, "Rate limiting exceeded: Read rate limit exceeded, retry later")
        }
        Cause::Timeout => (408, "Timeout: Operation 'Search' timed out after 60 seconds"),
        Cause::ServerError => (500, "Service internal error: Something went wrong"),
        Cause::Overloaded | Cause::ShardUnavailable => {
            (503, "Shard temporarily unavailable: The replica set is not ready yet")
        }
        Cause::DimensionMismatch => (400, "Wrong input: Vector dimension error: expected dim: 4, got 3"),
        Cause::CollectionMissing => (404, "Not found: Collection `aconite` doesn't exist!"),
        Cause::StorageFull => (507, "Insufficient storage: Storage quota exceeded"),
        _ => return None,
    };
    let failure = Failure::json(status, &json!({"status": {"error": text}, "time": 0.0}));
    Some(match cause {
        Cause::RateLimitRequests | Cause::RateLimitTokens => {
            failure.with_retry_after(facts.wait_or(Duration::from_secs(1)))
        }
        _ => failure,
    })
}

/// The other stores.
pub(super) fn other(dialect: Dialect, cause: Cause, facts: &Facts<'_>) -> Option<Failure> {
    let (status, text) = match cause {
        Cause::RateLimitRequests | Cause::RateLimitTokens => (429, "Rate limit exceeded"),
        Cause::ServerError => (500, "Internal server error"),
        Cause::Overloaded => (503, "Service unavailable"),
        _ => return None,
    };
    Some(match dialect {
        Dialect::Pinecone => pinecone(status, text, facts),
        Dialect::Weaviate => Failure::json(status, &json!({"error": [{"message": text}]})),
        // An error is a success that says no: the status stays 200.
        Dialect::Milvus => {
            let code = if status == 429 {
                8
            } else if status == 503 {
                2
            } else {
                5
            };
            Failure::json(200, &json!({"code": code, "message": text}))
        }
        Dialect::Chroma => {
            let (status, name) = if status == 429 { (429, "RateLimitError") } else { (500, "InternalError") };
            Failure::json(status, &json!({"error": name, "message": text}))
                .with("chroma-trace-id", facts.hex(32))
        }
        _ => elasticsearch(status),
    })
}

/// The envelope of the data plane, that of gRPC, is general knowledge.
fn pinecone(status: u16, text: &str, facts: &Facts<'_>) -> Failure {
    let code = if status == 429 {
        8
    } else if status == 503 {
        14
    } else {
        13
    };
    let failure = Failure::json(status, &json!({"code": code, "message": text, "details": []}))
        .with("x-pinecone-request-id", facts.hex(16));
    if status == 429 { failure.with_retry_after(facts.wait_or(Duration::from_secs(1))) } else { failure }
}

fn elasticsearch(status: u16) -> Failure {
    let (kind, reason) = match status {
        429 => ("es_rejected_execution_exception", "rejected execution: the search queue is full"),
        503 => (
            "cluster_block_exception",
            "blocked by: [SERVICE_UNAVAILABLE/1/state not recovered / initialized];",
        ),
        _ => ("exception", "internal error"),
    };
    let cause = json!({"type": kind, "reason": reason});
    let body = json!({"error": {"root_cause": [cause], "type": kind, "reason": reason}, "status": status});
    // Its own client refuses a server that does not name itself.
    Failure::json(status, &body).with("x-elastic-product", "Elasticsearch")
}
