//! The event stream of a host: changes of servers, tools, calls and watches.
//!
//! [`Host::events`](crate::Host::events) subscribes to the stream. Invariant: the host never waits
//! for a listener. A listener that is too slow misses the oldest events and gets the number of
//! missed events in [`Event::Missed`]. Texts of servers are sanitized. The raw name of a tool is
//! sanitized where it is displayed or serialized; see [`ToolName`](crate::id::ToolName).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::{Serialize, Serializer};
use switchboard_wire::mcp::Json;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::id::{CallId, Revision, ServerName, ToolId, WatchId, WireName};
use crate::status::ConnectionStatus;

/// Something that happened in a host. Serialized as an object whose member `event` is the kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(
    tag = "event",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum Event {
    /// The status, the phase or the error of a server changed, or
    /// [`Host::apply_config`](crate::Host::apply_config) added the server.
    ServerChanged {
        /// The name of the server.
        server: ServerName,
        /// The new status.
        status: ConnectionStatus,
        /// The error of the server. Without an error, an explanation of the status, if there is
        /// one.
        detail: Option<String>,
    },
    /// Tools of a server were added to the catalog, removed from it or changed.
    ToolsChanged {
        /// The name of the server.
        server: ServerName,
        /// The new revision of the catalog.
        revision: Revision,
        /// The wire names of tools that are new in the catalog.
        added: Vec<WireName>,
        /// The wire names of tools that are no longer in the catalog.
        removed: Vec<WireName>,
        /// The wire names of tools whose definition changed, and wire names that now belong to
        /// another tool.
        changed: Vec<WireName>,
    },
    /// The resources or resource templates of the server changed, or may have changed: the server
    /// reported it, or the host may have missed such a report.
    ResourcesChanged {
        /// The name of the server.
        server: ServerName,
    },
    /// The prompts of the server changed, or may have changed: the server reported it, or the host
    /// may have missed such a report.
    PromptsChanged {
        /// The name of the server.
        server: ServerName,
    },
    /// A watch has a new event. [`Host::drain_watch_events`](crate::Host::drain_watch_events)
    /// returns it.
    WatchChanged {
        /// The id of the watch.
        watch: WatchId,
        /// The name of the server.
        server: ServerName,
    },
    /// [`Host::apply_config`](crate::Host::apply_config) added or removed servers.
    ConfigApplied {
        /// The names of new and of changed servers.
        added: Vec<String>,
        /// The names of removed and of changed servers.
        removed: Vec<String>,
    },
    /// The host left out a tool that the server lists, or cut the tool list at a limit.
    ListingNoted {
        /// The name of the server.
        server: ServerName,
        /// What was left out, and why.
        note: String,
    },
    /// The server sent a log message.
    ServerLogged {
        /// The name of the server.
        server: ServerName,
        /// The log level that the server sent, for example `info`.
        level: String,
        /// The name of the logger within the server.
        #[serde(skip_serializing_if = "Option::is_none")]
        logger: Option<String>,
        /// The content of the log message, with sanitized texts.
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<Json>,
    },
    /// The server sent more log messages in one second than
    /// [`Limits::log_messages_per_second`](crate::limits::Limits::log_messages_per_second).
    LogSkipped {
        /// The name of the server.
        server: ServerName,
        /// The number of log messages that were dropped in that second.
        count: u64,
    },
    /// The server sent more elicitation or sampling requests per minute than allowed, and the host
    /// rejects further ones. Of several rejections in a row, only the first causes an event.
    RequestsLimited {
        /// The name of the server.
        server: ServerName,
        /// The method of the rejected requests: `elicitation/create` or `sampling/createMessage`.
        method: String,
        /// The maximum number of requests of this method per minute.
        per_minute: usize,
    },
    /// A tool call was permitted. The call can still fail before it is sent to the server.
    CallStarted {
        /// The id of the call.
        call: CallId,
        /// The server and the name of the called tool.
        tool: ToolId,
    },
    /// A tool call that was permitted has ended.
    CallFinished {
        /// The id of the call.
        call: CallId,
        /// The server and the name of the called tool.
        tool: ToolId,
        /// The time from when the call was permitted until it ended.
        elapsed: Duration,
        /// How the call ended.
        outcome: CallOutcome,
    },
    /// The listener that gets this event was too slow: the host dropped events that this listener
    /// had not read.
    Missed {
        /// The number of events that this listener missed.
        count: u64,
    },
}

/// How a tool call ended. Serialized as the text that [`fmt::Display`] writes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallOutcome {
    /// The server returned a result without `isError`.
    Ok,
    /// The server returned a result with `isError`.
    ToolError,
    /// The call failed with a [`CallError`](crate::CallError). Holds the message of that error.
    Failed(String),
    /// No response arrived, and the server may or may not have executed the call. Holds the message
    /// of the error.
    Unknown(String),
    /// The future of the call was dropped before the call had a result.
    Cancelled,
}

impl fmt::Display for CallOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::ToolError => "the tool failed",
            Self::Failed(error) | Self::Unknown(error) => error,
            Self::Cancelled => "cancelled",
        })
    }
}

impl Serialize for CallOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Sends events to all [`Events`] streams of a host.
#[derive(Clone, Debug)]
pub(crate) struct EventSink {
    sender: broadcast::Sender<Event>,
    /// The number of [`Events`] streams that exist. `broadcast::Sender::receiver_count` returns the
    /// same number, but takes a lock.
    listeners: Arc<AtomicUsize>,
    /// Cancelled by [`EventSink::close`], after the last event.
    closed: CancellationToken,
}

impl EventSink {
    pub(crate) fn new(backlog: usize) -> Self {
        Self {
            sender: broadcast::Sender::new(backlog),
            listeners: Arc::default(),
            closed: CancellationToken::new(),
        }
    }

    /// Ends all event streams. A stream still returns the events that were sent before.
    pub(crate) fn close(&self) {
        self.closed.cancel();
    }

    /// Sends an event to all listeners. Does not call `event` if there are no listeners.
    pub(crate) fn send(&self, event: impl FnOnce() -> Event) {
        if self.has_listeners() {
            // Sending fails if the last listener was dropped in the meantime.
            let _ = self.sender.send(event());
        }
    }

    pub(crate) fn has_listeners(&self) -> bool {
        self.listeners.load(Ordering::Acquire) > 0
    }

    pub(crate) fn subscribe(&self) -> Events {
        let receiver = self.sender.subscribe();
        self.listeners.fetch_add(1, Ordering::Release);
        Events {
            receiver,
            listeners: Arc::clone(&self.listeners),
            closed: self.closed.clone(),
        }
    }
}

/// A stream of the events of a host. It contains the events that are sent after the call of
/// [`Host::events`](crate::Host::events).
#[derive(Debug)]
pub struct Events {
    receiver: broadcast::Receiver<Event>,
    listeners: Arc<AtomicUsize>,
    closed: CancellationToken,
}

impl Drop for Events {
    fn drop(&mut self) {
        self.listeners.fetch_sub(1, Ordering::Release);
    }
}

impl Events {
    /// Waits for the next event. Returns `None` if the host has shut down and all events before the
    /// shutdown were returned.
    pub async fn next(&mut self) -> Option<Event> {
        // Polls the channel first, so that events sent before the shutdown are returned.
        let received = tokio::select! {
            biased;
            received = self.receiver.recv() => received,
            () = self.closed.cancelled() => return None,
        };
        match received {
            Ok(event) => Some(event),
            Err(broadcast::error::RecvError::Lagged(count)) => Some(Event::Missed { count }),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}
