//! Weaviate over REST and GraphQL. In its envelope `error` is a list.

use serde_json::json;

use super::{BLANK, Provider, store::told};
use crate::{
    Cause, Failure, Operation,
    content::filled,
    dialect::{Claim, RequestLine},
    hits::{Hits, array},
    json::Node,
    outcome::Sign::Text,
};

pub(super) static PROVIDER: Provider = Provider {
    hosts: &["*.weaviate.cloud", "*.weaviate.network"],
    path,
    failure: |_, cause, facts| {
        let (status, text) = told(cause, facts)?;
        Some(Failure::json(status, &json!({"error": [{"message": text}]})))
    },
    hits: Some(&HITS),
    // GraphQL answers 200 with `errors`.
    is_failure: |root| filled(root.get("errors")),
    signs: &[(Text("dimension"), Cause::DimensionMismatch)],
    ..BLANK
};

static HITS: Hits = Hits {
    lists: |root| {
        let classes = root.get("data").and_then(|data| data.get("Get"));
        let classes = classes.into_iter().flat_map(Node::children);
        classes.filter_map(|class| Some(vec![array(Some(class))?])).collect()
    },
    scores: &[&["score"], &["distance"], &["_additional", "distance"]],
    payloads: &[],
    ..Hits::NONE
};

fn path(asked: &RequestLine<'_>) -> Claim {
    Claim::For(match (asked.method, asked.steps) {
        (_, [.., "v1", "graphql"]) => Operation::VectorSearch,
        ("POST", [.., "v1", "batch", "objects"] | [.., "v1", "objects"]) => Operation::VectorUpsert,
        ("DELETE", [.., "v1", "batch", "objects"] | [.., "v1", "objects", _, _]) => Operation::VectorDelete,
        (_, [.., "v1", "schema"] | [.., "v1", "schema", _]) => Operation::VectorAdmin,
        _ => return Claim::No,
    })
}
