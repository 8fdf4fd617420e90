//! A scripted replacement for the Claude CLI, for behaviour that a test cannot provoke in the real
//! CLI.
//!
//! [`FakeClaude`] is a list of [`FakeStep`]s, which the binary `fake-claude` runs in order.
//! Requests that no step waits for, and all messages after the last step, get default responses:
//! the fake CLI accepts requests of the host and responds to each user message with a turn of one
//! text, until stdin ends.
//!
//! Invariant: a step waits at most one minute. After that the program writes an error to stderr and
//! exits with 70. Only the wait for the end of stdin is unlimited.

mod frames;
pub mod player;
mod stdin_reader;

use std::env::consts::EXE_SUFFIX;
use std::path::PathBuf;
use std::process::Command;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::scripted_child::find_program;

/// The environment variable with the script.
pub const FAKE_CLAUDE_VARIABLE: &str = "SWITCHBOARD_FAKE_CLAUDE";

/// The text of a default turn.
pub const FAKE_CLAUDE_TEXT: &str = "Hello from the fake CLI.";

/// One action of the fake CLI.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum FakeStep {
    /// Waits for a control request of this subtype. The next `Respond…` step responds to it.
    AwaitRequest(String),
    /// Waits for a user message.
    AwaitUser,
    /// Waits for the end of stdin.
    AwaitEof,

    /// Responds to the awaited request with this payload.
    Respond(Value),
    /// Responds to the awaited request without a payload.
    RespondEmpty,
    /// Responds to the awaited request with an error.
    RespondError(String),
    /// Responds to the awaited request like a well-behaved CLI.
    RespondDefault,

    /// Writes a message.
    Send(Value),
    /// Writes a line verbatim.
    Raw(String),
    /// Writes text without a line feed.
    Bytes(String),
    /// Writes a message repeatedly.
    Flood {
        /// The message.
        message: Value,
        /// Number of repetitions.
        times: u64,
    },
    /// Writes a message of an unknown type whose line has this many bytes.
    LongLine(usize),
    /// Writes a line to stderr.
    Stderr(String),
    /// Writes the messages at the start of a turn: the state and `system/init`.
    BeginTurn,
    /// Writes the messages at the end of a turn: the result with this text, and the state.
    EndTurn(String),
    /// Writes a complete turn with this text.
    Turn(String),

    /// Sends a control request to the host and waits for the response.
    Request(Value),
    /// Sends a control request to the host without waiting.
    StartRequest(Value),
    /// Cancels the last control request.
    CancelRequest,
    /// Waits for the response to the last control request.
    AwaitResponse,
    /// Calls a tool of an in-process server `count` times concurrently, with `{"number": n}`, and
    /// waits for all responses. [`FakeStep::ReportResponse`] then reports how many arrived, and how
    /// many had the right id and number.
    ConcurrentCalls {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// Number of calls.
        count: u64,
    },
    /// Ends a turn with the last response as its text, in JSON.
    ReportResponse,

    /// Exits with this code.
    Exit(i32),
    /// Kills itself with this signal.
    KillSelf(i32),
    /// Stops writing, waits until stdin ends, then exits.
    Silence,
    /// Stops writing, and ignores SIGTERM and the end of stdin from now on.
    IgnoreShutdown,
}

/// A fake CLI as data.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FakeClaude {
    /// The steps, in order.
    #[serde(default)]
    pub steps: Vec<FakeStep>,
    /// The file that receives the command line, environment and every line from stdin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<PathBuf>,
}

impl FakeClaude {
    /// A fake CLI that only sends default responses.
    pub fn well_behaved() -> Self {
        Self::default()
    }

    /// A fake CLI that runs these steps, then sends default responses.
    pub fn new(steps: impl IntoIterator<Item = FakeStep>) -> Self {
        Self {
            steps: steps.into_iter().collect(),
            record: None,
        }
    }

    /// A fake CLI that responds to `initialize`, waits for a user message, starts a turn and runs
    /// these steps.
    pub fn during_turn(steps: impl IntoIterator<Item = FakeStep>) -> Self {
        let first = [
            FakeStep::await_request("initialize"),
            FakeStep::RespondDefault,
            FakeStep::AwaitUser,
            FakeStep::BeginTurn,
        ];
        Self::new(first.into_iter().chain(steps))
    }

    /// Writes the command line, environment and every line from stdin to this file; see
    /// [`read_record`](crate::read_record).
    pub fn record(mut self, path: impl Into<PathBuf>) -> Self {
        self.record = Some(path.into());
        self
    }

    /// The command that runs this script, for a test that talks to it directly.
    #[expect(
        clippy::disallowed_methods,
        reason = "the test decides how the child is spawned"
    )]
    pub fn command(&self) -> Command {
        let mut command = Command::new(program());
        command.env(FAKE_CLAUDE_VARIABLE, self.to_json());
        command
    }

    /// The script as JSON, the value of [`FAKE_CLAUDE_VARIABLE`].
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a script is valid JSON")
    }
}

impl FakeStep {
    /// Waits for a control request of this subtype.
    pub fn await_request(subtype: &str) -> Self {
        Self::AwaitRequest(subtype.to_owned())
    }

    /// Writes a line to stderr.
    pub fn stderr(line: &str) -> Self {
        Self::Stderr(line.to_owned())
    }

    /// Writes a line verbatim.
    pub fn raw(line: &str) -> Self {
        Self::Raw(line.to_owned())
    }
}

/// The path of the binary `fake-claude`; see [`scripted_server`](crate::scripted_server).
pub fn program() -> PathBuf {
    find_program(&format!("fake-claude{EXE_SUFFIX}"))
}
