//! How much memory all messages of a host may take together.
//!
//! Small messages are free: their number is bounded by the calls under way. Large ones are entered
//! here for as long as they are held; what does not fit any more is let go, and its call is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Messages up to this size, in bytes, are not counted.
pub const FREE: usize = 64 * 1024;

/// The budget of a host; cheap to clone.
#[derive(Clone, Debug)]
pub struct Budget {
    left: Arc<AtomicUsize>,
    limit: usize,
}

impl Budget {
    pub fn new(limit: usize) -> Self {
        Self {
            left: Arc::new(AtomicUsize::new(limit)),
            limit,
        }
    }

    /// What it began with.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Whether `held` could be made large enough for a message of this size.
    pub fn has_room(&self, held: Option<&Held>, size: usize) -> bool {
        let has = held.map_or(0, |held| held.bytes);
        size <= FREE || size.saturating_sub(has) <= self.left.load(Ordering::Relaxed)
    }

    /// Makes `held` large enough for a message of this size. False, and `held` is as before, when
    /// that much is not left.
    pub fn grow(&self, held: &mut Option<Held>, size: usize) -> bool {
        if size <= FREE {
            return true;
        }
        let has = held.as_ref().map_or(0, |held| held.bytes);
        let more = size.saturating_sub(has);
        let take = |left: usize| left.checked_sub(more);
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        if taken.is_ok() {
            let held = held.get_or_insert_with(|| Held {
                left: Arc::clone(&self.left),
                bytes: 0,
            });
            held.bytes += more;
        }
        taken.is_ok()
    }
}

/// A share of the budget, given back when it is dropped.
#[derive(Debug)]
pub struct Held {
    left: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_large_is_counted_until_it_is_dropped() {
        let budget = Budget::new(10 * FREE);
        let (mut one, mut other) = (None, None);
        assert!(budget.grow(&mut one, FREE) && one.is_none());
        assert!(budget.grow(&mut other, 9 * FREE) && budget.grow(&mut other, 10 * FREE));
        assert!(!budget.grow(&mut one, FREE + 1));
        let moved = other.take();
        assert!(!budget.grow(&mut one, FREE + 1));
        drop(moved);
        assert!(budget.grow(&mut one, 2 * FREE) && budget.grow(&mut one, 10 * FREE));
        assert!(!budget.grow(&mut one, 11 * FREE));
    }
}
