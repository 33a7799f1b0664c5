//! The breaker: acquiring, and recording results.

use std::time::Duration;

use aconite_dialects::{SpecError, outcome::Outcome};

use super::{
    BreakerConfig, CountRateLimited, Counters, Denied, EventKind, Events, Kind, Reason, Report, Role, State,
    Ticket, Timing, Verdict,
    event::Queue,
    half_open::{self, Probes},
    in_flight::InFlight,
    window::{Mark, Totals, Window, percent},
};
use crate::{Moment, Now};

/// A circuit breaker. See the [module](super) for its rules.
///
/// Every method that can change it takes the current moment, and first does what was due until then. The owner calls
/// [`advance`](Self::advance) at [`next_deadline`](Self::next_deadline) so that this also happens without calls.
#[derive(Clone, Debug)]
pub struct Breaker {
    pub(super) config: BreakerConfig,
    pub(super) state: State,
    /// Grows with each entry into a state. Results of earlier epochs are late.
    pub(super) epoch: u64,
    pub(super) last_call: u64,
    pub(super) now: Moment,
    pub(super) window: Window,
    /// How many calls were refused since the window began.
    pub(super) not_permitted: u64,
    pub(super) attempts: u32,
    /// Failures in a row while closed, successes in a row while half open.
    pub(super) row: u32,
    /// Which events METRICS_ONLY has published already: failure rate, slow-call rate, failures in a row.
    pub(super) published: [bool; 3],
    pub(super) open_until: Moment,
    /// The timer of the current state.
    pub(super) timer: Option<Moment>,
    pub(super) probes: Probes,
    pub(super) in_flight: InFlight,
    /// No call is admitted until then, because the provider limits them.
    pub(super) cool_down_until: Option<Moment>,
    /// The breaker is not half open before then, because the provider asked to wait.
    pub(super) told_until: Option<Moment>,
    /// When the current state was entered.
    pub(super) since: Moment,
    /// How long it was in that state before, in an earlier process.
    pub(super) state_before: Duration,
    /// Whether admission still grows since the breaker closed.
    pub(super) is_ramping: bool,
    pub(super) events: Queue,
    pub(super) counters: Counters,
}

impl Breaker {
    /// A breaker in its initial state.
    ///
    /// # Errors
    /// Everything that is wrong with the configuration.
    pub fn new(config: BreakerConfig, now: impl Into<Now>) -> Result<Self, Vec<SpecError>> {
        config.validate("")?;
        let now = now.into();
        let mut breaker = Self {
            window: Window::count(1, 1),
            config,
            state: State::Closed,
            epoch: 0,
            last_call: 0,
            now: now.moment,
            not_permitted: 0,
            attempts: 0,
            row: 0,
            published: [false; 3],
            open_until: Moment::ZERO,
            timer: None,
            probes: Probes::default(),
            in_flight: InFlight::default(),
            cool_down_until: None,
            told_until: None,
            since: now.moment,
            state_before: Duration::ZERO,
            is_ramping: false,
            events: Queue::default(),
            counters: Counters::default(),
        };
        breaker.window = breaker.fresh_window();
        breaker.start(now);
        Ok(breaker)
    }

    /// Asks whether a call may be made.
    ///
    /// The first call after the wait in OPEN makes the breaker half open, and is its first probe.
    ///
    /// # Errors
    /// Why it may not, and when to ask again.
    pub fn try_acquire(&mut self, now: impl Into<Now>) -> Result<Ticket, Denied> {
        let now = self.step(now.into());
        if self.state == State::Open && now.moment > self.open_until {
            self.enter(State::HalfOpen, now);
        }
        match self.refusal(now) {
            Some(denied) => {
                self.not_permitted += 1;
                self.counters.not_permitted += 1;
                if self.state.observes() {
                    self.publish(EventKind::NotPermitted { reason: denied.reason });
                }
                Err(denied)
            }
            None => Ok(self.admit(now.moment)),
        }
    }

    fn refusal(&self, now: Now) -> Option<Denied> {
        let (reason, retry_at) = match self.state {
            State::Disabled | State::MetricsOnly => return None,
            State::ForcedOpen => (Reason::ForcedOpen, None),
            State::Open => (Reason::Open, Some(self.open_until)),
            State::Closed | State::HalfOpen if self.is_cooling(now.moment) => {
                (Reason::CoolDown, self.cool_down_until)
            }
            State::Closed if now.roll >= self.admitted_share(now.moment) => (Reason::Ramp, None),
            State::Closed => return None,
            State::HalfOpen => {
                let due = self.probes.next_due(&self.config).filter(|due| now.moment < *due);
                match (self.permits_left(), due) {
                    (0, _) => (Reason::ProbesInFlight, self.probes.next_expiry()),
                    (_, Some(due)) => (Reason::ProbeInterval, Some(due)),
                    (_, None) => return None,
                }
            }
        };
        Some(Denied { reason, retry_at })
    }

