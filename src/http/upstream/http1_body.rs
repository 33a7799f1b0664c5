//! The body of a response that comes over HTTP/1.
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use aconite_toxics::How;
use bytes::Bytes;
use http_body::{Body as _, Frame};
use hyper::body::Incoming;

use super::pool::{HostPool, Http1};
use crate::http::{body::source::BodyLayer, message::broken::Broken};

/// An answer's body together with the connection that it comes on, which goes back to the pool after.
pub(super) struct Http1Body {
    incoming: Incoming,
    kept: Option<(Box<Http1>, Arc<HostPool>)>,
    /// How much is left of a body that ends before its connection does.
    left: Option<u64>,
}

impl BodyLayer for Http1Body {
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

    fn is_end_stream(&self) -> bool {
        self.left == Some(0) || self.incoming.is_end_stream()
    }

    fn exact_size(&self) -> Option<u64> {
        self.left.or_else(|| self.incoming.size_hint().exact())
    }

    fn end_after(&mut self, length: u64) {
        if !self.incoming.is_end_stream() {
            self.left = Some(length);
        }
    }
}

impl Http1Body {
    /// `kept` drives the connection, and takes it back at the end of the body.
    pub(super) fn new(incoming: Incoming, kept: Option<(Box<Http1>, Arc<HostPool>)>) -> Self {
        let mut body = Self { incoming, kept, left: None };
        if body.incoming.is_end_stream() {
            body.give_back();
        }
        body
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
