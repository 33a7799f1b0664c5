//! Threads, and permits that are dropped.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Waker},
    thread,
};

use aconite_routing::{
    Now,
    breaker::{Clock, SharedBreaker, State},
};

use super::*;

/// A clock that is moved by hand, in milliseconds.
#[derive(Default)]
struct Manual(AtomicU64);

impl Clock for Manual {
    fn now(&self) -> Now {
        ms(self.0.load(Ordering::SeqCst)).into()
    }
}

fn share(config: BreakerConfig) -> (SharedBreaker, Arc<Manual>) {
    let clock = Arc::new(Manual::default());
    (SharedBreaker::new(Breaker::new(config, Duration::ZERO).unwrap(), clock.clone()), clock)
}

/// Half open as soon as somebody asks.
fn expired(config: BreakerConfig) -> SharedBreaker {
    let (breaker, clock) = share(config);
    breaker.with(|breaker, now| breaker.transition_to(State::Open, now)).unwrap();
    clock.0.store(10_001, Ordering::SeqCst);
    breaker
}

fn permits(breaker: &SharedBreaker) -> u64 {
    breaker.with(|breaker, now| breaker.metrics(now.moment).permits)
}

#[test]
fn t_19_threads_at_the_end_of_the_wait() {
    for semantics in BOTH {
        for _ in 0..5 {
            let breaker = expired(settings(semantics, 10, 5, 50.0));
            let start = std::sync::Barrier::new(64);
            let granted: Vec<_> = thread::scope(|scope| {
                let ask = || {
                    start.wait();
                    breaker.try_acquire().ok()
                };
                let threads: Vec<_> = (0..64).map(|_| scope.spawn(ask)).collect();
                threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(granted.len(), 3);
            assert_eq!(breaker.with(|breaker, now| breaker.metrics(now.moment).not_permitted), 61);
        }
    }
}

#[test]
fn t_25_a_panic_returns_the_permit() {
    let breaker = expired(settings(Semantics::Strict, 10, 5, 50.0));
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let _permit = breaker.try_acquire().unwrap();
        assert_eq!(permits(&breaker), 2);
        panic!("a bug in the caller");
    }));
    assert!(outcome.is_err());
    assert_eq!(permits(&breaker), 3);
    assert_eq!(breaker.with(|breaker, _| breaker.counters().cancelled), 1);
}

#[test]
fn a_panic_under_the_lock_does_not_end_the_breaker() {
    let breaker = expired(settings(Semantics::Strict, 10, 5, 50.0));
    let permit = breaker.try_acquire().unwrap();
    let outcome = catch_unwind(AssertUnwindSafe(|| breaker.with(|_, _| panic!("a bug in the caller"))));
    assert!(outcome.is_err());
    permit.record(success());
    assert_eq!(permits(&breaker), 2);
}

#[test]
fn t_26_an_aborted_task_returns_the_permit() {
    let breaker = expired(settings(Semantics::Strict, 10, 5, 50.0));
    {
        let mut task = pin!(async {
            let permit = breaker.try_acquire().unwrap();
            std::future::pending::<()>().await;
            permit.record(failure());
        });
        assert!(task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(permits(&breaker), 2);
    }
    assert_eq!(permits(&breaker), 3);
    assert_eq!(breaker.with(|breaker, now| breaker.status(now.moment).state), State::HalfOpen);
}

#[test]
fn a_probe_that_is_dropped_is_released_with_both_semantics() {
    for semantics in BOTH {
        let breaker = expired(settings(semantics, 10, 5, 50.0));
        drop(breaker.try_acquire().unwrap());
        assert_eq!(permits(&breaker), 3);
    }
}

#[test]
fn t_54_a_client_that_leaves_after_three_tokens_is_no_success() {
    for semantics in BOTH {
        let (breaker, _clock) = share(settings(semantics, 10, 5, 50.0));
        let permit = breaker.try_acquire().unwrap();
        (0..3).for_each(|_| permit.first_content());
        drop(permit);
        let (buffered, counters) =
            breaker.with(|breaker, now| (breaker.metrics(now.moment).buffered, *breaker.counters()));
        assert_eq!((buffered, counters.successes, counters.cancelled), (0, 0, 1));
        let permit = breaker.try_acquire().unwrap();
        permit.report(&outcome(Class::Cancelled), ms(3));
        assert_eq!(breaker.with(|breaker, _| breaker.counters().cancelled), 2);
    }
}

/// A drop is at the moment of the clock, which has gone on since the call was admitted.
#[test]
fn a_drop_has_its_own_moment() {
    let (breaker, clock) = share(settings(Semantics::Strict, 10, 5, 50.0));
    let permit = breaker.try_acquire().unwrap();
    clock.0.store(500, Ordering::SeqCst);
    breaker.with(|breaker, now| breaker.transition_to(State::Open, now)).unwrap();
    breaker.with(|breaker, _| breaker.drain_events());
    clock.0.store(700, Ordering::SeqCst);
    drop(permit);
    let events = breaker.with(|breaker, _| breaker.drain_events()).events;
    assert_eq!(events.iter().map(|event| event.at).collect::<Vec<_>>(), [ms(700)]);
}

#[test]
fn t_49_a_million_outcomes_of_16_threads() {
    let config = BreakerConfig {
        sliding_window_size: 1_000_000,
        initial_state: State::MetricsOnly,
        ..settings(Semantics::Strict, 10, 5, 50.0)
    };
    let (breaker, _clock) = share(config);
    thread::scope(|scope| {
        for thread in 0..16 {
            let breaker = &breaker;
            scope.spawn(move || {
                for call in 0..62_500 {
                    let permit = breaker.try_acquire().unwrap();
                    permit.record(if (call + thread) % 5 == 0 { failure() } else { success() });
                }
            });
        }
    });
    let (counters, metrics) = breaker.with(|breaker, now| (*breaker.counters(), breaker.metrics(now.moment)));
    assert_eq!((counters.successes, counters.failures), (800_000, 200_000));
    assert_eq!((metrics.buffered, metrics.failed), (1_000_000, 200_000));
    let events = breaker.with(|breaker, _| breaker.drain_events());
    assert!(events.events.len() <= 1_024);
    assert!(events.events.len() as u64 + events.dropped >= 1_000_000, "those that are dropped are counted");
}
