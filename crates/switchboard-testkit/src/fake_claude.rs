//! A stand-in for the Claude CLI, scripted as data: for what the real one cannot be made to do.
//!
//! [`FakeClaude`] is a list of [`FakeStep`]s, which the binary `fake-claude` plays one after the other. What
//! it is asked meanwhile, and everything after the last act, it answers as a polite CLI does: it agrees
//! to what hosts ask, and has a turn of one text for every user message, until its stdin ends.
//!
//! Invariant: what an act waits for is waited for no longer than a minute; who waits in vain says so on
//! stderr and exits with the code 70. Only the end of stdin may take as long as it does.

mod frames;
pub mod player;
mod stdin_reader;

use std::env::consts::EXE_SUFFIX;
use std::path::PathBuf;
use std::process::Command;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::scripted_child::find_program;

/// The environment variable that holds the script.
pub const FAKE_CLAUDE_VARIABLE: &str = "SWITCHBOARD_FAKE_CLAUDE";

/// What a polite stand-in says in its turn.
pub const FAKE_CLAUDE_TEXT: &str = "Hello from the stand-in.";

/// One thing that a stand-in does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum FakeStep {
    /// Waits for a control request of this subtype, which is then the one to be answered.
    AwaitRequest(String),
    /// Waits for a message of the user.
    AwaitUser,
    /// Waits until stdin has ended.
    AwaitEof,

    /// Answers the awaited request with this payload.
    Answer(Value),
    /// Answers the awaited request without a payload.
    AnswerEmpty,
    /// Answers the awaited request with an error.
    AnswerError(String),
    /// Answers the awaited request as a polite CLI does.
    AnswerDefault,

    /// Writes a message.
    Send(Value),
    /// Writes a line as it stands.
    Raw(String),
    /// Writes text without a line feed.
    Bytes(String),
    /// Writes one message so many times.
    Flood {
        /// The message.
        message: Value,
        /// How often.
        times: u64,
    },
    /// Writes a message of an unknown type whose line has this many bytes.
    LongLine(usize),
    /// Writes a line to stderr.
    Stderr(String),
    /// What comes before the answer in a turn: the state, and `system/init`.
    BeginTurn,
    /// What ends a turn: the result with this text, and the state.
    EndTurn(String),
    /// A whole turn with this text.
    Turn(String),

    /// Asks the host, and waits for its answer.
    Request(Value),
    /// Asks the host, and goes on.
    StartRequest(Value),
    /// Takes back what was asked last.
    CancelRequest,
    /// Waits for the answer to what was asked last.
    AwaitResponse,
    /// Calls a tool of an in-process server so many times at once, with `{"number": n}`, and waits for
    /// all answers. A report then says how many came, and how many carried their own id and number.
    ConcurrentCalls {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// How often.
        count: u64,
    },
    /// Ends a turn with the last answer as its text, in JSON.
    ReportResponse,

    /// Ends with this code.
    Exit(i32),
    /// Ends by this signal.
    KillSelf(i32),
    /// Says nothing any more until stdin ends.
    Silence,
    /// Ignores the end of stdin and SIGTERM from now on, and says nothing any more.
    IgnoreShutdown,
}

/// A stand-in as data.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FakeClaude {
    /// What it does, in order.
    #[serde(default)]
    pub acts: Vec<FakeStep>,
    /// Where it writes how it was started, and every line that it reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<PathBuf>,
}

impl FakeClaude {
    /// One that is polite all the time.
    pub fn well_behaved() -> Self {
        Self::default()
    }

    /// One that does this, and is polite otherwise.
    pub fn new(acts: impl IntoIterator<Item = FakeStep>) -> Self {
        Self {
            acts: acts.into_iter().collect(),
            record: None,
        }
    }

    /// One that complies with `initialize`, waits for a message of the user, and does this.
    pub fn during_turn(acts: impl IntoIterator<Item = FakeStep>) -> Self {
        let first = [
            FakeStep::await_request("initialize"),
            FakeStep::AnswerDefault,
            FakeStep::AwaitUser,
            FakeStep::BeginTurn,
        ];
        Self::new(first.into_iter().chain(acts))
    }

    /// Writes how it was started, and every line that it reads, to this file; see
    /// [`read_record`](crate::read_record).
    pub fn record(mut self, path: impl Into<PathBuf>) -> Self {
        self.record = Some(path.into());
        self
    }

    /// The command that plays this script, for a test that speaks to it by hand.
    #[expect(
        clippy::disallowed_methods,
        reason = "the test decides how the child is spawned"
    )]
    pub fn command(&self) -> Command {
        let mut command = Command::new(program());
        command.env(FAKE_CLAUDE_VARIABLE, self.to_json());
        command
    }

    /// The script as it is handed on, in [`FAKE_CLAUDE_VARIABLE`].
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a script is plain data")
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

    /// Writes a line as it stands.
    pub fn raw(line: &str) -> Self {
        Self::Raw(line.to_owned())
    }
}

/// Where the binary `fake-claude` is; see [`scripted_server`](crate::scripted_server).
pub fn program() -> PathBuf {
    find_program(&format!("fake-claude{EXE_SUFFIX}"))
}
