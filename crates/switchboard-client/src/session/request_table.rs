//! The requests in flight of one session.
//!
//! Invariant: a request leaves the table exactly once: with its response, when it cannot be sent,
//! when it is cancelled or times out, or at the end of the session. The code that takes the request
//! out completes it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use bytes::{Buf, Bytes};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::deadline::{ActivityClock, DeadlineCheck, Expired, RunningDeadline};
use super::progress::ProgressForwarder;
use super::query::needs_no_cancel;
use super::{Delivery, RequestError, SessionEnd, StrayOutput};
use switchboard_wire::jsonrpc::{InvalidMessage, RawResult, ResponseId};
use switchboard_wire::mcp::{ErrorObject, Progress};
use switchboard_wire::memory_budget::MemoryPermit;
use switchboard_wire::scan::ObjectIndex;

/// How a request ended.
#[derive(Debug)]
pub(crate) enum Reply {
    Result(RawResult),
    Error(ErrorObject),
    /// The server responded, but the response is invalid.
    Invalid(InvalidMessage),
    TimedOut {
        expired: Expired,
        delivery: Delivery,
        /// What the server sent instead of a response after this request was sent.
        stray: StrayOutput,
    },
    /// The session ended before the response arrived.
    Lost {
        delivery: Delivery,
        end: SessionEnd,
    },
}

impl Reply {
    /// Builds the reply for a successful response. `result` is the range of the result in
    /// `message`.
    pub(super) fn from_result(
        mut message: Bytes,
        result: Range<usize>,
        index: ObjectIndex,
        permit: Option<MemoryPermit>,
    ) -> Self {
        // Narrow `message` to the result in place. A slice would be a second reference-counted
        // handle and cost two atomic operations.
        message.truncate(result.end);
        message.advance(result.start);
        Self::Result(RawResult::new(message, index, permit))
    }

    pub(super) fn into_result(self) -> Result<RawResult, RequestError> {
        Err(match self {
            Self::Result(result) => return Ok(result),
            Self::Error(error) => RequestError::ErrorResponse(error),
            Self::Invalid(error) => RequestError::InvalidResponse(error),
            Self::TimedOut {
                expired: Expired { after, idle },
                delivery,
                stray,
            } => RequestError::TimedOut {
                after,
                idle,
                delivery,
                stray,
            },
            Self::Lost { delivery, end } => RequestError::Lost { delivery, end },
        })
    }
}

/// A request in flight.
pub(super) struct PendingRequest {
    pub(super) reply: oneshot::Sender<Reply>,
    pub(super) progress: Option<ProgressForwarder>,
    pub(super) kind: RequestKind,
    pub(super) deadline: RunningDeadline,
    /// The value of [`RequestTable::unknown_ids`] when this request was inserted.
    unknown_ids_before: u64,
    /// The value of [`RequestTable::stray_lines`] when this request was inserted.
    stray_lines_before: u64,
}

impl PendingRequest {
    pub(super) fn new(
        reply: oneshot::Sender<Reply>,
        progress: Option<mpsc::Sender<Progress>>,
        kind: RequestKind,
        deadline: RunningDeadline,
    ) -> Self {
        Self {
            reply,
            progress: progress.map(ProgressForwarder::new),
            kind,
            deadline,
            unknown_ids_before: 0,
            stray_lines_before: 0,
        }
    }
}

/// Decides whether a dropped request is cancelled with a notification, and whether the request
/// counts as in flight.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    Ordinary,
    /// `initialize` or `server/discover`. Never cancelled, because the protocol forbids it.
    Handshake,
    /// A request that the server answers immediately. It is not worth a cancel notification.
    Brief,
    /// `subscriptions/listen`, which stays open until the subscription ends. Not counted as in
    /// flight.
    LongLived,
}

impl RequestKind {
    pub(super) fn of(method: &str) -> Self {
        if needs_no_cancel(method) {
            Self::Brief
        } else {
            Self::Ordinary
        }
    }
}

#[derive(Default)]
pub(super) struct RequestTable {
    pending: HashMap<u64, PendingRequest, BuildHasherDefault<IdHasher>>,
    /// How many requests in `pending` are [`RequestKind::LongLived`].
    long_lived: usize,
    last_id: u64,
    /// Number of responses whose id no request of this session ever had.
    unknown_ids: u64,
    /// Number of lines that were no message, or an invalid message without an id.
    stray_lines: u64,
    /// When the deadline timer runs next. `None` if there is no deadline to wait for.
    next_check: Option<Instant>,
    ended: Option<SessionEnd>,
}

