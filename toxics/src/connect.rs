//! What can go wrong while a connection is made.
use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Dice, Instance, Level, Millis, Scope, Toxic};

/// Makes the connection attempt fail in a chosen way.
///
/// The first five modes affect the connection from the proxy to the upstream. On a `tcp` proxy the client is already
/// connected; its connection is closed before any data (with `blackhole` and `dns_timeout` it stays silent). On an HTTP
/// proxy the client gets the response that the proxy sends when an upstream really fails this way. The last two modes
/// affect the client's connection. The TLS modes affect the handshake between client and proxy, so they need a proxy
/// that terminates TLS. The toxic acts on connections made after it was added, and ignores `stream`.
///
/// `stale_address` simulates a DNS record that has moved while a resolver still returns the old address. Without
/// `address` nothing responds at the old address, and the attempt ends with the proxy's `connect_timeout` (nothing is
/// sent). With `address` the proxy connects to that address; `Host` and TLS server name are unchanged, so a server
/// without a certificate for that name fails the handshake, and one that has it responds from the wrong place. A
/// simulated upstream has no address: there nothing responds.
///
/// Toxiproxy has no such toxic. To make clients' connections be refused, disable the proxy, as in Toxiproxy.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Connect {
    /// What fails. Default `refuse`.
    mode: Mode,
    /// How long after accepting the connection is reset or closed, in the modes `reset_on_accept` and `close_on_accept`. Default 0. A
    /// reset comes after 40 ms at the earliest, so that the client's `connect` succeeds.
    after: Millis,
    /// The old address for the mode `stale_address`: an IP address, with a port or with the upstream's own. Default: an
    /// address at which nothing responds.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
}

/// What goes wrong while a connection is made.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Mode {
    /// The upstream's host refuses the connection at once: nothing listens there.
    #[default]
    Refuse,
    /// The upstream's host never responds. Clients wait until their own timeout or the proxy's `connect_timeout`.
    Blackhole,
    /// The upstream's name does not exist (NXDOMAIN); reported at once.
    DnsNxdomain,
    /// The DNS server never responds.
    DnsTimeout,
    /// The upstream's name resolves to an address that the upstream no longer uses.
    StaleAddress,
    /// The certificate is signed by an authority that the client does not trust.
    TlsBadCert,
    /// The certificate expired yesterday.
    TlsExpired,
    /// The handshake ends with a fatal alert (`handshake_failure`).
    TlsAlert,
    /// The handshake stops after the client's first message.
    TlsStall,
    /// The client's connection is accepted, then reset (TCP RST).
    ResetOnAccept,
    /// The client's connection is accepted, then closed without a byte.
    CloseOnAccept,
}

impl Toxic for Connect {
    const TYPE: &'static str = "connect";
    const LEVEL: Level = Level::Connect;

    fn example() -> Self {
        Self { mode: Mode::ResetOnAccept, after: Millis(100), address: None }
    }

    fn check(&self) -> Result<(), String> {
        match &self.address {
            Some(_) if self.mode != Mode::StaleAddress => {
                return Err("`address` goes only with the mode `stale_address`".to_owned());
            }
            Some(text) if Address::parse(text).is_none() => {
                return Err(format!(
                    "`{text}` is no IP address, with or without port: a name may not be stale"
                ));
            }
            _ => {}
        }
        match self.mode {
            Mode::ResetOnAccept | Mode::CloseOnAccept => Ok(()),
            _ if self.after == Millis(0) => Ok(()),
            _ => Err("`after` goes only with the modes `reset_on_accept` and `close_on_accept`".to_owned()),
        }
    }

    fn start(&self, _: &Scope, _: Dice) -> Instance {
        Instance::Connect(match self.mode {
            Mode::Refuse => ConnectFault::Refuse,
            Mode::Blackhole => ConnectFault::Blackhole,
            Mode::DnsNxdomain => ConnectFault::DnsNxdomain,
            Mode::DnsTimeout => ConnectFault::DnsTimeout,
            Mode::StaleAddress => {
                ConnectFault::StaleAddress(self.address.as_deref().and_then(Address::parse))
            }
            Mode::TlsBadCert => ConnectFault::TlsBadCert,
            Mode::TlsExpired => ConnectFault::TlsExpired,
            Mode::TlsAlert => ConnectFault::TlsAlert,
            Mode::TlsStall => ConnectFault::TlsStall,
            Mode::ResetOnAccept => ConnectFault::ResetOnAccept(self.after.into()),
            Mode::CloseOnAccept => ConnectFault::CloseOnAccept(self.after.into()),
        })
    }
}

