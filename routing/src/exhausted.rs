//! What to do when the breakers of all candidates refuse.

use std::time::Duration;

use aconite_dialects::units::Millis;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Moment;

/// What is done when no candidate may be asked.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum OnExhausted {
    /// A degraded response is given.
    #[default]
    Degrade,
    /// The request fails at once, and is told when to come again.
    FailFast,
    /// The candidate that is available first is asked although its breaker refuses. One that is forced open never is.
    LeastBad,
    /// The request waits for the candidate that is available first, for this long at most, and then fails.
    Queue(Millis),
}

/// What the policy says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Choice {
    /// Give a degraded response.
    Degrade,
    /// Fail. A call may be admitted after this time, if that is known.
    Fail {
        /// How long to wait.
        retry_after: Option<Duration>,
    },
    /// Ask the candidate at this index.
    Ask(usize),
    /// Wait until this moment, then ask all breakers again.
    WaitUntil(Moment),
}

/// Decides. `available_at` has for each candidate, in their order, when its breaker may admit a call:
/// [`Breaker::available_at`](crate::breaker::Breaker::available_at). `arrived` is when the request came.
#[must_use]
pub fn choose(policy: OnExhausted, available_at: &[Option<Moment>], arrived: Moment, now: Moment) -> Choice {
    let known = available_at.iter().enumerate().filter_map(|(index, at)| Some((index, (*at)?)));
    let first = known.min_by_key(|(_, at)| *at);
    let retry_after = first.map(|(_, at)| at.saturating_sub(now));
    match (policy, first) {
        (OnExhausted::Degrade, _) => Choice::Degrade,
        (OnExhausted::LeastBad, Some((index, _))) => Choice::Ask(index),
        (OnExhausted::Queue(longest), Some((_, at)))
            if at <= arrived.saturating_add(longest.into())
                && now < arrived.saturating_add(longest.into()) =>
        {
            // A breaker admits calls after the moment, not at it.
            Choice::WaitUntil(at.max(now).saturating_add(Duration::from_millis(1)))
        }
        (OnExhausted::FailFast | OnExhausted::LeastBad | OnExhausted::Queue(_), _) => {
            Choice::Fail { retry_after }
        }
    }
}
