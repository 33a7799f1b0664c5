//! Answers that are the proxy's own, and say so.
use http::{HeaderValue, Response, StatusCode, header};

use super::{body::Body, headers};

/// What went wrong on the proxy's side, or with the request.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    status: StatusCode,
    code: &'static str,
    message: String,
    /// Whether the connection cannot go on.
    close: bool,
}

impl Trouble {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), close: false }
    }

    /// The same, after which the connection closes.
    pub(crate) fn closing(self) -> Self {
        Self { close: true, ..self }
    }
}

/// An answer that nobody takes for the provider's: `x-aconite-error` and a JSON body name the proxy.
pub(crate) fn refusal(trouble: &Trouble) -> Response<Body> {
    let body = serde_json::json!({
        "error": {
            "source": "aconite",
            "type": "proxy_error",
            "code": trouble.code,
            "message": format!("aconite: {}", trouble.message),
        }
    });
    let bytes = bytes::Bytes::from(body.to_string());
    let mut response = Response::new(Body::Empty);
    *response.status_mut() = trouble.status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CONTENT_LENGTH, bytes.len().into());
    headers.insert(headers::ERROR, HeaderValue::from_static(trouble.code));
    if trouble.close {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    *response.body_mut() = Body::Full(bytes);
    response
}
