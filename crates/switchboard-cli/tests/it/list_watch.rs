//! `list --watch`: prints status changes and follows config changes.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use switchboard_testkit::{assert_no_process_left, processes_with_tag};

use crate::support::{Entry, TestCli, echo_server, entry};

/// A running `list --watch` or `watch`, and the lines of its stdout.
pub(crate) struct Watching {
    child: Child,
    lines: Receiver<String>,
}

impl Watching {
    pub(crate) fn start(cli: &TestCli, args: &[&str]) -> Self {
        let mut command = cli.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = read(child.stdout.take().unwrap());
        Self { child, lines }
    }

    pub(crate) fn next(&self) -> String {
        self.lines.recv_timeout(Duration::from_secs(20)).unwrap()
    }

    /// Returns the next JSON line that fulfils the condition.
    fn wait_until(&self, condition: impl Fn(&Value) -> bool) -> Value {
        loop {
            let state = serde_json::from_str(&self.next()).unwrap();
            if condition(&state) {
                return state;
            }
        }
    }

    pub(crate) fn interrupt(mut self, signal: Signal) -> (i32, Vec<String>) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        (code, self.lines.iter().collect())
    }
}

fn read(stdout: ChildStdout) -> Receiver<String> {
    let (sender, lines) = sync_channel(1_000);
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines() {
            sender.send(line.unwrap()).unwrap();
        }
    });
    lines
}

type MakeEntry = fn() -> Entry;

/// Replaces the config file atomically.
fn write(cli: &TestCli, servers: &[(&str, MakeEntry)]) {
    let servers: serde_json::Map<_, _> = servers
        .iter()
        .map(|(name, entry)| ((*name).to_owned(), entry().into_json(&cli.sandbox)))
        .collect();
    let text = json!({"mcpServers": servers}).to_string();
    let draft = cli.sandbox.write("draft.json", text);
    std::fs::rename(draft, cli.sandbox.project().join(".mcp.json")).unwrap();
}

fn states(state: &Value) -> Vec<(&str, &str)> {
    let servers = state["servers"].as_array().unwrap().iter();
    servers
        .map(|server| {
            let text = |key: &str| server[key].as_str().unwrap();
            (text("name"), text("status"))
        })
        .collect()
}

#[tokio::test]
async fn unchanged_servers_keep_their_process() {
    let one = || echo_server().into();
    let two = || entry(echo_server(), json!({"env": {"VERSION": "2"}}));
    let cli = TestCli::empty();
    write(&cli, &[("a", one)]);
    let watching = Watching::start(&cli, &["list", "--watch", "--json"]);
    watching.wait_until(|state| states(state) == [("a", "connected")]);
    let pids = processes_with_tag(cli.sandbox.tag());

    write(&cli, &[("b", two), ("a", one)]);
    watching.wait_until(|state| states(state) == [("b", "connected"), ("a", "connected")]);
    let more = processes_with_tag(cli.sandbox.tag());
    assert!(
        pids.iter().all(|pid| more.contains(pid)),
        "{pids:?} {more:?}"
    );

    cli.sandbox.write(".mcp.json", "{\"mcpServers\": {");
    let broken = watching.wait_until(|state| state["diagnostics"] != json!([]));
    assert_eq!(states(&broken), [("b", "connected"), ("a", "connected")]);
    let hint = broken["diagnostics"][0]["hint"].as_str().unwrap();
    assert!(
        hint.ends_with("the previous version stays in use until the file is fixed"),
        "{hint}"
    );

    write(&cli, &[("b", two)]);
    watching.wait_until(|state| {
        states(state) == [("b", "connected")] && state["diagnostics"] == json!([])
    });
    let (code, rest) = watching.interrupt(Signal::INT);
    assert_eq!((code, rest), (0, Vec::new()));
    assert_no_process_left(cli.sandbox.tag()).await;
}

#[tokio::test]
async fn new_config_and_crash_are_shown() {
    let cli = TestCli::empty();
    let watching = Watching::start(&cli, &["list", "--watch"]);
    assert_eq!(watching.next(), "No servers configured.");
    write(&cli, &[("late", || echo_server().into())]);
    while !watching.next().contains("✓ connected  late") {}
    let ours = i32::try_from(watching.child.id()).unwrap();
    for pid in processes_with_tag(cli.sandbox.tag()) {
        if pid != ours {
            kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        }
    }
    while !watching.next().contains("killed by signal 9") {}
    while !watching.next().contains("✓ connected  late") {}
    assert_eq!(watching.interrupt(Signal::TERM).0, 0);
    assert_no_process_left(cli.sandbox.tag()).await;
}

#[tokio::test]
async fn closed_stdout_ends_command() {
    let cli = TestCli::with_servers([("a", echo_server().into())]);
    let mut command = cli.command(&["list", "--watch"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let stdout = child.stdout.take().unwrap();
    let mut lines = BufReader::new(stdout).lines();
    assert!(lines.next().unwrap().unwrap().contains("STATUS"));
    drop(lines);
    write(&cli, &[]);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_no_process_left(cli.sandbox.tag()).await;
}

#[tokio::test]
async fn slow_server_does_not_delay_output() {
    let mute = json!({"command": "sleep", "args": ["60"]});
    let cli = TestCli::with_servers([("good", echo_server().into()), ("mute", mute.into())]);
    let watching = Watching::start(&cli, &["list", "--watch", "--json"]);
    let first: Value = serde_json::from_str(&watching.next()).unwrap();
    assert_eq!(states(&first)[1], ("mute", "pending"));
    watching.wait_until(|state| states(state) == [("good", "connected"), ("mute", "pending")]);
    assert_eq!(watching.interrupt(Signal::INT).0, 0);
    assert_no_process_left(cli.sandbox.tag()).await;
}

#[tokio::test]
async fn exit_status_is_rejected() {
    let cli = TestCli::empty();
    assert_eq!(cli.run(&["list", "--watch", "--exit-status"]).await.code, 2);
}
