//! Orphan cleanup: when a server or its host ends, no process that the server started survives.
//!
//! These tests cover the default behaviour of a host. The options of an embedding program
//! (guardian, subreaper, cleanup at the next start) are covered by the tests of the `switchboard`
//! command.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

mod common;

use std::time::{Duration, Instant};

use common::{child, launch, permissive};
use serde_json::json;
use switchboard::limits::Deadlines;
use switchboard::process::HostId;
use switchboard::{Event, Host, HostBuilder, Readiness};
use switchboard_config::TransportConfig;
use switchboard_testkit::{
    Grandchild, Script, Step, assert_no_process_left, processes_with_tag, repetitions, unique_tag,
    wait_for_processes, zombies_among,
};

/// A server that starts other processes or does not exit when it is asked to.
struct StubbornServer {
    name: &'static str,
    script: Script,
    /// Number of running processes when the server is up, including the server itself.
    processes: usize,
    /// False if the server never completes its handshake and stays in the state connecting.
    is_ready: bool,
}

fn stubborn(name: &'static str, processes: usize, script: Script) -> StubbornServer {
    StubbornServer {
        name,
        script: script.tool("echo"),
        processes,
        is_ready: true,
    }
}

fn double_forked() -> Step {
    Step::SpawnChild(Grandchild {
        double_fork: true,
        ..Grandchild::default()
    })
}

fn stubborn_servers() -> Vec<StubbornServer> {
    let legacy = Script::legacy;
    let holding_stdout = Step::SpawnChild(Grandchild {
        setsid: true,
        hold_stdout: true,
        ..Grandchild::default()
    });
    let tree = [
        Step::IgnoreTerm,
        Step::spawn_in_group(),
        Step::spawn_in_own_session(),
        double_forked(),
    ];
    let flood = Step::background([Step::StderrFlood { bytes: None }]);
    let mut servers = vec![
        stubborn("alone", 1, legacy()),
        stubborn("parent", 2, legacy().on_start([Step::spawn_in_group()])),
        stubborn(
            "daemon",
            2,
            legacy().on_start([Step::spawn_in_own_session()]),
        ),
        stubborn("double fork", 2, legacy().on_start([double_forked()])),
        stubborn("holds stdout", 2, legacy().on_start([holding_stdout])),
        stubborn(
            "stubborn tree",
            4,
            legacy().on_start(tree).on_eof([Step::Hang]),
        ),
        stubborn(
            "full pipe",
            2,
            legacy().on_start([Step::spawn_in_own_session(), flood]),
        ),
    ];
    let connecting = legacy()
        .on_start([Step::spawn_in_own_session()])
        .on("*", [Step::Hang])
        .on_eof([Step::Hang]);
    let stopped = legacy().on_start([Step::spawn_in_own_session(), Step::StopSelf]);
    for (name, script) in [("still connecting", connecting), ("stopped", stopped)] {
        let is_ready = false;
        servers.push(StubbornServer {
            is_ready,
            ..stubborn(name, 2, script)
        });
    }
    servers
}

fn builder() -> HostBuilder {
    let mut deadlines = Deadlines::default();
    deadlines.exit_after_eof = Duration::from_millis(200);
    deadlines.exit_after_term = Duration::from_millis(200);
    permissive().deadlines(deadlines)
}

async fn host_of(server: &StubbornServer, tag: &str) -> Host {
    let spec = launch("s", child(&server.script, tag));
    let host = builder().launch(spec).start().unwrap();
    if server.is_ready {
        host.wait_for(Readiness::All).await;
    }
    host
}

