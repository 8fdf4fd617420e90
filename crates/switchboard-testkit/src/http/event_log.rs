//! One stream of events as a log: what the server has said on it, and how far that was sent.
//!
//! Whoever speaks appends, whoever serves a connection reads from where he likes, so that a stream can
//! be resumed on another connection. Invariant: what waits to be sent is bounded; who speaks waits.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;

use crate::scripted::{Chunk, HandlerOutput, StepsStopped, WriteFuture};

/// How many bytes may wait to be sent. One piece always may, however long.
const MOST_UNSENT: usize = 256 * 1024;
/// How many bytes that were sent are kept for a client that comes back.
const MOST_KEPT: usize = 1024 * 1024;

#[derive(Debug)]
pub(super) struct EventLog {
    /// Its number in its session, which the ids of its events begin with.
    pub(super) number: u64,
    /// Whether a client may come back to it.
    can_resume: bool,
    log: Mutex<LogState>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct LogState {
    pieces: VecDeque<Chunk>,
    /// How many pieces have gone from the front of `pieces`.
    forgotten: u64,
    /// How many bytes of `pieces` were sent, and how many were not.
    kept_bytes: usize,
    unsent_bytes: usize,
    /// The number of the last piece that was sent.
    sent: u64,
    /// All is said.
    is_done: bool,
    /// Nobody will ever read it again.
    is_deaf: bool,
    /// Whoever reads; the newest only.
    reader: u64,
}

impl EventLog {
    pub(super) fn new(number: u64, can_resume: bool) -> Arc<Self> {
        Arc::new(Self {
            number,
            can_resume,
            log: Mutex::default(),
            changed: watch::Sender::new(()),
        })
    }

    fn log(&self) -> MutexGuard<'_, LogState> {
        self.log.lock().expect("no holder panics")
    }

    /// Appends a piece when there is room. Says no when the stream is over.
    pub(super) async fn put(&self, piece: Chunk) -> Result<(), StepsStopped> {
        let mut changes = self.changed.subscribe();
        loop {
            {
                let mut log = self.log();
                if log.is_done || log.is_deaf {
                    return Err(StepsStopped);
                }
                if log.unsent_bytes < MOST_UNSENT {
                    log.unsent_bytes += length(&piece);
                    log.pieces.push_back(piece);
                    break;
                }
            }
            changes.changed().await.map_err(|_| StepsStopped)?;
        }
        self.changed.send_replace(());
        Ok(())
    }

    /// All is said.
    pub(super) fn finish(&self) {
        self.log().is_done = true;
        self.changed.send_replace(());
    }

    pub(super) fn is_done(&self) -> bool {
        self.log().is_done
    }

    pub(super) fn is_open(&self) -> bool {
        let log = self.log();
        !log.is_done && !log.is_deaf
    }

    /// Reads on behind the piece of that number, or where reading stopped. Whoever read before is done.
    pub(super) fn read_behind(self: &Arc<Self>, number: Option<u64>) -> EventLogReader {
        let mut log = self.log();
        log.reader += 1;
        let reader = EventLogReader {
            stream: Arc::clone(self),
            last: number.unwrap_or(log.sent),
            ticket: log.reader,
            changes: self.changed.subscribe(),
        };
        drop(log);
        self.changed.send_replace(());
        reader
    }
}

impl LogState {
    fn piece_behind(&self, last: u64) -> Option<(u64, Chunk)> {
        let index = usize::try_from(last.saturating_sub(self.forgotten)).ok()?;
        let number = last.max(self.forgotten) + 1;
        Some((number, self.pieces.get(index)?.clone()))
    }

    fn mark_sent(&mut self, number: u64, piece: &Chunk, can_resume: bool) {
        if number > self.sent {
            self.sent = number;
            self.unsent_bytes -= length(piece);
            self.kept_bytes += length(piece);
        }
        let most = if can_resume { MOST_KEPT } else { 0 };
        while self.kept_bytes > most && self.forgotten < self.sent {
            let Some(piece) = self.pieces.pop_front() else {
                break;
            };
            self.kept_bytes -= length(&piece);
            self.forgotten += 1;
        }
    }
}

fn length(piece: &Chunk) -> usize {
    match piece {
        Chunk::Line(line) => line.len(),
        Chunk::Bytes(bytes) => bytes.len(),
    }
}

/// Reads a stream. Dropping it ends a stream that nobody can come back to.
#[derive(Debug)]
pub(super) struct EventLogReader {
    pub(super) stream: Arc<EventLog>,
    last: u64,
    ticket: u64,
    changes: watch::Receiver<()>,
}

impl EventLogReader {
    /// The next piece and its number; none when all is said, or another reads now.
    pub(super) async fn next(&mut self) -> Option<(u64, Chunk)> {
        loop {
            self.changes.borrow_and_update();
            {
                let mut log = self.stream.log();
                if log.reader != self.ticket {
                    return None;
                }
                if let Some((number, piece)) = log.piece_behind(self.last) {
                    self.last = number;
                    log.mark_sent(number, &piece, self.stream.can_resume);
                    drop(log);
                    self.stream.changed.send_replace(());
                    return Some((number, piece));
                }
                if log.is_done {
                    return None;
                }
            }
            self.changes.changed().await.ok()?;
        }
    }
}

impl Drop for EventLogReader {
    fn drop(&mut self) {
        if !self.stream.can_resume {
            self.stream.log().is_deaf = true;
            self.stream.changed.send_replace(());
        }
    }
}

/// Where the words of one request's handler go.
#[derive(Debug)]
pub(super) struct ResponseStream {
    pub(super) own: Arc<EventLog>,
    /// Where that goes which belongs to no request, and what is said after the answer.
    pub(super) unasked: Option<Arc<EventLog>>,
    /// Others speak on the same stream, so it goes on when the handler is done.
    pub(super) is_shared: bool,
}

impl HandlerOutput for ResponseStream {
    fn put(&self, piece: Chunk) -> WriteFuture<'_> {
        if self.own.is_done() {
            return self.put_unasked(piece);
        }
        Box::pin(self.own.put(piece))
    }

    fn put_unasked(&self, piece: Chunk) -> WriteFuture<'_> {
        Box::pin(async move {
            let unasked = self.unasked.as_ref().ok_or(StepsStopped)?;
            unasked.put(piece).await
        })
    }

    fn finish(&self) {
        if !self.is_shared {
            self.own.finish();
        }
    }

    fn close(&self) {
        self.own.finish();
    }

    fn is_open(&self) -> bool {
        self.own.is_open()
    }

    fn hears_unasked(&self) -> bool {
        self.unasked
            .as_ref()
            .is_some_and(|unasked| unasked.is_open())
    }
}
