//! The tools of an agent loop: local tools of the embedding program together with the MCP tools of
//! a host.
//!
//! An agent loop needs descriptions of its tools for the model, and a way to execute the calls that
//! the model requests. Invariants: every failure becomes a result that the loop can give to the
//! model; an MCP tool is executed only through the permission checks of its host.

mod listing_order;
mod model_schema;
mod tool;

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use serde::Serialize;
use serde_json::{Map, Value};
use switchboard_server::{InProcessTool, ToolHandler};
use switchboard_wire::BoxFuture;
use switchboard_wire::mcp::{Json, ToolAnnotations};
use switchboard_wire::naming::PREFIX;
use switchboard_wire::schema::{CompiledSchema, Validation};
use switchboard_wire::sync::lock;

use crate::call::{CallContext, arguments_object, join_violations};
use crate::catalog::CatalogTool;
use crate::content::{Output, sanitize};
use crate::host::Host;
use crate::id::{ServerName, ToolId, WireName};
use crate::permission::{Action, Denial, PermissionRequest};
use listing_order::ListingOrder;
use model_schema::model_schema;
use tool::FunctionTool;

pub use tool::Tool;

/// The longest name of a local tool, as for the wire names of MCP tools.
const MAX_NAME_BYTES: usize = 64;

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

/// The description of a tool for a model. Texts of servers are sanitized.
///
/// Serialized, it is a tool of the Anthropic Messages API: an object with `name`, `description` and
/// `input_schema`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ToolSpec {
    /// The name by which the model calls the tool.
    pub name: String,
    /// What the tool does.
    pub description: String,
    /// The JSON Schema of the input. Its `type` is `object`, and it has neither `oneOf` nor `anyOf`
    /// nor `allOf` at the root. The host validates calls against the schema of the tool.
    pub input_schema: Json,
    /// Where the tool comes from.
    #[serde(skip)]
    pub source: ToolSource,
}

impl ToolSpec {
    fn new(name: &str, description: &str, input_schema: &Json, source: ToolSource) -> Self {
        Self {
            name: name.to_owned(),
            description: sanitize(description).into_owned(),
            input_schema: model_schema(input_schema.sanitized()),
            source,
        }
    }
}

/// A source of tools for an agent loop: describes the tools and executes them by name.
pub trait ToolExecutor: Send + Sync {
    /// Describes the tools that are known now, in a stable order. Starts lazy servers whose tools
    /// are not known yet, without waiting: their tools are in a later listing.
    fn definitions(&self) -> Vec<ToolSpec>;

