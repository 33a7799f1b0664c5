//! One guard for every entrance: `tcp`, CONNECT, absolute form, origin form, upgrades, tunnels, HTTP/2.
//!
//! Each entrance asks the same functions who may enter, and where a connection to an upstream may be made.
use std::{
    borrow::Cow,
    net::{IpAddr, SocketAddr},
};

use aconite_api::model::{ExchangeEnd, How, Side};
use aconite_toxics::{Address, ConnectFault};
use http::{HeaderMap, Method, StatusCode, Version, header, request};
use tokio::net::TcpStream;

use super::{
    client::{Client, Via},
    dial::{DialError, dial},
    own_answer::Trouble,
    target::Origin,
    upstream::Upstreams,
};
use crate::{
    connection::ConnectionShared,
    journal::Head,
    proxy::{Kind, ProxyContext},
};

/// Whether a request may come in: it says once and clearly where it goes and how it is framed, and brings the credentials
/// that a forward proxy asks for. In a tunnel CONNECT has brought them.
///
/// # Errors
/// What the client is told.
pub(crate) fn enter(client: &Client, head: &request::Parts) -> Result<(), Trouble> {
    if !client.http2 {
        check_host(head)?;
        check_codings(&head.headers)?;
    }
    if matches!(client.via, Via::Forward) {
        admit(&client.proxy, &head.headers)?;
    }
    if head.method == Method::CONNECT {
        return Err(misplaced_connect(client));
    }
    Ok(())
}

/// Whether a client may use the proxy: with the credentials that a forward proxy asks for.
///
/// # Errors
/// What the client is told.
pub(crate) fn admit(proxy: &ProxyContext, headers: &HeaderMap) -> Result<(), Trouble> {
    match &proxy.kind {
        Kind::Forward(rules) => rules.admit(headers),
        Kind::Http { .. } | Kind::Tcp { .. } => Ok(()),
    }
}

/// RFC 9112, section 3.2: exactly one Host field in HTTP/1.1, with a valid value, which may be empty.
fn check_host(head: &request::Parts) -> Result<(), Trouble> {
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
    Err(Trouble::new(StatusCode::BAD_REQUEST, "bad_host", text).closing())
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
fn check_codings(headers: &HeaderMap) -> Result<(), Trouble> {
    let fields = headers.get_all(header::TRANSFER_ENCODING).iter();
    let codings =
        fields.flat_map(|field| field.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    let mut codings = codings.filter(|coding| !coding.is_empty());
    let Some(first) = codings.next() else { return Ok(()) };
    if !first.eq_ignore_ascii_case(b"chunked") {
        let text = "the request has a transfer coding other than `chunked`";
        return Err(Trouble::new(StatusCode::NOT_IMPLEMENTED, "unknown_coding", text).closing());
    }
    if codings.next().is_some() {
        let text = "the request's transfer coding `chunked` must come once and last";
        return Err(Trouble::new(StatusCode::BAD_REQUEST, "bad_framing", text).closing());
    }
    Ok(())
}

/// CONNECT where it cannot make a tunnel.
fn misplaced_connect(client: &Client) -> Trouble {
    match client.via {
        Via::Forward => {
            let text = "CONNECT over HTTP/2 is not supported: use HTTP/1.1 to the proxy";
            Trouble::new(StatusCode::NOT_IMPLEMENTED, "connect_over_http2", text)
        }
        Via::Tunnel(_) => {
            let text = "a tunnel takes no CONNECT: its requests go to the host that it was made for";
            Trouble::new(StatusCode::BAD_REQUEST, "not_a_forward_proxy", text)
        }
        Via::Reverse(_) => {
            let text = "this proxy stands for one upstream and takes no CONNECT: use its address as the base URL, or \
                        create a proxy with `protocol: forward` for HTTPS_PROXY";
            Trouble::new(StatusCode::BAD_REQUEST, "not_a_forward_proxy", text)
        }
    }
}

/// Writes down that something was refused which never became an exchange.
pub(crate) fn record_refusal(
    connection: &ConnectionShared,
    head: Head,
    headers: &HeaderMap,
    trouble: &Trouble,
) {
    let journal = &connection.proxy.journal;
    let record = journal.begin(head);
    record.note(|course| {
        course.status = Some(trouble.status().as_u16());
        course.error = Some(trouble.code());
        course.duration_ms = Some(0.0);
        course.ending = Some(ExchangeEnd { side: Side::Proxy, how: How::Error });
    });
    journal.end(&record, headers);
}

/// Where a connection to an upstream is made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Place<'a> {
    /// A name or an IP address, without brackets.
    pub(crate) host: Cow<'a, str>,
    pub(crate) port: u16,
    /// Whether the configuration names it, and not a client.
    pub(crate) configured: bool,
}

impl<'a> Place<'a> {
    /// A place that the configuration names.
    pub(crate) fn configured(host: impl Into<Cow<'a, str>>, port: u16) -> Self {
        Self { host: host.into(), port, configured: true }
    }

    /// A place that a client asks for.
    pub(crate) fn asked(host: impl Into<Cow<'a, str>>, port: u16) -> Self {
        Self { host: host.into(), port, configured: false }
    }

    /// Where a toxic of the configuration sends a connection instead.
    pub(crate) fn at(self, Address { ip, port }: Address) -> Self {
        Self::configured(ip.to_string(), port.unwrap_or(self.port))
    }

    /// Whether the configuration writes the address itself. A name that resolves to it is not enough, as whoever
    /// answers for the name decides that.
    fn is_written(&self) -> bool {
        self.configured && (*self.host == *"localhost" || self.host.parse::<IpAddr>().is_ok())
    }
}

impl<'a> From<&'a Origin> for Place<'a> {
    fn from(origin: &'a Origin) -> Self {
        let host = &*origin.host;
        let host = if origin.absolute { format!("{host}.").into() } else { Cow::Borrowed(host) };
        Self { host, port: origin.port, configured: origin.configured }
    }
}

