//! If a host is killed together with its guardian, the next start of `switchboard` kills the
//! processes that the host left behind.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;
use switchboard_testkit::{assert_no_process_left, processes_with_tag};

use super::{Run, kill_all, send, tree, wait};
use crate::support::{TestCli, wait_until};

fn folder(cli: &TestCli) -> PathBuf {
    cli.sandbox.state_home().join("switchboard/hosts")
}

/// Returns the file names of the host records.
pub(super) fn records(cli: &TestCli) -> Vec<String> {
    let entries = fs::read_dir(folder(cli)).into_iter().flatten();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// Kills a host together with its guardian. The three descendants of the server survive: child,
/// daemon and orphan.
async fn kill_host_and_guardian() -> TestCli {
    let mut run = Run::start(tree().into(), 4).await.called().await;
    send(run.guardian, Signal::KILL);
    run.send(Signal::KILL);
    wait(&mut run.child).await;
    // The kernel kills the server when its parent dies, but none of the other three processes.
    wait_until("the server's end", || {
        processes_with_tag(run.cli.sandbox.tag()).len() == 3
    })
    .await;
    assert_eq!(records(&run.cli).len(), 1);
    run.cli
}

/// Runs `list` without `--trust-project`. The command starts no server, but kills what dead hosts
/// left behind.
fn start_again(cli: &TestCli) {
    let output = cli.command_without_trust(&["list"]).output().unwrap();
    assert!(output.status.success(), "{}", cli.to_output(&output));
}

/// Changes a field of the only record. The fields are host id, pid, start time, boot id and
/// namespace.
fn change_record_field(cli: &TestCli, field: usize, change: impl Fn(&str) -> String) {
    let path = folder(cli).join(&records(cli)[0]);
    let text = fs::read_to_string(&path).unwrap();
    let fields = text.split(' ').enumerate();
    let changed: Vec<_> = fields
        .map(|(at, text)| {
            if at == field {
                change(text)
            } else {
                text.to_owned()
            }
        })
        .collect();
    fs::write(&path, changed.join(" ")).unwrap();
}

#[tokio::test]
async fn next_start_kills_survivors() {
    let cli = kill_host_and_guardian().await;
    start_again(&cli);
    assert_eq!(processes_with_tag(cli.sandbox.tag()), [0; 0]);
    assert_eq!(records(&cli), [""; 0]);
}

#[tokio::test]
async fn running_host_is_not_touched() {
    let run = Run::start(tree().into(), 4).await.called().await;
    let running = || processes_with_tag(run.cli.sandbox.tag());
    wait_until("the whole tree", || running().len() == 5).await;
    let before = running();
    start_again(&run.cli);
    assert_eq!(running(), before);
    assert_eq!(records(&run.cli).len(), 1);
    run.send(Signal::INT);
    run.end().await;
}

#[tokio::test]
async fn reused_pid_is_not_the_host() {
    let cli = kill_host_and_guardian().await;
    // The record names pid 1, as if the pid of the host was reused: pid 1 has another start time
    // than the record and no marker of the host.
    change_record_field(&cli, 1, |_| "1".to_owned());
    start_again(&cli);
    assert_eq!(processes_with_tag(cli.sandbox.tag()), [0; 0]);
    assert_eq!(records(&cli), [""; 0]);
}

#[tokio::test]
async fn unrelated_processes_are_not_killed() {
    type Change = fn(&str) -> String;
    let later: Change = |start| (start.parse::<u64>().unwrap() + 1_000_000).to_string();
    let other: Change = |_| "other".to_owned();
    // Three changed records: the host started after the processes, before the last boot, or in
    // another pid namespace. Each case has the number of records that are kept.
    let cases = [(2, later, 0), (3, other, 0), (4, other, 1)];
    for (field, change, records_left) in cases {
        let cli = kill_host_and_guardian().await;
        change_record_field(&cli, field, change);
        start_again(&cli);
        let left = processes_with_tag(cli.sandbox.tag());
        assert_eq!(left.len(), 3, "field {field}");
        assert_eq!(records(&cli).len(), records_left, "field {field}");
        kill_all(left);
        assert_no_process_left(cli.sandbox.tag()).await;
    }
}

#[tokio::test]
async fn record_with_other_host_id_kills_nothing() {
    let cli = kill_host_and_guardian().await;
    let other = "0123456789abcdef0123456789abcdef";
    change_record_field(&cli, 0, |_| other.to_owned());
    let folder = folder(&cli);
    fs::rename(folder.join(&records(&cli)[0]), folder.join(other)).unwrap();
    start_again(&cli);
    let left = processes_with_tag(cli.sandbox.tag());
    assert_eq!(left.len(), 3);
    assert_eq!(records(&cli), [""; 0]);
    kill_all(left);
    assert_no_process_left(cli.sandbox.tag()).await;
}
