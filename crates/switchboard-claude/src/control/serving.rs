//! What the CLI asks, and is being answered.
//!
//! Invariant: a request is answered once, or, when the CLI no longer wants it, not at all.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

#[derive(Debug, Default)]
pub(super) struct Serving(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    count: u64,
    served: HashMap<String, Served>,
}

/// A request that is being answered. A later one may have its id, once the CLI has let go of it.
#[derive(Clone, Debug)]
pub(super) struct Served {
    number: u64,
    pub(super) stop: CancellationToken,
}

impl Serving {
    /// Enters a request. `None`: one of that id is being answered already.
    pub(super) fn begin(&self, id: &str, all: &CancellationToken) -> Option<Served> {
        let mut table = self.lock();
        table.count += 1;
        let number = table.count;
        match table.served.entry(id.to_owned()) {
            Entry::Occupied(_) => None,
            Entry::Vacant(vacant) => {
                let stop = all.child_token();
                Some(vacant.insert(Served { number, stop }).clone())
            }
        }
    }

    /// Whether the answer, which is there, is still wanted.
    pub(super) fn is_wanted(&self, id: &str, served: &Served) -> bool {
        let mut table = self.lock();
        let is_this = |known: &Served| known.number == served.number;
        let is_wanted = table.served.get(id).is_some_and(is_this);
        if is_wanted {
            table.served.remove(id);
        }
        is_wanted
    }

    /// The CLI no longer wants an answer.
    pub(super) fn cancel(&self, id: &str) {
        let served = self.lock().served.remove(id);
        if let Some(served) = served {
            served.stop.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_was_cancelled_takes_nothing_from_a_later_one_of_its_id() {
        let serving = Serving::default();
        let all = CancellationToken::new();
        let first = serving.begin("c", &all).unwrap();
        assert!(serving.begin("c", &all).is_none());
        serving.cancel("c");
        assert!(first.stop.is_cancelled());
        let second = serving.begin("c", &all).unwrap();
        assert!(!serving.is_wanted("c", &first));
        assert!(serving.is_wanted("c", &second));
        assert!(!serving.is_wanted("c", &second));
    }
}
