//! A proxy: what its connections share, and how they are served.
use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use aconite_api::model::{Protocol, ProxySpec};
use aconite_toxics::{Catalogue, ConnectFault, Direction, HostPort, bytes::EARLIEST_RESET, host::bracketed};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::{
    connection::{ConnectionShared, PlanReceiver},
    http::{self, ForwardRules, Place, Target, Upstreams, Way},
    journal::Journal,
    link::{self, Counters, Lane, ProxyHeld},
    metrics::SharedMetrics,
    supervisor::Shared,
    tls::{self, files::FromFiles},
};

mod listening;

pub(crate) use listening::{Bound, Listening};

/// What a proxy's connections know of it. A changed proxy has a new one.
pub(crate) struct ProxyContext {
    pub(crate) name: Arc<str>,
    pub(crate) spec: ProxySpec,
    pub(crate) plan: PlanReceiver,
    pub(crate) journal: Arc<Journal>,
    pub(crate) metrics: SharedMetrics,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) traffic: Arc<Counters>,
    /// What the toxics on its connections hold.
    pub(crate) held: Arc<ProxyHeld>,
    pub(crate) upstreams: Upstreams,
    pub(crate) kind: Kind,
    pub(crate) terminator: tls::accept::Terminator,
    pub(crate) authority: Arc<tls::authority::Authority>,
    pub(crate) max_edit_bytes: usize,
    pub(crate) header_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    /// Lets what is under way end, and begins nothing new.
    pub(crate) drain: CancellationToken,
    /// Connections of this proxy that are open.
    connections: Mutex<HashMap<u64, Arc<ConnectionShared>>>,
    /// Outlive a change of the proxy.
    pub(crate) numbers: Arc<Numbers>,
}

/// What the proxy speaks, with what that needs.
pub(crate) enum Kind {
    Tcp {
        host: String,
        port: u16,
    },
    /// With what it serves TLS with, if it does.
    Http {
        target: Arc<Target>,
        tls: Option<ServerLeaf>,
    },
    Forward(ForwardRules),
}

/// The certificate that an `http` proxy shows to its clients.
#[derive(Clone)]
pub(crate) enum ServerLeaf {
    /// Read from files, and again when they change.
    Read(Arc<FromFiles<rustls::sign::CertifiedKey>>),
    /// Minted by the local CA for the name that the client asks for, else for the address that it connected to.
    Minted,
}

/// Counts what the dice are thrown for.
#[derive(Default)]
pub(crate) struct Numbers {
    connections: AtomicU64,
    exchanges: AtomicU64,
    /// By the hash of the test's id, which may be long.
    by_test: Mutex<HashMap<u64, u64>>,
    hasher: RandomState,
}

/// Tests whose exchanges are counted apart; beyond that all are forgotten.
const MAX_TESTS: usize = 10_000;

static CONNECTION_IDS: AtomicU64 = AtomicU64::new(1);

impl ProxyContext {
    pub(crate) fn new(
        spec: ProxySpec,
        plan: PlanReceiver,
        shared: &Shared,
        traffic: Arc<Counters>,
        upstreams: Upstreams,
        kind: Kind,
        numbers: Arc<Numbers>,
    ) -> Self {
        let or = |given: Option<aconite_toxics::Millis>, default: u64| {
            given.map_or_else(|| Duration::from_millis(default), Duration::from)
        };
        Self {
            name: spec.name.as_str().into(),
            plan,
            journal: Arc::clone(&shared.journal),
            metrics: Arc::clone(&shared.metrics),
            catalogue: Arc::clone(&shared.catalogue),
            traffic,
            held: Arc::default(),
            upstreams,
            kind,
            terminator: shared.terminator.clone(),
            authority: Arc::clone(&shared.authority),
            max_edit_bytes: spec.max_edit_bytes.unwrap_or(16 * 1024 * 1024),
            header_timeout: or(spec.header_timeout, 30_000),
            idle_timeout: or(spec.idle_timeout, 300_000),
            drain: shared.drain.clone(),
            connections: Mutex::default(),
            numbers,
            spec,
        }
    }

    /// The number of the next connection, from 0.
    pub(crate) fn next_connection(&self) -> u64 {
        self.metrics.connections.fetch_add(1, Relaxed);
        self.numbers.connections.fetch_add(1, Relaxed)
    }

    /// A number that no other connection of the process has.
    pub(crate) fn next_id(&self) -> u64 {
        CONNECTION_IDS.fetch_add(1, Relaxed)
    }

