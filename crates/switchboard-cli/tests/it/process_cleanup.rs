//! No server, descendant of a server or guardian survives `switchboard`, however `switchboard`
//! ends.

mod stale_hosts;

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use switchboard_testkit::{
    Grandchild, Script, Step, assert_no_process_left, processes_with_tag, repetitions,
    scripted_server, wait_for_processes,
};

use crate::support::{Entry, TestCli, entry, wait_until};

/// A running `switchboard call` whose tool never returns.
struct Run {
    cli: TestCli,
    child: Child,
    guardian: i32,
}

impl Run {
    /// Starts the call and waits until the server and its descendants are this many processes.
    async fn start(server: Entry, processes: usize) -> Self {
        Self::start_in(TestCli::with_servers([("ant", server)]), processes).await
    }

    async fn start_in(cli: TestCli, processes: usize) -> Self {
        let command = cli.command(&["call", "mcp__ant__t", "--yes"]);
        Self::start_command(command, cli, processes).await
    }

    async fn start_command(mut command: Command, cli: TestCli, processes: usize) -> Self {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        // Add one, because `switchboard` itself has the tag too.
        wait_for_processes(cli.sandbox.tag(), processes + 1).await;
        let guardian = guardian_of(&child).await;
        Self {
            cli,
            child,
            guardian,
        }
    }

    /// Waits until the call has reached the server.
    async fn called(self) -> Self {
        let called = self.cli.sandbox.project().join("called");
        wait_until("the call", || called.exists()).await;
        self
    }

    fn send(&self, signal: Signal) {
        send(i32::try_from(self.child.id()).unwrap(), signal);
    }

    /// Waits for the exit, and asserts that no process is left, including the guardian.
    async fn end(mut self) -> TestCli {
        wait(&mut self.child).await;
        assert_no_process_left(self.cli.sandbox.tag()).await;
        let guardian = format!("/proc/{}/environ", self.guardian);
        // The guardian has an empty environment. A process with another environment has reused the
        // pid, so the guardian is gone.
        wait_until("the guardian's end", || {
            fs::read(&guardian).map_or(true, |text| !text.is_empty())
                || state(self.guardian).is_none_or(|state| state == 'Z')
        })
        .await;
        self.cli
    }
}

fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

fn kill_all(pids: Vec<i32>) {
    for pid in pids {
        send(pid, Signal::KILL);
    }
}

/// Waits for the exit, with a timeout that is long enough for a busy machine.
async fn wait(child: &mut Child) {
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < Duration::from_secs(25), "does not exit");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

fn children_of(pid: u32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    let lists: Vec<_> = lists.collect();
    let pids = lists.iter().flat_map(|list| list.split_ascii_whitespace());
    pids.map(|pid| pid.parse().unwrap()).collect()
}

/// Waits until `child` has spawned a guardian, and returns the pid of the guardian.
async fn guardian_of(child: &Child) -> i32 {
    let is_guardian = |pid: &i32| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split('\0').any(|word| word == "__guardian")
    };
    let find = || children_of(child.id()).into_iter().find(is_guardian);
    wait_until("a guardian", || find().is_some()).await;
    find().unwrap()
}

fn double_forked() -> Grandchild {
    Grandchild {
        double_fork: true,
        ..Grandchild::default()
    }
}

/// A server with a child in its process group, a daemon and an orphan: four processes.
fn tree() -> Script {
    Script::legacy()
        .tool("t")
        .on_start([
            Step::spawn_in_group(),
            Step::spawn_in_own_session(),
            Step::SpawnChild(double_forked()),
        ])
        .on("tools/call t", [Step::count("called"), Step::Hang])
}

/// Whether the server completes the handshake. A server that hangs in the handshake is never
/// called.
enum Startup {
    Connects,
    Hangs,
}

