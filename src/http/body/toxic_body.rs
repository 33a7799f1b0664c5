//! A body in motion: from its source, through a lane of toxics, to whoever asks for it.
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use aconite_dialects::Event;
use aconite_toxics::{End, How, Side, Step};
use bytes::Bytes;
use http::HeaderMap;
use http_body::Frame;
use tokio::time::Sleep;

use super::{BodyError, BodySource, Gate, Replay, governor::BodyGovernor, reset_for, source::BodyLayer};
use crate::{
    http::{
        message::{broken::Broken, coding::Decoding},
        ongoing::{ExchangeState, Owner},
    },
    link::Lane,
};

/// A body in motion.
pub(crate) struct ToxicBody {
    source: Option<BodySource>,
    lane: Lane<BodyGovernor, Event>,
    decoding: Option<Decoding>,
    trailers: Option<HeaderMap>,
    role: BodyRole,
    state: State,
    bytes: u64,
    /// How much was decoded since this was last polled, in bytes.
    decoded: usize,
    /// The length that the head announces, while nothing changes it.
    length: Option<u64>,
    /// How the source broke off, if whoever asks for this body is to be told.
    broken: Option<Broken>,
}

enum BodyRole {
    /// To the upstream.
    Request { gate: Option<Gate> },
    /// To the client. An ending is one of the client's connection, or over HTTP/2 of its stream.
    Response,
    /// To the exchange that an attempt belongs to. An ending is one of the attempt alone.
    Attempt,
}

enum State {
    Moving,
    /// Everything was sent but the trailers.
    Trailers,
    /// Over.
    Done,
    /// The connection breaks in a moment.
    Breaking(How, Pin<Box<Sleep>>),
    /// The connection is being closed or broken; nothing more is said here.
    Silent,
}

/// How much is decoded before other tasks have their turn, in bytes.
const MOST_DECODED: usize = 256 * 1024;

/// Between the last byte and a reset: an RST, or RST_STREAM, that comes together with data makes clients throw
/// away what they had not read yet, and then how much they saw is a matter of luck.
const BEFORE_RESET: Duration = Duration::from_millis(40);

impl ToxicBody {
    /// A request's body on its way to the upstream.
    pub(crate) fn request(source: BodySource, governor: BodyGovernor, gate: Option<Gate>) -> Self {
        Self::new(source, governor, None, BodyRole::Request { gate }, None)
    }

    /// An answer's body on its way to the client.
    pub(crate) fn response(
        source: BodySource,
        governor: BodyGovernor,
        decoding: Option<Decoding>,
        length: Option<u64>,
    ) -> Self {
        let mut flow = Self::new(source, governor, decoding, BodyRole::Response, length);
        if flow.is_over() {
            flow.finish(End { side: Side::Upstream, how: How::Clean });
        }
        flow
    }

    /// The body of an attempt's response on its way to the exchange.
    pub(crate) fn attempt(
        source: BodySource,
        governor: BodyGovernor,
        decoding: Option<Decoding>,
        length: Option<u64>,
    ) -> Self {
        Self::new(source, governor, decoding, BodyRole::Attempt, length)
    }

    /// What the same body can be had from once more.
    pub(super) fn again(&self) -> Option<Replay> {
        match &self.source {
            Some(BodySource::Tee(tee)) if self.lane.is_transparent() => {
                let governor = self.lane.governor();
                Some(Replay::Tee(tee.rewound(), governor.party().clone(), governor.scope().clone()))
            }
            _ => None,
        }
    }

    /// Whether nothing more is to come, as far as can be told without asking for it.
    pub(super) fn is_end_stream(&self) -> bool {
        match self.state {
            State::Moving => self.is_over(),
            State::Done => true,
            State::Trailers | State::Breaking(..) | State::Silent => false,
        }
    }

    /// The length that the head announces, while nothing changes it.
    pub(super) fn length(&self) -> Option<u64> {
        self.length
    }

    fn new(
        source: BodySource,
        governor: BodyGovernor,
        decoding: Option<Decoding>,
        role: BodyRole,
        length: Option<u64>,
    ) -> Self {
        let started = governor.party().ongoing().started;
        let lane = Lane::new(started, governor);
        Self {
            source: Some(source),
            lane,
            decoding,
            trailers: None,
            role,
            state: State::Moving,
            bytes: 0,
            decoded: 0,
            length,
            broken: None,
        }
    }

    fn party(&self) -> &Owner {
        self.lane.governor().party()
    }

    fn ongoing(&self) -> &Arc<ExchangeState> {
        self.party().ongoing()
    }

    /// Whether nothing is left to come or to send.
    fn is_over(&self) -> bool {
        self.source.as_ref().is_none_or(BodySource::is_end_stream)
            && self.lane.is_transparent()
            && self.trailers.is_none()
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.decoded = 0;
        loop {
            let polled = self.poll_now(cx);
            // Most bodies are over before anybody has to be told of changes.
            if polled.is_ready() || !self.lane.poll_changes(cx) {
                return polled;
            }
        }
    }

