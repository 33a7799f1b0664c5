//! One client connection: its number, its dice, the toxics on its bytes.
use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use aconite_api::model;
use aconite_toxics::{
    ConnectFault, Direction, Instance, Moment, Report, RequestFacts, Schedule, Scope, StageId, StreamFilter,
};
use bytes::Bytes;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    link::{Counters, Governor, ProxyHeld},
    metrics::WaitsByToxic,
    plan::{Armed, Decisions, Plan, PlanWatch, byte_stages},
    site::Site,
};

/// What all parts of the proxy share of one client connection.
pub(crate) struct ConnectionShared {
    pub(crate) site: Arc<Site>,
    pub(crate) id: u64,
    pub(crate) peer: SocketAddr,
    pub(crate) opened: Instant,
    pub(crate) counters: Counters,
    /// Closes the connection.
    pub(crate) stop: CancellationToken,
    /// Breaks the connection.
    pub(crate) break_off: CancellationToken,
    upstream: Mutex<Option<String>>,
    upstream_address: OnceLock<SocketAddr>,
    decisions: Mutex<Decisions>,
    /// Whether HTTP is spoken on it now.
    http: AtomicBool,
    upgraded: Mutex<Option<Relay>>,
}

/// What goes on with a connection on which no HTTP is spoken any more.
type Relay = Pin<Box<dyn Future<Output = ()> + Send>>;

impl ConnectionShared {
    /// A connection that was accepted just now.
    pub(crate) fn new(site: &Arc<Site>, peer: SocketAddr, stop: CancellationToken) -> Self {
        let number = site.next_connection();
        Self {
            site: Arc::clone(site),
            id: site.next_id(),
            peer,
            opened: Instant::now(),
            counters: Counters::within(&site.traffic),
            stop,
            break_off: CancellationToken::new(),
            upstream: Mutex::default(),
            upstream_address: OnceLock::new(),
            decisions: Mutex::new(Decisions::new(number, peer.ip())),
            http: AtomicBool::new(false),
            upgraded: Mutex::default(),
        }
    }

    /// HTTP begins to be spoken, or is not spoken any more.
    pub(crate) fn speaks(&self, http: bool) {
        self.http.store(http, Relaxed);
    }

    pub(crate) fn speaks_http(&self) -> bool {
        self.http.load(Relaxed)
    }

    /// Runs this once HTTP has ended on the connection, as a part of it.
    pub(crate) fn goes_on_with(&self, relay: impl Future<Output = ()> + Send + 'static) {
        *self.upgraded.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::pin(relay));
    }

    /// What [`goes_on_with`](Self::goes_on_with) was given.
    pub(crate) fn upgraded(&self) -> Option<Relay> {
        self.upgraded.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What decides on the toxics of one direction.
    pub(crate) fn governor(self: &Arc<Self>, direction: Direction) -> ByteGovernor {
        let plan = PlanWatch::new(self.site.plan.clone(), Some(self.break_off.clone()));
        ByteGovernor { connection: Arc::clone(self), direction, plan, waits: WaitsByToxic::default() }
    }

    fn decisions(&self) -> MutexGuard<'_, Decisions> {
        self.decisions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the connection leads has become known.
    pub(crate) fn leads_to(&self, upstream: &impl ToString) {
        *self.upstream.lock().unwrap_or_else(PoisonError::into_inner) = Some(upstream.to_string());
    }

    /// Of the upstream's addresses this one answered.
    pub(crate) fn reached(&self, address: SocketAddr) {
        self.upstream_address.get_or_init(|| address);
    }

    /// The names of the byte toxics that act on it and may be told of.
    pub(crate) fn marks(&self, plan: &Plan) -> Vec<String> {
        if plan.toxics.is_empty() {
            return Vec::new();
        }
        let decisions = self.decisions();
        let acting = plan.toxics.iter().filter(|toxic| {
            toxic.spec.marker && decisions.given(toxic.id.toxic).is_some_and(|ticket| ticket.is_good())
        });
        acting.map(|toxic| toxic.spec.name.clone()).collect()
    }

    /// Why a toxic does not act on this connection, if that was decided.
    pub(crate) fn refusal(&self, toxic: u64) -> Option<&'static str> {
        self.decisions().given(toxic)?.refused
    }

    /// The first toxic of these kinds that spoils the making of this connection. `facts` are those of CONNECT, where
    /// that is how it is made.
    pub(crate) fn connect_fault(
        &self,
        kinds: impl Fn(ConnectFault) -> bool,
        facts: Option<&RequestFacts<'_>>,
    ) -> Option<ConnectFault> {
        let plan = Arc::clone(&self.site.plan.borrow());
        if !plan.strikes_messages {
            return None;
        }
        let mut decisions = self.decisions();
        let mut faults = plan.toxics.iter().filter_map(|toxic| Some((toxic, toxic.connect?)));
        let (toxic, fault) = faults.find(|(toxic, fault)| {
            let passed = |toxic: &Armed, reason| self.passed(toxic, reason);
            kinds(*fault) && toxic.needs_no_more(facts) && decisions.lets_strike(&plan, toxic, facts, passed)
        })?;
        self.struck(&toxic.spec.name, &toxic.spec.kind);
        Some(fault)
    }

    /// A toxic has struck.
    fn struck(&self, toxic: &str, kind: &str) {
        self.site.series.toxic(kind).struck();
        tracing::debug!(proxy = %self.site.name, toxic, connection = self.id, "a toxic struck");
        self.tell("toxic.struck", toxic, kind, None);
    }

    /// A toxic was there and does not strike.
    fn passed(&self, toxic: &Armed, reason: &'static str) {
        self.site.series.toxic(&toxic.spec.kind).passed(reason);
        self.tell("toxic.passed", &toxic.spec.name, &toxic.spec.kind, Some(reason));
    }

    fn tell(&self, event: &'static str, toxic: &str, kind: &str, reason: Option<&str>) {
        self.site.journal.tell(event, || {
            serde_json::json!({
                "proxy": &*self.site.name, "toxic": toxic, "type": kind, "connection": self.id, "reason": reason,
            })
        });
    }

    /// As the API shows it.
    pub(crate) fn view(&self) -> model::Connection {
        let plan = self.site.plan.borrow();
        let decisions = self.decisions();
        let acting = plan
            .toxics
            .iter()
            .filter(|toxic| decisions.given(toxic.id.toxic).is_some_and(|ticket| ticket.is_good()));
        model::Connection {
            id: self.id,
            proxy: self.site.name.to_string(),
            peer: self.peer.to_string(),
            upstream: self.upstream.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            upstream_address: self.upstream_address.get().map(ToString::to_string),
            bytes_in: self.counters.upstream.received(),
            bytes_out: self.counters.downstream.sent(),
            age_ms: u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX),
            toxics: acting.map(|toxic| toxic.spec.name.clone()).collect(),
        }
    }
}

