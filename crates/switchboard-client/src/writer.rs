//! The write queue of one session: takes lines and writes them to the server's input.
//!
//! [`WriteQueue::enqueue`] handles a line in one of two ways:
//!
//! - No other request is in flight, and no earlier line is unwritten: the task of the caller writes
//!   the line itself. This saves the switch to the writer task, and there are no other lines to
//!   write together with this one.
//! - Otherwise, the line is queued and the writer task is woken. The writer task first yields, so
//!   that all tasks that are ready in this round of polling can queue their lines, too. Then it
//!   writes all queued lines together and flushes once.
//!
//! The size of the queue is bounded, so a server that does not read its input blocks only its own
//! callers. Lines are written in the order in which they were enqueued: a caller writes a line
//! itself only if the queue is empty and the writer task is not writing.
//!
//! Invariant: for every line the queue knows whether a byte of it may have reached the server.

mod queue;

use std::collections::HashSet;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use tokio::io::AsyncWrite;
use tokio::sync::Notify;

use queue::LineQueue;
use switchboard_wire::memory_budget::MemoryBudget;
use switchboard_wire::sync::lock;

pub(crate) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// The writer task takes lines out of the queue until the batch holds at least this many bytes.
/// Batches are bounded because a request in a batch can no longer be cancelled without notifying
/// the server.
const BATCH_BYTES: usize = 256 * 1024;

pub(crate) struct WriteQueue {
    state: Mutex<State>,
    /// Wakes the writer task.
    wake: Notify,
    /// Wakes the caller that waits for space in the queue.
    space_freed: Notify,
    /// Held by the caller that waits for `space_freed`, until its line is queued. All further
    /// callers wait for this lock. It is fair, so they get space in the order of their calls.
    admission: tokio::sync::Mutex<()>,
    /// Maximum size of the queue, in bytes.
    limit: usize,
    /// Memory budget of the host. Lines in the queue that are longer than `UNCOUNTED_BYTES` are
    /// charged to it.
    budget: MemoryBudget,
}

struct State {
    /// Lines that the writer task has not taken yet.
    queue: LineQueue,
    /// An empty queue with the allocations of an earlier batch. The next batch reuses them.
    spare: LineQueue,
    /// Whether a caller wrote a line itself but could not complete the flush. Then the writer task
    /// flushes.
    is_unflushed: bool,
    /// The server's input. `None` while the writer task writes, and after a failure or `close`.
    writer: Option<Writer>,
    /// Why nothing can be written any more: the error of a write, or that the queue was closed.
    /// `None` while writing is possible.
    failure: Option<String>,
}

/// Why a line was neither written nor queued. No byte of the line was written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EnqueueError {
    /// With this line, the queue would hold more than `limit` bytes.
    Full { limit: usize },
    /// With this line, the messages of all servers of the host would exceed the memory budget,
    /// which is `limit` bytes.
    MemoryBudgetExceeded { limit: usize },
    /// This or a previous write failed, or the queue was closed. Holds the reason.
    Closed(String),
}

/// The error of a failed write, and the requests that the server did not receive.
#[derive(Debug)]
pub(crate) struct WriteFailed {
    pub(crate) error: String,
    /// Ids of the queued requests of which no byte was written.
    pub(crate) not_sent: Vec<u64>,
}

impl WriteQueue {
    pub(crate) fn new(writer: Writer, limit: usize, budget: MemoryBudget) -> Self {
        let state = State {
            queue: LineQueue::default(),
            spare: LineQueue::default(),
            is_unflushed: false,
            writer: Some(writer),
            failure: None,
        };
        Self {
            state: Mutex::new(state),
            wake: Notify::new(),
            space_freed: Notify::new(),
            admission: tokio::sync::Mutex::default(),
            limit,
            budget,
        }
    }

