//! Sends one request on a line session and waits for its response.
//!
//! Invariant: when a caller stops waiting, its request leaves the table. If the server may have
//! received the request, the client sends `notifications/cancelled`, except for handshake requests
//! and requests that the server answers immediately.

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::deadline::{Deadline, DeadlineCheck, Expired};
use super::line::LineSession;
use super::progress::ProgressForwarder;
use super::request_table::{PendingRequest, Reply, RequestKind};
use super::{Delivery, RequestError, SessionEnd, StrayOutput};
use switchboard_wire::encode;
use switchboard_wire::jsonrpc::RawResult;
use switchboard_wire::mcp::Progress;
use switchboard_wire::sync::lock;

/// The deadline and the kind of a request, and the receiver of its progress.
pub(super) struct RequestOptions {
    pub(super) kind: RequestKind,
    pub(super) deadline: Deadline,
    pub(super) progress: Option<mpsc::Sender<Progress>>,
}

impl RequestOptions {
    pub(super) fn ordinary(deadline: Deadline) -> Self {
        Self {
            kind: RequestKind::Ordinary,
            deadline,
            progress: None,
        }
    }
}

/// Cancels a request on drop, unless `is_open` was cleared because the request has ended.
struct CancelOnDrop<'a> {
    session: &'a LineSession,
    id: u64,
    is_open: bool,
}

impl CancelOnDrop<'_> {
    /// Removes a request from the table without a cancel notification: its line was neither written
    /// nor queued, so the server never received it.
    fn discard_unsent(&mut self) -> Option<PendingRequest> {
        self.is_open = false;
        lock(&self.session.requests).take(self.id)
    }
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if self.is_open {
            self.session.abandon(self.id, "cancelled by the caller");
        }
    }
}

impl LineSession {
    /// Takes a request out of the table, and out of the write queue if it is still there. If the
    /// request was not in the write queue, the server may have received it. Then
    /// `notifications/cancelled` is sent, except for handshake and brief requests. Returns the
    /// request and its delivery.
    pub(super) fn abandon(&self, id: u64, reason: &str) -> (Option<PendingRequest>, Delivery) {
        let request = lock(&self.requests).take(id);
        if self.writer.cancel_unsent(id) {
            return (request, Delivery::NotSent);
        }
        let kind = request.as_ref().map(|request| request.kind);
        if kind.is_some_and(|kind| !matches!(kind, RequestKind::Handshake | RequestKind::Brief)) {
            // Ignored: sending fails if the connection is gone or the server does not read its
            // input. The request is given up in both cases.
            let _ = self.send(None, encode::cancelled(id, reason));
        }
        (request, Delivery::Unknown)
    }

    /// Sends a request and returns a future of its response. The request is sent or queued before
    /// the future is polled, unless the write queue is full. Then the future waits for space.
    pub(super) fn request(
        &self,
        options: RequestOptions,
        encode: impl Fn(u64) -> Vec<u8>,
    ) -> impl Future<Output = Result<RawResult, RequestError>> {
        let mut outcome = self.send_request(options, &encode);
        // Match by reference: a match by value would store the outcome twice in the future.
        async move {
            match &mut outcome {
                Ok(SendOutcome::Sent(in_flight)) => in_flight.response().await,
                Ok(SendOutcome::QueueFull { options, size }) => {
                    let deadline = options.deadline;
                    let options = std::mem::replace(options, RequestOptions::ordinary(deadline));
                    Box::pin(self.request_when_space(options, *size, encode)).await
                }
                Err(error) => Err(error.clone()),
            }
        }
    }

    /// Waits until the write queue has space for `size` bytes, then sends the request. The encoded
    /// line is not kept during the wait but encoded again, so that waiting requests take no memory.
    async fn request_when_space(
        &self,
        mut options: RequestOptions,
        mut size: usize,
        encode: impl Fn(u64) -> Vec<u8>,
    ) -> Result<RawResult, RequestError> {
        let clock = &self.peer.clock;
        let deadline = options.deadline.start(clock);
        loop {
            let admission = tokio::select! {
                biased;
                expired = deadline.expired(clock) => return Err(timed_out_unsent(expired)),
                admission = self.writer.wait_for_space(size) => admission,
            };
            // The space may be free because other queued requests timed out. If this request timed
            // out at the same time, it must not be sent.
            if let DeadlineCheck::Expired(expired) = deadline.check(clock, Instant::now()) {
                return Err(timed_out_unsent(expired));
            }
            let outcome = self.send_request(options, &encode)?;
            drop(admission);
            match outcome {
                SendOutcome::Sent(mut in_flight) => return in_flight.response().await,
                // Another caller took the space without waiting for it. Wait again.
                SendOutcome::QueueFull {
                    options: returned,
                    size: needed,
                } => (options, size) = (returned, needed),
            }
        }
    }

    fn send_request(
        &self,
        options: RequestOptions,
        encode: impl Fn(u64) -> Vec<u8>,
    ) -> Result<SendOutcome<'_>, RequestError> {
        let RequestOptions {
            kind,
            deadline,
            progress,
        } = options;
        let running = deadline.start(&self.peer.clock);
        let (reply, response) = oneshot::channel();
        let end = running.end(&self.peer.clock);
        let request = PendingRequest::new(reply, progress, kind, running);
        let (id, in_flight, check_earlier) = {
            let mut table = lock(&self.requests);
            let inserted = table.insert(request);
            let id = inserted.map_err(|end| RequestError::Lost {
                delivery: Delivery::NotSent,
                end,
            })?;
            (id, table.in_flight(), table.check_by(end))
        };
        let mut guard = CancelOnDrop {
            session: self,
            id,
            is_open: true,
        };
        if check_earlier {
            self.deadline_moved.notify_one();
        }
        let line = encode(id);
        let size = line.len();
        let limit = self.peer.context.limits.message_bytes;
        if size > limit {
            guard.discard_unsent();
            return Err(RequestError::TooLong { limit });
        }
        let Err(error) = self.enqueue(Some(id), line, in_flight) else {
            return Ok(SendOutcome::Sent(InFlight { guard, response }));
        };
        match (guard.discard_unsent(), error) {
            (Some(request), RequestError::WriteQueueFull { limit }) if size <= limit => {
                let options = RequestOptions {
                    kind,
                    deadline,
                    progress: request.progress.map(ProgressForwarder::into_sender),
                };
                Ok(SendOutcome::QueueFull { options, size })
            }
            (_, error) => Err(error),
        }
    }
}

fn timed_out_unsent(Expired { after, idle }: Expired) -> RequestError {
    RequestError::TimedOut {
        after,
        idle,
        delivery: Delivery::NotSent,
        stray: StrayOutput::None,
    }
}

enum SendOutcome<'a> {
    Sent(InFlight<'a>),
    /// The write queue has no space for `size` bytes.
    QueueFull {
        options: RequestOptions,
        size: usize,
    },
}

/// A request that was written or queued. Dropping it before the response cancels the request.
struct InFlight<'a> {
    guard: CancelOnDrop<'a>,
    response: oneshot::Receiver<Reply>,
}

impl InFlight<'_> {
    async fn response(&mut self) -> Result<RawResult, RequestError> {
        let reply = (&mut self.response).await;
        self.guard.is_open = false;
        match reply {
            Ok(reply) => reply.into_result(),
            Err(_) => Err(RequestError::Lost {
                delivery: Delivery::Unknown,
                end: SessionEnd::Closed,
            }),
        }
    }
}
