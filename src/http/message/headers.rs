//! Headers that belong to one hop, or to the proxy itself.
use aconite_dialects::MediaType;
use http::{HeaderMap, HeaderName, HeaderValue, header};

/// The header fields that are for the proxy alone, or that it alone sends, begin so.
pub(crate) const OWN: &str = "x-aconite-";
/// How the proxy's own fields begin if an upstream sends them.
const FROM_UPSTREAM: &str = "x-upstream-aconite-";
/// Names the toxics that apply to an answer.
pub(crate) const MARKER: HeaderName = HeaderName::from_static("x-aconite-toxics");
/// On an answer that is the proxy's own: what went wrong.
pub(crate) const ERROR: HeaderName = HeaderName::from_static("x-aconite-error");
/// The caller's scene.
pub(crate) const SCENE: HeaderName = HeaderName::from_static("x-aconite-scene");
/// The caller's test.
pub(crate) const TEST_ID: HeaderName = HeaderName::from_static("x-aconite-test-id");
/// A toxic for this request alone.
pub(crate) const IN_BAND: HeaderName = HeaderName::from_static("x-aconite-toxic");

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

/// Which way a message goes, and to what.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Hop {
    /// A request; else an answer.
    pub(crate) request: bool,
    /// The next hop speaks HTTP/2, which has no connection headers at all.
    pub(crate) http2: bool,
    /// The message asks for or grants an upgrade, whose headers must stay.
    pub(crate) upgrade: bool,
}

/// The headers for the next hop: without those that concern this one (RFC 9110, section 7.6.1)
/// or the proxy. Order, repetition and spelling of the others stay.
pub(crate) fn for_next_hop(headers: &HeaderMap, hop: Hop) -> Option<HeaderMap> {
    let named = connection_options(headers);
    if !headers.keys().any(|name| stays_here(name, hop, &named)) {
        return None;
    }
    let mut kept = HeaderMap::with_capacity(headers.len() + 1);
    for (name, value) in headers {
        if name == header::TE && hop.request {
            if accepts_trailers(headers) && !kept.contains_key(header::TE) {
                kept.append(header::TE, HeaderValue::from_static("trailers"));
            }
        } else if !stays_here(name, hop, &named) {
            kept.append(name.clone(), value.clone());
        }
    }
    if hop.upgrade {
        kept.append(header::CONNECTION, HeaderValue::from_static("upgrade"));
        // What is left of a list of which `h2c` was one.
        if upgrade_protocols(headers).any(is_h2c)
            && let Ok(others) =
                HeaderValue::from_str(&others_than_h2c(headers).collect::<Vec<_>>().join(", "))
        {
            kept.insert(header::UPGRADE, others);
        }
    }
    Some(kept)
}

/// Renames the fields of a response that only this proxy may send, so that nobody takes an upstream's for its own. The
/// upstream may be another Aconite.
pub(crate) fn rename_own(headers: &mut HeaderMap) {
    if !headers.keys().any(|name| name.as_str().starts_with(OWN)) {
        return;
    }
    let mut renamed = HeaderMap::with_capacity(headers.len());
    for (name, value) in &*headers {
        let other = name.as_str().strip_prefix(OWN).map(|rest| format!("{FROM_UPSTREAM}{rest}"));
        let name = other.and_then(|name| HeaderName::try_from(name).ok()).unwrap_or_else(|| name.clone());
        renamed.append(name, value.clone());
    }
    *headers = renamed;
}

fn stays_here(name: &HeaderName, hop: Hop, named: &[String]) -> bool {
    let text = name.as_str();
    let framing = name == header::TRANSFER_ENCODING && hop.http2;
    framing
        || name == header::CONNECTION
        || name == KEEP_ALIVE
        || name == PROXY_CONNECTION
        || name == header::TE
        || name == HTTP2_SETTINGS
        || (name == header::UPGRADE && !hop.upgrade)
        || (hop.request && (name == header::PROXY_AUTHORIZATION || text.starts_with(OWN)))
        || named.iter().any(|option| option == text)
}

/// The header names that Connection lists, lower case. Framing is not the sender's to hide.
fn connection_options(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let options = values.flat_map(|value| value.split(',')).map(|option| option.trim().to_ascii_lowercase());
    let kept = ["", "close", "keep-alive", "upgrade", "te", "content-length", "transfer-encoding", "host"];
    options.filter(|option| !kept.contains(&option.as_str())).collect()
}

fn accepts_trailers(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::TE).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| coding.trim().eq_ignore_ascii_case("trailers"))
}

/// Whether a message is gRPC's, by its media type (gRPC over HTTP/2, "Content-Type").
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    MediaType::of(value).is_with_any_suffix("application/grpc")
}

