//! Where a body comes from, and how it broke off if it did.
use std::{
    error::Error,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use aconite_toxics::How;
use bytes::Bytes;
use http_body::{Body as _, Frame};
use hyper::body::Incoming;

use super::{
    held::Held,
    pool::{HostPool, Http1},
};
use crate::sim::SimBody;

/// Where a body comes from.
pub(crate) enum Source {
    /// Bytes that are all here.
    Full(Option<Bytes>),
    /// A client, or an HTTP/2 upstream.
    Incoming(Incoming),
    /// A client, remembered so that it can be read once more.
    Tee(Tee),
    /// An HTTP/1 upstream.
    Http1(Box<Http1Source>),
    /// A simulated provider.
    Simulated(Box<SimBody>),
    /// Any of these, of which a part was held back.
    Held(Box<Held>),
}

/// An answer's body together with the connection that it comes on, which goes back to the pool after.
pub(crate) struct Http1Source {
    pub(crate) incoming: Incoming,
    pub(crate) kept: Option<(Box<Http1>, Arc<HostPool>)>,
    /// How much is left of a body that ends before its connection does.
    left: Option<u64>,
}

/// A body that ended before its time.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) how: How,
    /// The code of an HTTP/2 reset.
    pub(crate) reason: Option<h2::Reason>,
    /// What was wrong with it, if it did not just end: its chunks cannot be read.
    pub(crate) malformed: Option<String>,
}

impl Broken {
    /// A body that ended by closing or a reset.
    pub(crate) fn ended(how: How, reason: Option<h2::Reason>) -> Self {
        Self { how, reason, malformed: None }
    }

    /// Reads hyper's error.
    pub(crate) fn from_hyper(error: &hyper::Error) -> Self {
        let mut cause: Option<&(dyn Error + 'static)> = Some(error);
        while let Some(current) = cause {
            if let Some(h2) = current.downcast_ref::<h2::Error>() {
                let how = if h2.is_reset() { How::Rst } else { How::Fin };
                return Self::ended(how, h2.reason());
            }
            if let Some(io) = current.downcast_ref::<io::Error>() {
                let fin = matches!(io.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe);
                let malformed = matches!(io.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData);
                return Self {
                    how: if fin { How::Fin } else { How::Rst },
                    reason: None,
                    malformed: malformed.then(|| io.to_string()),
                };
            }
            cause = current.source();
        }
        Self::ended(How::Fin, None)
    }
}

impl Source {
    /// A connection that is `switching` protocols never goes back to the pool.
    pub(crate) fn http1(
        incoming: Incoming,
        kept: Option<(Box<Http1>, Arc<HostPool>)>,
        switching: bool,
    ) -> Self {
        let mut source = Http1Source { incoming, kept, left: None };
        if source.incoming.is_end_stream() && !switching {
            source.give_back();
        }
        Self::Http1(Box::new(source))
    }

    /// The next frame.
    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self {
            Self::Full(bytes) => {
                Poll::Ready(bytes.take().filter(|b| !b.is_empty()).map(|b| Ok(Frame::data(b))))
            }
            Self::Incoming(incoming) => {
                let frame = ready!(Pin::new(incoming).poll_frame(cx));
                Poll::Ready(frame.map(|frame| frame.map_err(|error| Broken::from_hyper(&error))))
            }
            Self::Tee(tee) => tee.poll_frame(cx),
            Self::Http1(source) => source.poll_frame(cx),
            Self::Simulated(body) => {
                let frame = ready!(Pin::new(body.as_mut()).poll_frame(cx));
                Poll::Ready(frame.map(|frame| frame.map_err(|never| match never {})))
            }
            Self::Held(held) => held.poll_frame(cx),
        }
    }

    /// Whether nothing more comes, as far as is known without waiting.
    pub(crate) fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Self::Incoming(incoming) => incoming.is_end_stream(),
            Self::Tee(tee) => tee.is_end_stream(),
            Self::Http1(source) => source.is_end_stream(),
            Self::Simulated(body) => body.is_end_stream(),
            Self::Held(held) => held.is_end_stream(),
        }
    }

    /// Whether it ended although its sender had not said so. To be asked at its end, and of HTTP/2 alone.
    pub(crate) fn stopped_early(&self) -> bool {
        match self {
            Self::Incoming(incoming) => !incoming.is_end_stream(),
            Self::Tee(tee) => !tee.lock().incoming.is_end_stream(),
            Self::Held(held) => held.stopped_early(),
            Self::Full(_) | Self::Http1(_) | Self::Simulated(_) => false,
        }
    }

    /// Ends the body after so many bytes, though its connection stays open.
    pub(crate) fn end_after(&mut self, length: u64) {
        if let Self::Http1(source) = self
            && !source.incoming.is_end_stream()
        {
            source.left = Some(length);
        }
    }

    /// How long it is in all, if that is known.
    pub(crate) fn exact_size(&self) -> Option<u64> {
        match self {
            Self::Full(bytes) => Some(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Incoming(incoming) => incoming.size_hint().exact(),
            Self::Tee(tee) => tee.exact_size(),
            Self::Http1(source) => source.left.or_else(|| source.incoming.size_hint().exact()),
            Self::Simulated(body) => body.size_hint().exact(),
            Self::Held(held) => held.length(),
        }
    }

    /// How much of it is still to come, if that is known.
    pub(crate) fn missing(&self) -> Option<u64> {
        match self {
            Self::Held(held) => held.missing(),
            _ => self.exact_size(),
        }
    }
}

