//! A mutex lock that ignores poisoning.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks for a short section that never awaits. The guarded data is valid after every statement, so
/// a panic of another holder does not make it unusable.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