/// One Cookie header: HTTP/2 may split it, HTTP/1 may not (RFC 9113, section 8.2.3).
pub(crate) fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(header::COOKIE).iter().nth(1).is_none() {
        return;
    }
    let crumbs: Vec<_> = headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(joined) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..])) {
        headers.insert(header::COOKIE, joined);
    }
}

/// Whether an HTTP/1.1 message asks for, or grants, an upgrade that can be forwarded. One to HTTP/2 (`h2c`) concerns this
/// hop alone, and a server may ignore it (RFC 9110, section 7.8).
pub(crate) fn wants_upgrade(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    others_than_h2c(headers).next().is_some()
        && values
            .flat_map(|value| value.split(','))
            .any(|option| option.trim().eq_ignore_ascii_case("upgrade"))
}

fn others_than_h2c(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    upgrade_protocols(headers).filter(|protocol| !is_h2c(protocol))
}

fn upgrade_protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::UPGRADE).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|protocol| !protocol.is_empty())
}

fn is_h2c(protocol: &str) -> bool {
    ["h2c", "h2"].iter().any(|name| protocol.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(headers: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        map
    }

    const REQUEST: Hop = Hop { request: true, http2: false, upgrade: false };

    #[test]
    fn http_30_headers_named_in_connection_go_and_the_rest_stays() {
        let kept = for_next_hop(
            &map(&[
                ("accept", "a"),
                ("connection", "close, X-Internal"),
                ("x-internal", "1"),
                ("te", "trailers, deflate"),
                ("keep-alive", "timeout=5"),
                ("proxy-connection", "keep-alive"),
                ("accept", "b"),
                ("x-aconite-scene", "s"),
                ("proxy-authorization", "Basic x"),
                ("authorization", "Bearer k"),
            ]),
            REQUEST,
        );
        let expected =
            map(&[("accept", "a"), ("accept", "b"), ("te", "trailers"), ("authorization", "Bearer k")]);
        assert_eq!(kept, Some(expected));
    }

    #[test]
    fn connection_cannot_name_framing_away() {
        let headers = map(&[("connection", "content-length, host"), ("content-length", "3"), ("host", "x")]);
        assert_eq!(for_next_hop(&headers, REQUEST), Some(map(&[("content-length", "3"), ("host", "x")])));
    }

    #[test]
    fn what_has_nothing_to_hide_is_left_alone() {
        assert_eq!(for_next_hop(&map(&[("host", "x"), ("accept", "*/*")]), REQUEST), None);
    }

    #[test]
    fn a_16_an_upstreams_own_fields_are_renamed() {
        let mut headers = map(&[
            ("x-aconite-toxics", "a"),
            ("date", "d"),
            ("X-Aconite-Toxics", "b"),
            ("x-aconite-error", "e"),
            ("x-aconite", "x"),
        ]);
        rename_own(&mut headers);
        let renamed = map(&[
            ("x-upstream-aconite-toxics", "a"),
            ("date", "d"),
            ("x-upstream-aconite-toxics", "b"),
            ("x-upstream-aconite-error", "e"),
            ("x-aconite", "x"),
        ]);
        assert_eq!(headers, renamed);
    }

    #[test]
    fn grpc_is_told_by_its_media_type() {
        for (value, grpc) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("Application/gRPC; charset=x", true),
            ("application/grpcx", false),
            ("application/grpc-web+proto", false),
            ("application/json", false),
        ] {
            assert_eq!(is_grpc(&map(&[("content-type", value)])), grpc, "{value}");
        }
    }

    #[test]
    fn an_upgrade_to_http_2_is_for_this_hop_alone() {
        for (upgrade, wanted, forwarded) in [
            ("h2c", false, None),
            ("H2C, h2", false, None),
            ("h2c, websocket", true, Some("websocket")),
            ("websocket", true, Some("websocket")),
            ("TLS/1.0, h2c, x/1", true, Some("TLS/1.0, x/1")),
        ] {
            // Some clients do not name their settings in Connection.
            for connection in ["Upgrade, HTTP2-Settings", "upgrade"] {
                let headers =
                    map(&[("connection", connection), ("upgrade", upgrade), ("http2-settings", "AAMAAABk")]);
                assert_eq!(wants_upgrade(&headers), wanted, "{upgrade}");
                let kept = for_next_hop(&headers, Hop { upgrade: wanted, ..REQUEST }).unwrap();
                let told = kept.get(header::UPGRADE).map(|value| value.to_str().unwrap());
                assert_eq!(told, forwarded, "{upgrade}");
                assert!(!kept.contains_key("http2-settings"), "{connection} {upgrade}");
            }
        }
    }
}
