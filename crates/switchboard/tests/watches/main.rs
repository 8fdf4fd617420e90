//! Watches: each change is reported once, also across reconnects.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

#[path = "../common/mod.rs"]
mod common;
mod limits;
mod many_watches;
mod polling;
mod remote;
#[path = "../resource_leaks/resource_counts.rs"]
#[allow(dead_code, reason = "these tests use only `Memory`")]
mod resource_counts;
mod subscriptions;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use switchboard::Host;
use switchboard::in_process::{LocalCall, LocalServer};
use switchboard::interaction::BoxFuture;
use switchboard::mcp::{CallToolResult, ErrorObject, Implementation, Json, ToolDefinition};
use switchboard::watch::{WatchChange, WatchEvent};
use tokio::time::{sleep, timeout};

const URI: &str = "demo://notes";

/// Maximum time until an expected event. Also a pause that is long enough for several polls.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the next watch event.
async fn next_event(host: &Host) -> WatchEvent {
    let event = timeout(TIMEOUT, host.next_watch_event()).await;
    event.unwrap().unwrap()
}

/// Asserts that no watch event occurs.
async fn assert_no_event(host: &Host) {
    sleep(TIMEOUT).await;
    assert_eq!(host.drain_watch_events(), []);
}

/// Change, summary and diff of an event.
fn change_of(event: &WatchEvent) -> (WatchChange, &str, Option<&str>) {
    (event.change, &event.summary, event.diff.as_deref())
}

const CHANGED_ONCE: WatchChange = WatchChange::Changed { times: 1 };

/// An in-process server whose tool `look` returns a text. If the text begins with `error: `, the
/// server responds with a JSON-RPC error instead.
#[derive(Clone, Default)]
struct TextServer {
    text: Arc<Mutex<String>>,
    calls: Arc<AtomicUsize>,
}

impl TextServer {
    fn write(&self, text: &str) {
        text.clone_into(&mut self.text.lock().unwrap());
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

impl LocalServer for TextServer {
    fn implementation(&self) -> Implementation {
        Implementation::new("board", "1.0")
    }

    fn tools(&self) -> Vec<ToolDefinition> {
        vec![ToolDefinition::new(
            "look",
            Json::from(&json!({"type": "object"})),
        )]
    }

    fn call_tool<'a>(
        &'a self,
        _: LocalCall<'a>,
    ) -> BoxFuture<'a, Result<CallToolResult, ErrorObject>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let text = self.text.lock().unwrap().clone();
        let result = match text.strip_prefix("error: ") {
            Some(message) => Err(ErrorObject::new(-32000, message)),
            None => Ok(CallToolResult::text(text)),
        };
        Box::pin(std::future::ready(result))
    }
}
