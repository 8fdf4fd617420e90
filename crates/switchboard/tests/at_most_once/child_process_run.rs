//! Runs one seed over a real child: real pipes, real deaths, real time.
//!
//! The child leaves two sorts of files in a folder of its own: what it has read, and a line for each
//! time that it began to carry out a call.

use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use switchboard::Host;
use switchboard_testkit::{count_lines, processes_with_tag, read_record, unique_tag};
use tokio::time::{sleep, timeout};

use crate::assertions::{Seen, Tally, judge};
use crate::common::child;
use crate::fault_plan::{CallPlan, ChildPlan};
use crate::planned_call::make;

/// Longer than any call of these seeds may last, with slack for a busy machine.
const FOR_EVER: Duration = Duration::from_secs(120);
/// What the child has read, in its folder.
const RECORD: &str = "received";

/// Runs a seed on `host`, which has no server when this begins and none when it ends.
pub(crate) async fn run(host: &Host, seed: u64) -> Result<Tally, String> {
    let plan = ChildPlan::draw(seed);
    let outcome = timeout(FOR_EVER, play(host, &plan)).await;
    let outcome = outcome.unwrap_or_else(|_| Err("something hangs".to_owned()));
    outcome.map_err(|problem| format!("{problem}\n{plan:#?}"))
}

async fn play(host: &Host, plan: &ChildPlan) -> Result<Tally, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let tag = unique_tag();
    let script = plan.server.script(&plan.calls).record(RECORD);
    let config = child(&script, &tag).cwd(folder.path());
    let connected = host.connect("s", config).await;
    connected.map_err(|error| format!("it does not start: {error}"))?;

    let calls = plan
        .calls
        .iter()
        .map(|call| make(host, "s".to_owned(), call));
    let (outcomes, ()) = tokio::join!(join_all(calls), kill(&tag, plan.killed_after));

    let back = host.reconnect("s").await;
    back.map_err(|error| format!("it does not come back: {error}"))?;
    let fresh = host.call("mcp__s__fresh", json!({})).await;
    fresh.map_err(|error| format!("it is back, but not well: {error}"))?;
    let gone = host.disconnect("s").await;
    gone.map_err(|error| format!("it does not go: {error}"))?;

    let mut tally = Tally::new();
    for (call, (outcome, took)) in plan.calls.iter().zip(outcomes) {
        let seen = Seen {
            outcome,
            took,
            received: times_received(folder.path(), call),
            executed: count_lines(folder.path().join(&call.tool)),
        };
        let fate = judge(call, &seen);
        let fate = fate.map_err(|problem| format!("{problem}: {}: {seen:#?}", call.tool))?;
        *tally.entry(fate).or_default() += 1;
    }
    Ok(tally)
}

/// Kills the child from outside, in the middle of whatever it does.
async fn kill(tag: &str, after: Option<Duration>) {
    let Some(after) = after else { return };
    sleep(after).await;
    for pid in processes_with_tag(tag) {
        if let Some(pid) = Pid::from_raw(pid) {
            // It may have died by itself.
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
