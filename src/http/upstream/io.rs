//! The upstream's side of a connection as hyper sees it.
use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

/// A plain or a TLS connection.
///
/// An upstream that answers early and closes makes writing fail while its
/// answer waits to be read: so a failed write is not a failure here, and the
/// reading side tells how it ended.
pub(crate) struct UpstreamIo {
    stream: Stream,
    unwritable: bool,
    /// Bytes read so far.
    read: Arc<AtomicU64>,
}

enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

/// A connection to an upstream, before TLS.
pub(crate) enum Socket {
    Tcp(TcpStream),
    /// With toxics on its bytes.
    Toxic(Box<dyn Io>),
}

/// Bytes in both directions.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Calls the same method on whatever carries the bytes.
macro_rules! socket {
    ($this:expr, $method:ident, $($argument:expr),+) => {
        match $this.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).$method($($argument),+),
            Socket::Toxic(io) => Pin::new(&mut **io).$method($($argument),+),
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        socket!(self, poll_read, cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        socket!(self, poll_write, cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        socket!(self, poll_write_vectored, cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Toxic(io) => io.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        socket!(self, poll_flush, cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        socket!(self, poll_shutdown, cx)
    }
}

impl UpstreamIo {
    pub(crate) fn plain(stream: Socket) -> Self {
        Self { stream: Stream::Plain(stream), unwritable: false, read: Arc::default() }
    }

    pub(crate) fn tls(stream: TlsStream<Socket>) -> Self {
        Self { stream: Stream::Tls(Box::new(stream)), unwritable: false, read: Arc::default() }
    }

    /// Counts the bytes read.
    pub(crate) fn read_counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.read)
    }

    fn written(&mut self, result: io::Result<usize>, all: usize) -> io::Result<usize> {
        match result {
            Err(error)
                if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) =>
            {
                self.unwritable = true;
                Ok(all)
            }
            other => other,
        }
    }
}

impl AsyncRead for UpstreamIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = ready!(match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        });
        self.read.fetch_add((buf.filled().len() - before) as u64, Relaxed);
        Poll::Ready(result)
    }
}

impl AsyncWrite for UpstreamIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.unwritable {
            return Poll::Ready(Ok(buf.len()));
        }
        let result = ready!(match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        });
        Poll::Ready(self.written(result, buf.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let all = bufs.iter().map(|buf| buf.len()).sum();
        if self.unwritable {
            return Poll::Ready(Ok(all));
        }
        let result = ready!(match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        });
        Poll::Ready(self.written(result, all))
    }

    fn is_write_vectored(&self) -> bool {
        matches!(&self.stream, Stream::Plain(stream) if stream.is_write_vectored())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = match &mut self.stream {
            Stream::Plain(Socket::Tcp(_)) => return Poll::Ready(Ok(())),
            Stream::Plain(stream) => ready!(Pin::new(stream).poll_flush(cx)),
            Stream::Tls(stream) => ready!(Pin::new(stream).poll_flush(cx)),
        };
        Poll::Ready(self.written(result.map(|()| 0), 0).map(drop))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
