//! Pinecone.

use std::time::Duration;

use serde_json::json;

use super::{BLANK, Provider, store::told};
use crate::{
    Cause, Failure, FailureContext, Operation,
    dialect::{Claim, RequestLine},
    hits::{Hits, array},
    outcome::Sign::{Text, Word},
};

pub(super) static PROVIDER: Provider = Provider {
    hosts: &["*.pinecone.io"],
    path,
    failure: |_, cause, facts| failure(cause, facts),
    hits: Some(&HITS),
    signs: &[
        (Text("dimension"), Cause::DimensionMismatch),
        (Word("quota_exceeded"), Cause::QuotaExhausted),
        (Word("payment_required"), Cause::Billing),
        (Text("disk usage exceeded"), Cause::StorageFull),
    ],
    ..BLANK
};

static HITS: Hits = Hits {
    // Of an index, or of one with an integrated model (`/records/namespaces/…/search`).
    lists: |root| {
        let records = || root.get("result").and_then(|result| result.get("hits"));
        array(root.get("matches").or_else(records)).map(|list| vec![list]).into_iter().collect()
    },
    scores: &[&["score"], &["_score"]],
    payloads: &["metadata", "fields"],
    ..Hits::NONE
};

const USUAL_WAIT: Duration = Duration::from_secs(1);

fn path(asked: &RequestLine<'_>) -> Claim {
    Claim::For(match asked.steps {
        ["query"] | ["records", "namespaces", _, "search"] => Operation::VectorSearch,
        ["vectors", "upsert" | "update"] | ["records", "namespaces", _, "upsert"] => Operation::VectorUpsert,
        ["vectors", "delete"] => Operation::VectorDelete,
        ["vectors", "fetch"] => Operation::VectorGet,
        ["vectors", "list"] => Operation::VectorScroll,
        ["describe_index_stats"] => Operation::VectorAdmin,
        _ => return Claim::No,
    })
}

/// The envelope of the data plane, that of gRPC, is general knowledge.
fn failure(cause: Cause, facts: &FailureContext<'_>) -> Option<Failure> {
    let (status, text) = told(cause, facts)?;
    let failure = Failure::json(status, &json!({"code": grpc(cause)?, "message": text, "details": []}))
        .with("x-pinecone-request-id", facts.hex(16));
    Some(if status == 429 { failure.with_retry_after(facts.wait_or(USUAL_WAIT)) } else { failure })
}

/// gRPC's code.
fn grpc(cause: Cause) -> Option<u8> {
    Some(match cause {
        Cause::InvalidRequest | Cause::DimensionMismatch => 3,
        Cause::Timeout => 4,
        Cause::CollectionMissing => 5,
        Cause::Conflict => 6,
        Cause::Permission => 7,
        Cause::RateLimitRequests | Cause::RateLimitTokens | Cause::QuotaExhausted | Cause::StorageFull => 8,
        Cause::ServerError => 13,
        Cause::NotReady | Cause::Overloaded | Cause::Capacity | Cause::ShardUnavailable => 14,
        Cause::Auth => 16,
        _ => return None,
    })
}
