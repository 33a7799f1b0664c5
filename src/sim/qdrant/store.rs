//! All collections of one simulated Qdrant.
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{collection::Collection, refusal::Refusal};

/// Most bytes that all collections together may hold, roughly counted.
pub(super) const MOST_BYTES: usize = 256 << 20;

/// A clone is the same store.
#[derive(Clone, Debug, Default)]
pub(in crate::sim) struct Store(Arc<Mutex<BTreeMap<String, Collection>>>);

impl Store {
    pub(super) fn create(&self, name: &str, collection: Collection) -> Result<(), Refusal> {
        let mut collections = self.lock();
        if collections.contains_key(name) {
            return Err(Refusal::exists(name));
        }
        if bytes(&collections) + collection.bytes() > MOST_BYTES {
            return Err(Refusal::full());
        }
        collections.insert(name.to_owned(), collection);
        Ok(())
    }

    /// Whether there was one.
    pub(super) fn delete(&self, name: &str) -> bool {
        self.lock().remove(name).is_some()
    }

    pub(super) fn names(&self) -> BTreeSet<String> {
        self.lock().keys().cloned().collect()
    }

    pub(super) fn read<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Collection) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        read(self.lock().get(name).ok_or_else(|| no_collection(name))?)
    }

    /// Changes a collection; the change's number.
    pub(super) fn write(
        &self,
        name: &str,
        change: impl FnOnce(&mut Collection) -> Result<(), Refusal>,
    ) -> Result<u64, Refusal> {
        let mut collections = self.lock();
        let all = bytes(&collections);
        let collection = collections.get_mut(name).ok_or_else(|| no_collection(name))?;
        collection.set_most_bytes(MOST_BYTES - (all - collection.bytes()));
        change(collection)?;
        Ok(collection.next_operation())
    }

    /// A panic while the lock was held cannot leave a collection half changed in a way that matters here.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Collection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bytes(collections: &BTreeMap<String, Collection>) -> usize {
    collections.values().map(Collection::bytes).sum()
}

fn no_collection(name: &str) -> Refusal {
    Refusal::not_found(format!("Collection `{name}` doesn't exist!"))
}
