//! Anthropic's errors.
use aconite_dialects::conversation::{FieldError, Kind, Problem};
use http::{Method, StatusCode, header::ALLOW};
use serde_json::json;

use crate::sim::{call::Unreadable, reply::Reply};

/// An error in Anthropic's envelope.
#[derive(Debug, PartialEq)]
pub(super) struct Refusal {
    status: StatusCode,
    kind: &'static str,
    message: String,
    allow: Option<Method>,
}

impl Refusal {
    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", message)
    }

    pub(super) fn no_key() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "authentication_error", "x-api-key header is required")
    }

    pub(super) fn unknown_route() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found_error", "Not Found")
    }

    pub(super) fn wrong_method(allowed: &Method) -> Self {
        let refusal =
            Self::new(StatusCode::METHOD_NOT_ALLOWED, "invalid_request_error", "Method Not Allowed");
        Self { allow: Some(allowed.clone()), ..refusal }
    }

    pub(super) fn unreadable(why: Unreadable) -> Self {
        match why {
            Unreadable::TooLarge => Self::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "request_too_large",
                "Request exceeds the maximum size",
            ),
            Unreadable::Broken => Self::bad("The request body could not be read"),
        }
    }

    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into(), allow: None }
    }

    pub(super) fn into_reply(self, request_id: &str) -> Reply {
        let Self { status, kind, message, allow } = self;
        let body =
            json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id});
        let reply = Reply::json(status, &body);
        match allow {
            Some(method) => reply.with(ALLOW, method),
            None => reply,
        }
    }
}

impl From<FieldError> for Refusal {
    fn from(FieldError { path, problem }: FieldError) -> Self {
        let said = match problem {
            Problem::Unreadable(error) => format!("The request body is not valid JSON: {error}"),
            Problem::Missing => "Field required".to_owned(),
            Problem::Type { expected, .. } => format!("Input should be {}", noun(expected)),
            Problem::TooSmall { least, .. } => format!("Input should be greater than or equal to {least}"),
            Problem::TooLarge { most, .. } => format!("Input should be less than or equal to {most}"),
            Problem::Empty => "at least one message is required".to_owned(),
            Problem::NotOneOf { possible, .. } => {
                let possible: Vec<_> = possible.iter().map(|value| format!("'{value}'")).collect();
                format!("Input should be {}", possible.join(" or "))
            }
            Problem::NoSuchTool(name) => format!("Tool '{name}' not found in provided tools"),
        };
        if path.is_root() { Self::bad(said) } else { Self::bad(format!("{}: {said}", path.dotted())) }
    }
}

fn noun(kind: Kind) -> &'static str {
    match kind {
        Kind::Array => "a valid array",
        Kind::Boolean => "a valid boolean",
        Kind::Integer => "a valid integer",
        Kind::Null => "null",
        Kind::Number => "a valid number",
        Kind::Object => "a valid dictionary",
        Kind::String => "a valid string",
    }
}
