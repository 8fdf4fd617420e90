//! Servers of this process in a host: the same catalog, rules, limits and status as any other server.

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
use fixture_server::Board;
use switchboard::event::Events;
use switchboard::{Event, Host, Readiness};
use tokio::time::{sleep, timeout};

/// Longer than anything here takes, short of an error.
const A_WHILE: Duration = Duration::from_secs(60);

/// A host with a board named `b`.
async fn hosting(board: &Arc<Board>) -> Host {
    let host = permissive()
        .in_process_server("b", Arc::clone(board))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    host
}

/// The next event that is looked for.
async fn next(events: &mut Events, wanted: impl Fn(&Event) -> bool) -> Event {
    let looking = async {
        loop {
            let event = events.next().await.unwrap();
            if wanted(&event) {
                return event;
            }
        }
    };
    timeout(A_WHILE, looking).await.unwrap()
}

/// Waits, on a clock that stands still unless everybody does, until it is so.
async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(A_WHILE, waiting).await.unwrap();
}
