//! From specs to "which toxics strike this connection or exchange".
use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use aconite_toxics::{
    Catalogue, ConnectFault, Dice, Instance, Level, Match, MatchResult, Matcher, RequestFacts, Scope,
    SpecError, StageId, Start, ToxicSpec,
};
use tokio::time::Instant;

mod decisions;
mod watch;

pub(crate) use decisions::{BudgetPermit, Decisions, byte_stages};
pub(crate) use watch::PlanWatch;

/// The plan that a proxy's connections follow.
pub(crate) type PlanReceiver = tokio::sync::watch::Receiver<Arc<Plan>>;

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
    names_model: bool,
    start: Arc<dyn Start>,
    matcher: Matcher,
    added: Instant,
    uses: Arc<BudgetUse>,
}

/// What a toxic's budget has counted. Survives a change of its attributes.
#[derive(Default)]
struct BudgetUse {
    seen: AtomicU64,
    struck: AtomicU64,
    active: AtomicU64,
    removed: AtomicBool,
}

static NUMBERS: AtomicU64 = AtomicU64::new(1);

impl Armed {
    /// Reads a spec.
    ///
    /// # Errors
    /// If it is invalid.
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
            names_model: definition.names_model,
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
    /// If the spec is invalid.
    pub(crate) fn changed(&self, spec: &ToxicSpec, catalogue: &Catalogue) -> Result<Self, SpecError> {
        let changed = Self::new(spec, catalogue)?;
        let same = changed.spec.attributes == self.spec.attributes;
        let revision = if same { self.id.revision } else { self.id.revision + 1 };
        let id = StageId { toxic: self.id.toxic, revision };
        let added = if changed.spec.window == self.spec.window { self.added } else { changed.added };
        Ok(Self { id, added, uses: Arc::clone(&self.uses), ..changed })
    }

    /// The toxic was removed from its proxy: connections forget what they decided on it.
    pub(crate) fn remove(&self) {
        self.uses.removed.store(true, Relaxed);
    }

    fn is_removed(&self) -> bool {
        self.uses.removed.load(Relaxed)
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

    /// Whether a client's request meets its conditions.
    pub(crate) fn meets(&self, client: IpAddr, facts: &RequestFacts<'_>) -> bool {
        self.matcher.admits(client) && self.matcher.matches(facts) == MatchResult::Matches
    }

    /// Whether the request's body has to be read: only it can tell whether the toxic's conditions hold, or the toxic
    /// tells of the model.
    pub(crate) fn needs_body(&self, request: &RequestFacts<'_>) -> bool {
        let names_model = self.names_model && request.dialect.is_some() && request.model.is_none();
        self.level != Level::Bytes
            && (self.matcher.needs_body(request)
                || (names_model && self.matcher.matches(request) == MatchResult::Matches))
    }

    pub(crate) fn start(&self, scope: &Scope, dice: Dice) -> Instance {
        self.start.start(scope, dice)
    }
}

/// The kill switch is off.
const CHAOS_OFF: &str = "chaos_off";
/// It is not, or no longer, the time that the toxic's `window` allows.
const OUTSIDE_WINDOW: &str = "outside_window";

/// Whether a toxic does not act for a reason that may be over later.
pub(crate) fn is_idle(reason: &str) -> bool {
    [CHAOS_OFF, OUTSIDE_WINDOW].contains(&reason)
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
    /// The toxics that are enabled and cannot act now, and why.
    pub(crate) idle: Vec<(Arc<Armed>, &'static str)>,
    /// Whether anything but byte toxics is there.
    pub(crate) strikes_messages: bool,
}

impl Plan {
    /// Whether the same toxics act as in another plan, and the same ones do not.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.on, self.exclusive) == (other.on, other.exclusive)
            && (self.toxics.len(), self.idle.len()) == (other.toxics.len(), other.idle.len())
            && self.toxics.iter().zip(&other.toxics).all(|(one, other)| Arc::ptr_eq(one, other))
            && self
                .idle
                .iter()
                .zip(&other.idle)
                .all(|((one, why), (other, why_other))| Arc::ptr_eq(one, other) && why == why_other)
    }

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
        let (mut toxics, mut idle) = (Vec::new(), Vec::new());
        for toxic in all.iter().filter(|toxic| toxic.spec.enabled) {
            if !on {
                idle.push((Arc::clone(toxic), CHAOS_OFF));
                continue;
            }
            let (open, next) = toxic.window(now);
            if open {
                toxics.push(Arc::clone(toxic));
            } else {
                idle.push((Arc::clone(toxic), OUTSIDE_WINDOW));
            }
            changes = [changes, next].into_iter().flatten().min();
        }
        let strikes_messages = toxics.iter().any(|toxic| toxic.level != Level::Bytes);
        (Self { proxy, seed, on, exclusive, toxics, idle, strikes_messages }, changes)
    }
}
