//! How much toxics hold: in one lane, in one proxy, in the process.
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// What all lanes of one proxy hold, in bytes.
#[derive(Debug, Default)]
pub struct ProxyHeld(AtomicUsize);

/// What all lanes of the process hold, in bytes.
static ALL_HELD: AtomicUsize = AtomicUsize::new(0);

/// Beyond the guaranteed amounts lanes take nothing more in once all of them together hold this much, so that a delay
/// on many connections does not fill the memory.
const MOST_HELD: usize = 64 * 1024 * 1024;

/// What the lanes of one proxy may hold, however much other proxies hold: what the toxics allow one lane, 31 MiB, and
/// a little more.
const OF_PROXY: usize = 32 * 1024 * 1024;

/// What any lane may hold, however much others hold.
const OF_LANE: usize = 256 * 1024;

/// What one lane holds, counted in its proxy and in the process.
pub(super) struct HeldBytes {
    bytes: usize,
    proxy: Arc<ProxyHeld>,
}

impl HeldBytes {
    pub(super) fn within(proxy: Arc<ProxyHeld>) -> Self {
        Self { bytes: 0, proxy }
    }

    pub(super) fn set(&mut self, bytes: usize) {
        for held in [&self.proxy.0, &ALL_HELD] {
            if bytes >= self.bytes {
                held.fetch_add(bytes - self.bytes, Relaxed);
            } else {
                held.fetch_sub(self.bytes - bytes, Relaxed);
            }
        }
        self.bytes = bytes;
    }

    pub(super) fn may_grow(&self) -> bool {
        self.bytes < OF_LANE || self.proxy.0.load(Relaxed) < OF_PROXY || ALL_HELD.load(Relaxed) < MOST_HELD
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_proxy_holds_takes_nothing_from_another() {
        let (full, other) = (Arc::<ProxyHeld>::default(), Arc::<ProxyHeld>::default());
        let mut flooded: Vec<_> = (0..20).map(|_| HeldBytes::within(Arc::clone(&full))).collect();
        let mut last = HeldBytes::within(Arc::clone(&other));
        flooded.iter_mut().for_each(|lane| lane.set(4 * 1024 * 1024));
        assert!(flooded.iter().all(|lane| !lane.may_grow()), "80 MiB in one proxy");
        last.set(31 * 1024 * 1024);
        assert!(last.may_grow(), "31 MiB in the other");
        last.set(OF_PROXY);
        assert!(!last.may_grow(), "no more than what is guaranteed, while all hold too much");
        let mut late = HeldBytes::within(full);
        assert!(late.may_grow(), "a lane always has its own share");
        late.set(OF_LANE);
        assert!(!late.may_grow());
        drop(flooded);
        drop(late);
        assert!(last.may_grow(), "what was held is free again");
    }
}
