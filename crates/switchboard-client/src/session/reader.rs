//! Reads lines from a server and dispatches the messages in them.
//!
//! Up to [`DELIVERY_BATCH`] responses are delivered together: the request table is locked once for
//! all of them, and their callers are woken after the table is unlocked.
//!
//! Invariant: the reader never waits for a caller or a handler, and messages take effect in the
//! order in which the server sent them.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{BufMut, Bytes};
use tokio::io::AsyncReadExt;

use super::line::{LineSession, Reader};
use super::peer::JsonRpcSession;
use super::request_table::{PendingRequest, Reply};
use super::{SessionEnd, peer, run_blocking};
use crate::rate_limit::RateLimiter;
use crate::wire_tap::Direction;
use switchboard_wire::jsonrpc as wire;
use switchboard_wire::jsonrpc::{Message, Outcome, ParsedLine, ResponseId};
use switchboard_wire::lines::{DiscardReason, Line, LineSplitter, READ_CHUNK_BYTES, Unterminated};
use switchboard_wire::mcp::ProtocolVersion;
use switchboard_wire::memory_budget::MemoryPermit;
use switchboard_wire::scan::range_of;
use switchboard_wire::sync::lock;

/// The reader yields to other tasks after this many bytes of messages other than responses.
const YIELD_AFTER_BYTES: usize = 4 * 1024;
/// Maximum number of responses that are delivered together. Bounds how long the first one is held
/// back for the others.
const DELIVERY_BATCH: usize = 8;

/// A response that was read but not delivered yet.
struct ReceivedResponse {
    id: ResponseId,
    reply: Reply,
    /// Length of the response in bytes. Zero for a response that was discarded because of its size.
    size: usize,
    /// The request that this response answers. Filled in on delivery.
    request: Option<PendingRequest>,
}

/// Number of bytes of messages other than responses. Responses that answer no request count, too.
#[derive(Clone, Copy, Default)]
struct NonResponseBytes {
    /// Bytes of all messages except responses to requests. The reader yields after
    /// [`YIELD_AFTER_BYTES`].
    total: usize,
    /// The part of `total` that is not progress for a caller. Only this part is charged to the rate
    /// limit.
    unsolicited: usize,
}

impl NonResponseBytes {
    fn unsolicited(bytes: usize) -> Self {
        Self {
            total: bytes,
            unsolicited: bytes,
        }
    }

    fn add(&mut self, other: Self) {
        self.total += other.total;
        self.unsolicited += other.unsolicited;
    }
}

impl LineSession {
    /// Runs the reader task. Reads until the stream ends or the session is closed, then ends the
    /// session, and discards the server's output until the connection is torn down.
    pub(super) async fn read_all(self: Arc<Self>, mut reader: Reader) {
        let mut lines = LineSplitter::new(
            self.peer.context.limits.message_bytes,
            &self.peer.context.budget,
        );
        let mut responses = Vec::new();
        let mut rate_limit = RateLimiter::unsolicited();
        let mut stopped = pin!(self.peer.stop.cancelled());
        let end = loop {
            let limit = rate_limit.read_limit(READ_CHUNK_BYTES);
            let mut buffer = lines.read_buffer().limit(limit);
            // The read is polled first because polling it is cheaper than polling `stopped`. It
            // cannot starve `stopped`: tokio's coop budget makes even a reader that is always ready
            // return pending now and then.
            let read = tokio::select! {
                biased;
                read = reader.read_buf(&mut buffer) => read,
                () = &mut stopped => break SessionEnd::Closed,
            };
            match read {
                Ok(0) => {
                    let rest = lines.take_remainder();
                    let partial_line = rest.and_then(|rest| self.receive_unterminated(rest));
                    break SessionEnd::Eof { partial_line };
                }
                Ok(_) => {}
                Err(error) => break SessionEnd::Io(error.to_string()),
            }
            let unsolicited = match self.receive_lines(&mut lines, &mut responses).await {
                Ok(unsolicited) => unsolicited,
                Err(end) => break end,
            };
            let has_partial_line = lines.buffered_bytes() > 0;
            self.has_partial_line
                .store(has_partial_line, Ordering::Relaxed);
            if let Some(pause) = rate_limit.consume(unsolicited) {
                self.peer
                    .stop
                    .run_until_cancelled(tokio::time::sleep(pause))
                    .await;
            } else if lines.is_buffer_half_full() {
                tokio::task::yield_now().await;
            }
        };
        self.end(end);
        // Keep reading until the server has exited. If this end of the pipe were closed, SIGPIPE
        // would kill the server when it writes during its shutdown.
        let mut rest = lines.into_drain_buffer();
        self.server_gone
            .run_until_cancelled(async {
                while matches!(reader.read_buf(&mut rest).await, Ok(1..)) {
                    rest.clear();
                }
            })
            .await;
    }

