//! The journal: what passed, what struck it, how it ended.
use std::{
    collections::VecDeque,
    fmt,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{AcqRel, Acquire, Relaxed},
        },
    },
};

use aconite_api::model::{self, Exchange, ExchangeEnd, ExchangeFilter, Happening, Strike};
use aconite_dialects::{Dialect, Operation};
use http::{HeaderMap, Method};
use jiff::Timestamp;
use tokio::sync::{
    Notify, broadcast,
    mpsc::{self, error::TrySendError},
};

/// Exchanges that the journal keeps.
const CAPACITY: usize = 10_000;

/// A bounded ring of exchanges, oldest first, those in flight too.
pub(crate) struct Journal {
    ring: Mutex<VecDeque<Arc<Record>>>,
    numbers: AtomicU64,
    in_flight: AtomicU64,
    settled: Notify,
    feed: broadcast::Sender<Happening>,
    outlets: Outlets,
    overflown: AtomicBool,
}

/// Where exchanges that have ended go, besides the ring.
#[derive(Default)]
pub(crate) struct Outlets {
    /// Takes each as a line of JSON.
    pub(crate) lines: Option<mpsc::Sender<String>>,
    /// Takes each as it is.
    pub(crate) finished: Option<mpsc::Sender<Finished>>,
}

/// An exchange that has ended, without its bodies.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) exchange: Exchange,
    /// The request's `traceparent`, if it has exactly one, unchecked.
    pub(crate) traceparent: Option<Box<str>>,
}

/// One exchange, from its head to its end.
pub(crate) struct Record {
    pub(crate) id: u64,
    began: Timestamp,
    head: Head,
    course: Mutex<Course>,
}

/// What is known of an exchange as it begins, in no more memory than it needs.
pub(crate) struct Head {
    pub(crate) proxy: Arc<str>,
    pub(crate) connection: u64,
    pub(crate) method: Method,
    pub(crate) host: Arc<str>,
    /// Without secrets.
    pub(crate) path: Box<str>,
    pub(crate) dialect: Option<Dialect>,
    pub(crate) operation: Option<Operation>,
    pub(crate) scene: Option<Box<str>>,
    pub(crate) test_id: Option<Box<str>>,
}

/// What becomes of an exchange. See [`Exchange`] for what each member means.
#[derive(Default)]
pub(crate) struct Course {
    pub(crate) model: Option<Box<str>>,
    pub(crate) streaming: bool,
    pub(crate) status: Option<u16>,
    pub(crate) duration_ms: Option<f64>,
    pub(crate) first_byte_ms: Option<f64>,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) events: u64,
    pub(crate) unterminated_tail: u64,
    pub(crate) toxics: Vec<Strike>,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) ending: Option<ExchangeEnd>,
    pub(crate) error: Option<&'static str>,
    pub(crate) bodies: Option<Box<Captured>>,
}

/// An exchange's record names at most so many toxics.
const MOST_TOXICS: usize = 64;

impl Course {
    /// It was decided whether a toxic applies. In a full record the oldest toxic that had no effect makes room.
    pub(crate) fn decided(&mut self, strike: Strike) {
        if self.toxics.len() >= MOST_TOXICS {
            let oldest = self.toxics.iter().position(|old| !old.struck).unwrap_or(0);
            self.toxics.remove(oldest);
        }
        self.toxics.push(strike);
    }
}

/// One try at an upstream.
pub(crate) struct Attempt {
    /// What was tried.
    pub(crate) target: Arc<dyn fmt::Display + Send + Sync>,
    /// The address that was reached.
    pub(crate) address: Option<SocketAddr>,
    pub(crate) outcome: &'static str,
    pub(crate) status: Option<u16>,
    pub(crate) ms: f64,
}

/// What is kept of an exchange's bodies.
pub(crate) struct Captured {
    pub(crate) request: Option<String>,
    pub(crate) response: Option<String>,
    /// What is never shown.
    secrets: Vec<String>,
}

impl Captured {
    /// Nothing yet; the request's own secrets are known.
    pub(crate) fn hiding(secrets: Vec<String>) -> Self {
        Self { request: None, response: None, secrets }
    }

    fn shown(&self, text: Option<&String>) -> Option<String> {
        let mut text = text?.clone();
        for secret in &self.secrets {
            text = text.replace(secret.as_str(), "REDACTED");
        }
        Some(text)
    }
}

impl Record {
    /// Writes something down.
    pub(crate) fn note(&self, write: impl FnOnce(&mut Course)) {
        write(&mut lock(&self.course));
    }

    /// As the API shows it.
    pub(crate) fn view(&self) -> Exchange {
        let head = &self.head;
        let course = lock(&self.course);
        let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
        let attempts = course.attempts.iter().map(|attempt| model::Attempt {
            provider: attempt.target.to_string(),
            address: attempt.address.as_ref().map(ToString::to_string),
            outcome: attempt.outcome.to_owned(),
            status: attempt.status,
            ms: attempt.ms,
        });
        Exchange {
            id: self.id,
            proxy: head.proxy.to_string(),
            connection: head.connection,
            started: shown(self.began),
            duration_ms: course.duration_ms,
            first_byte_ms: course.first_byte_ms,
            method: head.method.to_string(),
            host: head.host.to_string(),
            path: head.path.to_string(),
            dialect: head.dialect.map(|dialect| dialect.to_string()),
            operation: head.operation.map(|operation| operation.to_string()),
            model: text(&course.model),
            scene: text(&head.scene),
            test_id: text(&head.test_id),
            streaming: course.streaming,
            status: course.status,
            bytes_in: course.bytes_in,
            bytes_out: course.bytes_out,
            events: course.events,
            unterminated_tail: course.unterminated_tail,
            toxics: course.toxics.clone(),
            attempts: attempts.collect(),
            ending: course.ending,
            error: course.error.map(str::to_owned),
            request_body: course.bodies.as_ref().and_then(|bodies| bodies.shown(bodies.request.as_ref())),
            response_body: course.bodies.as_ref().and_then(|bodies| bodies.shown(bodies.response.as_ref())),
        }
    }
}

