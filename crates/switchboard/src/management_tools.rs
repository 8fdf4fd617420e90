//! Local tools with which a model manages its MCP servers: resources, watches, refreshing, waiting.
//!
//! [`Registry::register_management_tools`] adds them. They run without asking the user. Invariants:
//! rules that deny a management tool or a whole server are enforced; a watch that polls a tool
//! checks the permission for that tool.

mod definitions;
mod resources;
mod servers;
mod watches;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use switchboard_server::{ToolError, ToolResult};
use switchboard_wire::BoxFuture;
use switchboard_wire::mcp::Json;

use crate::call::CallContext;
use crate::content::Output;
use crate::host::Host;
use crate::id::ServerName;
use crate::registry::{RegisterError, Registry, Tool};
use definitions::{Definition, definitions};

impl Registry {
    /// Registers the management tools: list and read resources, watch them, refresh the tools of
    /// servers, wait for servers.
    pub fn register_management_tools(&mut self) -> Result<(), RegisterError> {
        let host = self.host().clone();
        definitions().try_for_each(|definition| {
            self.register(ManagementTool {
                host: host.clone(),
                definition,
            })
        })
    }
}

struct ManagementTool {
    host: Host,
    definition: Definition,
}

/// Executes one management tool.
type ExecuteFn =
    for<'a> fn(&'a Host, Map<String, Value>, &'a CallContext) -> BoxFuture<'a, ToolResult<Output>>;

impl Tool for ManagementTool {
    fn name(&self) -> &str {
        self.definition.name
    }

    fn description(&self) -> &str {
        self.definition.description
    }

    fn input_schema(&self) -> Json {
        self.definition.input_schema.clone()
    }

    fn requires_permission(&self, _: &Map<String, Value>) -> bool {
        false
    }

    fn execute<'a>(
        &'a self,
        input: Map<String, Value>,
        context: &'a CallContext,
    ) -> BoxFuture<'a, ToolResult<Output>> {
        (self.definition.execute)(&self.host, input, context)
    }
}

/// The input of tools that work on one server or on all.
#[derive(Deserialize)]
struct OptionalServer {
    server: Option<String>,
}

/// Parses the input of a tool. The input matched the schema, so this rarely fails.
fn parse<T: DeserializeOwned>(input: Map<String, Value>) -> ToolResult<T> {
    serde_json::from_value(Value::Object(input))
        .map_err(|error| ToolError::new(format!("invalid input: {error}")))
}

/// The result of a tool, as JSON text.
fn json_output(value: &impl Serialize) -> ToolResult<Output> {
    serde_json::to_string(value)
        .map(Output::text)
        .map_err(|error| ToolError::new(format!("the result could not be serialized: {error}")))
}

/// Fails if a rule denies the whole server.
fn check_server_not_denied(host: &Host, server: &str) -> ToolResult<()> {
    match ServerName::new(server) {
        Ok(server) => Ok(host.state().check_server_not_denied(&server)?),
        // No server has an invalid name. The caller reports it as unknown.
        Err(_) => Ok(()),
    }
}
