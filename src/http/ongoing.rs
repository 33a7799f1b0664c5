//! One exchange while it goes on: what was decided for it, and what is written down of it.
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use aconite_api::model::{Attempt, Exchange, ExchangeEnd, How, Side, Strike};
use aconite_toxics::{Dice, Report, StageId};
use tokio::time::Instant;

use super::{client::Client, facts::Facts, source::Broken};
use crate::{
    connection::ConnectionShared,
    journal::Record,
    link::SocketControl,
    plan::{Armed, Decisions, Plan},
    proxy::ProxyContext,
};

/// One exchange while it goes on. Shared by the bodies of its two messages.
pub(crate) struct Ongoing {
    pub(crate) proxy: Arc<ProxyContext>,
    pub(crate) facts: Facts,
    /// A toxic that the request brought along.
    pub(crate) own: Option<Arc<Armed>>,
    /// The client's connection.
    pub(crate) connection: Arc<ConnectionShared>,
    pub(crate) control: SocketControl,
    /// Whether the client speaks HTTP/2.
    pub(crate) http2: bool,
    pub(crate) started: Instant,
    record: Arc<Record>,
    decisions: Mutex<Made>,
    finished: AtomicBool,
    answering: AtomicBool,
    /// The code of the reset that ended the upstream's stream; 0 for none.
    reset: AtomicU32,
}

struct Made {
    decisions: Decisions,
    /// The one toxic that an exclusive proxy lets act.
    chosen: Option<u64>,
}

