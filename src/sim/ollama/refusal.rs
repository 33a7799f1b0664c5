//! Ollama's errors.
use aconite_dialects::conversation::{FieldError, Problem};
use http::StatusCode;
use serde_json::json;

use crate::sim::{call::Unreadable, reply::Reply};

/// An error: nothing but its text.
#[derive(Debug, PartialEq)]
pub(super) struct Refusal {
    status: StatusCode,
    message: String,
    /// The router's own answers are plain text.
    is_plain: bool,
}

impl Refusal {
    fn bad(message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, message: message.into(), is_plain: false }
    }

    pub(super) fn unknown_route() -> Self {
        Self { status: StatusCode::NOT_FOUND, is_plain: true, ..Self::bad("404 page not found") }
    }

    pub(super) fn wrong_method() -> Self {
        Self { status: StatusCode::METHOD_NOT_ALLOWED, is_plain: true, ..Self::bad("405 method not allowed") }
    }

    pub(super) fn unreadable(why: Unreadable) -> Self {
        match why {
            Unreadable::TooLarge => {
                Self { status: StatusCode::PAYLOAD_TOO_LARGE, ..Self::bad("http: request body too large") }
            }
            Unreadable::Broken => Self::bad("unexpected EOF"),
        }
    }

    pub(super) fn into_reply(self) -> Reply {
        if self.is_plain {
            return Reply::text(self.status, self.message);
        }
        Reply::json(self.status, &json!({"error": self.message}))
    }
}

impl From<FieldError> for Refusal {
    fn from(FieldError { path, problem }: FieldError) -> Self {
        Self::bad(match problem {
            Problem::Unreadable(_) => "invalid character in request body".to_owned(),
            Problem::Missing => format!("{} is required", path.dotted()),
            Problem::Type { got, .. } => {
                format!("json: cannot unmarshal {got} into Go struct field ChatRequest.{}", path.dotted())
            }
            other => format!("{}: {other}", path.dotted()),
        })
    }
}
