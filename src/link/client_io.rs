//! What hyper is given as a client's connection.
use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use super::{Governor, SocketControl, ToxicSocket, control::Order};

/// A client's connection, plain or over TLS, that carries out what its [`SocketControl`] orders.
///
/// An order takes effect once hyper has flushed and has had nothing more to
/// write since; then every call fails, so that hyper lets go of the connection.
pub struct ClientIo<G> {
    carrier: Carrier<G>,
    control: SocketControl,
    /// Whether nothing was written since the order was first seen by a flush.
    quiet: bool,
    /// Whether the order is being carried out.
    ending: bool,
    /// What is still to be written before a FIN.
    last_words: Bytes,
}

enum Carrier<G> {
    Plain(Box<ToxicSocket<G>>),
    Tls(Box<TlsStream<ToxicSocket<G>>>),
}

/// Calls the same method on whatever carries the bytes.
macro_rules! carrier {
    ($this:expr, $method:ident, $($argument:expr),+) => {
        match &mut $this.carrier {
            Carrier::Plain(socket) => Pin::new(&mut **socket).$method($($argument),+),
            Carrier::Tls(stream) => Pin::new(&mut **stream).$method($($argument),+),
        }
    };
}

impl<G: Governor> ClientIo<G> {
    /// A connection without TLS.
    pub fn plain(socket: ToxicSocket<G>, control: SocketControl) -> Self {
        Self::over(Carrier::Plain(Box::new(socket)), control)
    }

    /// A connection on which a TLS handshake has been made.
    pub fn tls(stream: TlsStream<ToxicSocket<G>>, control: SocketControl) -> Self {
        Self::over(Carrier::Tls(Box::new(stream)), control)
    }

    fn over(carrier: Carrier<G>, control: SocketControl) -> Self {
        Self { carrier, control, quiet: false, ending: false, last_words: Bytes::new() }
    }

    fn socket(&mut self) -> &mut ToxicSocket<G> {
        match &mut self.carrier {
            Carrier::Plain(socket) => socket,
            Carrier::Tls(stream) => stream.get_mut().0,
        }
    }

    /// After a flush: ready with an error once an order has been carried out, or with nothing if there is none.
    fn poll_order(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(order) = self.control.order() else { return Poll::Ready(Ok(())) };
        // HTTP/2 flushes in the middle of its writing too. What is still to come, comes before the next flush.
        if !std::mem::replace(&mut self.quiet, true) {
            cx.waker().wake_by_ref();
            return Poll::Ready(Ok(()));
        }
        if !std::mem::replace(&mut self.ending, true) {
            self.last_words = self.control.last_words();
        }
        match order {
            Order::Fin => {
                while !self.last_words.is_empty() {
                    let written = ready!(carrier!(self, poll_write, cx, &self.last_words))?;
                    self.last_words.advance(written);
                }
                ready!(carrier!(self, poll_shutdown, cx))?;
                Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
            }
            Order::Reset => {
                ready!(self.socket().poll_reset(cx));
                Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
            }
        }
    }

    /// A client that takes nothing does not put a reset off for ever.
    fn poll_overdue_reset<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if self.control.order() == Some(Order::Reset) {
            ready!(self.socket().poll_refusal(cx));
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Poll::Pending
    }

    fn poll_written(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        self.quiet = false;
        if polled.is_pending() { self.poll_overdue_reset(cx) } else { polled }
    }
}

impl<G: Governor> AsyncRead for ClientIo<G> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.ending {
            // Nothing that the client says matters now; flushing goes on with the order.
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let polled = carrier!(this, poll_read, cx, buf);
        if buf.filled().len() > before {
            this.control.bytes_came();
        }
        polled
    }
}

impl<G: Governor> AsyncWrite for ClientIo<G> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = carrier!(this, poll_write, cx, buf);
        this.poll_written(cx, polled)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = carrier!(this, poll_write_vectored, cx, bufs);
        this.poll_written(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.carrier {
            Carrier::Plain(socket) => socket.is_write_vectored(),
            Carrier::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.ending {
            match carrier!(this, poll_flush, cx) {
                Poll::Ready(flushed) => flushed?,
                Poll::Pending => return this.poll_overdue_reset(cx),
            }
        }
        this.poll_order(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.control.order() == Some(Order::Reset) {
            this.ending = true;
            return this.socket().poll_reset(cx).map(Ok);
        }
        carrier!(this, poll_shutdown, cx)
    }
}

#[cfg(test)]
mod tests;