    /// Gives what is there, under the toxics of now.
    fn poll_now(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            match &mut self.state {
                State::Moving => {}
                State::Breaking(how, moment) => {
                    let how = *how;
                    ready!(moment.as_mut().poll(cx));
                    return self.break_now(how);
                }
                State::Trailers => {
                    self.state = State::Done;
                    return Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))));
                }
                State::Done => return Poll::Ready(None),
                State::Silent => return Poll::Pending,
            }
            self.lane.follow_changes();
            if self.lane.is_transparent() {
                match ready!(self.poll_source(cx)) {
                    Step::Item(bytes) => return Poll::Ready(Some(Ok(self.passed(bytes)))),
                    step => {
                        if let Some(result) = self.end(&step, Side::Upstream) {
                            return Poll::Ready(result);
                        }
                    }
                }
                continue;
            }
            match self.lane.poll_next(cx) {
                Poll::Ready(Step::Item(piece)) => {
                    let bytes = self.lane.governor().raw(piece);
                    if bytes.is_empty() {
                        continue;
                    }
                    let frame = self.passed(bytes);
                    self.wind_up(cx);
                    return Poll::Ready(Some(Ok(frame)));
                }
                Poll::Ready(step) => {
                    let side = if self.source.is_some() { Side::Toxic } else { Side::Upstream };
                    if let Some(result) = self.end(&step, side) {
                        return Poll::Ready(result);
                    }
                }
                Poll::Pending if self.source.is_some() && self.lane.has_room() => {
                    let step = ready!(self.poll_source(cx));
                    self.lane.push(step.map(Event::undecoded));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// The next step from the source, decoded. The source is let go of with its last step.
    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Step<Bytes>> {
        if let BodyRole::Request { gate } = &mut self.role
            && let Some(waiting) = gate
        {
            ready!(waiting.poll(cx));
            *gate = None;
        }
        loop {
            if self.decoding.is_some() {
                match ready!(self.poll_decoded(cx)) {
                    Ok(Some(plain)) => return Poll::Ready(Step::Item(plain)),
                    Ok(None) => {}
                    Err(error) => {
                        tracing::warn!(%error, "a response is not coded as its head says");
                        self.source = None;
                        self.decoding = None;
                        return Poll::Ready(Step::Reset);
                    }
                }
            }
            let Some(source) = &mut self.source else { return Poll::Ready(Step::End) };
            let step = match ready!(source.poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => match &mut self.decoding {
                        None => {
                            if matches!(self.role, BodyRole::Request { .. })
                                && source.is_of_client()
                                && let Some(exchange) = self.lane.governor().party().exchange()
                            {
                                exchange.capture_request(&bytes);
                            }
                            Step::Item(bytes)
                        }
                        Some(decoding) => {
                            decoding.push(bytes);
                            continue;
                        }
                    },
                    Err(frame) => {
                        self.trailers = frame.into_trailers().ok();
                        continue;
                    }
                },
                Some(Err(broken)) => {
                    let step = if broken.how == How::Fin { Step::Close } else { Step::Reset };
                    self.broke(broken);
                    step
                }
                None if self.gave_up() => {
                    self.broke(Broken::ended(How::Rst, Some(h2::Reason::NO_ERROR)));
                    Step::Reset
                }
                // The client must not take a part for the whole because it comes decoded.
                None if self.decoding.as_ref().is_some_and(|decoding| !decoding.is_complete()) => Step::Close,
                None => {
                    if matches!(self.role, BodyRole::Request { .. })
                        && let Some(exchange) = self.party().exchange()
                    {
                        exchange.control.chunks_end();
                    }
                    Step::End
                }
            };
            if !matches!(step, Step::Item(_)) {
                self.source = None;
            }
            return Poll::Ready(step);
        }
    }

    /// The source broke off.
    fn broke(&mut self, broken: Broken) {
        let origin =
            if matches!(self.role, BodyRole::Request { .. }) { Side::Client } else { Side::Upstream };
        match self.party().exchange() {
            Some(exchange) => exchange.broke(origin, broken),
            None => self.broken = Some(broken),
        }
    }

    /// What is left to be decoded of what came, a step at a time.
    fn poll_decoded(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<Option<Bytes>>> {
        let Some(decoding) = &mut self.decoding else { return Poll::Ready(Ok(None)) };
        if self.decoded >= MOST_DECODED {
            // A task that wakes itself would be polled some hundred times before the runtime looks at its sockets.
            return std::pin::pin!(tokio::task::yield_now()).poll(cx).map(|()| Ok(None));
        }
        let plain = decoding.step();
        if let Ok(Some(plain)) = &plain {
            self.decoded += plain.len();
        }
        Poll::Ready(plain)
    }

    /// Whether the source ended by a reset with `NO_ERROR`, which hyper gives as its end.
    ///
    /// From a client that is an end before the time, for only servers may answer early (RFC 9113, section 8.1). From
    /// an upstream it says that the answer was complete, unless its length says otherwise.
    fn gave_up(&self) -> bool {
        let Some(source) = &self.source else { return false };
        match self.role {
            BodyRole::Request { .. } => self.ongoing().http2 && source.stopped_early(),
            BodyRole::Response | BodyRole::Attempt => {
                source.stopped_early() && source.missing().is_some_and(|missing| missing > 0)
            }
        }
    }

    /// Data is about to leave.
    fn passed(&mut self, bytes: Bytes) -> Frame<Bytes> {
        self.bytes += bytes.len() as u64;
        self.lane.governor_mut().moved(&bytes);
        match self.role {
            BodyRole::Response => {
                self.ongoing().capture_response(&bytes);
                self.ongoing().first_byte();
                if self.is_over() {
                    self.finish(End { side: Side::Upstream, how: How::Clean });
                }
            }
            // Nobody asks for an end that is known.
            BodyRole::Request { .. } if self.is_over() => self.request_passed(),
            BodyRole::Request { .. } | BodyRole::Attempt => {}
        }
        Frame::data(bytes)
    }

    fn request_passed(&self) {
        if let Some(exchange) = self.party().exchange() {
            exchange.request_passed(self.bytes);
        }
    }

    /// Whether the client has all that the head announced, after which HTTP/1.1 asks for nothing more.
    fn is_whole(&self) -> bool {
        self.length.is_some_and(|length| self.bytes >= length)
    }

    /// Hears what toxics say of the end of a body that is whole: nobody would ask for it later.
    fn wind_up(&mut self, cx: &mut Context<'_>) {
        // A stream has no length: for its events this is all.
        if !(matches!(self.role, BodyRole::Response) && self.is_whole()) {
            return;
        }
        if !(self.source.as_ref().is_none_or(BodySource::is_end_stream) && self.lane.is_empty()) {
            return;
        }
        if self.source.take().is_some() {
            self.lane.push(Step::End);
        }
        if matches!(self.lane.poll_next(cx), Poll::Ready(Step::End)) {
            self.end(&Step::<Event>::End, Side::Upstream);
        }
    }

    /// The body ends; `None` if there is more to do.
    fn end<T>(&mut self, step: &Step<T>, side: Side) -> Option<Option<Result<Frame<Bytes>, BodyError>>> {
        self.source = None;
        let how = match step {
            Step::Item(_) | Step::End => How::Clean,
            Step::Close => How::Fin,
            Step::Reset => How::Rst,
        };
        if how == How::Clean {
            self.state = if self.trailers.is_some() { State::Trailers } else { State::Done };
        }
        match self.role {
            BodyRole::Attempt => (how != How::Clean).then(|| {
                let cut_off = BodyError::CutOff;
                Some(Err(if how == How::Rst { BodyError::Reset(reset_for(how).into()) } else { cut_off }))
            }),
            BodyRole::Request { .. } => {
                self.request_passed();
                (how != How::Clean).then(|| {
                    // The upstream is told the code with which the client gave up.
                    let reason = self.ongoing().reset_reason();
                    Some(Err(reason.map_or(BodyError::CutOff, |reason| BodyError::Reset(reason.into()))))
                })
            }
            BodyRole::Response => {
                // An upstream that does not get the whole request may break off too.
                let left =
                    self.ongoing().client_broke().filter(|_| how != How::Clean && side == Side::Upstream);
                self.finish(
                    left.map_or(End { side, how }, |broken| End { side: Side::Client, how: broken.how }),
                );
                if how != How::Clean {
                    self.break_off(how);
                }
                None
            }
        }
    }

    /// Ends the client's connection, or over HTTP/2 its stream alone.
    fn break_off(&mut self, how: How) {
        if how == How::Rst || self.ongoing().http2 {
            self.state = State::Breaking(how, Box::pin(tokio::time::sleep(BEFORE_RESET)));
        } else {
            self.ongoing().control.fin_after_flush();
            self.state = State::Silent;
        }
    }

    fn break_now(&mut self, how: How) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let ongoing = self.ongoing();
        if ongoing.http2 {
            let reason = ongoing.reset_reason().unwrap_or_else(|| reset_for(how));
            self.state = State::Done;
            return Poll::Ready(Some(Err(BodyError::Reset(reason.into()))));
        }
        ongoing.control.reset();
        self.state = State::Silent;
        Poll::Pending
    }

    fn finish(&mut self, end: End) {
        let meter = self.lane.governor().meter().cloned().unwrap_or_default();
        self.ongoing().finish(end, self.bytes, meter.events(), meter.unterminated_tail());
    }
}

/// A body that has been through toxics, as the source of another one.
impl BodyLayer for ToxicBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let frame = ready!(self.poll(cx));
        Poll::Ready(
            frame.map(|frame| frame.map_err(|error| self.broken.take().unwrap_or_else(|| error.into()))),
        )
    }

    fn is_end_stream(&self) -> bool {
        self.is_end_stream()
    }

    fn exact_size(&self) -> Option<u64> {
        self.length
    }
}

impl Drop for ToxicBody {
    fn drop(&mut self) {
        if matches!(self.role, BodyRole::Response) {
            let end = match self.state {
                _ if self.is_whole() => End { side: Side::Upstream, how: How::Clean },
                State::Silent => End { side: Side::Client, how: How::Hang },
                _ => self.ongoing().given_up(),
            };
            self.finish(end);
        }
    }
}
