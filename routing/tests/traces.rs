//! Recorded traces of resilience4j, replayed on the breaker with its semantics. `data/README.md` describes the file.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    time::Duration,
};

use aconite_dialects::{
    outcome::{Class, Outcome},
    units::Millis,
};
use aconite_routing::breaker::{
    Breaker, BreakerConfig, EventKind, Metrics, Report, SlidingWindowType, State, Ticket, Verdict,
    WaitDuration,
};
use flate2::read::GzDecoder;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trace {
    i: u64,
    k: String,
    #[serde(default)]
    q: String,
    c: Config,
    t: u64,
    s: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(rename = "type")]
    kind: String,
    size: u32,
    min: u32,
    fail_pct: f32,
    slow_pct: f32,
    slow_ms: u64,
    wait: Vec<u64>,
    permits: u32,
    ho_max: u64,
    ho_then: Option<char>,
    #[serde(default)]
    auto: u8,
    init: Option<char>,
    record: Option<String>,
    #[serde(default)]
    ignore: String,
    #[serde(default)]
    record_result: String,
    #[serde(default)]
    on_result: BTreeMap<char, u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    o: char,
    k: Option<char>,
    #[serde(default)]
    u: u8,
    d: Option<u64>,
    ns: Option<u64>,
    p: Option<usize>,
    r: Option<u8>,
    x: Option<String>,
    #[serde(rename = "S")]
    state: Option<char>,
    b: Option<u32>,
    f: Option<u32>,
    w: Option<u32>,
    n: Option<u64>,
    #[serde(rename = "F")]
    failure_rate: Option<f32>,
    #[serde(rename = "W")]
    slow_rate: Option<f32>,
    v: Option<String>,
}

/// What can be seen after a step.
#[derive(Debug, PartialEq)]
struct Seen {
    granted: Option<bool>,
    exception: Option<String>,
    state: char,
    counts: (u32, u32, u32, u64),
    /// As bits, so that a rate that differs in the last of them is another one.
    rates: (u32, u32),
    events: String,
}

const LETTERS: [(char, State); 6] = [
    ('C', State::Closed),
    ('O', State::Open),
    ('H', State::HalfOpen),
    ('D', State::Disabled),
    ('M', State::MetricsOnly),
    ('F', State::ForcedOpen),
];

fn state(letter: char) -> State {
    LETTERS.iter().find(|(each, _)| *each == letter).unwrap().1
}

fn letter(state: State) -> char {
    LETTERS.iter().find(|(_, each)| *each == state).unwrap().0
}

/// The recorded kinds of errors stand for classes that are failures. An error that is wrapped twice is another kind, since
/// one wrapper is taken off.
fn class(kind: char, wrappers: u8) -> Class {
    match (wrappers, kind) {
        (2.., _) => Class::Throughput,
        (_, 'A') => Class::Connect,
        (_, 'B') => Class::Server,
        (_, 'C') => Class::Cut,
        (_, 'D') => Class::Garbled,
        (_, other) => panic!("no kind of error: {other}"),
    }
}

fn config(of: &Config) -> BreakerConfig {
    let classes = |kinds: &str| kinds.chars().map(|kind| class(kind, 0)).collect();
    let errors = of.on_result.iter().filter(|(kind, _)| kind.is_ascii_uppercase());
    BreakerConfig {
        failure_rate_threshold: of.fail_pct,
        slow_call_rate_threshold: of.slow_pct,
        slow_call_duration_threshold: Millis(of.slow_ms),
        sliding_window_type: match &*of.kind {
            "COUNT" => SlidingWindowType::CountBased,
            _ => SlidingWindowType::TimeBased,
        },
        sliding_window_size: of.size,
        minimum_number_of_calls: of.min,
        permitted_number_of_calls_in_half_open_state: of.permits,
        wait_duration_in_open_state: match &*of.wait {
            [wait] => WaitDuration::Fixed(Millis(*wait)),
            waits => WaitDuration::ByAttempt(waits.iter().copied().map(Millis).collect()),
        },
        max_wait_duration_in_half_open_state: Millis(of.ho_max),
        transition_to_state_after_wait_duration: of.ho_then.map_or(State::Open, state),
        automatic_transition_from_open_to_half_open_enabled: of.auto == 1,
        initial_state: of.init.map_or(State::Closed, state),
        record_outcomes: of.record.as_deref().map(classes),
        ignore_outcomes: classes(&of.ignore),
        transition_on_result: errors.map(|(kind, ms)| (class(*kind, 0), Millis(*ms))).collect(),
        ..BreakerConfig::resilience4j()
    }
}

struct Replay<'t> {
    config: &'t Config,
    breaker: Breaker,
    now: Duration,
    calls: Vec<Ticket>,
}

