//! The table of requests that this program has sent to the CLI and that have no response yet.
//!
//! Invariant: every pending request ends with its response, with the end of the connection, or
//! because its future was dropped. A response with an unknown id is logged and dropped.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::close_reason::CloseReason;
use super::frame::Response;

#[derive(Clone, Debug)]
pub(super) struct PendingRequests {
    table: Arc<Mutex<PendingTable>>,
}

#[derive(Debug)]
struct PendingTable {
    count: u64,
    /// Part of every request id. Random, so that two connections do not use the same ids.
    id_suffix: u64,
    waiting: HashMap<String, oneshot::Sender<Response>>,
    end: Option<CloseReason>,
}

/// A request whose response has not arrived. Dropping it removes the request from the table.
#[derive(Debug)]
pub(super) struct PendingRequest {
    id: String,
    response: oneshot::Receiver<Response>,
    requests: PendingRequests,
}

impl PendingRequests {
    pub(super) fn new() -> Self {
        Self {
            table: Arc::new(Mutex::new(PendingTable {
                count: 0,
                id_suffix: RandomState::new().build_hasher().finish(),
                waiting: HashMap::new(),
                end: None,
            })),
        }
    }

    /// Returns an id that no other request of this connection has.
    pub(super) fn next_id(&self) -> String {
        let mut table = self.lock();
        table.count += 1;
        format!("req_{}_{:08x}", table.count, table.id_suffix & 0xffff_ffff)
    }

    /// Adds a request with a new id to the table. Fails if the connection has ended.
    pub(super) fn register(&self) -> Result<PendingRequest, CloseReason> {
        let id = self.next_id();
        let (sender, response) = oneshot::channel();
        let mut table = self.lock();
        if let Some(end) = &table.end {
            return Err(end.clone());
        }
        table.waiting.insert(id.clone(), sender);
        drop(table);
        let requests = self.clone();
        Ok(PendingRequest {
            id,
            response,
            requests,
        })
    }

    /// Passes a response to the request with this id. Logs a response with an unknown id.
    pub(super) fn complete(&self, id: &str, response: Response) {
        let waiting = self.lock().waiting.remove(id);
        match waiting {
            Some(waiting) => drop(waiting.send(response)),
            None => tracing::debug!(id, "response to an unknown request"),
        }
    }

    /// Fails all pending requests, and all that are registered later, with this reason.
    pub(super) fn end(&self, reason: CloseReason) {
        let mut table = self.lock();
        table.end.get_or_insert(reason);
        let waiting = std::mem::take(&mut table.waiting);
        drop(table);
        drop(waiting);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    /// Why the connection ended. Call it only after [`PendingRequests::end`].
    pub(super) fn close_reason(&self) -> CloseReason {
        self.lock().end.clone().unwrap_or(CloseReason::Closed)
    }

    fn lock(&self) -> MutexGuard<'_, PendingTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingRequest {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Waits for the response. Fails if the connection ends first.
    pub(super) async fn response(&mut self) -> Result<Response, CloseReason> {
        match (&mut self.response).await {
            Ok(response) => Ok(response),
            Err(_) => Err(self.requests.close_reason()),
        }
    }

    /// Whether the request still waits: the CLI has not responded, and the connection has not
    /// ended.
    pub(super) fn is_open(&self) -> bool {
        self.requests.lock().waiting.contains_key(&self.id)
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        let waiting = self.requests.lock().waiting.remove(&self.id);
        drop(waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn responses_match_requests_in_any_order() {
        let pending = PendingRequests::new();
        let mut requests: Vec<_> = (0..100).map(|_| pending.register().unwrap()).collect();
        pending.complete("req_1_unknown", Response::Success(None));
        for request in requests.iter().rev() {
            let payload = Some(request.id().to_owned());
            pending.complete(request.id(), Response::Success(payload));
            pending.complete(request.id(), Response::Success(None));
        }
        for request in &mut requests {
            let expected = Response::Success(Some(request.id().to_owned()));
            assert_eq!(request.response().await.unwrap(), expected);
        }
    }

    #[tokio::test]
    async fn connection_end_fails_open_requests() {
        let pending = PendingRequests::new();
        let dropped = pending.register().unwrap();
        let mut kept = pending.register().unwrap();
        assert!(dropped.is_open());
        drop(dropped);
        assert_eq!(pending.lock().waiting.len(), 1);
        pending.end(CloseReason::Closed);
        assert!(matches!(kept.response().await, Err(CloseReason::Closed)));
        assert!(matches!(pending.register(), Err(CloseReason::Closed)));
    }
}
