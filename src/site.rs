//! What is known of a proxy while it runs, whatever protocol it speaks.
use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use aconite_api::model::ProxySpec;
use aconite_toxics::{Catalogue, Millis};
use tokio_util::sync::CancellationToken;

use crate::{
    journal::Journal,
    link::{Counters, ProxyHeld},
    metrics::Series,
    plan::PlanReceiver,
};

/// A running proxy as its connections see it. When the proxy is changed, new connections get another one.
pub(crate) struct Site {
    pub(crate) name: Arc<str>,
    pub(crate) spec: ProxySpec,
    pub(crate) plan: PlanReceiver,
    pub(crate) journal: Arc<Journal>,
    /// Client connections that all proxies have accepted.
    pub(crate) accepted: Arc<AtomicU64>,
    /// What is counted of the proxy. Kept when it is changed.
    pub(crate) series: Arc<Series>,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) traffic: Arc<Counters>,
    /// What the toxics on its connections hold.
    pub(crate) held: Arc<ProxyHeld>,
    /// Cancelled when the process stops: running exchanges may end, and no new one starts.
    pub(crate) drain: CancellationToken,
    /// Kept when the proxy is changed.
    pub(crate) numbers: Arc<Numbers>,
}

/// Counts connections and exchanges. Their numbers seed the dice.
#[derive(Default)]
pub(crate) struct Numbers {
    connections: AtomicU64,
    exchanges: AtomicU64,
    /// Keyed by a hash, because the id of a test may be long.
    by_test: Mutex<HashMap<u64, u64>>,
    hasher: RandomState,
}

/// The number of tests whose exchanges are counted separately. When there are more, all of them are forgotten.
const MAX_TESTS: usize = 10_000;

static CONNECTION_IDS: AtomicU64 = AtomicU64::new(1);

impl Numbers {
    /// The connections that were counted so far.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Relaxed)
    }
}

impl Site {
    /// The number of the next connection, from 0.
    pub(crate) fn next_connection(&self) -> u64 {
        self.accepted.fetch_add(1, Relaxed);
        self.numbers.connections.fetch_add(1, Relaxed)
    }

    /// A number that no other connection of the process has.
    pub(crate) fn next_id(&self) -> u64 {
        CONNECTION_IDS.fetch_add(1, Relaxed)
    }

    /// The number of the next exchange, from 0. The exchanges of a test are counted separately, so that tests that run
    /// at the same time do not change each other's dice.
    pub(crate) fn number_of(&self, test_id: Option<&str>) -> u64 {
        let Some(test_id) = test_id else { return self.numbers.exchanges.fetch_add(1, Relaxed) };
        let test = self.numbers.hasher.hash_one(test_id);
        let mut by_test = self.numbers.by_test.lock().unwrap_or_else(PoisonError::into_inner);
        if by_test.len() >= MAX_TESTS && !by_test.contains_key(&test) {
            by_test.clear();
        }
        let count = by_test.entry(test).or_default();
        *count += 1;
        *count - 1
    }

    /// The largest body or event that a toxic may edit, in bytes.
    pub(crate) fn max_edit_bytes(&self) -> usize {
        self.spec.max_edit_bytes.unwrap_or(16 * 1024 * 1024)
    }

    /// How long a client may take for a header section.
    pub(crate) fn header_timeout(&self) -> Duration {
        or(self.spec.header_timeout, 30_000)
    }

    /// How long a connection may be idle.
    pub(crate) fn idle_timeout(&self) -> Duration {
        or(self.spec.idle_timeout, 300_000)
    }

    /// How long a connection to an upstream may take.
    pub(crate) fn connect_timeout(&self) -> Duration {
        or(self.spec.connect_timeout, 10_000)
    }
}

fn or(given: Option<Millis>, default_ms: u64) -> Duration {
    given.map_or_else(|| Duration::from_millis(default_ms), Duration::from)
}
