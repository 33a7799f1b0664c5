//! A request that has been read to its end.
use bytes::Bytes;
use http::{HeaderMap, Method, request::Parts};

use super::digest::Digest;

/// Why a request's body could not be had.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Unreadable {
    /// It is larger than [`MAX_REQUEST_BYTES`](super::MAX_REQUEST_BYTES).
    TooLarge,
    /// It ended with an error.
    Broken,
}

pub(super) struct Call {
    pub(super) method: Method,
    /// Still percent-encoded, without the query.
    pub(super) path: String,
    pub(super) query: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Call {
    pub(super) fn new(head: Parts, body: Bytes) -> Self {
        Self {
            method: head.method,
            path: head.uri.path().to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            headers: head.headers,
            body,
        }
    }

    /// What the ids in the answer derive from: the same request gives the same ids.
    pub(super) fn digest(&self) -> Digest {
        Digest::of(self.path.as_bytes()).and(&self.body)
    }

    /// The path's parts between slashes; a slash at the end adds none.
    pub(super) fn segments(&self) -> Vec<&str> {
        let path = self.path.strip_prefix('/').unwrap_or(&self.path);
        let path = path.strip_suffix('/').unwrap_or(path);
        path.split('/').collect()
    }

    pub(super) fn has_header(&self, name: &str) -> bool {
        self.headers.get(name).is_some_and(|value| !value.is_empty())
    }
}
