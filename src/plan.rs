//! From specs to "which toxics strike this connection or exchange": match, budget, toxicity, dice.
use std::{
    collections::HashMap,
    pin::Pin,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    task::{Context, Poll, Wake, Waker, ready},
    time::Duration,
};

use aconite_toxics::{
    Budget, Catalogue, ConnectFault, Dice, Direction, Instance, Level, Match, Matcher, RequestFacts, Scope,
    SpecError, StageId, Start, ToxicSpec,
};
use atomic_waker::AtomicWaker;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

/// A toxic on a proxy, read and ready, with its counters.
pub(crate) struct Armed {
    /// Which one, and which revision of its attributes.
    pub(crate) id: StageId,
    /// As configured, with all defaults filled in.
    pub(crate) spec: ToxicSpec,
    pub(crate) level: Level,
    /// How it spoils the making of a connection, if that is what it does.
    pub(crate) connect: Option<ConnectFault>,
    documents_too: bool,
    start: Arc<dyn Start>,
    matcher: Matcher,
    added: Instant,
    uses: Arc<Uses>,
}

/// What a toxic's budget has counted. Survives a change of its attributes.
#[derive(Default)]
struct Uses {
    seen: AtomicU64,
    struck: AtomicU64,
    active: AtomicU64,
}

static NUMBERS: AtomicU64 = AtomicU64::new(1);

impl Armed {
    /// Reads a spec.
    ///
    /// # Errors
    /// If it does not hold.
    pub(crate) fn new(spec: &ToxicSpec, catalogue: &Catalogue) -> Result<Self, SpecError> {
        let spec = catalogue.resolve(spec).named();
        let definition = catalogue.definition(&spec.kind)?;
        let start = catalogue.parse(&spec)?;
        let matcher = Matcher::compile(&spec.matching.clone().unwrap_or_default())?;
        let connect = match definition.level {
            Level::Connect => match start.start(&Scope::default(), Dice::new(0, "", "", 0)) {
                Instance::Connect(fault) => Some(fault),
                _ => None,
            },
            _ => None,
        };
        Ok(Self {
            connect,
            id: StageId { toxic: NUMBERS.fetch_add(1, Relaxed), revision: 0 },
            level: definition.level,
            documents_too: definition.documents_too,
            spec: ToxicSpec { attributes: start.attributes(), ..spec },
            start,
            matcher,
            added: Instant::now(),
            uses: Arc::default(),
        })
    }

    /// The same toxic with another spec: it keeps its place, its counters and its age.
    ///
    /// # Errors
    /// If the spec does not hold.
    pub(crate) fn changed(&self, spec: &ToxicSpec, catalogue: &Catalogue) -> Result<Self, SpecError> {
        let changed = Self::new(spec, catalogue)?;
        let same = changed.spec.attributes == self.spec.attributes;
        let revision = if same { self.id.revision } else { self.id.revision + 1 };
        let id = StageId { toxic: self.id.toxic, revision };
        let added = if changed.spec.window == self.spec.window { self.added } else { changed.added };
        Ok(Self { id, added, uses: Arc::clone(&self.uses), ..changed })
    }

    /// Whether its window is open, and when that changes.
    fn window(&self, now: Instant) -> (bool, Option<Instant>) {
        let Some(window) = self.spec.window else { return (true, None) };
        let opens = self.added + window.after.map_or(Duration::ZERO, Duration::from);
        let closes = window.duration.map(|duration| opens + Duration::from(duration));
        match closes {
            _ if now < opens => (false, Some(opens)),
            Some(closes) if now < closes => (true, Some(closes)),
            Some(_) => (false, None),
            None => (true, None),
        }
    }

    /// Whether the toxic acts on bodies of events or whole documents.
    pub(crate) fn acts_on(&self, level: Level) -> bool {
        self.level == level || (self.documents_too && level == Level::Document)
    }

    /// Whether its conditions can be decided by what a CONNECT says: by nothing that only a request inside it does.
    pub(crate) fn needs_no_more(&self, connect: Option<&RequestFacts<'_>>) -> bool {
        let Some(matching) = self.spec.matching.as_ref().filter(|_| connect.is_some()) else { return true };
        let Match { path, operation, model, streaming, body, .. } = matching;
        path.is_none() && operation.is_none() && model.is_none() && streaming.is_none() && body.is_empty()
    }

    pub(crate) fn start(&self, scope: &Scope, dice: Dice) -> Instance {
        self.start.start(scope, dice)
    }
}

