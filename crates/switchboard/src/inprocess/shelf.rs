//! What a server offers of one kind, by name and in the order in which it was put there.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Cheap to look into, however much there is.
pub(super) struct Shelf<T> {
    places: HashMap<Arc<str>, u64>,
    things: BTreeMap<u64, Arc<T>>,
    next: u64,
}

impl<T> Shelf<T> {
    /// Puts something there, in the place of what has the same name.
    pub(super) fn put(&mut self, name: Arc<str>, thing: T) {
        let place = *self.places.entry(name).or_insert_with(|| {
            self.next += 1;
            self.next
        });
        self.things.insert(place, Arc::new(thing));
    }

    /// Whether it was there.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        let place = self.places.remove(name);
        place.is_some_and(|place| self.things.remove(&place).is_some())
    }

    pub(super) fn find(&self, name: &str) -> Option<Arc<T>> {
        let place = self.places.get(name)?;
        self.things.get(place).cloned()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.things.is_empty()
    }

    pub(super) fn all(&self) -> Vec<Arc<T>> {
        self.things.values().cloned().collect()
    }
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self {
            places: HashMap::new(),
            things: BTreeMap::new(),
            next: 0,
        }
    }
}