/// What the `connect` toxics leave of the way to an upstream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Way {
    AsAsked,
    At(Address),
    Fails(ConnectFault),
}

impl From<Option<ConnectFault>> for Way {
    fn from(fault: Option<ConnectFault>) -> Self {
        match fault {
            None => Self::AsAsked,
            Some(ConnectFault::StaleAddress(Some(address))) => Self::At(address),
            Some(fault) => Self::Fails(fault),
        }
    }
}

impl Upstreams {
    /// Connects to a place, if the proxy may.
    ///
    /// # Errors
    /// If it may not, or there is no connection.
    pub(crate) async fn dial(&self, place: &Place<'_>) -> Result<(TcpStream, SocketAddr), DialError> {
        let may = |address| self.off_limits.check(address, place.is_written());
        dial(&place.host, place.port, self.connect_timeout, may).await
    }

    /// Whether a connection that was made before, perhaps by another proxy, may be used for a place.
    ///
    /// # Errors
    /// If it may not.
    pub(crate) fn may_use(&self, place: &Place<'_>, connection: SocketAddr) -> Result<(), DialError> {
        self.off_limits.check_kept(connection, place.is_written())
    }

    /// Whether a place that is an address may be connected to. A name is looked up first, by [`Self::dial`].
    ///
    /// # Errors
    /// If it may not.
    pub(crate) fn may_dial(&self, place: &Place<'_>) -> Result<(), DialError> {
        match place.host.parse::<IpAddr>() {
            Ok(ip) => self.off_limits.check((ip, place.port).into(), place.is_written()),
            Err(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever answers for a name decides where it leads.
    #[test]
    fn a_01_only_a_configured_address_is_a_written_one() {
        for (host, written) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("localhost", true),
            ("rebound.test", false),
            ("127.0.0.1.nip.test", false),
        ] {
            assert_eq!(Place::configured(host, 1).is_written(), written, "{host}");
            assert!(!Place::asked(host, 1).is_written(), "{host}");
        }
    }
}
