//! What holds whatever happens, in whatever order.

use std::collections::BTreeMap;

use aconite_dialects::units::Millis;
use aconite_routing::{
    Now,
    breaker::{Kind, Role, SlidingWindowType, State, Verdict},
};
use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Op {
    Acquire(f64),
    /// Ends one of the calls in flight.
    End(usize, Report),
    Content(usize),
    Wait(u64),
    /// Goes to the next deadline, if there is one.
    Deadline,
    Transition(State),
    OpenFor(u64),
    Reset,
    Reconfigure(u32),
}

fn report() -> impl Strategy<Value = Report> {
    let verdict = prop::sample::select(vec![
        Verdict::Success,
        Verdict::Success,
        Verdict::Failure,
        Verdict::Failure,
        Verdict::Ignored,
        Verdict::RateLimited,
        Verdict::Inconclusive,
        Verdict::Cancelled,
    ]);
    let told = prop::option::weighted(0.2, 0u64..50_000);
    let open_for = prop::option::weighted(0.05, 1u64..20_000);
    (verdict, 0u64..12_000, told, open_for).prop_map(|(verdict, duration, told, open_for)| Report {
        told_wait: told.map(ms),
        open_for: open_for.map(ms),
        ..Report::new(verdict, ms(duration))
    })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (0.0..1.0).prop_map(Op::Acquire),
        10 => (any::<usize>(), report()).prop_map(|(which, report)| Op::End(which, report)),
        1 => any::<usize>().prop_map(Op::Content),
        5 => (1u64..15_000).prop_map(Op::Wait),
        3 => Just(Op::Deadline),
        1 => prop::sample::select(State::ALL.to_vec()).prop_map(Op::Transition),
        1 => (0u64..30_000).prop_map(Op::OpenFor),
        1 => Just(Op::Reset),
        1 => (1u32..6).prop_map(Op::Reconfigure),
    ]
}

prop_compose! {
    fn config()(
        is_time in any::<bool>(),
        is_consecutive in any::<bool>(),
        (size, minimum, permitted) in (1u32..12, 1u32..8, 1u32..6),
        at in prop::option::of(1u32..6),
        percent in prop::sample::select(vec![10.0f32, 33.333_332, 50.0, 100.0]),
        (longest, automatic, initial) in (prop::sample::select(vec![0u64, 3_000]), any::<bool>(), 0usize..6),
        (ramp, overdue, inconclusive) in (prop::sample::select(vec![0u64, 8_000]), any::<bool>(), 1u32..4),
    ) -> BreakerConfig {
        BreakerConfig {
            failure_rate_threshold: percent,
            slow_call_rate_threshold: percent,
            slow_call_duration_threshold: Millis(5_000),
            sliding_window_type: if is_time { SlidingWindowType::TimeBased } else { SlidingWindowType::CountBased },
            sliding_window_size: size,
            minimum_number_of_calls: minimum,
            permitted_number_of_calls_in_half_open_state: permitted,
            minimum_number_of_calls_in_half_open_state: at.map(|at| at.min(permitted)),
            wait_duration_in_open_state: WaitDuration::Fixed(Millis(4_000)),
            max_wait_duration_in_open_state: Millis(60_000),
            max_wait_duration_in_half_open_state: Millis(longest),
            automatic_transition_from_open_to_half_open_enabled: automatic,
            initial_state: State::ALL[initial],
            kind: if is_consecutive { Kind::Consecutive } else { Kind::FailureRate },
            consecutive_failures: minimum,
            consecutive_successes: permitted.min(2),
            probe_lease: Millis(7_000),
            probe_interval: Millis(3_000),
            max_inconclusive: Some(inconclusive),
            ramp_duration: Millis(ramp),
            in_flight_overdue: overdue,
            max_cool_down: Millis(40_000),
            ..BreakerConfig::default()
        }
    }
}

/// A breaker under random operations, and the calls in flight.
struct Run {
    bench: Bench,
    calls: Vec<Ticket>,
}

impl Run {
    fn new(config: BreakerConfig) -> Self {
        Self { bench: Bench::new(config), calls: Vec::new() }
    }

    /// Does one operation. Returns whether a call was admitted, if one was asked for.
    fn act(&mut self, op: Op) -> Option<bool> {
        let Self { bench: Bench { breaker, now }, calls } = self;
        match op {
            Op::Acquire(roll) => {
                let ticket = breaker.try_acquire(Now { moment: *now, roll }).ok();
                let is_admitted = ticket.is_some();
                calls.extend(ticket);
                return Some(is_admitted);
            }
            Op::End(which, report) if !calls.is_empty() => {
                let ticket = calls.swap_remove(which % calls.len());
                breaker.record(ticket, report, *now);
            }
            Op::Content(which) if !calls.is_empty() => {
                breaker.first_content(&calls[which % calls.len()], *now);
            }
            Op::End(..) | Op::Content(_) => {}
            Op::Wait(wait) => *now += ms(wait),
            Op::Deadline => {
                *now = breaker.next_deadline().unwrap_or(*now).max(*now);
                breaker.advance(*now);
            }
            Op::Transition(state) => drop(breaker.transition_to(state, *now)),
            Op::OpenFor(wait) => drop(breaker.open_for(ms(wait), *now)),
            Op::Reset => breaker.reset(*now),
            Op::Reconfigure(permitted) => {
                let config = BreakerConfig {
                    permitted_number_of_calls_in_half_open_state: permitted,
                    minimum_number_of_calls_in_half_open_state: None,
                    consecutive_successes: permitted.min(2),
                    ..breaker.config().clone()
                };
                breaker.reconfigure(config, *now).unwrap();
            }
        }
        None
    }