/// Waits until none of these pids is a zombie child of the test process.
async fn assert_no_zombie(pids: &[i32]) {
    let is_ours = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit(')').next().unwrap().split(' ').nth(2);
        parent == Some(&std::process::id().to_string())
    };
    let started_at = Instant::now();
    while zombies_among(pids).iter().any(is_ours) {
        assert!(
            started_at.elapsed() < Duration::from_secs(5),
            "zombies remain"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn shutdown_leaves_no_process() {
    for server in stubborn_servers() {
        let tag = unique_tag();
        let host = host_of(&server, &tag).await;
        let pids = wait_for_processes(&tag, server.processes).await;
        host.shutdown().await;
        assert_eq!(processes_with_tag(&tag), [0; 0], "{}", server.name);
        assert_no_zombie(&pids).await;
    }
}

#[tokio::test]
async fn dropped_host_leaves_no_process() {
    for server in stubborn_servers() {
        let tag = unique_tag();
        let host = host_of(&server, &tag).await;
        let pids = wait_for_processes(&tag, server.processes).await;
        drop(host);
        assert_eq!(processes_with_tag(&tag), [0; 0], "{}", server.name);
        assert_no_zombie(&pids).await;
    }
}

#[tokio::test]
async fn disconnect_leaves_no_process() {
    for server in stubborn_servers() {
        let tag = unique_tag();
        let host = host_of(&server, &tag).await;
        let pids = wait_for_processes(&tag, server.processes).await;
        host.disconnect("s").await.unwrap();
        // `disconnect` does not wait for the processes of a server that is still connecting.
        if !server.is_ready {
            assert_no_process_left(&tag).await;
        }
        assert_eq!(processes_with_tag(&tag), [0; 0], "{}", server.name);
        assert_no_zombie(&pids).await;
        host.shutdown().await;
    }
}

#[tokio::test]
async fn reconnect_ends_all_previous_processes() {
    for server in stubborn_servers()
        .into_iter()
        .filter(|server| server.is_ready)
    {
        let tag = unique_tag();
        let host = host_of(&server, &tag).await;
        let before = wait_for_processes(&tag, server.processes).await;
        host.reconnect("s").await.unwrap();
        let after = wait_for_processes(&tag, server.processes).await;
        assert!(
            after.iter().all(|pid| !before.contains(pid)),
            "{}",
            server.name
        );
        host.shutdown().await;
        assert_eq!(processes_with_tag(&tag), [0; 0], "{}", server.name);
    }
}

#[tokio::test]
async fn restart_after_crash_ends_leftover_processes() {
    let tag = unique_tag();
    let tree = [
        Step::spawn_in_group(),
        Step::spawn_in_own_session(),
        double_forked(),
    ];
    let script = Script::legacy()
        .tool("die")
        .on_start(tree)
        .on("tools/call die", [Step::Abort]);
    let host = builder()
        .launch(launch("s", child(&script, &tag)))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let before = wait_for_processes(&tag, 4).await;
    let mut events = host.events();
    host.call("mcp__s__die", json!({})).await.unwrap_err();
    loop {
        if let Some(Event::ServerChanged { status, .. }) = events.next().await
            && status.as_str() == "connected"
        {
            break;
        }
    }
    let after = wait_for_processes(&tag, 4).await;
    assert!(after.iter().all(|pid| !before.contains(pid)), "{after:?}");
    host.shutdown().await;
    assert_eq!(processes_with_tag(&tag), [0; 0]);
}

#[test]
fn panic_leaves_no_process() {
    let tag = unique_tag();
    let tree = stubborn_servers()
        .into_iter()
        .find(|server| server.name == "stubborn tree")
        .unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        runtime.block_on(async {
            let _host = host_of(&tree, &tag).await;
            wait_for_processes(&tag, tree.processes).await;
            panic!("on purpose");
        });
    }));
    assert!(panicked.is_err());
    assert_eq!(processes_with_tag(&tag), [0; 0]);
}

