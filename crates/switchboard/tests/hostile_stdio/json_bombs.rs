//! JSON that is small on the wire and large in memory, from a real child: as the answer to a call,
//! and as a page of tools.
//!
//! The promise is for optimised code: at most 64 MiB of memory and 150 ms of processor time for any
//! of them. The benchmark states the exact figures; here the code is not optimised, so that time has
//! slack, and memory has none.

use std::time::Duration;

use serde_json::json;
use switchboard::{CallError, Host, Readiness};
use switchboard_testkit::{PeakMemory, Script, Step, assert_no_process_left, cpu_time, unique_tag};
use tokio::time::{sleep, timeout};

use crate::common::{child, launch, permissive};
use crate::harness::alone;

const MEMORY: u64 = 64 * 1024 * 1024;
const PROCESSOR: Duration = Duration::from_millis(150);
/// How much slower than promised code may be that is not optimised.
const SLACK: u32 = 10;
/// What no bomb takes, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

const MIB: u64 = 1024 * 1024;

/// JSON of about so many bytes, as the steps that write it.
type Bomb = fn(u64) -> Vec<Step>;

/// What is said of a bomb; nothing of one that is merely large.
type Complaint = Option<&'static str>;

const NODES: Complaint =
    Some("more than 1000000 JSON values (limit `json_nodes`; raise it to accept more)");
const DEPTH: Complaint = Some("nested deeper than 128 levels (limit `json_depth`)");
const NONE: Complaint = None;

fn list(piece: &str, bytes: u64) -> Vec<Step> {
    let times = bytes / piece.len() as u64;
    vec![
        Step::bytes("["),
        Step::repeated_bytes(piece, times),
        Step::bytes("0]"),
    ]
}

fn object(piece: &str, bytes: u64) -> Vec<Step> {
    let times = bytes / piece.len() as u64;
    vec![
        Step::bytes("{"),
        Step::repeated_bytes(piece, times),
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

/// The steps that write one line, with a bomb in it.
pub(crate) fn line(before: &str, bomb: Vec<Step>, after: &str) -> Vec<Step> {
    let mut steps = vec![Step::bytes(before)];
    steps.extend(bomb);
    steps.push(Step::raw(after));
    steps
}

pub(crate) fn polite() -> Script {
    Script::legacy().tool("work").tool("echo")
}

/// What it cost to be bombed, from the beginning of a measurement on.
pub(crate) struct Cost {
    memory: PeakMemory,
    processor: Duration,
}

impl Cost {
    pub(crate) fn begin() -> Self {
        Self {
            memory: PeakMemory::begin(),
            processor: cpu_time(),
        }
    }

    pub(crate) fn check(&self) {
        let memory = self.memory.growth();
        let processor = cpu_time().saturating_sub(self.processor);
        println!(
            "{} KiB of memory, {processor:?} of the processor",
            memory / 1024
        );
        assert!(memory <= MEMORY, "{memory} bytes of memory");
        assert!(
            processor <= PROCESSOR * SLACK,
            "{processor:?} of the processor"
        );
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

/// The session is as it was: the first process answers.
async fn check_usable(host: &Host, tag: &str) {
    let call = host.call("mcp__s__echo", json!({"message": "still here"}));
    assert_eq!(call.await.unwrap().to_text(), "still here");
    assert_eq!(host.server_details("s").unwrap().generation.0, 1);
    host.shutdown().await;
    assert_no_process_left(tag).await;
}

/// The call fails and names the limit.
async fn as_an_answer(bomb: Vec<Step>, complaint: Complaint) {
    let before = r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"structuredContent":"#;
    let script = polite().on("tools/call work", line(before, bomb, "}}"));
    let tag = unique_tag();
    let host = host_of(&script, &tag).await;
    let cost = Cost::begin();
    let outcome = host.call("mcp__s__work", json!({})).await;
    cost.check();
    match (outcome, complaint) {
        (Err(CallError::InvalidResponse { problem, .. }), Some(complaint)) => {
            assert!(problem.to_string().contains(complaint), "{problem}");
        }
        (Ok(output), None) => {
            let notes = output.notes.join("\n");
            assert!(notes.contains("limit `result_text_bytes`"), "{notes}");
        }
        (other, _) => panic!("{other:?}"),
    }
    check_usable(&host, &tag).await;
}

/// The listing fails and names the limit; the next one, which is polite, is taken.
async fn as_a_page(bomb: Vec<Step>, complaint: Complaint) {
    let before = r#"{"jsonrpc":"2.0","id":$ID,"result":{"tools":[{"name":"big","inputSchema":{"type":"object","default":"#;
    let script = polite().on(
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
    let Some(complaint) = complaint else {
        assert_eq!(status.tools[0].name, "big");
        host.shutdown().await;
        return assert_no_process_left(&tag).await;
    };
    assert!(error.starts_with("listing the tools failed: "), "{error}");
    assert!(error.contains(complaint), "{error}");
    while host.tools().is_empty() {
        sleep(POLL).await;
    }
    check_usable(&host, &tag).await;
}

/// Two tests for each bomb.
macro_rules! bombs {
    ($($name:ident: $bomb:expr, $bytes:expr, $complaint:expr;)+) => {
        $(
            mod $name {
                use super::*;

                const BOMB: Bomb = $bomb;

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn as_an_answer() {
                    let _alone = alone().await;
                    let test = super::as_an_answer(BOMB($bytes), $complaint);
                    timeout(PATIENCE, test).await.unwrap();
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn as_a_page() {
                    let _alone = alone().await;
                    let test = super::as_a_page(BOMB($bytes), $complaint);
                    timeout(PATIENCE, test).await.unwrap();
                }
            }
        )+
    };
}

/// As much as fits into a message, with some room for what is around it.
const MOST: u64 = 16 * MIB - 128 * 1024;

bombs! {
    objects_of_4_mib: objects, 4 * MIB, NODES;
    objects_of_16_mib: objects, MOST, NODES;
    arrays_of_4_mib: arrays, 4 * MIB, NODES;
    arrays_of_16_mib: arrays, MOST, NODES;
    numbers_of_4_mib: numbers, 4 * MIB, NODES;
    numbers_of_16_mib: numbers, MOST, NODES;
    members_of_4_mib: members, 4 * MIB, NODES;
    members_of_16_mib: members, MOST, NODES;
    depth_of_4_mib: deep, 4 * MIB, DEPTH;
    depth_of_16_mib: deep, MOST, DEPTH;
    long_keys_of_4_mib: long_keys, 4 * MIB, NONE;
    long_keys_of_16_mib: long_keys, MOST, NONE;
}
