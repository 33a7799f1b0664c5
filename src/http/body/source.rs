//! Where a body comes from.
use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body as _, Frame};
use hyper::body::Incoming;

use super::buffered::BufferedBody;
use crate::{http::message::broken::Broken, sim::SimBody};

/// Where a body comes from.
pub(crate) enum BodySource {
    /// Bytes that are all here.
    Full(Option<Bytes>),
    /// A client, or an HTTP/2 upstream.
    Incoming(Incoming),
    /// A body that is remembered, so that it can be read once more.
    Tee(Tee),
    /// Any of these, of which a part was held back.
    Buffered(Box<BufferedBody>),
    /// Anything else, or something around any of these.
    Layer(Box<dyn BodyLayer>),
}

/// A body, or something around one that holds it back, changes it, watches it, or goes on with another one.
pub(crate) trait BodyLayer: Send {
    /// The next frame; `None` at the end.
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>>;

    /// Whether nothing more comes, as far as is known without waiting.
    fn is_end_stream(&self) -> bool;

    /// How long it is in all, if that is known.
    fn exact_size(&self) -> Option<u64>;

    /// Ends the body after so many bytes, though its connection stays open. Default: only a connection of HTTP/1 can
    /// leave that open.
    fn end_after(&mut self, _length: u64) {}
}

impl BodyLayer for SimBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let frame = ready!(http_body::Body::poll_frame(Pin::new(self), cx));
        Poll::Ready(frame.map(|frame| frame.map_err(|never| match never {})))
    }

    fn is_end_stream(&self) -> bool {
        http_body::Body::is_end_stream(self)
    }

    fn exact_size(&self) -> Option<u64> {
        self.size_hint().exact()
    }
}

impl BodySource {
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
            Self::Buffered(held) => held.poll_frame(cx),
            Self::Layer(piece) => piece.poll_frame(cx),
        }
    }

    /// Whether nothing more comes, as far as is known without waiting.
    pub(crate) fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Self::Incoming(incoming) => incoming.is_end_stream(),
            Self::Tee(tee) => tee.is_end_stream(),
            Self::Buffered(held) => held.is_end_stream(),
            Self::Layer(piece) => piece.is_end_stream(),
        }
    }

    /// Whether it ended although its sender had not said so. To be asked at its end, and of HTTP/2 alone.
    pub(crate) fn stopped_early(&self) -> bool {
        match self {
            Self::Incoming(incoming) => !incoming.is_end_stream(),
            Self::Tee(tee) => tee.lock().source.stopped_early(),
            Self::Buffered(held) => held.stopped_early(),
            Self::Full(_) | Self::Layer(_) => false,
        }
    }

    /// Whether it is a client's as it comes. A request that was read whole is in the journal already.
    pub(crate) fn is_of_client(&self) -> bool {
        matches!(self, Self::Incoming(_) | Self::Tee(_) | Self::Buffered(_))
    }

    /// Ends the body after so many bytes, though its connection stays open.
    pub(crate) fn end_after(&mut self, length: u64) {
        if let Self::Layer(piece) = self {
            piece.end_after(length);
        }
    }

    /// How long it is in all, if that is known.
    pub(crate) fn exact_size(&self) -> Option<u64> {
        match self {
            Self::Full(bytes) => Some(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Incoming(incoming) => incoming.size_hint().exact(),
            Self::Tee(tee) => tee.exact_size(),
            Self::Buffered(held) => held.length(),
            Self::Layer(piece) => piece.exact_size(),
        }
    }

    /// How much of it is still to come, if that is known.
    pub(crate) fn missing(&self) -> Option<u64> {
        match self {
            Self::Buffered(held) => held.missing(),
            _ => self.exact_size(),
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
    source: BodySource,
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
    pub(crate) fn new(source: BodySource, limit: usize) -> Self {
        let length = source.exact_size();
        let remembered =
            Remembered { source, frames: Vec::new(), size: 0, limit, whole: true, ended: false, length };
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
        if !remembered.whole || !(remembered.ended || remembered.source.is_end_stream()) {
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
        self.next >= remembered.frames.len() && (remembered.ended || remembered.source.is_end_stream())
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
        let frame = ready!(remembered.source.poll_frame(cx));
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
        Poll::Ready(frame)
    }
}
