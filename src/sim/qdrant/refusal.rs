//! Qdrant's errors.
use http::StatusCode;
use serde_json::json;

use crate::sim::{call::Unreadable, reply::Reply};

/// An error in Qdrant's envelope; without a text, the empty 404 of a route that does not exist.
#[derive(Debug, PartialEq)]
pub(super) struct Refusal {
    status: StatusCode,
    text: Option<String>,
}

impl Refusal {
    pub(super) fn with_text(status: StatusCode, text: String) -> Self {
        Self { status, text: Some(text) }
    }

    /// The request makes no sense for what is stored.
    pub(super) fn wrong_input(text: impl AsRef<str>) -> Self {
        Self::with_text(StatusCode::BAD_REQUEST, format!("Wrong input: {}", text.as_ref()))
    }

    pub(super) fn bad(text: impl AsRef<str>) -> Self {
        Self::with_text(StatusCode::BAD_REQUEST, format!("Bad request: {}", text.as_ref()))
    }

    /// Qdrant can do this; the simulated one cannot.
    pub(super) fn unsupported(what: &str) -> Self {
        Self::bad(format!("{what} not supported by the simulated Qdrant"))
    }

    /// A field is outside its range.
    pub(super) fn invalid(field: &str, problem: impl AsRef<str>) -> Self {
        let text = format!("Validation error in JSON body: [{field}: {}]", problem.as_ref());
        Self::with_text(StatusCode::UNPROCESSABLE_ENTITY, text)
    }

    pub(super) fn not_found(text: impl AsRef<str>) -> Self {
        Self::with_text(StatusCode::NOT_FOUND, format!("Not found: {}", text.as_ref()))
    }

    pub(super) fn exists(name: &str) -> Self {
        Self::with_text(StatusCode::CONFLICT, format!("Wrong input: Collection `{name}` already exists!"))
    }

    pub(super) fn full() -> Self {
        let text = "Insufficient storage: the simulated Qdrant holds no more than 256 MiB";
        Self::with_text(StatusCode::INSUFFICIENT_STORAGE, text.to_owned())
    }

    pub(super) fn unknown_route() -> Self {
        Self { status: StatusCode::NOT_FOUND, text: None }
    }

    pub(super) fn unreadable(why: Unreadable) -> Self {
        match why {
            Unreadable::TooLarge => Self::with_text(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!(
                    "JSON payload is larger than allowed (limit: {} bytes).",
                    super::super::MAX_REQUEST_BYTES
                ),
            ),
            Unreadable::Broken => Self::bad("the request body could not be read"),
        }
    }

    pub(super) fn into_reply(self) -> Reply {
        match self.text {
            Some(text) => Reply::json(self.status, &json!({"status": {"error": text}, "time": 0.0})),
            None => Reply::empty(self.status),
        }
    }
}
