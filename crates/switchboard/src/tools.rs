//! The tools by which a model looks after its servers: what they have, what changes, who is there.
//!
//! They stand beside the tools of the servers ([`Registry::register_management_tools`]). None of
//! them asks for permission. Invariant: a deny on one of them, or on the whole of a server, holds;
//! and what is polled passes the rules of the tool that is called.
//!
//! [`Registry::register_management_tools`]: crate::Registry::register_management_tools

mod resources;
mod servers;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::call::{CallContext, Denial};
use crate::host::Host;
use crate::id::ServerName;
use crate::interact::BoxFuture;
use crate::mcp::Json;
use crate::registry::{Tool, ToolAnswer, ToolFailure};

/// One of the management tools.
pub(crate) struct ManagementTool {
    host: Host,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    ListResources,
    ReadResource,
    RefreshTools,
    WaitForServers,
}

impl ManagementTool {
    /// All of them.
    pub(crate) fn all(host: &Host) -> Vec<Self> {
        let kinds = [
            Kind::ListResources,
            Kind::ReadResource,
            Kind::RefreshTools,
            Kind::WaitForServers,
        ];
        let tools = kinds.into_iter().map(|kind| Self {
            host: host.clone(),
            kind,
        });
        tools.collect()
    }
}

impl Tool for ManagementTool {
    fn name(&self) -> &str {
        match self.kind {
            Kind::ListResources => "ListMcpResources",
            Kind::ReadResource => "ReadMcpResource",
            Kind::RefreshTools => "RefreshMcpTools",
            Kind::WaitForServers => "WaitForMcpServers",
        }
    }

    fn description(&self) -> &str {
        match self.kind {
            Kind::ListResources => {
                "Lists the resources that MCP servers offer for reading, of all servers or of one."
            }
            Kind::ReadResource => {
                "Reads a resource of an MCP server by its address. Bytes that are no text are saved \
                 to a file, whose path is in the answer."
            }
            Kind::RefreshTools => {
                "Asks MCP servers for their tools anew, and says which were added and removed."
            }
            Kind::WaitForServers => {
                "Waits until MCP servers that are still starting are connected or have failed, and \
                 says which of the two it was."
            }
        }
    }

    fn input_schema(&self) -> Json {
        let server = json!({"type": "string", "description": "The name of the server"});
        let (properties, required) = match self.kind {
            Kind::ListResources | Kind::RefreshTools => (json!({"server": server}), json!([])),
            Kind::ReadResource => (
                json!({
                    "server": server,
                    "uri": {"type": "string", "description": "The address of the resource"},
                }),
                json!(["server", "uri"]),
            ),
            Kind::WaitForServers => (
                json!({
                    "servers": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "The names of the servers; all, if there are none",
                    },
                    "timeoutMs": {
                        "type": "number",
                        "minimum": 0,
                        "description": "How long to wait at most, in milliseconds",
                    },
                }),
                json!([]),
            ),
        };
        Json::from(&json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        }))
    }

    fn requires_permission(&self, _: &Map<String, Value>) -> bool {
        false
    }

    fn execute<'a>(
        &'a self,
        input: Map<String, Value>,
        _: &'a CallContext,
    ) -> BoxFuture<'a, Result<ToolAnswer, ToolFailure>> {
        Box::pin(async move {
            match self.kind {
                Kind::ListResources => resources::list(&self.host, read(input)?).await,
                Kind::ReadResource => resources::read(&self.host, read(input)?).await,
                Kind::RefreshTools => servers::refresh(&self.host, read(input)?).await,
                Kind::WaitForServers => servers::wait(&self.host, read(input)?).await,
            }
        })
    }
}

/// Which server, where it need not be said.
#[derive(serde::Deserialize)]
struct OfServer {
    server: Option<String>,
}

/// The input as the tool wants it. Its schema was checked before, so this hardly ever fails.
fn read<T: DeserializeOwned>(input: Map<String, Value>) -> Result<T, ToolFailure> {
    serde_json::from_value(Value::Object(input))
        .map_err(|error| ToolFailure(format!("the input cannot be used: {error}")))
}

/// An answer as JSON.
fn answer(value: &impl Serialize) -> Result<ToolAnswer, ToolFailure> {
    serde_json::to_string(value)
        .map(ToolAnswer::Text)
        .map_err(|error| ToolFailure(format!("the answer cannot be written: {error}")))
}

/// Refuses to touch a server that a rule denies as a whole.
fn permit(host: &Host, server: &str) -> Result<(), ToolFailure> {
    let denial = ServerName::new(server)
        .ok()
        .and_then(|server| host.shared().policy().denial_of(&server));
    match denial {
        None => Ok(()),
        Some(decision) => {
            let denial = Denial::Rule(decision);
            Err(ToolFailure(format!(
                "server {server} may not be used: {denial}"
            )))
        }
    }
}

impl ToolFailure {
    fn of(error: &impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}