impl AsRef<Counters> for ConnectionShared {
    fn as_ref(&self) -> &Counters {
        &self.counters
    }
}

/// Which byte toxics act on one direction of a connection, now and after every change.
pub(crate) struct ByteGovernor {
    connection: Arc<ConnectionShared>,
    direction: Direction,
    plan: PlanWatch,
    waits: WaitsByToxic,
}

impl Governor for ByteGovernor {
    fn has_changed(&self) -> bool {
        self.plan.has_changed()
    }

    fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.plan.poll_changed(cx)
    }

    fn wanted(&mut self) -> Vec<StageId> {
        let plan = self.plan.see();
        if self.plan.is_broken() {
            return vec![BREAK];
        }
        if plan.toxics.is_empty() {
            return Vec::new();
        }
        let passed = |toxic: &Armed, reason| self.connection.passed(toxic, reason);
        byte_stages(&plan, self.direction, &mut self.connection.decisions(), passed)
    }

    fn start(&mut self, id: StageId) -> Option<Box<dyn StreamFilter<Bytes>>> {
        if id == BREAK {
            return Some(Box::new(Break));
        }
        let decisions = self.connection.decisions();
        let ticket = decisions.given(id.toxic)?;
        let scope = Scope { direction: self.direction, ..Scope::default() };
        match ticket.toxic.start(&scope, ticket.dice.clone()) {
            Instance::Bytes(filter) => Some(filter),
            _ => None,
        }
    }

    fn report(&mut self, id: StageId, report: Report) {
        let name = |ticket: &crate::plan::BudgetPermit| {
            (ticket.toxic.spec.name.clone(), ticket.toxic.spec.kind.clone())
        };
        let Some((toxic, kind)) = self.connection.decisions().given(id.toxic).map(name) else { return };
        if report.struck.is_some() {
            self.connection.struck(&toxic, &kind);
        }
    }

    fn held(&self) -> Arc<ProxyHeld> {
        Arc::clone(&self.connection.site.held)
    }

    fn waited(&mut self, id: StageId, wait: Duration) {
        self.waits.add(id.toxic, wait, || {
            let decisions = self.connection.decisions();
            let ticket = decisions.given(id.toxic)?;
            Some(Arc::clone(self.connection.site.series.toxic(&ticket.toxic.spec.kind)))
        });
    }
}

/// The stage that carries out the order to break the connection.
const BREAK: StageId = StageId { toxic: 0, revision: 0 };

struct Break;

impl StreamFilter<Bytes> for Break {
    fn on_start(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        out.reset(now);
    }

    fn on_item(&mut self, _: Bytes, _: Moment, _: &mut Schedule<Bytes>) {}
}
