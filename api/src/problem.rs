//! Errors under `/v1`.
use aconite_toxics::SpecError;
use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ControlError,
    v1::read::{did_you_mean, nearest},
};

/// Why a request was refused.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Problem {
    /// The status that says so.
    #[serde(skip)]
    pub status: StatusCode,
    /// The kind of error, for programs: `not_found`, `exists`, `invalid`, `unknown_type`, `listen`, `forbidden`, …
    pub code: String,
    /// What is wrong, for people.
    pub message: String,
    /// The field at fault, from the body's root down: `proxies[0].toxics[1].attributes.latency`.
    pub path: Option<String>,
    /// What to do.
    pub hint: Option<String>,
}

/// An error's body.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Error")]
pub(crate) struct ErrorBody {
    /// Why the request was refused.
    pub(crate) error: Problem,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self { status, code: code.to_owned(), message: message.into(), path: None, hint: None }
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(crate) fn invalid(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: Some(path.into()).filter(|path| !path.is_empty()),
            ..Self::new(StatusCode::BAD_REQUEST, "invalid", message)
        }
    }

    #[must_use]
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl From<ControlError> for Problem {
    fn from(error: ControlError) -> Self {
        let message = error.to_string();
        match error {
            ControlError::NoProxy { nearest, .. } | ControlError::NoToxic { nearest, .. } => {
                Self { hint: nearest.as_deref().map(did_you_mean), ..Self::not_found(message) }
            }
            ControlError::NotFound(_) => Self::not_found(message),
            ControlError::ProxyExists(_) | ControlError::ToxicExists(_) => {
                Self { path: Some("name".to_owned()), ..Self::new(StatusCode::CONFLICT, "exists", message) }
            }
            ControlError::Spec(error) => error.into(),
            ControlError::Listen { path, reason } => {
                Self { path: Some(path), ..Self::new(StatusCode::CONFLICT, "listen", reason) }
                    .hint("choose another address; port 0 picks a free port")
            }
            ControlError::Forbidden(_) => Self::new(StatusCode::FORBIDDEN, "forbidden", message),
        }
    }
}

impl From<SpecError> for Problem {
    fn from(error: SpecError) -> Self {
        let is_unknown_type = error.is_unknown_type();
        let SpecError { path, message, hint, .. } = error;
        let hint = hint.or_else(|| nearest(&message));
        let problem = Self { hint, ..Self::invalid(path, message) };
        if is_unknown_type { Self { code: "unknown_type".to_owned(), ..problem } } else { problem }
    }
}

impl From<Problem> for SpecError {
    fn from(Problem { path, message, hint, .. }: Problem) -> Self {
        let error = Self::new(path.unwrap_or_default(), message);
        match hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, Json(ErrorBody { error: self })).into_response()
    }
}
