//! The toxics of an exchange, or of one attempt of it: which of them apply, and what became of each.
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use aconite_dialects::Dialect;
use aconite_toxics::{BodyForm, Dice, Direction, Report, RequestFacts, Scope, StageId};
use http::{HeaderMap, StatusCode};
use tokio::time::Instant;

use super::{ExchangeState, millis};
use crate::{
    journal::{Progress, Strike, recorded},
    metrics::ToxicSeries,
    plan::{Armed, Decisions, Plan, PlanReceiver},
};

/// What was decided on the toxics of an exchange, or of one attempt of it.
pub(crate) struct ToxicState {
    /// The toxics as it began.
    pub(super) begun: Arc<Plan>,
    /// A toxic that the request brought along.
    pub(super) own: Option<Arc<Armed>>,
    /// The number of the attempt; `None` for the exchange.
    pub(super) attempt: Option<u32>,
    /// In which dialect it is answered.
    dialect: Option<Dialect>,
    made: Mutex<Made>,
}

pub(super) struct Made {
    pub(super) decisions: Decisions,
    /// The one toxic that an exclusive proxy lets act.
    pub(super) chosen: Option<u64>,
}

impl ToxicState {
    pub(super) fn new(
        begun: Arc<Plan>,
        own: Option<Arc<Armed>>,
        attempt: Option<u32>,
        dialect: Option<Dialect>,
        decisions: Decisions,
    ) -> Self {
        Self { begun, own, attempt, dialect, made: Mutex::new(Made { decisions, chosen: None }) }
    }
}

/// The toxics of an exchange, or of one attempt of it.
#[derive(Clone, Copy)]
pub(crate) struct Toxics<'a> {
    pub(super) ongoing: &'a ExchangeState,
    pub(super) state: &'a ToxicState,
    pub(super) plan: &'a PlanReceiver,
}

