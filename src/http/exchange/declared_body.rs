//! Bodies whose length is not the one that their head declares.
use std::task::{Context, Poll, ready};

use aconite_toxics::How;
use bytes::Bytes;
use http_body::Frame;

use crate::http::{
    body::source::{BodyLayer, BodySource},
    message::broken::Broken,
};

/// A body as whoever believes its head reads it: cut at the declared length, and broken off if it comes to less.
pub(super) struct DeclaredBody {
    source: BodySource,
    left: u64,
}

impl DeclaredBody {
    pub(super) fn new(source: BodySource, declared: u64) -> Self {
        Self { source, left: declared }
    }
}

impl BodyLayer for DeclaredBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let frame = match ready!(self.source.poll_frame(cx)) {
            Some(Ok(frame)) => frame.into_data(),
            Some(Err(broken)) => return Poll::Ready(Some(Err(broken))),
            None => return Poll::Ready(Some(Err(Broken::ended(How::Fin, None)))),
        };
        Poll::Ready(Some(Ok(match frame {
            Ok(mut data) => {
                data.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
                self.left -= data.len() as u64;
                Frame::data(data)
            }
            Err(trailers) => trailers,
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn exact_size(&self) -> Option<u64> {
        None
    }
}
