//! The table of CLI requests that this program is answering.
//!
//! Invariant: each request in the table gets one response, or none if the CLI cancels the request
//! or the connection ends first.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

#[derive(Debug, Default)]
pub(super) struct IncomingRequests(Mutex<IncomingTable>);

#[derive(Debug, Default)]
struct IncomingTable {
    count: u64,
    requests: HashMap<String, IncomingRequest>,
}

/// A CLI request whose response has not been sent yet.
#[derive(Clone, Debug)]
pub(super) struct IncomingRequest {
    /// Number of the request in order of arrival. Distinguishes it from a later request with the
    /// same id, because the CLI may reuse the id of a cancelled request.
    sequence: u64,
    pub(super) stop: CancellationToken,
}

impl IncomingRequests {
    /// Registers a request and returns its entry. Returns `None` if the table already contains a
    /// request with this id.
    pub(super) fn begin(&self, id: &str, stop_all: &CancellationToken) -> Option<IncomingRequest> {
        let mut table = self.lock();
        table.count += 1;
        let sequence = table.count;
        match table.requests.entry(id.to_owned()) {
            Entry::Occupied(_) => None,
            Entry::Vacant(vacant) => {
                let stop = stop_all.child_token();
                Some(vacant.insert(IncomingRequest { sequence, stop }).clone())
            }
        }
    }

    /// Removes a request whose handler has finished. Returns whether the response may be sent:
    /// false if the CLI has cancelled the request, or if the request was already removed.
    pub(super) fn finish(&self, id: &str, request: &IncomingRequest) -> bool {
        let mut table = self.lock();
        let is_same = |known: &IncomingRequest| known.sequence == request.sequence;
        let is_open = table.requests.get(id).is_some_and(is_same);
        if is_open {
            table.requests.remove(id);
        }
        is_open
    }

    /// Removes a request that the CLI cancelled, and stops its handler.
    pub(super) fn cancel(&self, id: &str) {
        let request = self.lock().requests.remove(id);
        if let Some(request) = request {
            request.stop.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, IncomingTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancellation_does_not_affect_reused_id() {
        let incoming = IncomingRequests::default();
        let stop_all = CancellationToken::new();
        let first = incoming.begin("c", &stop_all).unwrap();
        assert!(incoming.begin("c", &stop_all).is_none());
        incoming.cancel("c");
        assert!(first.stop.is_cancelled());
        let second = incoming.begin("c", &stop_all).unwrap();
        assert!(!incoming.finish("c", &first));
        assert!(incoming.finish("c", &second));
        assert!(!incoming.finish("c", &second));
    }
}