impl Finished {
    fn of(record: &Record, headers: &HeaderMap) -> Self {
        let exchange = Exchange { request_body: None, response_body: None, ..record.view() };
        let mut values = headers.get_all("traceparent").into_iter();
        let traceparent = match (values.next(), values.next()) {
            (Some(only), None) => only.to_str().ok().map(Into::into),
            _ => None,
        };
        Self { exchange, traceparent }
    }
}

impl Journal {
    /// An empty one; what ends goes to `outlets` too.
    pub(crate) fn new(outlets: Outlets) -> Self {
        Self {
            ring: Mutex::default(),
            numbers: AtomicU64::new(1),
            in_flight: AtomicU64::new(0),
            settled: Notify::new(),
            feed: broadcast::channel(1_024).0,
            outlets,
            overflown: AtomicBool::new(false),
        }
    }

    /// Begins an exchange.
    pub(crate) fn begin(&self, head: Head) -> Arc<Record> {
        let id = self.numbers.fetch_add(1, Relaxed);
        let record = Arc::new(Record { id, began: Timestamp::now(), head, course: Mutex::default() });
        let mut ring = lock(&self.ring);
        if ring.len() == CAPACITY {
            ring.pop_front();
        }
        ring.push_back(Arc::clone(&record));
        drop(ring);
        self.in_flight.fetch_add(1, AcqRel);
        record
    }

    /// An exchange has ended, and its record is complete; `headers` are the request's.
    pub(crate) fn end(&self, record: &Record, headers: &HeaderMap) {
        if let Some(lines) = &self.outlets.lines
            && let Ok(line) = serde_json::to_string(&record.view())
            && lines.try_send(line).is_err()
        {
            tracing::warn!("the journal file cannot keep up: a line is lost");
        }
        if let Some(finished) = &self.outlets.finished {
            match finished.try_reserve() {
                Ok(place) => place.send(Finished::of(record, headers)),
                Err(TrySendError::Full(())) if !self.overflown.swap(true, Relaxed) => {
                    tracing::warn!("the export of spans cannot keep up: some are lost, this is told once");
                }
                Err(_) => {}
            }
        }
        if self.in_flight.fetch_sub(1, AcqRel) == 1 {
            self.settled.notify_waiters();
        }
    }

    /// The exchanges that fit, oldest first, and the cursor that follows the last of them.
    pub(crate) fn list(&self, filter: &ExchangeFilter) -> (Vec<Exchange>, u64) {
        let since = filter.since.unwrap_or(0);
        let records: Vec<_> = lock(&self.ring).iter().filter(|record| record.id > since).cloned().collect();
        let mut next = records.last().map_or(since, |record| record.id);
        let limit = filter.limit.unwrap_or(1_000);
        let mut found = Vec::new();
        for record in &records {
            let entry = record.view();
            if !fits(&entry, filter) {
                continue;
            }
            found.push(entry);
            if found.len() >= limit {
                next = record.id;
                break;
            }
        }
        (found, next)
    }

    pub(crate) fn get(&self, id: u64) -> Option<Exchange> {
        lock(&self.ring).iter().find(|record| record.id == id).map(|record| record.view())
    }

    pub(crate) fn clear(&self) {
        lock(&self.ring).clear();
    }

    /// Comes back when nothing is in flight.
    pub(crate) async fn settled(&self) {
        loop {
            let settled = self.settled.notified();
            if self.in_flight() == 0 {
                return;
            }
            settled.await;
        }
    }

    /// How many exchanges are in flight.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight.load(Acquire)
    }

    /// Tells those who listen, if anybody does.
    pub(crate) fn tell(&self, event: &'static str, detail: impl FnOnce() -> serde_json::Value) {
        if self.feed.receiver_count() > 0 {
            // No receiver any more is no failure.
            let _ = self.feed.send(Happening { event, at: now(), detail: detail() });
        }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Happening> {
        self.feed.subscribe()
    }
}

/// The time, RFC 3339, UTC.
pub(crate) fn now() -> String {
    shown(Timestamp::now())
}

fn shown(time: Timestamp) -> String {
    format!("{time:.6}")
}

fn fits(entry: &Exchange, filter: &ExchangeFilter) -> bool {
    filter.proxy.as_ref().is_none_or(|proxy| *proxy == entry.proxy)
        && filter.path.as_ref().is_none_or(|path| entry.path.contains(path.as_str()))
        && filter.status.is_none_or(|status| entry.status == Some(status))
        && filter.toxic.as_ref().is_none_or(|toxic| entry.toxics.iter().any(|strike| strike.name == *toxic))
        && filter.test_id.as_ref().is_none_or(|test| entry.test_id.as_ref() == Some(test))
}

/// Nothing here panics while it holds a lock; if something did, the data is still whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
