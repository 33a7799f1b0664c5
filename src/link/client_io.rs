//! What hyper is given as a client's connection.
use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use super::{
    Governor, Phase, SocketControl, ToxicSocket, control::Order, frame_watch::FrameWatch,
    head_watch::HeadWatch,
};

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
    /// Where HTTP/1 is spoken.
    http1: Option<Http1>,
    /// Where HTTP/2 is spoken.
    http2: Option<FrameWatch>,
}

/// What is looked after besides in HTTP/1, where hyper says too little.
struct Http1 {
    watch: HeadWatch,
    substitute: Substitute,
}

/// Another answer in place of one that hyper gives by itself to a head that it cannot read; `None` if it is not one.
pub(super) type Substitute = fn(&[u8]) -> Option<Bytes>;

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
        Self {
            carrier,
            control,
            quiet: false,
            ending: false,
            last_words: Bytes::new(),
            http1: None,
            http2: None,
        }
    }

    /// The same connection, on which HTTP/1 is spoken: heads that frame their body twice are told of by
    /// [`SocketControl::exchange_begins`], and `substitute` says what is sent instead of hyper's own answers.
    #[must_use]
    pub fn in_http1(self, substitute: Substitute) -> Self {
        Self { http1: Some(Http1 { watch: HeadWatch::default(), substitute }), ..self }
    }

    /// The same connection, on which HTTP/2 is spoken: [`SocketControl::http2_phase`] follows the header blocks.
    #[must_use]
    pub fn in_http2(self) -> Self {
        Self { http2: Some(FrameWatch::default()), ..self }
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

    /// Whether these bytes are an answer of hyper's own, in whose place another was sent on its way.
    fn replaces(&self, answer: &[u8]) -> bool {
        // While a head is awaited nobody else has anything to say.
        let instead = match &self.http1 {
            Some(Http1 { substitute, .. }) if self.control.phase().0 == Phase::Head => substitute(answer),
            _ => None,
        };
        let replaces = instead.is_some();
        if let Some(instead) = instead {
            self.control.fin_after(instead);
        }
        replaces
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
        if let Some(bytes @ [_, ..]) = buf.filled().get(before..) {
            this.control.bytes_came();
            if let Some(Http1 { watch, .. }) = &mut this.http1
                && watch.came(bytes, this.control.body(), || this.control.head_begins())
            {
                this.control.is_framed_twice();
            }
            if let Some(frames) = &mut this.http2 {
                frames.came(bytes, |open| this.control.header_block(open));
            }
        }
        polled
    }
}

impl<G: Governor> AsyncWrite for ClientIo<G> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.replaces(buf) {
            return Poll::Ready(Ok(buf.len()));
        }
        let polled = carrier!(this, poll_write, cx, buf);
        this.poll_written(cx, polled)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if let [only] = bufs
            && this.replaces(only)
        {
            return Poll::Ready(Ok(only.len()));
        }
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
        match this.control.order() {
            Some(Order::Reset) => {
                this.ending = true;
                this.socket().poll_reset(cx).map(Ok)
            }
            Some(Order::Fin) => {
                // Nothing comes any more that the last words would have to wait for.
                this.quiet = true;
                this.poll_order(cx)
            }
            None => carrier!(this, poll_shutdown, cx),
        }
    }
}

#[cfg(test)]
mod tests;
