//! A scripted replacement for the Claude CLI, for behaviour that a test cannot provoke in the real
//! CLI.
//!
//! [`FakeClaude`] is a list of [`FakeStep`]s, which the binary `fake-claude` runs in order. Control
//! requests of the host that no step waits for get default responses. After the last step, the fake
//! CLI also responds to each user message with a turn of one text, until stdin ends.
//!
//! Invariant: the fake CLI waits at most one minute for each message, also after the last step.
//! After that it writes an error to stderr and exits with code 70. Only waits for the end of stdin
//! are unlimited.

mod frames;
pub mod player;
mod stdin_reader;

use std::env::consts::EXE_SUFFIX;
use std::path::PathBuf;
use std::process::Command;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::scripted_child::find_program;

/// The environment variable that contains the script as JSON.
pub const FAKE_CLAUDE_VARIABLE: &str = "SWITCHBOARD_FAKE_CLAUDE";

/// The text of the turns that the fake CLI sends by default.
pub const FAKE_CLAUDE_TEXT: &str = "Hello from the fake CLI.";

/// One action of the fake CLI.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum FakeStep {
    /// Waits for a control request of this subtype. The next `Respond…` step responds to this
    /// request.
    AwaitRequest(String),
    /// Waits for a user message.
    AwaitUser,
    /// Waits for the end of stdin. Messages that arrive before it are discarded.
    AwaitEof,

    /// Responds to the request of the last `AwaitRequest` with this payload.
    Respond(Value),
    /// Responds to the request of the last `AwaitRequest` with success and no payload.
    RespondEmpty,
    /// Responds to the request of the last `AwaitRequest` with this error.
    RespondError(String),
    /// Responds to the request of the last `AwaitRequest` like a well-behaved CLI.
    RespondDefault,

    /// Writes a message to the host.
    Send(Value),
    /// Writes a line verbatim to the host.
    Raw(String),
    /// Writes text without a line feed to the host.
    Bytes(String),
    /// Writes the same message many times.
    Flood {
        /// The message.
        message: Value,
        /// Number of repetitions.
        times: u64,
    },
    /// Writes a message of an unknown type whose line is this many bytes long.
    LongLine(usize),
    /// Writes a line to stderr.
    Stderr(String),
    /// Writes the messages at the start of a turn: the session state and `system/init`.
    BeginTurn,
    /// Writes the messages at the end of a turn: the result with this text, and the session state.
    EndTurn(String),
    /// Writes a complete turn with this text.
    Turn(String),

    /// Sends a control request to the host and waits for the response.
    Request(Value),
    /// Sends a control request to the host without waiting for the response.
    StartRequest(Value),
    /// Cancels the control request that the fake CLI sent last.
    CancelRequest,
    /// Waits for the response to the control request that the fake CLI sent last.
    AwaitResponse,
    /// Calls a tool of an in-process server `count` times concurrently, with `{"number": n}`, and
    /// waits for all responses. [`FakeStep::ReportResponse`] then reports how many arrived, and how
    /// many had the right id and number.
    ConcurrentCalls {
        /// The name of the in-process server.
        server: String,
        /// The name of the tool.
        tool: String,
        /// Number of calls.
        count: u64,
    },
    /// Writes the messages at the end of a turn. The text of the result is the last response that a
    /// step waited for, as JSON.
    ReportResponse,

    /// Exits with this code.
    Exit(i32),
    /// Kills the fake CLI with this signal.
    KillSelf(i32),
    /// Stops writing, waits until stdin ends, then exits with code 0.
    Silence,
    /// Stops writing and waits to be killed, at most five minutes. From now on, SIGTERM and the end
    /// of stdin are ignored.
    IgnoreShutdown,
}

/// The script of a fake CLI.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FakeClaude {
    /// The steps, in order.
    #[serde(default)]
    pub steps: Vec<FakeStep>,
    /// The file to which the fake CLI writes its arguments, its working directory, the environment
    /// variables that concern Claude, and every line from stdin. `None`: no file.
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

    /// A fake CLI that responds to `initialize`, waits for a user message, starts a turn, runs
    /// these steps and then sends default responses.
    pub fn during_turn(steps: impl IntoIterator<Item = FakeStep>) -> Self {
        let first = [
            FakeStep::await_request("initialize"),
            FakeStep::RespondDefault,
            FakeStep::AwaitUser,
            FakeStep::BeginTurn,
        ];
        Self::new(first.into_iter().chain(steps))
    }

    /// Sets the record file; see [`FakeClaude::record`](field@Self::record).
    /// [`read_record`](crate::read_record) reads the file.
    pub fn record(mut self, path: impl Into<PathBuf>) -> Self {
        self.record = Some(path.into());
        self
    }

    /// The command that runs this fake CLI, for a test that talks to the CLI directly.
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
