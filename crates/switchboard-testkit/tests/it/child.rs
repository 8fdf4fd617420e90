//! The binary, as a real child.

use std::os::unix::process::ExitStatusExt as _;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use switchboard_testkit::{
    Era, Grandchild, Sandbox, Script, Step, assert_no_process_left, count_lines, read_record,
};
use tokio::io::AsyncReadExt as _;

use crate::client::{start, start_with, within};

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[tokio::test]
async fn a_polite_child_serves_and_leaves() {
    let mut server = start(&Script::legacy().tool("echo"));
    let opened = server.wire.ask("initialize", json!({})).await;
    assert_eq!(opened["serverInfo"]["name"], "scripted");
    let text = server
        .wire
        .call_text("echo", json!({"message": "hi"}))
        .await;
    assert_eq!(text, "hi");
    let pid = server.wire.call_text("pid", json!({})).await;
    assert_eq!(pid, server.pid().to_string());
    assert_eq!(server.close_and_wait().await.code(), Some(0));
    assert_no_process_left(&server.tag).await;
}

#[tokio::test]
async fn a_script_can_come_from_a_file() {
    let sandbox = Sandbox::new();
    let path = sandbox.write("script.json", r#"{"start": [{"exit": 7}]}"#);
    let mut command = sandbox.command(switchboard_testkit::scripted_server());
    command.arg(format!("@{}", path.display()));
    let status = within("the exit", tokio::process::Command::from(command).status()).await;
    assert_eq!(status.unwrap().code(), Some(7));
}

#[tokio::test]
async fn what_is_not_a_script_is_refused_with_a_reason() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(switchboard_testkit::scripted_server());
    command.arg(r#"{"tool": []}"#);
    let output = within("the exit", tokio::process::Command::from(command).output()).await;
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(64));
    let reason = String::from_utf8(output.stderr).unwrap();
    assert!(reason.contains("unknown field `tool`"), "{reason}");
}

#[tokio::test]
async fn the_child_shows_what_it_was_given() {
    let mut server = start_with(&Script::legacy(), |command| {
        command.env_clear();
        command
            .envs([("SECOND", "2"), ("FIRST", "1")])
            .current_dir("/");
    });
    let names = server.wire.call_text("env", json!({})).await;
    assert_eq!(names, "FIRST\nSECOND");
    assert_eq!(server.wire.call_text("cwd", json!({})).await, "/");
    let descriptors = server.wire.call_text("fds", json!({})).await;
    let numbers: Vec<i32> = descriptors
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    assert_eq!(numbers, inheritable_descriptors());
}

/// The descriptors above 2 that every child of this process inherits: those it was itself given.
fn inheritable_descriptors() -> Vec<i32> {
    const CLOSE_ON_EXEC: u32 = 0o2_000_000;
    let is_inheritable = |number: &i32| {
        let facts = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}"));
        let facts = facts.unwrap_or_default();
        let flags = facts.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
        flags.is_some_and(|flags| flags & CLOSE_ON_EXEC == 0)
    };
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let mut numbers: Vec<i32> = entries
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .filter(is_inheritable)
        .collect();
    numbers.sort_unstable();
    numbers
}

#[tokio::test]
async fn the_child_prints_its_environment() {
    let script = Script::legacy().on_start([Step::PrintEnv]);
    let mut server = start_with(&script, |command| {
        command.env_clear().env("SECRET", "hunter2");
    });
    assert_eq!(server.wire.next_line().await.unwrap(), b"SECRET=hunter2");
    server.wire.assert_next_is_pong().await;
}

#[tokio::test]
async fn calls_are_counted_and_recorded_in_files_across_processes() {
    let sandbox = Sandbox::new();
    let (count, record) = (sandbox.root().join("count"), sandbox.root().join("record"));
    let script = Script::legacy()
        .record(&record)
        .on("tools/call pay", [Step::count(&count), Step::text("paid")]);
    assert_eq!(count_lines(&count), 0);
    for _ in 0..2 {
        let mut server = start(&script);
        server.wire.call_text("pay", json!({})).await;
        server.close_and_wait().await;
    }
    assert_eq!(count_lines(&count), 2);
    let methods: Vec<_> = read_record(&record)
        .iter()
        .map(|line| line["method"].clone())
        .collect();
    assert_eq!(methods, ["tools/call", "tools/call"]);
}