/// The toxics of a proxy that may strike now: enabled, in their window, and not switched off.
pub(crate) struct Plan {
    pub(crate) proxy: Arc<str>,
    pub(crate) seed: u64,
    /// Whether the kill switch lets toxics act.
    pub(crate) on: bool,
    /// At most one toxic per exchange.
    pub(crate) exclusive: bool,
    /// In the order in which data meets them.
    pub(crate) toxics: Vec<Arc<Armed>>,
    /// Whether a toxic's match reads request bodies.
    pub(crate) reads_requests: bool,
    /// Whether anything but byte toxics is there.
    pub(crate) strikes_messages: bool,
}

impl Plan {
    /// The plan at a moment, and when it changes by itself. With the kill switch not `on` it has no toxics.
    pub(crate) fn at(
        now: Instant,
        proxy: Arc<str>,
        seed: u64,
        on: bool,
        exclusive: bool,
        all: &[Arc<Armed>],
    ) -> (Self, Option<Instant>) {
        let mut changes = None::<Instant>;
        let mut toxics = Vec::new();
        for toxic in all.iter().filter(|toxic| on && toxic.spec.enabled) {
            let (open, next) = toxic.window(now);
            if open {
                toxics.push(Arc::clone(toxic));
            }
            changes = [changes, next].into_iter().flatten().min();
        }
        let reads_requests = toxics.iter().any(|toxic| toxic.matcher.needs_body());
        let strikes_messages = toxics.iter().any(|toxic| toxic.level != Level::Bytes);
        (Self { proxy, seed, on, exclusive, toxics, reads_requests, strikes_messages }, changes)
    }
}

/// The plan of a proxy as it changes, and the order to break one connection.
pub(crate) struct PlanWatch {
    plan: watch::Receiver<Arc<Plan>>,
    break_off: Option<CancellationToken>,
    waiting: Option<(Changed, Arc<Bell>)>,
}

/// Gives the receiver back, and whether the order came.
type Changed = Pin<Box<dyn Future<Output = (watch::Receiver<Arc<Plan>>, bool)> + Send>>;

/// Remembers that something may have changed, so that a task that is polled for other reasons need not look.
struct Bell {
    rung: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Release);
        self.task.wake();
    }
}

impl PlanWatch {
    pub(crate) fn new(plan: watch::Receiver<Arc<Plan>>, break_off: Option<CancellationToken>) -> Self {
        Self { plan, break_off, waiting: None }
    }

    /// Whether the plan is no longer the one that was last seen.
    pub(crate) fn has_changed(&self) -> bool {
        // An error says that the proxy is gone; its connections end by other means.
        self.plan.has_changed().unwrap_or(false)
    }

    /// Comes back ready when the plan is no longer the one that was last seen, or the order came.
    pub(crate) fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (changed, bell) = self.waiting.get_or_insert_with(|| {
            let bell = Bell { rung: AtomicBool::new(true), task: AtomicWaker::new() };
            (Box::pin(changed(self.plan.clone(), self.break_off.clone())), Arc::new(bell))
        });
        bell.task.register(cx.waker());
        if !bell.rung.swap(false, Acquire) {
            return Poll::Pending;
        }
        let waker = Waker::from(Arc::clone(bell));
        let (plan, broken) = ready!(changed.as_mut().poll(&mut Context::from_waker(&waker)));
        self.plan = plan;
        self.waiting = None;
        if broken {
            self.break_off = None;
        }
        Poll::Ready(())
    }

    /// Whether the order to break the connection has come.
    pub(crate) fn is_broken(&self) -> bool {
        self.break_off.is_none()
    }

    /// The plan now, which counts as seen.
    pub(crate) fn see(&mut self) -> Arc<Plan> {
        Arc::clone(&self.plan.borrow_and_update())
    }
}

async fn changed(
    mut plan: watch::Receiver<Arc<Plan>>,
    break_off: Option<CancellationToken>,
) -> (watch::Receiver<Arc<Plan>>, bool) {
    let ordered = async {
        match &break_off {
            Some(order) => order.cancelled().await,
            None => std::future::pending().await,
        }
    };
    let broken = tokio::select! {
        Ok(()) = plan.changed() => false,
        () = ordered => true,
    };
    (plan, broken)
}

/// The right of a toxic to strike one connection or exchange, for as long as it is held.
pub(crate) struct Ticket {
    pub(crate) toxic: Arc<Armed>,
    /// What was rolled against its toxicity.
    pub(crate) roll: f64,
    pub(crate) dice: Dice,
    /// Why it does not strike, if it does not.
    pub(crate) refused: Option<&'static str>,
    _active: Option<Active>,
}

impl Ticket {
    /// Whether the toxic may strike.
    pub(crate) fn is_good(&self) -> bool {
        self.refused.is_none()
    }
}

/// One strike in progress.
struct Active(Arc<Uses>);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Relaxed);
    }
}

/// The decisions made so far for one connection or exchange: each toxic is asked once.
pub(crate) struct Decisions {
    number: u64,
    /// Keyed by the toxic's number: an unrelated change never rolls again.
    made: HashMap<u64, Ticket>,
}

