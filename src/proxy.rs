//! A running proxy: it accepts connections and serves each by its protocol.
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use aconite_api::model::{Protocol, ProxySpec, ServerTls};
use aconite_toxics::{ConnectFault, HostPort, SpecError, bytes::EARLIEST_RESET};
use tokio::net::TcpStream;

use crate::{
    connection::ConnectionShared,
    dial::{DialTarget, Dialer},
    http::{self, ForwardRules, HttpProxy, ProxyMode, ServerLeaf, Target},
    site::Site,
    tcp,
    tls::{self, files::FromFiles},
};

mod listening;

pub(crate) use listening::{Bound, Listening};

/// A running proxy. A changed proxy is a new one.
pub(crate) struct Proxy {
    pub(crate) site: Arc<Site>,
    pub(crate) service: Service,
    connections: Mutex<HashMap<u64, Arc<ConnectionShared>>>,
}

/// How connections are served.
pub(crate) enum Service {
    Tcp { host: String, port: u16, dialer: Dialer },
    Http(Arc<HttpProxy>),
}

/// What a proxy's specification says of its protocol.
pub(crate) enum Kind {
    Tcp { host: String, port: u16 },
    Http(ProxyMode),
}

impl Kind {
    /// Reads a specification.
    ///
    /// # Errors
    /// The first mistake.
    pub(crate) fn new(spec: &ProxySpec) -> Result<Self, SpecError> {
        match spec.protocol() {
            // Toxiproxy lets a change empty the upstream; it cannot be reached then.
            Protocol::Tcp if spec.upstream.is_empty() => Ok(Self::Tcp { host: String::new(), port: 0 }),
            Protocol::Tcp => {
                let upstream = HostPort::parse(&spec.upstream);
                let upstream = upstream.map_err(|error| SpecError::new("upstream", error.to_string()))?;
                // Toxiproxy accepts an upstream without a port; it cannot be reached.
                Ok(Self::Tcp { host: upstream.host().to_owned(), port: upstream.port().unwrap_or(0) })
            }
            Protocol::Http => {
                let target =
                    Target::parse(&spec.upstream).map_err(|reason| SpecError::new("upstream", reason))?;
                let tls = spec
                    .tls
                    .as_ref()
                    .map(server_leaf)
                    .transpose()
                    .map_err(|reason| SpecError::new("tls", reason))?;
                Ok(Self::Http(ProxyMode::Reverse { target: Arc::new(target), tls }))
            }
            Protocol::Forward => {
                let rules =
                    ForwardRules::new(spec.intercept.as_deref(), &spec.map, spec.credentials.as_deref())?;
                Ok(Self::Http(ProxyMode::Forward(rules)))
            }
        }
    }
}

impl Proxy {
    pub(crate) fn new(site: Site, service: Service) -> Self {
        Self { site: Arc::new(site), service, connections: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<ConnectionShared>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connections that are open.
    pub(crate) fn live(&self) -> Vec<Arc<ConnectionShared>> {
        self.open().values().cloned().collect()
    }

    /// Reads the certificate's files again, if there are any.
    pub(crate) fn refresh(&self) {
        let Service::Http(http) = &self.service else { return };
        if let Err(error) = http.role.refresh() {
            tracing::error!(proxy = %self.site.name, %error, "the proxy's certificate cannot be read again");
        }
    }

    fn dialer(&self) -> &Dialer {
        match &self.service {
            Service::Tcp { dialer, .. } => dialer,
            Service::Http(http) => &http.upstreams.dialer,
        }
    }
}

/// Serves one connection to its end.
async fn serve(stream: TcpStream, connection: Arc<ConnectionShared>, service: &Service) {
    #[cfg(not(target_os = "linux"))]
    crate::link::prepare(&stream);
    let on_accept = |fault| matches!(fault, ConnectFault::ResetOnAccept(_) | ConnectFault::CloseOnAccept(_));
    match connection.connect_fault(on_accept, None) {
        Some(ConnectFault::ResetOnAccept(after)) => {
            tokio::time::sleep(after.max(EARLIEST_RESET)).await;
            let _ = stream.set_zero_linger();
            return;
        }
        Some(ConnectFault::CloseOnAccept(after)) => {
            tokio::time::sleep(after).await;
            return;
        }
        _ => {}
    }
    match service {
        Service::Tcp { host, port, dialer } => {
            let stop = connection.stop.clone();
            tokio::select! {
                () = stop.cancelled() => {}
                upstream = tcp::connect(&connection, &stream, dialer, DialTarget::configured(host, *port)) => {
                    if let Some(upstream) = upstream {
                        tcp::relay(stream, upstream, &connection).await;
                    }
                }
            }
        }
        Service::Http(http) => http::serve(stream, connection, Arc::clone(http)).await,
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
