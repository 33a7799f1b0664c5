//! Answers that are the proxy's own, and say so.
use bytes::Bytes;
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

/// An answer of the proxy's own as it is sent over HTTP/1 where no hyper is there to do it.
pub(crate) fn wire(answer: &Response<Body>) -> Bytes {
    let mut text = format!("HTTP/1.1 {}\r\n", answer.status()).into_bytes();
    for (name, value) in answer.headers() {
        text.extend_from_slice(name.as_str().as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value.as_bytes());
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"\r\n");
    if let Body::Full(bytes) = answer.body() {
        text.extend_from_slice(bytes);
    }
    text.into()
}

/// What a client gets whose request's head takes too long (RFC 9110, section 15.5.9).
pub(crate) fn too_slow() -> Response<Body> {
    let text = "the request's head took too long";
    refusal(&Trouble::new(StatusCode::REQUEST_TIMEOUT, "head_timeout", text).closing())
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
    let bytes = Bytes::from(body.to_string());
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
