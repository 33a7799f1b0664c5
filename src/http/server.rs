//! The client's side of HTTP connections.
mod foreign;
mod inbound;
mod patience;
pub(in crate::http) mod tunnel;

use std::{pin::pin, sync::Arc, time::Duration};

use aconite_toxics::{ConnectFault, Direction};
use hyper::{
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::{AlertDescription, sign::CertifiedKey};
use tokio::{
    net::TcpStream,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    client::{
        Client, RequestRoute,
        proxy::{HttpProxy, ProxyMode, ServerLeaf},
    },
    exchange, proxy_error,
    upstream::{MAX_HEADER_SECTION, MAX_HEADERS},
};
use crate::{
    connection::{ByteGovernor, ConnectionShared},
    link::{ClientIo, Lane, Peek, Phase, SocketControl, ToxicSocket},
    site::Site,
    steady::steady,
    tls::{self, Negotiated as _, host::Readable},
};
use inbound::Inbound;
use patience::run_out;
use tunnel::write_last_answer;

/// The client's socket with its byte toxics.
pub(crate) type Socket = ToxicSocket<ByteGovernor>;

/// Serves a connection of an `http` or `forward` proxy to its end.
pub(crate) async fn serve(stream: TcpStream, connection: Arc<ConnectionShared>, proxy: Arc<HttpProxy>) {
    let inbound = Inbound { connection, proxy };
    let Inbound { connection, proxy } = &inbound;
    let stop = connection.stop.clone();
    // What is rare or soon over is boxed, so that a connection takes no more memory than it needs.
    let served = async {
        match &proxy.role {
            ProxyMode::Reverse { target, tls } => {
                connection.leads_to(&**target);
                let via = RequestRoute::Reverse(Arc::clone(target));
                match tls {
                    None => match sniff(&stream, &connection.site).await {
                        Ok((Sniffed::Http2, began)) => {
                            serve_plain(stream, &inbound, via, true, began).await;
                        }
                        Ok((Sniffed::Http1 | Sniffed::Other, began)) => {
                            serve_plain(stream, &inbound, via, false, began).await;
                        }
                        Ok((spoken, _)) => Box::pin(foreign::refuse(stream, &inbound, spoken)).await,
                        Err(SniffError::Half) => write_last_answer(stream, proxy_error::too_slow()).await,
                        Err(SniffError::Nothing) => {}
                    },
                    Some(leaf) => match sniff(&stream, &connection.site).await {
                        Ok((Sniffed::Tls | Sniffed::Other, _)) => {
                            Box::pin(serve_tls(stream, &inbound, via, leaf)).await;
                        }
                        Ok((spoken, _)) => Box::pin(foreign::refuse(stream, &inbound, spoken)).await,
                        Err(_) => {}
                    },
                }
            }
            ProxyMode::Forward(rules) => Box::pin(tunnel::serve(stream, &inbound, rules)).await,
        }
    };
    let mut served = pin!(served);
    tokio::select! {
        () = steady(served.as_mut()) => {}
        () = stop.cancelled() => {}
    }
    // It holds the connection that holds it.
    drop(connection.upgraded());
}

/// What a client begins to speak.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Sniffed {
    Tls,
    Http2,
    Http1,
    Socks4,
    Socks5,
    Other,
}

impl Sniffed {
    /// Decides by the first bytes; `None` if they are too few.
    pub(super) fn by(bytes: &[u8]) -> Option<Self> {
        const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        let longest_method = 16;
        match bytes {
            [] => None,
            // A handshake record (RFC 8446, section 5.1).
            [22, 3, ..] => Some(Self::Tls),
            // SOCKS: a version, then CONNECT or BIND, or the number of methods (RFC 1928, section 3).
            [4, 1 | 2, ..] => Some(Self::Socks4),
            [5, 1..=255, ..] => Some(Self::Socks5),
            [4 | 5 | 22] => None,
            _ if PREFACE.starts_with(bytes) && bytes.len() < PREFACE.len() => None,
            _ if bytes.starts_with(PREFACE) => Some(Self::Http2),
            _ => match bytes.iter().position(|byte| !byte.is_ascii_uppercase()) {
                Some(at) if (1..longest_method).contains(&at) && bytes.get(at) == Some(&b' ') => {
                    Some(Self::Http1)
                }
                None if bytes.len() < longest_method => None,
                _ => Some(Self::Other),
            },
        }
    }
}

/// Why the first bytes tell nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SniffError {
    /// The client sent nothing for `idle_timeout`, or ended before it had sent enough.
    Nothing,
    /// The client began and did not go on within `header_timeout`.
    Half,
}