/// A fault of connecting. What each looks like to the client is told at the `connect` toxic.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ConnectFault {
    /// The upstream's host refuses the connection.
    Refuse,
    /// The upstream's host never answers.
    Blackhole,
    /// The upstream's name does not exist.
    DnsNxdomain,
    /// The DNS server never responds.
    DnsTimeout,
    /// The upstream's name leads where it led before; nobody answers there if that is not said.
    StaleAddress(Option<Address>),
    /// The client's connection is accepted, then reset after so long.
    ResetOnAccept(Duration),
    /// The client's connection is accepted, then closed after so long.
    CloseOnAccept(Duration),
    /// The certificate is signed by nobody whom the client trusts.
    TlsBadCert,
    /// The certificate has expired.
    TlsExpired,
    /// The handshake ends in a fatal alert.
    TlsAlert,
    /// The handshake never goes on.
    TlsStall,
}

impl ConnectFault {
    /// Whether it concerns the way from the proxy to the upstream, and not the client's own connection.
    pub fn is_of_upstream(self) -> bool {
        use ConnectFault::{Blackhole, DnsNxdomain, DnsTimeout, Refuse, StaleAddress};
        matches!(self, Blackhole | DnsNxdomain | DnsTimeout | Refuse | StaleAddress(_))
    }

    /// Whether it concerns the TLS handshake with the client.
    pub fn is_of_tls(self) -> bool {
        use ConnectFault::{TlsAlert, TlsBadCert, TlsExpired, TlsStall};
        matches!(self, TlsAlert | TlsBadCert | TlsExpired | TlsStall)
    }
}

/// Where an upstream was before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Address {
    /// Its address.
    pub ip: IpAddr,
    /// Its port, if that is not the upstream's.
    pub port: Option<u16>,
}

impl Address {
    fn parse(text: &str) -> Option<Self> {
        if let Ok(both) = text.parse::<SocketAddr>() {
            return Some(Self { ip: both.ip(), port: Some(both.port()) });
        }
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        bare.parse().ok().map(|ip| Self { ip, port: None })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{Catalogue, SpecError, ToxicSpec};

    fn start(attributes: &Value) -> Result<ConnectFault, SpecError> {
        let spec = ToxicSpec::new("connect", attributes.as_object().cloned().unwrap());
        let toxic = Catalogue::default().parse(&spec)?;
        match toxic.start(&Scope::default(), Dice::new(1, "p", "t", 0)) {
            Instance::Connect(fault) => Ok(fault),
            _ => panic!("not a fault of connecting"),
        }
    }

    #[test]
    fn each_mode_is_a_fault_of_its_own() {
        let modes = [
            ("refuse", ConnectFault::Refuse),
            ("blackhole", ConnectFault::Blackhole),
            ("dns_nxdomain", ConnectFault::DnsNxdomain),
            ("dns_timeout", ConnectFault::DnsTimeout),
            ("stale_address", ConnectFault::StaleAddress(None)),
            ("tls_bad_cert", ConnectFault::TlsBadCert),
            ("tls_expired", ConnectFault::TlsExpired),
            ("tls_alert", ConnectFault::TlsAlert),
            ("tls_stall", ConnectFault::TlsStall),
            ("reset_on_accept", ConnectFault::ResetOnAccept(Duration::ZERO)),
            ("close_on_accept", ConnectFault::CloseOnAccept(Duration::ZERO)),
        ];
        for (mode, fault) in modes {
            assert_eq!(start(&json!({"mode": mode})), Ok(fault), "{mode}");
        }
        assert_eq!(start(&json!({})), Ok(ConnectFault::Refuse));
    }

    #[test]
    fn a_delay_goes_with_the_accept_modes_alone() {
        let after = |mode: &str| start(&json!({"mode": mode, "after": "2s"}));
        assert_eq!(after("close_on_accept"), Ok(ConnectFault::CloseOnAccept(Duration::from_secs(2))));
        assert!(after("refuse").unwrap_err().to_string().contains("reset_on_accept"));
    }

    #[test]
    fn a_stale_address_is_an_address() {
        let at = |address: &str| start(&json!({"mode": "stale_address", "address": address}));
        for (text, ip, port) in [
            ("127.0.0.1", "127.0.0.1", None),
            ("127.0.0.1:81", "127.0.0.1", Some(81)),
            ("::1", "::1", None),
            ("[::1]", "::1", None),
            ("[::1]:81", "::1", Some(81)),
        ] {
            let stale = Address { ip: ip.parse().unwrap(), port };
            assert_eq!(at(text), Ok(ConnectFault::StaleAddress(Some(stale))), "{text}");
        }
        for text in ["localhost", "localhost:81", "", "127.0.0.1:", "127.0.0.1:99999"] {
            assert!(at(text).unwrap_err().to_string().contains("no IP address"), "{text}");
        }
        let elsewhere = start(&json!({"mode": "refuse", "address": "127.0.0.1"}));
        assert!(elsewhere.unwrap_err().to_string().contains("stale_address"));
    }

    #[test]
    fn an_unknown_mode_is_answered_with_those_there_are() {
        let error = start(&json!({"mode": "refused"})).unwrap_err();
        assert_eq!(error.path, "attributes.mode");
        assert!(error.message.contains("`refuse`") && error.message.contains("`dns_timeout`"), "{error}");
    }
}
