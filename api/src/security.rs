//! Who may use the API.
//!
//! Three checks, in this order: the Host header (a web page that rebinds its name to this address gives itself away
//! by it), the origin of writes (a web page of another origin), and the token. What kind of program asks is never
//! guessed from its user agent.
use std::{fmt, net::IpAddr};

use http::{HeaderMap, Method, StatusCode, Uri, Version, header, uri::Authority};
use subtle::ConstantTimeEq;

use crate::{Problem, request::is_v1};

/// Who may use the API, and under which host names. Paths that tell nothing (`/`, `/healthz`, `/readyz`) need no token.
#[derive(Clone, Debug)]
pub struct Security {
    root: Access,
    v1: Access,
    names: Vec<String>,
}

#[derive(Clone, Debug)]
enum Access {
    Open,
    /// Open under any host name, unless a browser sent the request.
    AnyHost,
    Token(Token),
    Closed,
}

impl Security {
    /// No token. For a loopback address, or where a user insists.
    pub fn open() -> Self {
        Self { root: Access::Open, v1: Access::Open, names: Vec::new() }
    }

    /// Everything needs `authorization: Bearer TOKEN`.
    pub fn token(token: impl Into<String>) -> Self {
        let token = Token(token.into());
        Self { root: Access::Token(token.clone()), v1: Access::Token(token), names: Vec::new() }
    }

    /// As a replacement for Toxiproxy, on an address that others reach: its routes are open under any host name, as container
    /// wrappers expect; `/v1` needs the token, and is closed if there is none.
    pub fn drop_in(token: Option<String>) -> Self {
        let v1 = token.map_or(Access::Closed, |token| Access::Token(Token(token)));
        Self { root: Access::AnyHost, v1, names: Vec::new() }
    }

