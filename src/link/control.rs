//! How the HTTP layer speaks to the socket beneath it, which hyper owns.
use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering},
    },
    task::Waker,
};

use aconite_toxics::How;
use atomic_waker::AtomicWaker;
use bytes::Bytes;
use tokio::sync::Notify;

/// Orders for a client's connection, and news of it. Clones speak of the same connection.
#[derive(Clone)]
pub struct SocketControl(Arc<Shared>);

struct Shared {
    order: AtomicU8,
    /// What is written before a FIN that was ordered.
    last_words: Mutex<Bytes>,
    /// The phase in the two lowest bits, above it how often it has changed.
    phase: AtomicU32,
    /// Over HTTP/2: streams that are open, whether a header block is being sent, and how often one of the two has begun.
    streams: AtomicU32,
    header_block: AtomicBool,
    begun: AtomicU32,
    /// The newest request's [`Framing`].
    body: AtomicU64,
    /// The next request frames its body twice.
    framed_twice: AtomicBool,
    /// Whoever drives the socket.
    driver: AtomicWaker,
    left: AtomicBool,
    leaving: Notify,
    /// `FIN` or `RESET` once a toxic has ended the connection.
    toxic: AtomicU8,
}

/// How far an HTTP/1 connection is with its client's next request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Phase {
    /// Nothing of it has come.
    Idle = 0,
    /// Its head is coming.
    Head = 1,
    /// It is being answered.
    Exchange = 2,
}

impl Phase {
    fn of(bits: u32) -> Self {
        match bits & 3 {
            0 => Self::Idle,
            1 => Self::Head,
            _ => Self::Exchange,
        }
    }
}

/// How the body of a connection's newest HTTP/1 request is framed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Framing {
    /// Nobody has read its head yet.
    Unread,
    /// By its length in bytes; 0 if there is no body.
    Length(u64),
    /// In chunks.
    Chunked {
        /// Whether the last one has been read.
        over: bool,
    },
    /// What follows is no HTTP/1 any more.
    None,
}

impl Framing {
    /// Longer bodies are none: hyper takes these lengths for others too.
    const SPECIAL: u64 = u64::MAX - 3;

    fn pack(self) -> u64 {
        match self {
            Self::Length(length) => length.min(Self::SPECIAL - 1),
            Self::Unread => Self::SPECIAL,
            Self::Chunked { over: false } => Self::SPECIAL + 1,
            Self::Chunked { over: true } => Self::SPECIAL + 2,
            Self::None => Self::SPECIAL + 3,
        }
    }

    fn unpack(packed: u64) -> Self {
        match packed.checked_sub(Self::SPECIAL) {
            None => Self::Length(packed),
            Some(0) => Self::Unread,
            Some(1) => Self::Chunked { over: false },
            Some(2) => Self::Chunked { over: true },
            Some(_) => Self::None,
        }
    }
}

/// A stream of HTTP/2 that is open.
#[derive(Debug)]
pub struct OpenStream(SocketControl);

impl Drop for OpenStream {
    fn drop(&mut self) {
        if self.0.0.streams.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Whoever watches the connection's time does so in its driver's task.
            self.0.0.driver.wake();
        }
    }
}

/// An ending that the HTTP layer has ordered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Order {
    Fin,
    Reset,
}

const NO_ORDER: u8 = 0;
const FIN: u8 = 1;
const RESET: u8 = 2;

