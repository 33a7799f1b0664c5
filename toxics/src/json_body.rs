//! A request's body, read as JSON when somebody asks.
use std::sync::OnceLock;

use aconite_dialects::json::{Document, ReadError};
use bytes::Bytes;
use serde_json::Value;

/// A request's body, decoded. It is read as JSON at most once, however many conditions on it there are, and not at all
/// if there is none.
#[derive(Debug, Default)]
pub struct JsonBody {
    bytes: Bytes,
    value: OnceLock<Result<Value, &'static str>>,
}

impl JsonBody {
    /// A body that nobody has read yet.
    pub fn new(bytes: Bytes) -> Self {
        Self { bytes, value: OnceLock::new() }
    }

    /// What it says.
    ///
    /// # Errors
    /// Why it was not read: it is not JSON, or too complex.
    pub fn value(&self) -> Result<&Value, &'static str> {
        let read = || match Document::parse(&self.bytes) {
            Ok(document) => Ok(document.root().to_value()),
            Err(ReadError::NotJson(_)) => Err("request_not_json"),
            Err(ReadError::TooComplex) => Err("request_too_complex"),
        };
        self.value.get_or_init(read).as_ref().map_err(|reason| *reason)
    }

    /// Whether it has been read as JSON.
    #[cfg(test)]
    pub(crate) fn is_read(&self) -> bool {
        self.value.get().is_some()
    }
}
