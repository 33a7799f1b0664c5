//! The journal: what passed, what struck it, how it ended.
use std::{
    collections::VecDeque,
    fmt,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicBool, AtomicU64, AtomicUsize,
            Ordering::{AcqRel, Acquire, Relaxed},
        },
    },
};

pub(crate) use aconite_api::model::Strike;
use aconite_api::model::{self, End, Exchange, ExchangeFilter, Happening, StrikeState};
use aconite_dialects::{Dialect, Operation};
use http::{HeaderMap, Method};
use jiff::Timestamp;
use tokio::sync::{
    Notify, OwnedSemaphorePermit, Semaphore, broadcast,
    mpsc::{self, error::TrySendError},
};

use crate::secrets;

#[cfg(test)]
mod tests;

/// Exchanges that the journal keeps.
const CAPACITY: usize = 10_000;
/// The memory that they may take together, in bytes.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// The longest list of exchanges, in bytes of memory.
const MAX_PAGE_BYTES: usize = 8 * 1024 * 1024;
/// The longest string that is recorded of a request, in bytes; of a longer one the beginning.
const MAX_TEXT: usize = 1024;
/// What ends a string that was cut.
const CUT: char = '…';

/// A bounded ring of exchanges, oldest first, those in flight too.
pub(crate) struct Journal {
    ring: Mutex<Ring>,
    numbers: AtomicU64,
    in_flight: AtomicU64,
    settled: Notify,
    feed: broadcast::Sender<Happening>,
    outlets: Outlets,
    overflown: AtomicBool,
}

#[derive(Default)]
struct Ring {
    records: VecDeque<Arc<Record>>,
    /// The sum of what the records were counted as.
    bytes: usize,
}

impl Ring {
    /// Forgets the oldest records until the others fit.
    fn shrink(&mut self) {
        while self.records.len() > CAPACITY || (self.bytes > MAX_BYTES && self.records.len() > 1) {
            let Some(oldest) = self.records.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(oldest.counted.swap(0, Relaxed));
        }
    }

    /// Counts a record that is still here as what it takes now.
    fn count_again(&mut self, record: &Record, bytes: usize) {
        let before = record.counted.load(Relaxed);
        if before > 0 {
            record.counted.store(bytes, Relaxed);
            self.bytes = self.bytes.saturating_sub(before) + bytes;
            self.shrink();
        }
    }
}

/// Where exchanges that have ended go, besides the ring.
#[derive(Default)]
pub(crate) struct Outlets {
    /// Takes each as a line of JSON.
    pub(crate) lines: Option<Lines>,
    /// Takes each as it is.
    pub(crate) finished: Option<mpsc::Sender<Finished>>,
}

/// Lines of JSON on their way to the journal file.
pub(crate) struct Lines {
    pub(crate) queue: mpsc::Sender<(String, OwnedSemaphorePermit)>,
    /// The bytes that may still wait in the queue.
    pub(crate) room: Arc<Semaphore>,
}

impl Lines {
    /// Whether there was room for one more.
    fn send(&self, line: String) -> bool {
        let bytes = u32::try_from(line.len()).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).try_acquire_many_owned(bytes);
        room.is_ok_and(|room| self.queue.try_send((line, room)).is_ok())
    }
}

/// An exchange that has ended, without its bodies.
#[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "only the export reads it"))]
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
    head: ExchangeStart,
    course: Mutex<Progress>,
    /// What the ring counts it as, in bytes; 0 once it is no longer there. Changes under the ring's lock alone.
    counted: AtomicUsize,
    /// What has passed so far, for as long as the exchange goes on.
    live: Live,
}

/// Counters of an exchange in progress.
#[derive(Default)]
struct Live {
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    events: AtomicU64,
}

