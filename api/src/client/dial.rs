//! How the server is reached.
use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
};

use tokio::net::TcpStream;

/// Connects to `host:port`.
///
/// `localhost` is this machine, whatever a resolver says (RFC 6761, section 6.3): a container image may come without
/// resolver and hosts file, and its health check runs there too.
pub(super) async fn dial(authority: &str) -> io::Result<TcpStream> {
    let Some(port) = authority.strip_prefix("localhost:").and_then(|port| port.parse().ok()) else {
        return TcpStream::connect(authority).await;
    };
    let here: [SocketAddr; 2] = [(Ipv6Addr::LOCALHOST, port).into(), (Ipv4Addr::LOCALHOST, port).into()];
    TcpStream::connect(&here[..]).await
}
