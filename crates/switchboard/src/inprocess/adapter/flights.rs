//! The requests that are under way in one session.
//!
//! Invariant: an id stands for one request at a time. A request that has ended, in whatever way, is not
//! in here any more; its id may be used again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use super::message::Id;
use crate::mcp::{ErrorObject, Json};
use crate::sync::lock;

#[derive(Default)]
pub(super) struct Flights {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    under_way: HashMap<Id, (u64, oneshot::Sender<Signal>)>,
    /// Tells requests with the same id apart.
    begun: u64,
    /// Why there can be no more, once that is so.
    over: Option<ErrorObject>,
}

/// What can happen to a request from outside.
pub(super) enum Signal {
    /// Nobody waits for it any more.
    Cancelled,
    /// Its answer, as it was sent.
    Answered(Json),
    /// There will be no answer.
    Failed(ErrorObject),
}

/// A request's place among those under way; it is given up by dropping this.
pub(super) struct Ticket {
    pub(super) id: Id,
    pub(super) signal: oneshot::Receiver<Signal>,
    number: u64,
    flights: Arc<Flights>,
}

impl Flights {
    pub(super) fn enter(self: &Arc<Self>, id: &Id) -> Result<Ticket, ErrorObject> {
        let mut state = lock(&self.state);
        if let Some(why) = &state.over {
            return Err(why.clone());
        }
        if state.under_way.contains_key(id) {
            return Err(ErrorObject::new(
                ErrorObject::INVALID_REQUEST,
                "a request with this id is under way: use an id once",
            ));
        }
        let (sender, signal) = oneshot::channel();
        state.begun += 1;
        let number = state.begun;
        state.under_way.insert(id.clone(), (number, sender));
        Ok(Ticket {
            id: id.clone(),
            signal,
            number,
            flights: Arc::clone(self),
        })
    }

    /// Tells the request with this id, if there is one: what comes late changes nothing.
    pub(super) fn signal(&self, id: &Id, signal: Signal) {
        let entry = lock(&self.state).under_way.remove(id);
        if let Some((_, sender)) = entry {
            let _ = sender.send(signal);
        }
    }

    /// Fails all that is under way and all that is to come. The first reason counts.
    pub(super) fn end(&self, why: &ErrorObject) {
        let under_way = {
            let mut state = lock(&self.state);
            if state.over.is_some() {
                return;
            }
            state.over = Some(why.clone());
            std::mem::take(&mut state.under_way)
        };
        for (_, sender) in under_way.into_values() {
            let _ = sender.send(Signal::Failed(why.clone()));
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = lock(&self.flights.state);
        let is_ours = |(number, _): &(u64, _)| *number == self.number;
        if state.under_way.get(&self.id).is_some_and(is_ours) {
            state.under_way.remove(&self.id);
        }
    }
}
