//! Gemini's errors.
use aconite_dialects::conversation::{FieldError, Problem};
use http::StatusCode;
use serde_json::json;

use crate::sim::{call::Unreadable, reply::Reply};

/// An error in Google's envelope.
#[derive(Debug, PartialEq)]
pub(super) struct Refusal {
    status: StatusCode,
    name: &'static str,
    message: String,
}

impl Refusal {
    fn bad(message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, name: "INVALID_ARGUMENT", message: message.into() }
    }

    pub(super) fn no_key() -> Self {
        let message = "Method doesn't allow unregistered callers (callers without established identity). Please use \
                       API Key or other form of API consumer identity to call this API.";
        Self { status: StatusCode::FORBIDDEN, name: "PERMISSION_DENIED", ..Self::bad(message) }
    }

    pub(super) fn unknown_route() -> Self {
        let message = "Requested entity was not found.";
        Self { status: StatusCode::NOT_FOUND, name: "NOT_FOUND", ..Self::bad(message) }
    }

    pub(super) fn unreadable(why: Unreadable) -> Self {
        match why {
            Unreadable::TooLarge => Self {
                status: StatusCode::PAYLOAD_TOO_LARGE,
                ..Self::bad("Request payload size exceeds the limit: 33554432 bytes.")
            },
            Unreadable::Broken => Self::bad("The request body could not be read."),
        }
    }

    pub(super) fn into_reply(self) -> Reply {
        let Self { status, name, message } = self;
        let error = json!({"error": {"code": status.as_u16(), "message": message, "status": name}});
        Reply::pretty(status, &error)
    }
}

impl From<FieldError> for Refusal {
    fn from(FieldError { path, problem }: FieldError) -> Self {
        let path = path.to_string();
        Self::bad(match problem {
            Problem::Unreadable(_) => "Invalid JSON payload received. Unexpected token.".to_owned(),
            Problem::Missing | Problem::Empty => {
                format!("* GenerateContentRequest.{path}: {path} is not specified\n")
            }
            Problem::Type { .. } if path.is_empty() => {
                "Invalid JSON payload received. Unknown name \"\": Root element must be a message.".to_owned()
            }
            Problem::Type { expected, .. } => format!("Invalid value at '{path}', expected {expected}"),
            Problem::TooSmall { least, got, .. } => {
                format!("* GenerateContentRequest.{path}: must be at least {least}, got {got}\n")
            }
            Problem::TooLarge { most, got, .. } => {
                format!("* GenerateContentRequest.{path}: must be at most {most}, got {got}\n")
            }
            Problem::NotOneOf { possible, .. } => {
                format!("Please use a valid role: {}.", possible.join(", "))
            }
            Problem::NoSuchTool(name) => {
                format!("* GenerateContentRequest.tool_config: function `{name}` is not declared\n")
            }
        })
    }
}