/// Servers that are hard to kill. Each has a name, a script, the number of its processes including
/// descendants, and its [`Startup`].
fn server_kinds() -> Vec<(&'static str, Script, usize, Startup)> {
    let stubborn = [
        Step::IgnoreTerm,
        Step::spawn_in_group(),
        Step::spawn_in_own_session(),
    ];
    let flood = Step::background([Step::StderrFlood { bytes: None }]);
    vec![
        ("tree", tree(), 4, Startup::Connects),
        (
            "stubborn",
            Script::legacy().on_start(stubborn).on_eof([Step::Hang]),
            3,
            Startup::Connects,
        ),
        (
            "still connecting",
            Script::legacy()
                .on_start([Step::spawn_in_own_session()])
                .on("*", [Step::Hang]),
            2,
            Startup::Hangs,
        ),
        (
            "stopped",
            Script::legacy().on_start([Step::spawn_in_own_session(), Step::StopSelf]),
            2,
            Startup::Hangs,
        ),
        (
            "full pipe",
            Script::legacy().on_start([Step::spawn_in_own_session(), flood]),
            2,
            Startup::Connects,
        ),
    ]
}

/// Sends the signal to `switchboard`, once with each kind of server, and asserts that no process is
/// left.
async fn end_by(signal: Signal) {
    for (name, script, processes, startup) in server_kinds() {
        println!("{name}");
        let hanging = [Step::count("called"), Step::Hang];
        let script = script.tool("t").on("tools/call t", hanging);
        let run = Run::start(script.into(), processes).await;
        let run = match startup {
            Startup::Connects => run.called().await,
            Startup::Hangs => run,
        };
        run.send(signal);
        let cli = run.end().await;
        if signal == Signal::INT {
            assert_eq!(stale_hosts::records(&cli), [""; 0], "{name}");
        }
    }
}

#[tokio::test]
async fn sigint_leaves_no_process() {
    end_by(Signal::INT).await;
}

#[tokio::test]
async fn sigterm_leaves_no_process() {
    end_by(Signal::TERM).await;
}

#[tokio::test]
async fn sighup_leaves_no_process() {
    end_by(Signal::HUP).await;
}

#[tokio::test]
async fn sigabrt_leaves_no_process() {
    end_by(Signal::ABORT).await;
}

#[tokio::test]
async fn sigkill_leaves_no_process() {
    end_by(Signal::KILL).await;
}

#[tokio::test]
async fn normal_exit_leaves_no_process() {
    let script = tree().on("tools/call t", [Step::text("done")]);
    let cli = TestCli::with_servers([("ant", script.into())]);
    let output = cli.run(&["call", "mcp__ant__t", "--yes"]).await;
    assert_eq!(output.to_string(), "exit 0\n--- stdout\ndone");
    assert_eq!(stale_hosts::records(&cli), [""; 0]);
}

#[tokio::test]
async fn stress_kills_leave_no_process() {
    for _ in 0..repetitions(10) {
        let run = Run::start(tree().into(), 4).await.called().await;
        run.send(Signal::KILL);
        run.end().await;
    }
}