    /// Handles the bytes after the last line end. Returns an excerpt of them, or `None` if they
    /// are a complete message.
    fn receive_unterminated(self: &Arc<Self>, line: Bytes) -> Option<String> {
        if let ParsedLine::Message(_) =
            wire::parse_line(&line, self.peer.context.limits.json_budget())
        {
            self.receive_single(line, None);
            return None;
        }
        Some(self.peer.excerpt(&line))
    }

    /// Handles all complete lines in the buffer. Returns the number of unsolicited bytes.
    async fn receive_lines(
        self: &Arc<Self>,
        lines: &mut LineSplitter,
        responses: &mut Vec<ReceivedResponse>,
    ) -> Result<usize, SessionEnd> {
        let mut sum = NonResponseBytes::default();
        let mut since_yield = 0;
        loop {
            let next = if lines.will_scan_discarded_line() {
                // Deliver the responses first: skipping the rest of a discarded line takes time.
                sum.add(self.deliver(responses));
                next_line_blocking(lines).await?
            } else {
                lines.next_line()
            };
            let received = match next {
                Ok(Some(Line::Complete(line, permit))) => {
                    self.peer.tap(Direction::Received, &line);
                    self.receive(line, &mut { permit }, responses)
                }
                Ok(Some(Line::Long(line, permit))) => {
                    sum.add(self.deliver(responses));
                    let this = Arc::clone(self);
                    let receive = move || {
                        let line = line.join();
                        this.peer.tap(Direction::Received, &line);
                        this.receive_single(line, permit)
                    };
                    let received = Box::pin(run_blocking(receive)).await;
                    received.map_err(|_| SessionEnd::Closed)?
                }
                Ok(Some(Line::Discarded { id, reason })) => {
                    self.receive_discarded(id, reason, responses)
                }
                Ok(None) => {
                    sum.add(self.deliver(responses));
                    return Ok(sum.unsolicited);
                }
                Err(Unterminated) => {
                    self.deliver(responses);
                    return Err(SessionEnd::Unterminated);
                }
            };
            sum.add(received);
            since_yield += received.total;
            if since_yield > YIELD_AFTER_BYTES {
                since_yield = 0;
                sum.add(self.deliver(responses));
                tokio::task::yield_now().await;
            }
        }
    }

    /// Handles a message that was discarded because it exceeds the size limit or the memory budget.
    /// If an id was found in the message, the request with this id fails.
    fn receive_discarded(
        &self,
        id: Option<u64>,
        reason: DiscardReason,
        responses: &mut Vec<ReceivedResponse>,
    ) -> NonResponseBytes {
        let error = self.peer.discard_error(reason);
        let Some(id) = id else {
            tracing::debug!(server = %self.peer.context.server, %error, "message discarded");
            return NonResponseBytes::default();
        };
        self.push_response(ResponseId::Number(id), Reply::Invalid(error), 0, responses)
    }

    /// Handles one line. If it holds responses, they are delivered at once.
    fn receive_single(
        self: &Arc<Self>,
        line: Bytes,
        permit: Option<MemoryPermit>,
    ) -> NonResponseBytes {
        let mut responses = Vec::new();
        let mut received = self.receive(line, &mut { permit }, &mut responses);
        received.add(self.deliver(&mut responses));
        received
    }

