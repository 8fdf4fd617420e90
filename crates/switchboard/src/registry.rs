//! What an agent plugs into: local tools and MCP tools side by side, under one roof.
//!
//! An agent loop needs definitions to show its model and a way to execute what the model asks for.
//! Invariant: whatever goes wrong comes back as a result that the loop can hand to the model; an
//! MCP tool is never executed without the permission pipeline of its host.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use serde::Serialize;
use serde_json::{Map, Value};
use switchboard_wire::BoxFuture;

use switchboard_wire::schema::{Checked, CompiledSchema};
use crate::call::{CallContext, arguments_object};
use crate::content::{Block, Output};
use crate::host::Host;
use crate::id::{ServerName, ToolId, WireName};
use crate::mcp::{Json, ToolAnnotations};
use crate::permission::{Action, Denial, PermissionRequest};

/// A tool of the program itself.
pub trait Tool: Send + Sync + 'static {
    /// How the model calls it.
    fn name(&self) -> &str;

    /// What it does, for the model.
    fn description(&self) -> &str;

    /// JSON Schema of its input.
    fn input_schema(&self) -> Json;

    /// Whether somebody must agree to this very input first.
    fn requires_permission(&self, input: &Map<String, Value>) -> bool {
        let _ = input;
        true
    }

    /// Does it.
    fn execute<'a>(
        &'a self,
        input: Map<String, Value>,
        context: &'a CallContext,
    ) -> BoxFuture<'a, Result<ToolAnswer, ToolFailure>>;
}

/// What a local tool answers.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ToolAnswer {
    /// Text.
    Text(String),
    /// Blocks, for what text cannot say.
    Blocks(Vec<Block>),
}

/// Why a local tool could not do it, in words for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ToolFailure(pub String);

/// Where a tool comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ToolSource {
    /// The program itself.
    Local,
    /// An MCP server.
    Mcp,
}

/// A tool as a model is told of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ToolSpec {
    /// How the model calls it.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its input.
    pub input_schema: Json,
    /// Where it comes from.
    pub kind: ToolSource,
}

/// Something that can execute tools for an agent loop.
pub trait ToolExecutor: Send + Sync {
    /// The tools to tell the model of, in a stable order.
    fn definitions(&self) -> Vec<ToolSpec>;

    /// Executes a tool by name. Every failure comes back as a result with `is_error`, in words that
    /// a model can act on.
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
            kind: ToolSource::Mcp,
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

/// Local tools beside the MCP tools of a host.
///
/// MCP tools come and go with their servers; local ones stay. A local tool whose name begins with
/// `mcp__` is refused, so that none can pass itself off as a server's.
#[derive(Clone)]
pub struct Registry {
    host: Host,
    local: Vec<Registered>,
}

#[derive(Clone)]
struct Registered {
    tool: Arc<dyn Tool>,
    input: Arc<CompiledSchema>,
}

/// Why a local tool was not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The name belongs to the tools of servers.
    #[error("{0}: names that begin with mcp__ belong to MCP servers")]
    Reserved(String),
    /// There is one already.
    #[error("there is a tool {0} already")]
    NameTaken(String),
    /// There is nothing to call it by.
    #[error("a tool needs a name")]
    Nameless,
}

impl Registry {
    /// The tools of a host, and no local ones yet.
    pub fn new(host: Host) -> Self {
        Self {
            host,
            local: Vec::new(),
        }
    }

    /// The host whose tools these are.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Adds a local tool.
    pub fn register(&mut self, tool: impl Tool) -> Result<(), RegisterError> {
        let name = tool.name();
        if name.is_empty() {
            return Err(RegisterError::Nameless);
        }
        if name.starts_with("mcp__") {
            return Err(RegisterError::Reserved(name.to_owned()));
        }
        if self.find(name).is_some() {
            return Err(RegisterError::NameTaken(name.to_owned()));
        }
        let input = Arc::new(CompiledSchema::new(tool.input_schema()));
        let tool = Arc::new(tool);
        self.local.push(Registered { tool, input });
        Ok(())
    }

    /// Whether this input to this tool needs somebody's agreement. MCP tools always do.
    pub fn requires_permission(&self, name: &str, input: &Map<String, Value>) -> bool {
        self.find(name)
            .is_none_or(|known| known.tool.requires_permission(input))
    }

    fn find(&self, name: &str) -> Option<&Registered> {
        self.local.iter().find(|known| known.tool.name() == name)
    }

    async fn execute_local(
        &self,
        known: &Registered,
        value: Value,
        context: &CallContext,
    ) -> Result<Output, String> {
        let mut value = Cow::Owned(value);
        let tool = known.tool.as_ref();
        let input = arguments_object(&mut value).map_err(|violation| violation.to_string())?;
        let input = input.clone();
        if let Checked::Violates(violations) = known.input.check(&value) {
            let why: Vec<_> = violations.iter().map(ToString::to_string).collect();
            let why = why.join("; ");
            return Err(format!("the arguments do not fit {}: {why}", tool.name()));
        }
        self.permit_local(tool, &input, context).await?;
        match tool.execute(input, context).await {
            Ok(ToolAnswer::Text(text)) => Ok(Output::text(text)),
            Ok(ToolAnswer::Blocks(blocks)) => Ok(Output::blocks(blocks)),
            Err(failure) => Err(failure.to_string()),
        }
    }

    async fn permit_local(
        &self,
        tool: &dyn Tool,
        input: &Map<String, Value>,
        context: &CallContext,
    ) -> Result<(), String> {
        let state = self.host.state();
        let decision = state.policy().decide_local(tool.name(), input);
        let refused = |denial: Denial| format!("{} was not executed: {denial}", tool.name());
        match decision.action {
            Action::Deny => return Err(refused(Denial::Rule(decision))),
            Action::Allow => return Ok(()),
            Action::Ask if !tool.requires_permission(input) => return Ok(()),
            Action::Ask => {}
        }
        let Ok(local) = ServerName::new("local") else {
            return Err(refused(Denial::NoInteraction));
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
        response.into_result().map_err(refused)
    }
}

impl ToolExecutor for Registry {
    fn definitions(&self) -> Vec<ToolSpec> {
        let local = self.local.iter().map(|known| &known.tool);
        let local = local.map(|tool| ToolSpec {
            name: tool.name().to_owned(),
            description: tool.description().to_owned(),
            input_schema: tool.input_schema(),
            kind: ToolSource::Local,
        });
        local.chain(self.host.definitions()).collect()
    }

    fn execute<'a>(
        &'a self,
        name: &'a str,
        input: Value,
        context: CallContext,
    ) -> BoxFuture<'a, Output> {
        let Some(known) = self.find(name) else {
            return self.host.execute(name, input, context);
        };
        Box::pin(async move {
            let work = AssertUnwindSafe(self.execute_local(known, input, &context));
            let outcome = work.catch_unwind().await;
            let outcome = outcome.unwrap_or_else(|_| Err(format!("the tool {name} panicked")));
            outcome.unwrap_or_else(Output::error)
        })
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let local: Vec<_> = self.local.iter().map(|known| known.tool.name()).collect();
        f.debug_struct("Registry")
            .field("local", &local)
            .finish_non_exhaustive()
    }
}
