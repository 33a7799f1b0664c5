//! Bytes both ways between a client and an upstream that have left HTTP.
use std::{
    io,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use aconite_toxics::{End, How, Side};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf, copy_bidirectional},
    time::timeout,
};

use crate::http::ongoing::ExchangeState;

/// How long a client may take to be broken off.
const SOON: Duration = Duration::from_secs(1);

/// The rest of an exchange that was upgraded. When it is dropped, its end is in the journal.
pub(super) struct Relayed {
    ongoing: Arc<ExchangeState>,
    notes: Arc<Notes>,
}

/// What is noted of a relay.
#[derive(Default)]
struct Notes {
    /// What ended first.
    first: OnceLock<(Side, How)>,
    /// Bytes that each side has sent.
    client: AtomicU64,
    upstream: AtomicU64,
}

impl Relayed {
    pub(super) fn new(ongoing: Arc<ExchangeState>) -> Self {
        Self { ongoing, notes: Arc::default() }
    }

    /// Relays until both sides have ended, one has failed, or the connection is closed or reset.
    pub(super) async fn run<C, U>(self, client: C, upstream: U)
    where
        C: AsyncRead + AsyncWrite + Unpin,
        U: AsyncRead + AsyncWrite + Unpin,
    {
        let notes = |side| Noted { notes: Arc::clone(&self.notes), side };
        let mut client = Watched { io: client, noted: notes(Side::Client) };
        let mut upstream = Watched { io: upstream, noted: notes(Side::Upstream) };
        let connection = &self.ongoing.connection;
        let client_is_gone = async {
            // Over HTTP/1 the client may close its side alone.
            if self.ongoing.http2 {
                self.ongoing.control.closed_by_peer().await;
            } else {
                std::future::pending().await
            }
        };
        let broken = tokio::select! {
            copied = copy_bidirectional(&mut client, &mut upstream) => copied.is_err(),
            () = connection.break_off.cancelled() => true,
            () = connection.stop.cancelled() => false,
            () = client_is_gone => false,
        };
        if broken && !self.ongoing.http2 {
            self.ongoing.control.reset();
            // What the client has been sent leaves first.
            let _ = timeout(SOON, client.io.shutdown()).await;
        }
    }

    fn end(&self) -> End {
        let given_up = self.ongoing.given_up();
        match self.notes.first.get() {
            Some((side, how)) if given_up.side == Side::Client => End { side: *side, how: *how },
            _ => given_up,
        }
    }
}

impl Drop for Relayed {
    fn drop(&mut self) {
        self.ongoing.request_passed(self.notes.client.load(Relaxed));
        self.ongoing.finish(self.end(), self.notes.upstream.load(Relaxed), 0, 0);
    }
}

struct Noted {
    notes: Arc<Notes>,
    side: Side,
}

impl Noted {
    fn ended(&self, how: How) {
        // Only the first counts.
        let _ = self.notes.first.set((self.side, how));
    }

    fn failed<T>(&self, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Err(error)) = &polled {
            self.ended(match error.kind() {
                io::ErrorKind::TimedOut => How::Timeout,
                _ => How::Rst,
            });
        }
        polled
    }

    fn read(&self, bytes: usize) {
        let count = if self.side == Side::Client { &self.notes.client } else { &self.notes.upstream };
        count.fetch_add(bytes as u64, Relaxed);
    }
}

/// One side, which notes how it ended.
struct Watched<T> {
    io: T,
    noted: Noted,
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buf);
        ready!(self.noted.failed(polled))?;
        match buf.filled().len() - before {
            0 => self.noted.ended(How::Fin),
            bytes => self.noted.read(bytes),
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(cx, buf);
        self.noted.failed(polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_flush(cx);
        self.noted.failed(polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // It fails only where the other direction tells why.
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
