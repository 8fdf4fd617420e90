//! One request from its making to its end.
//!
//! Invariant: a request that is no longer waited for has left the table, and a server that may know
//! of it has been told.

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::connection::Connection;
use super::life::{Expired, Look, Patience};
use super::table::{Kind, Pending, Reply};
use super::{Delivery, RequestError, SessionEnd};
use crate::mcp::Progress;
use crate::sync::lock;
use crate::wire::{Answer, encode};

/// How a request is made.
pub(super) struct Ask {
    pub(super) kind: Kind,
    pub(super) patience: Patience,
    pub(super) progress: Option<mpsc::Sender<Progress>>,
}

impl Ask {
    pub(super) fn plain(patience: Patience) -> Self {
        Self {
            kind: Kind::Ordinary,
            patience,
            progress: None,
        }
    }
}

/// A request in the table. Dropped while open, it is cancelled.
struct OpenRequest<'a> {
    connection: &'a Connection,
    id: u64,
    is_open: bool,
}

impl OpenRequest<'_> {
    /// The outbox did not take it: the server never hears of it.
    fn was_not_sent(&mut self) -> Option<Pending> {
        self.is_open = false;
        lock(&self.connection.requests).take(self.id)
    }
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        if self.is_open {
            self.connection.give_up(self.id, "cancelled by the caller");
        }
    }
}

impl Connection {
    /// Takes a request out of the table, tells the server if it may know of it, and says what is
    /// known.
    pub(super) fn give_up(&self, id: u64, reason: &str) -> (Option<Pending>, Delivery) {
        let pending = lock(&self.requests).take(id);
        if self.outbox.withdraw(id) {
            return (pending, Delivery::NotSent);
        }
        let kind = pending.as_ref().map(|pending| pending.kind);
        if kind.is_some_and(|kind| !matches!(kind, Kind::Handshake | Kind::Probe)) {
            // If the server cannot be told any more, it is gone, and so is the request.
            let _ = self.send(None, encode::cancelled(id, reason));
        }
        (pending, Delivery::Unknown)
    }

    /// Makes a request, and waits for its answer as long as `ask` has patience. It is sent before
    /// the future is polled, unless there is no room for it among those that wait to be written.
    pub(super) fn request(
        &self,
        ask: Ask,
        encode: impl Fn(u64) -> Vec<u8>,
    ) -> impl Future<Output = Result<Answer, RequestError>> {
        let now = ask.patience.began();
        let mut sent = self.send_request(ask, now, &encode);
        // By reference, because what is moved inside a future takes its room twice.
        async move {
            match &mut sent {
                Ok(Attempt::Sent(sent)) => sent.answer().await,
                Ok(Attempt::NoRoom { ask, size }) => {
                    // It is made anew then: nothing is kept of those that wait.
                    let ask = std::mem::replace(ask, Ask::plain(ask.patience));
                    Box::pin(self.request_when_there_is_room(ask, *size, encode)).await
                }
                Err(error) => Err(error.clone()),
            }
        }
    }

    async fn request_when_there_is_room(
        &self,
        mut ask: Ask,
        mut size: usize,
        encode: impl Fn(u64) -> Vec<u8>,
    ) -> Result<Answer, RequestError> {
        let wait = ask.patience.start(&self.peer.life);
        loop {
            let turn = tokio::select! {
                biased;
                expired = wait.run_out(&self.peer.life) => return Err(never_sent(expired)),
                turn = self.outbox.room_for(size) => turn,
            };
            // Those whose time is up make room, too, in the very moment in which it is up for others.
            let now = Instant::now();
            if let Look::Over(expired) = wait.look(&self.peer.life, now) {
                return Err(never_sent(expired));
            }
            let attempt = self.send_request(ask, now, &encode)?;
            drop(turn);
            match attempt {
                Attempt::Sent(mut sent) => return sent.answer().await,
                // Somebody who did not have to wait was quicker.
                Attempt::NoRoom {
                    ask: back,
                    size: now,
                } => (ask, size) = (back, now),
            }
        }
    }

    fn send_request(
        &self,
        ask: Ask,
        now: Instant,
        encode: impl Fn(u64) -> Vec<u8>,
    ) -> Result<Attempt<'_>, RequestError> {
        let Ask {
            kind,
            patience,
            progress,
        } = ask;
        self.peer.context.neighbour.is_asked(now);
        let wait = patience.start(&self.peer.life);
        let (reply, answer) = oneshot::channel();
        let end = wait.end(&self.peer.life);
        let pending = Pending::new(reply, progress, kind, wait);
        let (id, under_way, is_sooner) = {
            let mut table = lock(&self.requests);
            let inserted = table.insert(pending);
            let id = inserted.map_err(|end| RequestError::Lost {
                delivery: Delivery::NotSent,
                end,
            })?;
            (id, table.under_way(), table.hasten(end))
        };
        let mut open = OpenRequest {
            connection: self,
            id,
            is_open: true,
        };
        if is_sooner {
            self.sooner.notify_one();
        }
        let line = encode(id);
        let size = line.len();
        let limit = self.peer.context.limits.message_bytes;
        if size > limit {
            open.was_not_sent();
            return Err(RequestError::TooLong { limit });
        }
        let Err(refused) = self.submit(Some(id), line, under_way) else {
            return Ok(Attempt::Sent(Sent { open, answer }));
        };
        match (open.was_not_sent(), refused) {
            (Some(pending), RequestError::Congested { limit }) if size <= limit => {
                let progress = pending.progress;
                let ask = Ask {
                    kind,
                    patience,
                    progress,
                };
                Ok(Attempt::NoRoom { ask, size })
            }
            (_, refused) => Err(refused),
        }
    }
}

fn never_sent(Expired { after, idle }: Expired) -> RequestError {
    RequestError::TimedOut {
        after,
        idle,
        delivery: Delivery::NotSent,
        misaddressed: false,
    }
}

/// What came of the attempt to send a request.
enum Attempt<'a> {
    Sent(Sent<'a>),
    /// There is no room for it yet; so many bytes are needed.
    NoRoom {
        ask: Ask,
        size: usize,
    },
}

/// A request that is under way.
struct Sent<'a> {
    open: OpenRequest<'a>,
    answer: oneshot::Receiver<Reply>,
}

impl Sent<'_> {
    async fn answer(&mut self) -> Result<Answer, RequestError> {
        let reply = (&mut self.answer).await;
        self.open.is_open = false;
        match reply {
            Ok(Reply::Result(answer)) => Ok(answer),
            Ok(Reply::Error(error)) => Err(RequestError::Refused(error)),
            Ok(Reply::Unusable(problem)) => Err(RequestError::Unusable(problem)),
            Ok(Reply::TimedOut {
                after,
                idle,
                delivery,
                misaddressed,
            }) => Err(RequestError::TimedOut {
                after,
                idle,
                delivery,
                misaddressed,
            }),
            Ok(Reply::Lost { delivery, end }) => Err(RequestError::Lost { delivery, end }),
            Err(_) => Err(RequestError::Lost {
                delivery: Delivery::Unknown,
                end: SessionEnd::Closed,
            }),
        }
    }
}