impl Ongoing {
    pub(crate) fn new(
        client: &Client,
        facts: Facts,
        own: Option<Arc<Armed>>,
        record: Arc<Record>,
        number: u64,
    ) -> Self {
        Self {
            proxy: Arc::clone(&client.proxy),
            facts,
            own,
            connection: Arc::clone(&client.connection),
            control: client.control.clone(),
            http2: client.http2,
            started: Instant::now(),
            record,
            decisions: Mutex::new(Made { decisions: Decisions::new(number), chosen: None }),
            finished: AtomicBool::new(false),
            answering: AtomicBool::new(false),
            reset: AtomicU32::new(0),
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
                ..Strike::default()
            };
            self.record.note(|entry| entry.toxics.push(strike));
            if let Some(reason) = ticket.refused {
                self.proxy.metrics.passed(&self.proxy.name, &toxic.spec.kind, reason);
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
        self.record.note(|entry| {
            if let Some(strike) = entry.toxics.iter_mut().find(|strike| strike.name == name)
                && !strike.struck
            {
                *strike = Strike { struck: true, at: Some(millis(at)), reason: None, ..strike.clone() };
                first = true;
            }
        });
        if first {
            self.proxy.metrics.struck(&self.proxy.name, &kind);
            tracing::debug!(proxy = %self.proxy.name, toxic = %name, exchange = self.record.id, "a toxic struck");
            self.tell("toxic.struck", &name, &kind, None);
        }
    }

    /// A toxic could not strike, for this reason.
    pub(crate) fn passed_over(&self, toxic: u64, reason: &'static str) {
        let Some((name, kind)) = self.name_of(toxic) else { return };
        let mut first = false;
        self.record.note(|entry| {
            if let Some(strike) = entry.toxics.iter_mut().find(|strike| strike.name == name)
                && !strike.struck
                && strike.reason.is_none()
            {
                strike.reason = Some(reason.to_owned());
                first = true;
            }
        });
        if first {
            self.proxy.metrics.passed(&self.proxy.name, &kind, reason);
            self.tell("toxic.passed", &name, &kind, Some(reason));
        }
    }

    fn tell(&self, event: &'static str, name: &str, kind: &str, reason: Option<&str>) {
        self.proxy.journal.tell(event, || {
            serde_json::json!({
                "proxy": &*self.proxy.name,
                "toxic": name,
                "type": kind,
                "exchange": self.record.id,
                "scene": self.facts.scene,
                "test_id": self.facts.test_id,
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
        let mut plan = self.proxy.plan.clone();
        let gone = async {
            // The proxy's end drops the exchange by itself.
            let in_effect = |plan: &Arc<Plan>| plan.toxics.iter().any(|toxic| toxic.id.toxic == id.toxic);
            if plan.wait_for(|plan| !in_effect(plan)).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let over = async {
            match how_long {
                Some(how_long) => tokio::time::sleep(how_long).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = over => true,
            () = gone => false,
        }
    }

    /// What the request's body said came to light later.
    pub(crate) fn said(&self, said: &super::facts::Said) {
        self.record.note(|entry| {
            entry.model.clone_from(&said.model);
            entry.streaming |= said.streaming.unwrap_or(false);
        });
    }

    /// An upstream was tried.
    pub(crate) fn attempt(&self, attempt: Attempt) {
        self.record.note(|entry| entry.attempts.push(attempt));
    }

    /// The answer's head is about to leave.
    pub(crate) fn answered(&self, status: u16, streaming: bool) {
        self.record.note(|entry| {
            entry.status = Some(status);
            entry.streaming |= streaming;
        });
    }

    /// The first byte of the answer's body is about to leave.
    pub(crate) fn first_byte(&self) {
        if !self.answering.swap(true, Relaxed) {
            let ms = self.ms();
            self.record.note(|entry| entry.first_byte_ms = Some(ms));
        }
    }

    /// The request's body has passed.
    pub(crate) fn request_passed(&self, bytes: u64) {
        self.record.note(|entry| entry.bytes_in = bytes);
    }

    /// Whether bodies are kept in the journal.
    pub(crate) fn captures(&self) -> bool {
        self.proxy.spec.capture
    }

    /// A request's body, or a part of it, for the journal.
    pub(crate) fn capture_request(&self, bytes: &[u8]) {
        self.capture(bytes, |entry| &mut entry.request_body);
    }

    /// A part of the answer's body, for the journal.
    pub(crate) fn capture_response(&self, bytes: &[u8]) {
        self.capture(bytes, |entry| &mut entry.response_body);
    }

    /// Adds text up to a bound. What is no UTF-8 is shown lossily.
    fn capture(&self, bytes: &[u8], text: impl Fn(&mut Exchange) -> &mut Option<String>) {
        if !self.captures() {
            return;
        }
        self.record.note(|entry| {
            let text = text(entry).get_or_insert_default();
            let room = MAX_CAPTURED.saturating_sub(text.len());
            text.push_str(&String::from_utf8_lossy(bytes.get(..room).unwrap_or(bytes)));
        });
    }

    /// Takes the request's own secrets out of what was captured.
    fn redact(&self, entry: &mut Exchange) {
        if !self.captures() {
            return;
        }
        let secrets = super::headers::secrets(&self.facts.headers);
        for text in [&mut entry.request_body, &mut entry.response_body].into_iter().flatten() {
            for secret in &secrets {
                *text = text.replace(secret.as_str(), "REDACTED");
            }
        }
    }

    /// The upstream's stream broke off.
    pub(crate) fn broke(&self, broken: &Broken) {
        if let Some(reason) = broken.reason {
            self.reset.store(reason.into(), Relaxed);
        }
    }

    /// The code with which the upstream reset its stream.
    pub(crate) fn reset_reason(&self) -> Option<h2::Reason> {
        match self.reset.load(Relaxed) {
            0 => None,
            code => Some(code.into()),
        }
    }

    /// The end of an exchange that was given up: by the proxy if it was deleted, disabled or stopped, or the connection
    /// reset through the API; else by the client.
    pub(crate) fn given_up(&self) -> ExchangeEnd {
        if self.connection.break_off.is_cancelled() {
            ExchangeEnd { side: Side::Proxy, how: How::Rst }
        } else if self.connection.stop.is_cancelled() {
            ExchangeEnd { side: Side::Proxy, how: How::Fin }
        } else {
            ExchangeEnd { side: Side::Client, how: How::Fin }
        }
    }

    /// The exchange is over. Only the first call counts.
    pub(crate) fn finish(&self, end: ExchangeEnd, bytes_out: u64, events: u64, unterminated_tail: u64) {
        if self.finished.swap(true, Relaxed) {
            return;
        }
        let ms = self.ms();
        self.record.note(|entry| {
            entry.duration_ms = Some(ms);
            entry.bytes_out = bytes_out;
            entry.events = events;
            entry.unterminated_tail = unterminated_tail;
            entry.ending = Some(end);
            self.redact(entry);
        });
        self.proxy.journal.end(&self.record);
        self.control.exchange_ends();
    }
}

impl Drop for Ongoing {
    fn drop(&mut self) {
        // Nobody waits for the answer any more.
        self.finish(self.given_up(), 0, 0, 0);
    }
}

/// How much of a body the journal keeps, in bytes.
const MAX_CAPTURED: usize = 64 * 1024;

fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
