//! Reads server-sent events from the body of an HTTP response.
//!
//! This module splits the body into events and reports how the stream ended. It does not interpret
//! the events and does not open the stream again. Invariant: an event takes no more memory than the
//! limit `messageBytes` and the memory budget allow.

use super::super::SessionContext;
use crate::http::{Body, HttpError};
use switchboard_wire::sse::{Event, SseItem, SseParser};

pub(super) struct EventStream {
    body: Body,
    events: SseParser,
}

/// Why a stream has no more events.
pub(super) enum EventStreamEnd {
    /// The server closed the stream.
    Closed,
    /// The connection failed, or the body could not be decoded.
    Failed(HttpError),
    /// The server sent an event that has no end within eight times the size limit.
    Unterminated,
}

impl EventStream {
    pub(super) fn new(body: Body, context: &SessionContext) -> Self {
        Self {
            body,
            events: SseParser::new(context.limits.message_bytes, &context.budget),
        }
    }

    /// Waits for the next event, retry delay or report of a discarded event.
    pub(super) async fn next(&mut self) -> Result<SseItem, EventStreamEnd> {
        loop {
            match self.events.next_item() {
                Ok(Some(item)) => return Ok(item),
                Ok(None) => {}
                Err(_) => return Err(EventStreamEnd::Unterminated),
            }
            match self.body.chunk().await {
                Ok(Some(chunk)) => self.events.push(chunk),
                Ok(None) => return Err(EventStreamEnd::Closed),
                Err(error) => return Err(EventStreamEnd::Failed(error)),
            }
        }
    }

    /// The last id among the events that arrived completely.
    pub(super) fn last_event_id(&self) -> Option<&str> {
        self.events.last_event_id()
    }

    /// Continues with `body`, which is the body of a response that resumes the stream. Keeps the
    /// last event id.
    pub(super) fn resume(&mut self, body: Body) {
        self.body = body;
        self.events.reset_for_resume();
    }

    /// Stops parsing events. Returns the body with the part that was not read yet.
    pub(super) fn into_body(self) -> Body {
        self.body
    }
}

/// Whether an event holds a JSON-RPC message: its type is `message` or missing.
pub(super) fn is_message(event: &Event) -> bool {
    event.kind.as_deref().is_none_or(|kind| kind == "message")
}
