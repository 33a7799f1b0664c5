//! What a simulated provider answers, before it is put on the clock.
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE},
};
use serde::Serialize;

use super::body::{Event, Events, Schedule, SimBody};

pub(super) struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    content: Content,
}

enum Content {
    /// Known at once.
    Ready(Bytes),
    /// What a model took its time for.
    Generated(Bytes),
    Events(Events),
}

impl Reply {
    pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Self {
        Self::of(status, "application/json", Content::Ready(to_json(body)))
    }

    /// JSON over several lines, as Google prints errors.
    pub(super) fn pretty(status: StatusCode, body: &serde_json::Value) -> Self {
        let body = format!("{body:#}\n");
        Self::of(status, "application/json; charset=UTF-8", Content::Ready(body.into()))
    }

    /// A model's whole answer: its head comes after the time to first token.
    pub(super) fn generated(body: &impl Serialize) -> Self {
        Self::of(StatusCode::OK, "application/json", Content::Generated(to_json(body)))
    }

    pub(super) fn stream(
        content_type: &'static str,
        events: impl Iterator<Item = Event> + Send + Sync + 'static,
    ) -> Self {
        Self::of(StatusCode::OK, content_type, Content::Events(Box::new(events)))
            .with(CACHE_CONTROL, "no-cache")
    }

    /// The stream, with one more event at its end. A whole answer stays as it is.
    pub(super) fn ended_by(mut self, bytes: Bytes) -> Self {
        self.content = match self.content {
            Content::Events(events) => {
                Content::Events(Box::new(events.chain([Event { bytes, token: false }])))
            }
            whole => whole,
        };
        self
    }

    pub(super) fn text(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self::of(status, "text/plain; charset=utf-8", Content::Ready(body.into()))
    }

    pub(super) fn empty(status: StatusCode) -> Self {
        Self { status, headers: HeaderMap::new(), content: Content::Ready(Bytes::new()) }
    }

    fn of(status: StatusCode, content_type: &'static str, content: Content) -> Self {
        Self { status, headers: HeaderMap::new(), content }.with(CONTENT_TYPE, content_type)
    }

    /// With one more header. A value that no header can hold is left out.
    pub(super) fn with(mut self, name: HeaderName, value: impl AsRef<str>) -> Self {
        if let Ok(value) = HeaderValue::from_str(value.as_ref()) {
            self.headers.insert(name, value);
        }
        self
    }

    pub(super) fn waits_before_head(&self) -> bool {
        matches!(self.content, Content::Generated(_))
    }

    pub(super) fn into_response(self, schedule: Schedule) -> Response<SimBody> {
        let length = match &self.content {
            Content::Ready(body) | Content::Generated(body) => Some(body.len()),
            Content::Events(_) => None,
        };
        let mut response = Response::new(match self.content {
            Content::Ready(body) | Content::Generated(body) => SimBody::whole(body),
            Content::Events(events) => SimBody::events(events, schedule),
        });
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        if let Some(length) = length {
            response.headers_mut().insert(CONTENT_LENGTH, length.into());
        }
        response
    }
}

fn to_json(body: &impl Serialize) -> Bytes {
    serde_json::to_vec(body)
        .expect("answers have string keys only and their serialisation cannot fail")
        .into()
}
