//! What the CLI says of the servers that it has. All of it is for show: fields come and go with its
//! versions, so that none is taken for granted and what is unknown is kept.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use switchboard::mcp::Implementation;

/// One server of the CLI's.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct McpServerStatus {
    /// The name under which it was declared.
    pub name: String,
    /// Whether it can be used.
    pub status: McpConnectionStatus,
    /// Who it says it is, once it is connected.
    #[serde(default, deserialize_with = "lenient")]
    pub server_info: Option<Implementation>,
    /// Why it cannot be used, where the CLI says so.
    #[serde(default, deserialize_with = "lenient")]
    pub error: Option<String>,
    /// Its tools, once it is connected.
    #[serde(default, deserialize_with = "lenient")]
    pub tools: Option<Vec<McpToolInfo>>,
    /// `stdio`, `http`, `sse`, `sdk` and the like.
    #[serde(default, deserialize_with = "lenient")]
    pub transport: Option<String>,
    /// Where its declaration came from: `user`, `project`, `dynamic` and the like.
    #[serde(default, deserialize_with = "lenient")]
    pub scope: Option<String>,
    /// Who declared it: `sdk`, `dynamic` and the like.
    #[serde(default, deserialize_with = "lenient")]
    pub source: Option<String>,
    /// Its declaration as the CLI repeats it, headers included: not for logs.
    #[serde(default)]
    pub config: Option<Value>,
}

/// Headers that the CLI repeats may hold credentials.
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

/// Whether a server of the CLI's can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum McpConnectionStatus {
    /// It can.
    Connected,
    /// It could not be reached; the error says why.
    Failed,
    /// The user has to log in first.
    NeedsAuth,
    /// It is being connected.
    Pending,
    /// It was switched off.
    Disabled,
    /// A word of a newer CLI.
    Other(String),
}

impl McpConnectionStatus {
    /// As the CLI writes it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Connected => "connected",
            Self::Failed => "failed",
            Self::NeedsAuth => "needs-auth",
            Self::Pending => "pending",
            Self::Disabled => "disabled",
            Self::Other(word) => word,
        }
    }
}

impl From<String> for McpConnectionStatus {
    fn from(word: String) -> Self {
        match word.as_str() {
            "connected" => Self::Connected,
            "failed" => Self::Failed,
            "needs-auth" => Self::NeedsAuth,
            "pending" => Self::Pending,
            "disabled" => Self::Disabled,
            _ => Self::Other(word),
        }
    }
}

impl<'de> Deserialize<'de> for McpConnectionStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

/// A tool, as far as the CLI speaks of it in the status of its server.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct McpToolInfo {
    /// Its own name, without that of the server.
    pub name: String,
    /// What it does, where the CLI says so.
    #[serde(default, deserialize_with = "lenient")]
    pub description: Option<String>,
    /// What its server says of its behaviour: `readOnly`, `destructive`, `openWorld`.
    #[serde(default, deserialize_with = "lenient")]
    pub annotations: Option<Map<String, Value>>,
}

/// What became of the servers when the set of them was replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct McpSetServersResult {
    /// New ones.
    #[serde(default)]
    pub added: Vec<String>,
    /// Those that are gone.
    #[serde(default)]
    pub removed: Vec<String>,
    /// Those that could not be connected, and why.
    #[serde(default)]
    pub errors: BTreeMap<String, String>,
}

/// The answer to `mcp_status`. An entry that cannot be read costs only itself.
pub(crate) fn statuses(answer: &Value) -> Vec<McpServerStatus> {
    let entries = answer.get("mcpServers").and_then(Value::as_array);
    let entries = entries.into_iter().flatten();
    entries
        .filter_map(|entry| McpServerStatus::deserialize(entry).ok())
        .collect()
}

/// A member that is not what it should be is as if it were not there.
fn lenient<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: serde::de::DeserializeOwned,
    D: Deserializer<'de>,
{
    let written = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(written).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_status_is_read_as_the_cli_writes_it() {
        let answer = json!({"mcpServers": [
            {"name": "ev", "status": "connected", "serverInfo": {"name": "everything", "version": "2.0.0"},
             "config": {"type": "stdio", "command": "node", "args": []}, "transport": "stdio",
             "scope": "dynamic", "source": "dynamic",
             "tools": [{"name": "echo", "annotations": {"readOnly": true}}]},
            {"name": "bad", "status": "failed", "error": "ENOENT: no such file or directory"},
            {"name": "odd", "status": "resting", "tools": "many", "serverInfo": null},
            {"status": "nameless"},
        ]});
        let seen = statuses(&answer);
        let words: Vec<_> = seen.iter().map(|entry| entry.status.clone()).collect();
        assert_eq!(
            words,
            [
                McpConnectionStatus::Connected,
                McpConnectionStatus::Failed,
                McpConnectionStatus::Other("resting".to_owned()),
            ]
        );
        assert_eq!(
            seen[0].server_info,
            Some(Implementation::new("everything", "2.0.0"))
        );
        assert_eq!(seen[0].tools.as_ref().unwrap()[0].name, "echo");
        assert_eq!(
            seen[1].error.as_deref(),
            Some("ENOENT: no such file or directory")
        );
        assert_eq!((&seen[2].tools, &seen[2].server_info), (&None, &None));
    }

    #[test]
    fn headers_that_the_cli_repeats_are_not_shown() {
        let answer = json!({"mcpServers": [
            {"name": "h", "status": "pending", "config": {"headers": {"X-T": "hidden"}}},
        ]});
        assert!(!format!("{:?}", statuses(&answer)).contains("hidden"));
    }
}
