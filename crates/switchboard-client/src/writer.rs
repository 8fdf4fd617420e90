//! The write queue of one server: lines in, bytes to its stdin out.
//!
//! A line takes one of two ways, which [`WriteQueue::enqueue`] chooses:
//!
//! - No other request is in flight: the task of the caller writes the line itself. This saves the
//!   switch to the writer task, and there is nothing to batch the line with.
//! - Other requests are in flight: the line is queued and the writer task is woken. The writer task
//!   first yields, so that all tasks that are ready in this round of polling can queue their lines,
//!   too. Then it writes all queued lines together and flushes once.
//!
//! The queue is bounded: a server that does not read its input blocks only its own callers. Lines
//! are written in the order in which they were enqueued: the direct way is taken only if the queue
//! is empty and the writer task does not write.
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

/// Size of a batch: lines are added to it until it holds this many bytes. A request in a batch that
/// is being written can no longer be cancelled without notifying the server.
const BATCH_BYTES: usize = 256 * 1024;

pub(crate) struct WriteQueue {
    state: Mutex<State>,
    /// Wakes the writer task.
    wake: Notify,
    /// Wakes the caller that waits for space.
    space_freed: Notify,
    /// Held by the one caller that waits for `space_freed`. The lock is fair, so the others follow
    /// in order.
    admission: tokio::sync::Mutex<()>,
    /// Maximum size of the queue, in bytes.
    limit: usize,
    /// Memory budget of the host, charged for long lines in the queue.
    budget: MemoryBudget,
}

struct State {
    /// Lines that the writer task has not taken yet.
    queue: LineQueue,
    /// The emptied queue of the previous batch, reused for its allocations.
    spare: LineQueue,
    /// A line was written directly, but its flush did not complete. The writer task flushes.
    is_unflushed: bool,
    /// `None` while the writer task writes, and after a failure or `close`.
    writer: Option<Writer>,
    /// Why nothing can be written any more.
    failure: Option<String>,
}

/// Why a line was not queued. No byte of it was written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EnqueueError {
    /// The queue holds `limit` bytes.
    Full { limit: usize },
    /// The messages of all servers together reached the memory budget.
    MemoryBudgetExceeded { limit: usize },
    /// An earlier write failed, or the queue was closed.
    Closed(String),
}

/// A failed write.
#[derive(Debug)]
pub(crate) struct WriteFailed {
    pub(crate) error: String,
    /// Queued requests of which no byte was written.
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

    /// Writes a line directly or queues it; the head of this module says when. `in_flight` is the
    /// number of requests in flight, including the one in this line. `id` is `None` for
    /// notifications and responses.
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

    /// Maximum size of the queue, and of a single line.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Waits until the queue has space for a line of this size, or is closed. The caller must
    /// enqueue its line before it drops the guard, or the next waiting caller could take the space.
    pub(crate) async fn wait_for_space(&self, size: usize) -> tokio::sync::MutexGuard<'_, ()> {
        let admission = self.admission.lock().await;
        loop {
            let mut freed = std::pin::pin!(self.space_freed.notified());
            // Register before the check, or a notification between check and await is lost.
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

    /// Tries to write a line without waiting. Queues what the pipe does not accept, for the writer
    /// task.
    fn write_directly(
        &self,
        state: &mut State,
        id: Option<u64>,
        line: Vec<u8>,
    ) -> Result<(), EnqueueError> {
        let Some(writer) = &mut state.writer else {
            return Ok(());
        };
        // The waker does nothing: if the pipe is full, the writer task tries again and waits for
        // it.
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(&mut *writer).poll_write(&mut context, &line) {
            Poll::Ready(Ok(written)) if written == line.len() => {
                match Pin::new(writer).poll_flush(&mut context) {
                    Poll::Ready(Ok(())) => return Ok(()),
                    Poll::Pending => state.is_unflushed = true,
                    // Not an enqueue error, because the server may have received the line. The
                    // writer task ends the session, which fails the request.
                    Poll::Ready(Err(error)) => state.failure = Some(error.to_string()),
                }
            }
            Poll::Ready(Ok(written)) => {
                // Not charged to the budget, which could reject it: a partly written line must be
                // finished.
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

    /// Removes a request from the queue unless part of it was written. Returns whether it was
    /// removed.
    pub(crate) fn cancel_unsent(&self, id: u64) -> bool {
        let was_queued = lock(&self.state).queue.remove_unsent(id);
        if was_queued {
            self.space_freed.notify_waiters();
        }
        was_queued
    }

    /// Empties the queue and returns the requests of which no byte was written.
    pub(crate) fn cancel_all_unsent(&self) -> HashSet<u64> {
        let queued = std::mem::take(&mut lock(&self.state).queue);
        self.space_freed.notify_waiters();
        queued.unsent_requests().collect()
    }

    /// Runs the writer task: writes queued lines until a write fails or the queue is closed.
    pub(crate) async fn run(&self) -> Option<WriteFailed> {
        loop {
            self.wake.notified().await;
            // Let the other tasks that are ready queue their lines first.
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

    /// Drops the writer, so that the server reads end of file.
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

    /// Takes the writer and the lines of the next batch out of the queue.
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

    /// Puts the writer back after a batch. Keeps the emptied queue for its allocations.
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

    /// Records a failure. `unwritten` holds the rest of the failed batch.
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

/// Writes all lines and flushes. After an error, `lines` holds the bytes that were not written.
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
    /// Nothing to write or flush.
    Empty,
    Failed(String),
    Closed,
}

#[cfg(test)]
mod tests;
