//! The tools of an agent loop: local tools of the embedding program together with the MCP tools of
//! a host.
//!
//! An agent loop needs descriptions of its tools for the model, and a way to execute the calls that
//! the model requests. Invariants: every failure becomes a result that the loop can give to the
//! model; an MCP tool is executed only through the permission checks of its host.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use serde::Serialize;
use serde_json::{Map, Value};
use switchboard_server::ToolResult;
use switchboard_wire::BoxFuture;
use switchboard_wire::mcp::{Json, ToolAnnotations};
use switchboard_wire::naming::PREFIX;
use switchboard_wire::schema::{CompiledSchema, Validation};

use crate::call::{CallContext, arguments_object, join_violations};
use crate::content::Output;
use crate::host::Host;
use crate::id::{ServerName, ToolId, WireName};
use crate::permission::{Action, Denial, PermissionRequest};

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

/// Where a tool comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ToolSource {
    /// The embedding program.
    Local,
    /// An MCP server.
    Mcp,
}

/// The description of a tool for a model.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ToolSpec {
    /// The name by which the model calls the tool.
    pub name: String,
    /// What the tool does.
    pub description: String,
    /// The JSON Schema of the input.
    pub input_schema: Json,
    /// Where the tool comes from.
    #[serde(rename = "kind")]
    pub source: ToolSource,
}

/// A source of tools for an agent loop: describes the tools and executes them by name.
pub trait ToolExecutor: Send + Sync {
    /// Describes all tools, in a stable order.
    fn definitions(&self) -> Vec<ToolSpec>;

    /// Executes a tool by name. Every failure becomes an output with `is_error` and a message for
    /// the model.
    fn execute<'a>(
        &'a self,
        name: &'a str,
        input: Value,
        context: CallContext,
    ) -> BoxFuture<'a, Output>;
}

impl ToolExecutor for Host {
    fn definitions(&self) -> Vec<ToolSpec> {
        let catalog = self.catalog();
        let tools = catalog.tools().iter().map(|tool| ToolSpec {
            name: tool.wire_name.to_string(),
            description: tool.definition.description.clone().unwrap_or_default(),
            input_schema: tool.definition.input_schema.clone(),
            source: ToolSource::Mcp,
        });
        tools.collect()
    }

    fn execute<'a>(
        &'a self,
        name: &'a str,
        input: Value,
        context: CallContext,
    ) -> BoxFuture<'a, Output> {
        Box::pin(async move {
            let outcome = self.call(name, input).context(context).await;
            outcome.unwrap_or_else(|error| Output::error(error.to_string()))
        })
    }
}

/// The local tools of an embedding program and the MCP tools of a host.
///
/// The set of MCP tools changes when servers connect, disconnect or change their tools. The name of
/// a local tool must not start with `mcp__`, so that it cannot be mistaken for an MCP tool.
#[derive(Clone)]
pub struct Registry {
    host: Host,
    local: Vec<LocalTool>,
}

#[derive(Clone)]
struct LocalTool {
    tool: Arc<dyn Tool>,
    input_schema: Arc<CompiledSchema>,
}

/// Why a local tool was not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The name starts with `mcp__`.
    #[error("{0}: names that start with mcp__ are reserved for MCP tools")]
    ReservedName(String),
    /// Another local tool has this name.
    #[error("a tool named {0} already exists")]
    NameTaken(String),
    /// The name is empty.
    #[error("the name of a tool must not be empty")]
    EmptyName,
}

impl Registry {
    /// Creates a registry with the MCP tools of a host and no local tools.
    pub fn new(host: Host) -> Self {
        Self {
            host,
            local: Vec::new(),
        }
    }

    /// The host whose MCP tools are in the registry.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Adds a local tool.
    pub fn register(&mut self, tool: impl Tool) -> Result<(), RegisterError> {
        let name = tool.name();
        if name.is_empty() {
            return Err(RegisterError::EmptyName);
        }
        if name.starts_with(PREFIX) {
            return Err(RegisterError::ReservedName(name.to_owned()));
        }
        if self.find(name).is_some() {
            return Err(RegisterError::NameTaken(name.to_owned()));
        }
        let input_schema = Arc::new(CompiledSchema::new(tool.input_schema()));
        let tool = Arc::new(tool);
        self.local.push(LocalTool { tool, input_schema });
        Ok(())
    }

    /// Whether a call of this tool with this input needs permission if no rule allows or denies the
    /// call. Always `true` for names that are not local tools.
    pub fn requires_permission(&self, name: &str, input: &Map<String, Value>) -> bool {
        self.find(name)
            .is_none_or(|local| local.tool.requires_permission(input))
    }

    fn find(&self, name: &str) -> Option<&LocalTool> {
        self.local.iter().find(|local| local.tool.name() == name)
    }

    async fn execute_local(
        &self,
        local: &LocalTool,
        value: Value,
        context: &CallContext,
    ) -> Result<Output, String> {
        let mut value = Cow::Owned(value);
        let tool = local.tool.as_ref();
        let input = arguments_object(&mut value).map_err(|violation| violation.to_string())?;
        let input = input.clone();
        if let Validation::Invalid(violations) = local.input_schema.validate(&value) {
            let violations = join_violations(&violations);
            return Err(format!(
                "invalid arguments for {}: {violations}",
                tool.name()
            ));
        }
        self.check_permission(tool, &input, context).await?;
        let outcome = tool.execute(input, context).await;
        outcome.map_err(|error| error.to_text())
    }

    async fn check_permission(
        &self,
        tool: &dyn Tool,
        input: &Map<String, Value>,
        context: &CallContext,
    ) -> Result<(), String> {
        let state = self.host.state();
        let decision = state.policy().decide_local(tool.name(), input);
        let denied = |denial: Denial| format!("{} was not executed: {denial}", tool.name());
        match decision.action {
            Action::Deny => return Err(denied(Denial::Rule(decision))),
            Action::Allow => return Ok(()),
            Action::Ask if !tool.requires_permission(input) => return Ok(()),
            Action::Ask => {}
        }
        let Ok(local) = ServerName::new("local") else {
            return Err(denied(Denial::NoInteraction));
        };
        let request = PermissionRequest {
            tool: ToolId::new(local, tool.name()),
            wire_name: WireName::from(tool.name()),
            arguments: input.clone(),
            annotations: ToolAnnotations::default(),
            decision,
            context: context.clone(),
        };
        let response = state.interaction.can_use_tool(request).await;
        response.into_result().map_err(denied)
    }
}

impl ToolExecutor for Registry {
    fn definitions(&self) -> Vec<ToolSpec> {
        let local = self.local.iter().map(|local| &local.tool);
        let local = local.map(|tool| ToolSpec {
            name: tool.name().to_owned(),
            description: tool.description().to_owned(),
            input_schema: tool.input_schema(),
            source: ToolSource::Local,
        });
        local.chain(self.host.definitions()).collect()
    }

    fn execute<'a>(
        &'a self,
        name: &'a str,
        input: Value,
        context: CallContext,
    ) -> BoxFuture<'a, Output> {
        let Some(local) = self.find(name) else {
            return self.host.execute(name, input, context);
        };
        Box::pin(async move {
            let execution = AssertUnwindSafe(self.execute_local(local, input, &context));
            let outcome = execution.catch_unwind().await;
            let outcome = outcome.unwrap_or_else(|_| Err(format!("tool {name} panicked")));
            outcome.unwrap_or_else(Output::error)
        })
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let local: Vec<_> = self.local.iter().map(|local| local.tool.name()).collect();
        f.debug_struct("Registry")
            .field("local", &local)
            .finish_non_exhaustive()
    }
}
