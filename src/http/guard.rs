//! One guard for every entrance: `tcp`, CONNECT, absolute form, origin form, upgrades, tunnels, HTTP/2.
//!
//! Each entrance asks the same functions who may enter, and where a connection to an upstream may be made.
use std::net::{IpAddr, SocketAddr};

use aconite_toxics::{Address, ConnectFault};
use http::HeaderMap;
use tokio::net::TcpStream;

use super::{
    dial::{DialError, OffLimits, dial},
    own_answer::Trouble,
    target::Origin,
    upstream::Upstreams,
};
use crate::proxy::{Kind, ProxyContext};

/// Whether a request may come in: with the credentials that a forward proxy asks for.
///
/// # Errors
/// What the client is told.
pub(crate) fn admit(proxy: &ProxyContext, headers: &HeaderMap) -> Result<(), Trouble> {
    match &proxy.kind {
        Kind::Forward(rules) => rules.admit(headers),
        Kind::Http { .. } | Kind::Tcp { .. } => Ok(()),
    }
}

/// Where a connection to an upstream is made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Place {
    /// A name or an IP address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Whether the configuration names it, and not a client.
    pub(crate) configured: bool,
}

impl Place {
    /// A place that the configuration names.
    pub(crate) fn configured(host: &str, port: u16) -> Self {
        Self { host: host.to_owned(), port, configured: true }
    }

    /// A place that a client asks for.
    pub(crate) fn asked(host: &str, port: u16) -> Self {
        Self { host: host.to_owned(), port, configured: false }
    }

    /// Where a toxic of the configuration sends a connection instead.
    pub(crate) fn at(self, Address { ip, port }: Address) -> Self {
        Self::configured(&ip.to_string(), port.unwrap_or(self.port))
    }

    fn off_limits(&self, of_proxy: OffLimits) -> OffLimits {
        if self.configured { of_proxy.for_configured(&self.host) } else { of_proxy }
    }
}

impl From<&Origin> for Place {
    fn from(origin: &Origin) -> Self {
        Self { host: origin.host.to_string(), port: origin.port, configured: origin.configured }
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
    pub(crate) async fn dial(&self, place: &Place) -> Result<(TcpStream, SocketAddr), DialError> {
        let off_limits = place.off_limits(self.off_limits);
        dial(&place.host, place.port, self.connect_timeout, off_limits).await
    }

    /// Whether a connection that was made before, perhaps by another proxy, may be used for a place.
    ///
    /// # Errors
    /// If it may not.
    pub(crate) fn may_use(&self, place: &Place, connection: SocketAddr) -> Result<(), DialError> {
        place.off_limits(self.off_limits).check(connection)
    }

    /// Whether a place that is an address may be connected to. A name is looked up first, by [`Self::dial`].
    ///
    /// # Errors
    /// If it may not.
    pub(crate) fn may_dial(&self, place: &Place) -> Result<(), DialError> {
        match place.host.parse::<IpAddr>() {
            Ok(ip) => self.may_use(place, (ip, place.port).into()),
            Err(_) => Ok(()),
        }
    }
}
