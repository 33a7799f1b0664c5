//! Termination of TLS on the client's side, in two steps: first the ClientHello is read, so that the caller can decide by
//! the name in it, then the handshake is finished with the certificate that the caller chose.

use std::{io, sync::Arc, time::Duration};

use rustls::{
    AlertDescription, ServerConfig,
    server::{Acceptor, NoServerSessionStorage},
    sign::{CertifiedKey, SingleCertAndKey},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};
use tokio_rustls::{LazyConfigAcceptor, StartHandshake, server::TlsStream};

use super::{provider, tls_error};

/// A client's handshake that came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// The client refused the certificate, by an alert or by hanging up when it saw it. Either the local CA is not among
    /// its roots, or it accepts only certificates that it knows (pinning).
    #[error("client does not trust the local CA: it refused the certificate for `{host}` ({})", spell(*alert))]
    NotTrusted {
        /// The host of the certificate.
        host: String,
        /// What the client said, if it said anything.
        alert: Option<AlertDescription>,
    },
    /// What came is not TLS.
    #[error("the client does not speak TLS")]
    NotTls(#[source] rustls::Error),
    /// The client stayed silent.
    #[error("the client did not go on with the TLS handshake within {0:?}")]
    Timeout(Duration),
    /// Client and proxy cannot agree: on a version, a cipher, an application protocol.
    #[error("TLS handshake with the client failed for `{host}`")]
    Handshake {
        /// The host that the client asked for.
        host: String,
        /// Why.
        #[source]
        source: rustls::Error,
    },
    /// The connection broke, or ended before the ClientHello was complete.
    #[error("the connection ended during the TLS handshake")]
    Io(#[source] io::Error),
}

/// Terminates TLS. One serves all listeners: sessions resume by tickets that only this value can read.
#[derive(Clone)]
pub struct Terminator {
    resuming: Arc<ServerConfig>,
    fresh: Arc<ServerConfig>,
}

/// A connection whose ClientHello has been read.
pub struct Hello<IO> {
    start: StartHandshake<IO>,
    host: String,
    server_name: Option<String>,
    alpn: Vec<Vec<u8>>,
    patience: Duration,
    configs: Terminator,
}

impl Terminator {
    /// TLS 1.2 and 1.3, no client certificates.
    ///
    /// # Errors
    /// When the system gives no random numbers for the ticket key.
    pub fn new() -> Result<Self, rustls::Error> {
        // The certificate is put in when the client's wish is known.
        let nothing_yet = Arc::new(rustls::server::ResolvesServerCertUsingSni::new());
        let base = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(nothing_yet);
        let mut resuming = base.clone();
        resuming.ticketer = rustls::crypto::ring::Ticketer::new()?;
        let mut fresh = base;
        fresh.session_storage = Arc::new(NoServerSessionStorage {});
        fresh.send_tls13_tickets = 0;
        Ok(Self { resuming: Arc::new(resuming), fresh: Arc::new(fresh) })
    }

    /// Reads the ClientHello. `fallback` is the host when the client names none, as it is for IP addresses: the target
    /// of CONNECT, or the listener's own. `patience` is the time for this step, and again for [`Hello::finish`].
    ///
    /// # Errors
    /// [`AcceptError::NotTls`], after the client has been told so by an alert, [`AcceptError::Timeout`] or
    /// [`AcceptError::Io`].
    pub async fn hello<IO>(
        &self,
        io: IO,
        fallback: &str,
        patience: Duration,
    ) -> Result<Hello<IO>, AcceptError>
    where
        IO: AsyncRead + AsyncWrite + Unpin,
    {
        let start = timeout(patience, LazyConfigAcceptor::new(Acceptor::default(), io))
            .await
            .map_err(|_| AcceptError::Timeout(patience))?
            .map_err(|error| match tls_error(&error) {
                Some(wrong) => AcceptError::NotTls(wrong.clone()),
                None => AcceptError::Io(error),
            })?;
        let hello = start.client_hello();
        let server_name = hello.server_name().map(str::to_owned);
        Ok(Hello {
            host: server_name.clone().unwrap_or_else(|| fallback.to_owned()),
            server_name,
            alpn: hello.alpn().into_iter().flatten().map(<[u8]>::to_vec).collect(),
            patience,
            configs: self.clone(),
            start,
        })
    }
}

impl<IO> Hello<IO>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    /// The host that the client wants to see certified: the server name, else the fallback.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The server name indication (RFC 6066, section 3), if there is one.
    #[must_use]
    pub fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    /// The application protocols that the client offers, its favourite first.
    #[must_use]
    pub fn alpn(&self) -> &[Vec<u8>] {
        &self.alpn
    }

    /// Whether the client offers `protocol`.
    #[must_use]
    pub fn offers(&self, protocol: &[u8]) -> bool {
        self.alpn.iter().any(|offered| offered == protocol)
    }

    /// Finishes the handshake with `leaf` and the first of `alpn` that the client offers too. A client that offers no
    /// protocol at all gets none. A returning client may resume its session.
    ///
    /// # Errors
    /// Any [`AcceptError`] but [`AcceptError::NotTls`].
    pub async fn finish(self, alpn: &[&[u8]], leaf: Arc<CertifiedKey>) -> Result<TlsStream<IO>, AcceptError> {
        let config = ServerConfig::clone(&self.configs.resuming);
        self.finish_with(config, alpn, leaf).await
    }

    /// As [`Self::finish`], but without resumption: the client has to look at the certificate, which is the point when
    /// it is a bad one.
    ///
    /// # Errors
    /// Any [`AcceptError`] but [`AcceptError::NotTls`].
    pub async fn finish_fresh(
        self,
        alpn: &[&[u8]],
        leaf: Arc<CertifiedKey>,
    ) -> Result<TlsStream<IO>, AcceptError> {
        let config = ServerConfig::clone(&self.configs.fresh);
        self.finish_with(config, alpn, leaf).await
    }

    /// Ends the handshake by a fatal alert and gives the connection back, for the caller to close.
    ///
    /// # Errors
    /// When the alert cannot be written.
    pub async fn refuse(self, alert: AlertDescription) -> io::Result<IO> {
        // A record of type alert (21), version TLS 1.2, two bytes: fatal (2), description (RFC 8446, sections 5.1, 6).
        let record = [21, 3, 3, 0, 2, 2, u8::from(alert)];
        let mut io = self.start.io;
        io.write_all(&record).await?;
        io.flush().await?;
        Ok(io)
    }

    /// Gives up on the handshake without a word and gives the connection back.
    #[must_use]
    pub fn into_io(self) -> IO {
        self.start.io
    }

    async fn finish_with(
        self,
        mut config: ServerConfig,
        alpn: &[&[u8]],
        leaf: Arc<CertifiedKey>,
    ) -> Result<TlsStream<IO>, AcceptError> {
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        config.cert_resolver = Arc::new(SingleCertAndKey::from(leaf));
        let host = self.host;
        timeout(self.patience, self.start.into_stream(Arc::new(config)))
            .await
            .map_err(|_| AcceptError::Timeout(self.patience))?
            .map_err(|error| classify(error, host))
    }
}

/// What a failure after our certificate was sent means.
fn classify(error: io::Error, host: String) -> AcceptError {
    match tls_error(&error) {
        Some(rustls::Error::AlertReceived(alert)) if refuses_certificate(*alert) => {
            AcceptError::NotTrusted { host, alert: Some(*alert) }
        }
        Some(source) => AcceptError::Handshake { host, source: source.clone() },
        None if hung_up(error.kind()) => AcceptError::NotTrusted { host, alert: None },
        None => AcceptError::Io(error),
    }
}

/// The alerts by which clients say that they dislike a certificate (RFC 8446, section 6.2). OpenSSL sends `unknown_ca`,
/// Go `bad_certificate`, Java and Chromium `certificate_unknown`.
fn refuses_certificate(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
    )
}

fn hung_up(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
    )
}

fn spell(alert: Option<AlertDescription>) -> String {
    alert.map_or_else(
        || "closed the connection on seeing it".to_owned(),
        |said| format!("alert {}, {said:?}", u8::from(said)),
    )
}
