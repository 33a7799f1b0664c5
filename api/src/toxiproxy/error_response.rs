//! Errors in Toxiproxy's shape, with Toxiproxy's texts.
use std::fmt;

use aconite_toxics::SpecError;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Serialize;

use super::view;
use crate::ControlError;

const BAD_BODY: &str = "bad request body: ";

/// An error as Toxiproxy words it. Unlike Toxiproxy it is sent as JSON.
#[derive(Debug)]
pub(crate) struct ErrorResponse {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

/// An error on the wire.
#[derive(Serialize)]
pub(super) struct Wire<'a> {
    pub(super) error: &'a str,
    pub(super) status: u16,
}

impl ErrorResponse {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(super) fn bad_body(detail: impl fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, format!("{BAD_BODY}{detail}"))
    }

    /// What comes back through [`Control`](crate::Control) as this failure again.
    pub(super) fn into_control_error(self) -> ControlError {
        ControlError::invalid("", self.message.strip_prefix(BAD_BODY).unwrap_or(&self.message))
    }

    pub(super) fn no_toxic() -> Self {
        Self::new(StatusCode::NOT_FOUND, "toxic not found")
    }

    pub(super) fn toxic_exists() -> Self {
        Self::new(StatusCode::CONFLICT, "toxic already exists")
    }

    pub(super) fn wire(&self) -> Wire<'_> {
        Wire { error: &self.message, status: self.status.as_u16() }
    }
}

impl From<ControlError> for ErrorResponse {
    fn from(error: ControlError) -> Self {
        match error {
            ControlError::NoProxy { .. } => Self::new(StatusCode::NOT_FOUND, "proxy not found"),
            ControlError::NoToxic { .. } => Self::no_toxic(),
            ControlError::NotFound(_) => Self::new(StatusCode::NOT_FOUND, error.to_string()),
            ControlError::ProxyExists(_) => Self::new(StatusCode::CONFLICT, "proxy already exists"),
            ControlError::ToxicExists(_) => Self::toxic_exists(),
            ControlError::Spec(error) => error.into(),
            ControlError::Listen { reason, .. } => Self::new(StatusCode::INTERNAL_SERVER_ERROR, reason),
            ControlError::Forbidden(text) => Self::new(StatusCode::FORBIDDEN, text),
        }
    }
}

impl From<SpecError> for ErrorResponse {
    fn from(error: SpecError) -> Self {
        match &error {
            _ if error.is_unknown_type() => Self::new(StatusCode::BAD_REQUEST, "invalid toxic type"),
            SpecError { path, message, .. } if path.is_empty() => Self::bad_body(message),
            SpecError { path, message, .. } => Self::bad_body(format_args!("{path}: {message}")),
        }
    }
}

impl IntoResponse for ErrorResponse {
    fn into_response(self) -> Response {
        let mut body = view::to_json(&self.wire());
        body.push('\n');
        view::json(self.status, body)
    }
}