/// Starts five servers per host, each with at least three processes. Then the test shuts the host
/// down, drops the host, or disconnects each server.
#[tokio::test(flavor = "multi_thread")]
async fn stress_trees_leave_no_process() {
    const SERVERS: u32 = 5;
    let trees = repetitions(50);
    for host_number in 0..trees.div_ceil(SERVERS) {
        let tag = unique_tag();
        let mut builder = builder();
        for number in 0..SERVERS.min(trees - host_number * SERVERS) {
            let mut steps = vec![Step::spawn_in_group(), Step::spawn_in_own_session()];
            let mut script = Script::legacy().tool("echo");
            if number % 2 == 1 {
                steps.push(double_forked());
            }
            if number == 4 {
                steps.insert(0, Step::IgnoreTerm);
                script = script.on_eof([Step::Hang]);
            }
            let server = child(&script.on_start(steps), &tag);
            builder = builder.launch(launch(&format!("s{number}"), server));
        }
        let host = builder.start().unwrap();
        host.wait_for(Readiness::All).await;
        let servers = host.status().len();
        let pids = wait_for_processes(&tag, 3 * servers + servers / 2).await;
        match host_number % 3 {
            0 => host.shutdown().await,
            1 => drop(host),
            _ => {
                for status in host.status() {
                    host.disconnect(status.name.as_str()).await.unwrap();
                }
            }
        }
        assert_eq!(processes_with_tag(&tag), [0; 0], "host {host_number}");
        assert_no_zombie(&pids).await;
    }
}

#[tokio::test]
async fn keep_daemons_spares_only_its_own_daemons() {
    let tag = unique_tag();
    let tree = [Step::spawn_in_group(), Step::spawn_in_own_session()];
    let script = Script::legacy().tool("echo").on_start(tree);
    let keeper = |tag: &str| {
        let mut config = child(&script, tag);
        if let TransportConfig::Stdio(stdio) = &mut config.transport {
            stdio.keep_daemons = true;
        }
        config
    };
    for drop_host in [false, true] {
        let host = builder()
            .launch(launch("keeper", keeper(&tag)))
            .launch(launch("other", child(&script, &tag)))
            .start()
            .unwrap();
        host.wait_for(Readiness::All).await;
        wait_for_processes(&tag, 6).await;
        if drop_host {
            drop(host);
        } else {
            host.shutdown().await;
        }
        let started_at = Instant::now();
        while processes_with_tag(&tag).len() > 1 && started_at.elapsed() < Duration::from_secs(5) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let kept = processes_with_tag(&tag);
        assert_eq!(kept.len(), 1, "the keeper's daemon");
        let pid = rustix::process::Pid::from_raw(kept[0]).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        assert_no_process_left(&tag).await;
    }
}

#[tokio::test]
async fn hosts_do_not_end_each_others_children() {
    let (ours, others) = (unique_tag(), unique_tag());
    let daemon = Script::legacy()
        .tool("echo")
        .on_start([Step::spawn_in_own_session()]);
    let host = |tag: &str| builder().launch(launch("s", child(&daemon, tag))).start();
    let (one, other) = (host(&ours).unwrap(), host(&others).unwrap());
    one.wait_for(Readiness::All).await;
    other.wait_for(Readiness::All).await;
    wait_for_processes(&others, 2).await;
    one.shutdown().await;
    assert_eq!(processes_with_tag(&ours), [0; 0]);
    assert_eq!(processes_with_tag(&others).len(), 2);
    other.shutdown().await;
    assert_eq!(processes_with_tag(&others), [0; 0]);
}

/// Returns the value that an environment variable of the process had when the process started.
fn variable(pid: i32, name: &str) -> Option<String> {
    let environment = std::fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    let mut variables = environment.split('\0');
    variables.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
}

#[tokio::test]
async fn child_marker_is_nested_in_outer_marker() {
    let tag = unique_tag();
    let (outer, inner) = (HostId::new(), HostId::new());
    let forged = child(&Script::legacy(), &tag).env("SWITCHBOARD_CHILD", "mine");
    let host = builder()
        .host_id(inner)
        .environment([("SWITCHBOARD_CHILD".to_owned(), format!("{outer}.7"))])
        .launch(launch("s", forged))
        .start()
        .unwrap();
    let pids = wait_for_processes(&tag, 1).await;
    let marker = variable(pids[0], "SWITCHBOARD_CHILD").unwrap();
    assert_eq!(marker, format!("{outer}.7/{inner}.1"));
    host.shutdown().await;
}
