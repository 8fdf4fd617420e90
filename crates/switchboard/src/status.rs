//! The status of a server: connection state, phase, errors, tools.
//!
//! Plain data: [`Host::status`](crate::Host::status) and
//! [`Host::server_details`](crate::Host::server_details) return these types. The module depends
//! neither on the host nor on the task that owns a server, because the event types use it as well.
//! Invariant: the serialized form is stable, because other programs parse it. Texts of servers are
//! sanitized.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use switchboard_config::{MaskedEntry, Scope};

use crate::id::{Generation, ServerName};
use switchboard_client::auth::Challenge;
pub use switchboard_client::stderr::StderrOutput;
pub use switchboard_client::{ConnectAttempt, ConnectStage};
use switchboard_wire::mcp::{Implementation, ServerHello, ToolDefinition};
use switchboard_wire::text::{for_terminal, sanitize};

/// The connection state of a server. Agents show these five states to their users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ConnectionStatus {
    /// A session is open. If listing the tools failed, [`ServerStatus::error`] has the reason.
    Connected,
    /// The server cannot be started or reached, rejected the connection, crashed too often, or was
    /// stopped.
    Failed,
    /// The server requires a login.
    NeedsAuth,
    /// The server is dormant, starting, waiting for the next attempt, or awaiting approval, or its
    /// session has just ended.
    Pending,
    /// The server is disabled: in its entry, in a settings file, or by
    /// [`Host::disable_server`](crate::Host::disable_server).
    Disabled,
}

impl ConnectionStatus {
    /// The text of this value in JSON.
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

/// Where a server is in its life cycle. Distinguishes more states than [`ConnectionStatus`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ServerPhase {
    /// Configured but not started. The first call starts it.
    Dormant,
    /// Disabled before it was ever started.
    Off,
    /// Waiting for other servers to start first.
    Queued,
    /// Opening the connection, negotiating the version, or listing tools for the first time.
    Starting,
    /// A session is open.
    Ready,
    /// The session ended, and the host is determining why.
    Lost,
    /// Waiting for the next connection attempt.
    Retrying,
    /// The user has not approved the config entry, so no process was started.
    AwaitingApproval,
    /// The server requires a login. The host makes no connection attempt until a reconnect is
    /// requested.
    NeedsAuth,
    /// The config entry cannot be used, or the host stopped reconnecting after too many failures or
    /// a permanent error.
    Failed,
    /// The server was removed or the host shut down.
    Stopped,
}

impl ServerPhase {
    /// The text of this value in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dormant => "dormant",
            Self::Off => "off",
            Self::Queued => "queued",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Lost => "lost",
            Self::Retrying => "retrying",
            Self::AwaitingApproval => "awaiting-approval",
            Self::NeedsAuth => "needs-auth",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

impl fmt::Display for ServerPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How the host reaches a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TransportKind {
    /// A child process that communicates over stdin and stdout.
    Stdio,
    /// A URL with Streamable HTTP, or with a transport that was not detected yet.
    Http,
    /// A URL with the HTTP+SSE transport of protocol version 2024-11-05.
    Sse,
    /// A server of the user's claude.ai account.
    #[serde(rename = "claudeai-proxy")]
    ClaudeAiProxy,
    /// An in-process server.
    Sdk,
    /// A byte stream that the embedding program opens.
    Stream,
    /// The transport is not known, because the config entry is invalid.
    Unknown,
}

impl TransportKind {
    /// Returns the kind for the `type` of a config entry.
    pub(crate) fn of_entry_type(entry_type: &str) -> Self {
        match entry_type {
            "stdio" => Self::Stdio,
            "http" => Self::Http,
            "sse" => Self::Sse,
            "claudeai-proxy" => Self::ClaudeAiProxy,
            "sdk" => Self::Sdk,
            _ => Self::Unknown,
        }
    }

    /// The text of this value in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Sse => "sse",
            Self::ClaudeAiProxy => "claudeai-proxy",
            Self::Sdk => "sdk",
            Self::Stream => "stream",
            Self::Unknown => "unknown",
        }
    }

    /// Whether the server has a URL.
    pub fn is_remote(self) -> bool {
        matches!(self, Self::Http | Self::Sse | Self::ClaudeAiProxy)
    }
}

impl fmt::Display for TransportKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The status of one server. Field names and states match the status that the Claude Agent SDK
/// reports.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerStatus {
    /// The configured name of the server.
    pub name: ServerName,
    /// The connection state.
    pub status: ConnectionStatus,
    /// The name and version that the server sent in the handshake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_info: Option<Implementation>,
    /// The last error. Cleared by the next successful tool listing or reconnect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The config entry as written in the file, with literal secrets masked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<MaskedEntry>,
    /// The scope that the config entry came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// The tools of the server. Empty while the server is disabled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSummary>,
    /// A description of the connection state. Includes a command to run if one helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// One tool in a [`ServerStatus`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ToolSummary {
    /// The name that the server sent, sanitized.
    pub name: String,
    /// The description that the server sent, sanitized, with the credentials of the server masked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What the server declares about the effects of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<HintSummary>,
}

/// The hints of a server about the effects of a tool. The host does not verify them. In each field,
/// `None` means that the server did not declare the hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HintSummary {
    /// Whether the tool changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// Whether the tool may delete or overwrite data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Whether the tool accesses external systems.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

impl From<&ToolDefinition> for ToolSummary {
    fn from(tool: &ToolDefinition) -> Self {
        let hints = &tool.annotations;
        let annotations = HintSummary {
            read_only: hints.read_only,
            destructive: hints.destructive,
            open_world: hints.open_world,
        };
        let has_hints = hints
            .read_only
            .or(hints.destructive)
            .or(hints.open_world)
            .is_some();
        Self {
            name: for_terminal(&tool.name).into_owned(),
            description: (tool.description.as_ref()).map(|text| sanitize(text).into_owned()),
            annotations: has_hints.then_some(annotations),
        }
    }
}

/// The status of one server and what is known about its last connection attempt, for diagnosis.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerDetails {
    /// The status, as [`Host::status`](crate::Host::status) returns it.
    #[serde(flatten)]
    pub status: ServerStatus,
    /// How the host reaches the server.
    pub transport: TransportKind,
    /// The phase of the life cycle.
    pub phase: ServerPhase,
    /// The number of sessions that the server has had so far, including the open one.
    pub generation: Generation,
    /// Time from the start of the last successful connection attempt until its tool listing ended.
    /// Serialized in milliseconds.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "switchboard_client::as_milliseconds"
    )]
    pub connect_time: Option<Duration>,
    /// The progress of the last connection attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<ConnectAttempt>,
    /// The `WWW-Authenticate` challenge of a server that requires a login.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub challenge: Option<Challenge>,
    /// The handshake response of the server in its last session.
    #[serde(rename = "hello", skip_serializing_if = "Option::is_none")]
    pub handshake: Option<ServerHello>,
    /// Problems found in the tool listing: skipped tools, limits that were reached, schemas that
    /// cannot be used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The last lines that the child process wrote to stderr.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
}

/// The error of a request to a server that is not connected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("server {server} is {status}{}", .reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default())]
#[non_exhaustive]
pub struct Unavailable {
    /// The name of the server.
    pub server: ServerName,
    /// The connection state of the server.
    pub status: ConnectionStatus,
    /// Why the server is not connected.
    pub reason: Option<String>,
    /// What the user can do about the missing connection.
    pub hint: Option<String>,
    /// Time until the next connection attempt. `None` if no attempt is scheduled.
    pub retry_in: Option<Duration>,
}
