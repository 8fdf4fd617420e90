//! What a stand-in has read and not looked at yet.
//!
//! A thread reads stdin all the time, so that a host which writes is never held up by a stand-in that
//! writes too.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, Write as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::Value;

/// What there is to read.
#[derive(Debug)]
pub(super) enum StdinEvent {
    Message(Value),
    /// Stdin has ended.
    End,
    /// Nothing has come in time.
    TooLate,
}

#[derive(Debug, Default)]
struct Read {
    messages: VecDeque<Value>,
    is_over: bool,
}

#[derive(Debug, Default)]
pub(super) struct StdinReader {
    read: Mutex<Read>,
    changed: Condvar,
}

impl StdinReader {
    /// Begins to read, and to write what was read to a file.
    pub(super) fn open(mut record: Option<File>) -> Arc<Self> {
        let stdin = Arc::new(Self::default());
        let filled = Arc::clone(&stdin);
        // Not joined: it ends with stdin, or with the process.
        std::thread::spawn(move || {
            for line in io::stdin().lock().lines().map_while(Result::ok) {
                if let Some(file) = &mut record {
                    let _ = writeln!(file, "{line}");
                }
                let message = serde_json::from_str(&line).unwrap_or(Value::String(line));
                filled.read().messages.push_back(message);
                filled.changed.notify_all();
            }
            filled.read().is_over = true;
            filled.changed.notify_all();
        });
        stdin
    }

    fn read(&self) -> MutexGuard<'_, Read> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next message, waited for until the deadline.
    pub(super) fn next(&self, deadline: Instant) -> StdinEvent {
        let mut read = self.read();
        loop {
            if let Some(message) = read.messages.pop_front() {
                return StdinEvent::Message(message);
            }
            if read.is_over {
                return StdinEvent::End;
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return StdinEvent::TooLate;
            };
            let waited = self.changed.wait_timeout(read, left);
            (read, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}
