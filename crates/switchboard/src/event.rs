//! What happened, for whoever wants to watch.
//!
//! Events are told, never asked: nothing in the engine waits for a listener, and a listener that
//! is too slow is told how much it missed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::{Serialize, Serializer};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::id::{CallId, Revision, ServerName, ToolId, WatchId, WireName};
use crate::mcp::Json;
use crate::status::ConnectionStatus;

/// Something that happened in the host.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(
    tag = "event",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum Event {
    /// A server's status or its reason changed.
    ServerChanged {
        /// Which server.
        server: ServerName,
        /// What it is now.
        status: ConnectionStatus,
        /// In words.
        detail: Option<String>,
    },
    /// The tools of a server changed.
    ToolsChanged {
        /// Which server.
        server: ServerName,
        /// The catalog's revision from then on.
        revision: Revision,
        /// Tools that are new.
        added: Vec<WireName>,
        /// Tools that are gone.
        removed: Vec<WireName>,
        /// Tools with a new definition.
        changed: Vec<WireName>,
    },
    /// A server says that the list of its resources, or of their templates, changed.
    ResourcesChanged {
        /// Which server.
        server: ServerName,
    },
    /// A server says that its prompts changed.
    PromptsChanged {
        /// Which server.
        server: ServerName,
    },
    /// A watch has something to tell: see [`Host::drain_watch_events`](crate::Host::drain_watch_events).
    WatchChanged {
        /// Which watch.
        watch: WatchId,
        /// Of which server.
        server: ServerName,
    },
    /// Another config holds: servers came or went.
    ConfigApplied {
        /// Servers that are new or changed.
        added: Vec<String>,
        /// Servers that are gone or changed.
        removed: Vec<String>,
    },
    /// Something in a server's listing could not be used.
    ListingNoted {
        /// Which server.
        server: ServerName,
        /// What, and why.
        note: String,
    },
    /// A server sent a log message.
    ServerLogged {
        /// Which server.
        server: ServerName,
        /// `debug`, `info`, … as the server says.
        level: String,
        /// Which part of the server.
        #[serde(skip_serializing_if = "Option::is_none")]
        logger: Option<String>,
        /// What it said: untrusted.
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<Json>,
    },
    /// A server logs more than is passed on.
    LogSkipped {
        /// Which server.
        server: ServerName,
        /// How many messages were left out within a second.
        count: u64,
    },
    /// A server asks people or models too often. What is beyond the limit is answered without them;
    /// this is told once for a row of such requests.
    RequestsLimited {
        /// Which server.
        server: ServerName,
        /// What it asks for: `elicitation/create` or `sampling/createMessage`.
        method: String,
        /// How many a minute it may.
        per_minute: usize,
    },
    /// A call was permitted and is on its way.
    CallStarted {
        /// Which call.
        call: CallId,
        /// Of which tool.
        tool: ToolId,
    },
    /// A call ended.
    CallFinished {
        /// Which call.
        call: CallId,
        /// Of which tool.
        tool: ToolId,
        /// How long it took, questions to a person included.
        elapsed: Duration,
        /// How the call ended.
        outcome: CallOutcome,
    },
    /// This listener was too slow and missed events.
    Missed {
        /// How many.
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

/// Where the engine tells its events.
#[derive(Clone, Debug)]
pub(crate) struct EventSink {
    sender: broadcast::Sender<Event>,
    /// How many listen: the channel knows it too, but takes a lock to tell.
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

    /// Tells an event, which is only made if somebody listens.
    pub(crate) fn send(&self, event: impl FnOnce() -> Event) {
        if self.has_listeners() {
            // The last listener may leave in this very moment.
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

/// The events from the moment of subscription on.
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
