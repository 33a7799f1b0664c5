//! Looking at received bytes without taking them.
use std::io;

use rustix::net::{RecvFlags, recv};
use tokio::{io::Interest, net::TcpStream};

/// Looks at what a socket has received and nobody has taken yet, as more of it comes.
///
/// It is woken by the socket: waiting for the rest of half a message costs nothing, and the end of the peer is noticed.
pub struct Peek<'s> {
    stream: &'s TcpStream,
    seen: usize,
}

impl<'s> Peek<'s> {
    /// Nothing has been seen yet.
    #[must_use]
    pub fn new(stream: &'s TcpStream) -> Self {
        Self { stream, seen: 0 }
    }

    /// Copies the first bytes once there are more of them than the last time, and gives their number. 0 if no more come:
    /// the peer has closed or broken the connection, or `buffer` was full the last time.
    pub async fn more(&mut self, buffer: &mut [u8]) -> usize {
        if self.seen == buffer.len() {
            return 0;
        }
        loop {
            let Ok(ready) = self.stream.ready(Interest::READABLE).await else { return 0 };
            // "Would block" makes the runtime forget this readiness, so that it waits for the next.
            let peeked = self.stream.try_io(Interest::READABLE, || {
                let (count, _) = recv(self.stream, &mut *buffer, RecvFlags::PEEK)?;
                if count > self.seen { Ok(count) } else { Err(io::ErrorKind::WouldBlock.into()) }
            });
            match peeked {
                Ok(count) => {
                    self.seen = count;
                    return count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !ready.is_read_closed() => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return 0,
            }
        }
    }
}

/// Comes back when the peer has closed or broken the connection, whatever it sends before.
pub async fn closed_by_peer(stream: &TcpStream) {
    while let Ok(ready) = stream.ready(Interest::READABLE).await
        && !ready.is_read_closed()
    {
        // There is data that nobody takes: the readiness for it would hide what comes next.
        let _ = stream.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering::SeqCst},
        },
        task::{Context, Poll, Wake, Waker},
        time::Duration,
    };

    use tokio::{io::AsyncWriteExt, net::TcpListener, time::timeout};

    use super::*;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connecting = TcpStream::connect(listener.local_addr().unwrap());
        let (near, far) = tokio::join!(listener.accept(), connecting);
        (near.unwrap().0, far.unwrap())
    }

    async fn soon<F: Future>(future: F) -> F::Output {
        timeout(Duration::from_secs(10), future).await.expect("it hangs")
    }

    #[tokio::test]
    async fn a_04_more_is_seen_as_it_comes_and_stays_where_it_is() {
        let (near, mut far) = pair().await;
        let mut buffer = [0; 4];
        let mut peek = Peek::new(&near);
        for (piece, seen) in [("a", 1), ("b", 2), ("cdef", 4)] {
            far.write_all(piece.as_bytes()).await.unwrap();
            let mut count = soon(peek.more(&mut buffer)).await;
            while count < seen {
                count = soon(peek.more(&mut buffer)).await;
            }
            assert_eq!(&buffer[..count], &b"abcd"[..seen]);
        }
        assert_eq!(soon(peek.more(&mut buffer)).await, 0, "the buffer is full");
    }

    #[tokio::test]
    async fn a_04_the_peers_end_is_seen_behind_half_a_message() {
        for broken in [false, true] {
            let (near, mut far) = pair().await;
            let mut buffer = [0; 8];
            let mut peek = Peek::new(&near);
            far.write_all(b"GE").await.unwrap();
            assert!(soon(peek.more(&mut buffer)).await > 0);
            if broken {
                far.set_zero_linger().unwrap();
            }
            drop(far);
            while soon(peek.more(&mut buffer)).await > 0 {}
            soon(closed_by_peer(&near)).await;
        }
    }

    /// Counts how often it was woken, and wakes nobody.
    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    #[tokio::test]
    async fn a_04_half_a_message_is_waited_for_asleep() {
        let (near, mut far) = pair().await;
        far.write_all(b"GE").await.unwrap();
        let mut buffer = [0; 8];
        let mut peek = Peek::new(&near);
        while soon(peek.more(&mut buffer)).await < 2 {}
        let counted = Arc::new(Counted::default());
        let waker = Waker::from(Arc::clone(&counted));
        let mut cx = Context::from_waker(&waker);
        let mut waiting = pin!(peek.more(&mut buffer));
        let mut closed = pin!(closed_by_peer(&near));
        for _ in 0..100 {
            assert_eq!(waiting.as_mut().poll(&mut cx), Poll::Pending);
            assert_eq!(closed.as_mut().poll(&mut cx), Poll::Pending);
            tokio::task::yield_now().await;
        }
        // News that was under way may come once for each.
        assert!(counted.0.load(SeqCst) <= 2, "it is woken {} times", counted.0.load(SeqCst));
        drop(far);
        assert_eq!(soon(waiting).await, 0);
        soon(closed).await;
    }
}
