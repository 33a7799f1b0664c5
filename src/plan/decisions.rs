//! Whether a toxic strikes: match, budget, toxicity, dice.
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use aconite_toxics::{Budget, Dice, Direction, Level, MatchResult, RequestFacts, StageId};

use super::{Armed, BudgetUse, Plan};

/// The right of a toxic to strike one connection or exchange, for as long as it is held.
pub(crate) struct BudgetPermit {
    pub(crate) toxic: Arc<Armed>,
    /// What was rolled against its toxicity.
    pub(crate) roll: f64,
    pub(crate) dice: Dice,
    /// Why it does not strike, if it does not.
    pub(crate) refused: Option<&'static str>,
    /// Whether its toxic was removed when that was last looked at.
    expired: bool,
    _active: Option<Active>,
}

impl BudgetPermit {
    /// Whether the toxic may strike.
    pub(crate) fn is_good(&self) -> bool {
        self.refused.is_none()
    }
}

/// One strike in progress.
struct Active(Arc<BudgetUse>);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Relaxed);
    }
}

/// The decisions made so far for one connection or exchange: each toxic is asked once.
pub(crate) struct Decisions {
    number: u64,
    client: IpAddr,
    /// Keyed by the toxic's number: an unrelated change never rolls again.
    made: HashMap<u64, BudgetPermit>,
    /// With so many tickets those of removed toxics are looked for.
    limit: usize,
}

/// So many tickets are kept before those of removed toxics are looked for.
const FEW_TICKETS: usize = 8;

impl Decisions {
    /// None yet, for the nth connection or exchange of the proxy, and the address of its client.
    pub(crate) fn new(number: u64, client: IpAddr) -> Self {
        Self { number, client, made: HashMap::new(), limit: FEW_TICKETS }
    }

    /// Whether the toxic strikes here. `facts` are those of the request, where there is one.
    ///
    /// `None` if its match does not hold.
    pub(crate) fn ticket(
        &mut self,
        plan: &Plan,
        toxic: &Arc<Armed>,
        facts: Option<&RequestFacts<'_>>,
    ) -> Option<&mut BudgetPermit> {
        // A request does not change: what was asked once holds for as long as the toxic is the same.
        let known = self.made.get(&toxic.id.toxic).is_some_and(|ticket| Arc::ptr_eq(&ticket.toxic, toxic));
        if !known && !toxic.matcher.admits(self.client) {
            return None;
        }
        let mut unread = None;
        if !known && let Some(facts) = facts {
            match toxic.matcher.matches(facts) {
                MatchResult::Matches => {}
                MatchResult::Differs => return None,
                MatchResult::Unknown(reason) => unread = Some(reason),
            }
        }
        self.forget_removed();
        let ticket = self.made.entry(toxic.id.toxic).or_insert_with(|| match unread {
            Some(reason) => undecided(plan, toxic, self.number, reason),
            None => decide(plan, toxic, self.number),
        });
        if ticket.toxic.id != toxic.id || !Arc::ptr_eq(&ticket.toxic, toxic) {
            // The roll stays what it was; only what it is held against may have changed.
            let missed = ticket.roll >= f64::from(toxic.spec.toxicity);
            ticket.refused = match ticket.refused {
                _ if unread.is_some() => unread,
                Some(MISSED) | None => missed.then_some(MISSED),
                other => other,
            };
            ticket.toxic = Arc::clone(toxic);
        }
        Some(ticket)
    }

