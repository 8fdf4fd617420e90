//! What threads share: a lock that does not care whether another holder panicked, and room of its own
//! for what many of them write to.

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks for a short section that never awaits. What we guard is valid after every statement, so a
/// panic elsewhere does not make it unusable.
#[inline]
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What every call writes to, in lines of the cache of its own: what lies beside it is only read, and
/// would be fetched from the other core again and again.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct CachePadded<T>(pub T);

impl<T> Deref for CachePadded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
