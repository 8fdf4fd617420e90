//! One tool of an [`InProcessServer`](super::InProcessServer): its definition and its handler.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use switchboard_wire::mcp::{CallToolResult, ErrorObject, ToolAnnotations, ToolDefinition};
use switchboard_wire::{BoxFuture, LocalCall};

use super::handler::{BlockingHandler, ErasedHandler, ToolHandler};
use super::server::ServerShared;
use super::{registration_panic, schema};

/// If this `_meta` key is true, the Claude CLI loads the tool before the first turn.
const META_ALWAYS_LOAD: &str = "anthropic/alwaysLoad";

/// A tool that can have a title, annotations and `_meta`. If name, description and function are
/// enough, use [`InProcessServer::tool`](super::InProcessServer::tool).
///
/// ```
/// use switchboard_server::{InProcessServer, InProcessTool};
///
/// let clock = InProcessTool::new("now", "Returns the time", || async { Ok("noon".to_owned()) })
///     .title("Clock")
///     .read_only();
/// let server = InProcessServer::new("clock", "1.0").with_tool(clock);
/// ```
pub struct InProcessTool {
    name: Arc<str>,
    definition: ToolDefinition,
    meta: Map<String, Value>,
    handler: ErasedHandler,
}

impl InProcessTool {
    /// Creates a tool that is an async function; see [`ToolHandler`] for the accepted signatures.
    ///
    /// # Panics
    ///
    /// If the name is empty, or if the type of the arguments is neither a struct nor a map.
    #[track_caller]
    pub fn new<Signature>(
        name: impl Into<String>,
        description: impl Into<String>,
        handler: impl ToolHandler<Signature>,
    ) -> Self {
        Self::from_handler(name.into(), description.into(), handler.into_handler())
    }

    /// Creates a tool that is a blocking function. The function runs on a thread of tokio's
    /// blocking pool.
    ///
    /// A cancelled or timed out call cannot stop the function. If the function takes long, it
    /// should check [`ToolContext::is_cancelled`](super::ToolContext::is_cancelled).
    ///
    /// # Panics
    ///
    /// If the name is empty, or if the type of the arguments is neither a struct nor a map.
    #[track_caller]
    pub fn blocking<Signature>(
        name: impl Into<String>,
        description: impl Into<String>,
        handler: impl BlockingHandler<Signature>,
    ) -> Self {
        Self::from_handler(name.into(), description.into(), handler.into_handler())
    }

    #[track_caller]
    fn from_handler(name: String, description: String, handler: ErasedHandler) -> Self {
        if name.is_empty() {
            registration_panic("cannot register a tool without a name");
        }
        let input = match &handler.input_schema {
            Ok(schema) => schema::to_json(schema.clone()),
            Err(why) => registration_panic(&format!("cannot register tool {name}: {why}")),
        };
        let mut definition = ToolDefinition::new(name, input).description(description);
        definition
            .output_schema
            .clone_from(&handler.output_format.schema);
        Self {
            name: definition.name.as_str().into(),
            definition,
            meta: Map::new(),
            handler,
        }
    }

    /// Sets the `title`, which clients display instead of the name.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.definition.title = Some(title.into());
        self
    }

    /// Replaces all annotations, including those that other methods have set.
    pub fn annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.definition.annotations = annotations;
        self
    }

    /// Sets `readOnlyHint`: the tool changes nothing.
    pub fn read_only(mut self) -> Self {
        self.definition.annotations.read_only = Some(true);
        self
    }

    /// Sets `destructiveHint`: the tool may delete or overwrite something.
    pub fn destructive(mut self) -> Self {
        self.definition.annotations.destructive = Some(true);
        self
    }

    /// Sets `idempotentHint`: a second call with the same arguments has no further effect.
    pub fn idempotent(mut self) -> Self {
        self.definition.annotations.idempotent = Some(true);
        self
    }

    /// Sets `openWorldHint`: the tool interacts with external systems.
    pub fn open_world(mut self) -> Self {
        self.definition.annotations.open_world = Some(true);
        self
    }

    /// Makes the Claude CLI show the tool to the model from the first turn on. Otherwise the CLI
    /// may show it only after a tool search.
    pub fn always_load(self) -> Self {
        self.meta(META_ALWAYS_LOAD, true)
    }

    /// Adds an entry to the `_meta` of the tool. Replaces an existing entry with the same key.
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.meta.insert(key.into(), value.into());
        self.definition.meta = Some(schema::to_json(self.meta.clone()));
        self
    }

    /// The tool as `tools/list` returns it.
    pub fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn run(
        &self,
        call: LocalCall<'_>,
        server: &Arc<ServerShared>,
    ) -> BoxFuture<'static, Result<CallToolResult, ErrorObject>> {
        self.handler.run(call, &self.name, server)
    }
}

impl fmt::Debug for InProcessTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InProcessTool")
            .field(&self.definition)
            .finish()
    }
}
