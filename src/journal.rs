//! The journal: what passed, what struck it, how it ended.
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicU64,
            Ordering::{AcqRel, Acquire, Relaxed},
        },
    },
};

use aconite_api::model::{Exchange, ExchangeFilter, Happening};
use aconite_dialects::{Dialect, Operation};
use http::Method;
use jiff::Timestamp;
use tokio::sync::{Notify, broadcast};

/// Exchanges that the journal keeps.
const CAPACITY: usize = 10_000;

/// A bounded ring of exchanges, oldest first, those in flight too.
pub(crate) struct Journal {
    ring: Mutex<VecDeque<Arc<Record>>>,
    numbers: AtomicU64,
    in_flight: AtomicU64,
    settled: Notify,
    feed: broadcast::Sender<Happening>,
    log: Option<tokio::sync::mpsc::Sender<String>>,
}

/// One exchange, from its head to its end.
pub(crate) struct Record {
    pub(crate) id: u64,
    began: Timestamp,
    head: Head,
    entry: Mutex<Exchange>,
}

/// What is known of an exchange as it begins, in no more memory than it needs.
pub(crate) struct Head {
    pub(crate) proxy: Arc<str>,
    pub(crate) connection: u64,
    pub(crate) method: Method,
    pub(crate) host: Arc<str>,
    /// Without secrets.
    pub(crate) path: String,
    pub(crate) dialect: Option<Dialect>,
    pub(crate) operation: Option<Operation>,
    pub(crate) scene: Option<String>,
    pub(crate) test_id: Option<String>,
}

impl Record {
    /// Writes something down.
    pub(crate) fn note(&self, write: impl FnOnce(&mut Exchange)) {
        write(&mut lock(&self.entry));
    }

    pub(crate) fn copy(&self) -> Exchange {
        let Head { proxy, connection, method, host, path, dialect, operation, scene, test_id } = &self.head;
        Exchange {
            id: self.id,
            started: shown(self.began),
            proxy: proxy.to_string(),
            connection: *connection,
            method: method.to_string(),
            host: host.to_string(),
            path: path.clone(),
            dialect: dialect.map(|dialect| dialect.to_string()),
            operation: operation.map(|operation| operation.to_string()),
            scene: scene.clone(),
            test_id: test_id.clone(),
            ..lock(&self.entry).clone()
        }
    }
}

impl Journal {
    /// An empty one; what ends is written to `log` too, a JSON line each.
    pub(crate) fn new(log: Option<tokio::sync::mpsc::Sender<String>>) -> Self {
        Self {
            ring: Mutex::default(),
            numbers: AtomicU64::new(1),
            in_flight: AtomicU64::new(0),
            settled: Notify::new(),
            feed: broadcast::channel(1_024).0,
            log,
        }
    }

    /// Begins an exchange.
    pub(crate) fn begin(&self, head: Head) -> Arc<Record> {
        let id = self.numbers.fetch_add(1, Relaxed);
        let record = Arc::new(Record { id, began: Timestamp::now(), head, entry: Mutex::default() });
        let mut ring = lock(&self.ring);
        if ring.len() == CAPACITY {
            ring.pop_front();
        }
        ring.push_back(Arc::clone(&record));
        drop(ring);
        self.in_flight.fetch_add(1, AcqRel);
        record
    }

    /// An exchange has ended, and its record is complete.
    pub(crate) fn end(&self, record: &Record) {
        if let Some(log) = &self.log
            && let Ok(line) = serde_json::to_string(&record.copy())
            && log.try_send(line).is_err()
        {
            tracing::warn!("the journal file cannot keep up: a line is lost");
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
            let entry = record.copy();
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
        lock(&self.ring).iter().find(|record| record.id == id).map(|record| record.copy())
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
