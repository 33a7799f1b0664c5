//! Bodies on their way: untouched ones are moved, others go through a lane of toxics.
pub(crate) mod buffered;
pub(crate) mod gate;
pub(crate) mod governor;
pub(crate) mod replay;
pub(crate) mod source;
mod toxic_body;

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use aconite_dialects::Meter;
use aconite_toxics::How;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::message::broken::Broken;
pub(crate) use toxic_body::ToxicBody;
pub(crate) use {
    gate::Gate,
    replay::Replay,
    source::{BodySource, Tee},
};

/// A body that leaves the proxy, in either direction.
#[derive(Default)]
pub(crate) enum Body {
    #[default]
    Empty,
    Full(Bytes),
    /// None, though its length is told: that of the body which was not modified (RFC 9110, section 15.4.5).
    NotModified(u64),
    Toxic(Box<ToxicBody>),
}

impl Body {
    /// What the same body can be had from once more.
    pub(crate) fn again(&self) -> Option<Replay> {
        match self {
            Self::Empty | Self::NotModified(_) => Some(Replay::Full(Bytes::new())),
            Self::Full(bytes) => Some(Replay::Full(bytes.clone())),
            Self::Toxic(flow) => flow.again(),
        }
    }
}

/// Why a body ends before its time.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// hyper resets the HTTP/2 stream with this code.
    #[error("the stream is reset")]
    Reset(#[source] h2::Error),
    #[error("the body was cut off")]
    CutOff,
}

impl From<BodyError> for Broken {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Reset(error) => Self::ended(How::Rst, error.reason()),
            BodyError::CutOff => Self::ended(How::Fin, None),
        }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut *self {
            Self::Empty | Self::NotModified(_) => Poll::Ready(None),
            Self::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Self::Toxic(flow) => flow.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Full(bytes) => bytes.is_empty(),
            // Else hyper would not tell the length.
            Self::NotModified(_) => false,
            Self::Toxic(flow) => flow.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::NotModified(length) => SizeHint::with_exact(*length),
            Self::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Toxic(flow) => flow.length().map_or_else(SizeHint::new, SizeHint::with_exact),
        }
    }
}

/// The code of the reset with which a toxic, or the upstream's end, ends one stream of HTTP/2.
pub(crate) fn reset_for(how: How) -> h2::Reason {
    if how == How::Fin { h2::Reason::CANCEL } else { h2::Reason::INTERNAL_ERROR }
}

/// Follows a streamed body's framing.
pub(crate) fn meter_for(form: aconite_toxics::BodyForm) -> Option<Meter> {
    match form {
        aconite_toxics::BodyForm::Events(framing) => Some(Meter::new(framing)),
        _ => None,
    }
}