    /// Writes a line at once if no other request is in flight, the queue is empty and the writer
    /// task is not writing. Otherwise queues the line for the writer task. `in_flight` includes the
    /// request in this line. `id` is the id of this request; `None` for notifications and
    /// responses.
    pub(crate) fn enqueue(
        &self,
        id: Option<u64>,
        line: Vec<u8>,
        in_flight: usize,
    ) -> Result<(), EnqueueError> {
        let mut state = lock(&self.state);
        if let Some(error) = &state.failure {
            return Err(EnqueueError::Closed(error.clone()));
        }
        if !state.has_space(line.len(), self.limit) {
            return Err(EnqueueError::Full { limit: self.limit });
        }
        if in_flight <= 1 && state.queue.is_empty() && state.writer.is_some() {
            return self.write_directly(&mut state, id, line);
        }
        let is_first = state.queue.is_empty();
        self.push(&mut state, id, line)?;
        drop(state);
        if is_first {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Whether the queue has space for a line of this size.
    pub(crate) fn has_space(&self, size: usize) -> bool {
        lock(&self.state).has_space(size, self.limit)
    }

    /// Maximum size of the queue, and thus of a single line, in bytes.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Waits until the queue has space for a line of this size, or is closed. The caller must
    /// enqueue its line before it drops the returned guard. Otherwise the next waiting caller could
    /// take the space.
    pub(crate) async fn wait_for_space(&self, size: usize) -> tokio::sync::MutexGuard<'_, ()> {
        let admission = self.admission.lock().await;
        loop {
            let mut freed = std::pin::pin!(self.space_freed.notified());
            // Register for the notification before the check. Otherwise a notification between the
            // check and the await would be lost.
            freed.as_mut().enable();
            if self.can_enqueue(size) {
                return admission;
            }
            freed.await;
        }
    }

    fn can_enqueue(&self, size: usize) -> bool {
        let state = lock(&self.state);
        state.failure.is_some() || state.has_space(size, self.limit)
    }

    fn push(&self, state: &mut State, id: Option<u64>, line: Vec<u8>) -> Result<(), EnqueueError> {
        let mut permit = None;
        if !self.budget.grow(&mut permit, line.len()) {
            let limit = self.budget.limit();
            return Err(EnqueueError::MemoryBudgetExceeded { limit });
        }
        state.queue.push(id, line, permit);
        Ok(())
    }

    /// Tries to write a line without waiting. What the pipe does not accept is queued for the
    /// writer task.
    fn write_directly(
        &self,
        state: &mut State,
        id: Option<u64>,
        line: Vec<u8>,
    ) -> Result<(), EnqueueError> {
        let Some(writer) = &mut state.writer else {
            return Ok(());
        };
        // The waker does nothing: if the pipe is full, the writer task polls the pipe again with
        // its own waker.
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(&mut *writer).poll_write(&mut context, &line) {
            Poll::Ready(Ok(written)) if written == line.len() => {
                match Pin::new(writer).poll_flush(&mut context) {
                    Poll::Ready(Ok(())) => return Ok(()),
                    Poll::Pending => state.is_unflushed = true,
                    // Return no error, because the server may have received the line. The writer
                    // task reports the failure and ends the session, which fails the request.
                    Poll::Ready(Err(error)) => state.failure = Some(error.to_string()),
                }
            }
            Poll::Ready(Ok(written)) => {
                // Queue the rest without charging the memory budget. The budget could reject the
                // line, but a partly written line must be finished.
                state.queue.push(id, line, None);
                state.queue.advance(written);
            }
            Poll::Pending => self.push(state, id, line)?,
            Poll::Ready(Err(error)) => {
                let error = error.to_string();
                state.failure = Some(error.clone());
                self.wake.notify_one();
                return Err(EnqueueError::Closed(error));
            }
        }
        self.wake.notify_one();
        Ok(())
    }

    /// Removes a request from the queue unless part of it was written or the writer task has taken
    /// it. Returns whether it was removed.
    pub(crate) fn cancel_unsent(&self, id: u64) -> bool {
        let was_queued = lock(&self.state).queue.remove_unsent(id);
        if was_queued {
            self.space_freed.notify_waiters();
        }
        was_queued
    }

    /// Empties the queue. Returns the ids of the requests in it of which no byte was written.
    pub(crate) fn cancel_all_unsent(&self) -> HashSet<u64> {
        let queued = std::mem::take(&mut lock(&self.state).queue);
        self.space_freed.notify_waiters();
        queued.unsent_requests().collect()
    }

    /// Runs the writer task: writes queued lines until a write fails or the queue is closed.
    /// Returns `None` if the queue was closed.
    pub(crate) async fn run(&self) -> Option<WriteFailed> {
        loop {
            self.wake.notified().await;
            // First give the other tasks that are ready a chance to enqueue their lines.
            tokio::task::yield_now().await;
            loop {
                match self.next_batch() {
                    NextBatch::Write(mut writer, mut lines) => {
                        if let Err(error) = write_all(&mut writer, &mut lines).await {
                            return Some(self.fail(error.to_string(), &lines));
                        }
                        self.return_writer(writer, lines);
                    }
                    NextBatch::Empty => break,
                    NextBatch::Failed(error) => {
                        return Some(self.fail(error, &LineQueue::default()));
                    }
                    NextBatch::Closed => return None,
                }
            }
        }
    }

    /// Closes the queue and drops the writer, so that the server reads end of file. From now on,
    /// [`enqueue`](Self::enqueue) fails.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state
            .failure
            .get_or_insert_with(|| "the connection was closed".to_owned());
        state.writer = None;
        drop(state);
        self.wake.notify_one();
        self.space_freed.notify_waiters();
    }

