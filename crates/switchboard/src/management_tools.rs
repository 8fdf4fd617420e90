//! Local tools with which a model manages its MCP servers: resources, watches, refreshing, waiting.
//!
//! [`Registry::register_management_tools`] adds these tools to a registry. The management tools run
//! without asking the user. Invariants: a rule that denies a management tool or a whole server is
//! enforced, and a watch that polls an MCP tool needs permission for every call of that tool.

mod definitions;
mod refresh_and_wait;
mod resources;
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
use crate::query::check_selected;
use crate::registry::{RegisterError, Registry, Tool};
use definitions::{Definition, definitions};

impl Registry {
    /// Registers the management tools: list and read resources, watch them, refresh the tools of
    /// servers, wait for servers.
    ///
    /// In the listing they follow the MCP tools, and the MCP tools follow the local tools that were
    /// registered before.
    pub fn register_management_tools(&mut self) -> Result<(), RegisterError> {
        self.register_mcp_tools();
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

/// The function that executes one management tool.
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

/// The input of a management tool that works on one server, or on all servers if `server` is
/// `None`.
#[derive(Deserialize)]
struct OptionalServer {
    server: Option<String>,
}

/// Parses the input of a management tool. Rarely fails, because the registry has already validated
/// the input against the schema of the tool.
fn parse<T: DeserializeOwned>(input: Map<String, Value>) -> ToolResult<T> {
    serde_json::from_value(Value::Object(input))
        .map_err(|error| ToolError::new(format!("invalid input: {error}")))
}

/// Serializes the result of a management tool as one block of JSON text.
fn json_output(value: &impl Serialize) -> ToolResult<Output> {
    serde_json::to_string(value)
        .map(Output::text)
        .map_err(|error| ToolError::new(format!("the result could not be serialized: {error}")))
}

/// Fails if the request may not use the server.
fn check_server_selected(server: &str, context: &CallContext) -> ToolResult<()> {
    match ServerName::new(server) {
        Ok(server) => Ok(check_selected(&server, &context.servers)?),
        // No server can have an invalid name. The lookup that follows this check reports an unknown
        // server.
        Err(_) => Ok(()),
    }
}

/// Fails if a rule denies all tools of the server.
fn check_server_not_denied(host: &Host, server: &str) -> ToolResult<()> {
    match ServerName::new(server) {
        Ok(server) => Ok(host.state().check_server_not_denied(&server)?),
        // No server can have an invalid name. The lookup that follows this check reports an unknown
        // server.
        Err(_) => Ok(()),
    }
}
