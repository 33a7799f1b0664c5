//! WebSocket over HTTP/2 (RFC 8441), asked on as the Upgrade of HTTP/1.1 that upstreams speak.
use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header, request, response};
use hyper::ext::Protocol;
use rustls::crypto::ring::default_provider;

use crate::http::proxy_error::ProxyError;

/// Makes an extended CONNECT the handshake that it stands for (RFC 8441, section 5). All else stays as it is.
///
/// # Errors
/// If it is for another protocol than WebSocket.
pub(crate) fn as_upgrade(head: &mut request::Parts) -> Result<(), ProxyError> {
    if head.method != Method::CONNECT {
        return Ok(());
    }
    let Some(protocol) = head.extensions.remove::<Protocol>() else { return Ok(()) };
    if !protocol.as_str().eq_ignore_ascii_case("websocket") {
        tracing::warn!(
            protocol = protocol.as_str(),
            "an extended CONNECT over HTTP/2 is refused; a client that is made to use HTTP/1.1 can send an Upgrade"
        );
        let text = format!(
            "`{}` over HTTP/2 is not passed on, WebSocket alone is; make the client use HTTP/1.1 for it",
            protocol.as_str()
        );
        return Err(ProxyError::new(StatusCode::NOT_IMPLEMENTED, "extended_connect", text));
    }
    let nonce = nonce().ok_or_else(|| {
        let text = "the system gives no random bytes for a WebSocket key";
        ProxyError::new(StatusCode::INTERNAL_SERVER_ERROR, "no_random", text)
    })?;
    head.method = Method::GET;
    head.version = Version::HTTP_11;
    head.headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    head.headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    head.headers.insert(header::SEC_WEBSOCKET_KEY, nonce);
    Ok(())
}

/// RFC 6455, section 4.1.
fn nonce() -> Option<HeaderValue> {
    let mut bytes = [0; 16];
    default_provider().secure_random.fill(&mut bytes).ok()?;
    HeaderValue::try_from(BASE64_STANDARD.encode(bytes)).ok()
}

/// What the client of an extended CONNECT is told where one of an Upgrade is told `101`.
pub(crate) fn as_success(head: &response::Parts) -> HeaderMap {
    let mut headers = head.headers.clone();
    headers.remove(header::SEC_WEBSOCKET_ACCEPT);
    headers
}