/// Looks at the first bytes and leaves them where they are, until `decide` knows what they are. Gives that and the moment
/// at which the first of them came.
///
/// # Errors
/// If too few come, or too late.
pub(crate) async fn look<T>(
    stream: &TcpStream,
    bytes: &mut [u8],
    site: &Site,
    decide: impl Fn(&[u8]) -> Option<T>,
) -> Result<(T, Instant), SniffError> {
    let mut peek = Peek::new(stream);
    let first = timeout(site.idle_timeout(), peek.more(bytes));
    let mut count = first.await.map_err(|_| SniffError::Nothing)?;
    let began = Instant::now();
    let deadline = began + site.header_timeout();
    loop {
        let seen = bytes.get(..count).filter(|seen| !seen.is_empty()).ok_or(SniffError::Nothing)?;
        if let Some(decided) = decide(seen) {
            return Ok((decided, began));
        }
        count = timeout_at(deadline, peek.more(bytes)).await.map_err(|_| SniffError::Half)?;
    }
}

/// What a client begins to speak, and when its first byte came.
///
/// # Errors
/// If it cannot be told.
pub(crate) async fn sniff(stream: &TcpStream, site: &Site) -> Result<(Sniffed, Instant), SniffError> {
    look(stream, &mut [0; 24], site, Sniffed::by).await
}

pub(crate) fn socket(stream: TcpStream, connection: &Arc<ConnectionShared>) -> (Socket, SocketControl) {
    let up = Lane::new(connection.opened, connection.governor(Direction::Upstream));
    let down = Lane::new(connection.opened, connection.governor(Direction::Downstream));
    ToxicSocket::new(stream, up, down, Arc::clone(connection))
}

/// Serves HTTP without TLS.
pub(crate) async fn serve_plain(
    stream: TcpStream,
    inbound: &Inbound,
    via: RequestRoute,
    http2: bool,
    began: Instant,
) {
    let (socket, control) = socket(stream, &inbound.connection);
    let io = ClientIo::plain(socket, control.clone());
    serve_http(io, control, inbound, via, http2, Some(began)).await;
}

/// Serves HTTP over TLS with a certificate of the proxy's own.
async fn serve_tls(stream: TcpStream, inbound: &Inbound, via: RequestRoute, leaf: &ServerLeaf) {
    let address = stream.local_addr().map(|address| address.ip().to_canonical().to_string());
    let Inbound { connection, proxy } = inbound;
    let (socket, control) = socket(stream, connection);
    let fallback = address.as_deref().unwrap_or("localhost");
    let hello = Box::pin(proxy.terminator.hello(socket, fallback, connection.site.header_timeout()));
    let hello = match hello.await {
        Ok(hello) => hello,
        Err(error) => return tracing::debug!(proxy = %connection.site.name, %error, "no TLS handshake"),
    };
    let leaf = match leaf {
        ServerLeaf::Read(files) => files.current(),
        ServerLeaf::Minted => match proxy.authority.leaf(hello.host()) {
            Ok(leaf) => leaf,
            Err(error) => {
                let host = Readable(hello.host());
                tracing::warn!(proxy = %connection.site.name, %host, %error, "no certificate can be made");
                // The client that cannot be told has left.
                let _ = hello.refuse(AlertDescription::UnrecognisedName).await;
                return;
            }
        },
    };
    let alpn: &[&[u8]] = &[tls::ALPN_H2, tls::ALPN_HTTP1];
    let Some(stream) = Box::pin(handshake(hello, alpn, leaf, inbound)).await else { return };
    let http2 = stream.is_h2();
    serve_http(ClientIo::tls(stream, control.clone()), control, inbound, via, http2, None).await;
}

/// Finishes a TLS handshake, or spoils it as a toxic has it.
pub(crate) async fn handshake(
    hello: tls::accept::Hello<Socket>,
    alpn: &[&[u8]],
    leaf: Arc<CertifiedKey>,
    inbound: &Inbound,
) -> Option<tls::server::TlsStream<Socket>> {
    let Inbound { connection, proxy } = inbound;
    let site = &connection.site;
    let host = hello.host().to_owned();
    let spoiled = connection.connect_fault(ConnectFault::is_of_tls, None);
    let result = match spoiled {
        None => hello.finish(alpn, leaf).await,
        Some(ConnectFault::TlsBadCert) => {
            hello.finish_fresh(alpn, proxy.authority.leaf_untrusted(&host).ok()?).await
        }
        Some(ConnectFault::TlsExpired) => {
            hello.finish_fresh(alpn, proxy.authority.leaf_expired(&host).ok()?).await
        }
        Some(ConnectFault::TlsAlert) => {
            // The client that cannot be told has left.
            let _ = hello.refuse(AlertDescription::HandshakeFailure).await;
            return None;
        }
        Some(_) => {
            let _open = hello.into_io();
            return std::future::pending().await;
        }
    };
    match result {
        Ok(stream) => Some(stream),
        Err(error) if spoiled.is_some() => {
            tracing::debug!(proxy = %site.name, host = %Readable(&host), %error, "a spoiled handshake failed, as it should");
            None
        }
        Err(error) => {
            tracing::warn!(proxy = %site.name, host = %Readable(&host), %error, "the TLS handshake with the client failed");
            None
        }
    }
}