impl Replay<'_> {
    fn ended(&mut self, step: &Step) -> Ticket {
        step.p.map_or_else(Ticket::unasked, |index| self.calls.remove(index))
    }

    /// Does what the step says. Returns whether a call was granted, and the exception.
    fn act(&mut self, step: &Step) -> (Option<bool>, Option<String>) {
        let now = self.now;
        let millis = Duration::from_millis(step.d.unwrap_or_default());
        let duration = step.ns.map_or(millis, Duration::from_nanos);
        let moved = match step.o {
            't' => {
                self.now += millis;
                self.breaker.advance(self.now);
                Ok(())
            }
            'a' | 'A' => return self.acquire(step.o == 'A'),
            's' => {
                let ticket = self.ended(step);
                self.breaker.record(ticket, Report::new(Verdict::Success, duration), now);
                Ok(())
            }
            'e' => {
                let ticket = self.ended(step);
                let outcome = Outcome { class: class(step.k.unwrap(), step.u), cause: None, wait: None };
                self.breaker.report(ticket, &outcome, duration, now);
                Ok(())
            }
            'q' => {
                let ticket = self.ended(step);
                self.breaker.record(ticket, self.result(step.k.unwrap(), duration), now);
                Ok(())
            }
            'l' => {
                let ticket = self.ended(step);
                self.breaker.release(ticket, now);
                Ok(())
            }
            'm' => self.breaker.transition_to(state(step.k.unwrap()), now),
            'f' => self.breaker.open_for(millis, now),
            'u' => self.breaker.open_until(now + millis, now),
            'r' => {
                self.breaker.reset(now);
                Ok(())
            }
            other => panic!("no operation: {other}"),
        };
        (None, moved.err().map(|_| "IL".to_owned()))
    }

    fn acquire(&mut self, throws: bool) -> (Option<bool>, Option<String>) {
        match self.breaker.try_acquire(self.now) {
            Ok(ticket) => {
                self.calls.push(ticket);
                (Some(true), None)
            }
            Err(_) if throws => (None, Some("NP".to_owned())),
            Err(_) => (Some(false), None),
        }
    }

    /// A result by value, as the predicates on results see it. None of these is an outcome of ours. No predicate sees null.
    fn result(&self, kind: char, duration: Duration) -> Report {
        if kind == '0' {
            return Report::new(Verdict::Success, duration);
        }
        if self.config.record_result.contains(kind) {
            return Report::new(Verdict::Failure, duration);
        }
        let open_for = self.config.on_result.get(&kind).copied().map(Duration::from_millis);
        Report { open_for, ..Report::new(Verdict::Success, duration) }
    }

    fn seen(&mut self, (granted, exception): (Option<bool>, Option<String>)) -> Seen {
        let drained = self.breaker.drain_events();
        assert_eq!(drained.dropped, 0);
        let events: Vec<String> = drained.events.iter().map(|event| event_letters(event.kind)).collect();
        let Metrics { buffered, failed, slow, not_permitted, failure_rate, slow_call_rate, .. } =
            self.breaker.metrics(self.now);
        Seen {
            granted,
            exception,
            state: letter(self.breaker.status(self.now).state),
            counts: (buffered, failed, slow, not_permitted),
            rates: (failure_rate.to_bits(), slow_call_rate.to_bits()),
            events: events.join(" "),
        }
    }
}

fn event_letters(kind: EventKind) -> String {
    match kind {
        EventKind::Success { .. } => "S".into(),
        EventKind::Error { .. } => "E".into(),
        EventKind::IgnoredError { .. } => "I".into(),
        EventKind::NotPermitted { .. } => "N".into(),
        EventKind::FailureRateExceeded { .. } => "F".into(),
        EventKind::SlowCallRateExceeded { .. } => "W".into(),
        EventKind::Reset => "R".into(),
        EventKind::StateTransition { from, to } => format!("{}{}", letter(from), letter(to)),
        other => panic!("an event that resilience4j has not: {other:?}"),
    }
}

fn update<T: Copy>(known: &mut T, changed: Option<T>) {
    *known = changed.unwrap_or(*known);
}

/// The first step after which something differs.
fn replay(trace: &Trace) -> Result<(), String> {
    let now = Duration::from_millis(trace.t);
    let breaker = Breaker::new(config(&trace.c), now).map_err(|problems| format!("{problems:?}"))?;
    let mut replay = Replay { config: &trace.c, breaker, now, calls: Vec::new() };
    let (mut state, mut counts, mut rates) = (trace.c.init.unwrap_or('C'), (0, 0, 0, 0), (-1.0f32, -1.0f32));
    let _ = replay.breaker.drain_events();
    for (index, step) in trace.s.iter().enumerate() {
        update(&mut state, step.state);
        update(&mut counts.0, step.b);
        update(&mut counts.1, step.f);
        update(&mut counts.2, step.w);
        update(&mut counts.3, step.n);
        update(&mut rates.0, step.failure_rate);
        update(&mut rates.1, step.slow_rate);
        let expected = Seen {
            granted: step.r.map(|granted| granted == 1),
            exception: step.x.clone(),
            state,
            counts,
            rates: (rates.0.to_bits(), rates.1.to_bits()),
            events: step.v.clone().unwrap_or_default(),
        };
        let acted = replay.act(step);
        let seen = replay.seen(acted);
        if seen != expected {
            return Err(format!("step {index}: {seen:?}, recorded {expected:?}"));
        }
    }
    Ok(())
}

/// Every step of every trace, but for those in which a timer fires that `reset` should have cancelled.
#[test]
fn recorded_traces_of_resilience4j() {
    let file = std::fs::File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/resilience4j.jsonl.gz"));
    let lines = BufReader::with_capacity(1 << 16, GzDecoder::new(file.unwrap())).lines();
    let (mut traces, mut steps, mut stale, mut stale_differ) = (0, 0, 0, 0);
    let mut wrong = Vec::new();
    for line in lines {
        let trace: Trace = serde_json::from_str(&line.unwrap()).unwrap();
        traces += 1;
        steps += trace.s.len();
        let result = replay(&trace);
        if trace.q.contains("stale_timer") {
            stale += 1;
            stale_differ += usize::from(result.is_err());
        } else if let Err(why) = result {
            wrong.push(format!("{} ({}, {}): {why}", trace.i, trace.k, trace.q));
        }
    }
    assert_eq!((traces, steps, stale), (16_800, 1_194_323, 426));
    assert!(wrong.is_empty(), "{} of {traces}; {:#?}", wrong.len(), &wrong[..wrong.len().min(5)]);
    assert_eq!(stale_differ, 277, "a breaker that cancels its timers differs in these");
}
