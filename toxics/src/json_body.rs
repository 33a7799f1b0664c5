//! A request's body, read as JSON when somebody asks.
use std::sync::OnceLock;

use aconite_dialects::json::Document;
use bytes::Bytes;
use serde_json::Value;

/// A request's body, decoded. It is read as JSON at most once, however many conditions on it there are, and not at all
/// if there is none.
#[derive(Debug, Default)]
pub struct JsonBody {
    bytes: Bytes,
    value: OnceLock<Option<Value>>,
}

impl JsonBody {
    /// A body that nobody has read yet.
    pub fn new(bytes: Bytes) -> Self {
        Self { bytes, value: OnceLock::new() }
    }

    /// What it says; `None` if it is no JSON, or nested more than 256 deep.
    pub fn value(&self) -> Option<&Value> {
        let read = || Document::parse(&self.bytes).ok().map(|document| document.root().to_value());
        self.value.get_or_init(read).as_ref()
    }

    /// Whether it has been read as JSON.
    #[cfg(test)]
    pub(crate) fn is_read(&self) -> bool {
        self.value.get().is_some()
    }
}
