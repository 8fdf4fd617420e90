//! A mutex lock that ignores poisoning, and padding against false sharing.

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex for a short section that never awaits.
///
/// Poisoning is ignored: the guarded values are valid after every statement, so a panic of another
/// holder does not make them unusable.
#[inline]
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A value that shares its cache lines with no other value.
///
/// Wrap a field that every call writes. Otherwise, each write evicts the read-only fields beside it
/// from the caches of the other cores.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct CachePadded<T>(pub T);

impl<T> Deref for CachePadded<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}