    fn admit(&mut self, now: Moment) -> Ticket {
        self.last_call += 1;
        let call = self.last_call;
        let (mut role, mut slot) = (Role::Normal, None);
        match (self.state, self.config.is_strict()) {
            (State::HalfOpen, true) => {
                role = Role::Probe;
                self.probes.begin(call, now, &self.config);
            }
            (State::HalfOpen, false) => {
                role = Role::Probe;
                self.probes.untagged = self.probes.untagged.saturating_sub(1);
            }
            (State::Closed | State::MetricsOnly, true) if self.config.in_flight_overdue => {
                slot = Some(self.in_flight.begin(call, now));
            }
            _ => {}
        }
        Ticket { epoch: self.epoch, call, slot, role, admitted: now }
    }

    /// How many probes may still be admitted.
    pub(super) fn permits_left(&self) -> u64 {
        if self.state != State::HalfOpen {
            return 0;
        }
        if !self.config.is_strict() {
            return self.probes.untagged;
        }
        let taken = self.window.totals(self.now).calls + self.probes.in_flight();
        u64::from(self.config.permitted_number_of_calls_in_half_open_state.saturating_sub(taken))
    }

    /// Records how an attempt came out.
    pub fn report(
        &mut self,
        ticket: Ticket,
        outcome: &Outcome,
        timing: impl Into<Timing>,
        now: impl Into<Now>,
    ) {
        let report = self.config.report(outcome, timing);
        self.record(ticket, report, now);
    }

    /// Records the result of a call.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket is used once")]
    pub fn record(&mut self, ticket: Ticket, report: Report, now: impl Into<Now>) {
        let now = self.step(now.into());
        let is_strict = self.config.is_strict();
        if is_strict && !self.take_back(&ticket) {
            return self.note_late(report.verdict);
        }
        if !self.state.observes() {
            return;
        }
        let is_limited = is_strict && report.verdict == Verdict::RateLimited;
        if is_limited {
            self.cool_down(report.told_wait, now.moment);
        }
        let is_failure = match report.verdict {
            Verdict::Success => Some(false),
            Verdict::Failure => Some(true),
            Verdict::RateLimited => {
                let counts = !is_limited || self.config.count_rate_limited != CountRateLimited::Never;
                counts.then_some(true)
            }
            Verdict::Ignored | Verdict::Inconclusive | Verdict::Cancelled => None,
        };
        match is_failure {
            Some(is_failure) => {
                if is_strict && let Some(wait) = report.told_wait {
                    self.raise_told(wait, now.moment);
                }
                self.count(is_failure, &report, now);
            }
            None => self.count_no_verdict(report.verdict, report.duration),
        }
        if let Some(wait) = report.open_for
            && (is_failure.is_some() || is_limited)
        {
            let may_open = match self.state {
                State::Closed => true,
                // This very call may have opened it just now, for a shorter time.
                State::HalfOpen | State::Open => is_strict,
                _ => false,
            };
            if may_open {
                self.hold_open(now.moment.saturating_add(wait), now);
            }
        }
    }

    /// Gives back the admission of a call that has no result, because it was cancelled, or never made.
    pub fn release(&mut self, ticket: Ticket, now: impl Into<Now>) {
        self.record(ticket, Report::new(Verdict::Cancelled, Duration::ZERO), now);
    }

    /// The first content of a call has come.
    ///
    /// If the slow threshold is for the time to first content, the call is overdue no more.
    pub fn first_content(&mut self, ticket: &Ticket, now: impl Into<Now>) {
        self.step(now.into());
        let is_measured = self.config.slow_call_duration == super::SlowCallDuration::FirstContent;
        if is_measured
            && ticket.epoch == self.epoch
            && let Some(slot) = ticket.slot
        {
            self.in_flight.timed(slot, ticket.call);
        }
    }

    /// Takes what happened since this was last called.
    pub fn drain_events(&mut self) -> Events {
        self.events.drain()
    }

    /// Whether the ticket is of this epoch, and its probe still had its lease. It ends in any case.
    fn take_back(&mut self, ticket: &Ticket) -> bool {
        ticket.epoch == self.epoch
            && match (ticket.role, ticket.slot) {
                (Role::Probe, _) => self.probes.end(ticket.call),
                (Role::Normal, Some(slot)) => self.in_flight.end(slot, ticket.call),
                (Role::Normal, None) => true,
            }
    }