/// How long a client of HTTP/2 has to go after GOAWAY once none of its streams is open.
const GOODBYE: Duration = Duration::from_secs(1);

/// Serves HTTP on a connection that is ready for it; `began` is when the first bytes of its first request came, if they
/// have.
pub(crate) async fn serve_http(
    io: ClientIo<ByteGovernor>,
    control: SocketControl,
    inbound: &Inbound,
    via: RequestRoute,
    http2: bool,
    began: Option<Instant>,
) {
    let Inbound { connection, proxy } = inbound;
    let site = &connection.site;
    connection.speaks(true);
    let patient = control.clone();
    let client = Arc::new(Client {
        proxy: Arc::clone(proxy),
        connection: Arc::clone(connection),
        control,
        http2,
        via,
    });
    // Boxed: hyper keeps room for one as long as the connection lasts, and a stream is over for it once its head is there.
    let service = service_fn(move |request| Box::pin(exchange::run(Arc::clone(&client), request)));
    let io = TokioIo::new(if http2 { io.in_http2() } else { io.in_http1(proxy_error::instead_of) });
    let result = if http2 {
        let serving = http2::Builder::new(TokioExecutor::new())
            .adaptive_window(true)
            .auto_date_header(false)
            .enable_connect_protocol()
            .max_header_list_size(u32::try_from(MAX_HEADER_SECTION).unwrap_or(u32::MAX))
            .timer(TokioTimer::new())
            .serve_connection(io, service);
        let mut serving = pin!(serving);
        let phase = || patient.http2_phase();
        let ran_out = tokio::select! {
            biased;
            result = serving.as_mut() => Err(result),
            () = site.drain.cancelled() => Ok(Phase::Exchange),
            phase = run_out(phase, site.header_timeout(), site.idle_timeout(), None) => Ok(phase),
        };
        match ran_out {
            Err(result) => result,
            Ok(ran_out) => {
                serving.as_mut().graceful_shutdown();
                // A client that does not take its leave is left.
                let leaving = async {
                    loop {
                        sleep(GOODBYE).await;
                        if ran_out == Phase::Head || phase().0 == Phase::Idle {
                            return;
                        }
                    }
                };
                tokio::select! {
                    biased;
                    result = serving.as_mut() => result,
                    () = leaving => Ok(()),
                }
            }
        }
    } else {
        let serving = http1::Builder::new()
            .preserve_header_case(true)
            .auto_date_header(false)
            .max_header_size(MAX_HEADER_SECTION)
            .max_headers(MAX_HEADERS)
            // `run_out` does it, by one timer for all requests.
            .header_read_timeout(None)
            .serve_connection(io, service)
            .with_upgrades();
        let mut serving = pin!(serving);
        tokio::select! {
            biased;
            result = serving.as_mut() => result,
            () = site.drain.cancelled() => {
                serving.as_mut().graceful_shutdown();
                serving.await
            }
            phase = run_out(|| patient.phase(), site.header_timeout(), site.idle_timeout(), began) => {
                match phase {
                    Phase::Head => patient.fin_after(proxy_error::wire(&proxy_error::too_slow())),
                    _ => patient.fin_after_flush(),
                }
                serving.await
            }
        }
    };
    if let Err(error) = result {
        if error.is_user() && !http2 {
            tracing::warn!(proxy = %site.name, connection = connection.id, %error, "a response could not be sent");
        }
        tracing::debug!(proxy = %site.name, connection = connection.id, %error, "a client's connection ended early");
    }
    if let Some(relay) = connection.upgraded() {
        connection.speaks(false);
        relay.await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell() {
        for (bytes, sniffed) in [
            (&b"\x16\x03\x01\x05\xb7"[..], Some(Sniffed::Tls)),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Some(Sniffed::Http2)),
            (b"PRI * HT", None),
            (b"P", None),
            (b"POST / HT", Some(Sniffed::Http1)),
            (b"GET /x", Some(Sniffed::Http1)),
            (b"GET", None),
            (b"\x00\x00\x00\x08\x04\xd2\x16\x2f", Some(Sniffed::Other)),
            (b"SSH-2.0-OpenSSH", Some(Sniffed::Other)),
            (b"\x05\x01\x00", Some(Sniffed::Socks5)),
            (b"\x05", None),
            (b"\x05\x00", Some(Sniffed::Other)),
            (b"\x04\x01\x00\x50", Some(Sniffed::Socks4)),
            (b"\x04\x09", Some(Sniffed::Other)),
            (b"", None),
        ] {
            assert_eq!(Sniffed::by(bytes), sniffed, "{}", String::from_utf8_lossy(bytes));
        }
    }
}
