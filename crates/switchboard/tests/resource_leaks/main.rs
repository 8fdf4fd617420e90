//! Connecting and disconnecting, again and again: nothing stays behind.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

#[path = "../common/mod.rs"]
mod common;
mod resource_counts;

use std::collections::BTreeMap;
use std::time::Duration;

use common::{InMemory, child, launch, permissive};
use resource_counts::{Census, Memory};
use serde_json::json;
use switchboard::{Host, Readiness, ServerError};
use switchboard_config::ServerConfig;
use switchboard_testkit::{
    MemoryServer, Script, Step, assert_no_process_left, repetitions, unique_tag,
};
use tokio::time::timeout;

/// Rounds before anything is measured: pools fill up, and code is read in.
const WARM_UP: u32 = 50;
/// The share of the rounds that CI runs.
const SHARE: u32 = 500;

/// Runs rounds, the first few unmeasured, and sees that they leave nothing.
async fn leaves_nothing(round: impl AsyncFn(u32)) {
    let first = Census::take();
    for number in 0..WARM_UP {
        round(number).await;
    }
    let before = first.once_quiet().await;
    let memory = Memory::look();
    for number in 0..repetitions(SHARE) {
        round(number).await;
    }
    before.wait_for_return().await;
    memory.assert_grown_little();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_connects_of_a_child_leave_nothing() {
    let tag = &unique_tag();
    let config = &child(&Script::legacy().tool("echo"), tag);
    let host = &permissive().start().unwrap();
    leaves_nothing(async |number| {
        if number % 2 == 0 {
            host.connect("s", config.clone()).await.unwrap();
        } else {
            let wanted = BTreeMap::from([("s".to_owned(), config.clone())]);
            assert_eq!(host.set_servers(wanted).await.added, ["s"]);
        }
        let echo = host.call("mcp__s__echo", json!({"message": "hi"})).await;
        assert_eq!(echo.unwrap().to_text(), "hi");
        if number % 2 == 0 {
            host.disconnect("s").await.unwrap();
        } else {
            let result = host.set_servers(BTreeMap::new()).await;
            assert_eq!(result.removed, ["s"]);
        }
    })
    .await;
    assert_no_process_left(tag).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_connects_that_fail_leave_nothing() {
    let tag = &unique_tag();
    let host = &permissive().start().unwrap();
    leaves_nothing(async |number| match number % 5 {
        0 => fail(host, ServerConfig::stdio("no-such-program-here", ["x"])).await,
        1 => {
            let exits = Script::legacy().on_start([Step::Exit(3)]);
            fail(host, child(&exits, tag)).await;
        }
        2 => {
            let crashes = Script::legacy().on("*", [Step::Abort]);
            fail(host, child(&crashes, tag)).await;
        }
        3 => give_up_connecting(host, number, child(&silent(), tag)).await,
        _ => drop_while_connecting(number, child(&silent(), tag)).await,
    })
    .await;
    assert_no_process_left(tag).await;
}

#[tokio::test(start_paused = true)]
async fn whole_connects_in_memory_leave_nothing() {
    leaves_nothing(async |number| {
        let server = MemoryServer::new(Script::modern().tool("echo"));
        let host = permissive()
            .connector("s", InMemory(server.clone()))
            .start()
            .unwrap();
        host.wait_for(Readiness::All).await;
        host.reconnect("s").await.unwrap();
        host.call("mcp__s__echo", json!({"message": "hi"}))
            .await
            .unwrap();
        match number % 3 {
            0 => host.disconnect("s").await.unwrap(),
            1 => host.shutdown().await,
            // Dropped with its session open, or while it finds out that the server is gone.
            _ => server.kill(),
        }
    })
    .await;
}

/// Never answers anything.
fn silent() -> Script {
    Script::legacy().on("*", [Step::Hang])
}

/// Connects to a server that does not come up.
async fn fail(host: &Host, config: ServerConfig) {
    let outcome = host.connect("s", config).await;
    assert!(
        matches!(outcome, Err(ServerError::NotConnected(_))),
        "{outcome:?}"
    );
    host.disconnect("s").await.unwrap();
}

/// Stops waiting for a server, in another moment every time, and ends it.
async fn give_up_connecting(host: &Host, number: u32, config: ServerConfig) {
    let connecting = timeout(moment(number), host.connect("s", config));
    assert!(connecting.await.is_err());
    host.disconnect("s").await.unwrap();
}

/// Drops a host, in another moment every time, while its server starts.
async fn drop_while_connecting(number: u32, config: ServerConfig) {
    let host = permissive().launch(launch("s", config)).start().unwrap();
    let ready = timeout(moment(number), host.wait_for(Readiness::All));
    assert!(ready.await.is_err());
}

/// From before the child is there to after it was asked something.
fn moment(number: u32) -> Duration {
    Duration::from_micros(u64::from(number % 37) * 250)
}
