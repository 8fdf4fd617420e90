//! The lines that wait to be written to one server.
//!
//! A caller who is alone writes at once; when several are under way their lines are written
//! together, one half of them and then the other: the server works on one while the other is made.
//! That is done without the lock, for which the others would have to wait. A server that does not
//! read stalls nobody: its lines wait here, up to a bound.
//! Invariant: it is known of every line whether a byte of it may have reached the server.

mod queue;

use std::collections::HashSet;
use std::future::poll_fn;
use std::io;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use tokio::io::AsyncWrite;
use tokio::sync::Notify;

use crate::budget::{Budget, FREE};
use crate::sync::lock;
use queue::Queue;

pub(crate) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// How many bytes are written together at most.
const BATCH_BYTES: usize = 256 * 1024;
/// Half of the requests that are usually under way are a company, but no fewer and no more than so
/// many. Whoever brings the line that completes it writes them all.
const COMPANY: RangeInclusive<usize> = 16..=32;

pub(crate) struct Outbox {
    state: Mutex<State>,
    /// Tells the writing task that there is something to do.
    wake: Notify,
    /// Tells whoever waits for room that there is more of it.
    freed: Notify,
    /// Held by the one who is next when there is room again.
    next: tokio::sync::Mutex<()>,
    limit: usize,
    budget: Budget,
}

struct State {
    queue: Queue,
    /// An empty queue, kept for its room.
    spare: Queue,
    /// All was written, but not yet flushed.
    is_unflushed: bool,
    /// Away while somebody writes; gone when the outbox is closed.
    writer: Option<Writer>,
    /// It is a caller who writes.
    is_lent: bool,
    /// How many requests were under way at most, less one for each time that lines were written since.
    usual: usize,
    broken: Option<String>,
}

/// Why a line was not taken. Not a byte of it was written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Full {
        limit: usize,
    },
    /// The lines for all servers together take as much as they may.
    NoRoom {
        limit: usize,
    },
    Broken(String),
}

/// Writing failed; these requests were not begun.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) error: String,
    pub(crate) not_sent: Vec<u64>,
}

impl Outbox {
    pub(crate) fn new(writer: Writer, limit: usize, budget: Budget) -> Self {
        let state = State {
            queue: Queue::default(),
            spare: Queue::default(),
            is_unflushed: false,
            writer: Some(writer),
            is_lent: false,
            usual: 0,
            broken: None,
        };
        Self {
            state: Mutex::new(state),
            wake: Notify::new(),
            freed: Notify::new(),
            next: tokio::sync::Mutex::default(),
            limit,
            budget,
        }
    }

    /// Takes a line. `under_way` says how many requests the server has to answer, this one included:
    /// for one that is alone, waiting for company would only cost time.
    pub(crate) fn submit(
        &self,
        id: Option<u64>,
        line: Vec<u8>,
        under_way: usize,
    ) -> Result<(), Refused> {
        let mut state = lock(&self.state);
        if let Some(error) = &state.broken {
            return Err(Refused::Broken(error.clone()));
        }
        if !state.has_room(line.len(), self.limit) {
            return Err(Refused::Full { limit: self.limit });
        }
        if under_way <= 1 && state.queue.is_empty() && state.writer.is_some() {
            return self.write_at_once(&mut state, id, line);
        }
        state.usual = state.usual.max(under_way);
        let is_first = state.queue.is_empty();
        self.queue(&mut state, id, line)?;
        let is_light = !state.queue.is_begun() && state.queue.bytes() <= FREE;
        if state.queue.len() >= state.company() && is_light && state.writer.is_some() {
            self.write_queue(state);
        } else if is_first {
            // The others are written with it.
            drop(state);
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Whether a line of this size would be taken, as far as room goes.
    pub(crate) fn has_room(&self, size: usize) -> bool {
        lock(&self.state).has_room(size, self.limit)
    }

    /// How long a single line may be.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Comes back when there is room for a line of this size, or when there is nothing to wait for.
    /// Whoever waits holds the turn until they have submitted: who came first goes first.
    pub(crate) async fn room_for(&self, size: usize) -> tokio::sync::MutexGuard<'_, ()> {
        let turn = self.next.lock().await;
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            // From here on nothing is missed.
            freed.as_mut().enable();
            if self.is_worth_a_try(size) {
                return turn;
            }
            freed.await;
        }
    }

    fn is_worth_a_try(&self, size: usize) -> bool {
        let state = lock(&self.state);
        state.broken.is_some() || state.has_room(size, self.limit)
    }