    /// Drops the tickets of toxics that are removed, when many have come together. What a filter has to report when it
    /// stops comes after the change that stops it: a ticket is dropped the second time it is found.
    fn forget_removed(&mut self) {
        if self.made.len() < self.limit {
            return;
        }
        self.made.retain(|_, ticket| {
            let known = !ticket.expired;
            ticket.expired = ticket.toxic.is_removed();
            known || !ticket.expired
        });
        self.made.shrink_to(self.made.len() * 2);
        let live = self.made.values().filter(|ticket| !ticket.expired).count();
        self.limit = self.made.len() + live + FEW_TICKETS;
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
    pub(crate) fn tickets(&self) -> impl Iterator<Item = &BudgetPermit> {
        self.made.values()
    }

    /// The ticket given to a toxic.
    pub(crate) fn given(&self, toxic: u64) -> Option<&BudgetPermit> {
        self.made.get(&toxic)
    }
}

const MISSED: &str = "toxicity";

fn decide(plan: &Plan, toxic: &Arc<Armed>, number: u64) -> BudgetPermit {
    let mut dice = Dice::new(plan.seed, &plan.proxy, &toxic.spec.name, number);
    let roll = dice.unit();
    let (refused, active) = match toxic.spec.budget {
        _ if roll >= f64::from(toxic.spec.toxicity) => (Some(MISSED), None),
        None => (None, None),
        Some(budget) => spend(budget, &toxic.uses),
    };
    BudgetPermit { toxic: Arc::clone(toxic), roll, dice, refused, expired: false, _active: active }
}

/// It is not known whether the toxic's conditions hold: it does not apply, and its budget stays.
fn undecided(plan: &Plan, toxic: &Arc<Armed>, number: u64, reason: &'static str) -> BudgetPermit {
    let mut dice = Dice::new(plan.seed, &plan.proxy, &toxic.spec.name, number);
    let roll = dice.unit();
    BudgetPermit {
        toxic: Arc::clone(toxic),
        roll,
        dice,
        refused: Some(reason),
        expired: false,
        _active: None,
    }
}

/// Takes one strike out of the budget, or says why there is none.
fn spend(budget: Budget, uses: &Arc<BudgetUse>) -> (Option<&'static str>, Option<Active>) {
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
mod tests {
    use std::time::Duration;

    use aconite_toxics::Catalogue;
    use tokio::time::Instant;

    use super::*;

    fn fresh(number: u64) -> Decisions {
        Decisions::new(number, [127, 0, 0, 1].into())
    }

    fn plan(specs: &[serde_json::Value]) -> Plan {
        let catalogue = Catalogue::default();
        let toxics: Vec<_> = specs
            .iter()
            .map(|spec| {
                Arc::new(Armed::new(&serde_json::from_value(spec.clone()).unwrap(), &catalogue).unwrap())
            })
            .collect();
        Plan::at(Instant::now(), "p".into(), 42, true, false, &toxics).0
    }

    fn struck(plan: &Plan, numbers: std::ops::Range<u64>) -> Vec<u64> {
        numbers
            .filter(|number| {
                !byte_stages(plan, Direction::Downstream, &mut fresh(*number), |_, _| ()).is_empty()
            })
            .collect()
    }

    #[tokio::test]
    async fn d5_toxicity_is_the_same_for_the_same_seed() {
        let spec = serde_json::json!({"type": "latency", "toxicity": 0.5, "name": "l"});
        let first = struck(&plan(std::slice::from_ref(&spec)), 0..200);
        assert_eq!(first, struck(&plan(&[spec]), 0..200));
        assert!((60..140).contains(&first.len()), "{}", first.len());
    }

    #[tokio::test]
    async fn d9_an_unrelated_change_never_rolls_again() {
        let plan = plan(&[serde_json::json!({"type": "latency", "toxicity": 0.5, "budget": {"times": 1}})]);
        let mut decisions = fresh(1);
        let number = (0..).find(|number| !struck(&plan, *number..*number + 1).is_empty()).unwrap();
        assert!(
            byte_stages(&plan, Direction::Downstream, &mut decisions, |_, _| ()).is_empty() || number > 0
        );
        for _ in 0..10 {
            let mut decisions = fresh(number);
            let first = byte_stages(&plan, Direction::Downstream, &mut decisions, |_, _| ());
            assert_eq!(first, byte_stages(&plan, Direction::Downstream, &mut decisions, |_, _| ()));
        }
    }

    #[tokio::test]
    async fn budgets_count() {
        let with =
            |budget: serde_json::Value| plan(&[serde_json::json!({"type": "latency", "budget": budget})]);
        assert_eq!(struck(&with(serde_json::json!({"skip": 2, "times": 3})), 0..10), [2, 3, 4]);
        assert_eq!(struck(&with(serde_json::json!({"every": 3})), 0..10), [0, 3, 6, 9]);
        let plan = with(serde_json::json!({"max_active": 1}));
        let (mut one, mut two) = (fresh(0), fresh(1));
        assert_eq!(byte_stages(&plan, Direction::Downstream, &mut one, |_, _| ()).len(), 1);
        assert_eq!(byte_stages(&plan, Direction::Downstream, &mut two, |_, _| ()).len(), 0);
        drop(one);
        assert_eq!(byte_stages(&plan, Direction::Downstream, &mut fresh(2), |_, _| ()).len(), 1);
    }

    #[tokio::test]
    async fn a_10_decisions_on_removed_toxics_are_forgotten_and_others_stay() {
        let catalogue = Catalogue::default();
        let arm = |spec: serde_json::Value| {
            Arc::new(Armed::new(&serde_json::from_value(spec).unwrap(), &catalogue).unwrap())
        };
        let stays = arm(serde_json::json!({"type": "latency", "name": "stays", "budget": {"max_active": 1}}));
        let mut decisions = fresh(7);
        for _ in 0..1_000 {
            let passing = arm(serde_json::json!({"type": "latency", "name": "passing"}));
            let both = [Arc::clone(&stays), Arc::clone(&passing)];
            let plan = Plan::at(Instant::now(), "p".into(), 42, true, false, &both).0;
            let struck = byte_stages(&plan, Direction::Downstream, &mut decisions, |_, _| ());
            assert_eq!(struck, [stays.id, passing.id]);
            passing.remove();
            // While it ends it still has something to report.
            assert!(decisions.given(passing.id.toxic).is_some());
            assert!(decisions.made.len() < 40 && decisions.made.capacity() < 200, "{}", decisions.made.len());
        }
        // Its budget was spent once.
        assert_eq!(stays.uses.active.load(Relaxed), 1);
        drop(decisions);
        assert_eq!(stays.uses.active.load(Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_window_opens_and_closes() {
        let spec = serde_json::json!({"type": "latency", "window": {"after": "1s", "for": "2s"}});
        let toxics =
            [Arc::new(Armed::new(&serde_json::from_value(spec).unwrap(), &Catalogue::default()).unwrap())];
        let start = Instant::now();
        let at = |ms| Plan::at(start + Duration::from_millis(ms), "p".into(), 1, true, false, &toxics);
        for (ms, open, next) in [
            (0, 0, Some(1_000)),
            (999, 0, Some(1_000)),
            (1_000, 1, Some(3_000)),
            (2_999, 1, Some(3_000)),
            (3_000, 0, None),
        ] {
            let (plan, changes) = at(ms);
            assert_eq!(plan.toxics.len(), open, "{ms}");
            assert_eq!(changes, next.map(|next| start + Duration::from_millis(next)), "{ms}");
        }
    }
}
