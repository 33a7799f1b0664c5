//! Where a connection to an upstream is made, and what `connect` toxics change about that.
use std::{
    borrow::Cow,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use aconite_toxics::{Address, ConnectFault};
use tokio::net::TcpStream;

use super::{DialError, OffLimits, dial};

/// Where a connection to an upstream is made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct DialTarget<'a> {
    /// A name or an IP address, without brackets.
    pub(crate) host: Cow<'a, str>,
    pub(crate) port: u16,
    /// Whether the configuration names it, and not a client.
    pub(crate) configured: bool,
}

impl<'a> DialTarget<'a> {
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

/// What the `connect` toxics leave of the way to an upstream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DialPlan {
    AsAsked,
    At(Address),
    Fails(ConnectFault),
}

impl From<Option<ConnectFault>> for DialPlan {
    fn from(fault: Option<ConnectFault>) -> Self {
        match fault {
            None => Self::AsAsked,
            Some(ConnectFault::StaleAddress(Some(address))) => Self::At(address),
            Some(fault) => Self::Fails(fault),
        }
    }
}

/// Makes a proxy's connections to upstreams.
#[derive(Clone)]
pub(crate) struct Dialer {
    pub(crate) connect_timeout: Duration,
    pub(crate) off_limits: OffLimits,
}

impl Dialer {
    /// Connects to a place, if the proxy may.
    ///
    /// # Errors
    /// If it may not, or there is no connection.
    pub(crate) async fn dial(&self, place: &DialTarget<'_>) -> Result<(TcpStream, SocketAddr), DialError> {
        let may = |address| self.off_limits.check(address, place.is_written());
        dial(&place.host, place.port, self.connect_timeout, may).await
    }

    /// Whether a connection that was made before, perhaps by another proxy, may be used for a place.
    ///
    /// # Errors
    /// If it may not.
    pub(crate) fn may_use(&self, place: &DialTarget<'_>, connection: SocketAddr) -> Result<(), DialError> {
        self.off_limits.check_kept(connection, place.is_written())
    }

    /// Whether a place that is an address may be connected to. A name is looked up first, by [`Self::dial`].
    ///
    /// # Errors
    /// If it may not.
    pub(crate) fn may_dial(&self, place: &DialTarget<'_>) -> Result<(), DialError> {
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
            assert_eq!(DialTarget::configured(host, 1).is_written(), written, "{host}");
            assert!(!DialTarget::asked(host, 1).is_written(), "{host}");
        }
    }
}
