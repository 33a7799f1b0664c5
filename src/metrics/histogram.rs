//! How often something took how long.
use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::{MetricType, TypedMetric},
};

/// The upper bounds of exchanges and their first bytes, in seconds: from a refusal to the longest answer of a model that
/// thinks.
pub(super) const EXCHANGES: [f64; 16] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0];

/// The upper bounds of the time between two events of a stream, in seconds: from events that come together to a stall.
pub(super) const GAPS: [f64; 15] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// The upper bounds of what toxics hold, in seconds: from a slicer's pauses to a hang.
pub(super) const WAITS: [f64; 14] =
    [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Counts durations by class. The crate's own histogram takes a lock for each.
#[derive(Debug)]
pub(super) struct Histogram {
    /// The classes' upper bounds, in seconds.
    bounds: &'static [f64],
    /// Of durations up to the bound and over the one before; the last is of those over all bounds.
    counts: Box<[AtomicU64]>,
    /// The sum of the durations.
    nanos: AtomicU64,
}

impl Histogram {
    /// Nothing counted yet. The bounds rise.
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::default()).collect();
        Self { bounds, counts, nanos: AtomicU64::default() }
    }

    /// Counts a duration.
    pub(super) fn add(&self, duration: Duration) {
        self.add_times(duration, 1);
    }

    /// Counts so many equal durations.
    pub(super) fn add_times(&self, duration: Duration, times: u64) {
        if times == 0 {
            return;
        }
        let seconds = duration.as_secs_f64();
        let class = self.bounds.partition_point(|bound| *bound < seconds);
        self.counts[class].fetch_add(times, Relaxed);
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        if nanos > 0 {
            self.nanos.fetch_add(nanos.saturating_mul(times), Relaxed);
        }
    }

    /// How many durations were counted.
    pub(super) fn count(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Relaxed)).sum()
    }
}

impl TypedMetric for &Histogram {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for &Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let classes: Vec<_> = bounds.zip(self.counts.iter().map(|count| count.load(Relaxed))).collect();
        // Read once: the number of all has to equal the last class.
        let count = classes.iter().map(|(_, count)| count).sum();
        let sum = Duration::from_nanos(self.nanos.load(Relaxed)).as_secs_f64();
        encoder.encode_histogram::<NoLabelSet>(sum, count, &classes, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}
