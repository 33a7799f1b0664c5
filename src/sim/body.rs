//! The body of an answer, paced in time.
use std::{
    convert::Infallible,
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

/// The body of a simulated answer: whole, or one server-sent event per frame.
///
/// Of a stream, the first frame comes after the time to first token, each further token at its own moment on a fixed
/// schedule (a slow reader finds several frames ready, and does not slow the later ones down), and frames without a
/// token come together with the token before them. Nothing runs when nobody polls.
pub struct SimBody(Content);

enum Content {
    Whole(Bytes),
    Events(Paced),
}

impl SimBody {
    pub(super) fn whole(body: Bytes) -> Self {
        Self(Content::Whole(body))
    }

    pub(super) fn events(events: Events, schedule: Schedule) -> Self {
        let clock = Box::pin(sleep_until(schedule.first));
        Self(Content::Events(Paced { events, next: None, schedule, tokens: 0, clock }))
    }
}

/// When tokens come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    /// The first one's moment.
    pub(super) first: Instant,
    /// From each to the next.
    pub(super) gap: Duration,
}

/// One event on the wire.
pub(super) struct Event {
    pub(super) bytes: Bytes,
    /// Whether it brings a token, which takes its time.
    pub(super) token: bool,
}

/// Events, rendered when they are due.
pub(super) type Events = Box<dyn Iterator<Item = Event> + Send + Sync>;

struct Paced {
    events: Events,
    next: Option<Event>,
    schedule: Schedule,
    /// How many tokens have been taken from `events`.
    tokens: u32,
    clock: Pin<Box<Sleep>>,
}

impl Paced {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.next.is_none() {
            self.next = self.events.next();
            self.set_clock();
        }
        if self.next.is_none() {
            return Poll::Ready(None);
        }
        ready!(self.clock.as_mut().poll(cx));
        Poll::Ready(self.next.take().map(|event| event.bytes))
    }

    fn set_clock(&mut self) {
        if self.next.as_ref().is_some_and(|event| event.token) {
            let due = self.schedule.first + self.schedule.gap.saturating_mul(self.tokens);
            self.tokens = self.tokens.saturating_add(1);
            self.clock.as_mut().reset(due);
        }
    }
}

impl Body for SimBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = match &mut self.0 {
            Content::Whole(body) if body.is_empty() => None,
            Content::Whole(body) => Some(std::mem::take(body)),
            Content::Events(paced) => ready!(paced.poll_event(cx)),
        };
        Poll::Ready(data.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Content::Whole(body) if body.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Whole(body) => SizeHint::with_exact(body.len() as u64),
            Content::Events(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for SimBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Content::Whole(body) => f.debug_tuple("Whole").field(&body.len()).finish(),
            Content::Events(paced) => f.debug_tuple("Events").field(&paced.schedule).finish(),
        }
    }
}
