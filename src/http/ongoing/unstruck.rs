//! Why toxics did not act on an exchange: each toxic whose conditions the request meets has an entry in the journal.
use aconite_toxics::{Direction, Level};

use super::Toxics;
use crate::{
    journal::Strike,
    plan::{Armed, Plan},
};

/// It waited for something in the body that did not come, or the exchange was over before its turn.
const NOT_REACHED: &str = "not_reached";
/// No response came from the upstream whose body it could have acted on.
const NO_RESPONSE: &str = "no_response";
/// It acts on the whole connection: `/v1/connections` and the live feed tell of it.
const ON_CONNECTION: &str = "on_connection";
/// Another toxic of an exclusive proxy was chosen.
const EXCLUSIVE: &str = "exclusive";

/// The exchange is over: what has not acted by now will not.
pub(super) fn disarm(toxics: &mut [Strike]) {
    for strike in toxics {
        strike.waits_for = None;
        if !strike.struck {
            strike.reason.get_or_insert_with(|| NOT_REACHED.to_owned());
        }
    }
}

impl Toxics<'_> {
    /// Records the toxics that are configured and enabled, but not in effect.
    pub(crate) fn note_idle(self, plan: &Plan) {
        if plan.idle.is_empty() {
            return;
        }
        let facts = self.facts();
        for (toxic, reason) in
            plan.idle.iter().filter(|(toxic, _)| toxic.meets(self.ongoing.connection.peer.ip(), &facts))
        {
            self.skip(toxic, reason);
        }
    }

    /// Toxics that are meant for this exchange cannot act on it, for the reason given for each. Their dice are not rolled,
    /// and their budgets stay as they are.
    pub(crate) fn out_of_reach(self, plan: &Plan, reason: impl Fn(&Armed) -> Option<&'static str>) {
        let facts = self.facts();
        let concerned = self.all(plan).filter_map(|toxic| Some((toxic, reason(toxic)?)));
        for (toxic, reason) in concerned {
            let id = toxic.id.toxic;
            if self.made().decisions.given(id).is_some() {
                self.passed_over(id, reason);
            } else if toxic.meets(self.ongoing.connection.peer.ip(), &facts) {
                self.skip(toxic, reason);
            }
        }
    }

    /// A toxic could not act, for this reason.
    pub(crate) fn passed_over(self, toxic: u64, reason: &'static str) {
        let Some((name, kind)) = self.name_of(toxic) else { return };
        let mut first = false;
        self.ongoing.record.note(|course| {
            if let Some(strike) = self.entry(course, &name)
                && !strike.struck
                && strike.reason.as_deref().is_none_or(|known| known == NOT_REACHED)
            {
                strike.reason = Some(reason.to_owned());
                first = true;
            }
        });
        if first {
            self.ongoing.site.series.toxic(&kind).passed(reason);
            self.tell("toxic.passed", &name, &kind, Some(reason));
        }
    }

    /// The exchange or the attempt is over: records the toxics about which nothing was decided.
    pub(super) fn settle(self) {
        let facts = self.facts();
        for toxic in self.all(&self.state.begun) {
            if self.made().decisions.given(toxic.id.toxic).is_some()
                || !toxic.meets(self.ongoing.connection.peer.ip(), &facts)
            {
                continue;
            }
            if self.state.attempt.is_none() && is_of_connection(toxic) {
                // Metrics and feed have heard of it from the connection.
                self.enter(toxic, self.ongoing.connection.refusal(toxic.id.toxic).unwrap_or(ON_CONNECTION));
            } else {
                self.skip(toxic, self.undecided(toxic));
            }
        }
    }

    /// Why it was never asked whether a toxic applies.
    fn undecided(self, toxic: &Armed) -> &'static str {
        if self.state.begun.exclusive && self.made().chosen.is_some() {
            return EXCLUSIVE;
        }
        match (toxic.level, toxic.spec.stream) {
            (Level::Events | Level::Document, Direction::Downstream) => NO_RESPONSE,
            _ => NOT_REACHED,
        }
    }

    /// Records that a toxic about which nothing was decided does not act, and tells of it. Its first reason counts.
    fn skip(self, toxic: &Armed, reason: &'static str) {
        if self.enter(toxic, reason) {
            let (name, kind) = (&toxic.spec.name, &toxic.spec.kind);
            self.ongoing.site.series.toxic(kind).passed(reason);
            self.tell("toxic.passed", name, kind, Some(reason));
        }
    }

    /// Records that a toxic does not act, unless it has an entry.
    fn enter(self, toxic: &Armed, reason: &'static str) -> bool {
        let name = &toxic.spec.name;
        let mut is_new = false;
        self.ongoing.record.note(|course| {
            is_new = course.toxics.iter().all(|strike| !self.is_of(strike) || strike.name != *name);
            if is_new {
                course.decided(Strike {
                    name: name.clone(),
                    kind: toxic.spec.kind.clone(),
                    attempt: self.state.attempt,
                    reason: Some(reason.to_owned()),
                    ..Strike::default()
                });
            }
        });
        is_new
    }
}

fn is_of_connection(toxic: &Armed) -> bool {
    match toxic.level {
        Level::Bytes => true,
        Level::Connect => toxic.connect.is_some_and(|fault| !fault.is_of_upstream()),
        Level::Exchange | Level::Events | Level::Document => false,
    }
}