#[tokio::test]
async fn a_crash_can_happen_only_in_the_first_process() {
    let sandbox = Sandbox::new();
    let crash = Step::once(sandbox.root().join("crashed"), [Step::Exit(1)]);
    let script = Script::legacy().on_start([crash]);
    assert_eq!(start(&script).wait().await.code(), Some(1));
    start(&script).wire.assert_next_is_pong().await;
}

#[tokio::test]
async fn a_child_exits_in_the_middle_of_a_message() {
    let script = Script::legacy().on("tools/call", [Step::bytes(r#"{"jsonrpc"#), Step::Exit(9)]);
    let mut server = start(&script);
    server.wire.call("any").await;
    assert_eq!(server.wire.rest().await, br#"{"jsonrpc"#);
    assert_eq!(server.wait().await.code(), Some(9));
}

#[tokio::test]
async fn a_child_exits_on_the_probe() {
    let mut server = start(&Script::of_era(Era::LegacyExitsOnProbe));
    server.wire.request("server/discover", json!({})).await;
    assert_eq!(server.wait().await.code(), Some(1));
}

#[tokio::test]
async fn an_abort_is_signal_nine() {
    let script = Script::legacy().on("tools/call", [Step::after(2, [Step::Abort]), Step::Default]);
    let mut server = start(&script);
    server.wire.call_text("echo", json!({"message": "x"})).await;
    server.wire.call("echo").await;
    assert_eq!(server.wait().await.signal(), Some(9));
}

#[tokio::test]
async fn a_child_closes_stdout_and_lives_on() {
    let mut server = start(&Script::legacy().on("tools/call", [Step::CloseStdout]));
    server.wire.call("any").await;
    assert_eq!(server.wire.rest().await, b"");
    assert!(server.child.try_wait().unwrap().is_none());
    assert_eq!(server.close_and_wait().await.code(), Some(0));
}

#[tokio::test]
async fn a_child_closes_stdin_and_keeps_writing() {
    let script = Script::legacy().on("tools/call", [Step::CloseStdin, Step::text("deaf")]);
    let mut server = start(&script);
    assert_eq!(server.wire.call_text("any", json!({})).await, "deaf");
    // The reading side is closed by another task, so the pipe may break a moment later.
    within("the broken pipe", async {
        while server.wire.send_line("{}").await.is_ok() {}
    })
    .await;
    assert!(server.child.try_wait().unwrap().is_none());
}

#[tokio::test]
async fn a_child_ignores_the_end_of_its_input_and_sigterm() {
    let script = Script::legacy()
        .on_start([Step::IgnoreTerm])
        .on_eof([Step::raw("no"), Step::Hang]);
    let mut server = start(&script);
    server.wire.assert_next_is_pong().await;
    signal(server.pid(), Signal::TERM);
    server.wire.assert_next_is_pong().await;
    server.wire.writer = None;
    assert_eq!(server.wire.next_line().await.unwrap(), b"no");
    signal(server.pid(), Signal::KILL);
    assert_eq!(server.wait().await.signal(), Some(9));
}

#[tokio::test]
async fn without_that_step_sigterm_ends_a_child() {
    let mut server = start(&Script::legacy());
    server.wire.assert_next_is_pong().await;
    signal(server.pid(), Signal::TERM);
    assert_eq!(server.wait().await.signal(), Some(15));
}

#[tokio::test]
async fn a_stopped_child_goes_on_when_it_is_continued() {
    let script = Script::legacy().on("tools/call", [Step::StopSelf, Step::text("woken")]);
    let mut server = start(&script);
    server.wire.call("any").await;
    let stat = format!("/proc/{}/stat", server.pid());
    within("the stop", async {
        while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
            tokio::task::yield_now().await;
        }
    })
    .await;
    signal(server.pid(), Signal::CONT);
    let reply = server.wire.next().await;
    assert_eq!(reply["result"]["content"][0]["text"], "woken");
}

#[tokio::test]
async fn stderr_is_separate_from_stdout() {
    let mut server = start(&Script::legacy().on_start([Step::stderr("\u{1b}[31mred")]));
    server.wire.assert_next_is_pong().await;
    server.close_and_wait().await;
    assert_eq!(server.stderr().await, "\u{1b}[31mred\n");
}

#[tokio::test]
async fn a_flood_of_stderr_holds_the_call_back_until_it_is_read() {
    const FLOOD: u64 = 1024 * 1024;
    let flood = Step::StderrFlood { bytes: Some(FLOOD) };
    let mut server = start(&Script::legacy().on("tools/call", [flood, Step::text("done")]));
    server.wire.call("any").await;
    server.wire.request("ping", json!({})).await;
    assert_eq!(server.wire.next().await["id"], 2);
    let stderr = server.child.stderr.take().unwrap();
    let mut flood = Vec::new();
    within("the flood", stderr.take(FLOOD).read_to_end(&mut flood))
        .await
        .unwrap();
    assert_eq!(flood.len() as u64, FLOOD);
    assert_eq!(server.wire.next().await["id"], 1);
}

#[tokio::test]
async fn a_line_of_seventeen_mebibytes_comes_through_a_pipe() {
    const SIZE: usize = 17 * 1024 * 1024;
    let mut server = start(&Script::legacy().on("tools/call", [Step::ReplyOfSize(SIZE)]));
    server.wire.call("any").await;
    assert_eq!(server.wire.next_line().await.unwrap().len(), SIZE);
}

#[tokio::test]
async fn a_grandchild_can_hold_stdout_open_after_the_server_is_gone() {
    let grandchild = Grandchild {
        hold_stdout: true,
        ..Grandchild::default()
    };
    let script = Script::legacy().on("tools/call", [Step::SpawnChild(grandchild), Step::Exit(0)]);
    let mut server = start(&script);
    server.wire.call("any").await;
    assert_eq!(server.wait().await.code(), Some(0));
    let left = switchboard_testkit::processes_with_tag(&server.tag);
    assert_eq!(left.len(), 1);
    let read = server.wire.next_line();
    tokio::pin!(read);
    let at_once =
        std::future::poll_fn(|context| std::task::Poll::Ready(read.as_mut().poll(context)));
    assert!(at_once.await.is_pending());
    signal(left[0], Signal::KILL);
    assert_eq!(read.await, None);
    assert_no_process_left(&server.tag).await;
}

#[tokio::test]
async fn a_child_that_stops_reading_keeps_its_writer_waiting() {
    let script = Script::legacy().on("tools/call", [Step::StopReading, Step::text("deaf")]);
    let mut server = start(&script);
    assert_eq!(server.wire.call_text("any", json!({})).await, "deaf");
    // More than a pipe and the child's own buffer hold.
    let more = "x".repeat(1024 * 1024);
    let sending = server.wire.send_line(&more);
    let sent = tokio::time::timeout(std::time::Duration::from_millis(200), sending).await;
    assert!(sent.is_err(), "somebody reads");
    assert!(server.child.try_wait().unwrap().is_none());
}

#[tokio::test]
async fn a_child_writes_to_what_it_inherited() {
    let sandbox = Sandbox::new();
    let path = sandbox.write("inherited", "");
    let file = std::fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap();
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
    let script = Script::legacy().on(
        "tools/call",
        [Step::WriteToInheritedFds, Step::text("done")],
    );
    let mut server = start(&script);
    server.wire.call_text("any", json!({})).await;
    assert_eq!(sandbox.read(&path), "the scripted server was here\n");
}

#[tokio::test]
async fn a_child_writes_to_its_home() {
    let sandbox = Sandbox::new();
    let write = Step::WriteFile {
        path: "~/note".into(),
        text: "mine".to_owned(),
    };
    let script = Script::legacy().on("tools/call", [write, Step::text("done")]);
    let mut server = start_with(&script, |command| {
        command.env("HOME", sandbox.home());
    });
    server.wire.call_text("any", json!({})).await;
    assert_eq!(sandbox.read(sandbox.home().join("note")), "mine");
}

#[tokio::test]
async fn a_fork_bomb_has_as_many_generations_as_it_was_given() {
    let bomb = Step::ForkBomb { generations: 3 };
    let mut server = start(&Script::legacy().on("tools/call", [bomb, Step::text("lit")]));
    server.wire.call_text("any", json!({})).await;
    let found = switchboard_testkit::wait_for_processes(&server.tag, 15).await;
    assert_eq!(found.len(), 15);
    for pid in found {
        signal(pid, Signal::KILL);
    }
    assert_no_process_left(&server.tag).await;
}
