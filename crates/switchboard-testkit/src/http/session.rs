//! Sessions of the legacy era, and the event streams of each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use super::event_log::{EventLog, EventLogReader};

/// The number of a session's notification stream. Response streams are numbered from 1.
const NOTIFICATION_STREAM: u64 = 0;

#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: String,
    /// The stream for messages that belong to no request.
    pub(super) notifications: Arc<EventLog>,
    streams: Mutex<SessionStreams>,
}

#[derive(Debug, Default)]
struct SessionStreams {
    last: u64,
    open: HashMap<u64, Arc<EventLog>>,
}

impl Session {
    pub(super) fn new(id: String) -> Arc<Self> {
        Arc::new(Self {
            id,
            notifications: EventLog::new(NOTIFICATION_STREAM, true),
            streams: Mutex::default(),
        })
    }

    fn streams(&self) -> MutexGuard<'_, SessionStreams> {
        self.streams.lock().expect("the lock is not poisoned")
    }

    /// Creates an event stream for the response to one request.
    pub(super) fn open_stream(&self) -> Arc<EventLog> {
        let mut streams = self.streams();
        streams.last += 1;
        let stream = EventLog::new(streams.last, true);
        streams.open.insert(stream.number, Arc::clone(&stream));
        stream
    }

    /// Returns a reader for the chunks after the event with this id. Returns `None` if the id is
    /// invalid or its stream is unknown.
    pub(super) fn resume(&self, event: &str) -> Option<EventLogReader> {
        let (stream, number) = event.split_once('-')?;
        let (stream, number) = (stream.parse().ok()?, number.parse().ok()?);
        if stream == NOTIFICATION_STREAM {
            return Some(self.notifications.read_after(Some(number)));
        }
        let stream = self.streams().open.get(&stream).cloned()?;
        Some(stream.read_after(Some(number)))
    }

    /// Ends all event streams of the session.
    pub(super) fn end(&self) {
        self.notifications.finish();
        for stream in self.streams().open.values() {
            stream.finish();
        }
    }
}
