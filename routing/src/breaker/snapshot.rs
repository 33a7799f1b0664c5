//! A breaker that outlives its process.

use std::time::Duration;

use aconite_dialects::SpecError;
use serde::{Deserialize, Serialize};

use super::{Breaker, BreakerConfig, State, window::Saved};
use crate::{Moment, Now};

/// What a breaker knows, for the next process. Moments are stored as the time from or until the snapshot.
///
/// Calls in flight are not in it: their results are late.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    state: State,
    attempts: u32,
    row: u32,
    not_permitted: u64,
    published: [bool; 3],
    is_ramping: bool,
    /// For how long it has been in its state.
    state_for: Duration,
    /// For how long it will be open. None if its wait is over, or it is not open.
    open_for: Option<Duration>,
    cool_down_for: Option<Duration>,
    told_for: Option<Duration>,
    /// How many probes said nothing.
    inconclusive: u32,
    /// For how long no other probe is due after too many of these.
    interval_for: Duration,
    is_of_probes: bool,
    window: Saved,
}

impl Snapshot {
    /// The state that it was taken in.
    pub const fn state(&self) -> State {
        self.state
    }
}

impl Breaker {
    /// What the breaker knows at this moment. Let it [`advance`](Self::advance) until then before.
    #[must_use]
    pub fn snapshot(&self, now: Moment) -> Snapshot {
        let now = now.max(self.now);
        let ahead = |moment: Option<Moment>| moment?.checked_sub(now);
        Snapshot {
            state: self.state,
            attempts: self.attempts,
            row: self.row,
            not_permitted: self.not_permitted,
            published: self.published,
            is_ramping: self.is_ramping,
            state_for: self.in_state_for(now),
            open_for: ahead(Some(self.open_until)).filter(|_| self.state == State::Open),
            cool_down_for: ahead(self.cool_down_until),
            told_for: ahead(self.told_until),
            inconclusive: self.probes.inconclusive,
            interval_for: self.probes.interval_until.saturating_sub(now),
            is_of_probes: self.window.is_of_probes,
            window: self.window.saved(now),
        }
    }

    /// Continues from a snapshot that was taken `age` ago.
    ///
    /// A snapshot that is as old as the wait in OPEN, or older, tells nothing about now: the breaker then begins in its
    /// initial state. A restart never leaves a breaker open for longer than the process before would have.
    ///
    /// # Errors
    /// Everything that is wrong with the configuration.
    pub fn restore(
        config: BreakerConfig,
        snapshot: &Snapshot,
        age: Duration,
        now: impl Into<Now>,
    ) -> Result<Self, Vec<SpecError>> {
        let now = now.into();
        let mut breaker = Self::new(config, now)?;
        let wait = breaker.config.wait(snapshot.attempts, 0.5);
        if age < snapshot.open_for.map_or(wait, |open_for| open_for.max(wait)) {
            breaker.load(snapshot, age, now.moment);
        }
        Ok(breaker)
    }

    fn load(&mut self, snapshot: &Snapshot, age: Duration, now: Moment) {
        let ahead = |left: Option<Duration>| Some(now.saturating_add(left?.checked_sub(age)?));
        self.state = snapshot.state;
        self.attempts = snapshot.attempts;
        self.row = snapshot.row;
        self.not_permitted = snapshot.not_permitted;
        self.published = snapshot.published;
        self.is_ramping = snapshot.is_ramping && self.config.is_strict();
        let just_over = now.saturating_sub(Duration::from_nanos(1));
        self.open_until = ahead(snapshot.open_for).unwrap_or(just_over);
        self.cool_down_until = ahead(snapshot.cool_down_for);
        self.told_until = ahead(snapshot.told_for);
        self.probes.inconclusive = snapshot.inconclusive;
        self.probes.interval_until = now.saturating_add(snapshot.interval_for.saturating_sub(age));
        self.window = match self.state {
            State::HalfOpen => self.half_open_window(),
            State::Open if snapshot.is_of_probes => self.half_open_window(),
            _ => self.fresh_window(),
        };
        self.window.load(&snapshot.window, age.as_secs());
        self.state_before = snapshot.state_for.saturating_add(age);
        self.resume(now);
    }
}