impl Decisions {
    /// None yet, for the nth connection or exchange of the proxy.
    pub(crate) fn new(number: u64) -> Self {
        Self { number, made: HashMap::new() }
    }

    /// Whether the toxic strikes here. `facts` are those of the request, where there is one.
    ///
    /// `None` if its match does not hold.
    pub(crate) fn ticket(
        &mut self,
        plan: &Plan,
        toxic: &Arc<Armed>,
        facts: Option<&RequestFacts<'_>>,
    ) -> Option<&mut Ticket> {
        // A request does not change: what was asked once holds for as long as the toxic is the same.
        let known = self.made.get(&toxic.id.toxic).is_some_and(|ticket| Arc::ptr_eq(&ticket.toxic, toxic));
        if !known && facts.is_some_and(|facts| !toxic.matcher.matches(facts)) {
            return None;
        }
        let ticket = self.made.entry(toxic.id.toxic).or_insert_with(|| decide(plan, toxic, self.number));
        if ticket.toxic.id != toxic.id || !Arc::ptr_eq(&ticket.toxic, toxic) {
            // The roll stays what it was; only what it is held against may have changed.
            let missed = ticket.roll >= f64::from(toxic.spec.toxicity);
            ticket.refused = match ticket.refused {
                Some(MISSED) | None => missed.then_some(MISSED),
                other => other,
            };
            ticket.toxic = Arc::clone(toxic);
        }
        Some(ticket)
    }

    /// Whether a toxic of a whole connection strikes. If that is decided now, and it does not, `passed` is told why.
    pub(crate) fn lets_strike(
        &mut self,
        plan: &Plan,
        toxic: &Arc<Armed>,
        facts: Option<&RequestFacts<'_>>,
        passed: impl FnOnce(&Armed, &'static str),
    ) -> bool {
        let news = self.given(toxic.id.toxic).is_none();
        let Some(ticket) = self.ticket(plan, toxic, facts) else { return false };
        if let Some(reason) = ticket.refused.filter(|_| news) {
            passed(toxic, reason);
        }
        ticket.is_good()
    }

    /// The tickets given out so far.
    pub(crate) fn tickets(&self) -> impl Iterator<Item = &Ticket> {
        self.made.values()
    }

    /// The ticket given to a toxic.
    pub(crate) fn given(&self, toxic: u64) -> Option<&Ticket> {
        self.made.get(&toxic)
    }
}

const MISSED: &str = "toxicity";

fn decide(plan: &Plan, toxic: &Arc<Armed>, number: u64) -> Ticket {
    let mut dice = Dice::new(plan.seed, &plan.proxy, &toxic.spec.name, number);
    let roll = dice.unit();
    let (refused, active) = match toxic.spec.budget {
        _ if roll >= f64::from(toxic.spec.toxicity) => (Some(MISSED), None),
        None => (None, None),
        Some(budget) => spend(budget, &toxic.uses),
    };
    Ticket { toxic: Arc::clone(toxic), roll, dice, refused, _active: active }
}

/// Takes one strike out of the budget, or says why there is none.
fn spend(budget: Budget, uses: &Arc<Uses>) -> (Option<&'static str>, Option<Active>) {
    let seen = uses.seen.fetch_add(1, Relaxed);
    let Some(after_skip) = seen.checked_sub(budget.skip.unwrap_or(0)) else {
        return (Some("budget.skip"), None);
    };
    if !after_skip.is_multiple_of(budget.every.unwrap_or(1).max(1)) {
        return (Some("budget.every"), None);
    }
    let below =
        |limit: Option<u64>| move |count: u64| limit.is_none_or(|limit| count < limit).then_some(count + 1);
    if uses.active.fetch_update(Relaxed, Relaxed, below(budget.max_active)).is_err() {
        return (Some("budget.max_active"), None);
    }
    let active = Active(Arc::clone(uses));
    if uses.struck.fetch_update(Relaxed, Relaxed, below(budget.times)).is_err() {
        return (Some("budget.times"), None);
    }
    (None, Some(active))
}

/// The byte toxics that strike a direction of a connection. Those that turn out not to are told to `passed`, with the
/// reason, once.
pub(crate) fn byte_stages(
    plan: &Plan,
    direction: Direction,
    decisions: &mut Decisions,
    mut passed: impl FnMut(&Armed, &'static str),
) -> Vec<StageId> {
    let toxics =
        plan.toxics.iter().filter(|toxic| toxic.level == Level::Bytes && toxic.spec.stream == direction);
    toxics
        .filter(|toxic| decisions.lets_strike(plan, toxic, None, &mut passed))
        .map(|toxic| toxic.id)
        .collect()
}

#[cfg(test)]
mod tests;