impl<'a> Toxics<'a> {
    pub(super) fn made(self) -> MutexGuard<'a, Made> {
        self.state.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of the request, as the upstream hears it.
    pub(super) fn facts(self) -> RequestFacts<'a> {
        RequestFacts { dialect: self.state.dialect, ..self.ongoing.facts.as_request_facts() }
    }

    /// The place of a message.
    pub(crate) fn scope(self, direction: Direction, body: BodyForm, length: Option<u64>) -> Scope {
        Scope { dialect: self.state.dialect, ..self.ongoing.facts.scope(direction, body, length) }
    }

    /// What the body of a response is made of, by its head and by what was asked for.
    pub(crate) fn response_form(self, status: StatusCode, headers: &HeaderMap) -> BodyForm {
        self.ongoing.facts.response_form(self.state.dialect, status, headers)
    }

    /// The plan as it changes.
    pub(crate) fn receiver(self) -> &'a PlanReceiver {
        self.plan
    }

    /// Those that may apply by the plan, the one that the request brought along first.
    pub(crate) fn all<'p>(self, plan: &'p Plan) -> impl Iterator<Item = &'p Arc<Armed>>
    where
        'a: 'p,
    {
        self.state.own.iter().filter(|_| plan.on).chain(&plan.toxics)
    }

    /// Whether any of them acts on messages, and not on bytes alone.
    pub(crate) fn act_on_messages(self, plan: &Plan) -> bool {
        plan.strikes_messages || (plan.on && self.state.own.is_some())
    }

    /// Whether a toxic applies. Decided once, and recorded when it is.
    pub(crate) fn strikes(self, plan: &Plan, toxic: &Arc<Armed>) -> bool {
        let mut made = self.made();
        if plan.exclusive && made.chosen.is_some_and(|chosen| chosen != toxic.id.toxic) {
            return false;
        }
        let news = made.decisions.given(toxic.id.toxic).is_none();
        let facts = self.facts();
        let Some(ticket) = made.decisions.ticket(plan, toxic, Some(&facts)) else { return false };
        let good = ticket.is_good();
        if news {
            let (roll, refused) = (ticket.roll, ticket.refused);
            self.record(toxic, roll, refused);
        }
        if good && plan.exclusive {
            made.chosen = Some(toxic.id.toxic);
        }
        good
    }

    /// Records what was decided on a toxic.
    fn record(self, toxic: &Armed, roll: f64, refused: Option<&'static str>) {
        let strike = Strike {
            name: toxic.spec.name.clone(),
            kind: toxic.spec.kind.clone(),
            attempt: self.state.attempt,
            roll,
            reason: refused.map(str::to_owned),
            waits_for: toxic.spec.attributes.get("at").cloned(),
            ..Strike::default()
        };
        self.ongoing.record.note(|course| {
            // One that acted may have been removed, and another of its name added.
            let known = course
                .toxics
                .iter()
                .rposition(|known| self.is_of(known) && known.name == strike.name && !known.struck);
            let idle = |at: usize| course.toxics[at].reason.as_deref().is_none_or(crate::plan::is_idle);
            match known {
                // What kept it from acting may be over.
                Some(at) if idle(at) => course.toxics[at] = strike,
                Some(at) => course.toxics[at].roll = strike.roll,
                None => course.decided(strike),
            }
        });
        if let Some(reason) = refused {
            self.ongoing.site.series.toxic(&toxic.spec.kind).passed(reason);
            self.tell("toxic.passed", &toxic.spec.name, &toxic.spec.kind, Some(reason));
        }
    }

    /// The latest entry of the journal about the toxic of this name.
    pub(super) fn entry<'c>(self, course: &'c mut Progress, name: &str) -> Option<&'c mut Strike> {
        course.toxics.iter_mut().rfind(|strike| self.is_of(strike) && strike.name == name)
    }

    /// Whether an entry of the journal is about one of these.
    pub(super) fn is_of(self, strike: &Strike) -> bool {
        strike.attempt == self.state.attempt
    }

    /// The dice of a toxic that applies here, as they were after the roll against its toxicity.
    pub(crate) fn dice(self, toxic: u64) -> Option<Dice> {
        self.made().decisions.given(toxic).map(|ticket| ticket.dice.clone())
    }

    /// The names of the toxics that apply and may be told of.
    pub(crate) fn marks(self, applies: impl Fn(&Armed) -> bool) -> Vec<String> {
        let made = self.made();
        let tickets = made.decisions.tickets().filter(|ticket| ticket.is_good());
        let marked = tickets.filter(|ticket| ticket.toxic.spec.marker && applies(&ticket.toxic));
        marked.map(|ticket| ticket.toxic.spec.name.clone()).collect()
    }

    /// A filter has something to say.
    pub(crate) fn report(self, toxic: u64, report: Report) {
        if let Some(at) = report.struck {
            self.struck(toxic, at);
        } else if let Some(reason) = report.skipped {
            self.passed_over(toxic, reason);
        }
    }

    /// A toxic has struck, so long after the exchange began.
    pub(crate) fn struck(self, toxic: u64, at: Duration) {
        let Some((name, kind)) = self.name_of(toxic) else { return };
        let mut first = false;
        self.ongoing.record.note(|course| {
            if let Some(strike) = self.entry(course, &name).filter(|strike| !strike.struck) {
                *strike = Strike { struck: true, at: Some(millis(at)), reason: None, ..strike.clone() };
                first = true;
            }
        });
        if first {
            let site = &self.ongoing.site;
            site.series.toxic(&kind).struck();
            tracing::debug!(proxy = %site.name, toxic = %name, exchange = self.ongoing.record.id, "a toxic struck");
            self.tell("toxic.struck", &name, &kind, None);
        }
    }

    pub(super) fn tell(self, event: &'static str, name: &str, kind: &str, reason: Option<&str>) {
        let ExchangeState { site, facts, record, .. } = self.ongoing;
        site.journal.tell(event, || {
            serde_json::json!({
                "proxy": &*site.name,
                "toxic": name,
                "type": kind,
                "exchange": record.id,
                "attempt": self.state.attempt,
                "scene": facts.scene.as_deref().map(recorded),
                "test_id": facts.test_id.as_deref().map(recorded),
                "reason": reason,
            })
        });
    }

    pub(super) fn name_of(self, toxic: u64) -> Option<(String, String)> {
        let made = self.made();
        let spec = &made.decisions.given(toxic)?.toxic.spec;
        Some((spec.name.clone(), spec.kind.clone()))
    }

    /// Waits, unless the toxic that asks for it goes away. Whether the wait was to its end.
    pub(crate) async fn wait(self, id: StageId, how_long: Option<Duration>) -> bool {
        let over = async {
            match how_long {
                Some(how_long) => tokio::time::sleep(how_long).await,
                None => std::future::pending().await,
            }
        };
        let began = Instant::now();
        let ids = [id];
        let to_its_end = tokio::select! {
            () = over => true,
            () = self.gone(&ids) => false,
        };
        if let Some(series) = self.series_of(id.toxic) {
            series.waited(began.elapsed());
        }
        to_its_end
    }

    /// Waits until none of these toxics is in effect.
    pub(crate) async fn gone(self, ids: &[StageId]) {
        let mut plan = self.plan.clone();
        let acts = |id: &StageId, plan: &Plan| self.all(plan).any(|toxic| toxic.id.toxic == id.toxic);
        // The proxy's end drops the exchange by itself.
        if plan.wait_for(|plan| !ids.iter().any(|id| acts(id, plan))).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Where to count what a toxic does.
    pub(crate) fn series_of(self, toxic: u64) -> Option<Arc<ToxicSeries>> {
        let made = self.made();
        let kind = &made.decisions.given(toxic)?.toxic.spec.kind;
        Some(Arc::clone(self.ongoing.site.series.toxic(kind)))
    }
}
