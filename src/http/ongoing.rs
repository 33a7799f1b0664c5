//! One exchange while it goes on: what was decided for it, and what is written down of it.
use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use aconite_toxics::{End, How, Side};
use tokio::time::Instant;

mod attempt;
mod toxics;
mod unstruck;

pub(crate) use attempt::{Attempt, Owner};
pub(crate) use toxics::{ToxicState, Toxics};

use super::message::{
    broken::Broken,
    capture::Capture,
    facts::{Facts, RequestParams},
};
use crate::{
    connection::ConnectionShared,
    journal::{self, Captured, Progress, Record, recorded},
    link::{OpenStream, SocketControl},
    plan::{Armed, Decisions, Plan},
    secrets,
    site::Site,
};

/// One exchange while it goes on. Shared by the bodies of its two messages.
pub(crate) struct ExchangeState {
    pub(crate) site: Arc<Site>,
    pub(crate) facts: Facts,
    /// The client's connection.
    pub(crate) connection: Arc<ConnectionShared>,
    pub(crate) control: SocketControl,
    /// Whether the client speaks HTTP/2.
    pub(crate) http2: bool,
    pub(crate) started: Instant,
    record: Arc<Record>,
    /// Seeds the dice.
    number: u64,
    toxics: ToxicState,
    finished: AtomicBool,
    answering: AtomicBool,
    /// The code of the reset that ended a stream; `NO_RESET` for none.
    reset: AtomicU64,
    /// How the client broke off its request, if it did.
    client_broke: OnceLock<Broken>,
    captures: Mutex<Captures>,
    /// Over HTTP/2.
    _stream: Option<OpenStream>,
}

/// What is beyond every code of HTTP/2, of which 0 is one.
const NO_RESET: u64 = u64::MAX;

/// What the journal keeps of the two bodies.
#[derive(Default)]
struct Captures {
    request: Capture,
    response: Capture,
}

impl ExchangeState {
    pub(crate) fn new(
        connection: Arc<ConnectionShared>,
        control: SocketControl,
        plan: &Arc<Plan>,
        facts: Facts,
        own: Option<Arc<Armed>>,
        record: Arc<Record>,
        stream: Option<OpenStream>,
    ) -> Self {
        let number = connection.site.number_of(facts.test_id.as_deref());
        let decisions = Decisions::new(number, connection.peer.ip());
        let toxics = ToxicState::new(Arc::clone(plan), own, None, facts.dialect, decisions);
        Self {
            site: Arc::clone(&connection.site),
            facts,
            connection,
            control,
            http2: stream.is_some(),
            started: Instant::now(),
            record,
            number,
            toxics,
            finished: AtomicBool::new(false),
            answering: AtomicBool::new(false),
            reset: AtomicU64::new(NO_RESET),
            client_broke: OnceLock::new(),
            captures: Mutex::default(),
            _stream: stream,
        }
    }

