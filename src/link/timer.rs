//! A timer for one waiter that is late by microseconds, where tokio's own is late by up to a millisecond.
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::time::{Instant, Sleep, sleep_until};

/// Waits for one moment at a time, and is never early.
///
/// On Linux it is a `timerfd`, made when it is first needed. Elsewhere, when
/// the process has no descriptor left, and when the runtime's clock is not the
/// kernel's (a test that has paused it), it is tokio's timer, which counts in
/// whole milliseconds.
#[derive(Debug, Default)]
pub struct Timer(Option<TimerKind>);

#[derive(Debug)]
enum TimerKind {
    #[cfg(target_os = "linux")]
    Kernel(kernel::Alarm),
    Runtime(Pin<Box<Sleep>>),
}

impl Timer {
    /// Ready once `deadline` has come; until then `cx` is woken when it comes.
    ///
    /// A later call with another deadline replaces the earlier one.
    pub fn poll_until(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        if Instant::now() >= deadline {
            return Poll::Ready(());
        }
        match self.0.get_or_insert_with(|| TimerKind::new(deadline)) {
            #[cfg(target_os = "linux")]
            TimerKind::Kernel(alarm) => match ready!(alarm.poll_until(cx, deadline)) {
                Ok(()) => Poll::Ready(()),
                Err(_) => {
                    let mut sleep = Box::pin(sleep_until(deadline));
                    let polled = sleep.as_mut().poll(cx);
                    self.0 = Some(TimerKind::Runtime(sleep));
                    polled
                }
            },
            TimerKind::Runtime(sleep) => {
                if sleep.deadline() != deadline {
                    sleep.as_mut().reset(deadline);
                }
                sleep.as_mut().poll(cx)
            }
        }
    }
}

impl TimerKind {
    fn new(deadline: Instant) -> Self {
        #[cfg(target_os = "linux")]
        if clock_is_the_kernels()
            && let Ok(alarm) = kernel::Alarm::new()
        {
            return Self::Kernel(alarm);
        }
        Self::Runtime(Box::pin(sleep_until(deadline)))
    }
}

/// Whether the runtime's clock runs with the kernel's, which no paused or once paused one does.
#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "the two clocks are compared")]
fn clock_is_the_kernels() -> bool {
    let before = std::time::Instant::now();
    let told = Instant::now().into_std();
    (before..=std::time::Instant::now()).contains(&told)
}

#[cfg(target_os = "linux")]
mod kernel {
    use std::{
        io,
        os::fd::OwnedFd,
        task::{Context, Poll, ready},
    };

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::{
        io::{Interest, unix::AsyncFd},
        time::Instant,
    };

    use crate::files::Use;

    #[derive(Debug)]
    pub(super) struct Alarm {
        fd: AsyncFd<OwnedFd>,
        /// What the kernel was told last, so that polling again costs no call.
        set_for: Option<Instant>,
    }

    impl Alarm {
        pub(super) fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let fd = Use::Upstream.check(timerfd_create(TimerfdClockId::Monotonic, flags)?)?;
            #[expect(
                deprecated,
                reason = "its successor is unsafe for the sake of types that do not own what they name"
            )]
            let fd = AsyncFd::try_with_interest(fd, Interest::READABLE)?;
            Ok(Self { fd, set_for: None })
        }

        pub(super) fn poll_until(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<io::Result<()>> {
            loop {
                if self.set_for != Some(deadline) {
                    self.set(deadline)?;
                }
                // The expiry is never read: each new setting clears it, and each expiry is an edge.
                ready!(self.fd.poll_read_ready(cx))?.clear_ready();
                if Instant::now() >= deadline {
                    self.set_for = None;
                    return Poll::Ready(Ok(()));
                }
            }
        }

        fn set(&mut self, deadline: Instant) -> io::Result<()> {
            let rest = deadline.saturating_duration_since(Instant::now());
            // Zero would disarm it.
            let nanos = if rest.is_zero() { 1 } else { rest.subsec_nanos() };
            let it_value =
                Timespec { tv_sec: i64::try_from(rest.as_secs()).unwrap_or(i64::MAX), tv_nsec: nanos.into() };
            let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
            timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &once)?;
            self.set_for = Some(deadline);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, time::Duration};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn under_a_paused_clock_time_is_the_runtimes() {
        let mut timer = Timer::default();
        let start = Instant::now();
        for ms in [250, 1_000, 1_001, 500] {
            poll_fn(|cx| timer.poll_until(cx, start + Duration::from_millis(ms))).await;
        }
        assert_eq!(start.elapsed(), Duration::from_millis(1_001));
    }

    #[tokio::test]
    async fn it_is_never_early_and_finer_than_a_millisecond() {
        let mut timer = Timer::default();
        let mut least = Duration::MAX;
        for _ in 0..20 {
            let deadline = Instant::now() + Duration::from_micros(100);
            poll_fn(|cx| timer.poll_until(cx, deadline)).await;
            let late = Instant::now().checked_duration_since(deadline);
            least = least.min(late.expect("it came at its moment or after"));
        }
        // The least of many, as other work on the machine only adds. A timer that ticks each
        // millisecond ends every wait at a tick, and so the next one 0.9 ms late.
        if cfg!(target_os = "linux") {
            assert!(least < Duration::from_micros(500), "{least:?}");
        }
    }

    #[tokio::test]
    async fn an_earlier_and_a_later_deadline_both_replace_the_one_before() {
        let mut timer = Timer::default();
        let start = Instant::now();
        let (soon, later) = (start + Duration::from_millis(5), start + Duration::from_millis(20));
        let hour = start + Duration::from_secs(3_600);
        poll_fn(|cx| {
            assert!(timer.poll_until(cx, hour).is_pending());
            timer.poll_until(cx, soon)
        })
        .await;
        poll_fn(|cx| {
            let _ = timer.poll_until(cx, start + Duration::from_millis(10));
            timer.poll_until(cx, later)
        })
        .await;
        assert!(start.elapsed() >= Duration::from_millis(20));
        assert!(start.elapsed() < Duration::from_secs(3_600));
    }
}
