//! A bounded map that forgets what has not been asked for lately.

use std::{collections::HashMap, hash::Hash, mem};

/// Two generations: when the young one is full, it becomes the old one, and what was old and not asked for again is
/// dropped. An approximation of least-recently-used with constant cost.
pub(super) struct Cache<K, V> {
    generation: usize,
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K: Eq + Hash + Clone, V: Clone> Cache<K, V> {
    /// Holds at most `capacity` entries, at least half of them the most recently used.
    pub(super) fn new(capacity: usize) -> Self {
        Self { generation: capacity / 2, young: HashMap::new(), old: HashMap::new() }
    }

    pub(super) fn find(&mut self, key: &K) -> Option<V> {
        if let Some(value) = self.young.get(key) {
            return Some(value.clone());
        }
        let (key, value) = self.old.remove_entry(key)?;
        self.insert(key, value.clone());
        Some(value)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.generation && !self.young.contains_key(&key) {
            self.old = mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_within_its_bound_and_keeps_what_is_used() {
        let mut cache = Cache::new(8);
        cache.insert(0, "kept");
        for key in 1..1000 {
            cache.insert(key, "passing");
            assert_eq!(cache.find(&0), Some("kept"), "after {key}");
            assert!(cache.young.len() + cache.old.len() <= 8);
        }
        assert_eq!(cache.find(&1), None);
        assert_eq!(cache.find(&999), Some("passing"));
    }

    #[test]
    fn a_newer_value_replaces_an_older_one_in_either_generation() {
        let mut cache = Cache::new(4);
        cache.insert(1, "first");
        cache.insert(2, "other");
        cache.insert(3, "other");
        cache.insert(1, "second");
        assert_eq!(cache.find(&1), Some("second"));
        cache.insert(1, "third");
        assert_eq!(cache.find(&1), Some("third"));
        assert_eq!(cache.young.len() + cache.old.len(), 3);
    }
}
