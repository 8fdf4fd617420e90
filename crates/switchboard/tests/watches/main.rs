//! Watches: what changes is told once, whoever goes away meanwhile.

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
#[allow(dead_code, reason = "only memory is looked at here")]
mod resource_counts;
mod subscriptions;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use switchboard::Host;
use switchboard::in_process::{LocalCall, LocalServer};
use switchboard::interaction::BoxFuture;
use switchboard::mcp::{CallToolResult, ErrorObject, Implementation, Json, Tool};
use switchboard::watch::{WatchChange, WatchEvent};
use tokio::time::{sleep, timeout};

const URI: &str = "demo://notes";

/// Longer than anything here takes, short of an error.
const A_WHILE: Duration = Duration::from_secs(60);

/// The next thing that a watch of this host tells.
async fn next(host: &Host) -> WatchEvent {
    let event = timeout(A_WHILE, host.next_watch_event()).await;
    event.unwrap().unwrap()
}

/// Nothing is told, however long one waits.
async fn nothing(host: &Host) {
    sleep(A_WHILE).await;
    assert_eq!(host.drain_watch_events(), []);
}

/// What changed, without what says when.
fn told(event: &WatchEvent) -> (WatchChange, &str, Option<&str>) {
    (event.change, &event.summary, event.diff.as_deref())
}

const ONCE: WatchChange = WatchChange::Changed { times: 1 };

/// A server in this process with one tool, which says what is on a board.
#[derive(Clone, Default)]
struct Board {
    text: Arc<Mutex<String>>,
    calls: Arc<AtomicUsize>,
}

impl Board {
    fn write(&self, text: &str) {
        text.clone_into(&mut self.text.lock().unwrap());
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

impl LocalServer for Board {
    fn implementation(&self) -> Implementation {
        Implementation::new("board", "1.0")
    }

    fn tools(&self) -> Vec<Tool> {
        vec![Tool::new("look", Json::from(&json!({"type": "object"})))]
    }

    fn call_tool<'a>(
        &'a self,
        _: LocalCall<'a>,
    ) -> BoxFuture<'a, Result<CallToolResult, ErrorObject>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let text = self.text.lock().unwrap().clone();
        let answer = match text.strip_prefix("error: ") {
            Some(why) => Err(ErrorObject::new(-32000, why)),
            None => Ok(CallToolResult::text(text)),
        };
        Box::pin(std::future::ready(answer))
    }
}
