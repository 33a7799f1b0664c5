//! What must hold for arbitrary bytes of a client.
use http::{HeaderMap, HeaderName, HeaderValue};

use super::{
    message::headers::{self, Hop},
    server::{Sniffed, tunnel::connect},
    upstream::MAX_HEADERS,
};

/// What a client begins to speak is decided once: more bytes never change it, however the network cut them.
pub fn protocol(input: &[u8]) {
    let decisions = (0..=input.len()).map(|length| Sniffed::by(input.get(..length).unwrap_or_default()));
    let mut decided = None;
    for decision in decisions {
        assert!(decided.is_none() || decision == decided, "{decision:?} after {decided:?}");
        decided = decision;
    }
    assert!(input.len() < 24 || decided.is_some(), "24 bytes are all that is looked at");
}

/// Where a CONNECT leads can be written down again, and then leads to the same place.
pub fn connect(input: &[u8]) {
    let Ok(asked) = connect::parse(input) else { return };
    assert!(!asked.host.is_empty() && !asked.host.contains(['/', '@', ' ', '[', ']']), "{:?}", asked.host);
    let bracketed = if asked.host.contains(':') { format!("[{}]", asked.host) } else { asked.host.clone() };
    let head = format!("CONNECT {bracketed}:{} HTTP/1.1\r\n\r\n", asked.port);
    let again = connect::parse(head.as_bytes()).map_err(drop).expect("its own words are read");
    assert_eq!((again.host, again.port), (asked.host, asked.port));
}

/// The first byte chooses the hop, the rest are header lines. What concerns this hop or the proxy stays here, and
/// what has been passed on once is passed on unchanged the next time.
pub fn header_fields(input: &[u8]) {
    let [choice, lines @ ..] = input else { return };
    let hop = Hop { request: choice & 1 != 0, http2: choice & 2 != 0, upgrade: choice & 4 != 0 };
    let mut slots = vec![httparse::EMPTY_HEADER; MAX_HEADERS];
    let Ok(httparse::Status::Complete((_, fields))) = httparse::parse_headers(lines, &mut slots) else {
        return;
    };
    let mut map = HeaderMap::new();
    for field in fields {
        if let (Ok(name), Ok(value)) =
            (HeaderName::try_from(field.name), HeaderValue::from_bytes(field.value))
        {
            map.append(name, value);
        }
    }
    let kept = headers::for_next_hop(&map, hop).unwrap_or_else(|| map.clone());
    for name in kept.keys().map(HeaderName::as_str) {
        let own = hop.request && (name.starts_with(headers::OWN) || name == "proxy-authorization");
        let hops = ["keep-alive", "proxy-connection", "http2-settings"].contains(&name);
        assert!(!own && !hops, "`{name}` was passed on");
        assert!(hop.upgrade || !["connection", "upgrade"].contains(&name), "`{name}` was passed on");
    }
    assert_eq!(kept.get_all("content-length").iter().count(), map.get_all("content-length").iter().count());
    let again = headers::for_next_hop(&kept, hop).unwrap_or_else(|| kept.clone());
    assert_eq!(again, kept);
    let _ = (headers::wants_upgrade(&map), crate::secrets::redacted(&String::from_utf8_lossy(lines)));
    headers::join_cookies(&mut map);
    assert!(map.get_all("cookie").iter().count() < 2);
}
