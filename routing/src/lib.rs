//! What decides about failover.
//!
//! Everything here is a pure state machine: it is told the [`Moment`] and the facts, and says what to do. It has no sockets,
//! tasks or threads, reads no clock and rolls no dice, so that every decision can be tested and repeated exactly. Whoever
//! owns a state machine calls it again at the moment that it asks for.
//!
//! - [`breaker`]: the circuit breaker of a provider.
//! - [`cooldown`]: how long a provider that asks to wait is left alone.
//! - [`exhausted`]: which candidate is asked when the breakers of all of them refuse.

use std::time::Duration;

pub mod breaker;
pub mod cooldown;
pub mod exhausted;

/// Time since a start that the owner chooses, on a clock that never goes back, such as the time since the process began.
///
/// Changes of the system's time do not move it. A moment before the last one that was told counts as the last one.
pub type Moment = Duration;

/// A moment, and a roll of the dice for what is decided then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Now {
    /// The moment.
    pub moment: Moment,
    /// A random number from 0 up to but not including 1.
    pub roll: f64,
}

impl From<Moment> for Now {
    /// That moment with a roll of 0.5, for which a jitter around zero is none.
    fn from(moment: Moment) -> Self {
        Self { moment, roll: 0.5 }
    }
}
