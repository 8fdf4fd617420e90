//! The status of MCP servers, as the CLI reports it.
//!
//! The status is meant for display. Its members vary with the version of the CLI. All except `name`
//! and `status` may therefore be missing, and an unknown `status` is kept as text.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use switchboard::mcp::Implementation;

/// The status of one MCP server of the session.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct McpServerStatus {
    /// The name of the server in the configuration.
    pub name: String,
    /// The state of the connection between the CLI and the server.
    pub status: McpConnectionStatus,
    /// The name and version that the server reports. `None` until it is connected.
    #[serde(default, deserialize_with = "lenient")]
    pub server_info: Option<Implementation>,
    /// Why the connection failed. `None` if it did not fail or the CLI does not report it.
    #[serde(default, deserialize_with = "lenient")]
    pub error: Option<String>,
    /// The tools of the server. `None` until it is connected.
    #[serde(default, deserialize_with = "lenient")]
    pub tools: Option<Vec<McpToolInfo>>,
    /// The transport of the server: `stdio`, `http`, `sse`, `sdk` and others.
    #[serde(default, deserialize_with = "lenient")]
    pub transport: Option<String>,
    /// The scope in which the server is configured: `user`, `project`, `dynamic` and others.
    #[serde(default, deserialize_with = "lenient")]
    pub scope: Option<String>,
    /// Where the server's configuration comes from: `sdk`, `dynamic` and others.
    #[serde(default, deserialize_with = "lenient")]
    pub source: Option<String>,
    /// The server's configuration as the CLI reports it. It contains headers with credentials, so
    /// do not log it.
    #[serde(default)]
    pub config: Option<Value>,
}

/// Does not print `config`, because its headers may contain credentials.
impl fmt::Debug for McpServerStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServerStatus")
            .field("name", &self.name)
            .field("status", &self.status)
            .field("server_info", &self.server_info)
            .field("error", &self.error)
            .field("tools", &self.tools)
            .field("transport", &self.transport)
            .field("scope", &self.scope)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// The state of the connection between the CLI and a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum McpConnectionStatus {
    /// The server is connected and can be used.
    Connected,
    /// The connection failed; see [`McpServerStatus::error`].
    Failed,
    /// The CLI cannot connect until the user has logged in to the server.
    NeedsAuth,
    /// The CLI is still connecting to the server.
    Pending,
    /// The server was disabled, so the CLI does not connect to it.
    Disabled,
    /// A state that this crate does not know. Holds its name.
    Other(String),
}

impl McpConnectionStatus {
    /// The name of the state in the control protocol.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Connected => "connected",
            Self::Failed => "failed",
            Self::NeedsAuth => "needs-auth",
            Self::Pending => "pending",
            Self::Disabled => "disabled",
            Self::Other(state) => state,
        }
    }
}

impl From<String> for McpConnectionStatus {
    fn from(state: String) -> Self {
        match state.as_str() {
            "connected" => Self::Connected,
            "failed" => Self::Failed,
            "needs-auth" => Self::NeedsAuth,
            "pending" => Self::Pending,
            "disabled" => Self::Disabled,
            _ => Self::Other(state),
        }
    }
}

impl<'de> Deserialize<'de> for McpConnectionStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

/// A tool of a server, as the CLI reports it in the server's status.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct McpToolInfo {
    /// The name of the tool, without the prefix `mcp__<server>__`.
    pub name: String,
    /// The description of the tool, if the CLI reports it.
    #[serde(default, deserialize_with = "lenient")]
    pub description: Option<String>,
    /// Hints of the server about the tool, such as `readOnly`, `destructive` and `openWorld`.
    #[serde(default, deserialize_with = "lenient")]
    pub annotations: Option<Map<String, Value>>,
}

/// What a call of [`Client::mcp_set_servers`](crate::Client::mcp_set_servers) changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct McpSetServersResult {
    /// Names of the servers that were added.
    #[serde(default)]
    pub added: Vec<String>,
    /// Names of the servers that were removed.
    #[serde(default)]
    pub removed: Vec<String>,
    /// Names of the servers that the CLI could not connect to, with the error of each.
    #[serde(default)]
    pub errors: BTreeMap<String, String>,
}

/// Parses the response to `mcp_status`. Skips entries of servers that cannot be parsed.
pub(crate) fn parse_statuses(response: &Value) -> Vec<McpServerStatus> {
    let entries = response.get("mcpServers").and_then(Value::as_array);
    let entries = entries.into_iter().flatten();
    entries
        .filter_map(|entry| McpServerStatus::deserialize(entry).ok())
        .collect()
}

/// Deserializes a member. Returns `None` if it has an unexpected type.
fn lenient<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: serde::de::DeserializeOwned,
    D: Deserializer<'de>,
{
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn status_is_parsed_leniently() {
        let response = json!({"mcpServers": [
            {"name": "ev", "status": "connected", "serverInfo": {"name": "everything", "version": "2.0.0"},
             "config": {"type": "stdio", "command": "node", "args": []}, "transport": "stdio",
             "scope": "dynamic", "source": "dynamic",
             "tools": [{"name": "echo", "annotations": {"readOnly": true}}]},
            {"name": "bad", "status": "failed", "error": "ENOENT: no such file or directory"},
            {"name": "odd", "status": "resting", "tools": "many", "serverInfo": null},
            {"status": "nameless"},
        ]});
        let statuses = parse_statuses(&response);
        let states: Vec<_> = statuses.iter().map(|entry| entry.status.clone()).collect();
        assert_eq!(
            states,
            [
                McpConnectionStatus::Connected,
                McpConnectionStatus::Failed,
                McpConnectionStatus::Other("resting".to_owned()),
            ]
        );
        assert_eq!(
            statuses[0].server_info,
            Some(Implementation::new("everything", "2.0.0"))
        );
        assert_eq!(statuses[0].tools.as_ref().unwrap()[0].name, "echo");
        assert_eq!(
            statuses[1].error.as_deref(),
            Some("ENOENT: no such file or directory")
        );
        assert_eq!(
            (&statuses[2].tools, &statuses[2].server_info),
            (&None, &None)
        );
    }

    #[test]
    fn debug_omits_headers() {
        let response = json!({"mcpServers": [
            {"name": "h", "status": "pending", "config": {"headers": {"X-T": "hidden"}}},
        ]});
        assert!(!format!("{:?}", parse_statuses(&response)).contains("hidden"));
    }
}
