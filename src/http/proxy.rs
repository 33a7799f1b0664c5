//! An `http` or `forward` proxy: what its connections need besides their site.
use std::{path::PathBuf, sync::Arc};

use aconite_api::model::{Protocol, ProxySpec, ServerTls};
use http::HeaderMap;
use rustls::sign::CertifiedKey;

use super::{forward::ForwardRules, own_answer::Trouble, target::Target, upstream::Upstreams};
use crate::tls::{self, accept::Terminator, authority::Authority, files::FromFiles};

/// An `http` or `forward` proxy.
pub(crate) struct HttpProxy {
    pub(crate) role: Role,
    pub(crate) upstreams: Upstreams,
    pub(crate) terminator: Terminator,
    pub(crate) authority: Arc<Authority>,
}

/// What a proxy is to its clients.
pub(crate) enum Role {
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

impl Role {
    /// Reads a proxy's specification.
    ///
    /// # Errors
    /// The field that is not valid, and why.
    pub(crate) fn new(spec: &ProxySpec) -> Result<Self, (&'static str, String)> {
        if spec.protocol() == Protocol::Forward {
            return ForwardRules::new(spec).map(Self::Forward);
        }
        let target = Target::parse(&spec.upstream).map_err(|reason| ("upstream", reason))?;
        let tls = spec.tls.as_ref().map(server_leaf).transpose().map_err(|reason| ("tls", reason))?;
        Ok(Self::Reverse { target: Arc::new(target), tls })
    }

    pub(crate) fn is_forward(&self) -> bool {
        matches!(self, Self::Forward(_))
    }

    /// Whether a client that sends these headers may use the proxy.
    ///
    /// # Errors
    /// What the client is told.
    pub(crate) fn admit(&self, headers: &HeaderMap) -> Result<(), Trouble> {
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

fn server_leaf(files: &ServerTls) -> Result<ServerLeaf, String> {
    match (&files.cert, &files.key) {
        (Some(cert), Some(key)) => {
            let (cert, key) = (PathBuf::from(cert), PathBuf::from(key));
            let files = vec![cert.clone(), key.clone()];
            let read = move || tls::identity::read(&cert, &key);
            FromFiles::read(files, read, |error| tls::with_causes(error))
                .map(|files| ServerLeaf::Read(Arc::new(files)))
                .map_err(|error| tls::with_causes(&error))
        }
        (None, None) => Ok(ServerLeaf::Minted),
        _ => Err("`cert` and `key` go together".to_owned()),
    }
}
