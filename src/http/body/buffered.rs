//! Bodies that are held back until it is decided what becomes of them.
use std::{
    future::poll_fn,
    task::{Context, Poll, ready},
};

use aconite_toxics::How;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::Frame;

use super::source::BodySource;
use crate::http::message::{
    broken::Broken,
    coding::{Coding, Decoding},
};

/// The beginning of a body, or all of it, and where the rest comes from. As a source it gives all of that in order.
pub(crate) struct BufferedBody {
    bytes: Bytes,
    /// What came behind `bytes`.
    filling: BytesMut,
    then: Then,
    source: BodySource,
    /// The length of the whole body, if it is known.
    length: Option<u64>,
    /// Whether an end before END_STREAM is a reset, as it is for a request in HTTP/2.
    strict: bool,
}

/// What follows the bytes that are held.
enum Then {
    More,
    End(Option<HeaderMap>),
    Broken(Option<Broken>),
}

/// How much of a body came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fill {
    All,
    /// Enough, or more than the limit.
    Part,
    /// It broke off.
    Broken,
}

impl BufferedBody {
    /// The most that is given at once, in bytes.
    const PIECE: usize = 64 * 1024;

    /// Holds nothing yet. `strict` is for requests in HTTP/2.
    pub(crate) fn new(source: BodySource, strict: bool) -> Self {
        let length = source.exact_size();
        Self { bytes: Bytes::new(), filling: BytesMut::new(), then: Then::More, source, length, strict }
    }

    /// Takes frames from the source until it ends, more than `limit` bytes are held, or these are `enough`. It can be
    /// given up at any time.
    pub(crate) async fn fill(&mut self, limit: usize, mut enough: impl FnMut(&[u8]) -> bool) -> Fill {
        poll_fn(|cx| {
            while matches!(self.then, Then::More) {
                let seen = self.filling.len();
                match ready!(self.source.poll_frame(cx)) {
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(data) => self.filling.extend_from_slice(&data),
                        Err(frame) => self.then = Then::End(frame.into_trailers().ok()),
                    },
                    Some(Err(broken)) => self.then = Then::Broken(Some(broken)),
                    None => self.then = self.end(),
                }
                let new = self.filling.get(seen..).unwrap_or_default();
                if matches!(self.then, Then::More) && (self.filling.len() > limit || enough(new)) {
                    break;
                }
            }
            Poll::Ready(self.came())
        })
        .await
    }

    fn end(&self) -> Then {
        let missing = || self.source.missing().is_some_and(|missing| missing > 0);
        if self.source.stopped_early() && (self.strict || missing()) {
            Then::Broken(Some(Broken { how: How::Rst, reason: Some(h2::Reason::NO_ERROR), malformed: None }))
        } else {
            Then::End(None)
        }
    }

    fn came(&self) -> Fill {
        match self.then {
            Then::More => Fill::Part,
            Then::End(_) => Fill::All,
            Then::Broken(_) => Fill::Broken,
        }
    }

    /// The bytes that are held.
    pub(crate) fn bytes(&mut self) -> Bytes {
        if self.bytes.is_empty() {
            self.bytes = self.filling.split().freeze();
        }
        self.bytes.clone()
    }

    /// The same body with other bytes. To be called once all of it came.
    pub(crate) fn replaced(mut self, bytes: Bytes) -> BodySource {
        match self.then {
            Then::End(None) => BodySource::Full(Some(bytes)),
            _ => {
                self.bytes = bytes;
                self.length = None;
                BodySource::Buffered(Box::new(self))
            }
        }
    }

    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let held = self.bytes().len();
        if held > 0 {
            let piece = self.bytes.split_to(held.min(Self::PIECE));
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        match &mut self.then {
            Then::More => self.source.poll_frame(cx),
            Then::End(trailers) => Poll::Ready(trailers.take().map(|trailers| Ok(Frame::trailers(trailers)))),
            Then::Broken(broken) => Poll::Ready(broken.take().map(Err)),
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
            && self.filling.is_empty()
            && match &self.then {
                Then::More => self.source.is_end_stream(),
                Then::End(trailers) => trailers.is_none(),
                Then::Broken(broken) => broken.is_none(),
            }
    }

    pub(crate) fn stopped_early(&self) -> bool {
        matches!(self.then, Then::More) && self.source.stopped_early()
    }

    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }

    /// How much is still to come, if that is known.
    pub(crate) fn missing(&self) -> Option<u64> {
        self.source.missing()
    }
}

/// Why a coded body was not decoded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DecodeError {
    /// It expands to more than the limit.
    TooLarge,
    /// It is not coded as its head says, or not complete.
    Invalid,
}

/// Decodes a whole body of at most `limit` plain bytes, and lets other tasks run between steps.
///
/// # Errors
/// If it is larger, or cannot be decoded.
pub(crate) async fn decoded(coding: Coding, coded: Bytes, limit: usize) -> Result<Bytes, DecodeError> {
    let mut decoding = Decoding::new(coding);
    let mut plain = BytesMut::new();
    decoding.push(coded);
    while let Some(step) = decoding.step().map_err(|_| DecodeError::Invalid)? {
        if plain.len() + step.len() > limit {
            return Err(DecodeError::TooLarge);
        }
        plain.extend_from_slice(&step);
        tokio::task::consume_budget().await;
    }
    if decoding.is_complete() { Ok(plain.freeze()) } else { Err(DecodeError::Invalid) }
}
