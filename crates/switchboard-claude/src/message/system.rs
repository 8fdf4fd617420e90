//! What the CLI says of the session itself.

use serde_json::Value;
use switchboard::mcp::Json;

use crate::fields::Fields;

/// Something about the session.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SystemMessage {
    /// What it is about: `init`, `status`, `api_retry`, `compact_boundary` and many others.
    pub subtype: String,
    /// With what the session begins, if the subtype is `init`. It comes again with every turn.
    pub init: Option<Box<Init>>,
    /// The session.
    pub session_id: String,
    /// The name of this message.
    pub uuid: Option<String>,
    /// The message as it came.
    pub raw: Json,
}

/// With what a session begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Init {
    /// The session.
    pub session_id: String,
    /// The folder that it works in.
    pub cwd: String,
    /// The tools that the model can use.
    pub tools: Vec<String>,
    /// The MCP servers, and how they are.
    pub mcp_servers: Vec<InitServer>,
    /// The model.
    pub model: String,
    /// Which questions are asked.
    pub permission_mode: String,
    /// The version of the CLI.
    pub version: String,
    /// What can be typed after a slash.
    pub slash_commands: Vec<String>,
    /// The subagents.
    pub agents: Vec<String>,
    /// What this CLI can do that others cannot.
    pub capabilities: Vec<String>,
}

/// An MCP server at the beginning of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InitServer {
    /// By the name that it was given.
    pub name: String,
    /// `connected`, `pending`, `failed`, `needs-auth` or `disabled`.
    pub status: String,
    /// Where it comes from.
    pub source: Option<String>,
}

impl SystemMessage {
    pub(super) fn read(fields: Fields<'_>, raw: Json) -> Self {
        let subtype = fields.text("subtype").unwrap_or_default();
        let init = (subtype == "init").then(|| Box::new(Init::read(fields)));
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
    fn read(fields: Fields<'_>) -> Self {
        let text = |key| fields.text(key).unwrap_or_default();
        let servers = fields.list("mcp_servers").iter();
        Self {
            session_id: text("session_id"),
            cwd: text("cwd"),
            tools: fields.texts("tools"),
            mcp_servers: servers.map(InitServer::of).collect(),
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
    fn of(value: &Value) -> Self {
        let fields = Fields::of(value);
        Self {
            name: fields.text("name").unwrap_or_default(),
            status: fields.text("status").unwrap_or_default(),
            source: fields.text("source"),
        }
    }
}
