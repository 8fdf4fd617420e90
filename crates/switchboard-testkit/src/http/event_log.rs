//! An event stream as a log of sent and unsent chunks.
//!
//! Handlers append chunks. A connection can read from any kept chunk, so a client can resume the
//! stream on another connection. Invariant: the number of unsent bytes is bounded, because handlers
//! wait while the log is full.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;

use crate::scripted::{Chunk, HandlerOutput, StepsStopped, WriteFuture};

/// When this many unsent bytes are in the log, handlers wait. A single chunk may be larger.
const MAX_UNSENT_BYTES: usize = 256 * 1024;
/// Maximum number of sent bytes that are kept for a client that resumes the stream.
const MAX_RESUMABLE_BYTES: usize = 1024 * 1024;

#[derive(Debug)]
pub(super) struct EventLog {
    /// The number of the stream in its session. The event ids of the stream start with this number.
    pub(super) number: u64,
    /// If true, sent chunks are kept and a client may resume the stream.
    can_resume: bool,
    log: Mutex<LogState>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct LogState {
    chunks: VecDeque<Chunk>,
    /// Number of chunks removed from the front of `chunks` so far.
    discarded: u64,
    /// Number of bytes in sent chunks that are kept for a resumed stream.
    kept_bytes: usize,
    unsent_bytes: usize,
    /// The number of the last sent chunk, counted from 1; 0 if none was sent.
    sent: u64,
    /// True when the stream ends after the chunks in the log.
    is_finished: bool,
    /// True when the stream cannot be resumed and its reader was dropped.
    is_abandoned: bool,
    /// The ticket of the newest reader. Readers with older tickets stop reading.
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
        self.log.lock().expect("the lock is not poisoned")
    }

    /// Appends a chunk; waits while the log is full. Fails if the stream has ended.
    pub(super) async fn put(&self, chunk: Chunk) -> Result<(), StepsStopped> {
        let mut changes = self.changed.subscribe();
        loop {
            {
                let mut log = self.log();
                if log.is_finished || log.is_abandoned {
                    return Err(StepsStopped);
                }
                if log.unsent_bytes < MAX_UNSENT_BYTES {
                    log.unsent_bytes += length(&chunk);
                    log.chunks.push_back(chunk);
                    break;
                }
            }
            changes.changed().await.map_err(|_| StepsStopped)?;
        }
        self.changed.send_replace(());
        Ok(())
    }

    /// Ends the stream after the chunks in the log.
    pub(super) fn finish(&self) {
        self.log().is_finished = true;
        self.changed.send_replace(());
    }

    pub(super) fn is_finished(&self) -> bool {
        self.log().is_finished
    }

    pub(super) fn is_open(&self) -> bool {
        let log = self.log();
        !log.is_finished && !log.is_abandoned
    }

    /// Returns a reader that starts after chunk `number`; `None`: after the last sent chunk. The
    /// new reader replaces the previous one.
    pub(super) fn read_after(self: &Arc<Self>, number: Option<u64>) -> EventLogReader {
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
    fn chunk_after(&self, last: u64) -> Option<(u64, Chunk)> {
        let index = usize::try_from(last.saturating_sub(self.discarded)).ok()?;
        let number = last.max(self.discarded) + 1;
        Some((number, self.chunks.get(index)?.clone()))
    }

    fn mark_sent(&mut self, number: u64, chunk: &Chunk, can_resume: bool) {
        if number > self.sent {
            self.sent = number;
            self.unsent_bytes -= length(chunk);
            self.kept_bytes += length(chunk);
        }
        let max = if can_resume { MAX_RESUMABLE_BYTES } else { 0 };
        while self.kept_bytes > max && self.discarded < self.sent {
            let Some(chunk) = self.chunks.pop_front() else {
                break;
            };
            self.kept_bytes -= length(&chunk);
            self.discarded += 1;
        }
    }
}

fn length(chunk: &Chunk) -> usize {
    match chunk {
        Chunk::Line(line) => line.len(),
        Chunk::Bytes(bytes) => bytes.len(),
    }
}

/// Reads an event log. Dropping the reader ends a stream that cannot be resumed.
#[derive(Debug)]
pub(super) struct EventLogReader {
    pub(super) stream: Arc<EventLog>,
    last: u64,
    ticket: u64,
    changes: watch::Receiver<()>,
}

impl EventLogReader {
    /// Returns the next chunk and its number. Returns `None` at the end of the stream or when a
    /// newer reader exists.
    pub(super) async fn next(&mut self) -> Option<(u64, Chunk)> {
        loop {
            self.changes.borrow_and_update();
            {
                let mut log = self.stream.log();
                if log.reader != self.ticket {
                    return None;
                }
                if let Some((number, chunk)) = log.chunk_after(self.last) {
                    self.last = number;
                    log.mark_sent(number, &chunk, self.stream.can_resume);
                    drop(log);
                    self.stream.changed.send_replace(());
                    return Some((number, chunk));
                }
                if log.is_finished {
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
            self.stream.log().is_abandoned = true;
            self.stream.changed.send_replace(());
        }
    }
}

/// Where the handler of one request writes.
#[derive(Debug)]
pub(super) struct ResponseStream {
    /// The stream of the response.
    pub(super) own: Arc<EventLog>,
    /// The stream for notifications, and for messages after the end of `own`. `None`: the server
    /// drops such messages.
    pub(super) notifications: Option<Arc<EventLog>>,
    /// If true, other handlers write to `own` too, so `own` stays open when this handler ends.
    pub(super) is_shared: bool,
}

impl HandlerOutput for ResponseStream {
    fn put(&self, chunk: Chunk) -> WriteFuture<'_> {
        if self.own.is_finished() {
            return self.put_notification(chunk);
        }
        Box::pin(self.own.put(chunk))
    }

    fn put_notification(&self, chunk: Chunk) -> WriteFuture<'_> {
        Box::pin(async move {
            let notifications = self.notifications.as_ref().ok_or(StepsStopped)?;
            notifications.put(chunk).await
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

    fn accepts_notifications(&self) -> bool {
        self.notifications
            .as_ref()
            .is_some_and(|notifications| notifications.is_open())
    }
}
