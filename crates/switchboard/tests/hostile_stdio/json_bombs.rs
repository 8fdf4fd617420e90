//! JSON that is small on the wire and large in memory, as a tool result and as a page of tools.
//!
//! In an optimised build each bomb must need at most 64 MiB of memory and 150 ms of CPU time. The
//! benchmark in `bench/src/parts/bombs.rs` measures that. These tests run unoptimised code, with
//! the same memory limit and ten times the CPU time.

use std::time::Duration;

use serde_json::json;
use switchboard::{CallError, Host, Readiness};
use switchboard_testkit::{PeakMemory, Script, Step, assert_no_process_left, cpu_time, unique_tag};
use tokio::time::{sleep, timeout};

use crate::common::{child, launch, permissive};
use crate::harness::lock_process;

const MAX_MEMORY: u64 = 64 * 1024 * 1024;
const MAX_CPU_TIME: Duration = Duration::from_millis(150);
/// Unoptimised code may take this many times [`MAX_CPU_TIME`].
const SLACK: u32 = 10;
/// Maximum duration of a test, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

const MIB: u64 = 1024 * 1024;

/// Returns steps that write about this many bytes of JSON.
type Bomb = fn(u64) -> Vec<Step>;

/// A text that the expected error contains. `None` if the JSON is large but within the limits, so
/// that no error is expected.
type ExpectedError = Option<&'static str>;

const TOO_MANY_NODES: ExpectedError =
    Some("more than 1000000 JSON values (limit `jsonNodes`; raise it to accept more)");
const TOO_DEEP: ExpectedError = Some("nested deeper than 128 levels (limit `jsonDepth`)");
const NO_ERROR: ExpectedError = None;

fn list(element: &str, bytes: u64) -> Vec<Step> {
    let times = bytes / element.len() as u64;
    vec![
        Step::bytes("["),
        Step::repeated_bytes(element, times),
        Step::bytes("0]"),
    ]
}

fn object(element: &str, bytes: u64) -> Vec<Step> {
    let times = bytes / element.len() as u64;
    vec![
        Step::bytes("{"),
        Step::repeated_bytes(element, times),
        Step::bytes("\"\":0}"),
    ]
}

fn objects(bytes: u64) -> Vec<Step> {
    list("{\"\":0},", bytes)
}

fn arrays(bytes: u64) -> Vec<Step> {
    list("[0],", bytes)
}

fn numbers(bytes: u64) -> Vec<Step> {
    list("0,", bytes)
}

fn members(bytes: u64) -> Vec<Step> {
    object("\"\":0,", bytes)
}

fn long_keys(bytes: u64) -> Vec<Step> {
    object(&format!("\"{}\":0,", "k".repeat(64 * 1024)), bytes)
}

fn deep(bytes: u64) -> Vec<Step> {
    let times = bytes / 7;
    vec![
        Step::repeated_bytes("{\"\":[", times),
        Step::bytes("0"),
        Step::repeated_bytes("]}", times),
    ]
}

/// Returns steps that write `before`, the bomb and `after` as one line.
pub(crate) fn line(before: &str, bomb: Vec<Step>, after: &str) -> Vec<Step> {
    let mut steps = vec![Step::bytes(before)];
    steps.extend(bomb);
    steps.push(Step::raw(after));
    steps
}

pub(crate) fn work_and_echo() -> Script {
    Script::legacy().tool("work").tool("echo")
}

/// Measures memory and CPU time since [`Cost::begin`].
pub(crate) struct Cost {
    memory: PeakMemory,
    cpu: Duration,
}

impl Cost {
    pub(crate) fn begin() -> Self {
        Self {
            memory: PeakMemory::begin(),
            cpu: cpu_time(),
        }
    }

    pub(crate) fn check(&self) {
        let memory = self.memory.growth();
        let cpu = cpu_time().saturating_sub(self.cpu);
        println!("{} KiB of memory, {cpu:?} of CPU time", memory / 1024);
        assert!(memory <= MAX_MEMORY, "{memory} bytes of memory");
        assert!(cpu <= MAX_CPU_TIME * SLACK, "{cpu:?} of CPU time");
    }
}

pub(crate) async fn host_of(script: &Script, tag: &str) -> Host {
    let host = permissive()
        .launch(launch("s", child(script, tag)))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    host
}

/// Checks that the first session of the server still works. Then shuts the host down.
async fn check_usable(host: &Host, tag: &str) {
    let call = host.call("mcp__s__echo", json!({"message": "still here"}));
    assert_eq!(call.await.unwrap().to_text(), "still here");
    assert_eq!(host.server_details("s").unwrap().generation.0, 1);
    host.shutdown().await;
    assert_no_process_left(tag).await;
}

