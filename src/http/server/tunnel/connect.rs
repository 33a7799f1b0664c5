//! CONNECT requests (RFC 9110, section 9.3.6), read by hand: no HTTP library leaves what follows alone.
use std::net::Ipv6Addr;

use aconite_toxics::{HostError, HostPort};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::http::{
    proxy_error::{self, ProxyError},
    upstream::MAX_HEADERS,
};

/// A CONNECT request.
pub(in crate::http) struct Connect {
    /// Without brackets.
    pub(in crate::http) host: String,
    pub(in crate::http) port: u16,
    pub(in crate::http) headers: HeaderMap,
    pub(in crate::http) http10: bool,
}

/// Reads a CONNECT request's head.
///
/// # Errors
/// What the client is told.
pub(in crate::http) fn parse(head: &[u8]) -> Result<Connect, Option<ProxyError>> {
    let bad = |text: String| Some(ProxyError::new(StatusCode::BAD_REQUEST, "bad_connect", text));
    let mut slots = vec![httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut slots);
    request.parse(head).map_err(|error| bad(format!("the CONNECT request cannot be read: {error}")))?;
    let target = request.path.unwrap_or_default();
    if target.contains('@') {
        return Err(
            bad("CONNECT: the target cannot have a user and password, expected HOST:PORT".to_owned()),
        );
    }
    let (host, port) = authority(target).map_err(|error| bad(format!("CONNECT: {error}")))?;
    let mut headers = HeaderMap::new();
    for field in request.headers.iter() {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(field.name.as_bytes()), HeaderValue::from_bytes(field.value))
        {
            headers.append(name, value);
        }
    }
    if headers.contains_key(header::TRANSFER_ENCODING) && headers.contains_key(header::CONTENT_LENGTH) {
        return Err(Some(proxy_error::framed_twice()));
    }
    Ok(Connect { host, port, headers, http10: request.version == Some(0) })
}

/// Host and port. An IPv6 address may come without brackets: the last colon is the port's.
fn authority(target: &str) -> Result<(String, u16), HostError> {
    let bare = target.rsplit_once(':').filter(|(host, _)| host.parse::<Ipv6Addr>().is_ok());
    match bare {
        Some((host, port)) => HostPort::parse_with_port(&format!("[{host}]:{port}")),
        None => HostPort::parse_with_port(target),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prx_07_addresses_come_with_and_without_brackets() {
        for (target, host, port) in [
            ("api.test:443", "api.test", 443),
            ("Api.test.:443", "api.test", 443),
            ("API.test:8443", "api.test", 8443),
            ("2001:db8::1:443", "2001:db8::1", 443),
            ("[2001:db8::1]:443", "2001:db8::1", 443),
            ("[::ffff:127.0.0.1]:443", "::ffff:127.0.0.1", 443),
            ("[fe80::1%25eth0]:443", "fe80::1%25eth0", 443),
            ("203.0.113.9:8443", "203.0.113.9", 8443),
            ("xn--xgs754b.example.test:443", "xn--xgs754b.example.test", 443),
        ] {
            assert_eq!(authority(target), Ok((host.to_owned(), port)), "{target}");
        }
        for target in
            ["", "api.test", ":443", "api.test:", "api.test:99999", "a b:1", "u@h:1", "a:b:c:1", "/x:1"]
        {
            assert!(authority(target).is_err(), "{target}");
        }
    }

    #[test]
    fn a_15_a_port_is_digits_from_1() {
        for target in
            ["api.test:+443", "api.test:0", "api.test: 443", "api.test:-1", "[::1]:+443", "::1:0", ":+443"]
        {
            assert!(authority(target).is_err(), "{target}");
        }
    }

    #[test]
    fn http_31_unusual_connects_are_read() {
        let old = b"CONNECT api.example.test:443 HTTP/1.0\r\nProxy-Authorization: Basic x\r\n\r\n";
        let connect = parse(old).map_err(drop).unwrap();
        assert!(connect.http10);
        assert_eq!((connect.host.as_str(), connect.port), ("api.example.test", 443));
        let undici = b"CONNECT api.example.test:443 HTTP/1.1\r\nhost: api.example.test\r\nconnection: close\r\nproxy-connection: keep-alive\r\n\r\n";
        assert!(!parse(undici).map_err(drop).unwrap().http10);
    }
}