    /// Describes the tools that a request may use: the local tools, and the MCP tools of the
    /// [servers](CallContext::servers) in the context. First starts those of the servers whose tools
    /// are not known yet, and waits for their tools.
    ///
    /// Execute the tool calls of the request with the same context.
    fn definitions_for<'a>(&'a self, context: &'a CallContext) -> BoxFuture<'a, Vec<ToolSpec>>;

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
        self.request_discovery();
        mcp_tools(self, &CallContext::default())
    }

    fn definitions_for<'a>(&'a self, context: &'a CallContext) -> BoxFuture<'a, Vec<ToolSpec>> {
        Box::pin(async move {
            self.discover(context).await;
            mcp_tools(self, context)
        })
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

/// Describes the MCP tools that a request may use, in the order of the servers.
fn mcp_tools(host: &Host, context: &CallContext) -> Vec<ToolSpec> {
    let separate = host.separate_servers(context);
    let catalog = host.catalog();
    if separate.is_empty() {
        let tools = catalog.tools().iter();
        let selected = tools.filter(|tool| context.servers.contains(&tool.id.server));
        return selected.map(|tool| mcp_tool(tool)).collect();
    }
    // Some servers have a separate session for this principal, with a separate catalog.
    let servers = host.state().servers_in_order();
    let names = servers.iter().map(|server| &server.settings().name);
    let mut specs = Vec::new();
    for name in names.filter(|name| context.servers.contains(name)) {
        match separate.get(name) {
            Some(server) => {
                specs.extend(server.catalog().tools_of(name).map(|tool| mcp_tool(tool)));
            }
            None => specs.extend(catalog.tools_of(name).map(|tool| mcp_tool(tool))),
        }
    }
    specs
}

fn mcp_tool(tool: &CatalogTool) -> ToolSpec {
    let definition = &tool.definition;
    ToolSpec::new(
        tool.wire_name.as_str(),
        definition.description.as_deref().unwrap_or_default(),
        &definition.input_schema,
        ToolSource::Mcp,
    )
}

/// The local tools of an embedding program and the MCP tools of a host.
///
/// The first listing is in the order of registration: the local tools before
/// [`register_mcp_tools`](Self::register_mcp_tools), the MCP tools, the later local tools. Tools that
/// appear after the first listing follow all tools that were listed before, so that the prompt
/// caches of models stay valid. All clones of a registry share this order.
///
/// The set of MCP tools changes when servers connect, disconnect or change their tools. The name of
/// a local tool must not start with `mcp__`, so that it cannot be mistaken for an MCP tool.
#[derive(Clone)]
pub struct Registry {
    host: Host,
    local: Vec<LocalTool>,
    /// The number of local tools that precede the MCP tools. `None`: all local tools.
    tools_before_mcp: Option<usize>,
    order: Arc<Mutex<ListingOrder>>,
}

#[derive(Clone)]
struct LocalTool {
    tool: Arc<dyn Tool>,
    input_schema: Arc<CompiledSchema>,
}

impl LocalTool {
    fn spec(&self) -> ToolSpec {
        let tool = &self.tool;
        ToolSpec::new(
            tool.name(),
            tool.description(),
            &tool.input_schema(),
            ToolSource::Local,
        )
    }
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
    /// A model could not call a tool of this name.
    #[error("{0:?}: the name of a tool has at most 64 characters: letters, digits, _ and -")]
    InvalidName(String),
}

impl Registry {
    /// Creates a registry with the MCP tools of a host and no local tools.
    pub fn new(host: Host) -> Self {
        Self {
            host,
            local: Vec::new(),
            tools_before_mcp: None,
            order: Arc::default(),
        }
    }

    /// The host whose MCP tools are in the registry.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Puts the MCP tools after the local tools that were registered so far and before those that
    /// are registered later, such as a tool that starts sub-agents. Only the first call has an
    /// effect. Without a call, the MCP tools follow all local tools.
    pub fn register_mcp_tools(&mut self) {
        self.tools_before_mcp.get_or_insert(self.local.len());
    }

    /// Adds a typed async function as a local tool. The input schema comes from the type of its
    /// arguments; see [`ToolHandler`] for the accepted signatures. Every call needs permission.
    ///
    /// ```
    /// # use switchboard::{Host, registry::{RegisterError, Registry}};
    /// # fn example(host: Host) -> Result<(), RegisterError> {
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Text {
    ///     text: String,
    /// }
    ///
    /// let mut registry = Registry::new(host);
    /// registry.register_function("line_count", "Counts the lines of a text", |text: Text| async move {
    ///     Ok(text.text.lines().count())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If the type of the arguments is neither a struct nor a map.
    #[track_caller]
    pub fn register_function<Signature>(
        &mut self,
        name: impl Into<String>,
        description: impl Into<String>,
        function: impl ToolHandler<Signature>,
    ) -> Result<(), RegisterError> {
        let name = name.into();
        self.check_name(&name)?;
        self.register_function_tool(InProcessTool::new(name, description, function))
    }

    /// Adds a typed function with annotations as a local tool. A tool with `readOnlyHint` needs no
    /// permission.
    pub fn register_function_tool(&mut self, tool: InProcessTool) -> Result<(), RegisterError> {
        self.register(FunctionTool::new(tool))
    }

    /// Adds a local tool.
    pub fn register(&mut self, tool: impl Tool) -> Result<(), RegisterError> {
        self.check_name(tool.name())?;
        let input_schema = Arc::new(CompiledSchema::new(tool.input_schema()));
        let tool = Arc::new(tool);
        self.local.push(LocalTool { tool, input_schema });
        Ok(())
    }

    fn check_name(&self, name: &str) -> Result<(), RegisterError> {
        if name.is_empty() {
            return Err(RegisterError::EmptyName);
        }
        if name.starts_with(PREFIX) {
            return Err(RegisterError::ReservedName(name.to_owned()));
        }
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if name.len() > MAX_NAME_BYTES || !name.bytes().all(is_allowed) {
            return Err(RegisterError::InvalidName(name.to_owned()));
        }
        if self.find(name).is_some() {
            return Err(RegisterError::NameTaken(name.to_owned()));
        }
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

    /// Adds the local tools to the MCP tools and sorts all tools.
    fn in_listing_order(&self, mcp: Vec<ToolSpec>) -> Vec<ToolSpec> {
        let mut tools: Vec<_> = self.local.iter().map(LocalTool::spec).collect();
        let position = self.tools_before_mcp.unwrap_or(tools.len());
        tools.splice(position..position, mcp);
        lock(&self.order).sort(&mut tools, |tool| tool.name.as_str());
        tools
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
        self.in_listing_order(self.host.definitions())
    }

    fn definitions_for<'a>(&'a self, context: &'a CallContext) -> BoxFuture<'a, Vec<ToolSpec>> {
        Box::pin(async move { self.in_listing_order(self.host.definitions_for(context).await) })
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
