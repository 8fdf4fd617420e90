//! The lines that wait to be written to one server.
//!
//! A caller who is alone writes at once; when several are under way their lines are written
//! together, a few at a time: the server works on the first while the next are made. That is done
//! without the lock, for which the others would have to wait. A server that does not read stalls
//! nobody: its lines wait here, up to a bound.
//! Invariant: it is known of every line whether a byte of it may have reached the server.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

use crate::budget::{Budget, FREE, Held};
use crate::sync::lock;

pub(crate) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// How many bytes are written together at most.
const BATCH_BYTES: usize = 256 * 1024;
/// Whoever brings the line that makes it so many writes them all.
const COMPANY: usize = 24;
/// How many lines an empty queue is kept for.
const KEPT_ROOM: usize = 2 * COMPANY;

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
    queue: VecDeque<Queued>,
    queued_bytes: usize,
    /// An empty queue, kept for its room.
    spare: VecDeque<Queued>,
    /// The end of a line whose beginning was written.
    tail: Vec<u8>,
    /// All was written, but not yet flushed.
    is_unflushed: bool,
    /// Away while somebody writes; gone when the outbox is closed.
    writer: Option<Writer>,
    /// It is a caller who writes.
    is_lent: bool,
    broken: Option<String>,
}

struct Queued {
    /// The request this is; notifications and answers have none.
    id: Option<u64>,
    line: Vec<u8>,
    /// Its share of the budget.
    held: Option<Held>,
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
            queue: VecDeque::new(),
            queued_bytes: 0,
            spare: VecDeque::new(),
            tail: Vec::new(),
            is_unflushed: false,
            writer: Some(writer),
            is_lent: false,
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

    /// Takes a line. `alone` says that nothing else is under way, so that waiting for company
    /// would only cost time.
    pub(crate) fn submit(
        &self,
        id: Option<u64>,
        line: Vec<u8>,
        alone: bool,
    ) -> Result<(), Refused> {
        let mut state = lock(&self.state);
        if let Some(error) = &state.broken {
            return Err(Refused::Broken(error.clone()));
        }
        if !state.has_room(line.len(), self.limit) {
            return Err(Refused::Full { limit: self.limit });
        }
        if alone && state.queue.is_empty() && state.tail.is_empty() && state.writer.is_some() {
            return self.write_at_once(&mut state, id, line);
        }
        let is_first = state.queue.is_empty();
        self.queue(&mut state, id, line)?;
        let is_light = state.tail.is_empty() && state.queued_bytes <= FREE;
        if state.queue.len() >= COMPANY && is_light && state.writer.is_some() {
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
        let tail = let_go(&mut lines, written);
        let mut state = lock(&self.state);
        state.is_lent = false;
        // Closed in the meantime: the writer is dropped here.
        if state.broken.is_none() {
            state.writer = Some(writer);
        }
        state.put_back(tail, lines);
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
        state.queued_bytes += line.len();
        state.queue.push_back(Queued { id, line, held });
        Ok(())
    }

    fn write_at_once(
        &self,
        state: &mut State,
        id: Option<u64>,
        mut line: Vec<u8>,
    ) -> Result<(), Refused> {
        let Some(writer) = &mut state.writer else {
            return Ok(());
        };
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
                line.drain(..written);
                state.tail = line;
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
        let mut state = lock(&self.state);
        let Some(place) = state.queue.iter().position(|queued| queued.id == Some(id)) else {
            return false;
        };
        if let Some(queued) = state.queue.remove(place) {
            state.queued_bytes -= queued.line.len();
        }
        self.freed.notify_waiters();
        true
    }

    /// Writes what is submitted, until writing fails or the outbox is closed.
    pub(crate) async fn run(&self) -> Option<Broken> {
        loop {
            self.wake.notified().await;
            // Whoever else is about to submit in this round joins the batch.
            tokio::task::yield_now().await;
            loop {
                match self.next_batch() {
                    Next::Write(mut writer, tail, mut lines) => {
                        let batch = Batch::of(tail, lines.drain(..));
                        if let Err(error) = batch.write(&mut writer).await {
                            return Some(self.break_off(error));
                        }
                        self.give_back(writer, lines);
                    }
                    Next::Nothing => break,
                    Next::Broken(error) => {
                        return Some(self.break_off(WriteError {
                            error,
                            not_sent: Vec::new(),
                        }));
                    }
                    Next::Closed => return None,
                }
            }
        }
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
        let tail = std::mem::take(&mut state.tail);
        let lines = if state.queued_bytes <= BATCH_BYTES {
            state.take_queue()
        } else {
            state.take_batch()
        };
        drop(state);
        self.freed.notify_waiters();
        Next::Write(writer, tail, lines)
    }

    fn give_back(&self, writer: Writer, empty: VecDeque<Queued>) {
        let mut state = lock(&self.state);
        state.keep_room(empty);
        // Closed in the meantime: the writer is dropped here.
        if state.broken.is_none() {
            state.writer = Some(writer);
        }
    }

    fn break_off(&self, failed: WriteError) -> Broken {
        let mut state = lock(&self.state);
        state.broken.get_or_insert_with(|| failed.error.clone());
        state.writer = None;
        let waiting = state.queue.drain(..).filter_map(|queued| queued.id);
        let not_sent = failed.not_sent.into_iter().chain(waiting).collect();
        self.freed.notify_waiters();
        Broken {
            error: failed.error,
            not_sent,
        }
    }
}

impl State {
    fn has_room(&self, size: usize, limit: usize) -> bool {
        self.queued_bytes + self.tail.len() + size <= limit
    }