impl SocketControl {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Shared {
            order: AtomicU8::new(NO_ORDER),
            last_words: Mutex::default(),
            phase: AtomicU32::new(Phase::Idle as u32),
            streams: AtomicU32::new(0),
            header_block: AtomicBool::new(false),
            begun: AtomicU32::new(0),
            body: AtomicU64::new(Framing::Unread.pack()),
            framed_twice: AtomicBool::new(false),
            driver: AtomicWaker::new(),
            left: AtomicBool::new(false),
            leaving: Notify::new(),
            toxic: AtomicU8::new(NO_ORDER),
        }))
    }

    /// Closes the connection by FIN once everything that hyper has been given is sent; over TLS a
    /// `close_notify` goes first. To be called when hyper gets nothing more to send.
    pub fn fin_after_flush(&self) {
        // A reset that was ordered stays one.
        let _ = self.0.order.compare_exchange(NO_ORDER, FIN, Ordering::Release, Ordering::Relaxed);
        self.0.driver.wake();
    }

    /// As [`fin_after_flush`](Self::fin_after_flush), and the client is told this before. To be called between answers.
    pub fn fin_after(&self, last_words: Bytes) {
        *self.0.last_words.lock().unwrap_or_else(PoisonError::into_inner) = last_words;
        self.fin_after_flush();
    }

    /// Breaks the connection by RST as soon as what hyper has been given was handed to the kernel.
    /// To be called when hyper gets nothing more to send.
    ///
    /// A client that takes nothing for a second is reset without its rest.
    pub fn reset(&self) {
        self.0.order.store(RESET, Ordering::Release);
        self.0.driver.wake();
    }

    /// Whether the client has closed its side, or broken the connection.
    pub fn is_closed_by_peer(&self) -> bool {
        self.0.left.load(Ordering::Acquire)
    }

    /// Comes back when the client has closed its side, or broken the connection, even while nobody reads
    /// from it. It is found out while hyper polls the connection, as it does for every byte that moves.
    pub async fn closed_by_peer(&self) {
        let leaving = self.0.leaving.notified();
        let mut leaving = std::pin::pin!(leaving);
        leaving.as_mut().enable();
        if !self.is_closed_by_peer() {
            leaving.await;
        }
    }

    /// How a toxic on the connection's bytes has ended it, if one has.
    pub fn ended_by_toxic(&self) -> Option<How> {
        match self.0.toxic.load(Ordering::Acquire) {
            FIN => Some(How::Fin),
            RESET => Some(How::Rst),
            _ => None,
        }
    }

    /// A toxic has closed the connection by FIN, or broken it.
    pub(super) fn toxic_ends(&self, fin: bool) {
        self.0.toxic.store(if fin { FIN } else { RESET }, Ordering::Release);
    }

    /// What the connection is in, and a number that is another one each time it has changed.
    pub fn phase(&self) -> (Phase, u32) {
        let phase = self.0.phase.load(Ordering::Acquire);
        (Phase::of(phase), phase)
    }

    /// The same of a connection on which HTTP/2 is spoken: it is in an exchange while a stream is open.
    pub fn http2_phase(&self) -> (Phase, u32) {
        let phase = if self.0.header_block.load(Ordering::Acquire) {
            Phase::Head
        } else if self.0.streams.load(Ordering::Acquire) > 0 {
            Phase::Exchange
        } else {
            Phase::Idle
        };
        (phase, self.0.begun.load(Ordering::Acquire))
    }

    /// A stream of HTTP/2 is open for as long as this is held.
    #[must_use]
    pub fn open_stream(&self) -> OpenStream {
        self.0.streams.fetch_add(1, Ordering::AcqRel);
        self.0.begun.fetch_add(1, Ordering::AcqRel);
        OpenStream(self.clone())
    }

    /// A header block of HTTP/2 has begun, or is whole.
    pub(super) fn header_block(&self, open: bool) {
        self.0.header_block.store(open, Ordering::Release);
        if open {
            self.0.begun.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// A request has been read; whether its head framed the body both by length and in chunks, over HTTP/1.
    pub fn exchange_begins(&self, body: Framing) -> bool {
        self.0.body.store(body.pack(), Ordering::Release);
        self.enter(Phase::Exchange, |_| true);
        self.0.framed_twice.swap(false, Ordering::AcqRel)
    }

    /// A request's body in chunks has been read to its end.
    pub fn chunks_end(&self) {
        let (open, over) = (Framing::Chunked { over: false }.pack(), Framing::Chunked { over: true }.pack());
        // Of a body with a length it is known where it ends.
        let _ = self.0.body.compare_exchange(open, over, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// The connection is about to speak something else than HTTP.
    pub fn http_ends(&self) {
        self.0.body.store(Framing::None.pack(), Ordering::Release);
    }

    /// Its answer has been given.
    pub fn exchange_ends(&self) {
        self.enter(Phase::Idle, |now| now == Phase::Exchange);
    }

    /// The client has sent something.
    pub fn bytes_came(&self) {
        self.enter(Phase::Head, |now| now == Phase::Idle);
    }

    fn enter(&self, next: Phase, from: impl Fn(Phase) -> bool) {
        let moved = |now| from(Phase::of(now)).then_some((now & !3).wrapping_add(4) | next as u32);
        // Where it does not hold, nothing changes.
        let _ = self.0.phase.fetch_update(Ordering::AcqRel, Ordering::Acquire, moved);
    }

    pub(super) fn body(&self) -> Framing {
        Framing::unpack(self.0.body.load(Ordering::Acquire))
    }

    /// A head has begun to come.
    pub(super) fn head_begins(&self) {
        self.0.body.store(Framing::Unread.pack(), Ordering::Release);
    }

    /// The head that has come frames its body twice.
    pub(super) fn is_framed_twice(&self) {
        self.0.framed_twice.store(true, Ordering::Release);
    }

    pub(super) fn last_words(&self) -> Bytes {
        std::mem::take(&mut *self.0.last_words.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn order(&self) -> Option<Order> {
        match self.0.order.load(Ordering::Acquire) {
            FIN => Some(Order::Fin),
            RESET => Some(Order::Reset),
            _ => None,
        }
    }

    pub(super) fn driven_by(&self, waker: &Waker) {
        self.0.driver.register(waker);
    }

    pub(super) fn peer_has_closed(&self) {
        if !self.0.left.swap(true, Ordering::AcqRel) {
            self.0.leaving.notify_waiters();
        }
    }
}

impl fmt::Debug for SocketControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketControl")
            .field("order", &self.order())
            .field("closed_by_peer", &self.is_closed_by_peer())
            .finish()
    }
}