/// Hasher for request ids, which this client assigns one after the other. A server cannot choose
/// them, so the hasher need not resist chosen collisions.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        debug_assert!(false, "keys are u64");
    }

    /// Fibonacci hashing: spreads sequential ids over the whole range, as the map expects.
    fn write_u64(&mut self, id: u64) {
        self.0 = id.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

impl RequestTable {
    /// Inserts a request and returns its new id. Ids are not reused in a session. Fails after the
    /// end of the session.
    pub(super) fn insert(&mut self, mut request: PendingRequest) -> Result<u64, SessionEnd> {
        if let Some(end) = &self.ended {
            return Err(end.clone());
        }
        self.long_lived += usize::from(request.kind == RequestKind::LongLived);
        request.unknown_ids_before = self.unknown_ids;
        request.stray_lines_before = self.stray_lines;
        self.last_id += 1;
        self.pending.insert(self.last_id, request);
        Ok(self.last_id)
    }

    /// Number of requests in flight, without the long-lived ones.
    pub(super) fn in_flight(&self) -> usize {
        self.pending.len() - self.long_lived
    }

    pub(super) fn take(&mut self, id: u64) -> Option<PendingRequest> {
        let request = self.pending.remove(&id)?;
        self.long_lived -= usize::from(request.kind == RequestKind::LongLived);
        Some(request)
    }

    /// Moves the next deadline check to `time` if `time` is earlier. Returns whether the check was
    /// moved.
    pub(super) fn check_by(&mut self, time: Instant) -> bool {
        let is_earlier = self.next_check.is_none_or(|next| time < next);
        if is_earlier {
            self.next_check = Some(time);
        }
        is_earlier
    }

    /// Returns the ids of the expired requests, which stay in the table, and when to check again.
    pub(super) fn check_deadlines(
        &mut self,
        clock: &ActivityClock,
        now: Instant,
    ) -> (Vec<(u64, Expired)>, Option<Instant>) {
        let mut overdue = Vec::new();
        self.next_check = None;
        for (id, request) in &self.pending {
            match request.deadline.check(clock, now) {
                DeadlineCheck::Expired(expired) => overdue.push((*id, expired)),
                DeadlineCheck::Pending(then) => {
                    self.next_check = Some(self.next_check.map_or(then, |next| next.min(then)));
                }
            }
        }
        (overdue, self.next_check)
    }

    /// Takes out the request that this response answers. Without such a request, returns `None`,
    /// and counts the response in `unknown_ids` if no request ever had its id.
    pub(super) fn take_for_response(
        &mut self,
        id: ResponseId,
        reply: &Reply,
    ) -> Option<PendingRequest> {
        let request = match (id, reply) {
            (ResponseId::Number(id), _) => self.take(id),
            (ResponseId::Null, Reply::Error(_)) => self.take_single(),
            (ResponseId::Null | ResponseId::Unknown, _) => None,
        };
        let was_used = matches!(id, ResponseId::Number(id) if (1..=self.last_id).contains(&id));
        if request.is_none() && !was_used {
            self.unknown_ids += 1;
        }
        request
    }

    /// Counts a line that was no message, or an invalid message without an id.
    pub(super) fn count_stray_line(&mut self) {
        self.stray_lines += 1;
    }

    /// What the server sent instead of a response after this request was sent.
    pub(super) fn stray_since(&self, request: &PendingRequest) -> StrayOutput {
        if self.unknown_ids > request.unknown_ids_before {
            StrayOutput::UnknownIds
        } else if self.stray_lines > request.stray_lines_before {
            StrayOutput::NotMessages
        } else {
            StrayOutput::None
        }
    }

    /// Takes out the request in flight if there is exactly one, not counting long-lived ones. An
    /// error response without an id can only belong to this request.
    fn take_single(&mut self) -> Option<PendingRequest> {
        let mut in_flight = self
            .pending
            .iter()
            .filter(|(_, request)| request.kind != RequestKind::LongLived)
            .map(|(id, _)| *id);
        match (in_flight.next(), in_flight.next()) {
            (Some(id), None) => self.take(id),
            _ => None,
        }
    }

    /// Forwards progress to the caller of request `id`. Returns whether this caller asked for
    /// progress.
    pub(super) fn forward_progress(&mut self, id: u64, progress: Progress) -> bool {
        let request = self.pending.get_mut(&id);
        let Some(forwarder) = request.and_then(|request| request.progress.as_mut()) else {
            return false;
        };
        forwarder.forward(progress);
        true
    }

    /// Removes and returns all requests. From now on, [`insert`](Self::insert) fails.
    pub(super) fn end(&mut self, end: SessionEnd) -> Vec<(u64, PendingRequest)> {
        self.ended.get_or_insert(end);
        self.long_lived = 0;
        self.pending.drain().collect()
    }
}