/// What is known of an exchange as it begins, in no more memory than it needs.
pub(crate) struct ExchangeStart {
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

impl ExchangeStart {
    /// The memory that a record with this head takes before anything else is written down, in bytes.
    fn bytes(&self) -> usize {
        let text = |text: &Option<Box<str>>| text.as_ref().map_or(0, |text| text.len());
        // One attempt is the rule.
        size_of::<Record>()
            + size_of::<AttemptRecord>()
            + self.method.as_str().len()
            + self.host.len()
            + self.path.len()
            + text(&self.scene)
            + text(&self.test_id)
    }
}

/// A string of a request as it is recorded: not too long.
pub(crate) fn recorded(text: &str) -> Box<str> {
    if text.len() <= MAX_TEXT {
        return text.into();
    }
    let whole = (0..=MAX_TEXT).rev().find_map(|end| text.get(..end));
    format!("{}{CUT}", whole.unwrap_or_default()).into()
}

/// A host as it is recorded: shared, unless it is too long.
pub(crate) fn recorded_host(host: &Arc<str>) -> Arc<str> {
    if host.len() <= MAX_TEXT { Arc::clone(host) } else { recorded(host).into() }
}

/// A method as it is recorded. `…` cannot be a part of one.
pub(crate) fn recorded_method(method: &Method) -> Method {
    match method.as_str().get(..MAX_METHOD) {
        Some(beginning) => Method::from_bytes(format!("{beginning}...").as_bytes()).unwrap_or_default(),
        None => method.clone(),
    }
}

/// The longest method that is recorded whole. The longest registered one has 17 letters.
const MAX_METHOD: usize = 64;

/// What becomes of an exchange. See [`Exchange`] for what each member means.
#[derive(Default)]
pub(crate) struct Progress {
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
    pub(crate) attempts: Vec<AttemptRecord>,
    pub(crate) ending: Option<End>,
    pub(crate) error: Option<&'static str>,
    pub(crate) bodies: Option<Box<Captured>>,
}

/// An exchange's record names at most so many toxics.
const MOST_TOXICS: usize = 64;

impl Progress {
    /// It was decided whether a toxic applies. In a full record the oldest toxic that had no effect makes room.
    pub(crate) fn decided(&mut self, strike: Strike) {
        if self.toxics.len() >= MOST_TOXICS {
            let oldest = self.toxics.iter().position(|old| !old.struck).unwrap_or(0);
            self.toxics.remove(oldest);
        }
        // Few have more than one, and a stream keeps it for as long as it lasts.
        self.toxics.reserve_exact(1);
        self.toxics.push(strike);
    }
}

/// One try at an upstream.
pub(crate) struct AttemptRecord {
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
        Some(secrets::redacted_body(text?, &self.secrets))
    }

    fn bytes(&self) -> usize {
        let bodies = [&self.request, &self.response].into_iter().flatten();
        bodies.chain(&self.secrets).map(String::capacity).sum()
    }
}

impl Record {
    /// Writes something down.
    pub(crate) fn note(&self, write: impl FnOnce(&mut Progress)) {
        write(&mut lock(&self.course));
    }

    /// So much of the response's body has left so far.
    pub(crate) fn sent(&self, bytes: u64, events: u64) {
        self.live.bytes_out.store(bytes, Relaxed);
        self.live.events.store(events, Relaxed);
    }

    /// So much of the request's body has left so far.
    pub(crate) fn forwarded(&self, bytes: u64) {
        self.live.bytes_in.store(bytes, Relaxed);
    }

    /// The memory that it takes, in bytes: about, as small allocations have their own cost.
    fn bytes(&self) -> usize {
        let course = lock(&self.course);
        let strikes =
            course.toxics.iter().map(|strike| size_of::<Strike>() + strike.name.len() + strike.kind.len());
        self.head.bytes()
            + course.model.as_ref().map_or(0, |model| model.len())
            + course.attempts.len().saturating_sub(1) * size_of::<AttemptRecord>()
            + strikes.sum::<usize>()
            + course.bodies.as_ref().map_or(0, |bodies| bodies.bytes())
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
        let over = course.ending.is_some();
        let live = |counter: &AtomicU64| if over { 0 } else { counter.load(Relaxed) };
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
            bytes_in: course.bytes_in.max(live(&self.live.bytes_in)),
            bytes_out: course.bytes_out.max(live(&self.live.bytes_out)),
            events: course.events.max(live(&self.live.events)),
            unterminated_tail: course.unterminated_tail,
            toxics: course.toxics.iter().map(|strike| shown_strike(strike, over)).collect(),
            attempts: attempts.collect(),
            ending: course.ending,
            error: course.error.map(str::to_owned),
            request_body: course.bodies.as_ref().and_then(|bodies| bodies.shown(bodies.request.as_ref())),
            response_body: course.bodies.as_ref().and_then(|bodies| bodies.shown(bodies.response.as_ref())),
        }
    }
}

