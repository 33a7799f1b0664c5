//! A list that is read without a lock.
use std::{iter::successors, sync::OnceLock};

/// A short list that only grows, at its end, and is read without a lock: each place is filled once.
#[derive(Debug)]
pub(super) struct Chain<T>(OnceLock<Box<Link<T>>>);

#[derive(Debug)]
struct Link<T> {
    item: T,
    rest: Chain<T>,
}

impl<T> Default for Chain<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T> Chain<T> {
    /// The item that fits. If there is none, the new one, which has to fit.
    pub(super) fn find_or_add(&self, fits: impl Fn(&T) -> bool, new: impl Fn() -> T) -> &T {
        let mut place = self;
        loop {
            // Another thread may fill the place first, and not with what fits.
            let link = place.0.get_or_init(|| Box::new(Link { item: new(), rest: Self::default() }));
            if fits(&link.item) {
                return &link.item;
            }
            place = &link.rest;
        }
    }

    /// The items, in the order in which they came.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        successors(self.0.get(), |link| link.rest.0.get()).map(|link| &link.item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_add_the_same_items_at_once_share_them() {
        let chain = Chain::<(u8, std::sync::atomic::AtomicU64)>::default();
        std::thread::scope(|scope| {
            for from in 0..4_u8 {
                let chain = &chain;
                scope.spawn(move || {
                    for round in 0..1_000_u16 {
                        let wanted = (from + u8::try_from(round % 7).unwrap()) % 7;
                        let item = chain.find_or_add(|item| item.0 == wanted, || (wanted, 0.into()));
                        assert_eq!(item.0, wanted);
                        item.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    }
                });
            }
        });
        let mut found: Vec<_> = chain.iter().map(|item| item.0).collect();
        found.sort_unstable();
        assert_eq!(found, [0, 1, 2, 3, 4, 5, 6], "each once");
        let total: u64 = chain.iter().map(|item| item.1.load(std::sync::atomic::Ordering::Relaxed)).sum();
        assert_eq!(total, 4_000);
    }
}
