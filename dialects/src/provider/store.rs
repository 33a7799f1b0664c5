//! What most vector stores say alike. The texts are general knowledge.

use crate::{Cause, FailureContext};

/// A status and a text for a cause. None for what only models know, for what is not a failure, and for what a gateway says.
pub(super) fn told(cause: Cause, facts: &FailureContext<'_>) -> Option<(u16, String)> {
    let (status, text) = match cause {
        Cause::RateLimitRequests | Cause::RateLimitTokens => (429, "Rate limit exceeded"),
        Cause::QuotaExhausted => (429, "Quota exceeded"),
        Cause::Auth => (401, "Unauthorized"),
        Cause::Permission => (403, "Forbidden"),
        Cause::InvalidRequest => (400, "Invalid argument"),
        Cause::DimensionMismatch => (400, "Collection expecting embedding with dimension of 384, got 3"),
        Cause::CollectionMissing => {
            let collection = facts.collection_or("documents");
            return Some((404, format!("Collection [{collection}] does not exist")));
        }
        Cause::Conflict => (409, "Already exists"),
        Cause::Timeout => (408, "request timeout"),
        Cause::ServerError => (500, "Internal server error"),
        Cause::StorageFull => (429, "Disk usage exceeded flood-stage watermark"),
        Cause::NotReady => (503, "Collection is not fully loaded"),
        Cause::Overloaded | Cause::Capacity | Cause::ShardUnavailable => (503, "Service unavailable"),
        _ => return None,
    };
    Some((status, text.to_owned()))
}