    /// The number of the next exchange, from 0; a test's exchanges are counted by themselves, so
    /// that tests that run side by side do not change each other's dice.
    pub(crate) fn number_of(&self, test_id: Option<&str>) -> u64 {
        self.metrics.exchanges.fetch_add(1, Relaxed);
        let Some(test_id) = test_id else { return self.numbers.exchanges.fetch_add(1, Relaxed) };
        let test = self.numbers.hasher.hash_one(test_id);
        let mut by_test = self.numbers.by_test.lock().unwrap_or_else(PoisonError::into_inner);
        if by_test.len() >= MAX_TESTS && !by_test.contains_key(&test) {
            by_test.clear();
        }
        let count = by_test.entry(test).or_default();
        *count += 1;
        *count - 1
    }

    fn open(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<ConnectionShared>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connections that are open.
    pub(crate) fn live(&self) -> Vec<Arc<ConnectionShared>> {
        self.open().values().cloned().collect()
    }
}

/// Serves one connection to its end.
async fn serve(stream: TcpStream, connection: Arc<ConnectionShared>) {
    #[cfg(not(target_os = "linux"))]
    link::prepare(&stream);
    let on_accept = |fault| matches!(fault, ConnectFault::ResetOnAccept(_) | ConnectFault::CloseOnAccept(_));
    let spoiled = connection.connect_fault(on_accept, None);
    match spoiled {
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
    match &connection.proxy.kind {
        Kind::Tcp { host, port } => {
            let stop = connection.stop.clone();
            tokio::select! {
                () = stop.cancelled() => {}
                upstream = reach(&connection, &stream, host, *port) => {
                    if let Some(upstream) = upstream {
                        relay(stream, upstream, &connection).await;
                    }
                }
            }
        }
        Kind::Http { .. } | Kind::Forward(_) => http::serve(stream, connection).await,
    }
}

/// The upstream's connection of a `tcp` proxy; `None` if there is none, and the client's then ends the same way.
pub(crate) async fn reach(
    connection: &ConnectionShared,
    client: &TcpStream,
    host: &str,
    port: u16,
) -> Option<TcpStream> {
    let upstreams = &connection.proxy.upstreams;
    let asked = Place::configured(host, port);
    let place = match connection.connect_fault(|_| true, None).into() {
        Way::AsAsked => asked,
        Way::At(address) => asked.at(address),
        Way::Fails(ConnectFault::StaleAddress(_)) => {
            let leaving = link::closed_by_peer(client);
            // As if it had been tried.
            let _ = tokio::time::timeout(upstreams.connect_timeout, leaving).await;
            return None;
        }
        Way::Fails(ConnectFault::Blackhole | ConnectFault::DnsTimeout | ConnectFault::TlsStall) => {
            link::closed_by_peer(client).await;
            return None;
        }
        Way::Fails(_) => return None,
    };
    match upstreams.dial(&place).await {
        Ok((stream, address)) => {
            connection.reached(address);
            connection.leads_to(&format!("{}:{}", bracketed(&place.host), place.port));
            Some(stream)
        }
        Err(error) => {
            tracing::warn!(proxy = %connection.proxy.name, %error, "no connection to the upstream");
            None
        }
    }
}

/// Moves bytes both ways, through the connection's byte toxics.
pub(crate) async fn relay(client: TcpStream, upstream: TcpStream, connection: &Arc<ConnectionShared>) {
    let up = Lane::new(connection.opened, connection.governor(Direction::Upstream));
    let down = Lane::new(connection.opened, connection.governor(Direction::Downstream));
    let relay = link::relay(client, upstream, up, down, &connection.counters, connection.stop.cancelled());
    let ending = relay.await;
    tracing::debug!(proxy = %connection.proxy.name, connection = connection.id, ?ending, "a connection ended");
}

/// What a proxy speaks, by its spec.
///
/// # Errors
/// The field that does not hold, and why.
pub(crate) fn kind(spec: &ProxySpec) -> Result<Kind, (&'static str, String)> {
    match spec.protocol() {
        // Toxiproxy lets a change empty the upstream; it cannot be reached then.
        Protocol::Tcp if spec.upstream.is_empty() => Ok(Kind::Tcp { host: String::new(), port: 0 }),
        Protocol::Tcp => {
            let upstream =
                HostPort::parse(&spec.upstream).map_err(|error| ("upstream", error.to_string()))?;
            // An upstream without a port can be configured, as Toxiproxy has it; it cannot be reached.
            Ok(Kind::Tcp { host: upstream.host().to_owned(), port: upstream.port().unwrap_or(0) })
        }
        Protocol::Http => {
            let target = Target::parse(&spec.upstream).map_err(|reason| ("upstream", reason))?;
            let tls = match &spec.tls {
                None => None,
                Some(files) => Some(server_leaf(files).map_err(|reason| ("tls", reason))?),
            };
            Ok(Kind::Http { target: Arc::new(target), tls })
        }
        Protocol::Forward => ForwardRules::new(spec).map(Kind::Forward),
    }
}

fn server_leaf(files: &aconite_api::model::ServerTls) -> Result<ServerLeaf, String> {
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