    /// Writes the lines that wait, as far as that goes without waiting oneself. Others may bring more
    /// in the meantime.
    fn write_queue(&self, mut state: MutexGuard<'_, State>) {
        let Some(mut writer) = state.writer.take() else {
            return;
        };
        let mut lines = state.take_queue();
        state.is_lent = true;
        drop(state);
        let (written, flushed) = write_some(&mut writer, &lines);
        lines.wrote(written);
        let mut state = lock(&self.state);
        state.is_lent = false;
        // Closed in the meantime: the writer is dropped here.
        if state.broken.is_none() {
            state.writer = Some(writer);
        }
        state.put_back(lines);
        match flushed {
            Poll::Ready(Ok(())) => {}
            Poll::Pending => state.is_unflushed = true,
            Poll::Ready(Err(error)) => {
                state.broken.get_or_insert_with(|| error.to_string());
            }
        }
        let is_done = state.broken.is_none() && !state.has_work();
        drop(state);
        if !is_done {
            self.wake.notify_one();
        }
        self.freed.notify_waiters();
    }

    fn queue(&self, state: &mut State, id: Option<u64>, line: Vec<u8>) -> Result<(), Refused> {
        let mut held = None;
        if !self.budget.grow(&mut held, line.len()) {
            let limit = self.budget.limit();
            return Err(Refused::NoRoom { limit });
        }
        state.queue.push(id, line, held);
        Ok(())
    }

    fn write_at_once(
        &self,
        state: &mut State,
        id: Option<u64>,
        line: Vec<u8>,
    ) -> Result<(), Refused> {
        let Some(writer) = &mut state.writer else {
            return Ok(());
        };
        state.usual = state.usual.saturating_sub(1);
        // One try without waiting. If it would block, the writing task registers its own waker.
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(&mut *writer).poll_write(&mut context, &line) {
            Poll::Ready(Ok(written)) if written == line.len() => {
                match Pin::new(writer).poll_flush(&mut context) {
                    Poll::Ready(Ok(())) => return Ok(()),
                    Poll::Pending => state.is_unflushed = true,
                    // The line may have arrived: whoever waits for its answer is told at the end.
                    Poll::Ready(Err(error)) => state.broken = Some(error.to_string()),
                }
            }
            Poll::Ready(Ok(written)) => {
                // What was begun is finished, whatever else there is room for.
                state.queue.push(id, line, None);
                state.queue.wrote(written);
            }
            Poll::Pending => self.queue(state, id, line)?,
            Poll::Ready(Err(error)) => {
                let error = error.to_string();
                state.broken = Some(error.clone());
                self.wake.notify_one();
                return Err(Refused::Broken(error));
            }
        }
        self.wake.notify_one();
        Ok(())
    }

    /// Takes a request back if it was not begun, and says whether that was so.
    pub(crate) fn withdraw(&self, id: u64) -> bool {
        let was_there = lock(&self.state).queue.withdraw(id);
        if was_there {
            // Whoever gathers takes it for written, and what is left is to be written all the same.
            self.wake.notify_one();
            self.freed.notify_waiters();
        }
        was_there
    }

    /// Takes all requests back that were not begun, and says which.
    pub(crate) fn withdraw_all(&self) -> HashSet<u64> {
        let waiting = std::mem::take(&mut lock(&self.state).queue);
        self.freed.notify_waiters();
        waiting.not_begun().collect()
    }

    /// Writes what is submitted, until writing fails or the outbox is closed.
    pub(crate) async fn run(&self) -> Option<Broken> {
        loop {
            self.wake.notified().await;
            if !self.gather().await {
                continue;
            }
            loop {
                match self.next_batch() {
                    Next::Write(mut writer, mut lines) => {
                        if let Err(error) = write_all(&mut writer, &mut lines).await {
                            return Some(self.break_off(error.to_string(), &lines));
                        }
                        self.give_back(writer, lines);
                    }
                    Next::Nothing => break,
                    Next::Broken(error) => {
                        return Some(self.break_off(error, &Queue::default()));
                    }
                    Next::Closed => return None,
                }
            }
        }
    }

    /// Lets those who are about to submit join the lines that wait. False: somebody else has written
    /// them, and of what came since then one is told by itself.
    async fn gather(&self) -> bool {
        let mut before = lock(&self.state).queue.len();
        for turn in 1.. {
            tokio::task::yield_now().await;
            let state = lock(&self.state);
            let now = state.queue.len();
            if now < before {
                return false;
            }
            if (now == before && turn >= state.patience()) || now >= *COMPANY.end() {
                break;
            }
            before = now;
        }
        true
    }

