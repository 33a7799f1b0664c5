//! Entering states, timers, what an operator does, and a new configuration.

use std::time::Duration;

use aconite_dialects::SpecError;

use super::{Breaker, BreakerConfig, EventKind, IllegalTransition, SlidingWindowType, State, window::Window};
use crate::{Moment, Now};

/// How many timers run exactly at their moments in one step. Those that are still due after that run as of the current moment,
/// so that a breaker that nobody asked for a day does not go through thousands of states.
const MAX_TIMERS: usize = 64;

impl Breaker {
    /// Does what was due until now.
    pub fn advance(&mut self, now: impl Into<Now>) {
        self.step(now.into());
    }

    /// When [`advance`](Self::advance) has something to do, if nothing else happens before.
    ///
    /// That is the end of OPEN if the breaker becomes half open by itself, the longest time half open, the end of a probe's
    /// lease, and the moment at which a call is overdue.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Moment> {
        [self.timer, self.next_overdue(), self.probes.next_expiry()].into_iter().flatten().min()
    }

    fn next_overdue(&self) -> Option<Moment> {
        self.in_flight.next_overdue(self.config.slow_call_duration_threshold.into())
    }

    /// Does what was due until now. Returns the moment, which never goes back.
    pub(super) fn step(&mut self, now: Now) -> Now {
        let target = Now { moment: now.moment.max(self.now), ..now };
        let mut timers = 0;
        while let Some(due) = self.next_deadline().filter(|due| *due <= target.moment) {
            timers += 1;
            self.now = if timers <= MAX_TIMERS { due.max(self.now) } else { target.moment };
            self.run_timers(Now { moment: self.now, ..target });
        }
        self.now = target.moment;
        target
    }

    fn run_timers(&mut self, now: Now) {
        if self.timer.take_if(|due| *due <= now.moment).is_some() {
            match self.state {
                State::Open => self.enter(State::HalfOpen, now),
                State::HalfOpen => self.enter(self.config.transition_to_state_after_wait_duration, now),
                _ => {}
            }
        }
        while self.probes.expire(now.moment) {
            self.counters.leases_expired += 1;
            self.publish(EventKind::LeaseExpired);
            self.note_inconclusive();
        }
        if self.in_flight.mark_overdue(now.moment, self.config.slow_call_duration_threshold.into()) {
            self.trip(now);
        }
    }

    /// Puts the breaker into a state, as an operator does.
    ///
    /// # Errors
    /// If that state cannot follow the current one. Nothing has changed then.
    pub fn transition_to(&mut self, state: State, now: impl Into<Now>) -> Result<(), IllegalTransition> {
        let now = self.step(now.into());
        self.check(state)?;
        if state == State::Closed {
            self.close(now);
        } else {
            self.enter(state, now);
        }
        Ok(())
    }

    /// Opens the breaker for a time. This is not an attempt: the wait does not grow by it.
    ///
    /// # Errors
    /// If the breaker cannot become open.
    pub fn open_for(&mut self, wait: Duration, now: impl Into<Now>) -> Result<(), IllegalTransition> {
        let now = now.into();
        self.open_until(now.moment.max(self.now).saturating_add(wait), now)
    }

    /// Opens the breaker until a moment. This is not an attempt: the wait does not grow by it.
    ///
    /// With strict semantics, the end of the wait of an open breaker only ever moves to a later moment.
    ///
    /// # Errors
    /// If the breaker cannot become open.
    pub fn open_until(&mut self, until: Moment, now: impl Into<Now>) -> Result<(), IllegalTransition> {
        let now = self.step(now.into());
        self.check(State::Open)?;
        self.hold_open(until, now);
        Ok(())
    }

    /// Closes the breaker and forgets what it knows. All timers are cancelled.
    pub fn reset(&mut self, now: impl Into<Now>) {
        let now = self.step(now.into());
        self.close(now);
        self.publish(EventKind::Reset);
    }

    /// Changes the settings. What is in flight becomes late, because other rules admitted it.
    ///
    /// The state stays. The window stays, unless its type or its size has changed, or the semantics. A wait that has begun
    /// keeps its end.
    ///
    /// # Errors
    /// Everything that is wrong with the settings. Nothing has changed then.
    pub fn reconfigure(&mut self, config: BreakerConfig, now: impl Into<Now>) -> Result<(), Vec<SpecError>> {
        config.validate("")?;
        let now = self.step(now.into());
        if config == self.config {
            return Ok(());
        }
        let is_of_probes = self.window.is_of_probes;
        let shape = |of: &BreakerConfig| match is_of_probes {
            true => {
                (of.semantics, SlidingWindowType::CountBased, of.permitted_number_of_calls_in_half_open_state)
            }
            false => (of.semantics, of.sliding_window_type, of.sliding_window_size),
        };
        let keeps_window = shape(&config) == shape(&self.config);
        self.config = config;
        self.begin_epoch();
        let fresh = if is_of_probes { self.half_open_window() } else { self.fresh_window() };
        if keeps_window {
            self.window.set_minimum(fresh.minimum);
        } else {
            self.window = fresh;
            self.row = 0;
        }
        self.resume(now.moment);
        Ok(())
    }

    /// Goes on in a state, with no call in flight.
    pub(super) fn resume(&mut self, now: Moment) {
        if self.state == State::HalfOpen {
            let recorded = self.window.totals(now).calls;
            let permitted = self.config.permitted_number_of_calls_in_half_open_state;
            self.probes.untagged = permitted.saturating_sub(recorded).into();
        }
        let longest = Duration::from(self.config.max_wait_duration_in_half_open_state);
        let is_automatic = self.config.automatic_transition_from_open_to_half_open_enabled;
        self.timer = match self.state {
            State::Open => is_automatic.then_some(self.open_until),
            State::HalfOpen => (!longest.is_zero()).then(|| {
                let left = longest.saturating_sub(self.in_state_for(now));
                now.saturating_add(left)
            }),
            _ => None,
        };
    }

    fn check(&self, to: State) -> Result<(), IllegalTransition> {
        let from = self.state;
        if from.may_become(to) { Ok(()) } else { Err(IllegalTransition { from, to }) }
    }

    /// Closes the breaker as if nothing had ever been wrong.
    fn close(&mut self, now: Now) {
        self.enter(State::Closed, now);
        self.attempts = 0;
        self.is_ramping = false;
        self.cool_down_until = None;
        self.told_until = None;
    }

    fn begin_epoch(&mut self) {
        self.epoch += 1;
        self.in_flight.clear();
        self.probes.clear();
    }

    /// The initial state. Nothing is published.
    pub(super) fn start(&mut self, now: Now) {
        let state = self.config.initial_state;
        self.state = state;
        self.enter(state, now);
        self.attempts = u32::from(matches!(state, State::Open | State::HalfOpen | State::ForcedOpen));
        self.counters = super::Counters::default();
    }

    /// Enters a state that is known to be legal, also the current one.
    pub(super) fn enter(&mut self, to: State, now: Now) {
        let from = self.state;
        let was_stable =
            from == State::Closed && self.in_state_for(now.moment) >= self.config.stable_duration.into();
        self.place(to, now);
        match to {
            State::Closed => {
                let is_recovery = from == State::HalfOpen && self.config.is_strict();
                self.is_ramping = is_recovery;
                // After a recovery they count until the breaker was closed for long enough.
                self.attempts = if is_recovery { self.attempts } else { 0 };
            }
            State::Open => {
                if self.config.is_strict() && was_stable {
                    self.attempts = 0;
                }
                self.attempts = self.attempts.saturating_add(1);
                self.set_open_until(
                    now.moment.saturating_add(self.config.wait(self.attempts, now.roll)),
                    from,
                );
            }
            State::ForcedOpen => self.attempts = self.attempts.saturating_add(1),
            State::Disabled | State::MetricsOnly => self.attempts = 0,
            State::HalfOpen => {}
        }
        self.resume(now.moment);
        self.publish_transition(from);
    }

    /// Opens the breaker until a moment, which is not an attempt.
    pub(super) fn hold_open(&mut self, until: Moment, now: Now) {
        let from = self.state;
        self.place(State::Open, now);
        self.set_open_until(until, from);
        self.resume(now.moment);
        self.publish_transition(from);
    }

    /// What entering a state does, whatever comes of its waits.
    fn place(&mut self, to: State, now: Now) {
        let from = self.state;
        self.state = to;
        self.since = now.moment;
        self.state_before = Duration::ZERO;
        self.is_ramping = false;
        self.row = 0;
        self.published = [false; 3];
        self.begin_epoch();
        match to {
            // The results that opened it stay visible.
            State::Open => self.counters.opened += u64::from(from != to),
            State::HalfOpen => {
                self.window = self.half_open_window();
                self.not_permitted = 0;
            }
            _ => {
                self.window = self.fresh_window();
                self.not_permitted = 0;
            }
        }
    }

    fn set_open_until(&mut self, until: Moment, from: State) {
        let is_strict = self.config.is_strict();
        let is_extended = is_strict && from == State::Open;
        let floor = if is_extended { self.open_until } else { Moment::ZERO };
        let told = self.told_until.filter(|_| is_strict).unwrap_or_default();
        self.open_until = until.max(floor).max(told);
    }

    fn publish_transition(&mut self, from: State) {
        if from != self.state {
            self.publish(EventKind::StateTransition { from, to: self.state });
        }
    }

    pub(super) fn fresh_window(&self) -> Window {
        let config = &self.config;
        let (size, minimum) = (config.sliding_window_size, config.minimum_number_of_calls);
        match config.sliding_window_type {
            SlidingWindowType::CountBased => Window::count(size, minimum),
            SlidingWindowType::TimeBased => Window::time(size, minimum, self.now),
        }
    }

    /// Half open, calls are counted also where the window is one over time.
    pub(super) fn half_open_window(&self) -> Window {
        let size = self.config.permitted_number_of_calls_in_half_open_state;
        Window::of_probes(size, self.config.half_open_minimum())
    }

    /// The provider asks to be left alone. The end of that only ever moves to a later moment.
    pub(super) fn cool_down(&mut self, told: Option<Duration>, now: Moment) {
        let wait =
            crate::cooldown::length(told, self.config.cool_down.into(), self.config.max_cool_down.into());
        if crate::cooldown::raise(&mut self.cool_down_until, now.saturating_add(wait))
            && let Some(until) = self.cool_down_until
        {
            self.publish(EventKind::CoolDown { until });
        }
        self.raise_told(wait, now);
    }

    /// The breaker stays open at least for this long, if it is open or opens.
    pub(super) fn raise_told(&mut self, wait: Duration, now: Moment) {
        let wait = wait.min(self.config.max_cool_down.into());
        crate::cooldown::raise(&mut self.told_until, now.saturating_add(wait));
    }
}
