//! Limits the memory of all compiled schemas of one server.
//!
//! Invariant: a reservation is returned when the compiled schema that holds it is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum estimated memory of the compiled schemas of one server, in bytes.
const MAX_SERVER_BYTES: usize = 64 * 1024 * 1024;

/// The memory that is left for compiled schemas of one server. Clones share the same memory.
#[derive(Clone, Debug)]
pub struct SchemaBudget(Arc<AtomicUsize>);

impl Default for SchemaBudget {
    fn default() -> Self {
        Self(Arc::new(AtomicUsize::new(MAX_SERVER_BYTES)))
    }
}

impl SchemaBudget {
    /// Reserves memory for one compiled schema. Returns why not if too little memory is left.
    pub(super) fn reserve(&self, bytes: usize) -> Result<Reservation, String> {
        let reserved = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(bytes)
            });
        match reserved {
            Ok(_) => Ok(Reservation {
                budget: self.clone(),
                bytes,
            }),
            Err(_) => Err(format!(
                "the compiled schemas of the server would take more than {} MiB",
                MAX_SERVER_BYTES / (1024 * 1024)
            )),
        }
    }
}

/// Memory of a [`SchemaBudget`] that one compiled schema uses.
#[derive(Debug)]
pub(super) struct Reservation {
    budget: SchemaBudget,
    bytes: usize,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.0.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_reservation_is_returned() {
        let budget = SchemaBudget::default();
        let first = budget.reserve(MAX_SERVER_BYTES - 1).unwrap();
        assert!(budget.reserve(2).is_err());
        drop(first);
        assert!(budget.reserve(MAX_SERVER_BYTES).is_ok());
    }
}
