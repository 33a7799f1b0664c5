//! TLS on both sides of the proxy: a local authority that mints certificates, termination of what clients send
//! ([`accept`]), and connections to upstreams ([`connect`]).
//!
//! Nothing here listens, dials or logs about traffic: it is handed an open byte stream and gives back a TLS one or a
//! typed error. The cryptographic provider is passed to rustls explicitly, so no process-wide default is needed or set.

pub mod accept;
pub mod authority;
pub mod connect;
pub(crate) mod files;
pub mod host;
pub mod identity;
pub mod roots;
mod verify;

#[cfg(test)]
mod tests;

use std::{
    io,
    sync::{Arc, LazyLock},
};

use rustls::{AlertDescription, crypto::CryptoProvider};
pub use tokio_rustls::{client, server};

/// The ALPN name of HTTP/2 over TLS (RFC 9113, section 3.1).
pub const ALPN_H2: &[u8] = b"h2";
/// The ALPN name of HTTP/1.1 (RFC 7301, section 6).
pub const ALPN_HTTP1: &[u8] = b"http/1.1";

/// A TLS stream that knows which application protocol both sides agreed on.
pub trait Negotiated {
    /// The protocol chosen by ALPN, or `None` when the client or the server offered none.
    fn alpn(&self) -> Option<&[u8]>;

    /// Whether the stream carries HTTP/2.
    fn is_h2(&self) -> bool {
        self.alpn() == Some(ALPN_H2)
    }
}

impl<IO> Negotiated for client::TlsStream<IO> {
    fn alpn(&self) -> Option<&[u8]> {
        self.get_ref().1.alpn_protocol()
    }
}

impl<IO> Negotiated for server::TlsStream<IO> {
    fn alpn(&self) -> Option<&[u8]> {
        self.get_ref().1.alpn_protocol()
    }
}

/// The fatal alert by which the peer ended the session, if that is what `error` says.
///
/// In TLS 1.3 a server judges the client's certificate after the client's handshake is over, so the refusal
/// (`certificate_required`, `unknown_ca`, …) comes with the first read and not from the handshake.
#[must_use]
pub fn alert_in(error: &io::Error) -> Option<AlertDescription> {
    match tls_error(error)? {
        rustls::Error::AlertReceived(alert) => Some(*alert),
        _ => None,
    }
}

/// The TLS error inside an I/O error of a TLS stream.
fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// The one cryptographic provider of the process.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> =
        LazyLock::new(|| Arc::new(rustls::crypto::ring::default_provider()));
    Arc::clone(&PROVIDER)
}

/// An error and its causes in one line, for where there is room for one text only.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(&format!(": {cause}"));
        next = cause.source();
    }
    text
}
