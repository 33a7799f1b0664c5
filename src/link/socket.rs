//! A client's socket with byte toxics on it, for a protocol implementation to read from and write to.
use std::{
    future::Future as _,
    io::{self, IoSlice, Read as _},
    net::Shutdown,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use aconite_toxics::Step;
use bytes::{Buf, Bytes, BytesMut};
use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::TcpStream,
    time::{Sleep, sleep},
};

use super::{
    Counters, Governor, Lane, SocketControl,
    pump::{READ_SIZE, with_scratch},
    tcp::{break_on_drop, finish},
};

mod stream;

/// A TCP socket whose bytes pass through lanes of toxics.
///
/// The lanes stand for the network: what was written counts as sent once a
/// lane has it, and flushing does not wait for it. Shutting down does. Every
/// call moves both directions, so that it suffices to poll one; all polling
/// must come from one task.
///
/// Once a toxic has closed or broken the connection, every call fails.
pub struct ToxicSocket<G> {
    stream: TcpStream,
    /// What the client sends.
    up: Lane<G>,
    /// What the client gets.
    down: Lane<G>,
    counters: Arc<dyn AsRef<Counters> + Send + Sync>,
    control: SocketControl,
    /// What has left `up` and waits for the reader.
    inbound: Bytes,
    /// What has left `down` and waits for the client.
    outbound: Bytes,
    /// Whether the client may send more.
    receiving: bool,
    /// Whether the end of what the client sends has left `up`.
    read_end: bool,
    /// Whether data may be there of which the readiness was forgotten, so that the next one is heard of.
    unread: bool,
    /// Whether a break was seen to be due behind what the reader has not taken.
    break_seen: bool,
    closing: Closing,
    over: Option<Over>,
    /// Runs while the client takes nothing.
    refusing: Option<Pin<Box<Sleep>>>,
}

/// How far shutting down has come.
enum Closing {
    Not,
    /// The end is in `down`.
    Ending,
    /// The client has been sent a FIN.
    Sent,
    /// What the client still sends is thrown away, so that no RST overtakes the answer.
    Lingering(Pin<Box<Sleep>>),
    /// The client has been sent a FIN, and somebody goes on reading from it.
    HalfOpen,
}

/// What a toxic, an order or the client has done to the connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Over {
    Closed,
    Broken,
}

/// How long a client that is sending has to take notice of a FIN.
const LINGER: Duration = Duration::from_secs(1);

/// How long a client may take nothing before a reset that was ordered is carried out all the same.
const PATIENCE: Duration = Duration::from_secs(1);

impl<G: Governor> ToxicSocket<G> {
    /// A socket with lanes for what the client sends and for what it gets, and its control.
    pub fn new<C>(stream: TcpStream, up: Lane<G>, down: Lane<G>, counters: Arc<C>) -> (Self, SocketControl)
    where
        C: AsRef<Counters> + Send + Sync + 'static,
    {
        let control = SocketControl::new();
        let socket = Self {
            stream,
            up,
            down,
            counters,
            control: control.clone(),
            inbound: Bytes::new(),
            outbound: Bytes::new(),
            receiving: true,
            read_end: false,
            unread: false,
            break_seen: false,
            closing: Closing::Not,
            over: None,
            refusing: None,
        };
        (socket, control)
    }

