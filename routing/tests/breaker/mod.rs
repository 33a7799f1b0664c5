//! The breaker's rules, one test each, in both semantics where they differ.

use std::time::Duration;

use aconite_dialects::{
    outcome::{Class, Outcome},
    units::Millis,
};
use aconite_routing::breaker::{
    Breaker, BreakerConfig, Denied, EventKind, Metrics, Reason, Report, Semantics, State, Ticket, Verdict,
    WaitDuration,
};

mod calls;
mod closed;
mod config;
mod half_open;
mod manual;
mod open;
mod outcomes;
mod properties;
mod recovery;
mod restart;
mod shared;

const BOTH: [Semantics; 2] = [Semantics::R4j, Semantics::Strict];

/// The settings of most tests: a window of so many calls, a minimum and a failure rate. Slow calls open at 100 %, and there
/// is no ramp.
fn settings(semantics: Semantics, size: u32, minimum: u32, percent: f32) -> BreakerConfig {
    let base = BreakerConfig {
        sliding_window_size: size,
        minimum_number_of_calls: minimum,
        failure_rate_threshold: percent,
        slow_call_rate_threshold: 100.0,
        permitted_number_of_calls_in_half_open_state: 3,
        wait_duration_in_open_state: WaitDuration::Fixed(Millis(10_000)),
        ..BreakerConfig::resilience4j()
    };
    match semantics {
        Semantics::R4j => base,
        Semantics::Strict => BreakerConfig { semantics, ramp_duration: Millis(0), ..base },
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const fn failure() -> Report {
    Report::new(Verdict::Failure, Duration::ZERO)
}

const fn success() -> Report {
    Report::new(Verdict::Success, Duration::ZERO)
}

const fn with(verdict: Verdict) -> Report {
    Report::new(verdict, Duration::ZERO)
}

fn outcome(class: Class) -> Outcome {
    Outcome { class, cause: None, wait: None }
}

/// A rate limit that tells to wait for so many seconds.
fn limited(seconds: Option<u64>) -> Outcome {
    Outcome { wait: seconds.map(Duration::from_secs), ..outcome(Class::Rate) }
}

/// A breaker and its clock.
struct Bench {
    breaker: Breaker,
    now: Duration,
}

impl Bench {
    fn new(config: BreakerConfig) -> Self {
        let now = ms(1_000);
        let mut bench = Self { breaker: Breaker::new(config, now).unwrap(), now };
        bench.events();
        bench
    }

    /// With 3 probes and a wait of 10 s, open since now.
    fn opened(config: BreakerConfig) -> Self {
        let mut bench = Self::new(config);
        bench.breaker.transition_to(State::Open, bench.now).unwrap();
        bench.events();
        bench
    }

    /// Half open by its first probe.
    fn half_open(config: BreakerConfig) -> (Self, Ticket) {
        let mut bench = Self::opened(config);
        bench.wait(10_001);
        let probe = bench.acquire();
        assert_eq!(bench.state(), State::HalfOpen);
        bench.events();
        (bench, probe)
    }

    fn wait(&mut self, millis: u64) {
        self.now += ms(millis);
        self.breaker.advance(self.now);
    }

    fn try_acquire(&mut self) -> Result<Ticket, Denied> {
        self.breaker.try_acquire(self.now)
    }

    fn acquire(&mut self) -> Ticket {
        self.try_acquire().unwrap()
    }

    fn reason(&mut self) -> Reason {
        self.try_acquire().unwrap_err().reason
    }

    fn end(&mut self, ticket: Ticket, report: Report) {
        self.breaker.record(ticket, report, self.now);
    }

    fn call(&mut self, report: Report) {
        let ticket = self.acquire();
        self.end(ticket, report);
    }

    fn report(&mut self, outcome: &Outcome) {
        let ticket = self.acquire();
        self.breaker.report(ticket, outcome, Duration::ZERO, self.now);
    }

    fn calls(&mut self, count: usize, report: Report) {
        (0..count).for_each(|_| self.call(report));
    }

    /// The number of the failure with which it opens.
    fn failures_to_open(&mut self) -> usize {
        for count in 1..1_000 {
            self.call(failure());
            if self.state() == State::Open {
                return count;
            }
        }
        panic!("it never opens");
    }

    fn state(&self) -> State {
        self.breaker.status(self.now).state
    }

    fn metrics(&self) -> Metrics {
        self.breaker.metrics(self.now)
    }

    fn events(&mut self) -> Vec<EventKind> {
        self.breaker.drain_events().events.into_iter().map(|event| event.kind).collect()
    }
}

const fn moved(from: State, to: State) -> EventKind {
    EventKind::StateTransition { from, to }
}