    /// The time since the exchange began.
    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// The toxics on the whole exchange.
    pub(crate) fn toxics(&self) -> Toxics<'_> {
        Toxics { ongoing: self, state: &self.toxics, plan: &self.site.plan }
    }

    /// The names of the toxics that have struck so far.
    pub(crate) fn struck_names(&self) -> Vec<String> {
        let mut names = Vec::new();
        self.record.note(|course| {
            let struck = course.toxics.iter().filter(|strike| strike.struck);
            names = struck.map(|strike| strike.name.clone()).collect();
        });
        names
    }

    /// What the request's body said came to light later.
    pub(crate) fn said(&self, said: &RequestParams) {
        self.record.note(|course| {
            if let Some(model) = said.model.as_deref() {
                course.model = Some(recorded(model));
            }
            course.streaming |= said.streaming.unwrap_or(false);
        });
    }

    /// An upstream was tried.
    pub(crate) fn attempt(&self, attempt: journal::AttemptRecord) {
        self.record.note(|course| {
            // One is the rule.
            course.attempts.reserve_exact(1);
            course.attempts.push(attempt);
        });
    }

    /// The answer's head is about to leave.
    pub(crate) fn answered(&self, status: u16, streaming: bool) {
        self.record.note(|course| {
            course.status = Some(status);
            course.streaming |= streaming;
        });
    }

    /// The first byte of the answer's body is about to leave.
    pub(crate) fn first_byte(&self) {
        if !self.answering.swap(true, Relaxed) {
            let after = self.now();
            self.site.series.first_byte(after);
            self.record.note(|course| course.first_byte_ms = Some(millis(after)));
        }
    }

    /// So much of the response's body has left so far.
    pub(crate) fn sent(&self, bytes: u64, events: u64) {
        self.record.sent(bytes, events);
    }

    /// So much of the request's body has left so far.
    pub(crate) fn forwarded(&self, bytes: u64) {
        self.record.forwarded(bytes);
    }

    /// So much of the request's body has passed.
    pub(crate) fn request_passed(&self, bytes: u64) {
        self.record.note(|course| course.bytes_in = course.bytes_in.max(bytes));
    }

    /// Whether bodies are kept in the journal.
    pub(crate) fn captures(&self) -> bool {
        self.site.spec.capture
    }

    /// A request's body, or a part of it, for the journal.
    pub(crate) fn capture_request(&self, bytes: &[u8]) {
        self.capture(|captures, bodies| captures.request.add(bytes, &mut bodies.request));
    }

    /// The request's body is sent once more, from its beginning.
    pub(crate) fn capture_request_anew(&self) {
        self.capture(|captures, bodies| {
            captures.request = Capture::default();
            bodies.request = None;
        });
    }

    /// A part of the answer's body, for the journal.
    pub(crate) fn capture_response(&self, bytes: &[u8]) {
        self.capture(|captures, bodies| captures.response.add(bytes, &mut bodies.response));
    }

    fn capture(&self, add: impl FnOnce(&mut Captures, &mut Captured)) {
        if self.captures() {
            self.record.note(|course| {
                let mut captures = self.captures.lock().unwrap_or_else(PoisonError::into_inner);
                let hidden = || secrets::of_request(&self.facts.headers, self.facts.path.query());
                let bodies = course.bodies.get_or_insert_with(|| Box::new(Captured::hiding(hidden())));
                add(&mut captures, bodies);
            });
        }
    }

    fn end_captures(&self, course: &mut Progress) {
        let Some(bodies) = &mut course.bodies else { return };
        let mut captures = self.captures.lock().unwrap_or_else(PoisonError::into_inner);
        captures.request.end(&mut bodies.request);
        captures.response.end(&mut bodies.response);
    }

    /// A body broke off: the client's or the upstream's.
    pub(crate) fn broke(&self, side: Side, broken: Broken) {
        if let Some(reason) = broken.reason {
            self.reset.store(u32::from(reason).into(), Relaxed);
        }
        if side == Side::Client {
            // The first is the cause.
            let _ = self.client_broke.set(broken);
        }
    }

    /// How the client broke off its request, if it did.
    pub(crate) fn client_broke(&self) -> Option<&Broken> {
        self.client_broke.get()
    }

    /// The code with which a stream was reset.
    pub(crate) fn reset_reason(&self) -> Option<h2::Reason> {
        u32::try_from(self.reset.load(Relaxed)).ok().map(h2::Reason::from)
    }

    /// The end of an exchange that was given up: by the proxy if it was deleted, disabled or stopped, or the connection
    /// reset through the API; by a toxic if one ended the connection; else by the client.
    pub(crate) fn given_up(&self) -> End {
        if self.connection.break_off.is_cancelled() {
            End { side: Side::Proxy, how: How::Rst }
        } else if let Some(how) = self.control.ended_by_toxic() {
            End { side: Side::Toxic, how }
        } else if self.connection.stop.is_cancelled() {
            End { side: Side::Proxy, how: How::Fin }
        } else {
            End { side: Side::Client, how: How::Fin }
        }
    }

    /// The proxy has answered by itself, for this reason.
    pub(crate) fn failed(&self, code: &'static str) {
        self.record.note(|course| course.error = Some(code));
        self.finish(End { side: Side::Proxy, how: How::Error }, 0, 0, 0);
    }

    /// The exchange is over. Only the first call counts.
    pub(crate) fn finish(&self, end: End, bytes_out: u64, events: u64, unterminated_tail: u64) {
        if self.finished.swap(true, Relaxed) {
            return;
        }
        self.toxics().settle();
        let took = self.now();
        let mut status = None;
        self.record.note(|course| {
            status = course.status;
            course.duration_ms = Some(millis(took));
            course.bytes_out = bytes_out;
            course.events = events;
            course.unterminated_tail = unterminated_tail;
            unstruck::disarm(&mut course.toxics);
            course.ending = Some(end);
            self.end_captures(course);
        });
        self.site.series.exchange_ended(status, took);
        self.site.journal.end(&self.record, &self.facts.headers);
        self.control.exchange_ends();
    }
}

impl Drop for ExchangeState {
    fn drop(&mut self) {
        // Nobody waits for the answer any more.
        self.finish(self.given_up(), 0, 0, 0);
    }
}

fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
