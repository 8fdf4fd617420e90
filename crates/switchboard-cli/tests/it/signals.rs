//! Ctrl-C and its relatives: the call is cancelled, the server is told, nothing is left.

use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use switchboard_testkit::{Script, Step, assert_no_process_left, read_record, tool};

use crate::support::{Desk, until};

fn start(desk: &Desk, args: &[&str]) -> Child {
    let mut command = desk.command(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

fn methods(desk: &Desk) -> Vec<String> {
    let record = read_record(desk.sandbox.project().join("record"));
    let methods = record
        .iter()
        .filter_map(|message| message["method"].as_str());
    methods.map(str::to_owned).collect()
}

async fn interrupt_a_hanging_call(signal: Signal) {
    let script = Script::legacy()
        .tool("t")
        .record("record")
        .on("tools/call t", [Step::Hang]);
    let desk = Desk::with([("ant", script.into())]);
    let child = start(&desk, &["call", "mcp__ant__t", "--yes"]);
    until("the call", || {
        methods(&desk).contains(&"tools/call".to_owned())
    })
    .await;
    send(&child, signal);
    let ran = desk.ran(&child.wait_with_output().unwrap());
    assert_eq!(
        ran.to_string(),
        "exit 130\n--- stderr\ninterrupted; the call was cancelled but may have run"
    );
    assert_eq!(
        methods(&desk).last().map(String::as_str),
        Some("notifications/cancelled")
    );
    assert_no_process_left(desk.sandbox.tag()).await;
}

#[tokio::test]
async fn ctrl_c_cancels_the_call() {
    interrupt_a_hanging_call(Signal::INT).await;
}

#[tokio::test]
async fn a_terminating_signal_does_the_same() {
    interrupt_a_hanging_call(Signal::TERM).await;
}

/// A call that its server made a task of, which goes on by itself unless it is told to stop.
async fn interrupt_a_task(script: Script) {
    let desk = Desk::with([("ant", script.record("record").into())]);
    let child = start(&desk, &["call", "mcp__ant__t", "--yes"]);
    until("the task", || {
        methods(&desk).contains(&"tasks/get".to_owned())
    })
    .await;
    send(&child, Signal::INT);
    let ran = desk.ran(&child.wait_with_output().unwrap());
    assert_eq!(ran.code, 130, "{ran}");
    let methods = methods(&desk);
    assert_eq!(methods.last().map(String::as_str), Some("tasks/cancel"));
    assert!(!methods.contains(&"notifications/cancelled".to_owned()));
    assert_no_process_left(desk.sandbox.tag()).await;
}

#[tokio::test]
async fn ctrl_c_cancels_the_task_of_a_call() {
    let task = json!({"taskId": "1", "status": "working", "ttlMs": null, "ttl": null});
    let mut made = task.clone();
    made["resultType"] = "task".into();
    let modern = Script::modern()
        .tool("t")
        .on("tools/call t", [Step::Reply(made)])
        .on("tasks/get", [Step::Reply(task.clone())])
        .on("tasks/cancel", [Step::Reply(json!({}))]);
    interrupt_a_task(modern).await;

    let mut tool = tool("t");
    tool["execution"] = json!({"taskSupport": "required"});
    let mut legacy = Script::legacy()
        .raw_tool(tool)
        .on("tools/call t", [Step::Reply(json!({"task": task}))])
        .on("tasks/get", [Step::Reply(task.clone())])
        .on("tasks/cancel", [Step::Reply(task)]);
    legacy.capabilities["tasks"] = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
    interrupt_a_task(legacy).await;
}

#[tokio::test]
async fn a_server_that_is_still_starting_is_ended_too() {
    let script = Script::legacy().record("record").on("*", [Step::Hang]);
    let desk = Desk::with([("ant", script.into())]);
    let child = start(&desk, &["list", "--json"]);
    until("the probe", || !methods(&desk).is_empty()).await;
    send(&child, Signal::INT);
    let ran = desk.ran(&child.wait_with_output().unwrap());
    assert_eq!(
        (ran.code, &ran.json()["error"]["kind"]),
        (130, &"interrupted".into())
    );
    assert_no_process_left(desk.sandbox.tag()).await;
}

#[tokio::test]
async fn a_second_signal_ends_a_server_that_will_not_leave() {
    let stubborn = [Step::IgnoreTerm, Step::spawn_in_group()];
    let script = Script::legacy()
        .tool("t")
        .record("record")
        .on_start(stubborn)
        .on("tools/call t", [Step::Hang])
        .on_eof([Step::count("eof"), Step::Hang]);
    let desk = Desk::with([("ant", script.into())]);
    let child = start(&desk, &["call", "mcp__ant__t", "--yes"]);
    until("the call", || {
        methods(&desk).contains(&"tools/call".to_owned())
    })
    .await;
    send(&child, Signal::INT);
    until("the end of stdin", || {
        desk.sandbox.project().join("eof").exists()
    })
    .await;
    send(&child, Signal::INT);
    let ran = desk.ran(&child.wait_with_output().unwrap());
    assert_eq!(
        ran.to_string(),
        "exit 130\n--- stderr\ninterrupted; the call was cancelled but may have run"
    );
    assert_no_process_left(desk.sandbox.tag()).await;
}

#[tokio::test]
async fn waiting_for_arguments_on_stdin_can_be_interrupted() {
    let desk = Desk::with([("ant", Script::legacy().tool("t").into())]);
    let mut command = desk.command(&["call", "mcp__ant__t", "-", "--yes", "-vv"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let stdin = child.stdin.take();
    let fd = format!("/proc/{}/status", child.id());
    // SigCgt holds bit 1 (SIGINT) once the program listens.
    until("the signal handler", || {
        let status = std::fs::read_to_string(&fd).unwrap_or_default();
        let caught = status
            .lines()
            .find_map(|line| line.strip_prefix("SigCgt:\t"));
        caught.is_some_and(|mask| u64::from_str_radix(mask, 16).unwrap() & 2 != 0)
    })
    .await;
    send(&child, Signal::INT);
    let ran = desk.ran(&child.wait_with_output().unwrap());
    assert_eq!(ran.code, 130, "{ran}");
    drop(stdin);
}
