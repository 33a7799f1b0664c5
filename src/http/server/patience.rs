//! How long a client may take to say what it wants.
use std::{future::poll_fn, pin::pin, task::ready, time::Duration};

use tokio::time::{Instant, sleep_until};

use crate::link::Phase;

/// Comes back when a client has rested for `idle` between requests, or has taken longer than
/// `head` for a request's head, and with which of the two. `began` is when the first head began, if it has.
///
/// To be polled after what reads and writes, in the same task: it looks at how far that has come. There is one timer for
/// the connection, which hardly ever moves.
pub(crate) async fn run_out(
    phase: impl Fn() -> (Phase, u32),
    head: Duration,
    idle: Duration,
    mut began: Option<Instant>,
) -> Phase {
    let mut seen = phase();
    let first = |phase, began: &mut Option<Instant>| {
        // It is the first head's alone, which may have been whole before anybody looked.
        let first = if phase == Phase::Idle { None } else { began.take() };
        first.filter(|_| phase == Phase::Head).unwrap_or_else(Instant::now)
    };
    let mut since = first(seen.0, &mut began);
    let mut timer = pin!(sleep_until(Instant::now() + idle));
    poll_fn(|cx| {
        loop {
            let now = phase();
            if now != seen {
                (seen, since) = (now, first(now.0, &mut began));
            }
            let deadline = match seen.0 {
                Phase::Idle => since + idle,
                Phase::Head => since + head,
                // Its end is in this task too.
                Phase::Exchange => return std::task::Poll::Pending,
            };
            if deadline < timer.deadline() {
                timer.as_mut().reset(deadline);
            }
            ready!(timer.as_mut().poll(cx));
            if Instant::now() >= deadline {
                return std::task::Poll::Ready(seen.0);
            }
            timer.as_mut().reset(deadline);
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{Framing, SocketControl};

    const HEAD: Duration = Duration::from_secs(30);
    const IDLE: Duration = Duration::from_secs(300);

    type Move = (u64, fn(&SocketControl));

    fn begin(control: &SocketControl) {
        control.exchange_begins(Framing::Length(0));
    }

    async fn after(moves: &[Move]) -> (Phase, Duration) {
        after_beginning(None, moves).await
    }

    async fn after_beginning(began: Option<Instant>, moves: &[Move]) -> (Phase, Duration) {
        let control = SocketControl::new();
        let start = Instant::now();
        let moving = async {
            for (at, change) in moves {
                sleep_until(start + Duration::from_secs(*at)).await;
                change(&control);
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            () = moving => unreachable!(),
            phase = run_out(|| control.phase(), HEAD, IDLE, began) => (phase, start.elapsed()),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn http_32_a_head_has_its_time_from_its_first_byte() {
        let secs = Duration::from_secs;
        let (head, exchange, idle) =
            (SocketControl::bytes_came as fn(&_), begin as _, SocketControl::exchange_ends as _);
        assert_eq!(after(&[]).await, (Phase::Idle, secs(300)));
        assert_eq!(after(&[(100, head)]).await, (Phase::Head, secs(130)));
        // More bytes of the same head give it no more time.
        assert_eq!(after(&[(100, head), (120, head)]).await, (Phase::Head, secs(130)));
        // An exchange may take for ever, and bytes of its body are no head.
        let long = [(1, head), (2, exchange), (1_000, head), (5_000, idle)];
        assert_eq!(after(&long).await, (Phase::Idle, secs(5_300)));
        // The next request's time is its own.
        let next = [(1, head), (2, exchange), (3, idle), (20, head)];
        assert_eq!(after(&next).await, (Phase::Head, secs(50)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_04_time_spent_on_the_first_bytes_counts() {
        let secs = Duration::from_secs;
        let head = SocketControl::bytes_came as fn(&_);
        let began = Instant::now();
        tokio::time::advance(secs(20)).await;
        assert_eq!(after_beginning(Some(began), &[(0, head)]).await, (Phase::Head, secs(10)));
        // It is the first head's alone.
        let began = Instant::now();
        let next = [(0, head), (1, begin as _), (2, SocketControl::exchange_ends as _), (3, head)];
        assert_eq!(after_beginning(Some(began), &next).await, (Phase::Head, secs(33)));
        let began = Instant::now();
        let whole_at_once = [(0, begin as fn(&_)), (2, SocketControl::exchange_ends as _), (100, head)];
        assert_eq!(after_beginning(Some(began), &whole_at_once).await, (Phase::Head, secs(130)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_05_streams_of_http2_are_exchanges_and_idle_begins_with_the_last_ones_end() {
        let control = SocketControl::new();
        let start = Instant::now();
        let streams = async {
            for (begin, end) in [(100, 400), (600, 3_000)] {
                sleep_until(start + Duration::from_secs(begin)).await;
                let streams = [control.open_stream(), control.open_stream()];
                sleep_until(start + Duration::from_secs(end)).await;
                drop(streams);
            }
            std::future::pending::<()>().await;
        };
        let phase = tokio::select! {
            biased;
            () = streams => unreachable!(),
            phase = run_out(|| control.http2_phase(), HEAD, IDLE, None) => phase,
        };
        assert_eq!((phase, start.elapsed()), (Phase::Idle, Duration::from_secs(3_300)));
    }
}
