//! A lock that does not care whether another holder panicked.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks for a short section that never awaits. What we guard is valid after every statement, so a
/// panic elsewhere does not make it unusable.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
