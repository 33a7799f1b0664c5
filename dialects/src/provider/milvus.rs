//! Milvus and Zilliz over REST. The codes are those of the server's source.

use serde_json::json;

use super::{BLANK, Provider, store::told};
use crate::{
    Cause, Failure, FailureContext, Operation,
    dialect::{Claim, RequestLine},
    hits::{Hits, array},
    json::{Kind, Node},
    outcome::Sign::{Text, Word},
};

pub(super) static PROVIDER: Provider = Provider {
    hosts: &["*.zillizcloud.com", "*.cloud.zilliz.com"],
    path,
    failure: |_, cause, facts| failure(cause, facts),
    hits: Some(&HITS),
    // An error is a success with a code. 200 is the success of older servers.
    is_failure: |root| {
        let code = root.get("code").filter(|code| code.kind() == Kind::Number);
        code.is_some_and(|code| !matches!(code.raw(), b"0" | b"200"))
    },
    signs: &[
        (Word("1"), Cause::NotReady),
        (Word("2"), Cause::ShardUnavailable),
        (Word("3"), Cause::Capacity),
        (Word("4"), Cause::RateLimitRequests),
        (Word("5"), Cause::ServerError),
        (Word("7"), Cause::StorageFull),
        (Word("8"), Cause::RateLimitRequests),
        (Word("9"), Cause::QuotaExhausted),
        (Word("100"), Cause::CollectionMissing),
        (Word("101"), Cause::NotReady),
        (Word("103"), Cause::NotReady),
        (Word("106"), Cause::NotReady),
        (Word("700"), Cause::CollectionMissing),
        (Word("800"), Cause::CollectionMissing),
        (Text("dimension"), Cause::DimensionMismatch),
        (Word("1100"), Cause::InvalidRequest),
        (Word("1401"), Cause::Permission),
        (Word("1800"), Cause::Auth),
        (Word("1801"), Cause::InvalidRequest),
        (Word("1802"), Cause::InvalidRequest),
        (Word("1804"), Cause::InvalidRequest),
        (Word("1807"), Cause::RateLimitRequests),
        (Word("10001"), Cause::Timeout),
        (Text("already exist"), Cause::Conflict),
        (Word("65535"), Cause::ServerError),
    ],
    ..BLANK
};

static HITS: Hits = Hits {
    lists: |root| {
        let is_hit = |item: Node<'_>| ["score", "distance"].iter().any(|name| item.get(name).is_some());
        let list = array(root.get("data")).filter(|list| list.children().all(is_hit));
        list.map(|list| vec![list]).into_iter().collect()
    },
    scores: &[&["score"], &["distance"]],
    payloads: &["entity"],
    ..Hits::NONE
};

fn path(asked: &RequestLine<'_>) -> Claim {
    let Some(at) = asked.steps.iter().position(|step| *step == "vectordb") else { return Claim::No };
    Claim::For(match &asked.steps[at + 1..] {
        ["entities", "search" | "hybrid_search" | "advanced_search"] => Operation::VectorSearch,
        ["entities", "query"] => Operation::VectorScroll,
        ["entities", "get"] => Operation::VectorGet,
        ["entities", "insert" | "upsert"] => Operation::VectorUpsert,
        ["entities", "delete"] => Operation::VectorDelete,
        [_, ..] => Operation::VectorAdmin,
        [] => return Claim::Other,
    })
}

/// An error is a success that says no, but for a wrong key and a timeout.
fn failure(cause: Cause, facts: &FailureContext<'_>) -> Option<Failure> {
    let (status, text) = told(cause, facts)?;
    let status = if matches!(status, 401 | 408) { status } else { 200 };
    Some(Failure::json(status, &json!({"code": code(cause)?, "message": text})))
}

fn code(cause: Cause) -> Option<u16> {
    Some(match cause {
        Cause::Overloaded | Cause::Capacity | Cause::ShardUnavailable => 2,
        Cause::ServerError => 5,
        Cause::StorageFull => 7,
        Cause::RateLimitRequests | Cause::RateLimitTokens => 8,
        Cause::QuotaExhausted => 9,
        Cause::CollectionMissing => 100,
        Cause::NotReady => 103,
        Cause::InvalidRequest | Cause::DimensionMismatch => 1100,
        Cause::Permission => 1401,
        Cause::Auth => 1800,
        Cause::Timeout => 10_001,
        Cause::Conflict => 65_535,
        _ => return None,
    })
}
