//! Clients that speak another protocol than the port does: each is told so in its own, as far as that goes.
use std::{sync::Arc, time::Duration};

use http::{HeaderMap, Method, StatusCode};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{Sniffed, inbound::Inbound};
use crate::{
    http::{
        client::guard,
        proxy_error::{self, ProxyError},
    },
    journal::ExchangeStart,
};

/// A fatal alert, `handshake_failure` (RFC 8446, sections 5.1 and 6).
const TLS_ALERT: &[u8] = &[21, 3, 3, 0, 2, 2, 40];
/// No acceptable methods (RFC 1928, section 3).
const SOCKS5_REFUSAL: &[u8] = &[5, 0xff];
/// Request rejected or failed.
const SOCKS4_REFUSAL: &[u8] = &[0, 0x5b, 0, 0, 0, 0, 0, 0];
/// How long a client has to read the refusal.
const LINGER: Duration = Duration::from_secs(1);

/// Tells a client that it speaks the wrong protocol, the log and the journal which one is right, and closes.
pub(crate) async fn refuse(mut stream: TcpStream, inbound: &Inbound, spoken: Sniffed) {
    let Inbound { connection, proxy } = inbound;
    let site = &connection.site;
    let forward = proxy.role.is_forward();
    let (name, text) = match spoken {
        Sniffed::Tls if forward => (
            "TLS",
            "this proxy does not speak TLS with its clients: write http://, not https://, in HTTPS_PROXY",
        ),
        Sniffed::Tls => {
            ("TLS", "this port speaks plain HTTP: write http:// in the URL, or give the proxy `tls: {}`")
        }
        Sniffed::Socks4 => ("SOCKS4", "this proxy does not speak SOCKS: write http:// in place of socks4://"),
        Sniffed::Socks5 => ("SOCKS5", "this proxy does not speak SOCKS: write http:// in place of socks5://"),
        Sniffed::Http1 | Sniffed::Http2 | Sniffed::Other => {
            ("HTTP", "this port speaks TLS: write https:// in the URL")
        }
    };
    tracing::warn!(proxy = %site.name, peer = %connection.peer, spoken = name, "{text}");
    let trouble = ProxyError::new(StatusCode::BAD_REQUEST, "wrong_protocol", text).closing();
    let head = ExchangeStart {
        proxy: Arc::clone(&site.name),
        connection: connection.id,
        method: Method::from_bytes(name.as_bytes()).unwrap_or_default(),
        host: "".into(),
        path: "".into(),
        dialect: None,
        operation: None,
        scene: None,
        test_id: None,
    };
    guard::record_refusal(connection, head, &HeaderMap::new(), &trouble);
    let plain = proxy_error::wire(&proxy_error::refusal(&trouble));
    let answer = match spoken {
        Sniffed::Tls => TLS_ALERT,
        Sniffed::Socks4 => SOCKS4_REFUSAL,
        Sniffed::Socks5 => SOCKS5_REFUSAL,
        Sniffed::Http1 | Sniffed::Http2 | Sniffed::Other => &plain,
    };
    // Closed with bytes unread, the kernel would send a reset, which can overtake the answer. A client that has left
    // needs none.
    let telling = async {
        stream.write_all(answer).await?;
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(64 * 1024), &mut tokio::io::sink()).await
    };
    let _ = tokio::time::timeout(LINGER, telling).await;
}
