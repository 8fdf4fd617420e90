//! In-process servers in a host: the catalog, rules, limits and status work as for other servers.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

#[path = "../common/mod.rs"]
mod common;
mod fixture_server;
mod limits;
mod resources_and_prompts;
mod sdk_entries;
mod shared_instances;

use std::sync::Arc;
use std::time::Duration;

use common::permissive;
use fixture_server::NoteServer;
use switchboard::event::Events;
use switchboard::{Event, Host, Readiness};
use tokio::time::{sleep, timeout};

/// Maximum duration of one step of a test.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Starts a host in which `server` has the name `b`.
async fn host_with_server(server: &Arc<NoteServer>) -> Host {
    let host = permissive()
        .in_process_server("b", Arc::clone(server))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    host
}

/// Waits for the next event for which `wanted` returns true.
async fn next_event(events: &mut Events, wanted: impl Fn(&Event) -> bool) -> Event {
    let search = async {
        loop {
            let event = events.next().await.unwrap();
            if wanted(&event) {
                return event;
            }
        }
    };
    timeout(TIMEOUT, search).await.unwrap()
}

/// Waits until the condition holds. The paused clock advances only while all tasks are idle.
async fn wait_until(condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(TIMEOUT, waiting).await.unwrap();
}
