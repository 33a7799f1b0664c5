//! What handlers take from a request, and how each surface refuses it.
use std::time::Duration;

use axum::{
    extract::{FromRequest, FromRequestParts, Path, Request},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http::{StatusCode, request::Parts};
use serde::de::DeserializeOwned;

use crate::{Problem, toxiproxy::ErrorResponse};

/// The largest body that is read.
pub(crate) const MAX_BODY: usize = 4 * 1024 * 1024;

/// How long a body may take.
const BODY_TIME: Duration = Duration::from_secs(15);

/// A refusal in the shape of the surface that the path belongs to.
pub(crate) fn refusal(path: &str, problem: Problem) -> Response {
    if is_v1(path) {
        problem.into_response()
    } else {
        ErrorResponse::new(problem.status, problem.message).into_response()
    }
}

/// Whether a path belongs to `/v1`.
pub(crate) fn is_v1(path: &str) -> bool {
    path.strip_prefix("/v1").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A request's body, whatever its content type says: Toxiproxy's clients send all kinds.
pub(crate) struct Body(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let path = request.uri().path().to_owned();
        let refuse = |status, code, message: String| refusal(&path, Problem::new(status, code, message));
        match tokio::time::timeout(BODY_TIME, Bytes::from_request(request, state)).await {
            Ok(Ok(bytes)) => Ok(Self(bytes)),
            Ok(Err(rejection)) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => Err(refuse(
                rejection.status(),
                "too_large",
                format!("the body is larger than {MAX_BODY} bytes"),
            )),
            Ok(Err(rejection)) => {
                Err(refuse(rejection.status(), "bad_body", "the body broke off".to_owned()))
            }
            Err(_) => Err(refuse(
                StatusCode::REQUEST_TIMEOUT,
                "slow_body",
                format!("the body took longer than {} s", BODY_TIME.as_secs()),
            )),
        }
    }
}

/// The names in a path, percent-decoded. What cannot be decoded names nothing.
pub(crate) struct Named<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Named<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(names)) => Ok(Self(names)),
            Err(_) => Err(refusal(parts.uri.path(), Problem::not_found("nothing has this name"))),
        }
    }
}
