//! The states, and which of them may follow which.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A state of the breaker.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum State {
    /// Calls are admitted and counted.
    #[default]
    Closed,
    /// Calls are refused until the wait is over.
    Open,
    /// A limited number of probes is admitted; their results decide.
    HalfOpen,
    /// Calls are admitted, nothing is counted.
    Disabled,
    /// Calls are admitted and counted, and the breaker never opens.
    MetricsOnly,
    /// Calls are refused until somebody changes the state.
    ForcedOpen,
}

impl State {
    /// All states.
    pub const ALL: [Self; 6] =
        [Self::Closed, Self::Open, Self::HalfOpen, Self::Disabled, Self::MetricsOnly, Self::ForcedOpen];

    /// The state's name, as resilience4j writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "CLOSED",
            Self::Open => "OPEN",
            Self::HalfOpen => "HALF_OPEN",
            Self::Disabled => "DISABLED",
            Self::MetricsOnly => "METRICS_ONLY",
            Self::ForcedOpen => "FORCED_OPEN",
        }
    }

    /// Whether this state may be followed by another one. A state may always be entered anew.
    pub const fn may_become(self, to: Self) -> bool {
        !matches!(
            (self, to),
            (Self::Closed, Self::HalfOpen) | (Self::MetricsOnly, Self::Open | Self::HalfOpen)
        )
    }

    /// Whether calls and results are counted and published.
    pub(super) const fn observes(self) -> bool {
        !matches!(self, Self::Disabled | Self::ForcedOpen)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A state was asked for that cannot follow the current one.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a breaker that is {from} cannot become {to}")]
pub struct IllegalTransition {
    /// The current state.
    pub from: State,
    /// The state that was asked for.
    pub to: State,
}