/// Sends the bomb as a tool result. The call must fail with the expected error, or succeed if none
/// is expected.
async fn in_result(bomb: Vec<Step>, expected: ExpectedError) {
    let before = r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"structuredContent":"#;
    let script = work_and_echo().on("tools/call work", line(before, bomb, "}}"));
    let tag = unique_tag();
    let host = host_of(&script, &tag).await;
    let cost = Cost::begin();
    let outcome = host.call("mcp__s__work", json!({})).await;
    cost.check();
    match (outcome, expected) {
        (Err(CallError::InvalidResponse { problem, .. }), Some(expected)) => {
            assert!(problem.to_string().contains(expected), "{problem}");
        }
        (Ok(output), None) => {
            let notes = output.notes.join("\n");
            assert!(notes.contains("limit `resultTextBytes`"), "{notes}");
        }
        (other, _) => panic!("{other:?}"),
    }
    check_usable(&host, &tag).await;
}

/// Sends the bomb as a page of tools. The listing must fail with the expected error and the next
/// listing must succeed. If no error is expected, the first listing must succeed without the tool,
/// because its schema exceeds `schema_bytes`.
async fn in_tool_page(bomb: Vec<Step>, expected: ExpectedError) {
    let before = r#"{"jsonrpc":"2.0","id":$ID,"result":{"tools":[{"name":"big","inputSchema":{"type":"object","default":"#;
    let script = work_and_echo().on(
        "tools/list",
        [
            Step::until(1, line(before, bomb, "}}]}}")),
            Step::after(2, [Step::Default]),
        ],
    );
    let tag = unique_tag();
    let cost = Cost::begin();
    let host = host_of(&script, &tag).await;
    cost.check();
    let status = host.server_status("s").unwrap();
    let error = status.error.unwrap_or_default();
    assert_eq!(status.status.as_str(), "connected", "{error}");
    let Some(expected) = expected else {
        assert!(status.tools.is_empty());
        let notes = host.server_details("s").unwrap().notes.join("\n");
        assert!(
            notes.contains("tool big: its `inputSchema` is larger"),
            "{notes}"
        );
        host.shutdown().await;
        return assert_no_process_left(&tag).await;
    };
    assert!(error.starts_with("listing the tools failed: "), "{error}");
    assert!(error.contains(expected), "{error}");
    while host.tools().is_empty() {
        sleep(POLL).await;
    }
    check_usable(&host, &tag).await;
}

/// Defines two tests for each bomb: as a tool result and as a page of tools.
macro_rules! bombs {
    ($($name:ident: $bomb:expr, $bytes:expr, $expected:expr;)+) => {
        $(
            mod $name {
                use super::*;

                const BOMB: Bomb = $bomb;

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn in_result() {
                    let _guard = lock_process().await;
                    let test = super::in_result(BOMB($bytes), $expected);
                    timeout(TIMEOUT, test).await.unwrap();
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn in_tool_page() {
                    let _guard = lock_process().await;
                    let test = super::in_tool_page(BOMB($bytes), $expected);
                    timeout(TIMEOUT, test).await.unwrap();
                }
            }
        )+
    };
}

/// The size of a bomb that just fits into a message of 16 MiB, in bytes.
const MAX_BOMB_BYTES: u64 = 16 * MIB - 128 * 1024;

bombs! {
    objects_of_4_mib: objects, 4 * MIB, TOO_MANY_NODES;
    objects_of_16_mib: objects, MAX_BOMB_BYTES, TOO_MANY_NODES;
    arrays_of_4_mib: arrays, 4 * MIB, TOO_MANY_NODES;
    arrays_of_16_mib: arrays, MAX_BOMB_BYTES, TOO_MANY_NODES;
    numbers_of_4_mib: numbers, 4 * MIB, TOO_MANY_NODES;
    numbers_of_16_mib: numbers, MAX_BOMB_BYTES, TOO_MANY_NODES;
    members_of_4_mib: members, 4 * MIB, TOO_MANY_NODES;
    members_of_16_mib: members, MAX_BOMB_BYTES, TOO_MANY_NODES;
    depth_of_4_mib: deep, 4 * MIB, TOO_DEEP;
    depth_of_16_mib: deep, MAX_BOMB_BYTES, TOO_DEEP;
    long_keys_of_4_mib: long_keys, 4 * MIB, NO_ERROR;
    long_keys_of_16_mib: long_keys, MAX_BOMB_BYTES, NO_ERROR;
}
