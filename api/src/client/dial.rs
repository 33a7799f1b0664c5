//! How the server is reached.
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use tokio::{net::TcpStream, time::Instant};

/// How long to wait between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// Connects to `host:port`. While a loopback address refuses the connection, tries again for as long as `patience`.
pub(super) async fn dial(authority: &str, patience: Duration) -> io::Result<TcpStream> {
    let deadline = Instant::now() + patience;
    loop {
        match connect(authority).await {
            Err(error)
                if error.kind() == io::ErrorKind::ConnectionRefused
                    && is_loopback(authority)
                    && Instant::now() + PAUSE < deadline =>
            {
                tokio::time::sleep(PAUSE).await;
            }
            result => return result,
        }
    }
}

/// `localhost` is this machine, whatever a resolver says (RFC 6761, section 6.3): a container image may come without
/// resolver and hosts file, and its health check runs there too.
async fn connect(authority: &str) -> io::Result<TcpStream> {
    let Some(port) = authority.strip_prefix("localhost:").and_then(|port| port.parse().ok()) else {
        return TcpStream::connect(authority).await;
    };
    let here: [SocketAddr; 2] = [(Ipv6Addr::LOCALHOST, port).into(), (Ipv4Addr::LOCALHOST, port).into()];
    TcpStream::connect(&here[..]).await
}

fn is_loopback(authority: &str) -> bool {
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_waited_for() {
        for (authority, loopback) in [
            ("localhost:1", true),
            ("127.0.0.2:1", true),
            ("[::1]:1", true),
            ("10.0.0.1:1", false),
            ("a.test:1", false),
        ] {
            assert_eq!(is_loopback(authority), loopback, "{authority}");
        }
    }

    #[tokio::test]
    async fn a_server_that_starts_late_is_reached() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let refused = dial(&address, Duration::ZERO).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let later = address.clone();
        let server = tokio::spawn(async move {
            tokio::time::sleep(PAUSE * 3).await;
            tokio::net::TcpListener::bind(later).await.unwrap().accept().await.unwrap()
        });
        dial(&address, Duration::from_secs(5)).await.unwrap();
        server.await.unwrap();
    }
}
