//! The requests in flight of one adapter session, by id.
//!
//! Invariant: an id belongs to at most one request at a time. A request that has ended is not in
//! the table, so its id can be used again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use switchboard_wire::mcp::{ErrorObject, Json};
use switchboard_wire::sync::lock;
use tokio::sync::oneshot;

use super::jsonrpc::Id;

#[derive(Default)]
pub(super) struct InFlight {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    requests: HashMap<Id, (u64, oneshot::Sender<RequestOutcome>)>,
    /// Number of the latest request. Each request has its own number, which distinguishes it from
    /// other requests with the same id.
    last_number: u64,
    /// The error with which every further request fails. `None` while requests are accepted.
    ended: Option<ErrorObject>,
}

/// How a request ended: by a message of the client or of the server, or because the connection
/// ended.
pub(super) enum RequestOutcome {
    /// The client sent `notifications/cancelled`.
    Cancelled,
    /// The server responded. Holds the whole response message.
    Answered(Json),
    /// There will be no response. Holds the error for the client.
    Failed(ErrorObject),
}

/// Receives the outcome of a request, and removes the request from the table when dropped.
pub(super) struct InFlightGuard {
    pub(super) id: Id,
    pub(super) outcome: oneshot::Receiver<RequestOutcome>,
    number: u64,
    table: Arc<InFlight>,
}

impl InFlight {
    pub(super) fn register(self: &Arc<Self>, id: &Id) -> Result<InFlightGuard, ErrorObject> {
        let mut state = lock(&self.state);
        if let Some(why) = &state.ended {
            return Err(why.clone());
        }
        if state.requests.contains_key(id) {
            return Err(ErrorObject::new(
                ErrorObject::INVALID_REQUEST,
                "a request with this id is in flight; use each id once",
            ));
        }
        let (sender, outcome) = oneshot::channel();
        state.last_number += 1;
        let number = state.last_number;
        state.requests.insert(id.clone(), (number, sender));
        Ok(InFlightGuard {
            id: id.clone(),
            outcome,
            number,
            table: Arc::clone(self),
        })
    }

    /// Ends the request with this id. Does nothing if no such request is in flight.
    pub(super) fn resolve(&self, id: &Id, outcome: RequestOutcome) {
        let entry = lock(&self.state).requests.remove(id);
        if let Some((_, sender)) = entry {
            let _ = sender.send(outcome);
        }
    }

    /// Fails all requests in flight and all future requests. Does nothing on further calls, so the
    /// first error is kept.
    pub(super) fn fail_all(&self, why: &ErrorObject) {
        let requests = {
            let mut state = lock(&self.state);
            if state.ended.is_some() {
                return;
            }
            state.ended = Some(why.clone());
            std::mem::take(&mut state.requests)
        };
        for (_, sender) in requests.into_values() {
            let _ = sender.send(RequestOutcome::Failed(why.clone()));
        }
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let mut state = lock(&self.table.state);
        let is_ours = |(number, _): &(u64, _)| *number == self.number;
        if state.requests.get(&self.id).is_some_and(is_ours) {
            state.requests.remove(&self.id);
        }
    }
}
