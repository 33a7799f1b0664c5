//! Where a request is sent.
pub(crate) mod route;

use std::{borrow::Cow, fmt, sync::Arc};

use aconite_toxics::{
    Address, HostPort,
    host::{self, bracketed, normal_host},
};
use http::{
    Uri,
    uri::{Authority, PathAndQuery, Scheme},
};

use crate::{dial::DialTarget, secrets::redacted_url, sim::Simulator};
use route::Policy;

/// An upstream.
#[derive(Clone)]
pub(crate) enum Target {
    /// A server on the network.
    Server {
        /// Where it is.
        origin: Origin,
        /// What stands in front of every path; empty for none. No slash at its end.
        prefix: String,
    },
    /// A simulated provider inside this process.
    Simulated { name: Arc<str>, simulator: Arc<Simulator> },
    /// Upstreams of which a policy chooses, one attempt after the other.
    #[cfg_attr(not(test), expect(dead_code, reason = "no configuration leads to a policy yet"))]
    Route { name: Arc<str>, policy: Arc<dyn Policy> },
}

/// A server on the network: scheme, host and port.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Origin {
    pub(crate) tls: bool,
    /// In its normal form, without brackets if it is an IPv6 address.
    pub(crate) host: Arc<str>,
    pub(crate) port: u16,
    /// The TLS server name to ask for, where that is not the host.
    pub(crate) server_name: Option<Arc<str>>,
    /// What the Host header says.
    pub(crate) authority: Arc<str>,
    /// Whether the configuration names it, and not a client.
    pub(crate) configured: bool,
    /// Whether the name is written with a final dot, so that no search domain is tried (RFC 1034, section 3.1).
    pub(crate) absolute: bool,
}

impl Origin {
    /// A server that a client asks for.
    pub(crate) fn new(tls: bool, host: &str, port: u16) -> Self {
        let host = &*normal_host(host);
        let default = if tls { 443 } else { 80 };
        let authority = if port == default {
            bracketed(host).into_owned()
        } else {
            format!("{}:{port}", bracketed(host))
        };
        Self {
            tls,
            host: host.into(),
            port,
            server_name: None,
            authority: authority.into(),
            configured: false,
            absolute: false,
        }
    }

    /// The same server, asked for by another TLS server name.
    pub(crate) fn named(self, server_name: Option<&str>) -> Self {
        let server_name = server_name.filter(|name| **name != *self.host).map(Into::into);
        Self { server_name, ..self }
    }

    /// Another server, which a toxic of the configuration names, asked for what this one is asked for.
    pub(crate) fn at(&self, address: Address) -> Self {
        let server_name = self.server_name.clone().or_else(|| Some(Arc::clone(&self.host)));
        Self {
            host: address.ip.to_string().into(),
            port: address.port.unwrap_or(self.port),
            server_name,
            configured: true,
            absolute: false,
            ..self.clone()
        }
    }
}

impl<'a> From<&'a Origin> for DialTarget<'a> {
    fn from(origin: &'a Origin) -> Self {
        let host = &*origin.host;
        let host = if origin.absolute { format!("{host}.").into() } else { Cow::Borrowed(host) };
        Self { host, port: origin.port, configured: origin.configured }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", bracketed(&self.host), self.port)
    }
}

