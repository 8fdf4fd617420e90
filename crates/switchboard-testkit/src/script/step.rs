//! One action of a scripted server.
//!
//! In JSON a step is an object with one key, or a bare name if it has no parameters: `[{"delayMs":
//! 50}, {"text": "done"}, "hang"]`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::features::{Flood, ListenEnding};

/// One action of a scripted server.
///
/// Steps that respond (`default`, `reply`, `text`, `error`, …) need a request. In the start steps
/// or for a notification they are an error in the script, which ends the server with exit code 70.
/// In `raw`, `bytes` and `stderr`, `$ID` is replaced by the request's id and `$TOKEN` by its
/// progress token, both as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Step {
    /// Responds to the request, or handles the notification, like a well-behaved server.
    Default,
    /// Responds with this result, sent verbatim.
    Reply(Value),
    /// Responds with a tool result of one text block; adds `resultType` for a modern request.
    Text(String),
    /// Responds with an error.
    Error {
        /// JSON-RPC error code.
        code: i64,
        /// Error message.
        message: String,
        /// Error data.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Value>,
    },
    /// Responds twice with this result.
    ReplyTwice(Value),
    /// Responds with a tool result whose line has exactly this many bytes, without the line feed.
    ReplyOfSize(usize),
    /// Responds with the last response of the client, as text; see [`Step::Request`].
    ReplyWithResponse,

    /// Writes a line verbatim.
    Raw(String),
    /// Writes text without a line feed, not interleaved with other output.
    Bytes {
        /// The text.
        text: String,
        /// Number of repetitions. Default 1.
        #[serde(default = "once")]
        repeat: u64,
    },
    /// Writes bytes without a line feed, not interleaved with other output. For bytes that JSON
    /// text cannot contain.
    Hex {
        /// The bytes, as hexadecimal digits.
        data: HexBytes,
        /// Number of repetitions. Default 1.
        #[serde(default = "once")]
        repeat: u64,
    },
    /// Writes the environment to stdout, one `NAME=value` per line. Needs a process.
    PrintEnv,
    /// Writes a line to stderr.
    Stderr(String),
    /// Floods stderr. The next step runs when all bytes are written, so stderr must be read. Needs
    /// a process.
    StderrFlood {
        /// Number of bytes. Absent: unlimited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
    },

    /// Sends a notification verbatim.
    Notify {
        /// The method.
        method: String,
        /// The parameters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        params: Option<Value>,
    },
    /// Sends a notification to each open `subscriptions/listen` whose filter matches, with the
    /// subscription id. A legacy server sends it once, without an id;
    /// `notifications/resources/updated` only to subscribers of the resource.
    Publish {
        /// The method.
        method: String,
        /// The parameters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        params: Option<Value>,
    },
    /// Sends a progress notification; does nothing if the request has no progress token.
    Progress {
        /// The progress.
        progress: Value,
        /// The total.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<Value>,
        /// The message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// Sends a request to the client.
    Request(ServerRequest),

    /// Waits, on the clock of the runtime.
    DelayMs(u64),
    /// Never completes.
    Hang,
    /// Repeats steps.
    Repeat {
        /// Number of repetitions. Absent: unlimited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        times: Option<u64>,
        /// The steps.
        steps: Vec<Step>,
    },
    /// Runs steps concurrently with the steps that follow.
    Background(Vec<Step>),
    /// Runs steps from the n-th run of this list on, counted from 1 per process.
    After {
        /// The first run that includes the steps.
        n: u64,
        /// The steps.
        steps: Vec<Step>,
    },
    /// Runs steps up to the n-th run of this list, counted from 1 per process.
    Until {
        /// The last run that includes the steps.
        n: u64,
        /// The steps.
        steps: Vec<Step>,
    },
    /// Creates a marker file and runs steps; does nothing if the file exists. Works across
    /// processes.
    Once {
        /// The marker file.
        marker: PathBuf,
        /// The steps.
        steps: Vec<Step>,
    },

    /// Appends one line to this file. In memory: increments the counter of this name.
    Count(String),
    /// Writes a file.
    WriteFile {
        /// The path, relative to the working directory; a leading `~/` is the home directory.
        path: PathBuf,
        /// The content.
        text: String,
    },
    /// Replaces the tools; sends no notification.
    SetTools(Vec<Value>),
    /// Replaces the resources; sends no notification.
    SetResources(Vec<Value>),
    /// Replaces the prompts; sends no notification.
    SetPrompts(Vec<Value>),
    /// Changes the content of a resource and notifies its subscribers.
    SetResource {
        /// The URI of the resource.
        uri: String,
        /// The new content.
        text: String,
    },
    /// Sends a burst of notifications; completes when all are sent.
    Flood(Flood),
    /// Ends every open `subscriptions/listen`.
    EndListens(ListenEnding),

    /// Exits with this code.
    Exit(i32),
    /// Kills the server with SIGKILL. In memory: drops both streams.
    Abort,
    /// Closes stdout; the server keeps running.
    CloseStdout,
    /// Closes stdin, so that writes of the client fail. The server keeps running.
    CloseStdin,
    /// Stops reading but keeps stdin open, so that writes of the client block.
    StopReading,
    /// Writes a line to every inherited file descriptor above 2. Needs a process.
    WriteToInheritedFds,
    /// Ignores SIGTERM from now on. Needs a process.
    IgnoreTerm,
    /// Stops the process with SIGSTOP. Needs a process.
    StopSelf,
    /// Starts a sleeping process that inherits the environment; completes when it is running. Needs
    /// a process.
    SpawnChild(Grandchild),
    /// Starts two processes that each start two processes, and so on; completes at once. Needs a
    /// process.
    ForkBomb {
        /// Number of generations, which bounds the bomb: n generations are 2^(n+1) - 2 processes.
        generations: u32,
    },
}

/// A request from the server to the client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerRequest {
    /// The id. Absent: `server-1`, `server-2`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Value>,
    /// The method.
    pub method: String,
    /// The parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
    /// Waits for the response; see [`Step::ReplyWithResponse`]. Default false.
    #[serde(default, rename = "await")]
    pub wait: bool,
}

/// A sleeping process that the server starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Grandchild {
    /// Runs in its own session and process group. Default false.
    pub setsid: bool,
    /// Starts through an intermediate process that exits, so that the process becomes an orphan in
    /// its own session. Default false.
    pub double_fork: bool,
    /// Keeps the server's stdout open, so that its reader sees no EOF. Default false.
    pub hold_stdout: bool,
    /// How long the process sleeps. Default 300.
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

/// Bytes, in JSON a string of hexadecimal digits.
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
    /// This step, or the first step inside it, that needs a real process.
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
