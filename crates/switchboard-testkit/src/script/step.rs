//! One thing that a scripted server does.
//!
//! In JSON a step is an object with one key, or its bare name when it has nothing to say:
//! `[{"delayMs": 50}, {"text": "done"}, "hang"]`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::features::{Flood, ListenEnding};

/// One thing that a scripted server does.
///
/// Steps that answer (`default`, `reply`, `text`, `error`, …) need a request; in the start steps or for
/// a notification they are a fault of the script, which ends the server with exit code 70.
/// In `raw`, `bytes` and `stderr` the placeholder `$ID` stands for the request's id and `$TOKEN` for its
/// progress token, both as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Step {
    /// What a polite server does: answer the request, or heed the notification.
    Default,
    /// Answers with this result, as it stands.
    Reply(Value),
    /// Answers with a tool result of one text block; with `resultType` where the request is modern.
    Text(String),
    /// Answers with an error.
    Error {
        /// JSON-RPC error code.
        code: i64,
        /// Its message.
        message: String,
        /// Its data; absent unless given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Value>,
    },
    /// Answers twice with this result.
    ReplyTwice(Value),
    /// Answers with a tool result whose line has exactly this many bytes, line feed not counted.
    ReplyOfSize(usize),
    /// Answers with the client's last awaited response, as text.
    ReplyWithResponse,

    /// Writes a line as it stands.
    Raw(String),
    /// Writes text without a line feed, in one piece.
    Bytes {
        /// What to write.
        text: String,
        /// How often. Default 1.
        #[serde(default = "once")]
        repeat: u64,
    },
    /// Writes bytes that JSON text cannot hold, without a line feed, in one piece.
    Hex {
        /// What to write, as hexadecimal digits.
        data: HexBytes,
        /// How often. Default 1.
        #[serde(default = "once")]
        repeat: u64,
    },
    /// Writes the whole environment, one `NAME=value` a line, to stdout. Needs a process.
    PrintEnv,
    /// Writes a line to stderr.
    Stderr(String),
    /// Floods stderr, and goes on only when all of it has been read. Needs a process.
    StderrFlood {
        /// How much; absent: for ever.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
    },

    /// Sends a notification, as it stands.
    Notify {
        /// Its method.
        method: String,
        /// Its parameters; absent unless given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        params: Option<Value>,
    },
    /// Sends a notification to each open `subscriptions/listen` that asked for it, marked with its id. A
    /// legacy server sends it once, unmarked; that a resource was updated only if it is subscribed to.
    Publish {
        /// Its method.
        method: String,
        /// Its parameters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        params: Option<Value>,
    },
    /// Reports progress under the request's token; does nothing if the client gave none.
    Progress {
        /// How far.
        progress: Value,
        /// Out of how much.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<Value>,
        /// In words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// Sends a request to the client.
    Request(ServerRequest),

    /// Waits, on the clock of the runtime.
    DelayMs(u64),
    /// Never goes on.
    Hang,
    /// Runs steps again and again.
    Repeat {
        /// How often; absent: for ever.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        times: Option<u64>,
        /// What.
        steps: Vec<Step>,
    },
    /// Runs steps beside the ones that follow.
    Background(Vec<Step>),
    /// Runs steps from the n-th time on that this list is started (by this process), counted from 1.
    After {
        /// The first time they run.
        n: u64,
        /// What.
        steps: Vec<Step>,
    },
    /// Runs steps up to the n-th time that this list is started (by this process), counted from 1.
    Until {
        /// The last time they run.
        n: u64,
        /// What.
        steps: Vec<Step>,
    },
    /// Runs steps only if this file is not there yet, and makes it: once for all processes together.
    Once {
        /// The file that remembers.
        marker: PathBuf,
        /// What.
        steps: Vec<Step>,
    },

    /// Appends one line to this file. In memory: adds one to the counter of this name instead.
    Count(String),
    /// Writes a file, relative to the working directory.
    WriteFile {
        /// Where; what begins with `~/` is in the home directory.
        path: PathBuf,
        /// What.
        text: String,
    },
    /// Offers these tools from now on; says nothing about it.
    SetTools(Vec<Value>),
    /// Offers these resources from now on; says nothing about it.
    SetResources(Vec<Value>),
    /// Offers these prompts from now on; says nothing about it.
    SetPrompts(Vec<Value>),
    /// Changes what a resource holds, and tells whoever is subscribed to it.
    SetResource {
        /// Which.
        uri: String,
        /// What it holds from now on.
        text: String,
    },
    /// Sends many notifications to whoever wants them; goes on when all are sent.
    Flood(Flood),
    /// Ends every open `subscriptions/listen`.
    EndListens(ListenEnding),

    /// Ends the server with this code.
    Exit(i32),
    /// Ends the server with signal 9. In memory: drops both streams.
    Abort,
    /// Closes stdout and lives on.
    CloseStdout,
    /// Closes stdin and lives on; nothing more is read, nor is the end of it noticed.
    CloseStdin,
    /// Reads nothing more, but keeps stdin open, so that whoever writes to it is kept waiting.
    StopReading,
    /// Writes a line to every descriptor above 2 that the process began with. Needs a process.
    WriteToInheritedFds,
    /// Survives SIGTERM from now on. Needs a process.
    IgnoreTerm,
    /// Stops the process with SIGSTOP. Needs a process.
    StopSelf,
    /// Starts a process that sleeps and inherits the environment; goes on when it is up. Needs a process.
    SpawnChild(Grandchild),
    /// Starts processes that start processes, two each; goes on at once. Needs a process.
    ForkBomb {
        /// How many generations, so that the machine survives: n of them are 2^(n+1) - 2 processes.
        generations: u32,
    },
}

