//! Faults that only a real child process can have.

use std::os::unix::process::ExitStatusExt as _;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use switchboard_testkit::{Grandchild, Sandbox, Script, Step, assert_no_process_left};
use tokio::io::AsyncReadExt as _;

use crate::client::{start, within};

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[tokio::test]
async fn abort_kills_with_sigkill() {
    let script = Script::legacy().on("tools/call", [Step::after(2, [Step::Abort]), Step::Default]);
    let mut server = start(&script);
    server
        .client
        .call_text("echo", json!({"message": "x"}))
        .await;
    server.client.call("echo").await;
    assert_eq!(server.wait().await.signal(), Some(9));
}

#[tokio::test]
async fn child_writes_after_closing_stdin() {
    let script = Script::legacy().on("tools/call", [Step::CloseStdin, Step::text("not reading")]);
    let mut server = start(&script);
    assert_eq!(
        server.client.call_text("any", json!({})).await,
        "not reading"
    );
    // The server closes stdin in a different task than the one that responds, so the first writes
    // may still succeed.
    within("the broken pipe", async {
        while server.client.send_line("{}").await.is_ok() {}
    })
    .await;
    assert!(server.child.try_wait().unwrap().is_none());
}

#[tokio::test]
async fn child_ignores_eof_and_sigterm() {
    let script = Script::legacy()
        .on_start([Step::IgnoreTerm])
        .on_eof([Step::raw("no"), Step::Hang]);
    let mut server = start(&script);
    server.client.assert_next_is_pong().await;
    signal(server.pid(), Signal::TERM);
    server.client.assert_next_is_pong().await;
    server.client.writer = None;
    assert_eq!(server.client.next_line().await.unwrap(), b"no");
    signal(server.pid(), Signal::KILL);
    assert_eq!(server.wait().await.signal(), Some(9));
}

#[tokio::test]
async fn sigterm_ends_child_by_default() {
    let mut server = start(&Script::legacy());
    server.client.assert_next_is_pong().await;
    signal(server.pid(), Signal::TERM);
    assert_eq!(server.wait().await.signal(), Some(15));
}

#[tokio::test]
async fn stopped_child_resumes_on_sigcont() {
    let script = Script::legacy().on("tools/call", [Step::StopSelf, Step::text("woken")]);
    let mut server = start(&script);
    server.client.call("any").await;
    let stat = format!("/proc/{}/stat", server.pid());
    within("the stop", async {
        while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
            tokio::task::yield_now().await;
        }
    })
    .await;
    signal(server.pid(), Signal::CONT);
    let reply = server.client.next().await;
    assert_eq!(reply["result"]["content"][0]["text"], "woken");
}

#[tokio::test]
async fn stderr_flood_blocks_call_until_read() {
    const FLOOD: u64 = 1024 * 1024;
    let flood = Step::StderrFlood { bytes: Some(FLOOD) };
    let mut server = start(&Script::legacy().on("tools/call", [flood, Step::text("done")]));
    server.client.call("any").await;
    server.client.request("ping", json!({})).await;
    assert_eq!(server.client.next().await["id"], 2);
    let stderr = server.child.stderr.take().unwrap();
    let mut flood = Vec::new();
    within("the flood", stderr.take(FLOOD).read_to_end(&mut flood))
        .await
        .unwrap();
    assert_eq!(flood.len() as u64, FLOOD);
    assert_eq!(server.client.next().await["id"], 1);
}

#[tokio::test]
async fn grandchild_keeps_stdout_open() {
    let grandchild = Grandchild {
        hold_stdout: true,
        ..Grandchild::default()
    };
    let script = Script::legacy().on("tools/call", [Step::SpawnChild(grandchild), Step::Exit(0)]);
    let mut server = start(&script);
    server.client.call("any").await;
    assert_eq!(server.wait().await.code(), Some(0));
    let remaining = switchboard_testkit::processes_with_tag(&server.tag);
    assert_eq!(remaining.len(), 1);
    let read = server.client.next_line();
    tokio::pin!(read);
    let at_once =
        std::future::poll_fn(|context| std::task::Poll::Ready(read.as_mut().poll(context)));
    assert!(at_once.await.is_pending());
    signal(remaining[0], Signal::KILL);
    assert_eq!(read.await, None);
    assert_no_process_left(&server.tag).await;
}

#[tokio::test]
async fn child_that_stops_reading_blocks_writer() {
    let script = Script::legacy().on("tools/call", [Step::StopReading, Step::text("not reading")]);
    let mut server = start(&script);
    assert_eq!(
        server.client.call_text("any", json!({})).await,
        "not reading"
    );
    // One MiB is more than the pipe and the read buffer of the child can hold.
    let more = "x".repeat(1024 * 1024);
    let sending = server.client.send_line(&more);
    let sent = tokio::time::timeout(std::time::Duration::from_millis(200), sending).await;
    assert!(sent.is_err(), "the child still reads");
    assert!(server.child.try_wait().unwrap().is_none());
}

#[tokio::test]
async fn child_writes_to_inherited_files() {
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
    server.client.call_text("any", json!({})).await;
    assert_eq!(sandbox.read(&path), "written by scripted-server\n");
}

#[tokio::test]
async fn fork_bomb_has_requested_generations() {
    let bomb = Step::ForkBomb { generations: 3 };
    let mut server = start(&Script::legacy().on("tools/call", [bomb, Step::text("lit")]));
    server.client.call_text("any", json!({})).await;
    let found = switchboard_testkit::wait_for_processes(&server.tag, 15).await;
    assert_eq!(found.len(), 15);
    for pid in found {
        signal(pid, Signal::KILL);
    }
    assert_no_process_left(&server.tag).await;
}
