//! What is said of a server to the outside.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use switchboard_config::{Scope, WrittenEntry};

use crate::auth::Challenge;
use crate::id::{Generation, ServerName};
use crate::mcp::{Implementation, ServerHello, Tool};

/// The five states that the outside knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ConnectionStatus {
    /// Ready. If listing its tools failed, `error` says so.
    Connected,
    /// Gave up, was refused, or cannot be started.
    Failed,
    /// Waits for a login.
    NeedsAuth,
    /// Dormant, starting, retrying, or waiting for approval.
    Pending,
    /// Switched off.
    Disabled,
}

impl ConnectionStatus {
    /// The word for it, as it stands in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Failed => "failed",
            Self::NeedsAuth => "needs-auth",
            Self::Pending => "pending",
            Self::Disabled => "disabled",
        }
    }
}

impl fmt::Display for ConnectionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The status of one server, as the agents of the field know it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerStatus {
    /// The server's configured name.
    pub name: ServerName,
    /// In which of the five states it is.
    pub status: ConnectionStatus,
    /// Who the server says it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_info: Option<Implementation>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its entry as written, literal secrets masked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<WrittenEntry>,
    /// Where the entry came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// Its tools, when they are exposed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSummary>,
    /// The state in words and, where one helps, the command to type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// A tool in a status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ToolSummary {
    /// Its raw name.
    pub name: String,
    /// What it does, in the server's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What the server claims of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<HintSummary>,
}

/// A tool's hints in a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HintSummary {
    /// It changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// It may destroy something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// It talks to the world outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

impl From<&Tool> for ToolSummary {
    fn from(tool: &Tool) -> Self {
        let hints = &tool.annotations;
        let annotations = HintSummary {
            read_only: hints.read_only,
            destructive: hints.destructive,
            open_world: hints.open_world,
        };
        let says_nothing = hints
            .read_only
            .or(hints.destructive)
            .or(hints.open_world)
            .is_none();
        Self {
            name: tool.name.clone(),
            description: tool.description.clone(),
            annotations: (!says_nothing).then_some(annotations),
        }
    }
}

/// More about one server, for a person who looks into it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Inspection {
    /// Its status.
    #[serde(flatten)]
    pub status: ServerStatus,
    /// `stdio`, `http`, …
    pub transport: &'static str,
    /// Where it is in its life, in a word finer than the status: `dormant`, `starting`, `ready`,
    /// `lost`, `retrying`, `awaiting-approval`, `needs-auth`, `off`, `failed`, `stopped`.
    pub phase: &'static str,
    /// How many sessions there have been.
    pub generation: Generation,
    /// From the start of the attempt to the tools being listed, in milliseconds.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "as_milliseconds"
    )]
    pub connect_time: Option<Duration>,
    /// How far the last attempt to connect came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Attempt>,
    /// What it wants instead of what it was sent, where it waits for a login.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub challenge: Option<Challenge>,
    /// What the server said of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hello: Option<ServerHello>,
    /// What its listing gave cause to note.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The last lines of its stderr.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
}

/// A step on the way to a server that can be used, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Stage {
    /// Its program is found, or its address reached.
    Open,
    /// The connection to it is encrypted, and it is who it says it is.
    Secure,
    /// Its process stays, or it answers as a server does.
    Alive,
    /// It lets us in.
    Login,
    /// Both sides agree on a version.
    Handshake,
    /// Its tools are listed.
    Listing,
}

/// How far an attempt to connect came, and how long its steps took, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Attempt {
    /// The step that it did not get past.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<Stage>,
    /// Until its process ran, or its stream was open.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "as_milliseconds"
    )]
    pub opening: Option<Duration>,
    /// From there until both sides agreed on a version.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "as_milliseconds"
    )]
    pub handshake: Option<Duration>,
    /// From there until its tools were listed.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "as_milliseconds"
    )]
    pub listing: Option<Duration>,
}

impl Attempt {
    pub(crate) fn failed_at(stage: Stage) -> Self {
        Self {
            failed_at: Some(stage),
            ..Self::default()
        }
    }
}

#[expect(clippy::ref_option, reason = "the signature serde asks for")]
fn as_milliseconds<S: serde::Serializer>(
    time: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_some(&time.map(|time| u64::try_from(time.as_millis()).ok()))
}
