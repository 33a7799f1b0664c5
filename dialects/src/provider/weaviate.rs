//! Weaviate over REST and GraphQL. In its envelope `error` is a list.

use serde_json::json;

use super::{BLANK, Provider, store::told};
use crate::{
    Failure, Operation,
    dialect::{Asked, Claim},
};

pub(super) static PROVIDER: Provider = Provider {
    hosts: &["*.weaviate.cloud", "*.weaviate.network"],
    path,
    failure: |_, cause, facts| {
        let (status, text) = told(cause, facts)?;
        Some(Failure::json(status, &json!({"error": [{"message": text}]})))
    },
    ..BLANK
};

fn path(asked: &Asked<'_>) -> Claim {
    Claim::For(match (asked.method, asked.steps) {
        (_, [.., "v1", "graphql"]) => Operation::VectorSearch,
        ("POST", [.., "v1", "batch", "objects"] | [.., "v1", "objects"]) => Operation::VectorUpsert,
        ("DELETE", [.., "v1", "batch", "objects"] | [.., "v1", "objects", _, _]) => Operation::VectorDelete,
        (_, [.., "v1", "schema"] | [.., "v1", "schema", _]) => Operation::VectorAdmin,
        _ => return Claim::No,
    })
}
