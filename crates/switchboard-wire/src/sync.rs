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
/// Wrap what every call writes. Fields beside it that are only read would otherwise be evicted from
/// the caches of the other cores with each write.
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
