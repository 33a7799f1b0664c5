//! One guard for every entrance: CONNECT, absolute form, origin form, upgrades, tunnels, HTTP/2. Which upstream a
//! connection may be made to, [`Dialer`](crate::dial::Dialer) decides for all of them and for `tcp`.
use aconite_toxics::{End, How, Side};
use http::{HeaderMap, Method, StatusCode, Version, header, request};

use super::{Client, RequestRoute};
use crate::{connection::ConnectionShared, http::proxy_error::ProxyError, journal::ExchangeStart};

/// Whether a request may come in: it says once and clearly where it goes and how it is framed, and brings the credentials
/// that a forward proxy asks for. In a tunnel CONNECT has brought them.
///
/// # Errors
/// What the client is told.
pub(crate) fn enter(client: &Client, head: &request::Parts) -> Result<(), ProxyError> {
    if !client.http2 {
        check_host(head)?;
        check_codings(&head.headers)?;
    }
    if matches!(client.via, RequestRoute::Forward) {
        client.proxy.role.admit(&head.headers)?;
    }
    if head.method == Method::CONNECT {
        return Err(misplaced_connect(client));
    }
    Ok(())
}

/// RFC 9112, section 3.2: exactly one Host field in HTTP/1.1, with a valid value, which may be empty.
fn check_host(head: &request::Parts) -> Result<(), ProxyError> {
    let mut hosts = head.headers.get_all(header::HOST).iter();
    let text = match (hosts.next(), hosts.next()) {
        (Some(_), Some(_)) => "the request has more than one Host field",
        (None, _) if head.version == Version::HTTP_11 => {
            "the request has no Host field, which HTTP/1.1 needs"
        }
        (Some(host), None) if !is_authority(host.as_bytes()) => {
            "the request's Host field is not a host, or host and port"
        }
        _ => return Ok(()),
    };
    Err(ProxyError::new(StatusCode::BAD_REQUEST, "bad_host", text).closing())
}

/// Whether a value of Host can be one; what the host is named is for its server to judge.
fn is_authority(value: &[u8]) -> bool {
    let (host, port) = match value.iter().rposition(|byte| *byte == b':') {
        Some(at) if !value.ends_with(b"]") => value.split_at(at),
        _ => (value, &b""[..]),
    };
    let unusual = |byte: &u8| byte.is_ascii_whitespace() || b"/?#@,\\".contains(byte);
    !host.iter().any(unusual) && port.iter().skip(1).all(u8::is_ascii_digit)
}

/// RFC 9112, section 6.1: a request's body is chunked once, and other codings are not known here.
fn check_codings(headers: &HeaderMap) -> Result<(), ProxyError> {
    let fields = headers.get_all(header::TRANSFER_ENCODING).iter();
    let codings =
        fields.flat_map(|field| field.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    let mut codings = codings.filter(|coding| !coding.is_empty());
    let Some(first) = codings.next() else { return Ok(()) };
    if !first.eq_ignore_ascii_case(b"chunked") {
        let text = "the request has a transfer coding other than `chunked`";
        return Err(ProxyError::new(StatusCode::NOT_IMPLEMENTED, "unknown_coding", text).closing());
    }
    if codings.next().is_some() {
        let text = "the request's transfer coding `chunked` must come once and last";
        return Err(ProxyError::new(StatusCode::BAD_REQUEST, "bad_framing", text).closing());
    }
    Ok(())
}

/// CONNECT where it cannot make a tunnel.
fn misplaced_connect(client: &Client) -> ProxyError {
    match client.via {
        RequestRoute::Forward => {
            let text = "CONNECT over HTTP/2 is not supported: use HTTP/1.1 to the proxy";
            ProxyError::new(StatusCode::NOT_IMPLEMENTED, "connect_over_http2", text)
        }
        RequestRoute::Tunnel(_) => {
            let text = "a tunnel takes no CONNECT: its requests go to the host that it was made for";
            ProxyError::new(StatusCode::BAD_REQUEST, "not_a_forward_proxy", text)
        }
        RequestRoute::Reverse(_) => {
            let text = "this proxy stands for one upstream and takes no CONNECT: use its address as the base URL, or \
                        create a proxy with `protocol: forward` for HTTPS_PROXY";
            ProxyError::new(StatusCode::BAD_REQUEST, "not_a_forward_proxy", text)
        }
    }
}

/// Writes down that something was refused which never became an exchange.
pub(crate) fn record_refusal(
    connection: &ConnectionShared,
    head: ExchangeStart,
    headers: &HeaderMap,
    trouble: &ProxyError,
) {
    let journal = &connection.site.journal;
    let record = journal.begin(head);
    record.note(|course| {
        course.status = Some(trouble.status().as_u16());
        course.error = Some(trouble.code());
        course.duration_ms = Some(0.0);
        course.ending = Some(End { side: Side::Proxy, how: How::Error });
    });
    journal.end(&record, headers);
}