    fn note_late(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Success => self.counters.late_successes += 1,
            Verdict::Failure => self.counters.late_failures += 1,
            _ => self.counters.late_others += 1,
        }
        self.publish(EventKind::Late { verdict });
    }

    /// A call ended without a result. Its permit is returned.
    fn count_no_verdict(&mut self, verdict: Verdict, duration: Duration) {
        let counter = match verdict {
            Verdict::Ignored => &mut self.counters.ignored,
            Verdict::RateLimited => &mut self.counters.rate_limited,
            Verdict::Cancelled => &mut self.counters.cancelled,
            _ => &mut self.counters.inconclusive,
        };
        *counter += 1;
        if verdict == Verdict::Ignored {
            self.publish(EventKind::IgnoredError { duration });
        }
        if self.state == State::HalfOpen {
            if self.config.is_strict() {
                self.note_inconclusive();
            } else {
                self.probes.untagged += 1;
            }
        }
    }

    pub(super) fn note_inconclusive(&mut self) {
        self.publish(EventKind::Inconclusive);
        if self.probes.add_inconclusive(self.config.inconclusive_limit()) {
            self.publish(EventKind::ProbeWanted);
        }
    }

    fn count(&mut self, failed: bool, report: &Report, now: Now) {
        let duration = report.duration;
        let slow = report.is_slow || duration > self.config.slow_call_duration_threshold.into();
        self.counters.slow += u64::from(slow);
        if failed {
            self.counters.failures += 1;
            self.publish(EventKind::Error { duration });
        } else {
            self.counters.successes += 1;
            self.publish(EventKind::Success { duration });
        }
        self.window.record(Mark { failed, slow }, now.moment);
        let is_rate_only = report.verdict == Verdict::RateLimited
            && self.config.count_rate_limited == CountRateLimited::RateOnly;
        self.row = match (self.state, failed) {
            (State::HalfOpen, false) => self.row.saturating_add(1),
            (State::HalfOpen, true) | (_, false) => 0,
            (_, true) => self.row.saturating_add(u32::from(!is_rate_only)),
        };
        match self.state {
            State::Closed | State::MetricsOnly => self.trip(now),
            State::HalfOpen => {
                let totals = self.window.totals(now.moment);
                match half_open::verdict(&self.config, totals, self.row) {
                    Some(true) => self.enter(State::Open, now),
                    Some(false) => self.enter(State::Closed, now),
                    None => {}
                }
            }
            _ => {}
        }
    }

    /// Publishes the thresholds that are reached, and opens if the breaker is closed. A breaker that records metrics only
    /// publishes each once.
    pub(super) fn trip(&mut self, now: Now) {
        let found = match self.config.kind {
            Kind::FailureRate => self.exceeded_rates(now.moment),
            Kind::Consecutive => {
                let failures = self.row;
                let is_exceeded = failures >= self.config.consecutive_failures;
                let event = EventKind::ConsecutiveFailuresExceeded { failures };
                [None, None, is_exceeded.then_some(event)]
            }
        };
        let is_closed = self.state == State::Closed;
        for (index, event) in found.into_iter().enumerate() {
            if let Some(event) = event
                && (is_closed || !std::mem::replace(&mut self.published[index], true))
            {
                self.publish(event);
            }
        }
        if is_closed && found.iter().any(Option::is_some) {
            self.enter(State::Open, now);
        }
    }

    fn exceeded_rates(&self, now: Moment) -> [Option<EventKind>; 3] {
        let totals = self.window.totals(now);
        let rates = self.rates(totals);
        let failure = rates.map(|(rate, _)| rate).filter(|rate| *rate >= self.config.failure_rate_threshold);
        let slow =
            self.slow_rate_with_overdue(totals).filter(|rate| *rate >= self.config.slow_call_rate_threshold);
        [
            failure.map(|rate| EventKind::FailureRateExceeded { rate }),
            slow.map(|rate| EventKind::SlowCallRateExceeded { rate }),
            None,
        ]
    }

    /// The failure rate and the slow-call rate in percent, if there are enough calls.
    pub(super) fn rates(&self, totals: Totals) -> Option<(f32, f32)> {
        let Totals { calls, failed, slow } = totals;
        (calls >= self.window.minimum).then(|| (percent(failed, calls), percent(slow, calls)))
    }

    /// The slow-call rate, if calls that are overdue had ended now.
    fn slow_rate_with_overdue(&self, totals: Totals) -> Option<f32> {
        let overdue = self.in_flight.overdue();
        let calls = totals.calls.saturating_add(overdue);
        (calls >= self.window.minimum).then(|| percent(totals.slow.saturating_add(overdue), calls))
    }

    pub(super) fn publish(&mut self, kind: EventKind) {
        self.events.push(self.now, kind);
    }
}
