//! System messages, with which the CLI reports on the session.

use serde_json::Value;
use switchboard::mcp::Json;

use crate::json_fields::Fields;

/// A report of the CLI on the session: its setup, a status, a retry, a compaction.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SystemMessage {
    /// What the message reports: `init`, `status`, `api_retry`, `compact_boundary` and many others.
    pub subtype: String,
    /// The setup of the session. `None` unless the subtype is `init`, which the CLI sends at the
    /// start of every turn.
    pub init: Option<Box<Init>>,
    /// The id of the session.
    pub session_id: String,
    /// The id of this message, a UUID.
    pub uuid: Option<String>,
    /// The whole message as the CLI sent it.
    pub raw: Json,
}

/// The setup of a session: what the CLI offers to the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Init {
    /// The id of the session.
    pub session_id: String,
    /// The working directory of the session.
    pub cwd: String,
    /// The names of the tools that the model can use.
    pub tools: Vec<String>,
    /// The MCP servers and their status at the start of the turn.
    pub mcp_servers: Vec<InitServer>,
    /// The name of the model.
    pub model: String,
    /// The permission mode, as in [`PermissionMode::as_str`](crate::PermissionMode::as_str).
    pub permission_mode: String,
    /// The version of the CLI.
    pub version: String,
    /// The names of the slash commands.
    pub slash_commands: Vec<String>,
    /// The names of the subagents.
    pub agents: Vec<String>,
    /// Optional features that this version of the CLI supports.
    pub capabilities: Vec<String>,
}

/// The status of an MCP server at the start of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InitServer {
    /// The name of the server in the options.
    pub name: String,
    /// The state of the connection: `connected`, `pending`, `failed`, `needs-auth` or `disabled`.
    pub status: String,
    /// Where the server was configured, if the CLI reports it.
    pub source: Option<String>,
}

impl SystemMessage {
    pub(super) fn parse(fields: Fields<'_>, raw: Json) -> Self {
        let subtype = fields.text("subtype").unwrap_or_default();
        let init = (subtype == "init").then(|| Box::new(Init::parse(fields)));
        Self {
            subtype,
            init,
            session_id: fields.text("session_id").unwrap_or_default(),
            uuid: fields.text("uuid"),
            raw,
        }
    }
}

impl Init {
    fn parse(fields: Fields<'_>) -> Self {
        let text = |key| fields.text(key).unwrap_or_default();
        let servers = fields.list("mcp_servers").iter();
        Self {
            session_id: text("session_id"),
            cwd: text("cwd"),
            tools: fields.texts("tools"),
            mcp_servers: servers.map(InitServer::parse).collect(),
            model: text("model"),
            permission_mode: text("permissionMode"),
            version: text("claude_code_version"),
            slash_commands: fields.texts("slash_commands"),
            agents: fields.texts("agents"),
            capabilities: fields.texts("capabilities"),
        }
    }
}

impl InitServer {
    fn parse(value: &Value) -> Self {
        let fields = Fields::of(value);
        Self {
            name: fields.text("name").unwrap_or_default(),
            status: fields.text("status").unwrap_or_default(),
            source: fields.text("source"),
        }
    }
}
