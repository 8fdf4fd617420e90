//! Requests of ours that the CLI has not answered yet.
//!
//! Invariant: every one of them ends: with its answer, with the end of the connection, or because
//! nobody waits for it any more. Answers to anything else change nothing.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::frame::Answer;
use super::outcome::Outcome;

#[derive(Clone, Debug)]
pub(super) struct Pending {
    table: Arc<Mutex<Table>>,
}

#[derive(Debug)]
struct Table {
    count: u64,
    /// Sets the ids of this connection apart from those of others.
    salt: u64,
    waiting: HashMap<String, oneshot::Sender<Answer>>,
    end: Option<Outcome>,
}

/// A request under way. Dropped, it is forgotten.
#[derive(Debug)]
pub(super) struct Ticket {
    id: String,
    answer: oneshot::Receiver<Answer>,
    pending: Pending,
}

impl Pending {
    pub(super) fn new() -> Self {
        Self {
            table: Arc::new(Mutex::new(Table {
                count: 0,
                salt: RandomState::new().build_hasher().finish(),
                waiting: HashMap::new(),
                end: None,
            })),
        }
    }

    /// An id that was not used before.
    pub(super) fn next_id(&self) -> String {
        let mut table = self.lock();
        table.count += 1;
        format!("req_{}_{:08x}", table.count, table.salt & 0xffff_ffff)
    }

    /// Enters a request, unless the connection is over.
    pub(super) fn enter(&self) -> Result<Ticket, Outcome> {
        let id = self.next_id();
        let (sender, answer) = oneshot::channel();
        let mut table = self.lock();
        if let Some(end) = &table.end {
            return Err(end.clone());
        }
        table.waiting.insert(id.clone(), sender);
        drop(table);
        let pending = self.clone();
        Ok(Ticket {
            id,
            answer,
            pending,
        })
    }

    pub(super) fn answered(&self, id: &str, answer: Answer) {
        let waiting = self.lock().waiting.remove(id);
        match waiting {
            Some(waiting) => drop(waiting.send(answer)),
            None => tracing::debug!(id, "an answer to nothing that is being asked"),
        }
    }

    /// The connection is over, and all that is under way with it.
    pub(super) fn end(&self, outcome: Outcome) {
        let mut table = self.lock();
        table.end.get_or_insert(outcome);
        let waiting = std::mem::take(&mut table.waiting);
        drop(table);
        drop(waiting);
    }

    /// Whether the CLI owes an answer to somebody.
    pub(super) fn is_waiting(&self) -> bool {
        !self.lock().waiting.is_empty()
    }

    /// How the connection ended, once it has.
    pub(super) fn outcome(&self) -> Outcome {
        self.lock().end.clone().unwrap_or(Outcome::Closed)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The answer, or how the connection ended before it came.
    pub(super) async fn answer(&mut self) -> Result<Answer, Outcome> {
        match (&mut self.answer).await {
            Ok(answer) => Ok(answer),
            Err(_) => Err(self.pending.outcome()),
        }
    }

    /// Whether the CLI still owes an answer.
    pub(super) fn is_open(&self) -> bool {
        self.pending.lock().waiting.contains_key(&self.id)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let waiting = self.pending.lock().waiting.remove(&self.id);
        drop(waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_go_to_their_requests_in_any_order_and_others_nowhere() {
        let pending = Pending::new();
        let mut tickets: Vec<_> = (0..100).map(|_| pending.enter().unwrap()).collect();
        pending.answered("req_1_unknown", Answer::Success(None));
        for ticket in tickets.iter().rev() {
            let payload = Some(ticket.id().to_owned());
            pending.answered(ticket.id(), Answer::Success(payload));
            pending.answered(ticket.id(), Answer::Success(None));
        }
        for ticket in &mut tickets {
            let expected = Answer::Success(Some(ticket.id().to_owned()));
            assert_eq!(ticket.answer().await.unwrap(), expected);
        }
    }

    #[tokio::test]
    async fn what_nobody_waits_for_is_forgotten_and_the_end_is_everybodys() {
        let pending = Pending::new();
        let given_up = pending.enter().unwrap();
        let mut kept = pending.enter().unwrap();
        assert!(given_up.is_open());
        drop(given_up);
        assert_eq!(pending.lock().waiting.len(), 1);
        pending.end(Outcome::Closed);
        assert!(matches!(kept.answer().await, Err(Outcome::Closed)));
        assert!(matches!(pending.enter(), Err(Outcome::Closed)));
    }
}
