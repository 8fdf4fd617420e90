//! Runs the `switchboard` binary in a sandbox with configured servers.

use std::fmt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use switchboard_testkit::{
    Sandbox, Script, TAG_VARIABLE, Terminal, assert_no_process_left, scripted_server,
};

/// A test fails if a command runs longer than this.
const RUN_TIMEOUT: Duration = Duration::from_secs(25);

/// A sandbox with a home and a project directory, in which tests run the `switchboard` binary.
pub(crate) struct TestCli {
    pub(crate) sandbox: Sandbox,
}

impl TestCli {
    /// Creates a project with these servers in its `.mcp.json`.
    pub(crate) fn with_servers<const N: usize>(servers: [(&str, Entry); N]) -> Self {
        let cli = Self::empty();
        let entries: Map<String, Value> = servers
            .into_iter()
            .map(|(name, entry)| (name.to_owned(), entry.into_json(&cli.sandbox)))
            .collect();
        cli.sandbox
            .write(".mcp.json", json!({"mcpServers": entries}).to_string());
        cli
    }

    pub(crate) fn empty() -> Self {
        let sandbox = Sandbox::new();
        Self { sandbox }
    }

    /// Prepares `switchboard --trust-project …`.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.command_without_trust(args);
        command.arg("--trust-project");
        command
    }

    /// Starts `switchboard --trust-project …` on a pseudo-terminal.
    pub(crate) fn start_in_terminal(&self, args: &[&str]) -> Terminal {
        Terminal::start(&mut self.terminal_command(args))
    }

    /// Prepares `switchboard --trust-project …` for a pseudo-terminal.
    pub(crate) fn terminal_command(&self, args: &[&str]) -> Command {
        let mut command = self.sandbox.command("setsid");
        command
            .arg("--ctty")
            .arg(env!("CARGO_BIN_EXE_switchboard"))
            .args(args)
            .arg("--trust-project")
            .envs([("TERM", "xterm"), ("NO_COLOR", "1")]);
        command
    }

    /// Replaces what differs between runs in the text of a terminal, as in [`CliOutput`].
    pub(crate) fn filter_screen(&self, text: &str) -> String {
        self.filter(text)
    }

    pub(crate) fn command_without_trust(&self, args: &[&str]) -> Command {
        let mut command = self.sandbox.command(env!("CARGO_BIN_EXE_switchboard"));
        command.args(args).stdin(Stdio::null());
        command
    }

    /// Runs `switchboard --trust-project …`.
    pub(crate) async fn run(&self, args: &[&str]) -> CliOutput {
        self.run_command(self.command(args)).await
    }

    /// Runs a command, and asserts that it ends in time and leaves no process.
    pub(crate) async fn run_command(&self, mut command: Command) -> CliOutput {
        let began = Instant::now();
        let output = command.output().unwrap();
        assert!(began.elapsed() < RUN_TIMEOUT, "took {:?}", began.elapsed());
        assert_no_process_left(self.sandbox.tag()).await;
        self.to_output(&output)
    }

    pub(crate) fn to_output(&self, output: &Output) -> CliOutput {
        let text = |bytes: &[u8]| self.filter(&String::from_utf8_lossy(bytes));
        CliOutput {
            code: output.status.code().unwrap_or(-1),
            raw: String::from_utf8_lossy(&output.stdout).into_owned(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    /// Replaces what differs between runs: directories, times and the spaces between columns.
    fn filter(&self, text: &str) -> String {
        let root = self.sandbox.root().to_string_lossy().into_owned();
        let text = text
            .replace(&*scripted_server().to_string_lossy(), "[server]")
            .replace(&root, "[sandbox]");
        text.lines().map(filter_line).collect::<Vec<_>>().join("\n")
    }
}

/// Keeps the indent, shortens the spaces between columns to two, and replaces times.
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

/// Replaces `12 ms` and `1.2 s` by `[time]`.
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

/// Exit code and filtered output of a command.
pub(crate) struct CliOutput {
    pub(crate) code: i32,
    /// Unfiltered stdout.
    raw: String,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CliOutput {
    /// Parses stdout as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.raw).unwrap_or_else(|error| panic!("{error}:\n{self}"))
    }
}

impl fmt::Display for CliOutput {
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

/// Config entry of a server.
pub(crate) enum Entry {
    /// A scripted server, and keys that are merged into the config entry of the server.
    Scripted(Box<Script>, Value),
    Raw(Value),
}

impl Entry {
    /// Returns the entry for a config file.
    pub(crate) fn into_json(self, sandbox: &Sandbox) -> Value {
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

/// Builds the entry of a scripted server with additional keys.
pub(crate) fn entry(script: Script, more: Value) -> Entry {
    Entry::Scripted(Box::new(script), more)
}

/// A well-behaved server with the tools `echo` and `add`.
pub(crate) fn echo_server() -> Script {
    Script::legacy().tool("echo").tool("add")
}

/// Polls until the condition is true, for at most ten seconds.
pub(crate) async fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "waited for {what}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
