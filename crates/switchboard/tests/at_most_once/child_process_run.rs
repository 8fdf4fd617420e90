//! Runs one seed with a real child process: real pipes, real crashes, real time.
//!
//! The child writes two kinds of files into its working directory. One file records the messages
//! that the child read. For each tool, another file has one line per execution.

use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use switchboard::Host;
use switchboard_testkit::{count_lines, processes_with_tag, read_record, unique_tag};
use tokio::time::{sleep, timeout};

use crate::assertions::{CallRecord, EndingCounts, check_call};
use crate::common::child;
use crate::fault_plan::{CallPlan, ChildPlan};
use crate::planned_call::make_call;

/// A run that takes longer than this is reported as hanging. No run takes that long, even on a busy
/// machine.
const HANG_TIMEOUT: Duration = Duration::from_secs(120);
/// Name of the file in which the child records the messages it read.
const RECORD: &str = "received";

/// Runs a seed on `host`. The run adds a server to the host and removes it at the end.
pub(crate) async fn run(host: &Host, seed: u64) -> Result<EndingCounts, String> {
    let plan = ChildPlan::generate(seed);
    let outcome = timeout(HANG_TIMEOUT, run_plan(host, &plan)).await;
    let outcome = outcome.unwrap_or_else(|_| Err("the run hangs".to_owned()));
    outcome.map_err(|problem| format!("{problem}\n{plan:#?}"))
}

async fn run_plan(host: &Host, plan: &ChildPlan) -> Result<EndingCounts, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let tag = unique_tag();
    let script = plan.server.script(&plan.calls).record(RECORD);
    let config = child(&script, &tag).cwd(folder.path());
    let connected = host.connect("s", config).await;
    connected.map_err(|error| format!("the server does not start: {error}"))?;

    let calls = plan
        .calls
        .iter()
        .map(|call| make_call(host, "s".to_owned(), call));
    let (outcomes, ()) = tokio::join!(join_all(calls), kill(&tag, plan.killed_after));

    let reconnected = host.reconnect("s").await;
    reconnected.map_err(|error| format!("the server does not reconnect: {error}"))?;
    let probe = host.call("mcp__s__probe", json!({})).await;
    probe.map_err(|error| format!("the call after the reconnect failed: {error}"))?;
    let disconnected = host.disconnect("s").await;
    disconnected.map_err(|error| format!("the server does not disconnect: {error}"))?;

    let mut counts = EndingCounts::new();
    for (call, (outcome, duration)) in plan.calls.iter().zip(outcomes) {
        let record = CallRecord {
            outcome,
            duration,
            received: times_received(folder.path(), call),
            executed: count_lines(folder.path().join(&call.tool)),
        };
        let ending = check_call(call, &record);
        let ending = ending.map_err(|problem| format!("{problem}: {}: {record:#?}", call.tool))?;
        *counts.entry(ending).or_default() += 1;
    }
    Ok(counts)
}

/// Kills the child after this time. Does nothing if `after` is `None`.
async fn kill(tag: &str, after: Option<Duration>) {
    let Some(after) = after else { return };
    sleep(after).await;
    for pid in processes_with_tag(tag) {
        if let Some(pid) = Pid::from_raw(pid) {
            // The child may already have exited.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn times_received(folder: &Path, call: &CallPlan) -> usize {
    let received = read_record(folder.join(RECORD));
    let calls = received
        .iter()
        .filter(|message| message["method"] == "tools/call");
    calls
        .filter(|message| message["params"]["name"] == call.tool.as_str())
        .count()
}
