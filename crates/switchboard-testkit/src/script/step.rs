//! The actions of a scripted server.
//!
//! In JSON a step is an object with one key, or a bare name if it has no parameters: `[{"delayMs":
//! 50}, {"text": "done"}, "hang"]`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::features::{Flood, ListenEnding};

/// One action of a scripted server.
///
/// Steps that respond (`default`, `reply`, `text`, `error`, …) need a request. Among the start
/// steps, the EOF steps or the steps for a notification they are an error in the script; only
/// `default` is allowed for a notification. An error in the script ends the server with exit code
/// 70. In `raw`, `bytes` and `stderr`, `$ID` is replaced by the request's id and `$TOKEN` by its
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
    /// Responds to the request with this result, sent verbatim.
    Reply(Value),
    /// Responds with a tool result of one text block. For a request of the modern era, the result
    /// has a `resultType`.
    Text(String),
    /// Responds with a JSON-RPC error.
    Error {
        /// JSON-RPC error code.
        code: i64,
        /// Error message.
        message: String,
        /// Error data.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Value>,
    },
    /// Sends this result twice, as two responses with the same id.
    ReplyTwice(Value),
    /// Responds with a tool result that makes the response line exactly this many bytes long,
    /// without the line feed.
    ReplyOfSize(usize),
    /// Responds with a tool result whose text is the client's response to the last
    /// [`Step::Request`] that waited for one.
    ReplyWithResponse,

    /// Writes a line verbatim to the client.
    Raw(String),
    /// Writes text without a line feed to the client. No other output comes between the
    /// repetitions.
    Bytes {
        /// The text.
        text: String,
        /// Number of repetitions. Default 1.
        #[serde(default = "once")]
        repeat: u64,
    },
    /// Writes bytes without a line feed to the client, for bytes that JSON text cannot contain. No
    /// other output comes between the repetitions.
    Hex {
        /// The bytes, as hexadecimal digits.
        data: HexBytes,
        /// Number of repetitions. Default 1.
        #[serde(default = "once")]
        repeat: u64,
    },
    /// Writes the environment of the server to stdout, one `NAME=value` per line. Works only in a
    /// child process.
    PrintEnv,
    /// Writes a line to stderr.
    Stderr(String),
    /// Writes many bytes to stderr. The next step runs when all bytes are written, so the client
    /// must read stderr. Works only in a child process.
    StderrFlood {
        /// Number of bytes. Absent: unlimited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
    },

    /// Sends a notification verbatim, regardless of subscriptions.
    Notify {
        /// The method.
        method: String,
        /// The parameters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        params: Option<Value>,
    },
    /// Sends a notification to each open `subscriptions/listen` whose filter matches, with the
    /// subscription id. If no such request is open, a server that supports the legacy era sends the
    /// notification once, without an id. `notifications/resources/updated` goes only to subscribers
    /// of the resource.
    Publish {
        /// The method.
        method: String,
        /// The parameters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        params: Option<Value>,
    },
    /// Sends a progress notification for the request; does nothing if the request has no progress
    /// token.
    Progress {
        /// The `progress` value, sent verbatim.
        progress: Value,
        /// The `total` value. Absent: not sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<Value>,
        /// The `message` value. Absent: not sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// Sends a request to the client.
    Request(ServerRequest),

    /// Waits this many milliseconds, on the clock of the runtime.
    DelayMs(u64),
    /// Waits until the client cancels the request, otherwise forever.
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
    /// Runs `steps` only if the current message is the n-th or a later one among the messages that
    /// the enclosing list of steps handles. Messages are counted from 1. Each key of the script has
    /// its own count, which restarts with every process, connection or HTTP restart.
    After {
        /// The number of the first message for which `steps` run.
        n: u64,
        /// The steps.
        steps: Vec<Step>,
    },
    /// Runs `steps` only if the current message is the n-th or an earlier one among the messages
    /// that the enclosing list of steps handles. [`Step::After`] explains how messages are counted.
    Until {
        /// The number of the last message for which `steps` run.
        n: u64,
        /// The steps.
        steps: Vec<Step>,
    },
    /// Creates the marker file, then runs `steps`. Does nothing if the file exists, so of several
    /// processes with the same marker file only one runs `steps`.
    Once {
        /// The path of the marker file.
        marker: PathBuf,
        /// The steps.
        steps: Vec<Step>,
    },

    /// In a process, appends one line with the pid to the file of this name. In memory and over
    /// HTTP, increments the counter of this name.
    Count(String),
    /// Writes a file.
    WriteFile {
        /// The path, relative to the working directory of the server; a leading `~/` is the home
        /// directory.
        path: PathBuf,
        /// The new content of the file.
        text: String,
    },
    /// Replaces all tools; sends no notification.
    SetTools(Vec<Value>),
    /// Replaces all resources; sends no notification.
    SetResources(Vec<Value>),
    /// Replaces all prompts; sends no notification.
    SetPrompts(Vec<Value>),
    /// Changes the content of a resource and notifies its subscribers.
    SetResource {
        /// The URI of the resource.
        uri: String,
        /// The new content.
        text: String,
    },
    /// Sends the same notification many times; the next step runs when all are sent.
    Flood(Flood),
    /// Ends every open `subscriptions/listen` request in this way.
    EndListens(ListenEnding),

    /// Ends the server with this exit code.
    Exit(i32),
    /// Kills the server with SIGKILL. In memory and over HTTP, ends the server and closes its
    /// connections.
    Abort,
    /// Closes stdout; the server keeps running.
    CloseStdout,
    /// Closes stdin, so that writes of the client fail. The server keeps running.
    CloseStdin,
    /// Stops reading stdin but keeps it open, so that writes of the client block when the pipe is
    /// full.
    StopReading,
    /// Writes a line to every inherited file descriptor above 2 that is a regular file. Works only
    /// in a child process.
    WriteToInheritedFds,
    /// Ignores SIGTERM from now on. Works only in a child process.
    IgnoreTerm,
    /// Stops the process with SIGSTOP until it receives SIGCONT. Works only in a child process.
    StopSelf,
    /// Starts a sleeping process that inherits the environment. The next step runs when the new
    /// process is running. Works only in a child process.
    SpawnChild(Grandchild),
    /// Starts two processes that each start two processes, and so on. The next step runs at once.
    /// Works only in a child process.
    ForkBomb {
        /// Number of generations, which bounds the bomb: n generations are 2^(n+1) - 2 processes.
        generations: u32,
    },
}

/// A request from the server to the client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerRequest {
    /// The JSON-RPC id. Absent: `server-1`, `server-2`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Value>,
    /// The method.
    pub method: String,
    /// The parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
    /// If true, the next step runs only when the client has responded; see
    /// [`Step::ReplyWithResponse`]. Default false.
    #[serde(default, rename = "await")]
    pub wait: bool,
}

/// How the step [`Step::SpawnChild`] starts its sleeping process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Grandchild {
    /// Starts the process in its own session and process group. Default false.
    pub setsid: bool,
    /// Starts the process through an intermediate process that exits. The sleeping process is then
    /// an orphan in its own session. Default false.
    pub double_fork: bool,
    /// Gives the server's stdout to the process, so that the client sees no EOF on stdout while the
    /// process runs. Default false.
    pub hold_stdout: bool,
    /// How many seconds the process sleeps. Default 300.
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
    /// Returns the first step that works only in a child process: this step itself, or one nested
    /// in it.
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
