//! The socket as tokio's readers and writers see it.
use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use aconite_toxics::Step;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::sleep,
};

use super::{super::Governor, Closing, LINGER, ToxicSocket};

impl<G: Governor> AsyncRead for ToxicSocket<G> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.break_seen = false;
        if let Closing::Lingering(_) = this.closing {
            this.closing = Closing::HalfOpen;
        }
        this.advance_downstream(cx)?;
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        loop {
            if !this.inbound.is_empty() {
                let bytes = this.inbound.len().min(buf.remaining());
                buf.put_slice(&this.inbound.split_to(bytes));
                (*this.counters).as_ref().upstream.add_sent(bytes);
                return Poll::Ready(Ok(()));
            }
            if this.read_end {
                return Poll::Ready(Ok(()));
            }
            if this.up.is_transparent() {
                return this.poll_read_direct(cx, buf);
            }
            match this.up.poll_next(cx) {
                Poll::Ready(step) => {
                    this.take_from_up(step);
                    this.check()?;
                }
                Poll::Pending => ready!(this.poll_take_in(cx)),
            }
        }
    }
}

impl<G: Governor> AsyncWrite for ToxicSocket<G> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_any(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_any(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.advance(cx)?;
        this.watch_client(cx);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if matches!(this.closing, Closing::Not) {
            this.closing = Closing::Ending;
            this.down.push(Step::End);
        }
        this.advance(cx)?;
        match this.closing {
            Closing::Not | Closing::Ending => Poll::Pending,
            // Whoever still reads does so before it asks again.
            Closing::Sent if this.receiving && !this.read_end => {
                this.closing = Closing::Lingering(Box::pin(sleep(LINGER)));
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Closing::Sent | Closing::HalfOpen => Poll::Ready(Ok(())),
            Closing::Lingering(_) => this.poll_linger(cx).map(Ok),
        }
    }
}
