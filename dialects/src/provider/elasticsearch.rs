//! Elasticsearch and OpenSearch.

use serde_json::json;

use super::{BLANK, Provider, store::told};
use crate::{
    Cause, Failure, FailureContext, Operation,
    dialect::{Claim, RequestLine},
    hits::{Hits, array},
    json::Node,
    outcome::Sign::{Text, Word},
};

pub(super) static PROVIDER: Provider = Provider {
    hosts: &["*.elastic-cloud.com", "*.elastic.cloud", "*.es.amazonaws.com", "*.aoss.amazonaws.com"],
    path,
    failure: |_, cause, facts| failure(cause, facts),
    hits: Some(&HITS),
    signs: &[
        (Word("es_rejected_execution_exception"), Cause::RateLimitRequests),
        // Memory is short for the moment; a retry helps.
        (Word("circuit_breaking_exception"), Cause::RateLimitRequests),
        (Text("disk usage exceeded"), Cause::StorageFull),
        (Word("index_not_found_exception"), Cause::CollectionMissing),
        (Word("version_conflict_engine_exception"), Cause::Conflict),
        (Text("different dimension"), Cause::DimensionMismatch),
        (Text("invalid dimension"), Cause::DimensionMismatch),
        (Word("timeout_exception"), Cause::Timeout),
        (Word("cluster_block_exception"), Cause::ShardUnavailable),
        (Word("master_not_discovered_exception"), Cause::ShardUnavailable),
        (Word("no_shard_available_action_exception"), Cause::NotReady),
    ],
    is_partial: |root| {
        let is_true = |name: &str| root.get(name).is_some_and(|flag| flag.raw() == b"true");
        let failed = root.get("_shards").and_then(|shards| shards.get("failed"));
        // `_bulk` has a status for each item.
        is_true("timed_out") || is_true("errors") || failed.is_some_and(|failed| failed.raw() != b"0")
    },
    ..BLANK
};

static HITS: Hits = Hits {
    lists: |root| {
        searches(root).filter_map(|search| Some(vec![array(search.get("hits")?.get("hits"))?])).collect()
    },
    scores: &[&["_score"]],
    payloads: &["_source", "fields"],
    totals: |root| {
        let mut totals = Vec::new();
        for hits in searches(root).filter_map(|search| search.get("hits")) {
            totals.extend(hits.get("total").and_then(|total| total.get("value")).map(|total| (total, "0")));
            totals.extend(hits.get("max_score").map(|max_score| (max_score, "null")));
        }
        totals
    },
    ..Hits::NONE
};

/// The response itself, or of `_msearch` those of its searches.
fn searches(root: Node<'_>) -> impl Iterator<Item = Node<'_>> {
    let several = array(root.get("responses"));
    let one = several.is_none().then_some(root);
    several.into_iter().flat_map(Node::children).chain(one)
}

fn path(asked: &RequestLine<'_>) -> Claim {
    Claim::For(match asked.steps {
        [.., "_search" | "_knn_search" | "_msearch"] => Operation::VectorSearch,
        [.., "_bulk"] => Operation::VectorUpsert,
        [.., "_doc" | "_create" | "_update"] | [.., "_doc" | "_create" | "_update", _] => {
            match asked.method {
                "GET" | "HEAD" => Operation::VectorGet,
                "DELETE" => Operation::VectorDelete,
                _ => Operation::VectorUpsert,
            }
        }
        [.., "_delete_by_query"] => Operation::VectorDelete,
        _ => return Claim::No,
    })
}

fn failure(cause: Cause, facts: &FailureContext<'_>) -> Option<Failure> {
    let (status, reason) = told(cause, facts)?;
    let kind = match cause {
        Cause::RateLimitRequests | Cause::RateLimitTokens => "es_rejected_execution_exception",
        Cause::Auth | Cause::Permission => "security_exception",
        Cause::InvalidRequest | Cause::DimensionMismatch => "illegal_argument_exception",
        Cause::CollectionMissing => "index_not_found_exception",
        Cause::Conflict => "version_conflict_engine_exception",
        Cause::Timeout => "timeout_exception",
        Cause::ServerError => "exception",
        Cause::StorageFull | Cause::Overloaded | Cause::Capacity | Cause::ShardUnavailable => {
            "cluster_block_exception"
        }
        Cause::NotReady => "no_shard_available_action_exception",
        _ => return None,
    };
    let cause = json!({"type": kind, "reason": reason});
    let body = json!({"error": {"root_cause": [cause], "type": kind, "reason": reason}, "status": status});
    // Its own client refuses a server that does not name itself.
    Some(Failure::json(status, &body).with("x-elastic-product", "Elasticsearch"))
}