    /// Breaks the connection once all that was written has left; ready when that is done.
    pub(super) fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if matches!(self.closing, Closing::Not) {
            self.closing = Closing::Ending;
            self.down.push(Step::Reset);
        }
        match self.advance(cx) {
            Err(_) => Poll::Ready(()),
            Ok(()) if matches!(self.closing, Closing::Ending) => Poll::Pending,
            Ok(()) => {
                self.break_now();
                Poll::Ready(())
            }
        }
    }

    /// Breaks the connection if the client has taken nothing for too long; ready when that is done.
    pub(super) fn poll_refusal(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.refusing {
            Some(patience) => ready!(patience.as_mut().poll(cx)),
            None => return Poll::Pending,
        }
        self.break_now();
        Poll::Ready(())
    }

    fn break_now(&mut self) {
        self.end(&Step::Reset);
    }

    /// The lane of what the client sends breaks the connection: by what the client did, or a toxic.
    fn end_of_up(&mut self, how: &Step<Bytes>) {
        if self.receiving {
            self.control.toxic_ends(*how == Step::Close);
        } else {
            self.control.peer_has_closed();
        }
        self.end(how);
    }

    /// The lane of what the client gets breaks the connection: as was ordered, or by a toxic.
    fn end_of_down(&mut self, how: &Step<Bytes>) {
        if matches!(self.closing, Closing::Not) {
            self.control.toxic_ends(*how == Step::Close);
        }
        self.end(how);
    }

    fn end(&mut self, how: &Step<Bytes>) {
        if *how == Step::Close {
            self.over = Some(Over::Closed);
            finish(&self.stream);
        } else {
            self.over = Some(Over::Broken);
            break_on_drop(&self.stream);
        }
    }

    fn check(&self) -> io::Result<()> {
        match self.over {
            None => Ok(()),
            Some(Over::Closed) => Err(io::ErrorKind::ConnectionAborted.into()),
            Some(Over::Broken) => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }

    /// Does all that can be done while nobody reads or writes.
    fn advance(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        self.advance_downstream(cx)?;
        self.serve_reader(cx);
        self.check()
    }

    /// Follows changes, and sends the client what is due.
    fn advance_downstream(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        self.check()?;
        self.control.driven_by(cx.waker());
        self.up.poll_changes(cx);
        self.down.poll_changes(cx);
        self.serve_client(cx);
        self.check()
    }

    /// Keeps the lane of what the client sends going while nobody may be reading.
    fn serve_reader(&mut self, cx: &mut Context<'_>) {
        while !self.up.is_transparent() && self.over.is_none() {
            if !self.inbound.is_empty() || self.read_end {
                let Poll::Ready(step) = self.up.poll_break(cx) else { return };
                if !std::mem::replace(&mut self.break_seen, true) {
                    // The reader has one more turn to take what came before it.
                    cx.waker().wake_by_ref();
                    return;
                }
                return self.end_of_up(&step);
            }
            let Poll::Ready(step) = self.up.poll_next(cx) else { return };
            self.take_from_up(step);
            // It became due after the reader looked.
            cx.waker().wake_by_ref();
        }
    }

    fn take_from_up(&mut self, step: Step<Bytes>) {
        match step {
            Step::Item(bytes) => self.inbound = bytes,
            Step::End => {
                self.read_end = true;
                self.control.peer_has_closed();
            }
            broken => self.end_of_up(&broken),
        }
    }

    /// Sends the client what is due.
    fn serve_client(&mut self, cx: &mut Context<'_>) {
        while self.over.is_none() {
            if !self.outbound.is_empty() {
                match Pin::new(&mut self.stream).poll_write(cx, &self.outbound) {
                    Poll::Ready(Ok(sent)) => {
                        self.sent(sent);
                        self.outbound.advance(sent);
                    }
                    Poll::Ready(Err(_)) => {
                        self.control.peer_has_closed();
                        self.break_now();
                    }
                    Poll::Pending => {
                        self.refused();
                        let Poll::Ready(step) = self.down.poll_break(cx) else { return };
                        self.end_of_down(&step);
                    }
                }
            } else if self.down.is_transparent() {
                return;
            } else {
                let Poll::Ready(step) = self.down.poll_next(cx) else { return };
                match step {
                    Step::Item(bytes) => self.outbound = bytes,
                    Step::End => {
                        // It fails only if the client has vanished.
                        let _ = SockRef::from(&self.stream).shutdown(Shutdown::Write);
                        self.closing = Closing::Sent;
                        return;
                    }
                    broken => self.end_of_down(&broken),
                }
            }
        }
    }

    fn sent(&mut self, bytes: usize) {
        self.refusing = None;
        (*self.counters).as_ref().downstream.add_sent(bytes);
    }

    fn refused(&mut self) {
        self.refusing.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
    }

    /// Reads what the client has sent.
    fn poll_receive(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.unread {
            let room = buffer.initialize_unfilled();
            let wanted = room.len();
            match (&*SockRef::from(&self.stream)).read(room) {
                Ok(bytes) => {
                    self.unread = bytes == wanted;
                    buffer.advance(bytes);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.unread = false,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }

    /// Reads once, beside the lane.
    fn poll_read_direct(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = ready!(self.poll_receive(cx, buffer));
        let bytes = buffer.filled().len() - before;
        if bytes == 0 {
            self.receiving = false;
            self.control.peer_has_closed();
        }
        if result.is_ok() {
            self.read_end = bytes == 0;
        }
        let upstream = &(*self.counters).as_ref().upstream;
        upstream.add_received(bytes);
        upstream.add_sent(bytes);
        Poll::Ready(result)
    }

    /// Reads from the socket into the lane, once.
    fn poll_take_in(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.receiving || !self.up.has_room() {
            return Poll::Pending;
        }
        with_scratch(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            let result = ready!(self.poll_receive(cx, &mut buffer));
            let data = buffer.filled();
            (*self.counters).as_ref().upstream.add_received(data.len());
            self.receiving = result.is_ok() && !data.is_empty();
            self.up.push(match result {
                Ok(()) if data.is_empty() => Step::End,
                Ok(()) => Step::Item(Bytes::copy_from_slice(data)),
                Err(_) => Step::Reset,
            });
            Poll::Ready(())
        })
    }

    /// Finds out that the client has closed or broken the connection while nobody reads; once nothing
    /// more is known, the task is woken by the next thing that happens.
    fn watch_client(&mut self, cx: &mut Context<'_>) {
        while self.receiving && self.up.is_transparent() {
            if !matches!(self.stream.poll_read_ready(cx), Poll::Ready(Ok(()))) {
                return;
            }
            let Poll::Ready(Ok(ready)) = pin!(self.stream.ready(Interest::READABLE)).poll(cx) else { return };
            if ready.is_read_closed() {
                return self.control.peer_has_closed();
            }
            // There is data that nobody wants yet: the readiness for it would hide what comes next.
            self.unread = true;
            let _ = self.stream.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
        }
    }

    /// Writes beside the lane, or into it.
    fn poll_write_any(&mut self, cx: &mut Context<'_>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.advance(cx)?;
        if !matches!(self.closing, Closing::Not) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if self.down.is_transparent() {
            if !self.outbound.is_empty() {
                return Poll::Pending;
            }
            let Poll::Ready(result) = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces) else {
                self.refused();
                return Poll::Pending;
            };
            let sent = result.inspect_err(|_| self.control.peer_has_closed())?;
            (*self.counters).as_ref().downstream.add_received(sent);
            self.sent(sent);
            return Poll::Ready(Ok(sent));
        }
        if !self.down.has_room() {
            return Poll::Pending;
        }
        let mut chunk = BytesMut::new();
        for piece in pieces {
            let room = READ_SIZE - chunk.len();
            chunk.extend_from_slice(piece.get(..room).unwrap_or(piece));
        }
        let bytes = chunk.len();
        if bytes == 0 {
            return Poll::Ready(Ok(0));
        }
        (*self.counters).as_ref().downstream.add_received(bytes);
        self.down.push(Step::Item(chunk.freeze()));
        self.advance(cx)?;
        Poll::Ready(Ok(bytes))
    }

    /// Throws away what the client sends, until it has finished or time is up.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        with_scratch(|scratch| {
            while self.receiving {
                let mut buffer = ReadBuf::new(scratch);
                match self.poll_receive(cx, &mut buffer) {
                    Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                    Poll::Ready(_) => self.receiving = false,
                    Poll::Pending => return,
                }
            }
        });
        match &mut self.closing {
            Closing::Lingering(time) if self.receiving => time.as_mut().poll(cx),
            _ => Poll::Ready(()),
        }
    }
}

impl<G> Unpin for ToxicSocket<G> {}

impl<G> Drop for ToxicSocket<G> {
    fn drop(&mut self) {
        if self.over.is_none() && self.receiving {
            finish(&self.stream);
        }
    }
}

#[cfg(test)]
mod tests;
