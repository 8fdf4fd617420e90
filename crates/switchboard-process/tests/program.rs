//! `Program`: streams, exit code, and no process left after shutdown or drop.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::time::Duration;

use switchboard_process::Program;
use switchboard_testkit::{
    TAG_VARIABLE, assert_no_process_left, unique_tag, wait_for_processes, zombies_among,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const GRACE: Duration = Duration::from_millis(200);

/// A shell that runs `script` with only `PATH` and the test's tag in its environment.
fn shell(script: &str, tag: &str) -> Program {
    let variables = [
        (TAG_VARIABLE, tag),
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Program::new("/bin/sh").args(["-c", script]).envs(variables)
}

#[tokio::test]
async fn streams_are_connected_and_exit_is_reported() {
    let tag = unique_tag();
    let script = "read line; echo \"got $line\"; echo diagnostics >&2; exit 3";
    let mut running = shell(script, &tag).start().await.unwrap();
    let mut streams = running.take_streams().unwrap();
    assert!(running.take_streams().is_none());
    streams.stdin.write_all(b"this\n").await.unwrap();
    let (mut stdout, mut stderr) = (String::new(), String::new());
    streams.stdout.read_to_string(&mut stdout).await.unwrap();
    streams.stderr.read_to_string(&mut stderr).await.unwrap();
    assert_eq!(
        (stdout.as_str(), stderr.as_str()),
        ("got this\n", "diagnostics\n")
    );
    assert_eq!(running.wait().await.code(), Some(3));
    let exit = running.shut_down(GRACE, GRACE).await;
    assert_eq!(exit.to_string(), "exited with code 3");
    assert_no_process_left(&tag).await;
}

#[tokio::test]
async fn shutdown_kills_tree_that_ignores_sigterm() {
    let tag = unique_tag();
    let script = "trap '' TERM; setsid sleep 600 & sleep 600 & while :; do sleep 600; done";
    let running = shell(script, &tag).start().await.unwrap();
    let started = wait_for_processes(&tag, 4).await;
    let exit = running.shut_down(Duration::ZERO, GRACE).await;
    assert_eq!(exit.code(), None);
    assert_no_process_left(&tag).await;
    assert!(zombies_among(&started[..1]).is_empty());
}

#[tokio::test]
async fn drop_kills_the_whole_tree() {
    let tag = unique_tag();
    let script = "trap '' TERM; setsid sleep 600 & sleep 600 & wait";
    let running = shell(script, &tag).start().await.unwrap();
    wait_for_processes(&tag, 3).await;
    drop(running);
    assert_no_process_left(&tag).await;
}

#[tokio::test]
async fn start_errors_name_their_cause() {
    let missing = Program::new("/nowhere/program").start().await.unwrap_err();
    assert!(missing.is_not_found());
    assert_eq!(missing.to_string(), "command not found: /nowhere/program");
    let no_directory = Program::new("/bin/sh")
        .current_dir("/nowhere")
        .start()
        .await
        .unwrap_err();
    assert!(!no_directory.is_not_found());
    assert!(
        no_directory.to_string().contains("/nowhere"),
        "{no_directory}"
    );
}

#[test]
fn debug_output_contains_no_secret() {
    let variables = [("TOKEN".to_owned(), "hidden".to_owned())];
    let program = Program::new("x").args(["--key=hidden"]).envs(variables);
    let debug = format!("{program:?}");
    assert!(
        debug.contains("TOKEN") && !debug.contains("hidden"),
        "{debug}"
    );
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn program_has_own_session_and_no_terminal() {
    let tag = unique_tag();
    let script = "read pid name state parent group session tty rest </proc/self/stat; \
                  [ $session = $$ ] && [ $tty = 0 ] && ! (: </dev/tty) 2>/dev/null";
    let running = shell(script, &tag).start().await.unwrap();
    let exit = running.shut_down(Duration::from_secs(10), GRACE).await;
    assert_eq!(exit.code(), Some(0));
    assert_no_process_left(&tag).await;
}
