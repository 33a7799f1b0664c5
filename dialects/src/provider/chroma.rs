//! Chroma. The names of errors are those of the server's source.

use serde_json::json;

use super::{BLANK, Provider, store::told};
use crate::{
    Cause, Failure, FailureContext, Operation,
    dialect::{Claim, RequestLine},
    hits::{Hits, array},
    outcome::Sign::{Text, Word},
};

pub(super) static PROVIDER: Provider = Provider {
    hosts: &["api.trychroma.com"],
    path,
    failure: |_, cause, facts| failure(cause, facts),
    hits: Some(&HITS),
    signs: &[
        (Word("invaliddimension"), Cause::DimensionMismatch),
        (Word("quotaerror"), Cause::QuotaExhausted),
        (Word("authorizationerror"), Cause::Auth),
        (Word("autherror"), Cause::Permission),
        (Word("notfounderror"), Cause::CollectionMissing),
        (Word("uniqueconstrainterror"), Cause::Conflict),
        (Word("idalreadyexists"), Cause::Conflict),
        (Word("ratelimiterror"), Cause::RateLimitRequests),
        (Word("backoff"), Cause::SlowDown),
        (Word("internalerror"), Cause::ServerError),
        (Word("invalidargumenterror"), Cause::InvalidRequest),
        (Text("dimension of"), Cause::DimensionMismatch),
    ],
    ..BLANK
};

static HITS: Hits = Hits {
    lists: |root| {
        let queries = array(root.get("ids")).map_or(0, |ids| ids.children().count());
        let columns = |query| COLUMNS.iter().filter_map(|name| array(root.get(name)?.at(query))).collect();
        (0..queries).map(columns).collect()
    },
    payload_columns: &["documents", "metadatas"],
    ..Hits::NONE
};

/// Each query has a list in each of them, and these lists run in parallel.
const COLUMNS: &[&str] = &["ids", "distances", "documents", "metadatas", "embeddings", "uris", "data"];

fn path(asked: &RequestLine<'_>) -> Claim {
    let Some(at) = asked.steps.iter().position(|step| *step == "collections") else { return Claim::No };
    let (before, within) = (&asked.steps[..at], &asked.steps[at + 1..]);
    if !before.contains(&"tenants") && before != ["api", "v1"] {
        return Claim::No;
    }
    Claim::For(match within {
        [_, "query" | "search"] => Operation::VectorSearch,
        [_, "get"] => Operation::VectorGet,
        [_, "add" | "upsert" | "update"] => Operation::VectorUpsert,
        [_, "delete"] => Operation::VectorDelete,
        [] | [_] => Operation::VectorAdmin,
        _ => return Claim::Other,
    })
}

/// The name decides about the status.
fn failure(cause: Cause, facts: &FailureContext<'_>) -> Option<Failure> {
    let (_, text) = told(cause, facts)?;
    let (name, status) = match cause {
        Cause::RateLimitRequests | Cause::RateLimitTokens => ("RateLimitError", 429),
        Cause::QuotaExhausted | Cause::StorageFull => ("QuotaError", 400),
        Cause::Auth => ("AuthorizationError", 401),
        Cause::Permission => ("AuthError", 403),
        Cause::InvalidRequest => ("InvalidArgumentError", 400),
        Cause::DimensionMismatch => ("InvalidDimension", 400),
        Cause::CollectionMissing => ("NotFoundError", 404),
        Cause::Conflict => ("UniqueConstraintError", 409),
        Cause::Timeout
        | Cause::ServerError
        | Cause::NotReady
        | Cause::Overloaded
        | Cause::Capacity
        | Cause::ShardUnavailable => ("InternalError", 500),
        _ => return None,
    };
    let failure = Failure::json(status, &json!({"error": name, "message": text}));
    Some(failure.with("chroma-trace-id", facts.hex(32)))
}
