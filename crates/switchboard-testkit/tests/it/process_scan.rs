//! Tests of the scan for processes that a test left behind.

use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group};
use serde_json::json;
use switchboard_testkit::{
    Grandchild, Script, Step, assert_no_process_left, processes_with_tag, unique_tag,
    wait_for_processes, zombie_children, zombies_among,
};

use crate::client::{ChildServer, start, within};

fn pid(raw: i32) -> Pid {
    Pid::from_raw(raw).unwrap()
}

/// The session id of a process; 0 if its leader is outside of this pid namespace.
fn session_of(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, after_name) = stat.rsplit_once(") ").unwrap();
    after_name.split(' ').nth(3).unwrap().parse().unwrap()
}

/// Starts a server and lets it start a grandchild. Returns the server and the pid of the
/// grandchild.
async fn start_with_grandchild(step: Step) -> (ChildServer, i32) {
    let mut server = start(&Script::legacy().on("tools/call", [step, Step::text("started")]));
    server.client.call_text("any", json!({})).await;
    let parent = server.pid();
    let found = processes_with_tag(&server.tag);
    let others: Vec<i32> = found.into_iter().filter(|found| *found != parent).collect();
    assert_eq!(others.len(), 1);
    (server, others[0])
}

#[tokio::test]
async fn grandchild_in_group_dies_with_group() {
    let (mut server, grandchild) = start_with_grandchild(Step::spawn_in_group()).await;
    let group = getpgid(Some(pid(server.pid()))).unwrap();
    assert_eq!(getpgid(Some(pid(grandchild))).unwrap(), group);
    kill_process_group(group, Signal::KILL).unwrap();
    server.wait().await;
    assert_no_process_left(&server.tag).await;
}

#[tokio::test]
async fn scan_finds_grandchild_in_own_session() {
    let (mut server, grandchild) = start_with_grandchild(Step::spawn_in_own_session()).await;
    assert_eq!(session_of(grandchild), grandchild);
    kill_process_group(pid(server.pid()), Signal::KILL).unwrap();
    server.wait().await;
    assert_eq!(processes_with_tag(&server.tag), [grandchild]);
    kill_process(pid(grandchild), Signal::KILL).unwrap();
    assert_no_process_left(&server.tag).await;
}

#[tokio::test]
async fn scan_finds_orphan() {
    let step = Step::SpawnChild(Grandchild {
        double_fork: true,
        ..Grandchild::default()
    });
    let mut server = start(&Script::legacy().on("tools/call", [step, Step::text("started")]));
    server.client.call_text("any", json!({})).await;
    assert_eq!(server.close_and_wait().await.code(), Some(0));
    // For a moment, the scan may also find the intermediate process, which exits without being
    // killed.
    let orphan = loop {
        match wait_for_processes(&server.tag, 1).await[..] {
            [orphan] => break orphan,
            _ => tokio::task::yield_now().await,
        }
    };
    assert_ne!(
        session_of(orphan),
        session_of(std::process::id().cast_signed())
    );
    kill_process(pid(orphan), Signal::KILL).unwrap();
    assert_no_process_left(&server.tag).await;
}

#[tokio::test]
async fn unreaped_child_is_a_zombie() {
    let mut server = start(&Script::legacy().on("tools/call", [Step::Abort]));
    let running = wait_for_processes(&server.tag, 1).await;
    assert_eq!(running, [server.pid()]);
    assert!(zombies_among(&running).is_empty());
    server.client.call("any").await;
    server.client.rest().await;
    assert_no_process_left(&server.tag).await;
    // The kernel frees the memory of a process, which contains the tag, before the process becomes
    // a zombie.
    within("the zombie", async {
        while zombies_among(&running) != running {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(zombie_children().contains(&server.pid()));
    server.wait().await;
    assert!(zombies_among(&running).is_empty());
    assert!(!zombie_children().contains(&running[0]));
}

#[tokio::test]
#[should_panic(expected = "are still running")]
async fn leftover_process_fails_the_test() {
    let server = start(&Script::legacy());
    assert_no_process_left(&server.tag).await;
}

#[test]
fn tags_are_unique() {
    let first = unique_tag();
    assert_ne!(first, unique_tag());
    assert!(processes_with_tag(&first).is_empty());
}
