//! The events of a host: servers, tools, calls, watches.
//!
//! [`Host::events`](crate::Host::events) subscribes to them. Invariant: the host never waits for a
//! listener. A listener that is too slow misses events and gets their number in [`Event::Missed`].

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

/// An event of the host.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(
    tag = "event",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum Event {
    /// The status, the phase or the error of a server changed.
    ServerChanged {
        /// The server.
        server: ServerName,
        /// The new status.
        status: ConnectionStatus,
        /// The error, or what the user can do.
        detail: Option<String>,
    },
    /// The tools of a server changed.
    ToolsChanged {
        /// The server.
        server: ServerName,
        /// The new revision of the catalog.
        revision: Revision,
        /// New tools.
        added: Vec<WireName>,
        /// Removed tools.
        removed: Vec<WireName>,
        /// Tools whose definition changed.
        changed: Vec<WireName>,
    },
    /// The server reported that its resources or resource templates changed.
    ResourcesChanged {
        /// The server.
        server: ServerName,
    },
    /// The server reported that its prompts changed.
    PromptsChanged {
        /// The server.
        server: ServerName,
    },
    /// A watch has a pending event: see
    /// [`Host::drain_watch_events`](crate::Host::drain_watch_events).
    WatchChanged {
        /// The watch.
        watch: WatchId,
        /// The server.
        server: ServerName,
    },
    /// A config change added or removed servers.
    ConfigApplied {
        /// New and changed servers.
        added: Vec<String>,
        /// Removed and changed servers.
        removed: Vec<String>,
    },
    /// A listing of the server contains an item that cannot be used.
    ListingNoted {
        /// The server.
        server: ServerName,
        /// The item, and why it cannot be used.
        note: String,
    },
    /// The server sent a log message.
    ServerLogged {
        /// The server.
        server: ServerName,
        /// `debug`, `info`, …, as the server sent it.
        level: String,
        /// The name of the logger within the server.
        #[serde(skip_serializing_if = "Option::is_none")]
        logger: Option<String>,
        /// The message. Untrusted.
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<Json>,
    },
    /// The server exceeded the rate limit for log messages.
    LogSkipped {
        /// The server.
        server: ServerName,
        /// The number of messages that were dropped within a second.
        count: u64,
    },
    /// The server exceeded the rate limit for elicitation or sampling. Requests beyond the limit
    /// are rejected. Sent once per series of rejected requests.
    RequestsLimited {
        /// The server.
        server: ServerName,
        /// `elicitation/create` or `sampling/createMessage`.
        method: String,
        /// The limit per minute.
        per_minute: usize,
    },
    /// A call was permitted and starts.
    CallStarted {
        /// The call.
        call: CallId,
        /// The tool.
        tool: ToolId,
    },
    /// A call ended.
    CallFinished {
        /// The call.
        call: CallId,
        /// The tool.
        tool: ToolId,
        /// The duration since the call was permitted.
        elapsed: Duration,
        /// How the call ended.
        outcome: CallOutcome,
    },
    /// The listener was too slow and missed events.
    Missed {
        /// The number of missed events.
        count: u64,
    },
}

/// How a call ended. Serialized as its text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallOutcome {
    /// The tool returned a result.
    Ok,
    /// The tool returned a result with `isError`.
    ToolError,
    /// The call has no result. Holds the message of the [`CallError`](crate::CallError).
    Failed(String),
    /// The caller dropped the call.
    Cancelled,
}

impl fmt::Display for CallOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::ToolError => "the tool failed",
            Self::Failed(error) => error,
            Self::Cancelled => "cancelled",
        })
    }
}

impl Serialize for CallOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The sending side of the event stream.
#[derive(Clone, Debug)]
pub(crate) struct EventSink {
    sender: broadcast::Sender<Event>,
    /// The number of listeners. The channel counts them too, but takes a lock to return the number.
    listeners: Arc<AtomicUsize>,
    /// Cancelled when no more events follow.
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

    /// Ends all event streams, after the events that they have not read yet.
    pub(crate) fn close(&self) {
        self.closed.cancel();
    }

    /// Sends an event. Builds it only if there are listeners.
    pub(crate) fn send(&self, event: impl FnOnce() -> Event) {
        if self.has_listeners() {
            // Fails if the last listener was dropped in the meantime.
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

/// A stream of events, starting with the subscription.
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
    /// Waits for the next event. Returns `None` after the host has shut down.
    pub async fn next(&mut self) -> Option<Event> {
        // Polls the channel first, so that events before the shutdown are delivered.
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
