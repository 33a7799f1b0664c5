//! What can go wrong while a connection is made.
use std::time::Duration;

/// A fault of connecting. What each looks like to the client is told at the `connect` toxic.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ConnectFault {
    /// The upstream's host refuses the connection.
    Refuse,
    /// The upstream's host never answers.
    Blackhole,
    /// The upstream's name does not exist.
    DnsNxdomain,
    /// The name server never answers.
    DnsTimeout,
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
