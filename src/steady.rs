//! A task that wakes itself goes on at once.
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{
            AtomicU8,
            Ordering::{AcqRel, Relaxed, Release},
        },
    },
    task::{Context, Poll, Wake, Waker},
};

use atomic_waker::AtomicWaker;

/// How often something is polled in a row before other tasks have their turn.
const MOST_POLLS: u32 = 16;

/// Polls what wakes itself while it is polled, as two protocol machines in one task do for each message that they hand
/// each other: again, and at once. To go through the scheduler costs a poll of all that the task does.
pub(crate) struct Steady {
    wakes: Arc<Wakes>,
    waker: Waker,
}

impl Steady {
    pub(crate) fn new() -> Self {
        let wakes = Arc::new(Wakes { task: AtomicWaker::new(), state: AtomicU8::new(0) });
        Self { waker: Waker::from(Arc::clone(&wakes)), wakes }
    }

    /// Whoever is given something has to ask again until nothing is there: then all wakes have been followed.
    pub(crate) fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.wakes.task.register(cx.waker());
        let mut inner = Context::from_waker(&self.waker);
        for _ in 0..MOST_POLLS {
            self.wakes.state.store(POLLING, Release);
            let polled = poll(&mut inner);
            if polled.is_ready() {
                self.wakes.state.store(0, Release);
                return polled;
            }
            if self.wakes.state.compare_exchange(POLLING, 0, AcqRel, Relaxed).is_ok() {
                return polled;
            }
        }
        self.wakes.state.store(0, Release);
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Runs a future steadily.
pub(crate) async fn steady<F: Future>(mut future: Pin<&mut F>) -> F::Output {
    let steady = Steady::new();
    std::future::poll_fn(|cx| steady.poll(cx, |cx| future.as_mut().poll(cx))).await
}

struct Wakes {
    task: AtomicWaker,
    state: AtomicU8,
}

const POLLING: u8 = 1;
const WOKEN: u8 = 2;

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.fetch_or(WOKEN, AcqRel) & POLLING == 0 {
            self.task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Acquire};

    use super::*;

    struct Counted(AtomicU32);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, AcqRel);
        }
    }

    #[test]
    fn what_wakes_itself_is_polled_again_and_nobody_is_woken() {
        let task = Arc::new(Counted(AtomicU32::new(0)));
        let waker = Waker::from(Arc::clone(&task));
        let (mut polls, mut kept) = (0, None);
        let polled = Steady::new().poll(&mut Context::from_waker(&waker), |cx| {
            polls += 1;
            kept = Some(cx.waker().clone());
            if polls < 5 {
                cx.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        });
        assert!(polled.is_pending());
        assert_eq!((polls, task.0.load(Acquire)), (5, 0));
        kept.expect("it was polled").wake();
        assert_eq!(task.0.load(Acquire), 1);
    }

    #[test]
    fn what_never_rests_lets_others_have_their_turn() {
        let task = Arc::new(Counted(AtomicU32::new(0)));
        let waker = Waker::from(Arc::clone(&task));
        let mut polls = 0;
        let polled = Steady::new().poll(&mut Context::from_waker(&waker), |cx| {
            polls += 1;
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert!(polled.is_pending());
        assert_eq!((polls, task.0.load(Acquire)), (MOST_POLLS, 1));
    }
}
