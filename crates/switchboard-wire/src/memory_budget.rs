//! The memory budget of the large messages of a host.
//!
//! Messages of at most [`UNCOUNTED_BYTES`] are not counted: the number of requests in flight bounds
//! them. A larger message holds a [`MemoryPermit`] for its size. If the budget is used up, the
//! reservation fails, and the caller drops the message and fails its request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Messages up to this size, in bytes, are not counted.
pub const UNCOUNTED_BYTES: usize = 64 * 1024;

/// The memory budget of a host. Clones share it.
#[derive(Clone, Debug)]
pub struct MemoryBudget {
    remaining: Arc<AtomicUsize>,
    limit: usize,
}

impl MemoryBudget {
    /// Creates a budget of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            remaining: Arc::new(AtomicUsize::new(limit)),
            limit,
        }
    }

    /// The size of the whole budget, in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Whether [`grow`](Self::grow) would succeed now.
    #[inline]
    pub fn has_room(&self, permit: Option<&MemoryPermit>, size: usize) -> bool {
        let reserved = permit.map_or(0, |permit| permit.bytes);
        size <= UNCOUNTED_BYTES
            || size.saturating_sub(reserved) <= self.remaining.load(Ordering::Relaxed)
    }

    /// Grows `permit` to cover a message of `size` bytes. Returns false and leaves `permit`
    /// unchanged if the budget does not allow it.
    #[inline]
    pub fn grow(&self, permit: &mut Option<MemoryPermit>, size: usize) -> bool {
        size <= UNCOUNTED_BYTES || self.reserve_counted(permit, size)
    }

    fn reserve_counted(&self, permit: &mut Option<MemoryPermit>, size: usize) -> bool {
        let reserved = permit.as_ref().map_or(0, |permit| permit.bytes);
        let missing = size.saturating_sub(reserved);
        let subtract = |remaining: usize| remaining.checked_sub(missing);
        let update = self
            .remaining
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, subtract);
        if update.is_ok() {
            let permit = permit.get_or_insert_with(|| MemoryPermit {
                remaining: Arc::clone(&self.remaining),
                bytes: 0,
            });
            permit.bytes += missing;
        }
        update.is_ok()
    }
}

/// A share of the budget. Dropping the permit returns the share.
#[derive(Debug)]
pub struct MemoryPermit {
    remaining: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for MemoryPermit {
    fn drop(&mut self) {
        self.remaining.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_messages_count_until_dropped() {
        const UNIT: usize = UNCOUNTED_BYTES;
        let budget = MemoryBudget::new(10 * UNIT);
        let (mut one, mut other) = (None, None);
        assert!(budget.grow(&mut one, UNIT) && one.is_none());
        assert!(budget.grow(&mut other, 9 * UNIT) && budget.grow(&mut other, 10 * UNIT));
        assert!(!budget.grow(&mut one, UNIT + 1));
        let moved = other.take();
        assert!(!budget.grow(&mut one, UNIT + 1));
        drop(moved);
        assert!(budget.grow(&mut one, 2 * UNIT) && budget.grow(&mut one, 10 * UNIT));
        assert!(!budget.grow(&mut one, 11 * UNIT));
    }
}
