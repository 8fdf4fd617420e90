//! `list --watch`: what is shown when servers and files change, until Ctrl-C.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use switchboard_testkit::{assert_no_process_left, processes_with_tag};

use crate::support::{Desk, Entry, entry, polite};

/// Somebody who watches, and the lines that they see.
pub(crate) struct Watching {
    child: Child,
    lines: Receiver<String>,
}

impl Watching {
    pub(crate) fn start(desk: &Desk, args: &[&str]) -> Self {
        let mut command = desk.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = read(child.stdout.take().unwrap());
        Self { child, lines }
    }

    pub(crate) fn next(&self) -> String {
        self.lines.recv_timeout(Duration::from_secs(20)).unwrap()
    }

    /// The next state in which something is so, as data.
    fn until(&self, is_so: impl Fn(&Value) -> bool) -> Value {
        loop {
            let state = serde_json::from_str(&self.next()).unwrap();
            if is_so(&state) {
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

type Maker = fn() -> Entry;

fn write(desk: &Desk, servers: &[(&str, Maker)]) {
    let servers: serde_json::Map<_, _> = servers
        .iter()
        .map(|(name, entry)| ((*name).to_owned(), entry().on(&desk.sandbox)))
        .collect();
    let text = json!({"mcpServers": servers}).to_string();
    let draft = desk.sandbox.write("draft.json", text);
    std::fs::rename(draft, desk.sandbox.project().join(".mcp.json")).unwrap();
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
async fn servers_come_and_go_with_the_file_and_others_keep_their_process() {
    let one = || polite().into();
    let two = || entry(polite(), json!({"env": {"VERSION": "2"}}));
    let desk = Desk::empty();
    write(&desk, &[("a", one)]);
    let watching = Watching::start(&desk, &["list", "--watch", "--json"]);
    watching.until(|state| states(state) == [("a", "connected")]);
    let pids = processes_with_tag(desk.sandbox.tag());

    write(&desk, &[("b", two), ("a", one)]);
    watching.until(|state| states(state) == [("b", "connected"), ("a", "connected")]);
    let more = processes_with_tag(desk.sandbox.tag());
    assert!(
        pids.iter().all(|pid| more.contains(pid)),
        "{pids:?} {more:?}"
    );

    desk.sandbox.write(".mcp.json", "{\"mcpServers\": {");
    let broken = watching.until(|state| state["diagnostics"] != json!([]));
    assert_eq!(states(&broken), [("b", "connected"), ("a", "connected")]);
    let hint = broken["diagnostics"][0]["hint"].as_str().unwrap();
    assert!(
        hint.ends_with("until it is mended, what it said before holds"),
        "{hint}"
    );

    write(&desk, &[("b", two)]);
    watching
        .until(|state| states(state) == [("b", "connected")] && state["diagnostics"] == json!([]));
    let (code, rest) = watching.interrupt(Signal::INT);
    assert_eq!((code, rest), (0, Vec::new()));
    assert_no_process_left(desk.sandbox.tag()).await;
}

#[tokio::test]
async fn a_project_that_comes_into_being_is_found_and_a_crash_is_shown() {
    let desk = Desk::empty();
    let watching = Watching::start(&desk, &["list", "--watch"]);
    assert_eq!(watching.next(), "No servers are configured.");
    write(&desk, &[("late", || polite().into())]);
    while !watching.next().contains("✓ connected  late") {}
    let ours = i32::try_from(watching.child.id()).unwrap();
    for pid in processes_with_tag(desk.sandbox.tag()) {
        if pid != ours {
            kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        }
    }
    while !watching.next().contains("killed by signal 9") {}
    while !watching.next().contains("✓ connected  late") {}
    assert_eq!(watching.interrupt(Signal::TERM).0, 0);
    assert_no_process_left(desk.sandbox.tag()).await;
}

#[tokio::test]
async fn whoever_stops_reading_ends_it() {
    let desk = Desk::with([("a", polite().into())]);
    let mut command = desk.command(&["list", "--watch"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let stdout = child.stdout.take().unwrap();
    let mut lines = BufReader::new(stdout).lines();
    assert!(lines.next().unwrap().unwrap().contains("STATUS"));
    drop(lines);
    write(&desk, &[]);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_no_process_left(desk.sandbox.tag()).await;
}

#[tokio::test]
async fn what_there_is_is_shown_at_once_however_long_a_server_takes() {
    let mute = json!({"command": "sleep", "args": ["60"]});
    let desk = Desk::with([("good", polite().into()), ("mute", mute.into())]);
    let watching = Watching::start(&desk, &["list", "--watch", "--json"]);
    let first: Value = serde_json::from_str(&watching.next()).unwrap();
    assert_eq!(states(&first)[1], ("mute", "pending"));
    watching.until(|state| states(state) == [("good", "connected"), ("mute", "pending")]);
    assert_eq!(watching.interrupt(Signal::INT).0, 0);
    assert_no_process_left(desk.sandbox.tag()).await;
}

#[tokio::test]
async fn it_has_no_status_to_exit_with() {
    let desk = Desk::empty();
    assert_eq!(
        desk.run(&["list", "--watch", "--exit-status"]).await.code,
        2
    );
}
