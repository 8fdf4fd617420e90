//! Turns `list_changed` notifications for resources and prompts into events.
//!
//! Changed tools are not handled here: [`super::tool_listing_refresh`] lists them again. Invariant:
//! a session causes at most one event per [`ChangeEvents::MIN_INTERVAL`].

use std::time::Duration;

use switchboard_client::session::Session;
use switchboard_client::session::list_changes::ListChangeKind;
use tokio::time::Instant;

use crate::event::{Event, EventSink};
use crate::id::ServerName;

pub(super) struct ChangeEvents {
    next_event_at: Instant,
}

impl ChangeEvents {
    const MIN_INTERVAL: Duration = Duration::from_millis(100);

    pub(super) fn new() -> Self {
        Self {
            next_event_at: Instant::now(),
        }
    }

    /// Waits until the server announces that its resources or prompts changed, or the session may
    /// have missed such an announcement. Does not return before [`Self::MIN_INTERVAL`] has passed
    /// since the last event. Cancel-safe.
    pub(super) async fn next(&self, session: &Session) -> ListChangeKind {
        tokio::time::sleep_until(self.next_event_at).await;
        tokio::select! {
            biased;
            () = session.list_changed(ListChangeKind::Resources) => ListChangeKind::Resources,
            () = session.list_changed(ListChangeKind::Prompts) => ListChangeKind::Prompts,
        }
    }

    pub(super) fn send(&mut self, kind: ListChangeKind, server: &ServerName, events: &EventSink) {
        self.next_event_at = Instant::now() + Self::MIN_INTERVAL;
        events.send(|| {
            let server = server.clone();
            match kind {
                ListChangeKind::Prompts => Event::PromptsChanged { server },
                _ => Event::ResourcesChanged { server },
            }
        });
    }
}
