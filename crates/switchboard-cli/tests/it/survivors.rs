//! No survivors: however `switchboard` ends, nothing of its servers is left, nor of itself.

mod leftovers;

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use switchboard_testkit::{
    Grandchild, Script, Step, assert_no_process_left, processes_with_tag, repetitions,
    scripted_server, wait_for_processes,
};

use crate::support::{Desk, Entry, entry, until};

/// A running `switchboard call`, whose call never ends.
struct Run {
    desk: Desk,
    child: Child,
    guardian: i32,
}

impl Run {
    /// Starts it, and waits until so many processes of its server are there.
    async fn start(server: Entry, processes: usize) -> Self {
        Self::on(Desk::with([("ant", server)]), processes).await
    }

    async fn on(desk: Desk, processes: usize) -> Self {
        let command = desk.command(&["call", "mcp__ant__t", "--yes"]);
        Self::by(command, desk, processes).await
    }

    async fn by(mut command: Command, desk: Desk, processes: usize) -> Self {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        // The program itself has the tag, too.
        wait_for_processes(desk.sandbox.tag(), processes + 1).await;
        let guardian = guardian_of(&child).await;
        Self {
            desk,
            child,
            guardian,
        }
    }

    /// Waits until the call has reached the server.
    async fn called(self) -> Self {
        let called = self.desk.sandbox.project().join("called");
        until("the call", || called.exists()).await;
        self
    }

    fn send(&self, signal: Signal) {
        send(i32::try_from(self.child.id()).unwrap(), signal);
    }

