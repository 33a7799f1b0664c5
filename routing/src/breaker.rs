//! The circuit breaker of a provider, after the one of resilience4j.
//!
//! States, transitions, windows, rates, settings and events have resilience4j's names and meaning. With
//! [`Semantics::R4j`] the breaker does what resilience4j 2.3 does, result for result; recorded traces of that library are
//! among the tests. One difference is deliberate: leaving a state cancels its timers, also by [`Breaker::reset`].
//!
//! [`Semantics::Strict`], the default, differs where calls take a minute and the next ones depend on the result:
//!
//! | resilience4j | strict |
//! |---|---|
//! | permits are a count; a result counts in whatever state it arrives | a [`Ticket`] knows the epoch that admitted it; a result from an earlier epoch is counted as late, and changes nothing |
//! | a permit that nobody returns is lost | a probe has a lease; a [`Permit`] returns its ticket when it is dropped |
//! | half open decides after all probes | decides once the other probes cannot change the verdict |
//! | ignored probes return their permit, without a limit | after `max_inconclusive` of them, one probe for each `probe_interval` |
//! | a call that hangs is seen when it ends | a call beyond the slow threshold counts as slow while it hangs |
//! | full load once closed | a share of the calls that grows over `ramp_duration` |
//! | each wait as configured | waits grow with each attempt, until the breaker stayed closed for `stable_duration` |
//! | a 429 is a failure | a 429 starts a cool-down, as long as the provider asks for |
//!
//! Ask [`Breaker::try_acquire`] whether a call may be made. Routing by [`Breaker::status`] alone never recovers: only an
//! acquisition ends the state OPEN, unless `automatic_transition_from_open_to_half_open_enabled` is set.
//!
//! Every operation takes constant time. A time window has one bucket for each second, and advancing it visits at most each of
//! them; a call that becomes overdue is visited once.

mod config;
mod event;
mod half_open;
mod in_flight;
mod machine;
mod outcomes;
mod shared;
mod snapshot;
mod state;
mod ticket;
mod transitions;
mod view;
mod window;

pub use config::{
    BreakerConfig, CountRateLimited, Kind, Semantics, SlidingWindowType, SlowCallDuration, WaitDuration,
};
pub use event::{Counters, Event, EventKind, Events};
pub use machine::Breaker;
pub use outcomes::{Report, Timing, Verdict};
pub use shared::{Clock, Permit, SharedBreaker};
pub use snapshot::Snapshot;
pub use state::{IllegalTransition, State};
pub use ticket::{Denied, Reason, Role, Ticket};
pub use view::{Metrics, Status};