    fn release_all(&mut self) {
        let now = self.bench.now;
        self.bench.breaker.advance(now);
        self.calls.drain(..).for_each(|ticket| self.bench.breaker.release(ticket, now));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Half open, the probes that still have their lease and those that gave a verdict are never more than permitted, as
    /// counted from outside.
    #[test]
    fn probes_never_exceed_their_number(config in config(), ops in prop::collection::vec(op(), 1..150)) {
        let lease = Duration::from(config.probe_lease);
        let mut run = Run::new(config);
        // Of the current time in HALF_OPEN: leases of probes in flight, by the moment of admission.
        let mut live: BTreeMap<Duration, u64> = BTreeMap::new();
        for op in ops {
            if let Op::End(which, _) = op && !run.calls.is_empty() {
                let ticket = &run.calls[which % run.calls.len()];
                if ticket.role() == Role::Probe && let Some(count) = live.get_mut(&ticket.admitted()) {
                    *count = count.saturating_sub(1);
                }
            }
            let admitted = run.act(op) == Some(true);
            let events = run.bench.events();
            let is_new = events.iter().any(|event| matches!(event, EventKind::StateTransition { .. }))
                || matches!(op, Op::Transition(_) | Op::Reconfigure(_) | Op::OpenFor(_) | Op::Reset);
            if is_new {
                live.clear();
            }
            if run.bench.state() != State::HalfOpen {
                continue;
            }
            if admitted {
                *live.entry(run.bench.now).or_default() += 1;
            }
            let now = run.bench.now;
            live.retain(|at, _| *at + lease > now);
            let permitted = run.bench.breaker.config().permitted_number_of_calls_in_half_open_state;
            let metrics = run.bench.metrics();
            prop_assert!(metrics.permits <= permitted.into());
            let taken = live.values().sum::<u64>() + u64::from(metrics.buffered);
            prop_assert!(taken <= permitted.into(), "{taken} of {permitted}");
        }
    }

    /// From whatever state, a call is admitted after some time, unless the breaker is forced open. Nobody ends the calls that
    /// are in flight.
    #[test]
    fn a_breaker_never_sticks(config in config(), ops in prop::collection::vec(op(), 1..150)) {
        let mut run = Run::new(config);
        for op in ops {
            run.act(op);
        }
        if run.bench.state() != State::ForcedOpen {
            let mut steps = Vec::new();
            loop {
                let Bench { breaker, now } = &mut run.bench;
                let available = breaker.available_at(*now).unwrap();
                // Longer than each wait: a grown one with its jitter, what was told, and a lease.
                prop_assert!(available <= *now + ms(66_000), "{available:?} is far from {now:?}");
                // Past the moment at which it is available, unless a timer runs before.
                let next = breaker.next_deadline().into_iter().chain([available + ms(1)]).min();
                *now = next.unwrap().max(*now);
                if breaker.try_acquire(Now { moment: *now, roll: 0.0 }).is_ok() {
                    break;
                }
                steps.push((*now, run.bench.state()));
                prop_assert!(steps.len() < 50, "{steps:?}");
            }
        }
    }

    /// A snapshot without calls in flight is the breaker: it and the restored one then do the same.
    #[test]
    fn restoring_changes_nothing(
        config in config(),
        before in prop::collection::vec(op(), 0..100),
        after in prop::collection::vec(op(), 0..60),
    ) {
        let mut run = Run::new(config);
        for op in before {
            run.act(op);
        }
        run.release_all();
        let (now, breaker) = (run.bench.now, &run.bench.breaker);
        let json = serde_json::to_string(&breaker.snapshot(now)).unwrap();
        let snapshot = serde_json::from_str(&json).unwrap();
        let restored = Breaker::restore(breaker.config().clone(), &snapshot, Duration::ZERO, now).unwrap();
        prop_assert_eq!(restored.snapshot(now), breaker.snapshot(now));
        let mut second = Run { bench: Bench { breaker: restored, now }, calls: Vec::new() };
        run.bench.events();
        for op in after {
            prop_assert_eq!(run.act(op), second.act(op), "{:?}", op);
            prop_assert_eq!(run.bench.metrics(), second.bench.metrics());
            prop_assert_eq!(run.bench.breaker.next_deadline(), second.bench.breaker.next_deadline());
            prop_assert_eq!(run.bench.events(), second.bench.events());
        }
    }

    /// Every call that is admitted ends in exactly one counter, and every one that is asked for is admitted or refused.
    #[test]
    fn every_call_is_counted_once(config in config(), ops in prop::collection::vec(op(), 1..150)) {
        let mut run = Run::new(config);
        let (mut asked, mut admitted, mut unobserved) = (0, 0, 0);
        for op in ops {
            let ended = matches!(op, Op::End(..)) && !run.calls.is_empty();
            let late = |run: &Run| {
                let counters = run.bench.breaker.counters();
                counters.late_successes + counters.late_failures + counters.late_others
            };
            let before = late(&run);
            if let Some(is_admitted) = run.act(op) {
                asked += 1;
                admitted += u64::from(is_admitted);
            }
            let is_observed = !matches!(run.bench.state(), State::Disabled | State::ForcedOpen);
            unobserved += u64::from(ended && !is_observed && late(&run) == before);
        }
        let counters = *run.bench.breaker.counters();
        prop_assert_eq!(counters.not_permitted, asked - admitted);
        let ended = [
            counters.successes, counters.failures, counters.ignored, counters.rate_limited, counters.inconclusive,
            counters.cancelled, counters.late_successes, counters.late_failures, counters.late_others, unobserved,
        ];
        prop_assert_eq!(ended.iter().sum::<u64>(), admitted - run.calls.len() as u64);
    }
}
