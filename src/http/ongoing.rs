//! One exchange while it goes on: what was decided for it, and what is written down of it.
use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use aconite_toxics::{Dice, Report, StageId};
use aconite_toxics::{End, How, Side};
use tokio::time::Instant;

mod unstruck;

use super::{capture::Capture, client::Client, facts::Facts, proxy::HttpProxy, source::Broken};
use crate::{
    connection::ConnectionShared,
    journal::{Attempt, Captured, Course, Record, Strike, recorded},
    link::{OpenStream, SocketControl},
    metrics::Waits,
    plan::{Armed, Decisions, Plan},
    secrets,
    site::Site,
};

/// One exchange while it goes on. Shared by the bodies of its two messages.
pub(crate) struct Ongoing {
    pub(crate) site: Arc<Site>,
    pub(crate) proxy: Arc<HttpProxy>,
    pub(crate) facts: Facts,
    /// A toxic that the request brought along.
    pub(crate) own: Option<Arc<Armed>>,
    /// The client's connection.
    pub(crate) connection: Arc<ConnectionShared>,
    pub(crate) control: SocketControl,
    /// Whether the client speaks HTTP/2.
    pub(crate) http2: bool,
    pub(crate) started: Instant,
    /// The toxics as the exchange began.
    plan: Arc<Plan>,
    record: Arc<Record>,
    decisions: Mutex<Made>,
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

struct Made {
    decisions: Decisions,
    /// The one toxic that an exclusive proxy lets act.
    chosen: Option<u64>,
}

impl Ongoing {
    pub(crate) fn new(
        client: &Client,
        plan: &Arc<Plan>,
        facts: Facts,
        own: Option<Arc<Armed>>,
        record: Arc<Record>,
        number: u64,
        stream: Option<OpenStream>,
    ) -> Self {
        Self {
            site: Arc::clone(&client.connection.site),
            proxy: Arc::clone(&client.proxy),
            facts,
            own,
            connection: Arc::clone(&client.connection),
            control: client.control.clone(),
            http2: client.http2,
            started: Instant::now(),
            plan: Arc::clone(plan),
            record,
            decisions: Mutex::new(Made {
                decisions: Decisions::new(number, client.connection.peer.ip()),
                chosen: None,
            }),
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

    fn ms(&self) -> f64 {
        millis(self.now())
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.decisions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The toxics that may strike this exchange by the plan, the one that it brought along first.
    pub(crate) fn toxics<'a>(&'a self, plan: &'a Plan) -> impl Iterator<Item = &'a Arc<Armed>> {
        self.own.iter().filter(|_| plan.on).chain(&plan.toxics)
    }

    /// Whether any of them acts on messages, and not on bytes alone.
    pub(crate) fn has_toxics(&self, plan: &Plan) -> bool {
        plan.strikes_messages || (plan.on && self.own.is_some())
    }

    /// Whether a toxic strikes this exchange. Decided once, and written down when it is.
    pub(crate) fn strikes(&self, plan: &Plan, toxic: &Arc<Armed>) -> bool {
        let mut made = self.made();
        if plan.exclusive && made.chosen.is_some_and(|chosen| chosen != toxic.id.toxic) {
            return false;
        }
        let news = made.decisions.given(toxic.id.toxic).is_none();
        let facts = self.facts.as_request_facts();
        let Some(ticket) = made.decisions.ticket(plan, toxic, Some(&facts)) else { return false };
        let good = ticket.is_good();
        if news {
            let strike = Strike {
                name: toxic.spec.name.clone(),
                kind: toxic.spec.kind.clone(),
                roll: ticket.roll,
                reason: ticket.refused.map(str::to_owned),
                waits_for: toxic.spec.attributes.get("at").cloned(),
                ..Strike::default()
            };
            self.record.note(|course| {
                // One that acted may have been removed, and another of its name added.
                let known =
                    course.toxics.iter().rposition(|known| known.name == strike.name && !known.struck);
                let idle = |at: usize| course.toxics[at].reason.as_deref().is_none_or(crate::plan::is_idle);
                match known {
                    // What kept it from acting may be over.
                    Some(at) if idle(at) => course.toxics[at] = strike,
                    Some(at) => course.toxics[at].roll = strike.roll,
                    None => course.decided(strike),
                }
            });
            if let Some(reason) = ticket.refused {
                self.site.metrics.passed(&self.site.name, &toxic.spec.kind, reason);
                self.tell("toxic.passed", &toxic.spec.name, &toxic.spec.kind, Some(reason));
            }
        }
        if good && plan.exclusive {
            made.chosen = Some(toxic.id.toxic);
        }
        good
    }

    /// The dice of a toxic that strikes here, as they were after the roll against its toxicity.
    pub(crate) fn dice(&self, toxic: u64) -> Option<Dice> {
        self.made().decisions.given(toxic).map(|ticket| ticket.dice.clone())
    }

    /// The names of the toxics that apply and may be told of.
    pub(crate) fn marks(&self, applies: impl Fn(&Armed) -> bool) -> Vec<String> {
        let made = self.made();
        let tickets = made.decisions.tickets().filter(|ticket| ticket.is_good());
        let marked = tickets.filter(|ticket| ticket.toxic.spec.marker && applies(&ticket.toxic));
        marked.map(|ticket| ticket.toxic.spec.name.clone()).collect()
    }

    /// A filter has something to say.
    pub(crate) fn report(&self, toxic: u64, report: Report) {
        if let Some(at) = report.struck {
            self.struck(toxic, at);
        } else if let Some(reason) = report.skipped {
            self.passed_over(toxic, reason);
        }
    }

    /// A toxic has struck.
    pub(crate) fn struck(&self, toxic: u64, at: Duration) {
        let Some((name, kind)) = self.name_of(toxic) else { return };
        let mut first = false;
        self.record.note(|course| {
            if let Some(strike) = course.toxics.iter_mut().rfind(|strike| strike.name == name)
                && !strike.struck
            {
                *strike = Strike { struck: true, at: Some(millis(at)), reason: None, ..strike.clone() };
                first = true;
            }
        });
        if first {
            self.site.metrics.struck(&self.site.name, &kind);
            tracing::debug!(proxy = %self.site.name, toxic = %name, exchange = self.record.id, "a toxic struck");
            self.tell("toxic.struck", &name, &kind, None);
        }
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

    fn tell(&self, event: &'static str, name: &str, kind: &str, reason: Option<&str>) {
        self.site.journal.tell(event, || {
            serde_json::json!({
                "proxy": &*self.site.name,
                "toxic": name,
                "type": kind,
                "exchange": self.record.id,
                "scene": self.facts.scene.as_deref().map(recorded),
                "test_id": self.facts.test_id.as_deref().map(recorded),
                "reason": reason,
            })
        });
    }

    fn name_of(&self, toxic: u64) -> Option<(String, String)> {
        let made = self.made();
        let spec = &made.decisions.given(toxic)?.toxic.spec;
        Some((spec.name.clone(), spec.kind.clone()))
    }

    /// Waits, unless the toxic that asks for it goes away. Whether the wait was to its end.
    pub(crate) async fn wait(&self, id: StageId, how_long: Option<Duration>) -> bool {
        let over = async {
            match how_long {
                Some(how_long) => tokio::time::sleep(how_long).await,
                None => std::future::pending().await,
            }
        };
        let began = Instant::now();
        let ids = [id];
        let to_its_end = tokio::select! {
            () = over => true,
            () = self.gone(&ids) => false,
        };
        if let Some(waits) = self.waits(id.toxic) {
            waits.add(began.elapsed());
        }
        to_its_end
    }

    /// Waits until none of these toxics is in effect.
    pub(crate) async fn gone(&self, ids: &[StageId]) {
        let mut plan = self.site.plan.clone();
        let acts = |id: &StageId, plan: &Plan| self.toxics(plan).any(|toxic| toxic.id.toxic == id.toxic);
        // The proxy's end drops the exchange by itself.
        if plan.wait_for(|plan| !ids.iter().any(|id| acts(id, plan))).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Where to count how long a toxic holds something.
    pub(crate) fn waits(&self, toxic: u64) -> Option<Arc<Waits>> {
        let made = self.made();
        let kind = &made.decisions.given(toxic)?.toxic.spec.kind;
        Some(self.site.metrics.waits(&self.site.name, kind))
    }

    /// What the request's body said came to light later.
    pub(crate) fn said(&self, said: &super::facts::Said) {
        self.record.note(|course| {
            if let Some(model) = said.model.as_deref() {
                course.model = Some(recorded(model));
            }
            course.streaming |= said.streaming.unwrap_or(false);
        });
    }

    /// An upstream was tried.
    pub(crate) fn attempt(&self, attempt: Attempt) {
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
            let ms = self.ms();
            self.record.note(|course| course.first_byte_ms = Some(ms));
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

    fn end_captures(&self, course: &mut Course) {
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
        self.settle();
        let ms = self.ms();
        self.record.note(|course| {
            course.duration_ms = Some(ms);
            course.bytes_out = bytes_out;
            course.events = events;
            course.unterminated_tail = unterminated_tail;
            unstruck::disarm(&mut course.toxics);
            course.ending = Some(end);
            self.end_captures(course);
        });
        self.site.journal.end(&self.record, &self.facts.headers);
        self.control.exchange_ends();
    }
}

impl Drop for Ongoing {
    fn drop(&mut self) {
        // Nobody waits for the answer any more.
        self.finish(self.given_up(), 0, 0, 0);
    }
}

fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