    /// Accepts this host name too, besides IP addresses and `localhost`.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.names.push(name.into());
        self
    }

    /// # Errors
    /// Why the request is refused.
    pub(crate) fn admit(
        &self,
        method: &Method,
        uri: &Uri,
        version: Version,
        headers: &HeaderMap,
    ) -> Result<(), Problem> {
        let path = uri.path();
        if matches!(path, "/healthz" | "/readyz") {
            return Ok(());
        }
        let access = if is_v1(path) { &self.v1 } else { &self.root };
        let host = host(uri, headers, version)?;
        let from_browser = is_from_browser(headers);
        if let Some(host) = &host
            && (from_browser || !matches!(access, Access::AnyHost))
            && !self.knows(host.host())
        {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "host_not_allowed",
                format!("the API does not answer under the name `{}`", host.host()),
            )
            .hint("use an IP address or localhost, or add the name to `admin.hosts` of the configuration"));
        }
        if !method.is_safe() && is_cross_origin(host.as_ref(), headers) {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "cross_origin",
                "a web page of another origin may not change anything here",
            ));
        }
        match access {
            _ if path == "/" => Ok(()),
            Access::Open | Access::AnyHost => Ok(()),
            Access::Token(token) if token.is_given(headers) => Ok(()),
            Access::Token(_) => {
                Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "the API needs its token")
                    .hint("send `authorization: Bearer TOKEN`"))
            }
            Access::Closed => Err(Problem::new(
                StatusCode::FORBIDDEN,
                "closed",
                "/v1 is closed: the address can be reached from outside, and no token is set",
            )
            .hint("set ACONITE_TOKEN or --token-file, or listen on 127.0.0.1")),
        }
    }

    fn knows(&self, host: &str) -> bool {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = host.strip_suffix('.').unwrap_or(host);
        bare.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.names.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// The host asked for. HTTP/1.0 need not say it.
fn host(uri: &Uri, headers: &HeaderMap, version: Version) -> Result<Option<Authority>, Problem> {
    let bad = |message| Problem::new(StatusCode::BAD_REQUEST, "bad_host", message);
    if let Some(authority) = uri.authority() {
        return Ok(Some(authority.clone()));
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => Authority::try_from(host.as_bytes())
            .map(Some)
            .map_err(|_| bad("the Host header is not a host and port")),
        (None, _) if version < Version::HTTP_11 => Ok(None),
        (None, _) => Err(bad("there is no Host header")),
        (Some(_), Some(_)) => Err(bad("there are several Host headers")),
    }
}

/// Whether a browser sent the request, by fields that a page's scripts can neither set nor leave out. A read that a page
/// makes under a rebound name over plain HTTP has neither `origin` nor fetch metadata, but always the languages of its
/// user. Node sends `accept-language: *` and `sec-fetch-mode`.
fn is_from_browser(headers: &HeaderMap) -> bool {
    let languages = headers.get(header::ACCEPT_LANGUAGE).is_some_and(|languages| languages != "*");
    let sent = |name| headers.contains_key(name);
    languages || sent("origin") || sent("sec-fetch-site") || sent("sec-fetch-dest")
}

/// Whether a browser says that the request comes from a page of another origin. Of the fetch headers only
/// `sec-fetch-site: cross-site` says so: Node sends others.
fn is_cross_origin(host: Option<&Authority>, headers: &HeaderMap) -> bool {
    let cross_site = headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site");
    let foreign = headers.get_all(header::ORIGIN).iter().any(|origin| {
        let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
        !origin.is_some_and(|(_, origin)| host.is_some_and(|host| origin.eq_ignore_ascii_case(host.as_str())))
    });
    cross_site || foreign
}

#[derive(Clone)]
struct Token(String);

impl Token {
    fn is_given(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes()).unwrap_or_default();
        let Some((scheme, token)) = given.split_at_checked(b"Bearer ".len()) else { return false };
        scheme.eq_ignore_ascii_case(b"Bearer ") && bool::from(token.ct_eq(self.0.as_bytes()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status of the refusal, or 200.
    fn admit(security: &Security, method: &Method, path: &str, headers: &[(&str, &str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(http::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        let uri = Uri::try_from(path).unwrap();
        security.admit(method, &uri, Version::HTTP_11, &map).map_or_else(|p| p.status.as_u16(), |()| 200)
    }

    #[test]
    fn only_addresses_localhost_and_configured_names_are_hosts() {
        let open = Security::open().with_name("aconite.test");
        for host in [
            "127.0.0.1:8474",
            "[::1]:8474",
            "10.1.2.3",
            "localhost:1",
            "LOCALHOST",
            "localhost.",
            "aconite.test:8474",
        ] {
            assert_eq!(admit(&open, &Method::GET, "/version", &[("host", host)]), 200, "{host}");
        }
        for host in ["evil.test:8474", "localhost.evil.test", "127.0.0.1.nip.test", "aconite.test.evil"] {
            assert_eq!(admit(&open, &Method::GET, "/version", &[("host", host)]), 403, "{host}");
            assert_eq!(admit(&open, &Method::GET, "/", &[("host", host)]), 403, "{host}");
        }
        assert_eq!(admit(&open, &Method::GET, "/version", &[]), 400);
        assert_eq!(admit(&open, &Method::GET, "/version", &[("host", "a b")]), 400);
        assert_eq!(
            admit(&open, &Method::GET, "/version", &[("host", "localhost"), ("host", "localhost")]),
            400
        );
    }

    #[test]
    fn pages_of_other_origins_may_not_write() {
        let open = Security::open();
        let host = ("host", "localhost:8474");
        for foreign in [
            ("origin", "https://evil.test"),
            ("origin", "http://localhost:3000"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
        ] {
            assert_eq!(admit(&open, &Method::POST, "/reset", &[host, foreign]), 403, "{foreign:?}");
            assert_eq!(admit(&open, &Method::DELETE, "/v1/exchanges", &[host, foreign]), 403, "{foreign:?}");
        }
        for own in [
            ("origin", "http://localhost:8474"),
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-mode", "cors"),
            ("user-agent", "Mozilla/5.0 (X11; Linux x86_64)"),
        ] {
            assert_eq!(admit(&open, &Method::POST, "/reset", &[host, own]), 200, "{own:?}");
        }
    }

    #[test]
    fn the_token_is_needed_where_there_is_one() {
        let token = Security::token("s3cret");
        let host = ("host", "127.0.0.1");
        for path in ["/proxies", "/metrics", "/v1/proxies", "/v1"] {
            assert_eq!(admit(&token, &Method::GET, path, &[host]), 401);
            for wrong in ["Bearer s3cre", "Bearer s3cret ", "Basic s3cret", "s3cret", "Bearer", ""] {
                assert_eq!(
                    admit(&token, &Method::GET, path, &[host, ("authorization", wrong)]),
                    401,
                    "{wrong}"
                );
            }
            assert_eq!(admit(&token, &Method::GET, path, &[host, ("authorization", "Bearer s3cret")]), 200);
            assert_eq!(admit(&token, &Method::GET, path, &[host, ("authorization", "bearer s3cret")]), 200);
        }
        for path in ["/", "/healthz", "/readyz"] {
            assert_eq!(admit(&token, &Method::GET, path, &[host]), 200);
        }
        assert!(!format!("{token:?}").contains("s3cret"));
    }

    #[test]
    fn in_toxiproxy_s_place_the_root_is_open_under_any_name() {
        let host = ("host", "toxiproxy:8474");
        for security in [Security::drop_in(None), Security::drop_in(Some("t".to_owned()))] {
            assert_eq!(admit(&security, &Method::POST, "/populate", &[host]), 200);
            assert_eq!(
                admit(&security, &Method::POST, "/populate", &[host, ("sec-fetch-mode", "cors")]),
                200
            );
            // Node's fetch, which is not a browser.
            let node = [host, ("accept-language", "*"), ("sec-fetch-mode", "cors")];
            assert_eq!(admit(&security, &Method::GET, "/proxies", &node), 200);
            // A page that has rebound its name is of the same origin; the name gives it away, for reads too.
            let origin = ("origin", "http://toxiproxy:8474");
            assert_eq!(admit(&security, &Method::POST, "/populate", &[host, origin]), 403);
        }
        let v1 = |security: &Security, headers: &[_]| admit(security, &Method::GET, "/v1/proxies", headers);
        let local = ("host", "127.0.0.1");
        assert_eq!(v1(&Security::drop_in(None), &[local]), 403);
        let with_token = Security::drop_in(Some("t".to_owned()));
        assert_eq!(v1(&with_token, &[local]), 401);
        assert_eq!(v1(&with_token, &[local, ("authorization", "Bearer t")]), 200);
        assert_eq!(v1(&with_token, &[host, ("authorization", "Bearer t")]), 403);
    }

    #[test]
    fn a_16_in_toxiproxy_s_place_a_page_of_a_rebound_name_reads_nothing() {
        let security = Security::drop_in(None);
        let languages = ("accept-language", "en-GB,en;q=0.9");
        for page in [languages, ("sec-fetch-site", "same-origin"), ("sec-fetch-dest", "empty")] {
            for path in ["/proxies", "/version", "/metrics", "/"] {
                let read = |host| admit(&security, &Method::GET, path, &[("host", host), page]);
                assert_eq!(read("evil.test:8474"), 403, "{page:?} {path}");
                assert_eq!((read("localhost:8474"), read("127.0.0.1:8474")), (200, 200), "{page:?} {path}");
            }
        }
    }

    #[test]
    fn http_1_0_needs_no_host() {
        let uri = Uri::from_static("/version");
        assert!(Security::open().admit(&Method::GET, &uri, Version::HTTP_10, &HeaderMap::new()).is_ok());
    }
}
