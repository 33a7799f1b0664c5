//! One direction of a TCP connection: from the sender's socket through the lane to the receiver's.
use std::{
    cell::RefCell,
    io,
    net::Shutdown,
    pin::Pin,
    task::{Context, Poll, ready},
};

use aconite_toxics::{How, Step};
use bytes::{Buf, Bytes};
use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use super::{Governor, Lane, Traffic, blocks::Blocks, ending::how_it_failed, splice::Conduit};

/// What one read takes at most, in bytes. One that gets so much means bulk.
pub(super) const READ_SIZE: usize = 64 * 1024;

/// A move of fewer bytes means that the bulk is over.
const LEAST_BULK: usize = 16 * 1024;

thread_local! {
    /// Where data is between a read and the write that follows at once: idle connections own no buffer.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_SIZE].into());
}

/// Lends this thread's scratch buffer.
pub(super) fn with_scratch<T>(use_it: impl FnOnce(&mut [u8]) -> T) -> T {
    SCRATCH.with_borrow_mut(|scratch| use_it(scratch))
}

/// Reads what a socket has, and gives it to `take`; nothing at its end.
fn poll_read_scratch<T>(
    cx: &mut Context<'_>,
    socket: &mut TcpStream,
    take: impl FnOnce(&mut Context<'_>, &[u8]) -> T,
) -> Poll<io::Result<T>> {
    with_scratch(|scratch| {
        let mut buffer = ReadBuf::new(scratch);
        ready!(Pin::new(socket).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(take(cx, buffer.filled())))
    })
}

/// One direction at work.
pub(super) struct Pump<G> {
    lane: Lane<G>,
    /// What has left the lane and waits for the receiver.
    outbound: Outbound,
    /// Whether the sender may have more.
    receiving: bool,
    /// Whether much is flowing, so that it pays to keep it out of user space, or else to pack it.
    bulk: bool,
    /// Where much is while a toxic holds it.
    blocks: Blocks,
    /// How the sender ended its direction, once it has.
    pub(super) sender_ended: Option<How>,
}

/// What is on its way to the receiver.
enum Outbound {
    Bytes(Bytes),
    Conduit(Conduit),
}

/// How a direction ended.
pub(super) enum PumpEnd {
    /// Regularly: the receiver has everything, and a FIN.
    Ended,
    /// The whole connection is to close.
    Close,
    /// The whole connection is to break.
    Reset,
    /// The receiver takes nothing more.
    Refused(How),
}

impl<G: Governor> Pump<G> {
    pub(super) fn new(lane: Lane<G>) -> Self {
        Self {
            lane,
            outbound: Outbound::Bytes(Bytes::new()),
            receiving: true,
            bulk: false,
            blocks: Blocks::default(),
            sender_ended: None,
        }
    }

    /// Moves what can be moved; ready when the direction is over.
    ///
    /// `sender_is_gone` says that writing to the sender has failed: its end is then no regular one.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        sender: &mut TcpStream,
        receiver: &mut TcpStream,
        traffic: &Traffic,
        sender_is_gone: Option<How>,
    ) -> Poll<PumpEnd> {
        self.lane.poll_changes(cx);
        loop {
            if let Poll::Ready(outcome) = self.poll_send(cx, receiver, traffic) {
                return Poll::Ready(outcome);
            }
            match ready!(self.poll_receive(cx, sender, receiver, traffic)) {
                Ok(Received::Data) => {}
                Ok(Received::Refused(how)) => return Poll::Ready(PumpEnd::Refused(how)),
                Ok(Received::End) => self.end(sender_is_gone.unwrap_or(How::Fin)),
                Err(error) => self.end(how_it_failed(&error)),
            }
        }
    }

    /// What a toxic does to the connection once the direction has ended: nothing, or it closes or breaks it.
    pub(super) fn poll_after_end(&mut self, cx: &mut Context<'_>) -> PumpEnd {
        self.lane.poll_changes(cx);
        match self.lane.poll_next(cx) {
            Poll::Ready(step @ (Step::Close | Step::Reset)) => PumpEnd::of_break(&step),
            _ => PumpEnd::Ended,
        }
    }

    /// The sender has ended: its end travels through the lane as its data does.
    fn end(&mut self, how: How) {
        self.receiving = false;
        self.sender_ended = Some(how);
        self.lane.push(if how == How::Fin { Step::End } else { Step::Reset });
    }

    /// Sends all that is due; pending when nothing is, or while the receiver does not take it.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        receiver: &mut TcpStream,
        traffic: &Traffic,
    ) -> Poll<PumpEnd> {
        loop {
            if !self.outbound.is_empty() {
                match self.outbound.poll_write(cx, receiver) {
                    Poll::Ready(Ok(bytes)) => traffic.add_sent(bytes),
                    Poll::Ready(Err(error)) => return Poll::Ready(PumpEnd::Refused(how_it_failed(&error))),
                    // A break of the connection does not queue behind what the receiver refuses.
                    Poll::Pending => return self.lane.poll_break(cx).map(|step| PumpEnd::of_break(&step)),
                }
            } else {
                if self.lane.is_empty() {
                    self.blocks.clear();
                }
                if self.lane.is_transparent() {
                    return Poll::Pending;
                }
                match ready!(self.lane.poll_next(cx)) {
                    Step::Item(bytes) => self.outbound = Outbound::Bytes(bytes),
                    Step::End => {
                        // It fails only if the receiver has vanished, which its own direction tells.
                        let _ = SockRef::from(&*receiver).shutdown(Shutdown::Write);
                        return Poll::Ready(PumpEnd::Ended);
                    }
                    broken => return Poll::Ready(PumpEnd::of_break(&broken)),
                }
            }
        }
    }

    /// Takes in what the sender has sent, once; pending as well while there is no room for it.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        sender: &mut TcpStream,
        receiver: &mut TcpStream,
        traffic: &Traffic,
    ) -> Poll<io::Result<Received>> {
        if !self.receiving {
            return Poll::Pending;
        }
        if !self.lane.is_transparent() {
            return if self.lane.has_room() { self.poll_take_in(cx, sender, traffic) } else { Poll::Pending };
        }
        if !self.outbound.is_empty() {
            return Poll::Pending;
        }
        if self.bulk
            && let Ok(conduit) = Conduit::take()
        {
            return self.poll_splice(cx, conduit, sender, traffic);
        }
        self.poll_copy(cx, sender, receiver, traffic)
    }

    /// Reads into the lane. Little is copied, so that it takes no more memory than it needs; much is read into blocks,
    /// one piece behind the other.
    fn poll_take_in(
        &mut self,
        cx: &mut Context<'_>,
        sender: &mut TcpStream,
        traffic: &Traffic,
    ) -> Poll<io::Result<Received>> {
        let piece = if self.bulk {
            let piece = ready!(self.blocks.poll_read(cx, sender))?;
            // One that had no room for more tells nothing.
            self.bulk = piece.len() >= LEAST_BULK || self.blocks.is_full();
            piece
        } else {
            let piece = ready!(poll_read_scratch(cx, sender, |_, data| Bytes::copy_from_slice(data)))?;
            self.bulk = piece.len() >= LEAST_BULK;
            piece
        };
        if piece.is_empty() {
            return Poll::Ready(Ok(Received::End));
        }
        traffic.add_received(piece.len());
        self.lane.push(Step::Item(piece));
        Poll::Ready(Ok(Received::Data))
    }

    /// Reads and writes at once; only what the receiver does not take at once is stored.
    fn poll_copy(
        &mut self,
        cx: &mut Context<'_>,
        sender: &mut TcpStream,
        receiver: &mut TcpStream,
        traffic: &Traffic,
    ) -> Poll<io::Result<Received>> {
        let Self { outbound, bulk, .. } = self;
        poll_read_scratch(cx, sender, |cx, data| {
            if data.is_empty() {
                return Received::End;
            }
            traffic.add_received(data.len());
            *bulk = data.len() == READ_SIZE;
            let sent = match Pin::new(receiver).poll_write(cx, data) {
                Poll::Ready(Ok(sent)) => sent,
                Poll::Ready(Err(error)) => return Received::Refused(how_it_failed(&error)),
                Poll::Pending => 0,
            };
            traffic.add_sent(sent);
            if let Some(rest @ [_, ..]) = data.get(sent..) {
                *outbound = Outbound::Bytes(Bytes::copy_from_slice(rest));
            }
            Received::Data
        })
    }

    /// Lets the kernel take in what the sender has sent, without a copy.
    fn poll_splice(
        &mut self,
        cx: &mut Context<'_>,
        mut conduit: Conduit,
        sender: &TcpStream,
        traffic: &Traffic,
    ) -> Poll<io::Result<Received>> {
        loop {
            if sender.poll_read_ready(cx)?.is_pending() {
                conduit.give_back();
                return Poll::Pending;
            }
            match conduit.fill(sender) {
                Ok(0) => {
                    conduit.give_back();
                    return Poll::Ready(Ok(Received::End));
                }
                Ok(bytes) => {
                    traffic.add_received(bytes);
                    self.bulk = bytes >= LEAST_BULK;
                    self.outbound = Outbound::Conduit(conduit);
                    return Poll::Ready(Ok(Received::Data));
                }
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                // A plain read tells whether it is the socket that fails, or this way of reading from it.
                Err(_) => {
                    self.bulk = false;
                    return Poll::Ready(Ok(Received::Data));
                }
            }
        }
    }
}

