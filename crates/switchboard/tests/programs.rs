//! Programs of the embedding program's own: nothing of them is left either.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that meets the unexpected shall fail"
)]

use std::time::Duration;

use switchboard::process::Program;
use switchboard_testkit::{
    TAG_VARIABLE, assert_no_process_left, unique_tag, wait_for_processes, zombies_among,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const MOMENT: Duration = Duration::from_millis(200);

/// A shell with only these variables.
fn shell(script: &str, tag: &str) -> Program {
    let variables = [
        (TAG_VARIABLE, tag),
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Program::new("/bin/sh").args(["-c", script]).envs(variables)
}

#[tokio::test]
async fn a_program_is_spoken_to_and_its_exit_is_told() {
    let tag = unique_tag();
    let script = "read line; echo \"heard $line\"; echo aside >&2; exit 3";
    let mut running = shell(script, &tag).start().await.unwrap();
    let mut streams = running.take_streams().unwrap();
    assert!(running.take_streams().is_none());
    streams.stdin.write_all(b"this\n").await.unwrap();
    let (mut said, mut aside) = (String::new(), String::new());
    streams.stdout.read_to_string(&mut said).await.unwrap();
    streams.stderr.read_to_string(&mut aside).await.unwrap();
    assert_eq!((said.as_str(), aside.as_str()), ("heard this\n", "aside\n"));
    assert_eq!(running.wait().await.code(), Some(3));
    let exit = running.shut_down(MOMENT, MOMENT).await;
    assert_eq!(exit.to_string(), "exited with code 3");
    assert_no_process_left(&tag).await;
}

#[tokio::test]
async fn a_program_that_does_not_want_to_go_goes_with_all_that_it_started() {
    let tag = unique_tag();
    let script = "trap '' TERM; setsid sleep 600 & sleep 600 & while :; do sleep 600; done";
    let running = shell(script, &tag).start().await.unwrap();
    let started = wait_for_processes(&tag, 4).await;
    let exit = running.shut_down(Duration::ZERO, MOMENT).await;
    assert_eq!(exit.code(), None);
    assert_no_process_left(&tag).await;
    assert!(zombies_among(&started[..1]).is_empty());
}

#[tokio::test]
async fn a_program_that_is_dropped_is_gone_at_once() {
    let tag = unique_tag();
    let script = "trap '' TERM; setsid sleep 600 & sleep 600 & wait";
    let running = shell(script, &tag).start().await.unwrap();
    wait_for_processes(&tag, 3).await;
    drop(running);
    assert_no_process_left(&tag).await;
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let missing = Program::new("/nowhere/program").start().await.unwrap_err();
    assert!(missing.is_not_found());
    assert_eq!(missing.to_string(), "command not found: /nowhere/program");
    let folder = Program::new("/bin/sh")
        .current_dir("/nowhere")
        .start()
        .await;
    let folder = folder.unwrap_err();
    assert!(!folder.is_not_found());
    assert!(folder.to_string().contains("/nowhere"), "{folder}");
}

#[test]
fn no_secret_of_a_program_is_shown() {
    let variables = [("TOKEN".to_owned(), "hidden".to_owned())];
    let program = Program::new("x").args(["--key=hidden"]).envs(variables);
    let shown = format!("{program:?}");
    assert!(
        shown.contains("TOKEN") && !shown.contains("hidden"),
        "{shown}"
    );
}
