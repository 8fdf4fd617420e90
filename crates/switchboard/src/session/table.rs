//! The requests that wait for an answer.
//!
//! Invariant: a request leaves the table exactly once, by an answer, by being given up, or by the
//! end of the session; whoever takes it out is the one who ends it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::inquiry::is_brief;
use super::life::{Expired, Life, Look, Wait};
use super::{Delivery, SessionEnd};
use crate::mcp::{ErrorObject, Progress};
use crate::wire::{Answer, AnswerId, Problem};

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Reply {
    Result(Answer),
    Error(ErrorObject),
    /// The server answered, but what it said cannot be used.
    Unusable(Problem),
    /// Its time was up.
    TimedOut {
        after: Duration,
        idle: bool,
        delivery: Delivery,
        /// Answers came meanwhile that name none of our requests.
        misaddressed: bool,
    },
    /// The session ended first.
    Lost {
        delivery: Delivery,
        end: SessionEnd,
    },
}

pub(super) struct Pending {
    pub(super) reply: oneshot::Sender<Reply>,
    pub(super) progress: Option<mpsc::Sender<Progress>>,
    /// Progress notes dropped since the last one that was taken.
    skipped: u64,
    pub(super) kind: Kind,
    pub(super) wait: Wait,
    /// How many answers named none of our requests before it was made; the table knows.
    misaddressed_before: u64,
}

impl Pending {
    pub(super) fn new(
        reply: oneshot::Sender<Reply>,
        progress: Option<mpsc::Sender<Progress>>,
        kind: Kind,
        wait: Wait,
    ) -> Self {
        Self {
            reply,
            progress,
            skipped: 0,
            kind,
            wait,
            misaddressed_before: 0,
        }
    }
}

/// What sort of request it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Ordinary,
    /// Must not be cancelled.
    Handshake,
    /// Answered on the spot, as whether the server is there: not worth cancelling.
    Probe,
    /// Stays open as long as the session: nobody is kept waiting by it.
    Standing,
}

impl Kind {
    /// Of a request by this method.
    pub(super) fn of(method: &str) -> Self {
        if is_brief(method) {
            Self::Probe
        } else {
            Self::Ordinary
        }
    }
}

/// The requests of a connection.
#[derive(Default)]
pub(super) struct Table {
    pending: HashMap<u64, Pending, BuildHasherDefault<Counted>>,
    /// How many of them stay open as long as the session.
    standing: usize,
    /// The last id that was given.
    last_id: u64,
    /// How many answers named no request in a way that we name them.
    misaddressed: u64,
    /// When the timer goes off.
    alarm: Option<Instant>,
    ended: Option<SessionEnd>,
}

/// Ids are counted up by us, so nobody can choose them to collide.
#[derive(Default)]
struct Counted(u64);

impl Hasher for Counted {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0.rotate_left(8) ^ u64::from(*byte));
        }
    }

    /// Spreads neighbours over the whole range, as the map expects.
    fn write_u64(&mut self, id: u64) {
        self.0 = id.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

impl Table {
    /// Takes a request in, unless the session has ended, and gives it an id that none had before.
    pub(super) fn insert(&mut self, mut pending: Pending) -> Result<u64, SessionEnd> {
        if let Some(end) = &self.ended {
            return Err(end.clone());
        }
        self.standing += usize::from(pending.kind == Kind::Standing);
        pending.misaddressed_before = self.misaddressed;
        self.last_id += 1;
        self.pending.insert(self.last_id, pending);
        Ok(self.last_id)
    }

    /// How many requests are being waited for.
    pub(super) fn under_way(&self) -> usize {
        self.pending.len() - self.standing
    }

    pub(super) fn take(&mut self, id: u64) -> Option<Pending> {
        let pending = self.pending.remove(&id)?;
        self.standing -= usize::from(pending.kind == Kind::Standing);
        Some(pending)
    }

    /// Sets the timer to this time if it would go off later, and says so.
    pub(super) fn hasten(&mut self, time: Instant) -> bool {
        let is_sooner = self.alarm.is_none_or(|alarm| time < alarm);
        if is_sooner {
            self.alarm = Some(time);
        }
        is_sooner
    }

    /// Those whose time is up, and when to look again, to which the timer is set.
    pub(super) fn look(
        &mut self,
        life: &Life,
        now: Instant,
    ) -> (Vec<(u64, Expired)>, Option<Instant>) {
        let mut overdue = Vec::new();
        self.alarm = None;
        for (id, pending) in &self.pending {
            match pending.wait.look(life, now) {
                Look::Over(expired) => overdue.push((*id, expired)),
                Look::Again(then) => {
                    self.alarm = Some(self.alarm.map_or(then, |alarm| alarm.min(then)));
                }
            }
        }
        (overdue, self.alarm)
    }

    /// Takes the request that is answered by this.
    pub(super) fn take_answered(&mut self, id: AnswerId, reply: &Reply) -> Option<Pending> {
        let pending = match (id, reply) {
            (AnswerId::Ours(id), _) => self.take(id),
            (AnswerId::Null, Reply::Error(_)) => self.take_only(),
            (AnswerId::Null | AnswerId::Foreign, _) => None,
        };
        let was_given = matches!(id, AnswerId::Ours(id) if (1..=self.last_id).contains(&id));
        if pending.is_none() && !was_given {
            self.misaddressed += 1;
        }
        pending
    }

    /// Whether answers that name no request of ours came since this one was made.
    pub(super) fn was_misaddressed_since(&self, pending: &Pending) -> bool {
        self.misaddressed > pending.misaddressed_before
    }

    /// The one request that is waited for: what an error without an id can only mean.
    fn take_only(&mut self) -> Option<Pending> {
        let mut waiting = self
            .pending
            .iter()
            .filter(|(_, pending)| pending.kind != Kind::Standing)
            .map(|(id, _)| *id);
        match (waiting.next(), waiting.next()) {
            (Some(id), None) => self.take(id),
            _ => None,
        }
    }

    pub(super) fn progress(&mut self, id: u64, mut note: Progress) {
        let Some(pending) = self.pending.get_mut(&id) else {
            return;
        };
        let Some(listener) = &pending.progress else {
            return;
        };
        note.skipped = pending.skipped;
        match listener.try_send(note) {
            Ok(()) => pending.skipped = 0,
            Err(_) => pending.skipped += 1,
        }
    }

    /// Closes the table and hands out what was still waiting.
    pub(super) fn end(&mut self, end: SessionEnd) -> Vec<(u64, Pending)> {
        self.ended.get_or_insert(end);
        self.standing = 0;
        self.pending.drain().collect()
    }
}