    fn has_work(&self) -> bool {
        !self.queue.is_empty() || !self.tail.is_empty() || self.is_unflushed
    }

    fn take_queue(&mut self) -> VecDeque<Queued> {
        self.queued_bytes = 0;
        std::mem::replace(&mut self.queue, std::mem::take(&mut self.spare))
    }

    /// Takes the first lines, as many as are written together.
    fn take_batch(&mut self) -> VecDeque<Queued> {
        let mut lines = std::mem::take(&mut self.spare);
        let mut bytes = 0;
        while bytes < BATCH_BYTES
            && let Some(queued) = self.queue.pop_front()
        {
            bytes += queued.line.len();
            lines.push_back(queued);
        }
        self.queued_bytes -= bytes;
        lines
    }

    /// Takes lines back that were not written. They come before those that were brought in the
    /// meantime.
    fn put_back(&mut self, tail: Vec<u8>, mut lines: VecDeque<Queued>) {
        self.tail = tail;
        if !lines.is_empty() {
            self.queued_bytes += lines.iter().map(|queued| queued.line.len()).sum::<usize>();
            lines.append(&mut self.queue);
            std::mem::swap(&mut self.queue, &mut lines);
        }
        self.keep_room(lines);
    }

    fn keep_room(&mut self, empty: VecDeque<Queued>) {
        if empty.capacity() <= KEPT_ROOM {
            self.spare = empty;
        }
    }
}

/// Drops the lines of which all was written, and returns the rest of the one that was begun.
fn let_go(lines: &mut VecDeque<Queued>, mut written: usize) -> Vec<u8> {
    while let Some(first) = lines.front().map(|queued| queued.line.len())
        && first <= written
    {
        written -= first;
        lines.pop_front();
    }
    if written == 0 {
        return Vec::new();
    }
    let begun = lines.pop_front().map(|queued| queued.line);
    let rest = begun.as_deref().and_then(|line| line.get(written..));
    rest.unwrap_or_default().to_vec()
}

/// One try to write lines and to flush, without waiting: how many bytes were taken, and whether
/// there is more to do.
fn write_some(writer: &mut Writer, lines: &VecDeque<Queued>) -> (usize, Poll<io::Result<()>>) {
    let mut slices = [IoSlice::new(&[]); COMPANY];
    for (slice, queued) in slices.iter_mut().zip(lines) {
        *slice = IoSlice::new(&queued.line);
    }
    // If it would block, the writing task registers its own waker.
    let mut context = Context::from_waker(Waker::noop());
    match Pin::new(&mut *writer).poll_write_vectored(&mut context, &slices) {
        Poll::Ready(Ok(written)) => (written, Pin::new(writer).poll_flush(&mut context)),
        Poll::Ready(Err(error)) => (0, Poll::Ready(Err(error))),
        Poll::Pending => (0, Poll::Ready(Ok(()))),
    }
}

enum Next {
    /// The rest of a line that was begun, and lines.
    Write(Writer, Vec<u8>, VecDeque<Queued>),
    Nothing,
    Broken(String),
    Closed,
}

/// Lines on their way, and where each request among them begins.
struct Batch {
    bytes: Vec<u8>,
    begins: Vec<(usize, u64)>,
    held: Vec<Held>,
}

struct WriteError {
    error: String,
    not_sent: Vec<u64>,
}

impl Batch {
    fn of(tail: Vec<u8>, lines: impl Iterator<Item = Queued>) -> Self {
        let mut batch = Self {
            bytes: tail,
            begins: Vec::new(),
            held: Vec::new(),
        };
        for Queued { id, line, held } in lines {
            batch.add(id, line);
            batch.held.extend(held);
        }
        batch
    }

    fn add(&mut self, id: Option<u64>, line: Vec<u8>) {
        if let Some(id) = id {
            self.begins.push((self.bytes.len(), id));
        }
        if self.bytes.is_empty() {
            self.bytes = line;
        } else {
            self.bytes.extend_from_slice(&line);
        }
    }

    async fn write(&self, writer: &mut Writer) -> Result<(), WriteError> {
        let mut written = 0;
        while let Some(rest) = self.bytes.get(written..).filter(|rest| !rest.is_empty()) {
            match writer.write(rest).await {
                Ok(0) => return Err(self.failed(written, "nothing more can be written")),
                Ok(count) => written += count,
                Err(error) => return Err(self.failed(written, &error.to_string())),
            }
        }
        let flushed = writer.flush().await;
        flushed.map_err(|error| self.failed(written, &error.to_string()))
    }

    fn failed(&self, written: usize, error: &str) -> WriteError {
        let not_begun = self.begins.iter().filter(|(begin, _)| *begin >= written);
        WriteError {
            error: error.to_owned(),
            not_sent: not_begun.map(|(_, id)| *id).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