    /// Handles one line. A response is appended to `responses`; a successful response takes the
    /// memory permit of the line. For any other message, first the collected responses are
    /// delivered, then the message is handled.
    fn receive(
        self: &Arc<Self>,
        line: Bytes,
        permit: &mut Option<MemoryPermit>,
        responses: &mut Vec<ReceivedResponse>,
    ) -> NonResponseBytes {
        let size = line.len();
        let (id, reply) = match wire::parse_line(&line, self.peer.context.limits.json_budget()) {
            ParsedLine::Message(Message::Response {
                id,
                outcome: Outcome::Result(result, index),
            }) => {
                let result = range_of(&line, result);
                (id, Reply::from_result(line, result, index, permit.take()))
            }
            ParsedLine::Message(Message::Response {
                id,
                outcome: Outcome::Error(mut error),
            }) => {
                self.peer.context.redactor.redact_error(&mut error);
                (id, Reply::Error(error))
            }
            ParsedLine::Invalid {
                id: Some(id),
                problem,
            } => (ResponseId::Number(id), Reply::Invalid(problem)),
            ParsedLine::Invalid { id: None, problem } => {
                lock(&self.requests).count_stray_line();
                tracing::debug!(server = %self.peer.context.server, %problem, "message discarded");
                return NonResponseBytes::unsolicited(size);
            }
            ParsedLine::Batch(messages)
                if self.peer.version() == Some(ProtocolVersion::V2025_03_26) =>
            {
                let inside: usize = messages.iter().map(|message| message.len()).sum();
                let mut received = NonResponseBytes::unsolicited(size - inside);
                for message in messages {
                    received.add(self.receive(line.slice_ref(message), permit, responses));
                }
                return received;
            }
            ParsedLine::Message(Message::Notification { method, params }) => {
                let mut received = self.deliver(responses);
                received.add(self.receive_notification(&method, params.unwrap_or_default(), size));
                return received;
            }
            ParsedLine::Message(Message::Request { id, method, params }) => {
                let mut received = self.deliver(responses);
                peer::on_request(self, id, &method, params.unwrap_or(b"{}"));
                received.add(NonResponseBytes::unsolicited(size));
                return received;
            }
            ParsedLine::Batch(_) | ParsedLine::Noise => {
                let mut received = self.deliver(responses);
                self.record_stray_output(&line);
                received.add(NonResponseBytes::unsolicited(size));
                return received;
            }
        };
        self.push_response(id, reply, size, responses)
    }

    fn receive_notification(&self, method: &str, params: &[u8], size: usize) -> NonResponseBytes {
        let is_requested = self.peer.on_notification(method, params, |id, progress| {
            lock(&self.requests).forward_progress(id, progress)
        });
        NonResponseBytes {
            total: size,
            unsolicited: if is_requested { 0 } else { size },
        }
    }

    /// Appends a response. Delivers all collected responses when there are [`DELIVERY_BATCH`].
    fn push_response(
        &self,
        id: ResponseId,
        reply: Reply,
        size: usize,
        responses: &mut Vec<ReceivedResponse>,
    ) -> NonResponseBytes {
        responses.push(ReceivedResponse {
            id,
            reply,
            size,
            request: None,
        });
        if responses.len() < DELIVERY_BATCH {
            return NonResponseBytes::default();
        }
        self.deliver(responses)
    }

    /// Delivers all collected responses to their callers. Returns the bytes of responses that
    /// answer no request, which count as unsolicited.
    fn deliver(&self, responses: &mut Vec<ReceivedResponse>) -> NonResponseBytes {
        let mut unmatched = NonResponseBytes::default();
        if responses.is_empty() {
            return unmatched;
        }
        let mut table = lock(&self.requests);
        for response in &mut *responses {
            response.request = table.take_for_response(response.id, &response.reply);
        }
        drop(table);
        for ReceivedResponse {
            id,
            reply,
            size,
            request,
        } in responses.drain(..)
        {
            match request {
                // Sending fails if the caller stopped waiting after the lookup.
                Some(request) => drop(request.reply.send(reply)),
                None => {
                    tracing::debug!(server = %self.peer.context.server, ?id, "response to no request");
                    unmatched.add(NonResponseBytes::unsolicited(size));
                }
            }
        }
        unmatched
    }

    /// Records a line that is not a message. If it contains `"jsonrpc"`, a message in it is lost,
    /// usually because other output precedes it on the line.
    fn record_stray_output(&self, line: &[u8]) {
        if memchr::memmem::find(line, b"\"jsonrpc\"").is_some() {
            self.message_lost.cancel();
        }
        let text = self.peer.excerpt(line);
        if !text.is_empty() {
            lock(&self.requests).count_stray_line();
            tracing::debug!(server = %self.peer.context.server, text, "stray output");
            *lock(&self.stray_output) = Some(text);
        }
    }
}

/// Searches for the next line on a blocking thread, because skipping a long line takes time.
async fn next_line_blocking(
    lines: &mut LineSplitter,
) -> Result<Result<Option<Line>, Unterminated>, SessionEnd> {
    let mut taken = lines.take();
    let search = move || (taken.next_line(), taken);
    let searched = Box::pin(run_blocking(search)).await;
    let (next, taken) = searched.map_err(|_| SessionEnd::Closed)?;
    *lines = taken;
    Ok(next)
}
