//! Resource leaks: repeated connects and disconnects leave no process, descriptor, task or memory.

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
use resource_counts::{Memory, ResourceCounts};
use serde_json::json;
use switchboard::{Host, Readiness, ServerError};
use switchboard_config::ServerConfig;
use switchboard_testkit::{
    MemoryServer, Script, Step, assert_no_process_left, repetitions, unique_tag,
};
use tokio::time::timeout;

/// Rounds before the first measurement. They fill caches and pools.
const WARM_UP: u32 = 50;
/// Number of rounds in CI.
const CI_ROUNDS: u32 = 500;

/// Runs unmeasured rounds, then measured ones, and checks that the measured rounds leak nothing.
async fn assert_no_leak(round: impl AsyncFn(u32)) {
    let first = ResourceCounts::read();
    for number in 0..WARM_UP {
        round(number).await;
    }
    let before = first.wait_until_settled().await;
    let memory = Memory::read();
    for number in 0..repetitions(CI_ROUNDS) {
        round(number).await;
    }
    before.wait_until_released().await;
    memory.assert_grown_little();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stress_connects_of_a_child_leak_nothing() {
    let tag = &unique_tag();
    let config = &child(&Script::legacy().tool("echo"), tag);
    let host = &permissive().start().unwrap();
    assert_no_leak(async |number| {
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
async fn stress_connects_that_fail_leak_nothing() {
    let tag = &unique_tag();
    let host = &permissive().start().unwrap();
    assert_no_leak(async |number| match number % 5 {
        0 => connect_and_fail(host, ServerConfig::stdio("no-such-program-here", ["x"])).await,
        1 => {
            let exits = Script::legacy().on_start([Step::Exit(3)]);
            connect_and_fail(host, child(&exits, tag)).await;
        }
        2 => {
            let crashes = Script::legacy().on("*", [Step::Abort]);
            connect_and_fail(host, child(&crashes, tag)).await;
        }
        3 => connect_with_timeout(host, number, child(&silent(), tag)).await,
        _ => drop_while_connecting(number, child(&silent(), tag)).await,
    })
    .await;
    assert_no_process_left(tag).await;
}

#[tokio::test(start_paused = true)]
async fn stress_connects_in_memory_leak_nothing() {
    assert_no_leak(async |number| {
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
            // The round ends here, so the host is dropped before it can react to the lost
            // connection.
            _ => server.kill(),
        }
    })
    .await;
}

/// A server that never responds.
fn silent() -> Script {
    Script::legacy().on("*", [Step::Hang])
}

/// Connects to a server that fails to start.
async fn connect_and_fail(host: &Host, config: ServerConfig) {
    let outcome = host.connect("s", config).await;
    assert!(
        matches!(outcome, Err(ServerError::NotConnected(_))),
        "{outcome:?}"
    );
    host.disconnect("s").await.unwrap();
}

/// Aborts a connect after a delay that varies with `number`, then disconnects.
async fn connect_with_timeout(host: &Host, number: u32, config: ServerConfig) {
    let connecting = timeout(varying_delay(number), host.connect("s", config));
    assert!(connecting.await.is_err());
    host.disconnect("s").await.unwrap();
}

/// Drops a host during startup, after a delay that varies with `number`.
async fn drop_while_connecting(number: u32, config: ServerConfig) {
    let host = permissive().launch(launch("s", config)).start().unwrap();
    let ready = timeout(varying_delay(number), host.wait_for(Readiness::All));
    assert!(ready.await.is_err());
}

/// Returns a delay that varies with `number`. A short delay ends before the host has spawned the
/// child, a long delay ends after the host has sent the first request.
fn varying_delay(number: u32) -> Duration {
    Duration::from_micros(u64::from(number % 37) * 250)
}
