//! The set of running proxies, and every change of it: all or nothing, one at a time.
mod apply;
mod control;
mod drain;
mod entry;
mod switch;

use std::{
    collections::{BTreeMap, HashMap},
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError, RwLock, Weak, atomic::AtomicU64},
    time::Duration,
};

use aconite_api::{
    ControlError,
    model::{Chaos, ProxySpec, Rule, Switch, UpstreamProtocol, UpstreamTls},
};
use aconite_toxics::Catalogue;
use tokio::{sync::Notify, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    dial::{Chains, Dialer, OffLimits},
    http::{HttpProxy, Pool, TlsFiles, TlsIdentity, Upstreams, sweep_regularly},
    journal::{Journal, Outlets},
    link::Counters,
    metrics::Series,
    plan::PlanReceiver,
    proxy::{Kind, Listening, Service},
    site::{Numbers, Site},
    tls,
    workers::Workers,
};
use entry::Entry;
pub(crate) use switch::SwitchFile;
use switch::Switched;

/// What all proxies of an instance share.
pub(crate) struct Shared {
    pub(crate) seed: u64,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) journal: Arc<Journal>,
    /// Client connections that all proxies have accepted, deleted ones too.
    pub(crate) accepted: Arc<AtomicU64>,
    pub(crate) authority: Arc<tls::authority::Authority>,
    pub(crate) terminator: tls::accept::Terminator,
    /// Lets what is under way end, and begins nothing new.
    pub(crate) drain: CancellationToken,
    pub(crate) tracker: TaskTracker,
    pub(crate) workers: Arc<Workers>,
    pool: Arc<Pool>,
    chains: Arc<Chains>,
    /// Those in use, by settings.
    identities: Mutex<HashMap<UpstreamTls, Weak<TlsFiles>>>,
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
        #[expect(clippy::disallowed_methods, reason = "it ends with the pool")]
        tokio::spawn(sweep_regularly(Arc::downgrade(&pool)));
        let tracker = TaskTracker::new();
        Ok(Self {
            seed,
            catalogue: Arc::new(catalogue),
            journal: Arc::new(Journal::new(outlets)),
            accepted: Arc::default(),
            authority,
            terminator,
            drain: CancellationToken::new(),
            workers: Workers::start(workers, &tracker)?,
            tracker,
            pool,
            chains: Arc::default(),
            identities: Mutex::default(),
            admin: None,
        })
    }

    /// Keeps proxies from connecting their clients to the admin API on this address.
    pub(crate) fn keep_from(&mut self, admin: SocketAddr) {
        self.admin = Some(admin);
    }

    /// How a proxy serves its connections. `own` is the address that it listens on.
    fn service(&self, kind: Kind, site: &Site, own: Option<SocketAddr>, tls: Arc<TlsFiles>) -> Service {
        let off_limits = OffLimits { own, admin: self.admin, chains: Arc::clone(&self.chains) };
        let dialer = Dialer { connect_timeout: site.connect_timeout(), off_limits };
        match kind {
            Kind::Tcp { host, port } => Service::Tcp { host, port, dialer },
            Kind::Http(role) => Service::Http(Arc::new(HttpProxy {
                role,
                upstreams: Upstreams { pool: Arc::clone(&self.pool), tls, dialer },
                http2_only: site.spec.upstream_protocol == Some(UpstreamProtocol::Http2),
                terminator: self.terminator.clone(),
                authority: Arc::clone(&self.authority),
            })),
        }
    }

    /// What the connections of a proxy know of it.
    fn site(
        &self,
        spec: ProxySpec,
        plan: PlanReceiver,
        traffic: Arc<Counters>,
        numbers: Arc<Numbers>,
        series: Arc<Series>,
    ) -> Site {
        Site {
            name: spec.name.as_str().into(),
            spec,
            plan,
            journal: Arc::clone(&self.journal),
            accepted: Arc::clone(&self.accepted),
            series,
            catalogue: Arc::clone(&self.catalogue),
            traffic,
            held: Arc::default(),
            drain: self.drain.clone(),
            numbers,
        }
    }

    /// TLS to a proxy's upstreams, its files read as they are now. Proxies with equal settings share it, and with it
    /// their connections.
    ///
    /// # Errors
    /// If the settings or the files cannot be used.
    fn tls_to_upstreams(&self, spec: &ProxySpec) -> Result<Arc<TlsFiles>, ControlError> {
        let refuse = |error| ControlError::invalid("upstream_tls", error);
        let settings = spec.upstream_tls.clone().unwrap_or_default();
        let mut identities = self.identities.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = identities.get(&settings).and_then(Weak::upgrade) {
            known.refresh().map_err(refuse)?;
            return Ok(known);
        }
        let connect = tls_settings(&settings);
        let files = [&connect.ca, &connect.client_cert, &connect.client_key];
        let files: Vec<_> = files.into_iter().flatten().cloned().collect();
        let read =
            move || tls::connect::Connector::new(&connect).map(|made| Arc::new(TlsIdentity::new(made)));
        let made = TlsFiles::read(files, read, |error| tls::with_causes(error));
        let made = Arc::new(made.map_err(|error| refuse(tls::with_causes(&error)))?);
        identities.retain(|_, identity| identity.strong_count() > 0);
        identities.insert(settings, Arc::downgrade(&made));
        Ok(made)
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
    /// Where the switch is remembered across restarts.
    switch_file: Option<SwitchFile>,
    /// Whether chaos may be enabled here.
    allowed: bool,
    windows: Notify,
    /// Told when proxies were created, moved or deleted.
    listeners: Notify,
}

impl Supervisor {
    /// No proxies yet. With `enabled` false, or if an operator left the switch off, toxics are disabled until they are
    /// switched on, which `allowed` permits.
    pub(crate) fn new(
        shared: Shared,
        enabled: bool,
        allowed: bool,
        switch_file: Option<SwitchFile>,
    ) -> Arc<Self> {
        let left_off = switch_file.as_ref().and_then(SwitchFile::left_off);
        if let Some(Switched { by, reason, since, .. }) = &left_off {
            tracing::warn!(
                by,
                reason,
                since,
                "the kill switch was left off: no toxic acts until `aconite chaos on`"
            );
        }
        let switch = left_off.unwrap_or_else(|| Switched::now(enabled, Switch::default()));
        let supervisor = Arc::new(Self {
            shared,
            proxies: RwLock::default(),
            changing: tokio::sync::Mutex::default(),
            switch: Mutex::new(switch),
            switch_file,
            allowed,
            windows: Notify::new(),
            listeners: Notify::new(),
        });
        #[expect(clippy::disallowed_methods, reason = "it ends with the supervisor")]
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
            *switch = Switched::now(enabled, by);
            if let Some(Err(error)) = self.switch_file.as_ref().map(|file| file.write(&switch)) {
                tracing::error!(%error, "cannot remember the kill switch: after a restart it will be as it was before");
            }
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
