//! The set of running proxies, and every change of it: all or nothing, one at a time.
mod apply;
mod check;
mod control;
mod drain;
mod entry;

use std::{
    collections::{BTreeMap, HashMap},
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError, RwLock, Weak},
    time::Duration,
};

use aconite_api::{
    ControlError,
    model::{Chaos, ProxySpec, Rule, Switch, UpstreamTls},
};
use aconite_toxics::Catalogue;
use tokio::{sync::Notify, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    http::{Chains, OffLimits, Pool, Upstreams, sweep_regularly},
    journal::{self, Journal, Outlets},
    metrics::SharedMetrics,
    proxy::Listening,
    tls,
    workers::Workers,
};
use entry::Entry;

/// What all proxies of an instance share.
pub(crate) struct Shared {
    pub(crate) seed: u64,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) metrics: SharedMetrics,
    pub(crate) authority: Arc<tls::authority::Authority>,
    pub(crate) terminator: tls::accept::Terminator,
    /// Lets what is under way end, and begins nothing new.
    pub(crate) drain: CancellationToken,
    pub(crate) tracker: TaskTracker,
    pub(crate) workers: Arc<Workers>,
    pool: Arc<Pool>,
    chains: Arc<Chains>,
    connectors: Mutex<HashMap<UpstreamTls, (usize, Arc<tls::connect::Connector>)>>,
    /// The admin API, where nothing but its address guards it.
    admin: Option<SocketAddr>,
}

impl Shared {
    pub(crate) fn new(
        seed: u64,
        catalogue: Catalogue,
        authority: Arc<tls::authority::Authority>,
        terminator: tls::accept::Terminator,
        outlets: Outlets,
        workers: usize,
    ) -> io::Result<Self> {
        let pool = Arc::<Pool>::default();
        // Ends with the pool.
        tokio::spawn(sweep_regularly(Arc::downgrade(&pool)));
        let tracker = TaskTracker::new();
        Ok(Self {
            seed,
            catalogue: Arc::new(catalogue),
            journal: Arc::new(Journal::new(outlets)),
            metrics: SharedMetrics::default(),
            authority,
            terminator,
            drain: CancellationToken::new(),
            workers: Workers::start(workers, &tracker)?,
            tracker,
            pool,
            chains: Arc::default(),
            connectors: Mutex::default(),
            admin: None,
        })
    }

    /// Keeps proxies from connecting their clients to the admin API on this address.
    pub(crate) fn keep_from(&mut self, admin: SocketAddr) {
        self.admin = Some(admin);
    }

    /// How a proxy reaches upstreams. Equal TLS settings share connections, others never.
    fn upstreams(&self, spec: &ProxySpec, own: Option<SocketAddr>) -> Result<Upstreams, ControlError> {
        let settings = spec.upstream_tls.clone().unwrap_or_default();
        let mut connectors = self.connectors.lock().unwrap_or_else(PoisonError::into_inner);
        let next = connectors.len();
        let (identity, connector) = match connectors.get(&settings) {
            Some((identity, connector)) => (*identity, Arc::clone(connector)),
            None => {
                let connector = tls::connect::Connector::new(&tls_settings(&settings))
                    .map_err(|error| ControlError::invalid("upstream_tls", tls::with_causes(&error)))?;
                let connector = Arc::new(connector);
                connectors.insert(settings, (next, Arc::clone(&connector)));
                (next, connector)
            }
        };
        Ok(Upstreams {
            pool: Arc::clone(&self.pool),
            connector,
            identity,
            connect_timeout: spec.connect_timeout.map_or(Duration::from_secs(10), Duration::from),
            off_limits: OffLimits { own, admin: self.admin, chains: Arc::clone(&self.chains) },
        })
    }
}

fn tls_settings(settings: &UpstreamTls) -> tls::connect::UpstreamTls {
    tls::connect::UpstreamTls {
        ca: settings.ca.as_ref().map(Into::into),
        client_cert: settings.client_cert.as_ref().map(Into::into),
        client_key: settings.client_key.as_ref().map(Into::into),
        server_name: settings.server_name.clone(),
        insecure: settings.insecure,
    }
}

/// Runs the proxies and answers the admin API.
pub(crate) struct Supervisor {
    pub(crate) shared: Shared,
    proxies: RwLock<BTreeMap<String, Entry>>,
    /// Held while listeners come and go: one change at a time, in some serial order.
    changing: tokio::sync::Mutex<()>,
    switch: Mutex<Switched>,
    /// Whether chaos may be enabled here.
    allowed: bool,
    windows: Notify,
    /// Told when proxies were created, moved or deleted.
    listeners: Notify,
}

/// The kill switch's state.
struct Switched {
    enabled: bool,
    by: Option<String>,
    reason: Option<String>,
    since: String,
}