impl Http1Source {
    fn is_end_stream(&self) -> bool {
        self.left == Some(0) || self.incoming.is_end_stream()
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if self.left == Some(0) {
            return Poll::Ready(None);
        }
        match ready!(self.poll_driven(cx)) {
            Some(Ok(frame)) => {
                let frame = self.cut(frame);
                if self.incoming.is_end_stream() {
                    self.give_back();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => {
                self.kept = None;
                Poll::Ready(Some(Err(Broken::from_hyper(&error))))
            }
            None if self.left.is_some() => Poll::Ready(Some(Err(Broken::ended(How::Fin, None)))),
            None => {
                self.give_back();
                Poll::Ready(None)
            }
        }
    }

    /// What of a frame belongs to a body that ends before its connection does.
    fn cut(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        let Some(left) = &mut self.left else { return frame };
        match frame.into_data() {
            Ok(mut data) => {
                data.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= data.len() as u64;
                if *left == 0 {
                    // Where its next response would begin is not known to hyper.
                    self.kept = None;
                }
                Frame::data(data)
            }
            Err(frame) => frame,
        }
    }

    /// Asks for a frame, and has the connection read for it.
    fn poll_driven(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self { incoming, kept, .. } = self;
        let Some((connection, ..)) = kept else { return Pin::new(incoming).poll_frame(cx) };
        let Http1 { driver, steady, .. } = &mut **connection;
        let mut over = false;
        let polled = steady.poll(cx, |cx| {
            let frame = Pin::new(&mut *incoming).poll_frame(cx);
            if frame.is_ready() || over {
                return frame;
            }
            // Asking made the connection willing to read; now it may.
            over = driver.as_mut().poll(cx).is_ready();
            Pin::new(&mut *incoming).poll_frame(cx)
        });
        if over {
            *kept = None;
        }
        polled
    }

    fn give_back(&mut self) {
        if let Some((connection, pool)) = self.kept.take() {
            pool.give_back(connection);
        }
    }
}

/// A request's body that remembers what it has given, up to a limit.
#[derive(Clone)]
pub(crate) struct Tee {
    shared: Arc<Mutex<Remembered>>,
    next: usize,
}

struct Remembered {
    incoming: Incoming,
    frames: Vec<Bytes>,
    /// What the frames take, in bytes.
    size: usize,
    limit: usize,
    /// Everything so far is in `frames`.
    whole: bool,
    ended: bool,
    length: Option<u64>,
}

impl Tee {
    /// The most that is remembered of a body that nobody has to read, in bytes.
    pub(crate) const LIMIT: u64 = 1024 * 1024;

    /// What a frame takes besides its bytes.
    const FRAME: usize = 64;

    /// Remembers at most `limit` bytes.
    pub(crate) fn new(incoming: Incoming, limit: usize) -> Self {
        let length = incoming.size_hint().exact();
        let remembered =
            Remembered { incoming, frames: Vec::new(), size: 0, limit, whole: true, ended: false, length };
        Self { shared: Arc::new(Mutex::new(remembered)), next: 0 }
    }

    /// The same body from its beginning.
    pub(crate) fn rewound(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), next: 0 }
    }

    /// Whether it can still be given from its beginning.
    pub(crate) fn is_whole(&self) -> bool {
        self.lock().whole
    }

    /// Remembers no more than a body that nobody has to read.
    pub(crate) fn relax(&self) {
        self.lock().limit = Self::LIMIT as usize;
    }

    /// All of it, if all of it has come and is remembered.
    pub(crate) fn complete(&self) -> Option<Bytes> {
        let remembered = self.lock();
        if !remembered.whole || !(remembered.ended || remembered.incoming.is_end_stream()) {
            return None;
        }
        match remembered.frames.as_slice() {
            [only] => Some(only.clone()),
            frames => Some(frames.concat().into()),
        }
    }

    /// Lets go of what is remembered, as soon as it has been read: nobody will ask for its beginning again.
    pub(crate) fn forget(&self) {
        self.lock().whole = false;
    }

    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_end_stream(&self) -> bool {
        let remembered = self.lock();
        self.next >= remembered.frames.len() && (remembered.ended || remembered.incoming.is_end_stream())
    }

    fn exact_size(&self) -> Option<u64> {
        self.lock().length
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let mut remembered = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = remembered.frames.get(self.next) {
            self.next += 1;
            return Poll::Ready(Some(Ok(Frame::data(bytes.clone()))));
        }
        if remembered.ended {
            return Poll::Ready(None);
        }
        if !remembered.whole {
            remembered.frames.clear();
            self.next = 0;
        }
        let frame = ready!(Pin::new(&mut remembered.incoming).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => match frame.data_ref() {
                Some(bytes) if remembered.whole && remembered.size + bytes.len() <= remembered.limit => {
                    remembered.size += bytes.len() + Self::FRAME;
                    remembered.frames.push(bytes.clone());
                    self.next += 1;
                }
                // Trailers or too much: it cannot be given again.
                _ => {
                    remembered.whole = false;
                    remembered.frames.clear();
                    self.next = 0;
                }
            },
            Some(Err(_)) => remembered.whole = false,
            None => remembered.ended = true,
        }
        Poll::Ready(frame.map(|frame| frame.map_err(|error| Broken::from_hyper(&error))))
    }
}
