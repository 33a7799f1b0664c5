//! Where a request is sent.
use std::{fmt, sync::Arc};

use aconite_toxics::Address;
use http::{
    Uri,
    uri::{Authority, PathAndQuery, Scheme},
};

use crate::sim::Simulator;

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
}

/// A server on the network: scheme, host and port.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Origin {
    pub(crate) tls: bool,
    /// Without brackets, if it is an IPv6 address.
    pub(crate) host: Arc<str>,
    pub(crate) port: u16,
    /// The TLS server name to ask for, where that is not the host.
    pub(crate) server_name: Option<Arc<str>>,
    /// What the Host header says.
    pub(crate) authority: Arc<str>,
    /// Whether the configuration names it, and not a client.
    pub(crate) configured: bool,
}

impl Origin {
    /// A server that a client asks for.
    pub(crate) fn new(tls: bool, host: &str, port: u16) -> Self {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let default = if tls { 443 } else { 80 };
        let authority = if port == default { bracketed(host) } else { format!("{}:{port}", bracketed(host)) };
        Self {
            tls,
            host: host.into(),
            port,
            server_name: None,
            authority: authority.into(),
            configured: false,
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
            ..self.clone()
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", bracketed(&self.host), self.port)
    }
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

impl Target {
    /// Reads a URL: `http://…`, `https://…` or `sim://NAME`, or `host:port` for plain HTTP.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        if url.starts_with("sim://") {
            let simulator = Simulator::new(url).map_err(|error| error.to_string())?;
            let name = url.trim_start_matches("sim://").split(['?', '/']).next().unwrap_or_default();
            return Ok(Self::Simulated { name: name.into(), simulator: Arc::new(simulator) });
        }
        let whole = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        if whole.ends_with("://") {
            return Err(format!("`{url}` names no host"));
        }
        let uri: Uri = whole.parse().map_err(|error| format!("`{url}` is no URL: {error}"))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            other => {
                return Err(format!(
                    "`{}` is no scheme: expected http, https or sim",
                    other.unwrap_or_default()
                ));
            }
        };
        let host =
            uri.host().filter(|host| !host.is_empty()).ok_or_else(|| format!("`{url}` names no host"))?;
        // First, as the others say the whole URL again.
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err("an upstream's URL cannot carry credentials; send them as a header".to_owned());
        }
        if uri.query().is_some() {
            return Err(format!("`{url}` has a query, which an upstream cannot have"));
        }
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let prefix = uri.path().trim_end_matches('/').to_owned();
        let origin = Origin { configured: true, ..Origin::new(tls, host, port) };
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
            Self::Simulated { .. } => format!("{path} to {self}{joined}"),
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
        ] {
            let error = Target::parse(url).map(drop).unwrap_err();
            assert!(error.contains(reason), "{url}: {error}");
        }
    }
}
