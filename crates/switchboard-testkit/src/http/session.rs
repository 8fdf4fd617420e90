//! What a server remembers of its clients between requests, as the legacy revisions want it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use super::event_log::{EventLog, EventLogReader};

/// The number of the stream for everything that no request asked for.
const UNASKED: u64 = 0;

#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: String,
    /// For everything that no request asked for.
    pub(super) unasked: Arc<EventLog>,
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
            unasked: EventLog::new(UNASKED, true),
            streams: Mutex::default(),
        })
    }

    fn streams(&self) -> MutexGuard<'_, SessionStreams> {
        self.streams.lock().expect("no holder panics")
    }

    /// A stream for the answer to one request.
    pub(super) fn open_stream(&self) -> Arc<EventLog> {
        let mut streams = self.streams();
        streams.last += 1;
        let stream = EventLog::new(streams.last, true);
        streams.open.insert(stream.number, Arc::clone(&stream));
        stream
    }

    /// Goes on behind the event of that id.
    pub(super) fn resume(&self, event: &str) -> Option<EventLogReader> {
        let (stream, number) = event.split_once('-')?;
        let (stream, number) = (stream.parse().ok()?, number.parse().ok()?);
        if stream == UNASKED {
            return Some(self.unasked.read_behind(Some(number)));
        }
        let stream = self.streams().open.get(&stream).cloned()?;
        Some(stream.read_behind(Some(number)))
    }

    /// Nothing more is said on any of its streams.
    pub(super) fn end(&self) {
        self.unasked.finish();
        for stream in self.streams().open.values() {
            stream.finish();
        }
    }
}
