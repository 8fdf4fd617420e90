//! Reads stdin on a thread and queues the messages.
//!
//! The thread reads even while no step waits for a message. Otherwise the fake CLI and its host
//! could block each other while both write.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, Write as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::Value;

/// What a wait for the next message on stdin returns.
#[derive(Debug)]
pub(super) enum StdinEvent {
    Message(Value),
    /// Stdin has ended and the queue is empty.
    Eof,
    /// No message arrived before the deadline.
    TimedOut,
}

#[derive(Debug, Default)]
struct MessageQueue {
    messages: VecDeque<Value>,
    is_eof: bool,
}

#[derive(Debug, Default)]
pub(super) struct StdinReader {
    queue: Mutex<MessageQueue>,
    changed: Condvar,
}

impl StdinReader {
    /// Starts the thread that reads stdin, queues the messages and copies every line to `record`.
    pub(super) fn open(mut record: Option<File>) -> Arc<Self> {
        let stdin = Arc::new(Self::default());
        let reader = Arc::clone(&stdin);
        // The thread is not joined: it ends with stdin or with the process.
        std::thread::spawn(move || {
            for line in io::stdin().lock().lines().map_while(Result::ok) {
                if let Some(file) = &mut record {
                    let _ = writeln!(file, "{line}");
                }
                let message = serde_json::from_str(&line).unwrap_or(Value::String(line));
                reader.queue().messages.push_back(message);
                reader.changed.notify_all();
            }
            reader.queue().is_eof = true;
            reader.changed.notify_all();
        });
        stdin
    }

    fn queue(&self) -> MutexGuard<'_, MessageQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next message from the queue, or waits for it until the deadline.
    pub(super) fn next(&self, deadline: Instant) -> StdinEvent {
        let mut queue = self.queue();
        loop {
            if let Some(message) = queue.messages.pop_front() {
                return StdinEvent::Message(message);
            }
            if queue.is_eof {
                return StdinEvent::Eof;
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return StdinEvent::TimedOut;
            };
            let waited = self.changed.wait_timeout(queue, left);
            (queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}