/// What a read has brought.
enum Received {
    Data,
    /// The sender has finished.
    End,
    /// Data that the receiver does not take any more.
    Refused(How),
}

impl PumpEnd {
    /// How the receiver vanished, if it did.
    pub(super) fn refused(&self) -> Option<How> {
        match self {
            Self::Refused(how) => Some(*how),
            Self::Ended | Self::Close | Self::Reset => None,
        }
    }

    fn of_break(step: &Step<Bytes>) -> Self {
        if *step == Step::Close { Self::Close } else { Self::Reset }
    }
}

impl Outbound {
    fn is_empty(&self) -> bool {
        match self {
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Conduit(conduit) => conduit.is_empty(),
        }
    }

    /// Writes a part of it, and gives back what is used up.
    fn poll_write(&mut self, cx: &mut Context<'_>, receiver: &mut TcpStream) -> Poll<io::Result<usize>> {
        match self {
            Self::Bytes(bytes) => {
                let sent = ready!(Pin::new(receiver).poll_write(cx, bytes))?;
                bytes.advance(sent);
                if bytes.is_empty() {
                    *bytes = Bytes::new();
                }
                Poll::Ready(Ok(sent))
            }
            Self::Conduit(conduit) => {
                let sent = loop {
                    ready!(receiver.poll_write_ready(cx))?;
                    match conduit.drain(receiver) {
                        Err(error)
                            if matches!(
                                error.kind(),
                                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                            ) => {}
                        done => break done?,
                    }
                };
                if conduit.is_empty()
                    && let Self::Conduit(conduit) = std::mem::replace(self, Self::Bytes(Bytes::new()))
                {
                    conduit.give_back();
                }
                Poll::Ready(Ok(sent))
            }
        }
    }
}
