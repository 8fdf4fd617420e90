//! A sandbox with configured servers, and the program run in it.

use std::fmt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use switchboard_testkit::{
    Sandbox, Script, TAG_VARIABLE, Terminal, assert_no_process_left, scripted_server,
};

/// Everything here ends long before this; what does not has hung.
const BOUND: Duration = Duration::from_secs(25);

/// A project with servers, and somebody at the command line.
pub(crate) struct Desk {
    pub(crate) sandbox: Sandbox,
}

impl Desk {
    /// A project with these servers in its `.mcp.json`.
    pub(crate) fn with<const N: usize>(servers: [(&str, Entry); N]) -> Self {
        let desk = Self::empty();
        let entries: Map<String, Value> = servers
            .into_iter()
            .map(|(name, entry)| (name.to_owned(), entry.on(&desk.sandbox)))
            .collect();
        desk.sandbox
            .write(".mcp.json", json!({"mcpServers": entries}).to_string());
        desk
    }

    pub(crate) fn empty() -> Self {
        let sandbox = Sandbox::new();
        Self { sandbox }
    }

    /// `switchboard --trust-project …`, ready to be run.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.untrusting(args);
        command.arg("--trust-project");
        command
    }

    /// `switchboard --trust-project …`, with a person at the terminal.
    pub(crate) fn at_terminal(&self, args: &[&str]) -> Terminal {
        Terminal::start(&mut self.for_terminal(args))
    }

    /// `switchboard --trust-project …`, for a terminal.
    pub(crate) fn for_terminal(&self, args: &[&str]) -> Command {
        let mut command = self.sandbox.command("setsid");
        command
            .arg("--ctty")
            .arg(env!("CARGO_BIN_EXE_switchboard"))
            .args(args)
            .arg("--trust-project")
            .envs([("TERM", "xterm"), ("NO_COLOR", "1")]);
        command
    }

    /// Takes out what differs from run to run, of what was on a terminal's screen.
    pub(crate) fn on_screen(&self, text: &str) -> String {
        self.filter(text)
    }

    pub(crate) fn untrusting(&self, args: &[&str]) -> Command {
        let mut command = self.sandbox.command(env!("CARGO_BIN_EXE_switchboard"));
        command.args(args).stdin(Stdio::null());
        command
    }

    /// Runs `switchboard --trust-project …`.
    pub(crate) async fn run(&self, args: &[&str]) -> Ran {
        self.finish(self.command(args)).await
    }

    /// Runs a command to its end, which comes soon and leaves no process.
    pub(crate) async fn finish(&self, mut command: Command) -> Ran {
        let began = Instant::now();
        let output = command.output().unwrap();
        assert!(began.elapsed() < BOUND, "it took {:?}", began.elapsed());
        assert_no_process_left(self.sandbox.tag()).await;
        self.ran(&output)
    }

    pub(crate) fn ran(&self, output: &Output) -> Ran {
        let text = |bytes: &[u8]| self.filter(&String::from_utf8_lossy(bytes));
        Ran {
            code: output.status.code().unwrap_or(-1),
            raw: String::from_utf8_lossy(&output.stdout).into_owned(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    /// Takes out what differs from run to run: folders, times, and the width of columns.
    fn filter(&self, text: &str) -> String {
        let root = self.sandbox.root().to_string_lossy().into_owned();
        let text = text
            .replace(&*scripted_server().to_string_lossy(), "[server]")
            .replace(&root, "[sandbox]");
        text.lines().map(filter_line).collect::<Vec<_>>().join("\n")
    }
}

/// Indentation stays; runs of blanks after it become two.
fn filter_line(line: &str) -> String {
    let body = line.trim_start();
    let indent = &line[..line.len() - body.len()];
    let fields = body
        .split("  ")
        .map(str::trim)
        .filter(|field| !field.is_empty());
    let fields: Vec<_> = fields.map(filter_time).collect();
    format!("{indent}{}", fields.join("  "))
}

/// `12 ms` and `1.2 s` become `[time]`.
fn filter_time(field: &str) -> String {
    let words: Vec<_> = field.split(' ').collect();
    let is_unit = |at: usize| matches!(words.get(at), Some(&("ms" | "s")));
    let is_number = |at: usize| {
        words
            .get(at)
            .is_some_and(|word| word.parse::<f64>().is_ok())
    };
    let filtered = words.iter().enumerate().filter_map(|(at, word)| match at {
        at if is_number(at) && is_unit(at + 1) => Some("[time]"),
        at if at > 0 && is_unit(at) && is_number(at - 1) => None,
        _ => Some(*word),
    });
    filtered.collect::<Vec<_>>().join(" ")
}

/// What a run left on the screen.
pub(crate) struct Ran {
    pub(crate) code: i32,
    /// What was printed, unfiltered.
    raw: String,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// What was printed, as data.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.raw).unwrap_or_else(|error| panic!("{error}:\n{self}"))
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit {}", self.code)?;
        for (label, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                write!(f, "\n--- {label}\n{text}")?;
            }
        }
        Ok(())
    }
}

/// A server's entry.
pub(crate) enum Entry {
    Scripted(Box<Script>, Value),
    Raw(Value),
}

impl Entry {
    /// As it stands in a config file.
    pub(crate) fn on(self, sandbox: &Sandbox) -> Value {
        let (script, more) = match self {
            Self::Raw(entry) => return entry,
            Self::Scripted(script, more) => (script, more),
        };
        let mut entry = json!({
            "command": scripted_server(),
            "args": [script.to_json()],
            "env": {TAG_VARIABLE: sandbox.tag()},
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            match (&mut entry[key], value) {
                (Value::Object(old), Value::Object(new)) => old.extend(new.clone()),
                (old, new) => *old = new.clone(),
            }
        }
        entry
    }
}

impl From<Script> for Entry {
    fn from(script: Script) -> Self {
        Self::Scripted(Box::new(script), json!({}))
    }
}

impl From<Value> for Entry {
    fn from(entry: Value) -> Self {
        Self::Raw(entry)
    }
}

/// A scripted server with more in its entry.
pub(crate) fn entry(script: Script, more: Value) -> Entry {
    Entry::Scripted(Box::new(script), more)
}

/// A polite server with the tools `echo` and `add`.
pub(crate) fn polite() -> Script {
    Script::legacy().tool("echo").tool("add")
}

/// Looks again and again until something is so, for ten seconds at most.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "waited for {what}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
