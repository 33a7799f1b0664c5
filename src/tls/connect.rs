//! TLS to upstreams, verified unless the configuration says otherwise.

use std::{io, path::PathBuf, sync::Arc};

use rustls::{AlertDescription, ClientConfig, pki_types::ServerName, sign::SingleCertAndKey};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{
    host::{self, BadHost},
    identity::{self, IdentityError},
    provider, roots, tls_error,
    verify::Verifier,
};

/// How one proxy talks TLS to its upstream. The default trusts the system's roots and shows no certificate.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct UpstreamTls {
    /// PEM file with roots to trust besides those of the system. A self-signed server certificate may be given too: it
    /// is then trusted as it is.
    pub ca: Option<PathBuf>,
    /// PEM file with the certificate, and chain, to show to an upstream that asks for one.
    pub client_cert: Option<PathBuf>,
    /// PEM file with its key. Default: the file of the certificate.
    pub client_key: Option<PathBuf>,
    /// The name to ask for and to verify in place of the upstream's host.
    pub server_name: Option<String>,
    /// Whether to trust any certificate. Default: false.
    pub insecure: bool,
}

/// A configuration that cannot work.
#[derive(Debug, thiserror::Error)]
pub enum ConnectorError {
    /// A file cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// There is a key but no certificate.
    #[error("`client_key` is given without `client_cert`")]
    KeyWithoutCertificate,
    /// `server_name` is not a name.
    #[error(transparent)]
    ServerName(#[from] BadHost),
    /// rustls refuses the configuration.
    #[error("the TLS settings for the upstream cannot be used")]
    Settings(#[from] rustls::Error),
}

/// A handshake with an upstream that came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The name to ask for is not a name.
    #[error(transparent)]
    Host(#[from] BadHost),
    /// The upstream's certificate is not valid for the host, or comes from an authority that is not trusted.
    #[error("the certificate of upstream `{host}` is not trusted")]
    Untrusted {
        /// The host that was asked for.
        host: String,
        /// Why.
        #[source]
        source: rustls::Error,
    },
    /// The upstream refused by an alert.
    #[error("upstream `{host}` refused the TLS handshake (alert {}, {alert:?})", u8::from(*alert))]
    Refused {
        /// The host that was asked for.
        host: String,
        /// What it said.
        alert: AlertDescription,
    },
    /// The upstream does not speak TLS, or not in a way that both sides can.
    #[error("TLS handshake with upstream `{host}` failed")]
    Handshake {
        /// The host that was asked for.
        host: String,
        /// Why.
        #[source]
        source: rustls::Error,
    },
    /// The connection broke or was closed.
    #[error("the connection to upstream `{host}` ended during the TLS handshake")]
    Io {
        /// The host that was asked for.
        host: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Speaks TLS to upstreams under one identity.
///
/// Clones share the cache of sessions, separate connectors never do, so a session that was opened with one client
/// certificate is not resumed with another. Build one per configuration and keep it: reading the system's roots takes
/// milliseconds.
#[derive(Clone)]
pub struct Connector {
    tls: TlsConnector,
    server_name: Option<ServerName<'static>>,
}

impl Connector {
    /// Reads the files that `settings` names, and the system's roots.
    ///
    /// # Errors
    /// When a file cannot be used or the settings contradict each other. Having no roots at all is not an error here: then
    /// no upstream is trusted.
    pub fn new(settings: &UpstreamTls) -> Result<Self, ConnectorError> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier(settings)?));
        let config = match (&settings.client_cert, &settings.client_key) {
            (Some(cert), key) => {
                let own = identity::read(cert, key.as_ref().unwrap_or(cert))?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own)))
            }
            (None, Some(_)) => return Err(ConnectorError::KeyWithoutCertificate),
            (None, None) => builder.with_no_client_auth(),
        };
        let server_name = settings.server_name.as_deref().map(host::parse).transpose()?;
        Ok(Self { tls: TlsConnector::from(Arc::new(config)), server_name })
    }

    /// Performs the handshake over `io`, asking for `server_name` (or what the settings put in its place) and offering
    /// `alpn`, the favourite first; what was agreed on is told by [`super::Negotiated`].
    ///
    /// There is no clock here: dialling and handshake belong under one deadline, which is the caller's.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect<IO>(
        &self,
        io: IO,
        server_name: &str,
        alpn: &[&[u8]],
    ) -> Result<TlsStream<IO>, ConnectError>
    where
        IO: AsyncRead + AsyncWrite + Unpin,
    {
        let name = match &self.server_name {
            Some(instead) => instead.clone(),
            None => host::parse(server_name)?,
        };
        let offers = alpn.iter().map(|protocol| protocol.to_vec()).collect();
        self.tls
            .with_alpn(offers)
            .connect(name.clone(), io)
            .await
            .map_err(|error| classify(error, name.to_str().into_owned()))
    }
}

fn verifier(settings: &UpstreamTls) -> Result<Verifier, IdentityError> {
    if settings.insecure {
        return Ok(Verifier::trusting_anything());
    }
    let named = match &settings.ca {
        Some(path) => identity::certificates(path)?,
        None => Vec::new(),
    };
    Ok(Verifier::trusting(roots::system(), named))
}

fn classify(error: io::Error, host: String) -> ConnectError {
    match tls_error(&error) {
        Some(source @ rustls::Error::InvalidCertificate(_)) => {
            ConnectError::Untrusted { host, source: source.clone() }
        }
        Some(rustls::Error::AlertReceived(alert)) => ConnectError::Refused { host, alert: *alert },
        Some(source) => ConnectError::Handshake { host, source: source.clone() },
        None => ConnectError::Io { host, source: error },
    }
}
