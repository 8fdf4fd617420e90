//! [`Tool`]: a local tool of the embedding program, and [`FunctionTool`], a tool made of a typed
//! function.

use serde_json::{Map, Value};
use switchboard_server::{
    InProcessServer, InProcessTool, LocalCall, LocalServer as _, ToolError, ToolResult,
};
use switchboard_wire::BoxFuture;
use switchboard_wire::mcp::{Json, ToolDefinition};

use crate::call::CallContext;
use crate::content::{Output, render_tool_result};
use crate::limits::Limits;

/// A local tool: a function of the embedding program that a model can call.
pub trait Tool: Send + Sync + 'static {
    /// The name by which the model calls the tool.
    fn name(&self) -> &str;

    /// The description for the model.
    fn description(&self) -> &str;

    /// The JSON Schema of the input.
    fn input_schema(&self) -> Json;

    /// Whether the user has to allow a call with this input. Not used if a rule allows or denies
    /// the call. If `false`, the tool runs without asking the user, even if a rule says `ask`.
    fn requires_permission(&self, input: &Map<String, Value>) -> bool {
        let _ = input;
        true
    }

    /// Executes the tool. `input` matches the schema, unless the schema cannot be used. If the tool
    /// fails, the model sees the text of the error.
    fn execute<'a>(
        &'a self,
        input: Map<String, Value>,
        context: &'a CallContext,
    ) -> BoxFuture<'a, ToolResult<Output>>;
}

/// A typed function as a local tool. Runs as the only tool of an in-process server.
pub(super) struct FunctionTool {
    definition: ToolDefinition,
    server: InProcessServer,
}

impl FunctionTool {
    pub(super) fn new(tool: InProcessTool) -> Self {
        Self {
            definition: tool.definition().clone(),
            server: InProcessServer::new("registry", "1").with_tool(tool),
        }
    }
}

impl Tool for FunctionTool {
    fn name(&self) -> &str {
        &self.definition.name
    }

    fn description(&self) -> &str {
        self.definition.description.as_deref().unwrap_or_default()
    }

    fn input_schema(&self) -> Json {
        self.definition.input_schema.clone()
    }

    fn requires_permission(&self, _: &Map<String, Value>) -> bool {
        self.definition.annotations.read_only != Some(true)
    }

    fn execute<'a>(
        &'a self,
        input: Map<String, Value>,
        _: &'a CallContext,
    ) -> BoxFuture<'a, ToolResult<Output>> {
        Box::pin(async move {
            let call = LocalCall::new(&self.definition.name, &input, Map::new(), None);
            match self.server.call_tool(call).await {
                Ok(result) => Ok(render_tool_result(result, &Limits::default(), None)),
                Err(error) => Err(ToolError::new(error.message)),
            }
        })
    }
}
