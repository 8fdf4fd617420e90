//! What the CLI asks, and is being answered.
//!
//! Invariant: a request is answered once, or, when the CLI no longer wants it, not at all.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

#[derive(Debug, Default)]
pub(super) struct Serving(Mutex<HashMap<String, CancellationToken>>);

impl Serving {
    /// Enters a request. `None`: one of that id is being answered already.
    pub(super) fn begin(&self, id: &str, all: &CancellationToken) -> Option<CancellationToken> {
        match self.lock().entry(id.to_owned()) {
            Entry::Occupied(_) => None,
            Entry::Vacant(vacant) => Some(vacant.insert(all.child_token()).clone()),
        }
    }

    /// Whether the answer, which is there, is still wanted.
    pub(super) fn is_wanted(&self, id: &str) -> bool {
        self.lock().remove(id).is_some()
    }

    /// The CLI no longer wants an answer.
    pub(super) fn cancel(&self, id: &str) {
        let served = self.lock().remove(id);
        if let Some(served) = served {
            served.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
