//! Listening addresses as Toxiproxy reads them, and the sockets behind them.
use std::{
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener},
};

use socket2::{Domain, Protocol, Socket, Type};

use crate::link;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4_096;

/// Where a proxy without `listen` is.
const LOOPBACK: &str = "127.0.0.1";

/// What a `listen` field asks for.
///
/// As Go's `net.Listen`: no host, `0.0.0.0` and `[::]` mean every address of both
/// families; `localhost` is IPv4 first. An empty text is a free port of 127.0.0.1, not of every address as in Toxiproxy:
/// a proxy that other machines reach says so.
///
/// # Errors
/// Go's words, which Toxiproxy's clients match.
pub(crate) async fn resolve(listen: &str) -> Result<SocketAddr, String> {
    let (host, port) = split(listen)?;
    match host.parse::<IpAddr>() {
        _ if host.is_empty() => Ok((Ipv6Addr::UNSPECIFIED, port).into()),
        Ok(ip) if ip.is_unspecified() => Ok((Ipv6Addr::UNSPECIFIED, port).into()),
        Ok(ip) => Ok((ip, port).into()),
        Err(_) => {
            let found: Vec<_> = tokio::net::lookup_host((host, port))
                .await
                .map_err(|_| format!("lookup {host}: no such host"))?
                .collect();
            let first = found.iter().find(|address| address.is_ipv4()).or_else(|| found.first());
            first.copied().ok_or_else(|| format!("lookup {host}: no such host"))
        }
    }
}

/// Host and port of an address, brackets taken off.
fn split(listen: &str) -> Result<(&str, u16), String> {
    if listen.is_empty() {
        return Ok((LOOPBACK, 0));
    }
    let (host, port) =
        listen.rsplit_once(':').ok_or_else(|| format!("address {listen}: missing port in address"))?;
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    if bracketed.is_none() && host.contains(':') {
        return Err(format!("address {listen}: too many colons in address"));
    }
    let number = match port {
        "" => Ok(0),
        "http" => Ok(80),
        "https" => Ok(443),
        _ => port.parse::<u16>(),
    };
    let number = number.map_err(|_| {
        if port.bytes().all(|byte| byte.is_ascii_digit()) {
            format!("address {port}: invalid port")
        } else {
            format!("lookup tcp/{port}: unknown port")
        }
    })?;
    Ok((bracketed.unwrap_or(host), number))
}

/// Binds and listens; every address of both families where the host has both.
///
/// # Errors
/// Go's words.
pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener, String> {
    let both = address.ip().is_unspecified();
    match listen_on(address, both) {
        // The host has no IPv6.
        Err(error) if both && is_no_ipv6(&error) => {
            let address = SocketAddr::from(([0, 0, 0, 0], address.port()));
            listen_on(address, false).map_err(|error| in_words(address, &error))
        }
        result => result.map_err(|error| in_words(address, &error)),
    }
}

fn listen_on(address: SocketAddr, both: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(!both)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    link::prepare(&socket);
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn is_no_ipv6(error: &io::Error) -> bool {
    // EAFNOSUPPORT, EADDRNOTAVAIL
    matches!(error.raw_os_error(), Some(97 | 99)) || error.kind() == io::ErrorKind::Unsupported
}

fn in_words(address: SocketAddr, error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::AddrInUse => "address already in use".to_owned(),
        io::ErrorKind::AddrNotAvailable => "cannot assign requested address".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    };
    format!("listen tcp {address}: bind: {why}")
}

/// Whether a socket on this address can be reached from other machines.
pub(crate) fn is_public(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_are_read_as_go_reads_them() {
        for (listen, address) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("localhost:26379", "127.0.0.1:26379"),
            (":8001", "[::]:8001"),
            ("0.0.0.0:8001", "[::]:8001"),
            ("[::]:8001", "[::]:8001"),
            ("[::1]:8001", "[::1]:8001"),
            ("", "127.0.0.1:0"),
            (":0", "[::]:0"),
            ("127.0.0.1:http", "127.0.0.1:80"),
        ] {
            assert_eq!(resolve(listen).await.map(|a| a.to_string()), Ok(address.to_owned()), "{listen}");
        }
        for (listen, error) in [
            ("local373", "address local373: missing port in address"),
            ("127.0.0.1:99999", "address 99999: invalid port"),
            ("256.0.0.1:1", "lookup 256.0.0.1: no such host"),
            ("::1:80", "address ::1:80: too many colons in address"),
        ] {
            assert_eq!(resolve(listen).await, Err(error.to_owned()), "{listen}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn accepted_sockets_have_the_options_of_their_listener() {
        let listener = bind(([127, 0, 0, 1], 0).into()).unwrap();
        let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        listener.set_nonblocking(false).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let socket = socket2::SockRef::from(&accepted);
        assert!(socket.tcp_nodelay().unwrap());
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), std::time::Duration::from_secs(15));
    }

    #[test]
    fn a_taken_address_is_refused_in_go_s_words() {
        let first = bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = first.local_addr().unwrap();
        let error = bind(address).map(drop).unwrap_err();
        assert_eq!(error, format!("listen tcp {address}: bind: address already in use"));
    }
}