/// A request of the server to the client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerRequest {
    /// Its id; absent: `server-1`, `server-2`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Value>,
    /// Its method.
    pub method: String,
    /// Its parameters; absent unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
    /// Goes on only when the client has answered; see `replyWithAnswer`. Default false.
    #[serde(default, rename = "await")]
    pub wait: bool,
}

/// A process that the server starts, and that only sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Grandchild {
    /// In a session, and so a process group, of its own. Default false.
    pub setsid: bool,
    /// By way of a process in between that exits, so that its parent is gone at once; in a session of
    /// its own too. Default false.
    pub double_fork: bool,
    /// Holds the server's stdout open, so that its reader sees no end. Default false.
    pub hold_stdout: bool,
    /// How long it sleeps. Default 300.
    pub seconds: u64,
}

impl Default for Grandchild {
    fn default() -> Self {
        Self {
            setsid: false,
            double_fork: false,
            hold_stdout: false,
            seconds: 300,
        }
    }
}

/// Bytes, written in JSON as a string of hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HexBytes(pub Vec<u8>);

impl TryFrom<String> for HexBytes {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
        let digits = digits.ok_or_else(|| format!("not hexadecimal: {text:?}"))?;
        let (pairs, rest) = digits.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(format!("odd number of hexadecimal digits: {text:?}"));
        }
        let byte = |[high, low]: &[u32; 2]| u8::try_from(high << 4 | low).ok();
        let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
        bytes
            .map(Self)
            .ok_or_else(|| format!("not hexadecimal: {text:?}"))
    }
}

impl From<HexBytes> for String {
    fn from(bytes: HexBytes) -> Self {
        let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('0');
        let digits = |byte: &u8| [digit(byte >> 4), digit(byte & 0x0f)];
        bytes.0.iter().flat_map(digits).collect()
    }
}

impl Step {
    /// This step, or the first one inside it, that only a real process can do.
    pub(crate) fn first_process_step(&self) -> Option<&Self> {
        match self {
            Self::PrintEnv
            | Self::StderrFlood { .. }
            | Self::IgnoreTerm
            | Self::StopSelf
            | Self::WriteToInheritedFds
            | Self::ForkBomb { .. }
            | Self::SpawnChild { .. } => Some(self),
            Self::Repeat { steps, .. }
            | Self::Background(steps)
            | Self::After { steps, .. }
            | Self::Until { steps, .. }
            | Self::Once { steps, .. } => steps.iter().find_map(Self::first_process_step),
            _ => None,
        }
    }
}

fn once() -> u64 {
    1
}