impl Supervisor {
    /// No proxies yet. With `enabled` false toxics rest until they are switched on, which `allowed` permits.
    pub(crate) fn new(shared: Shared, enabled: bool, allowed: bool) -> Arc<Self> {
        let switch = Switched { enabled, by: None, reason: None, since: journal::now() };
        let supervisor = Arc::new(Self {
            shared,
            proxies: RwLock::default(),
            changing: tokio::sync::Mutex::default(),
            switch: Mutex::new(switch),
            allowed,
            windows: Notify::new(),
            listeners: Notify::new(),
        });
        // Ends with the supervisor.
        tokio::spawn(keep_windows(Arc::downgrade(&supervisor)));
        supervisor
    }

    fn read<T>(&self, look: impl FnOnce(&BTreeMap<String, Entry>) -> T) -> T {
        look(&self.proxies.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, change: impl FnOnce(&mut BTreeMap<String, Entry>) -> T) -> T {
        change(&mut self.proxies.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Comes back when proxies were created, moved or deleted since the last call. For one caller.
    pub(crate) async fn listeners_changed(&self) {
        self.listeners.notified().await;
    }

    fn is_enabled(&self) -> bool {
        self.switch.lock().unwrap_or_else(PoisonError::into_inner).enabled
    }

    /// Puts all toxics that may strike now in effect; says when that changes by itself.
    fn publish(&self) -> Option<Instant> {
        let chaos = self.is_enabled();
        self.read(|proxies| proxies.values().filter_map(|entry| entry.publish(chaos)).min())
    }

    fn switched(&self) -> Chaos {
        let rules: Vec<_> = self.read(|proxies| {
            let toxics =
                proxies.values().flat_map(|entry| entry.toxics.iter().map(move |toxic| (entry, toxic)));
            let enabled = toxics.filter(|(entry, toxic)| entry.spec.enabled && toxic.spec.enabled);
            enabled
                .map(|(entry, toxic)| Rule {
                    proxy: entry.spec.name.clone(),
                    id: toxic.spec.name.clone(),
                    kind: toxic.spec.kind.clone(),
                    probability: toxic.spec.toxicity,
                })
                .collect()
        });
        let switch = self.switch.lock().unwrap_or_else(PoisonError::into_inner);
        Chaos {
            enabled: switch.enabled,
            active_rules: if switch.enabled { rules.len() } else { 0 },
            rules,
            by: switch.by.clone(),
            reason: switch.reason.clone(),
            since: switch.since.clone(),
        }
    }

    fn turn(&self, enabled: bool, by: Switch) -> Result<Chaos, ControlError> {
        if enabled && !self.allowed {
            let text =
                "the environment is production: start with `allow_production: true` to allow faults here";
            return Err(ControlError::Forbidden(text.to_owned()));
        }
        {
            let mut switch = self.switch.lock().unwrap_or_else(PoisonError::into_inner);
            *switch = Switched { enabled, by: by.operator, reason: by.reason, since: journal::now() };
        }
        self.publish();
        let chaos = self.switched();
        tracing::info!(enabled, by = chaos.by, reason = chaos.reason, "the kill switch was turned");
        self.shared.journal.tell("chaos", || serde_json::json!(chaos));
        Ok(chaos)
    }

    /// Stops accepting and closes everything at once.
    pub(crate) fn close(&self) {
        self.shared.drain.cancel();
        let listening = self.write(|proxies| -> Vec<_> {
            proxies.values_mut().filter_map(|entry| entry.listening.take()).collect()
        });
        listening.iter().for_each(Listening::close_connections);
    }

    /// Stops accepting, and waits for what is under way, at most so long. Then everything is closed, and how it ended is in
    /// the journal.
    pub(crate) async fn drain(&self, patience: Duration) {
        let _changing = self.changing.lock().await;
        let mut listening: Vec<_> =
            self.write(|proxies| proxies.values_mut().filter_map(|entry| entry.listening.take()).collect());
        for listening in &mut listening {
            listening.stop_accepting().await;
        }
        self.shared.drain.cancel();
        self.shared.tracker.close();
        let over = tokio::time::timeout(patience, async {
            tokio::select! {
                () = self.shared.tracker.wait() => {}
                never = drain::close_idle(self) => match never {},
            }
        });
        if over.await.is_err() {
            tracing::warn!("connections were still open after the time to drain; they are closed");
            listening.iter().for_each(Listening::close_connections);
        }
        // Streams of HTTP/2 end in tasks of their own, after their connection.
        let written = async { tokio::join!(self.shared.tracker.wait(), self.shared.journal.settled()) };
        if tokio::time::timeout(LAST_WORDS, written).await.is_err() {
            tracing::warn!("not every exchange that was cut is in the journal");
        }
    }
}

/// How long connections that were closed may take to write down how they ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Opens and closes the toxics' windows when their time comes.
async fn keep_windows(supervisor: Weak<Supervisor>) {
    loop {
        let Some(strong) = supervisor.upgrade() else { return };
        let next = strong.publish();
        let changed = strong.windows.notified();
        let limit = Instant::now() + Duration::from_secs(1);
        let next = next.map_or(limit, |next| next.min(limit));
        tokio::select! {
            () = tokio::time::sleep_until(next) => {}
            () = changed => {}
        }
    }
}