    /// Waits for the end; soon after it nothing is left, the guardian included.
    async fn end(mut self) -> Desk {
        wait(&mut self.child).await;
        assert_no_process_left(self.desk.sandbox.tag()).await;
        let guardian = format!("/proc/{}/environ", self.guardian);
        until("the guardian's end", || {
            fs::read(&guardian).map_or(true, |text| !text.is_empty())
                || state(self.guardian).is_none_or(|state| state == 'Z')
        })
        .await;
        self.desk
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

/// Waits for the end of the program. It is generous: both cores may be busy.
async fn wait(child: &mut Child) {
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < Duration::from_secs(25), "it does not end");
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

/// The guardian that a program has among its children.
async fn guardian_of(child: &Child) -> i32 {
    let is_guardian = |pid: &i32| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split('\0').any(|word| word == "__guardian")
    };
    let find = || children_of(child.id()).into_iter().find(is_guardian);
    until("a guardian", || find().is_some()).await;
    find().unwrap()
}

fn double_forked() -> Grandchild {
    Grandchild {
        double_fork: true,
        ..Grandchild::default()
    }
}

/// A server with a child in its group, a daemon and an orphan: four processes.
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

/// A server that does not come up is not called.
enum Comes {
    Up,
    Never,
}

/// The ways to be, and how many processes each comes to.
fn kinds() -> Vec<(&'static str, Script, usize, Comes)> {
    let stubborn = [
        Step::IgnoreTerm,
        Step::spawn_in_group(),
        Step::spawn_in_own_session(),
    ];
    let flood = Step::background([Step::StderrFlood { bytes: None }]);
    vec![
        ("tree", tree(), 4, Comes::Up),
        (
            "stubborn",
            Script::legacy().on_start(stubborn).on_eof([Step::Hang]),
            3,
            Comes::Up,
        ),
        (
            "still connecting",
            Script::legacy()
                .on_start([Step::spawn_in_own_session()])
                .on("*", [Step::Hang]),
            2,
            Comes::Never,
        ),
        (
            "stopped",
            Script::legacy().on_start([Step::spawn_in_own_session(), Step::StopSelf]),
            2,
            Comes::Never,
        ),
        (
            "full pipe",
            Script::legacy().on_start([Step::spawn_in_own_session(), flood]),
            2,
            Comes::Up,
        ),
    ]
}

async fn end_each_kind_by(signal: Signal) {
    for (name, script, processes, comes) in kinds() {
        println!("{name}");
        let hanging = [Step::count("called"), Step::Hang];
        let script = script.tool("t").on("tools/call t", hanging);
        let run = Run::start(script.into(), processes).await;
        let run = match comes {
            Comes::Up => run.called().await,
            Comes::Never => run,
        };
        run.send(signal);
        let desk = run.end().await;
        if signal == Signal::INT {
            assert_eq!(leftovers::records(&desk), [""; 0], "{name}");
        }
    }
}

#[tokio::test]
async fn an_interrupt_leaves_nothing() {
    end_each_kind_by(Signal::INT).await;
}

#[tokio::test]
async fn a_termination_leaves_nothing() {
    end_each_kind_by(Signal::TERM).await;
}

#[tokio::test]
async fn a_closed_terminal_leaves_nothing() {
    end_each_kind_by(Signal::HUP).await;
}

#[tokio::test]
async fn an_abort_leaves_nothing() {
    end_each_kind_by(Signal::ABORT).await;
}

#[tokio::test]
async fn a_kill_leaves_nothing() {
    end_each_kind_by(Signal::KILL).await;
}

#[tokio::test]
async fn a_normal_end_leaves_nothing() {
    let script = tree().on("tools/call t", [Step::text("done")]);
    let desk = Desk::with([("ant", script.into())]);
    let ran = desk.run(&["call", "mcp__ant__t", "--yes"]).await;
    assert_eq!(ran.to_string(), "exit 0\n--- stdout\ndone");
    assert_eq!(leftovers::records(&desk), [""; 0]);
}

#[tokio::test]
async fn whole_kills_leave_nothing() {
    for _ in 0..repetitions(10) {
        let run = Run::start(tree().into(), 4).await.called().await;
        run.send(Signal::KILL);
        run.end().await;
    }
}

/// The guardian stands before there is anything to guard: no moment is too early.
#[tokio::test]
async fn whole_kills_in_mid_start_leave_nothing() {
    for round in 0..u64::from(repetitions(20)) {
        let desk = Desk::with([("ant", tree().into())]);
        let mut command = desk.command(&["call", "mcp__ant__t", "--yes"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        tokio::time::sleep(Duration::from_millis(round * 3 % 50)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        assert_no_process_left(desk.sandbox.tag()).await;
    }
}

/// An entry that starts a shell first. `$SERVER` is the scripted server.
fn by_shell(before: &str, script: &Script) -> Entry {
    let line = format!("{before}\nexec \"$SERVER\" \"$SCRIPT\"");
    let env = json!({"SERVER": scripted_server(), "SCRIPT": script.to_json()});
    entry(
        script.clone(),
        json!({"command": "/bin/sh", "args": ["-c", line], "env": env}),
    )
}

/// The processes with this word among their arguments.
fn with_argument(word: &str) -> Vec<i32> {
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

/// Starts a sleeper that knows nothing of where it comes from but a word, and says when it is up.
fn nameless(how: &str, word: &str) -> String {
    format!(
        "env -i {how} /bin/sh -c 'echo >up; while :; do /bin/sleep 1; done' {word} \
         >/dev/null 2>&1 </dev/null &\nwhile ! [ -e up ]; do :; done"
    )
}

#[tokio::test]
async fn a_daemon_that_wiped_its_environment_is_ended_too() {
    for signal in [Signal::INT, Signal::TERM] {
        let word = switchboard_testkit::unique_tag();
        let server = by_shell(&nameless("setsid", &word), &tree());
        let run = Run::start(server, 4).await.called().await;
        assert_eq!(with_argument(&word).len(), 1);
        run.send(signal);
        run.end().await;
        assert_eq!(with_argument(&word), [0; 0]);
    }
}

/// Lives for a hundredth of a second at a time: starts itself anew in another session, and exits.
const HOPPER: &str = r#"#!/bin/sh
sleep 0.01
setsid "$0" >/dev/null 2>&1 </dev/null &
"#;

#[tokio::test]
async fn a_daemon_that_never_stays_the_same_process_is_caught() {
    for signal in [Signal::INT, Signal::KILL] {
        let desk = Desk::empty();
        let hopper = desk.sandbox.write_executable("hopper", HOPPER);
        let hopper = hopper.to_str().unwrap();
        let server = by_shell(hopper, &tree());
        let entries = json!({"mcpServers": {"ant": server.on(&desk.sandbox)}});
        desk.sandbox.write(".mcp.json", entries.to_string());
        let run = Run::on(desk, 4).await.called().await;
        until("the hopper", || !with_argument(hopper).is_empty()).await;
        run.send(signal);
        run.end().await;
        // A single look could miss it between two lives.
        for _ in 0..20 {
            assert_eq!(with_argument(hopper), [0; 0]);
        }
    }
}

/// A shell that becomes this program may have started something before.
#[tokio::test]
async fn what_this_process_had_for_a_child_before_is_left_alone() {
    let word = switchboard_testkit::unique_tag();
    let desk = Desk::with([("ant", tree().into())]);
    let mut command = desk.sandbox.command("/bin/sh");
    let line = format!("{}\nexec \"$@\"", nameless("", &word));
    command.args(["-c", &line, "sh", env!("CARGO_BIN_EXE_switchboard")]);
    command.args(["--trust-project", "call", "mcp__ant__t", "--yes"]);
    let run = Run::by(command, desk, 4).await.called().await;
    let before = with_argument(&word);
    assert_eq!(before.len(), 1);
    run.send(Signal::INT);
    run.end().await;
    assert_eq!(with_argument(&word), before);
    send(before[0], Signal::KILL);
}

#[tokio::test]
async fn a_group_without_any_mark_is_ended_when_the_host_is_killed() {
    let word = switchboard_testkit::unique_tag();
    let server = by_shell(&nameless("", &word), &tree());
    let run = Run::start(server, 4).await.called().await;
    assert_eq!(with_argument(&word).len(), 1);
    run.send(Signal::KILL);
    run.end().await;
    until("the end of the group", || with_argument(&word).is_empty()).await;
}

#[tokio::test]
async fn daemons_stay_where_the_entry_keeps_them() {
    for signal in [Signal::INT, Signal::KILL] {
        let server = entry(tree(), json!({"keepDaemons": true}));
        let run = Run::start(server, 4).await.called().await;
        run.send(signal);
        let mut child = run.child;
        wait(&mut child).await;
        let tag = run.desk.sandbox.tag();
        until("the end of the group", || {
            processes_with_tag(tag).len() <= 2
        })
        .await;
        until("the guardian's end", || {
            state(run.guardian).is_none_or(|state| state == 'Z')
        })
        .await;
        // The next start leaves them alone, too.
        let ran = run.desk.untrusting(&["list"]).output().unwrap();
        assert!(ran.status.success());
        let kept = processes_with_tag(tag);
        assert_eq!(kept.len(), 2, "the daemon and the orphan");
        kill_all(kept);
        assert_no_process_left(tag).await;
    }
}

#[tokio::test]
async fn orphans_that_end_are_taken_leave_of_while_the_host_runs() {
    let short_lived = Step::SpawnChild(Grandchild {
        seconds: 0,
        ..double_forked()
    });
    let script = Script::legacy()
        .tool("t")
        .on_start([short_lived])
        .on("tools/call t", [Step::count("called"), Step::Hang]);
    let run = Run::start(script.into(), 1).await.called().await;
    until("an end without zombies", || {
        let children = children_of(run.child.id());
        children.len() == 2 && children.iter().all(|pid| state(*pid) != Some('Z'))
    })
    .await;
    run.send(Signal::INT);
    run.end().await;
}

#[tokio::test]
async fn a_guardian_holds_nothing_and_heeds_nobody() {
    let run = Run::start(tree().into(), 4).await.called().await;
    let of = |what: &str| format!("/proc/{}/{what}", run.guardian);
    // What it does last of all, before it begins to wait.
    let name = || fs::read_to_string(of("comm")).unwrap();
    until("its name", || name() == "mcp-guardian\n").await;
    assert_eq!(fs::read(of("environ")).unwrap(), b"");
    assert_eq!(fs::read(of("cmdline")).unwrap(), b"__guardian\0");
    assert_eq!(fs::read_link(of("cwd")).unwrap().to_str(), Some("/"));
    assert_eq!(fs::read_dir(of("fd")).unwrap().count(), 3);
    let stat = fs::read_to_string(of("stat")).unwrap();
    let session = stat.rsplit(") ").next().unwrap().split(' ').nth(3);
    assert_eq!(session, Some(&*run.guardian.to_string()));
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        send(run.guardian, signal);
    }
    run.send(Signal::KILL);
    run.end().await;
}

#[tokio::test]
async fn a_guardian_that_was_killed_does_not_stop_its_host() {
    let run = Run::start(tree().into(), 4).await.called().await;
    send(run.guardian, Signal::KILL);
    run.send(Signal::INT);
    run.end().await;
}

/// A server that is a host itself: this program, waiting for a call of its own.
#[tokio::test]
async fn a_host_within_a_host_goes_with_all_that_is_its_own() {
    for signal in [Signal::INT, Signal::KILL] {
        let desk = Desk::empty();
        let tag = desk.sandbox.tag().to_owned();
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
        desk.sandbox.write(".mcp.json", outer.to_string());
        let run = Run::on(desk, 5).await.called().await;
        run.send(signal);
        run.end().await;
    }
}