impl Target {
    /// Reads a URL: `http://…`, `https://…` or `sim://NAME`, or `host:port` for plain HTTP.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected http://HOST:PORT, https://HOST, sim://NAME or HOST:PORT";
        let shown = redacted_url(url);
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        if scheme.eq_ignore_ascii_case("sim") {
            let simulator = Simulator::new(&format!("sim://{rest}")).map_err(|error| error.to_string())?;
            let name = rest.split(['?', '/']).next().unwrap_or_default();
            return Ok(Self::Simulated { name: name.into(), simulator: Arc::new(simulator) });
        }
        if scheme.eq_ignore_ascii_case("unix") || url.starts_with("unix:") {
            return Err(format!("`{shown}`: Unix sockets are not supported; {EXPECTED}"));
        }
        let tls = scheme.eq_ignore_ascii_case("https");
        if !tls && !scheme.eq_ignore_ascii_case("http") {
            return Err(format!("`{scheme}` is not a known scheme: {EXPECTED}"));
        }
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        // First, as the others say the whole URL again.
        if authority.contains('@') {
            return Err("an upstream's URL cannot carry credentials; send them as a header".to_owned());
        }
        if authority.is_empty() {
            return Err(format!("`{shown}` names no host: {EXPECTED}"));
        }
        let read = HostPort::parse(authority).map_err(|error| format!("`{shown}`: {error}"))?;
        if path.contains('?') {
            return Err(format!("`{shown}` has a query, which an upstream cannot have"));
        }
        if path.contains('#') {
            return Err(format!("`{shown}` has a fragment, which an upstream cannot have"));
        }
        let prefix = path.trim_end_matches('/').to_owned();
        if let Err(error) = prefix.parse::<PathAndQuery>()
            && !prefix.is_empty()
        {
            return Err(format!("`{shown}`: the path is not valid: {error}"));
        }
        let port = read.port().unwrap_or(if tls { 443 } else { 80 });
        let absolute = host::split(authority).0.ends_with('.');
        let origin = Origin { configured: true, absolute, ..Origin::new(tls, read.host(), port) };
        Ok(Self::Server { origin, prefix })
    }

    /// The path to ask for: the prefix, then the client's path as it came. A path that has the
    /// prefix already keeps it once, so that a `base_url` with and without `/v1` both work.
    pub(crate) fn join(&self, path: &PathAndQuery) -> PathAndQuery {
        let Self::Server { prefix, .. } = self else { return path.clone() };
        let rest = path.as_str().strip_prefix(prefix.as_str());
        if prefix.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?'])) {
            return path.clone();
        }
        // Both parts were valid, and a slash is between them: the whole is.
        PathAndQuery::try_from(format!("{prefix}{path}")).unwrap_or_else(|_| path.clone())
    }

    /// Where a path leads, by an example for people: a base path may come from the client as well as from here.
    pub(crate) fn example(&self) -> String {
        let path = PathAndQuery::from_static("/PATH");
        let joined = self.join(&path);
        match self {
            Self::Server { origin, prefix } => {
                let scheme = if origin.tls { "https" } else { "http" };
                let with_base = if prefix.is_empty() { String::new() } else { format!(" and {joined}") };
                format!("{path}{with_base} to {scheme}://{}{joined}", origin.authority)
            }
            Self::Simulated { .. } | Self::Route { .. } => format!("{path} to {self}{joined}"),
        }
    }

    /// The request's URI for HTTP/2, or the origin form for HTTP/1.
    pub(crate) fn uri(&self, path: &PathAndQuery, authority: &str, http2: bool) -> Uri {
        let joined = self.join(path);
        let Self::Server { origin, .. } = self else { return Uri::from(joined) };
        if !http2 {
            return Uri::from(joined);
        }
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(if origin.tls { Scheme::HTTPS } else { Scheme::HTTP });
        parts.authority = Authority::try_from(authority).ok();
        if parts.authority.is_none() {
            parts.authority = Authority::try_from(&*origin.authority).ok();
        }
        parts.path_and_query = Some(joined.clone());
        Uri::from_parts(parts).unwrap_or_else(|_| Uri::from(joined))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server { origin, .. } => origin.fmt(f),
            Self::Simulated { name, .. } => write!(f, "sim://{name}"),
            Self::Route { name, .. } => write!(f, "route {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_23_a_base_path_is_joined_once() {
        for base in ["https://api.test/v1", "https://api.test/v1/"] {
            let target = Target::parse(base).unwrap();
            for (path, joined) in [
                ("/embeddings", "/v1/embeddings"),
                ("/v1/embeddings", "/v1/embeddings"),
                ("/v1", "/v1"),
                ("/v1?x=1", "/v1?x=1"),
                ("/v11/x", "/v1/v11/x"),
                ("//cms/x", "/v1//cms/x"),
                (
                    "/collections/a%2Fb/points/%E4%B8%AD?x=%2520+%20&y",
                    "/v1/collections/a%2Fb/points/%E4%B8%AD?x=%2520+%20&y",
                ),
            ] {
                assert_eq!(target.join(&path.parse().unwrap()).as_str(), joined, "{base} {path}");
            }
            assert_eq!(target.example(), "/PATH and /v1/PATH to https://api.test/v1/PATH");
        }
        for base in ["https://api.test", "https://api.test/"] {
            let target = Target::parse(base).unwrap();
            assert_eq!(
                target.join(&"/v1//chat/completions".parse().unwrap()).as_str(),
                "/v1//chat/completions"
            );
        }
    }

    #[test]
    fn bad_upstreams_are_refused_with_the_reason() {
        for (url, reason) in [
            ("ftp://x", "scheme"),
            ("http://", "names no host"),
            ("https://u:p@x", "credentials"),
            ("https://x/?a=b", "query"),
            ("sim://nobody", "nobody"),
            ("https://x/#a", "fragment"),
            ("http://a b/", "neither a host name nor an IP address"),
            ("http://x/a b", "the path is not valid"),
            ("", "names no host"),
        ] {
            let error = Target::parse(url).map(drop).unwrap_err();
            assert!(error.contains(reason), "{url}: {error}");
        }
    }

    #[test]
    fn r2_10_an_upstream_works_or_is_refused_with_what_to_write() {
        for (url, place) in [
            ("localhost", "localhost:80"),
            ("localhost:http", "localhost:80"),
            ("localhost:https", "localhost:443"),
            ("[::1]", "[::1]:80"),
            ("::1", "[::1]:80"),
            ("https://[2001:DB8::1]/v1", "[2001:db8::1]:443"),
            ("HTTPS://API.Example.test./v1/", "api.example.test:443"),
            ("Http://模型.test:1", "xn--xgs754b.test:1"),
            ("SIM://openai", "sim://openai"),
        ] {
            let target = Target::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!(target.to_string(), place, "{url}");
        }
        for (url, said) in [
            ("unix:/x.sock", "Unix sockets are not supported; expected http://HOST:PORT"),
            ("unix:///x.sock", "Unix sockets are not supported"),
            ("http://localhost:99999", "`99999` is not a port: expected a number from 1 to 65535"),
            ("localhost:99999", "`99999` is not a port"),
            ("https://localhost:0", "`0` is not a port"),
            ("http://localhost:", "`` is not a port"),
            ("https://a..b", "neither a host name nor an IP address"),
            ("tcp://x:1", "`tcp` is not a known scheme: expected http://HOST:PORT"),
        ] {
            let error = Target::parse(url).map(drop).unwrap_err();
            assert!(error.contains(said), "{url}: {error}");
        }
    }

    /// Clusters write a final dot to keep search domains out.
    #[test]
    fn r2_06_a_final_dot_is_kept_for_the_name_server_alone() {
        let Target::Server { origin, .. } = Target::parse("http://db.svc.cluster.local.:6333").unwrap()
        else {
            panic!("a server")
        };
        assert_eq!(&*origin.host, "db.svc.cluster.local");
        assert_eq!(DialTarget::from(&origin).host, "db.svc.cluster.local.");
    }
}
