//! One attempt of an exchange, with toxics of its own.
use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use aconite_toxics::{Direction, Instance, Level, Report, Scope, StageId, StreamFilter};
use bytes::Bytes;
use tokio::net::TcpStream;

use super::{ExchangeState, ToxicState, Toxics};
use crate::{
    http::target::route::{Candidate, MAX_ATTEMPTS},
    link::{Counters, Governor, Lane, ProxyHeld, ToxicSocket},
    metrics::WaitsByToxic,
    plan::{Decisions, PlanWatch},
};

/// One try at an upstream that a policy has chosen.
pub(crate) struct Attempt {
    pub(crate) ongoing: Arc<ExchangeState>,
    pub(crate) candidate: Candidate,
    toxics: ToxicState,
}

/// What toxics act on: a whole exchange, or one attempt of it. What they end is the client's connection, or the attempt
/// alone.
#[derive(Clone)]
pub(crate) enum Owner {
    Exchange(Arc<ExchangeState>),
    Attempt(Arc<Attempt>),
}

impl Owner {
    pub(crate) fn ongoing(&self) -> &Arc<ExchangeState> {
        match self {
            Self::Exchange(ongoing) => ongoing,
            Self::Attempt(attempt) => &attempt.ongoing,
        }
    }

    /// The exchange, if the toxics act on all of it.
    pub(crate) fn exchange(&self) -> Option<&Arc<ExchangeState>> {
        match self {
            Self::Exchange(ongoing) => Some(ongoing),
            Self::Attempt(_) => None,
        }
    }

    pub(crate) fn toxics(&self) -> Toxics<'_> {
        match self {
            Self::Exchange(ongoing) => ongoing.toxics(),
            Self::Attempt(attempt) => attempt.toxics(),
        }
    }
}

impl Attempt {
    /// The attempt of this number, from 1.
    pub(crate) fn new(ongoing: &Arc<ExchangeState>, number: u32, candidate: Candidate) -> Self {
        let begun = Arc::clone(&candidate.toxics.borrow());
        // No two attempts of a proxy share dice, whatever the order in which exchanges fail.
        let seed = ongoing.number.wrapping_mul(MAX_ATTEMPTS.into()).wrapping_add(number.into());
        let decisions = Decisions::new(seed, ongoing.connection.peer.ip());
        let toxics = ToxicState::new(begun, None, Some(number), candidate.dialect, decisions);
        Self { ongoing: Arc::clone(ongoing), candidate, toxics }
    }

    pub(crate) fn toxics(&self) -> Toxics<'_> {
        Toxics { ongoing: &self.ongoing, state: &self.toxics, plan: &self.candidate.toxics }
    }

    /// Whether toxics act on the bytes of its connection, which then cannot be shared.
    pub(crate) fn needs_link(&self) -> bool {
        let plan = self.candidate.toxics.borrow();
        plan.toxics.iter().any(|toxic| toxic.level == Level::Bytes)
    }

    /// A connection to the upstream with the attempt's toxics on its bytes.
    pub(crate) fn link(self: &Arc<Self>, stream: TcpStream) -> ToxicSocket<LinkGovernor> {
        let lane = |direction| Lane::new(self.ongoing.started, LinkGovernor::new(self, direction));
        // To the socket, whoever is at its other end is the client.
        let (from_upstream, to_upstream) = (lane(Direction::Downstream), lane(Direction::Upstream));
        ToxicSocket::new(stream, from_upstream, to_upstream, Arc::new(Counters::default())).0
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.toxics().settle();
    }
}

/// Which byte toxics act on one direction of an attempt's connection, now and after every change.
pub(crate) struct LinkGovernor {
    attempt: Arc<Attempt>,
    direction: Direction,
    plan: PlanWatch,
    waits: WaitsByToxic,
}

impl LinkGovernor {
    fn new(attempt: &Arc<Attempt>, direction: Direction) -> Self {
        let plan = PlanWatch::new(attempt.candidate.toxics.clone(), None);
        Self { attempt: Arc::clone(attempt), direction, plan, waits: WaitsByToxic::default() }
    }
}

impl Governor for LinkGovernor {
    fn has_changed(&self) -> bool {
        self.plan.has_changed()
    }

    fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.plan.poll_changed(cx)
    }

    fn wanted(&mut self) -> Vec<StageId> {
        let plan = self.plan.see();
        let toxics = self.attempt.toxics();
        let here = |toxic: &&Arc<crate::plan::Armed>| {
            toxic.level == Level::Bytes && toxic.spec.stream == self.direction
        };
        let acting = toxics.all(&plan).filter(here).filter(|toxic| toxics.strikes(&plan, toxic));
        acting.map(|toxic| toxic.id).collect()
    }

    fn start(&mut self, id: StageId) -> Option<Box<dyn StreamFilter<Bytes>>> {
        let plan = self.plan.see();
        let toxics = self.attempt.toxics();
        let toxic = toxics.all(&plan).find(|toxic| toxic.id == id)?;
        let scope = Scope { direction: self.direction, ..Scope::default() };
        match toxic.start(&scope, toxics.dice(id.toxic)?) {
            Instance::Bytes(filter) => Some(filter),
            _ => None,
        }
    }

    fn report(&mut self, id: StageId, report: Report) {
        self.attempt.toxics().report(id.toxic, report);
    }

    fn held(&self) -> Arc<ProxyHeld> {
        Arc::clone(&self.attempt.ongoing.site.held)
    }

    fn waited(&mut self, id: StageId, wait: Duration) {
        self.waits.add(id.toxic, wait, || self.attempt.toxics().series_of(id.toxic));
    }
}
