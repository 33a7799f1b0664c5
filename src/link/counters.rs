//! How many bytes have passed.
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// The bytes of one connection, or of many, counted while they flow.
#[derive(Debug, Default)]
pub struct Counters {
    /// From the client to the upstream.
    pub upstream: Traffic,
    /// From the upstream to the client.
    pub downstream: Traffic,
}

impl Counters {
    /// Counters of one connection whose bytes count in `total` too.
    pub fn within(total: &Arc<Self>) -> Self {
        Self {
            upstream: Traffic::within(total, |counters| &counters.upstream),
            downstream: Traffic::within(total, |counters| &counters.downstream),
        }
    }
}

impl AsRef<Self> for Counters {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// The bytes of one direction.
#[derive(Debug, Default)]
pub struct Traffic {
    received: AtomicU64,
    sent: AtomicU64,
    total: Option<Total>,
}

/// What one direction's bytes count in too.
#[derive(Debug)]
struct Total {
    counters: Arc<Counters>,
    direction: fn(&Counters) -> &Traffic,
}

impl Traffic {
    /// What the sender has sent us.
    pub fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    /// What we have sent the receiver.
    pub fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    fn within(counters: &Arc<Counters>, direction: fn(&Counters) -> &Self) -> Self {
        let total = Total { counters: Arc::clone(counters), direction };
        Self { total: Some(total), ..Self::default() }
    }

    fn total(&self) -> Option<&Self> {
        self.total.as_ref().map(|total| (total.direction)(&total.counters))
    }

    pub(super) fn add_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Relaxed);
        if let Some(total) = self.total() {
            total.add_received(bytes);
        }
    }

    pub(super) fn add_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Relaxed);
        if let Some(total) = self.total() {
            total.add_sent(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connections_bytes_count_in_the_total_too() {
        let total = Arc::new(Counters::default());
        let (one, two) = (Counters::within(&total), Counters::within(&total));
        one.upstream.add_received(3);
        two.upstream.add_received(4);
        two.downstream.add_sent(5);
        assert_eq!((one.upstream.received(), two.upstream.received()), (3, 4));
        assert_eq!((total.upstream.received(), total.downstream.sent()), (7, 5));
        assert_eq!((total.upstream.sent(), total.downstream.received()), (0, 0));
    }
}