/// The guardian starts before the first server. So no process is left, whenever `switchboard` is
/// killed.
#[tokio::test]
async fn stress_kills_during_start_leave_no_process() {
    for round in 0..u64::from(repetitions(20)) {
        let cli = TestCli::with_servers([("ant", tree().into())]);
        let mut command = cli.command(&["call", "mcp__ant__t", "--yes"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        tokio::time::sleep(Duration::from_millis(round * 3 % 50)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        assert_no_process_left(cli.sandbox.tag()).await;
    }
}

/// Returns an entry that runs shell commands before it executes the scripted server.
fn after_shell(before: &str, script: &Script) -> Entry {
    let line = format!("{before}\nexec \"$SERVER\" \"$SCRIPT\"");
    let env = json!({"SERVER": scripted_server(), "SCRIPT": script.to_json()});
    entry(
        script.clone(),
        json!({"command": "/bin/sh", "args": ["-c", line], "env": env}),
    )
}

/// Returns the processes that have this argument.
fn pids_with_argument(word: &str) -> Vec<i32> {
    let has_word = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0)
            .any(|argument| argument == word.as_bytes())
    };
    let pids = fs::read_dir("/proc").unwrap();
    pids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(has_word)
        .collect()
}

/// Returns a shell command that starts a sleeping process with an empty environment, and waits
/// until it runs. The process can be recognized only by the argument `word`, because it does not
/// inherit the tag.
fn start_untagged_sleeper(how: &str, word: &str) -> String {
    format!(
        "env -i {how} /bin/sh -c 'echo >up; while :; do /bin/sleep 1; done' {word} \
         >/dev/null 2>&1 </dev/null &\nwhile ! [ -e up ]; do :; done"
    )
}

#[tokio::test]
async fn daemon_without_environment_is_killed() {
    for signal in [Signal::INT, Signal::TERM] {
        let word = switchboard_testkit::unique_tag();
        let server = after_shell(&start_untagged_sleeper("setsid", &word), &tree());
        let run = Run::start(server, 4).await.called().await;
        assert_eq!(pids_with_argument(&word).len(), 1);
        run.send(signal);
        run.end().await;
        assert_eq!(pids_with_argument(&word), [0; 0]);
    }
}

/// A daemon that starts itself in a new session every 10 ms and exits.
const RESPAWNING_DAEMON: &str = r#"#!/bin/sh
sleep 0.01
setsid "$0" >/dev/null 2>&1 </dev/null &
"#;

#[tokio::test]
async fn self_respawning_daemon_is_killed() {
    for signal in [Signal::INT, Signal::KILL] {
        let cli = TestCli::empty();
        let daemon = cli.sandbox.write_executable("daemon", RESPAWNING_DAEMON);
        let daemon = daemon.to_str().unwrap();
        let server = after_shell(daemon, &tree());
        let entries = json!({"mcpServers": {"ant": server.into_json(&cli.sandbox)}});
        cli.sandbox.write(".mcp.json", entries.to_string());
        let run = Run::start_in(cli, 4).await.called().await;
        wait_until("the daemon", || !pids_with_argument(daemon).is_empty()).await;
        run.send(signal);
        run.end().await;
        // One check is not enough: the daemon may be between two of its processes.
        for _ in 0..20 {
            assert_eq!(pids_with_argument(daemon), [0; 0]);
        }
    }
}

/// A shell may start a child and then replace itself with `switchboard` (`exec`). Such a child is
/// not killed.
#[tokio::test]
async fn earlier_children_are_not_killed() {
    let word = switchboard_testkit::unique_tag();
    let cli = TestCli::with_servers([("ant", tree().into())]);
    let mut command = cli.sandbox.command("/bin/sh");
    let line = format!("{}\nexec \"$@\"", start_untagged_sleeper("", &word));
    command.args(["-c", &line, "sh", env!("CARGO_BIN_EXE_switchboard")]);
    command.args(["--trust-project", "call", "mcp__ant__t", "--yes"]);
    let run = Run::start_command(command, cli, 4).await.called().await;
    let before = pids_with_argument(&word);
    assert_eq!(before.len(), 1);
    run.send(Signal::INT);
    run.end().await;
    assert_eq!(pids_with_argument(&word), before);
    send(before[0], Signal::KILL);
}

#[tokio::test]
async fn untagged_process_group_is_killed() {
    let word = switchboard_testkit::unique_tag();
    let server = after_shell(&start_untagged_sleeper("", &word), &tree());
    let run = Run::start(server, 4).await.called().await;
    assert_eq!(pids_with_argument(&word).len(), 1);
    run.send(Signal::KILL);
    run.end().await;
    wait_until("the end of the group", || {
        pids_with_argument(&word).is_empty()
    })
    .await;
}

#[tokio::test]
async fn keep_daemons_leaves_daemons_running() {
    for signal in [Signal::INT, Signal::KILL] {
        let server = entry(tree(), json!({"keepDaemons": true}));
        let run = Run::start(server, 4).await.called().await;
        run.send(signal);
        let mut child = run.child;
        wait(&mut child).await;
        let tag = run.cli.sandbox.tag();
        wait_until("the end of the group", || {
            processes_with_tag(tag).len() <= 2
        })
        .await;
        wait_until("the guardian's end", || {
            state(run.guardian).is_none_or(|state| state == 'Z')
        })
        .await;
        // The next start of `switchboard` does not kill the daemons either.
        let output = run.cli.command_without_trust(&["list"]).output().unwrap();
        assert!(output.status.success());
        let kept = processes_with_tag(tag);
        assert_eq!(kept.len(), 2, "the daemon and the orphan");
        kill_all(kept);
        assert_no_process_left(tag).await;
    }
}

#[tokio::test]
async fn exited_orphans_are_reaped() {
    let short_lived = Step::SpawnChild(Grandchild {
        seconds: 0,
        ..double_forked()
    });
    let script = Script::legacy()
        .tool("t")
        .on_start([short_lived])
        .on("tools/call t", [Step::count("called"), Step::Hang]);
    let run = Run::start(script.into(), 1).await.called().await;
    wait_until("an end without zombies", || {
        let children = children_of(run.child.id());
        children.len() == 2 && children.iter().all(|pid| state(*pid) != Some('Z'))
    })
    .await;
    run.send(Signal::INT);
    run.end().await;
}

#[tokio::test]
async fn guardian_is_isolated_and_ignores_signals() {
    let run = Run::start(tree().into(), 4).await.called().await;
    let proc_file = |name: &str| format!("/proc/{}/{name}", run.guardian);
    // The guardian sets its process name last. Wait for the name, so that everything checked below
    // is already done.
    let name = || fs::read_to_string(proc_file("comm")).unwrap();
    wait_until("its name", || name() == "mcp-guardian\n").await;
    assert_eq!(fs::read(proc_file("environ")).unwrap(), b"");
    assert_eq!(
        fs::read(proc_file("cmdline")).unwrap(),
        b"/proc/self/exe\0__guardian\0"
    );
    assert_eq!(fs::read_link(proc_file("cwd")).unwrap().to_str(), Some("/"));
    assert_eq!(fs::read_dir(proc_file("fd")).unwrap().count(), 3);
    let stat = fs::read_to_string(proc_file("stat")).unwrap();
    let session = stat.rsplit(") ").next().unwrap().split(' ').nth(3);
    assert_eq!(session, Some(&*run.guardian.to_string()));
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        send(run.guardian, signal);
    }
    run.send(Signal::KILL);
    run.end().await;
}

#[tokio::test]
async fn host_survives_killed_guardian() {
    let run = Run::start(tree().into(), 4).await.called().await;
    send(run.guardian, Signal::KILL);
    run.send(Signal::INT);
    run.end().await;
}

/// The server is itself a `switchboard call` with a hanging tool.
#[tokio::test]
async fn nested_host_leaves_no_process() {
    for signal in [Signal::INT, Signal::KILL] {
        let cli = TestCli::empty();
        let tag = cli.sandbox.tag().to_owned();
        let inner = json!({"mcpServers": {"in": {
            "command": scripted_server(),
            "args": [tree().to_json()],
            "env": {switchboard_testkit::TAG_VARIABLE: tag},
        }}});
        let outer = json!({"mcpServers": {"ant": {
            "command": env!("CARGO_BIN_EXE_switchboard"),
            "args": ["--mcp-config", inner.to_string(), "call", "mcp__in__t", "--yes"],
            "env": {switchboard_testkit::TAG_VARIABLE: tag},
        }}});
        cli.sandbox.write(".mcp.json", outer.to_string());
        let run = Run::start_in(cli, 5).await.called().await;
        run.send(signal);
        run.end().await;
    }
}
