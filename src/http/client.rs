//! The client of an exchange: its connection, and where its requests lead.
pub(crate) mod credentials;
pub(crate) mod extended_connect;
pub(crate) mod forward;
pub(crate) mod guard;
pub(crate) mod in_band;
pub(crate) mod proxy;

use std::{borrow::Cow, sync::Arc};

use aconite_toxics::{
    HostPort,
    host::{self, normal_host},
};
use http::{StatusCode, header, request};

use super::{
    proxy_error::ProxyError,
    target::{Origin, Target},
};
use crate::{
    connection::ConnectionShared, link::SocketControl, secrets::without_userinfo, tls::host::Readable,
};
use proxy::{HttpProxy, ProxyMode};

/// The client's side of exchanges.
pub(crate) struct Client {
    pub(crate) proxy: Arc<HttpProxy>,
    pub(crate) connection: Arc<ConnectionShared>,
    pub(crate) control: SocketControl,
    pub(crate) http2: bool,
    pub(crate) via: RequestRoute,
}

/// How the client's requests say where they lead.
#[derive(Clone)]
pub(crate) enum RequestRoute {
    /// All to one upstream.
    Reverse(Arc<Target>),
    /// By absolute-form request targets.
    Forward,
    /// To the far end of a tunnel.
    Tunnel(Arc<TunnelTarget>),
}

/// What a client asked for with CONNECT, and what it then said in its TLS handshake.
pub(crate) struct TunnelTarget {
    /// The host that the exchanges are for, in its normal form: the TLS server name, else CONNECT's.
    pub(crate) host: Arc<str>,
    /// CONNECT's host, in its normal form.
    pub(crate) connect_host: String,
    pub(crate) target: Arc<Target>,
}

/// Where a request leads.
pub(crate) struct Destination {
    pub(crate) target: Arc<Target>,
    /// The host, for matching and for the record.
    pub(crate) host: Arc<str>,
    /// What the upstream is told as Host.
    pub(crate) authority: Arc<str>,
}

impl Client {
    /// Where a request leads.
    ///
    /// # Errors
    /// If it does not say, or contradicts itself.
    pub(crate) fn destination(&self, head: &request::Parts) -> Result<Destination, ProxyError> {
        match &self.via {
            RequestRoute::Reverse(target) => Ok(self.reverse(target, head)),
            RequestRoute::Forward => self.forward(head),
            RequestRoute::Tunnel(end) => tunnelled(end, head),
        }
    }

    fn reverse(&self, target: &Arc<Target>, head: &request::Parts) -> Destination {
        let (host, own) = match &**target {
            Target::Server { origin, .. } => (&origin.host, &origin.authority),
            Target::Simulated { name, .. } | Target::Route { name, .. } => (name, name),
        };
        let asked = self.connection.site.spec.preserve_host.then(|| asked_authority(head)).flatten();
        let authority = asked.map_or_else(|| Arc::clone(own), Into::into);
        Destination { target: Arc::clone(target), host: Arc::clone(host), authority }
    }

    fn forward(&self, head: &request::Parts) -> Result<Destination, ProxyError> {
        let (Some(scheme), Some(authority)) = (head.uri.scheme_str(), head.uri.authority()) else {
            let text = "this is a forward proxy: it expects CONNECT or a request target with scheme and host";
            return Err(ProxyError::new(StatusCode::BAD_REQUEST, "not_a_proxy_request", text));
        };
        let tls = match scheme {
            "http" => false,
            "https" => true,
            other => {
                let text = format!("`{other}` is not a scheme that this proxy knows: expected http or https");
                return Err(ProxyError::new(StatusCode::BAD_REQUEST, "unsupported_scheme", text));
            }
        };
        // User and password are the client's, and belong into `Authorization` (RFC 9110, section 4.2.4).
        let asked = without_userinfo(authority.as_str());
        let read = HostPort::parse(asked)
            .map_err(|error| ProxyError::new(StatusCode::BAD_REQUEST, "bad_target", error.to_string()))?;
        let port = read.port().unwrap_or(if tls { 443 } else { 80 });
        let origin = Origin::new(tls, read.host(), port);
        let host = Arc::clone(&origin.host);
        let target = match &self.proxy.role {
            ProxyMode::Forward(rules) => rules.target(&host, port),
            ProxyMode::Reverse { .. } => None,
        };
        let target = target.unwrap_or_else(|| Arc::new(Target::Server { origin, prefix: String::new() }));
        Ok(Destination { authority: authority_for(&target, asked), target, host })
    }
}

/// A request inside a tunnel: its Host must be the tunnel's, and decides nothing.
fn tunnelled(end: &Arc<TunnelTarget>, head: &request::Parts) -> Result<Destination, ProxyError> {
    let asked = asked_authority(head).unwrap_or_default();
    let host = &*host_of(&asked);
    if !host.is_empty() && *host != *end.host && host != end.connect_host {
        tracing::warn!(connect = %Readable(&end.connect_host), server_name = %Readable(&end.host), host = %Readable(host), "a request asks for another host than its tunnel");
        let text = format!(
            "the request is for `{host}`, but its tunnel leads to `{}` (TLS server name `{}`)",
            end.connect_host, end.host
        );
        return Err(ProxyError::new(StatusCode::MISDIRECTED_REQUEST, "misdirected", text));
    }
    let fallback = if asked.is_empty() { &*end.host } else { &*asked };
    Ok(Destination {
        authority: authority_for(&end.target, fallback),
        target: Arc::clone(&end.target),
        host: Arc::clone(&end.host),
    })
}

/// The Host for an upstream: the client's, as it came. A host that is mapped elsewhere keeps it:
/// the upstream stands in for it.
fn authority_for(target: &Target, asked: &str) -> Arc<str> {
    match target {
        Target::Server { origin, .. } if asked.is_empty() => Arc::clone(&origin.authority),
        _ => asked.into(),
    }
}

/// The authority that a request names, without user and password: `:authority` or an absolute target before Host.
pub(super) fn asked_authority(head: &request::Parts) -> Option<String> {
    let asked = match head.uri.authority() {
        Some(authority) => authority.as_str(),
        None => head.headers.get(header::HOST)?.to_str().ok()?,
    };
    let asked = without_userinfo(asked);
    (!asked.is_empty()).then(|| asked.to_owned())
}

/// The host of an authority in its normal form.
pub(super) fn host_of(authority: &str) -> Cow<'_, str> {
    normal_host(host::split(authority).0)
}
