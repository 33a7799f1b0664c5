//! Which toxics act on a body, now and after every change.
use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use super::meter_for;
use crate::{
    http::ongoing::Owner,
    link::{Governor, ProxyHeld},
    metrics::{EventGaps, WaitsByToxic},
    plan::{Armed, PlanWatch},
};
use aconite_dialects::{Event, Meter};
use aconite_toxics::{
    BodyFilter, BodyForm, Direction, Instance, Level, OnBytes, OnEvents, Report, Scope, StageId, StreamFilter,
};
use bytes::Bytes;

type Lifted = Box<dyn StreamFilter<Event>>;

/// Answers for one body of an exchange, or of an attempt.
pub(crate) struct BodyGovernor {
    party: Owner,
    scope: Scope,
    plan: PlanWatch,
    /// What the exchange's own filters have already started for this body.
    ready: Vec<(StageId, Option<Lifted>)>,
    /// Where the body stands, if it is a stream of events.
    meter: Option<Meter>,
    /// The body is coded and is not being decoded: nobody can read it.
    unreadable: bool,
    /// How much of the body has left already, in bytes.
    passed: u64,
    gaps: EventGaps,
    waits: WaitsByToxic,
}

/// A filter started for the exchange, and the toxic that it belongs to.
pub(crate) type Ready = (StageId, Option<BodyFilter>);

impl BodyGovernor {
    pub(crate) fn new(party: Owner, scope: Scope, ready: Vec<Ready>, unreadable: bool) -> Self {
        let plan = PlanWatch::new(party.toxics().receiver().clone(), None);
        let meter = if unreadable { None } else { meter_for(scope.body) };
        let mut governor = Self {
            party,
            scope,
            plan,
            ready: Vec::new(),
            meter,
            unreadable,
            passed: 0,
            gaps: EventGaps::default(),
            waits: WaitsByToxic::default(),
        };
        for (id, filter) in ready {
            let lifted = filter.map(|filter| governor.lifted(filter)).transpose();
            let lifted = lifted.unwrap_or_else(|reason| {
                governor.party.toxics().passed_over(id.toxic, reason);
                None
            });
            governor.ready.push((id, lifted));
        }
        governor
    }

    pub(crate) fn party(&self) -> &Owner {
        &self.party
    }

    pub(crate) fn meter(&self) -> Option<&Meter> {
        self.meter.as_ref()
    }

    /// The bytes that leave for a piece of the body.
    pub(crate) fn raw(&self, piece: Event) -> Bytes {
        match &self.meter {
            Some(meter) => piece.raw_at(meter),
            None => piece.into_raw(),
        }
    }

    /// Data is about to leave.
    pub(crate) fn moved(&mut self, bytes: &[u8]) {
        self.passed += bytes.len() as u64;
        if let Some(meter) = &mut self.meter {
            meter.feed(bytes);
        }
        let Some(exchange) = self.party.exchange() else { return };
        match self.scope.direction {
            Direction::Downstream => {
                let events = self.meter.as_ref().map_or(0, Meter::events);
                self.gaps.sent(events, &exchange.site.series);
                exchange.sent(self.passed, events);
            }
            Direction::Upstream => exchange.forwarded(self.passed),
        }
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }

    fn lifted(&self, filter: BodyFilter) -> Result<Lifted, &'static str> {
        let limit = self.party.ongoing().site.max_edit_bytes();
        match (filter, self.scope.body) {
            (BodyFilter::Bytes(filter), _) => Ok(Box::new(OnBytes::new(filter, self.meter))),
            (BodyFilter::Events(_) | BodyFilter::Document(_), _) if self.unreadable => Err("encoded"),
            (BodyFilter::Events(filter), BodyForm::Events(framing)) => {
                let at = self.meter.filter(|_| self.passed > 0);
                Ok(Box::new(OnEvents::new(filter, framing, limit, at)))
            }
            (BodyFilter::Events(_), _) => Err("no_events"),
            // Documents are edited before their head leaves.
            (BodyFilter::Document(_), _) => Err("too_late"),
        }
    }

    fn begin(&self, toxic: &Armed) -> Result<Lifted, &'static str> {
        let dice = self.party.toxics().dice(toxic.id.toxic).ok_or("unknown")?;
        let scope = Scope { passed: self.passed, ..self.scope.clone() };
        match toxic.start(&scope, dice) {
            Instance::Exchange(mut filter) => {
                filter.body(&scope).ok_or("too_late").and_then(|filter| self.lifted(filter))
            }
            Instance::Body(filter) => self.lifted(filter),
            Instance::Idle(reason) => Err(reason),
            Instance::Bytes(_) | Instance::Connect(_) => Err("not_here"),
        }
    }
}

/// Whether a toxic may have to do with a body of this form.
pub(crate) fn concerns(toxic: &Armed, scope: &Scope) -> bool {
    toxic.spec.stream == scope.direction
        && match toxic.level {
            Level::Exchange => true,
            Level::Events => {
                matches!(scope.body, BodyForm::Events(_))
                    || (toxic.acts_on(Level::Document) && scope.body == BodyForm::Document)
            }
            Level::Document => scope.body == BodyForm::Document,
            Level::Bytes | Level::Connect => false,
        }
}

/// Why a toxic that is meant for a body cannot act on one of this form, or on one that is `empty`.
pub(crate) fn beyond(toxic: &Armed, scope: &Scope, empty: bool) -> Option<&'static str> {
    let on_content = matches!(toxic.level, Level::Events | Level::Document);
    if !on_content || toxic.spec.stream != scope.direction {
        return None;
    }
    match toxic.level {
        _ if empty => Some("no_body"),
        _ if concerns(toxic, scope) => None,
        Level::Events => Some("not_a_stream"),
        _ => Some("not_a_document"),
    }
}

impl Governor<Event> for BodyGovernor {
    fn has_changed(&self) -> bool {
        self.plan.has_changed()
    }

    fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.plan.poll_changed(cx)
    }

    fn wanted(&mut self) -> Vec<StageId> {
        let plan = self.plan.see();
        let toxics = self.party.toxics();
        if !toxics.act_on_messages(&plan) && self.ready.is_empty() {
            return Vec::new();
        }
        toxics.out_of_reach(&plan, |toxic| beyond(toxic, &self.scope, false));
        let concerned = toxics.all(&plan).filter(|toxic| concerns(toxic, &self.scope));
        concerned.filter(|toxic| toxics.strikes(&plan, toxic)).map(|toxic| toxic.id).collect()
    }

    fn start(&mut self, id: StageId) -> Option<Lifted> {
        if let Some(ready) = self.ready.iter_mut().find(|(ready, _)| *ready == id) {
            return ready.1.take();
        }
        let plan = self.plan.see();
        let toxics = self.party.toxics();
        let toxic = toxics.all(&plan).find(|toxic| toxic.id == id)?;
        self.begin(toxic).map_err(|reason| toxics.passed_over(id.toxic, reason)).ok()
    }

    fn report(&mut self, id: StageId, report: Report) {
        self.party.toxics().report(id.toxic, report);
    }

    fn held(&self) -> Arc<ProxyHeld> {
        Arc::clone(&self.party.ongoing().site.held)
    }

    fn waited(&mut self, id: StageId, wait: Duration) {
        self.waits.add(id.toxic, wait, || self.party.toxics().series_of(id.toxic));
    }
}