    /// Drops the writer, so that the server sees the end of its input.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state
            .broken
            .get_or_insert_with(|| "the connection was closed".to_owned());
        state.writer = None;
        drop(state);
        self.wake.notify_one();
        self.freed.notify_waiters();
    }

    fn next_batch(&self) -> Next {
        let mut state = lock(&self.state);
        if state.is_lent {
            // Whoever has it says when there is more to do.
            return Next::Nothing;
        }
        let Some(writer) = state.writer.take() else {
            return Next::Closed;
        };
        if let Some(error) = state.broken.clone() {
            return Next::Broken(error);
        }
        if !state.has_work() {
            state.writer = Some(writer);
            return Next::Nothing;
        }
        state.is_unflushed = false;
        let lines = if state.queue.bytes() <= BATCH_BYTES {
            state.take_queue()
        } else {
            state.queue.take_front(BATCH_BYTES)
        };
        drop(state);
        self.freed.notify_waiters();
        Next::Write(writer, lines)
    }

    fn give_back(&self, writer: Writer, empty: Queue) {
        let mut state = lock(&self.state);
        state.keep_room(empty);
        // Closed in the meantime: the writer is dropped here.
        if state.broken.is_none() {
            state.writer = Some(writer);
        }
    }

    /// What was being written when that failed is lost, what was not begun was not sent.
    fn break_off(&self, error: String, writing: &Queue) -> Broken {
        let mut state = lock(&self.state);
        state.broken.get_or_insert_with(|| error.clone());
        state.writer = None;
        let waiting = std::mem::take(&mut state.queue);
        drop(state);
        self.freed.notify_waiters();
        Broken {
            error,
            not_sent: writing.not_begun().chain(waiting.not_begun()).collect(),
        }
    }
}

impl State {
    fn has_room(&self, size: usize, limit: usize) -> bool {
        self.queue.bytes() + size <= limit
    }

    fn has_work(&self) -> bool {
        !self.queue.is_empty() || self.is_unflushed
    }

    fn company(&self) -> usize {
        self.usual
            .div_ceil(2)
            .clamp(*COMPANY.start(), *COMPANY.end())
    }

    /// How many turns a company is waited for although nobody joins: as many as it has members, where
    /// two of them are usually under way.
    fn patience(&self) -> usize {
        if self.usual < 2 * *COMPANY.start() {
            return 0;
        }
        self.company()
    }

    fn take_queue(&mut self) -> Queue {
        self.usual = self.usual.saturating_sub(1);
        std::mem::replace(&mut self.queue, std::mem::take(&mut self.spare))
    }

    /// Takes lines back that were not written. They come before those that were brought in the
    /// meantime.
    fn put_back(&mut self, mut lines: Queue) {
        if !lines.is_empty() {
            lines.append(&mut self.queue);
            std::mem::swap(&mut self.queue, &mut lines);
        }
        self.keep_room(lines);
    }

    fn keep_room(&mut self, empty: Queue) {
        if empty.is_handy() {
            self.spare = empty;
        }
    }
}

/// One try to write lines and to flush, without waiting: how many bytes were taken, and whether
/// there is more to do.
fn write_some(writer: &mut Writer, lines: &Queue) -> (usize, Poll<io::Result<()>>) {
    // If it would block, the writing task registers its own waker.
    let mut context = Context::from_waker(Waker::noop());
    let write =
        lines.offer(|slices| Pin::new(&mut *writer).poll_write_vectored(&mut context, slices));
    match write {
        Poll::Ready(Ok(written)) => (written, Pin::new(writer).poll_flush(&mut context)),
        Poll::Ready(Err(error)) => (0, Poll::Ready(Err(error))),
        Poll::Pending => (0, Poll::Ready(Ok(()))),
    }
}

/// Writes lines and flushes. If that fails, those that were not written are left.
async fn write_all(writer: &mut Writer, lines: &mut Queue) -> io::Result<()> {
    while !lines.is_empty() {
        let write = |context: &mut Context<'_>| {
            lines.offer(|slices| Pin::new(&mut *writer).poll_write_vectored(context, slices))
        };
        match poll_fn(write).await? {
            0 => return Err(io::Error::other("nothing more can be written")),
            written => lines.wrote(written),
        }
    }
    poll_fn(|context| Pin::new(&mut *writer).poll_flush(context)).await
}

enum Next {
    Write(Writer, Queue),
    Nothing,
    Broken(String),
    Closed,
}

#[cfg(test)]
mod tests;
