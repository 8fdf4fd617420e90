//! Signals: the call is cancelled, the server is notified, and no process is left.

use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use switchboard_testkit::{Script, Step, assert_no_process_left, read_record, tool};

use crate::support::{TestCli, wait_until};

fn start(cli: &TestCli, args: &[&str]) -> Child {
    let mut command = cli.command(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

fn methods(cli: &TestCli) -> Vec<String> {
    let record = read_record(cli.sandbox.project().join("record"));
    let methods = record
        .iter()
        .filter_map(|message| message["method"].as_str());
    methods.map(str::to_owned).collect()
}

async fn interrupt_hanging_call(signal: Signal) {
    let script = Script::legacy()
        .tool("t")
        .record("record")
        .on("tools/call t", [Step::Hang]);
    let cli = TestCli::with_servers([("ant", script.into())]);
    let child = start(&cli, &["call", "mcp__ant__t", "--yes"]);
    wait_until("the call", || {
        methods(&cli).contains(&"tools/call".to_owned())
    })
    .await;
    send(&child, signal);
    let output = cli.to_output(&child.wait_with_output().unwrap());
    assert_eq!(
        output.to_string(),
        "exit 130\n--- stderr\ninterrupted; the call was cancelled but may have run"
    );
    assert_eq!(
        methods(&cli).last().map(String::as_str),
        Some("notifications/cancelled")
    );
    assert_no_process_left(cli.sandbox.tag()).await;
}

#[tokio::test]
async fn sigint_cancels_call() {
    interrupt_hanging_call(Signal::INT).await;
}

#[tokio::test]
async fn sigterm_cancels_call() {
    interrupt_hanging_call(Signal::TERM).await;
}

/// Interrupts a call that the server runs as an MCP task. The task runs until the client cancels
/// it.
async fn interrupt_task(script: Script) {
    let cli = TestCli::with_servers([("ant", script.record("record").into())]);
    let child = start(&cli, &["call", "mcp__ant__t", "--yes"]);
    wait_until("the task", || {
        methods(&cli).contains(&"tasks/get".to_owned())
    })
    .await;
    send(&child, Signal::INT);
    let output = cli.to_output(&child.wait_with_output().unwrap());
    assert_eq!(output.code, 130, "{output}");
    let methods = methods(&cli);
    assert_eq!(methods.last().map(String::as_str), Some("tasks/cancel"));
    assert!(!methods.contains(&"notifications/cancelled".to_owned()));
    assert_no_process_left(cli.sandbox.tag()).await;
}

#[tokio::test]
async fn sigint_cancels_task() {
    let task = json!({"taskId": "1", "status": "working", "ttlMs": null, "ttl": null});
    let mut created = task.clone();
    created["resultType"] = "task".into();
    let modern = Script::modern()
        .tool("t")
        .on("tools/call t", [Step::Reply(created)])
        .on("tasks/get", [Step::Reply(task.clone())])
        .on("tasks/cancel", [Step::Reply(json!({}))]);
    interrupt_task(modern).await;

    let mut tool = tool("t");
    tool["execution"] = json!({"taskSupport": "required"});
    let mut legacy = Script::legacy()
        .raw_tool(tool)
        .on("tools/call t", [Step::Reply(json!({"task": task}))])
        .on("tasks/get", [Step::Reply(task.clone())])
        .on("tasks/cancel", [Step::Reply(task)]);
    legacy.capabilities["tasks"] = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
    interrupt_task(legacy).await;
}

#[tokio::test]
async fn starting_server_is_killed() {
    let script = Script::legacy().record("record").on("*", [Step::Hang]);
    let cli = TestCli::with_servers([("ant", script.into())]);
    let child = start(&cli, &["list", "--json"]);
    wait_until("the probe", || !methods(&cli).is_empty()).await;
    send(&child, Signal::INT);
    let output = cli.to_output(&child.wait_with_output().unwrap());
    assert_eq!(
        (output.code, &output.json()["error"]["kind"]),
        (130, &"interrupted".into())
    );
    assert_no_process_left(cli.sandbox.tag()).await;
}

#[tokio::test]
async fn second_signal_kills_stubborn_server() {
    let stubborn = [Step::IgnoreTerm, Step::spawn_in_group()];
    let script = Script::legacy()
        .tool("t")
        .record("record")
        .on_start(stubborn)
        .on("tools/call t", [Step::Hang])
        .on_eof([Step::count("eof"), Step::Hang]);
    let cli = TestCli::with_servers([("ant", script.into())]);
    let child = start(&cli, &["call", "mcp__ant__t", "--yes"]);
    wait_until("the call", || {
        methods(&cli).contains(&"tools/call".to_owned())
    })
    .await;
    send(&child, Signal::INT);
    wait_until("the end of stdin", || {
        cli.sandbox.project().join("eof").exists()
    })
    .await;
    send(&child, Signal::INT);
    let output = cli.to_output(&child.wait_with_output().unwrap());
    assert_eq!(
        output.to_string(),
        "exit 130\n--- stderr\ninterrupted; the call was cancelled but may have run"
    );
    assert_no_process_left(cli.sandbox.tag()).await;
}

#[tokio::test]
async fn reading_stdin_is_interruptible() {
    let cli = TestCli::with_servers([("ant", Script::legacy().tool("t").into())]);
    let mut command = cli.command(&["call", "mcp__ant__t", "-", "--yes", "-vv"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let stdin = child.stdin.take();
    let status_file = format!("/proc/{}/status", child.id());
    // Bit 1 of SigCgt is set when a handler for SIGINT is installed.
    wait_until("the signal handler", || {
        let status = std::fs::read_to_string(&status_file).unwrap_or_default();
        let caught = status
            .lines()
            .find_map(|line| line.strip_prefix("SigCgt:\t"));
        caught.is_some_and(|mask| u64::from_str_radix(mask, 16).unwrap() & 2 != 0)
    })
    .await;
    send(&child, Signal::INT);
    let output = cli.to_output(&child.wait_with_output().unwrap());
    assert_eq!(output.code, 130, "{output}");
    drop(stdin);
}
