//! OpenAI's errors.
use aconite_dialects::conversation::{FieldError, Kind, Problem};
use http::{Method, StatusCode, header::ALLOW};
use serde_json::json;

use crate::sim::{
    call::{Call, Unreadable},
    reply::Reply,
};

/// An error in OpenAI's envelope; all four members are always there.
#[derive(Debug, PartialEq)]
pub(super) struct Refusal {
    status: StatusCode,
    message: String,
    param: Option<String>,
    code: Option<&'static str>,
    allow: Option<Method>,
}

impl Refusal {
    pub(super) fn bad(message: impl Into<String>, param: Option<&str>, code: Option<&'static str>) -> Self {
        let param = param.map(str::to_owned);
        Self { status: StatusCode::BAD_REQUEST, message: message.into(), param, code, allow: None }
    }

    pub(super) fn not_json() -> Self {
        Self::bad(
            "We could not parse the JSON body of your request. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.",
            None,
            None,
        )
    }

    pub(super) fn no_key() -> Self {
        let message = "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).";
        Self { status: StatusCode::UNAUTHORIZED, ..Self::bad(message, None, None) }
    }

    pub(super) fn unknown_route(call: &Call) -> Self {
        let message = format!("Invalid URL ({} {})", call.method, call.path);
        Self { status: StatusCode::NOT_FOUND, ..Self::bad(message, None, None) }
    }

    pub(super) fn wrong_method(call: &Call, allowed: &Method) -> Self {
        let message = format!(
            "Not allowed to {} on {} (HINT: Perhaps you meant to use a different HTTP method?)",
            call.method, call.path
        );
        Self {
            status: StatusCode::METHOD_NOT_ALLOWED,
            allow: Some(allowed.clone()),
            ..Self::bad(message, None, Some("method_not_supported"))
        }
    }

    pub(super) fn unreadable(why: Unreadable) -> Self {
        match why {
            Unreadable::TooLarge => Self {
                status: StatusCode::PAYLOAD_TOO_LARGE,
                ..Self::bad("The request body is too large.", None, None)
            },
            Unreadable::Broken => Self::bad("The request body could not be read.", None, None),
        }
    }

    pub(super) fn into_reply(self) -> Reply {
        let Self { status, message, param, code, allow } = self;
        let error = json!({
            "error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}
        });
        let reply = Reply::json(status, &error);
        match allow {
            Some(method) => reply.with(ALLOW, method),
            None => reply,
        }
    }
}

impl From<FieldError> for Refusal {
    fn from(FieldError { path, problem }: FieldError) -> Self {
        if path.is_root() {
            return Self::not_json();
        }
        let path = path.to_string();
        let (message, code) = match problem {
            Problem::Unreadable(_) => return Self::not_json(),
            Problem::Missing if path == "model" => {
                return Self::bad("you must provide a model parameter", None, None);
            }
            Problem::Missing => {
                (format!("Missing required parameter: '{path}'."), "missing_required_parameter")
            }
            Problem::Type { expected, got } => {
                let (expected, got) = (noun(expected), noun(got));
                (
                    format!("Invalid type for '{path}': expected {expected}, but got {got} instead."),
                    "invalid_type",
                )
            }
            Problem::TooSmall { kind, least, got } => {
                out_of_range(&path, kind, "below minimum", ">=", least, got)
            }
            Problem::TooLarge { kind, most, got } => {
                out_of_range(&path, kind, "above maximum", "<=", most, got)
            }
            Problem::Empty => (
                format!(
                    "Invalid '{path}': empty array. Expected an array with minimum length 1, but got an empty array instead."
                ),
                "empty_array",
            ),
            Problem::NotOneOf { possible, got } => {
                let possible: Vec<_> = possible.iter().map(|value| format!("'{value}'")).collect();
                let possible = possible.join(", ");
                (format!("Invalid value: '{got}'. Supported values are: {possible}."), "invalid_value")
            }
            Problem::NoSuchTool(name) => {
                return Self::bad(
                    format!("Tool choice '{name}' not found in 'tools' parameter."),
                    Some("tool_choice"),
                    None,
                );
            }
        };
        Self::bad(message, Some(&path), Some(code))
    }
}

fn out_of_range(
    path: &str,
    kind: Kind,
    how: &str,
    sign: &str,
    bound: u64,
    got: f64,
) -> (String, &'static str) {
    let (number, code) = match (kind, sign) {
        (Kind::Integer, ">=") => ("integer", "integer_below_min_value"),
        (Kind::Integer, _) => ("integer", "integer_above_max_value"),
        (_, ">=") => ("decimal", "decimal_below_min_value"),
        (_, _) => ("decimal", "decimal_above_max_value"),
    };
    let message = format!(
        "Invalid '{path}': {number} {how} value. Expected a value {sign} {bound}, but got {got} instead."
    );
    (message, code)
}

fn noun(kind: Kind) -> &'static str {
    match kind {
        Kind::Array => "an array",
        Kind::Boolean => "a boolean",
        Kind::Integer => "an integer",
        Kind::Null => "null",
        Kind::Number => "a decimal",
        Kind::Object => "an object",
        Kind::String => "a string",
    }
}