    /// Takes the writer and the lines of the next batch, if there is something to write or flush.
    fn next_batch(&self) -> NextBatch {
        let mut state = lock(&self.state);
        let Some(writer) = state.writer.take() else {
            return NextBatch::Closed;
        };
        if let Some(error) = state.failure.clone() {
            return NextBatch::Failed(error);
        }
        if state.queue.is_empty() && !state.is_unflushed {
            state.writer = Some(writer);
            return NextBatch::Empty;
        }
        state.is_unflushed = false;
        let lines = if state.queue.bytes() <= BATCH_BYTES {
            let spare = std::mem::take(&mut state.spare);
            std::mem::replace(&mut state.queue, spare)
        } else {
            state.queue.take_front(BATCH_BYTES)
        };
        drop(state);
        self.space_freed.notify_waiters();
        NextBatch::Write(writer, lines)
    }

    /// Puts the writer back after a batch. Keeps the allocations of the batch for the next one,
    /// unless they are large.
    fn return_writer(&self, writer: Writer, emptied: LineQueue) {
        let mut state = lock(&self.state);
        if emptied.is_worth_recycling() {
            state.spare = emptied;
        }
        // If `close` ran during the write, the writer is dropped here.
        if state.failure.is_none() {
            state.writer = Some(writer);
        }
    }

    /// Records that a write failed, and empties the queue. `unwritten` holds the lines of the
    /// failed batch that were not completely written.
    fn fail(&self, error: String, unwritten: &LineQueue) -> WriteFailed {
        let mut state = lock(&self.state);
        state.failure.get_or_insert_with(|| error.clone());
        state.writer = None;
        let queued = std::mem::take(&mut state.queue);
        drop(state);
        self.space_freed.notify_waiters();
        WriteFailed {
            error,
            not_sent: unwritten
                .unsent_requests()
                .chain(queued.unsent_requests())
                .collect(),
        }
    }
}

impl State {
    fn has_space(&self, size: usize, limit: usize) -> bool {
        self.queue.bytes() + size <= limit
    }
}

/// Writes all lines and flushes. After an error, `lines` still holds the lines that were not
/// completely written.
async fn write_all(writer: &mut Writer, lines: &mut LineQueue) -> io::Result<()> {
    while !lines.is_empty() {
        let write = |context: &mut Context<'_>| {
            lines.with_slices(|slices| Pin::new(&mut *writer).poll_write_vectored(context, slices))
        };
        match poll_fn(write).await? {
            0 => return Err(io::Error::other("the server's input accepts no more bytes")),
            written => lines.advance(written),
        }
    }
    poll_fn(|context| Pin::new(&mut *writer).poll_flush(context)).await
}

enum NextBatch {
    Write(Writer, LineQueue),
    /// There is nothing to write or flush.
    Empty,
    Failed(String),
    Closed,
}

#[cfg(test)]
mod tests;
