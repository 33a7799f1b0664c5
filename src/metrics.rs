//! What each proxy counts, and how it is written for scrapers.
//!
//! The series of a proxy belong to it: they are there from its creation to its deletion. Counting takes neither a lock nor
//! memory, apart from the first use of a series.
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::time::Instant;

mod chain;
mod exposition;
mod histogram;

use chain::Chain;
pub(crate) use exposition::{Metrics, ProxyMetrics};
use histogram::{EXCHANGES, GAPS, Histogram, WAITS};

/// Values of the label `status`, in the order of [`Series`]' histograms.
const STATUSES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "none"];

/// The series of one proxy but those of its bytes.
#[derive(Debug)]
pub(crate) struct Series {
    /// How long exchanges took that have ended, by the class of their status. Their numbers are the numbers of exchanges.
    exchanges: [Histogram; STATUSES.len()],
    first_bytes: Histogram,
    event_gaps: Histogram,
    toxics: Chain<Arc<ToxicSeries>>,
}

/// What the toxics of one type did on one proxy.
#[derive(Debug)]
pub(crate) struct ToxicSeries {
    kind: Box<str>,
    struck: AtomicU64,
    passed: Chain<Passed>,
    waits: Histogram,
}

/// How often toxics did not act for one reason.
#[derive(Debug)]
struct Passed {
    reason: &'static str,
    count: AtomicU64,
}

impl Default for Series {
    fn default() -> Self {
        Self {
            exchanges: std::array::from_fn(|_| Histogram::new(&EXCHANGES)),
            first_bytes: Histogram::new(&EXCHANGES),
            event_gaps: Histogram::new(&GAPS),
            toxics: Chain::default(),
        }
    }
}

impl Series {
    /// An exchange has ended after so long. `status` is that of the response whose head was sent, if one was.
    pub(crate) fn exchange_ended(&self, status: Option<u16>, took: Duration) {
        self.exchanges[class(status)].add(took);
    }

    /// So long after its request the first byte of a response's body is sent.
    pub(crate) fn first_byte(&self, after: Duration) {
        self.first_bytes.add(after);
    }

    /// Where to count what the toxics of a type do. The types are those of the catalogue: there are few.
    pub(crate) fn toxic(&self, kind: &str) -> &Arc<ToxicSeries> {
        let new = || {
            Arc::new(ToxicSeries {
                kind: kind.into(),
                struck: AtomicU64::default(),
                passed: Chain::default(),
                waits: Histogram::new(&WAITS),
            })
        };
        self.toxics.find_or_add(|toxic| *toxic.kind == *kind, new)
    }
}

impl ToxicSeries {
    /// A toxic struck a connection or an exchange.
    pub(crate) fn struck(&self) {
        self.struck.fetch_add(1, Relaxed);
    }

    /// A toxic was there and did not strike.
    pub(crate) fn passed(&self, reason: &'static str) {
        let new = || Passed { reason, count: AtomicU64::default() };
        self.passed.find_or_add(|passed| passed.reason == reason, new).count.fetch_add(1, Relaxed);
    }

    /// A toxic held a request, a response, a piece of one, or a run of bytes for so long.
    pub(crate) fn waited(&self, wait: Duration) {
        self.waits.add(wait);
    }
}

/// The class of a status, as an index of [`STATUSES`]. Those above 599 are taken for 5xx (RFC 9110, section 15).
fn class(status: Option<u16>) -> usize {
    status.map_or(STATUSES.len() - 1, |status| usize::from((status / 100).clamp(1, 5)) - 1)
}

/// Measures the time between the events of one stream, as they leave.
#[derive(Debug, Default)]
pub(crate) struct EventGaps {
    /// The events that have left so far.
    events: u64,
    /// When the latest of them did.
    latest: Option<Instant>,
}

impl EventGaps {
    /// So many events of the stream have left so far. The clock is read if that is more than before.
    pub(crate) fn sent(&mut self, events: u64, series: &Series) {
        let new = events.saturating_sub(self.events);
        if new == 0 {
            return;
        }
        self.events = events;
        let now = Instant::now();
        if let Some(latest) = self.latest.replace(now) {
            series.event_gaps.add(now.duration_since(latest));
        }
        // The others left together with the one before them.
        series.event_gaps.add_times(Duration::ZERO, new - 1);
    }
}

/// Where to count the waits of each toxic of one stream: looked up once, so that an event that was held takes no lock.
#[derive(Default)]
pub(crate) struct WaitsByToxic(Vec<(u64, Arc<ToxicSeries>)>);

/// A stream remembers where to count for so many toxics: those that were removed are forgotten in time.
const MOST_LOOKED_UP: usize = 16;

impl WaitsByToxic {
    /// Counts a wait. `look_up` is asked at the first one of a toxic.
    pub(crate) fn add(
        &mut self,
        toxic: u64,
        wait: Duration,
        look_up: impl FnOnce() -> Option<Arc<ToxicSeries>>,
    ) {
        if let Some((_, series)) = self.0.iter().find(|(known, _)| *known == toxic) {
            series.waited(wait);
        } else if let Some(series) = look_up() {
            series.waited(wait);
            if self.0.len() >= MOST_LOOKED_UP {
                self.0.remove(0);
            }
            self.0.push((toxic, series));
        }
    }
}

#[cfg(test)]
mod tests;
