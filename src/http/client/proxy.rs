//! An `http` or `forward` proxy: what its connections need besides their site.
use std::sync::Arc;

use http::HeaderMap;
use rustls::sign::CertifiedKey;

use super::forward::ForwardRules;
use crate::{
    http::{proxy_error::ProxyError, target::Target, upstream::Upstreams},
    tls::{accept::Terminator, authority::Authority, files::FromFiles},
};

/// An `http` or `forward` proxy.
pub(crate) struct HttpProxy {
    pub(crate) role: ProxyMode,
    pub(crate) upstreams: Upstreams,
    /// Whether the upstream is declared to speak HTTP/2 only.
    pub(crate) http2_only: bool,
    pub(crate) terminator: Terminator,
    pub(crate) authority: Arc<Authority>,
}

/// What a proxy is to its clients.
pub(crate) enum ProxyMode {
    /// A server: all requests go to one upstream.
    Reverse {
        target: Arc<Target>,
        /// The certificate, if it serves TLS.
        tls: Option<ServerLeaf>,
    },
    /// A proxy: the requests say where they go.
    Forward(ForwardRules),
}

/// The certificate that an `http` proxy shows to its clients.
#[derive(Clone)]
pub(crate) enum ServerLeaf {
    /// Read from files, and again when they change.
    Read(Arc<FromFiles<CertifiedKey>>),
    /// Minted by the local CA for the name that the client asks for, else for the address that it connected to.
    Minted,
}

impl ProxyMode {
    pub(crate) fn is_forward(&self) -> bool {
        matches!(self, Self::Forward(_))
    }

    /// Whether a client that sends these headers may use the proxy.
    ///
    /// # Errors
    /// What the client is told.
    pub(crate) fn admit(&self, headers: &HeaderMap) -> Result<(), ProxyError> {
        match self {
            Self::Forward(rules) => rules.admit(headers),
            Self::Reverse { .. } => Ok(()),
        }
    }

    /// Reads the certificate's files again.
    ///
    /// # Errors
    /// If they cannot be used. The certificate stays as it is.
    pub(crate) fn refresh(&self) -> Result<(), String> {
        match self {
            Self::Reverse { tls: Some(ServerLeaf::Read(files)), .. } => files.refresh(),
            Self::Reverse { .. } | Self::Forward(_) => Ok(()),
        }
    }
}
