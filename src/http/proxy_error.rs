//! Answers that are the proxy's own, and say so.
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

use super::{body::Body, message::headers};
use crate::dial::DialError;

/// What went wrong on the proxy's side, or with the request.
#[derive(Clone, Debug)]
pub(crate) struct ProxyError {
    status: StatusCode,
    code: &'static str,
    message: String,
    /// Whether the connection cannot go on.
    close: bool,
}

impl ProxyError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), close: false }
    }

    /// The status of the answer.
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// A word for it.
    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    /// The same, after which the connection closes.
    pub(crate) fn closing(self) -> Self {
        Self { close: true, ..self }
    }
}

impl From<DialError> for ProxyError {
    fn from(error: DialError) -> Self {
        Self::new(error.status(), error.code(), error.to_string())
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
    refusal(&ProxyError::new(StatusCode::REQUEST_TIMEOUT, "head_timeout", text).closing())
}

/// What a client gets whose request is framed both by its length and in chunks: two readers of it need not agree on where
/// it ends, which is how requests are smuggled (RFC 9112, section 11.2).
pub(crate) fn framed_twice() -> ProxyError {
    let text = "the request has both `content-length` and `transfer-encoding`, so where it ends is in doubt";
    ProxyError::new(StatusCode::BAD_REQUEST, "bad_framing", text).closing()
}

/// What a client gets whose request's head is beyond the limits.
pub(crate) fn too_large() -> ProxyError {
    ProxyError::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large", TOO_LARGE).closing()
}

const TOO_LARGE: &str = "the request's header section is larger than 256 KiB or has more than 2,000 fields";

/// What is sent in place of an answer that hyper gives by itself to a head that it cannot read: the same status, and who
/// says so. `None` if `answer` is another one.
pub(crate) fn instead_of(answer: &[u8]) -> Option<Bytes> {
    let status = answer.strip_prefix(b"HTTP/1.1 ")?.strip_suffix(b"\r\ncontent-length: 0\r\n\r\n")?;
    let (status, code, text) = match status.get(..3)? {
        b"400" => {
            let text = "the request's head cannot be read, or contradicts itself about the body";
            (StatusCode::BAD_REQUEST, "bad_request", text)
        }
        b"414" => (StatusCode::URI_TOO_LONG, "uri_too_long", "the request's target is longer than 64 KiB"),
        b"431" => (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large", TOO_LARGE),
        _ => return None,
    };
    Some(wire(&refusal(&ProxyError::new(status, code, text).closing())))
}

/// An answer that nobody takes for the provider's: `x-aconite-error` and a JSON body name the proxy.
pub(crate) fn refusal(trouble: &ProxyError) -> Response<Body> {
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
    if trouble.status == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
        // The connection stays, for the second try.
        let challenge = HeaderValue::from_static("Basic realm=\"aconite\", charset=\"UTF-8\"");
        headers.insert(header::PROXY_AUTHENTICATE, challenge);
    }
    if trouble.close {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    *response.body_mut() = Body::Full(bytes);
    response
}

/// The same to a gRPC client, which reads no other body than messages: a response of trailers alone.
///
/// The status is what gRPC's mapping makes of the HTTP status ("HTTP to gRPC Status Code Mapping").
pub(crate) fn grpc_refusal(trouble: &ProxyError) -> Response<Body> {
    let status = match trouble.status.as_u16() {
        400 => "13",
        401 => "16",
        403 => "7",
        404 => "12",
        429 | 502..=504 => "14",
        _ => "2",
    };
    let mut response = Response::new(Body::Empty);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-status", HeaderValue::from_static(status));
    let message = percent_encoded(&format!("aconite: {}", trouble.message));
    if let Ok(message) = HeaderValue::try_from(message) {
        headers.insert("grpc-message", message);
    }
    headers.insert(headers::ERROR, HeaderValue::from_static(trouble.code));
    response
}

/// As gRPC's `Status-Message`: every byte but printable ASCII, and `%`.
fn percent_encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b' '..=b'~' if byte != b'%' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