/// As the API shows it, with its state.
fn shown_strike(strike: &Strike, over: bool) -> Strike {
    let state = match strike {
        Strike { struck: true, .. } => StrikeState::Struck,
        Strike { reason: None, .. } if !over => StrikeState::Armed,
        _ => StrikeState::Skipped,
    };
    let waits_for = strike.waits_for.clone().filter(|_| state == StrikeState::Armed);
    Strike { state, waits_for, ..strike.clone() }
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
    pub(crate) fn begin(&self, head: ExchangeStart) -> Arc<Record> {
        let id = self.numbers.fetch_add(1, Relaxed);
        let bytes = head.bytes();
        let (course, counted) = (Mutex::default(), AtomicUsize::new(bytes));
        let record =
            Arc::new(Record { id, began: Timestamp::now(), head, course, counted, live: Live::default() });
        let mut ring = lock(&self.ring);
        ring.bytes += bytes;
        ring.records.push_back(Arc::clone(&record));
        ring.shrink();
        drop(ring);
        self.in_flight.fetch_add(1, AcqRel);
        self.tell("exchange.begin", || serde_json::json!(record.view()));
        record
    }

    /// An exchange has ended, and its record is complete; `headers` are the request's.
    pub(crate) fn end(&self, record: &Record, headers: &HeaderMap) {
        let bytes = record.bytes();
        if record.counted.load(Relaxed) != bytes {
            lock(&self.ring).count_again(record, bytes);
        }
        if let Some(lines) = &self.outlets.lines
            && let Ok(line) = serde_json::to_string(&record.view())
            && !lines.send(line)
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
        self.tell("exchange.end", || {
            serde_json::json!(Exchange { request_body: None, response_body: None, ..record.view() })
        });
        if self.in_flight.fetch_sub(1, AcqRel) == 1 {
            self.settled.notify_waiters();
        }
    }

    /// The exchanges that fit, oldest first, and the cursor that follows the last of them. If they are too many for one
    /// list, the cursor leads to the rest.
    pub(crate) fn list(&self, filter: &ExchangeFilter) -> (Vec<Exchange>, u64) {
        let since = filter.since.unwrap_or(0);
        let records: Vec<_> =
            lock(&self.ring).records.iter().filter(|record| record.id > since).cloned().collect();
        let mut next = records.last().map_or(since, |record| record.id);
        let limit = filter.limit.unwrap_or(1_000);
        let (mut found, mut bytes) = (Vec::new(), 0);
        for record in &records {
            let entry = record.view();
            if !fits(&entry, filter) {
                continue;
            }
            found.push(entry);
            bytes += record.bytes();
            if found.len() >= limit || bytes >= MAX_PAGE_BYTES {
                next = record.id;
                break;
            }
        }
        (found, next)
    }

    pub(crate) fn get(&self, id: u64) -> Option<Exchange> {
        lock(&self.ring).records.iter().find(|record| record.id == id).map(|record| record.view())
    }

    pub(crate) fn clear(&self) {
        let mut ring = lock(&self.ring);
        for record in std::mem::take(&mut *ring).records {
            record.counted.store(0, Relaxed);
        }
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
            // No receiver any more is not a failure.
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
        && filter.test_id.as_ref().is_none_or(|test| entry.test_id.as_deref() == Some(&*recorded(test)))
}

/// Nothing here panics while it holds a lock; if something did, the data is still whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
