//! What the next start finds when even the guardian was killed, and what it leaves alone.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;
use switchboard_testkit::{assert_no_process_left, processes_with_tag};

use super::{Run, kill_all, send, tree, wait};
use crate::support::{Desk, until};

fn folder(desk: &Desk) -> PathBuf {
    desk.sandbox.state_home().join("switchboard/hosts")
}

/// The names of the records that are there.
pub(super) fn records(desk: &Desk) -> Vec<String> {
    let entries = fs::read_dir(folder(desk)).into_iter().flatten();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// A host that was killed together with its guardian: its daemon and its orphan live on.
async fn orphaned() -> Desk {
    let mut run = Run::start(tree().into(), 4).await.called().await;
    send(run.guardian, Signal::KILL);
    run.send(Signal::KILL);
    wait(&mut run.child).await;
    // The kernel ends the server itself; the rest has nobody left.
    until("the server's end", || {
        processes_with_tag(run.desk.sandbox.tag()).len() == 3
    })
    .await;
    assert_eq!(records(&run.desk).len(), 1);
    run.desk
}

/// Starts the program once more. It has no servers to start, only to clean up after.
fn start_again(desk: &Desk) {
    let ran = desk.untrusting(&["list"]).output().unwrap();
    assert!(ran.status.success(), "{}", desk.ran(&ran));
}

/// Changes a field of the only record: 0 is the tag, then process, start, boot, namespace.
fn forge(desk: &Desk, field: usize, change: impl Fn(&str) -> String) {
    let path = folder(desk).join(&records(desk)[0]);
    let text = fs::read_to_string(&path).unwrap();
    let fields = text.split(' ').enumerate();
    let forged: Vec<_> = fields
        .map(|(at, text)| {
            if at == field {
                change(text)
            } else {
                text.to_owned()
            }
        })
        .collect();
    fs::write(&path, forged.join(" ")).unwrap();
}

#[tokio::test]
async fn the_next_start_ends_what_a_killed_host_left() {
    let desk = orphaned().await;
    start_again(&desk);
    assert_eq!(processes_with_tag(desk.sandbox.tag()), [0; 0]);
    assert_eq!(records(&desk), [""; 0]);
}

#[tokio::test]
async fn a_host_that_runs_is_left_alone() {
    let run = Run::start(tree().into(), 4).await.called().await;
    let running = || processes_with_tag(run.desk.sandbox.tag());
    until("the whole tree", || running().len() == 5).await;
    let before = running();
    start_again(&run.desk);
    assert_eq!(running(), before);
    assert_eq!(records(&run.desk).len(), 1);
    run.send(Signal::INT);
    run.end().await;
}

#[tokio::test]
async fn a_number_that_another_process_has_got_is_no_sign_of_life_and_kills_nobody_else() {
    let desk = orphaned().await;
    // As if another had the number now, one that began at another time and carries no mark.
    forge(&desk, 1, |_| "1".to_owned());
    start_again(&desk);
    assert_eq!(processes_with_tag(desk.sandbox.tag()), [0; 0]);
    assert_eq!(records(&desk), [""; 0]);
}

#[tokio::test]
async fn what_cannot_be_what_the_host_left_is_left_alone() {
    type Change = fn(&str) -> String;
    let later: Change = |start| (start.parse::<u64>().unwrap() + 1_000_000).to_string();
    let other: Change = |_| "other".to_owned();
    // The host began after the processes did; it ran before a boot; in another namespace.
    let cases = [(2, later, 0), (3, other, 0), (4, other, 1)];
    for (field, change, records_left) in cases {
        let desk = orphaned().await;
        forge(&desk, field, change);
        start_again(&desk);
        let left = processes_with_tag(desk.sandbox.tag());
        assert_eq!(left.len(), 3, "field {field}");
        assert_eq!(records(&desk).len(), records_left, "field {field}");
        kill_all(left);
        assert_no_process_left(desk.sandbox.tag()).await;
    }
}

#[tokio::test]
async fn a_record_with_another_tag_ends_nobody() {
    let desk = orphaned().await;
    let other = "0123456789abcdef0123456789abcdef";
    forge(&desk, 0, |_| other.to_owned());
    let folder = folder(&desk);
    fs::rename(folder.join(&records(&desk)[0]), folder.join(other)).unwrap();
    start_again(&desk);
    let left = processes_with_tag(desk.sandbox.tag());
    assert_eq!(left.len(), 3);
    assert_eq!(records(&desk), [""; 0]);
    kill_all(left);
    assert_no_process_left(desk.sandbox.tag()).await;
}
