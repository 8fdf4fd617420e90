//! One tool of a server in this process: its description and the function behind it.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::handler::{BlockingHandler, ToolHandler, Work};
use super::server::Shared;
use super::{misuse, schema};
use crate::interact::BoxFuture;
use crate::mcp::{CallToolResult, ErrorObject, Tool, ToolAnnotations};
use crate::transport::memory::LocalCall;

/// Where the Claude CLI looks whether a tool shall be there from the first turn on.
const ALWAYS_LOAD: &str = "anthropic/alwaysLoad";

/// A tool with everything that can be said of it. Where a name, a description and a function are
/// enough, [`InProcessServer::tool`](super::InProcessServer::tool) is shorter.
///
/// ```
/// use switchboard::inprocess::{InProcessServer, InProcessTool};
///
/// let clock = InProcessTool::new("now", "Tells the time", || async { Ok("noon".to_owned()) })
///     .title("Clock")
///     .read_only();
/// let server = InProcessServer::new("clock", "1.0").with(clock);
/// ```
pub struct InProcessTool {
    name: Arc<str>,
    definition: Tool,
    meta: Map<String, Value>,
    work: Work,
}

impl InProcessTool {
    /// A tool that is an async function; see [`ToolHandler`] for its forms.
    ///
    /// # Panics
    ///
    /// If the name is empty, or the type of the arguments is not one of named values, a struct or a map.
    #[track_caller]
    pub fn new<Marks>(
        name: impl Into<String>,
        description: impl Into<String>,
        handler: impl ToolHandler<Marks>,
    ) -> Self {
        Self::of(name.into(), description.into(), handler.into_work())
    }

    /// A tool that is a function which takes its time, on one of the threads that may block.
    ///
    /// Nothing can stop it from outside. One that takes long asks its context whether it is still
    /// wanted.
    ///
    /// # Panics
    ///
    /// If the name is empty, or the type of the arguments is not one of named values, a struct or a map.
    #[track_caller]
    pub fn blocking<Marks>(
        name: impl Into<String>,
        description: impl Into<String>,
        handler: impl BlockingHandler<Marks>,
    ) -> Self {
        Self::of(name.into(), description.into(), handler.into_work())
    }

    #[track_caller]
    fn of(name: String, description: String, work: Work) -> Self {
        if name.is_empty() {
            misuse("a tool cannot be registered without a name");
        }
        let input = match &work.input {
            Ok(schema) => schema::to_json(schema.clone()),
            Err(why) => misuse(&format!("the tool {name} cannot be registered: {why}")),
        };
        let mut definition = Tool::new(name, input).description(description);
        definition.output_schema.clone_from(&work.form.schema);
        Self {
            name: definition.name.as_str().into(),
            definition,
            meta: Map::new(),
            work,
        }
    }

    /// A name for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.definition.title = Some(title.into());
        self
    }

    /// Says how the tool behaves, instead of what was said before.
    pub fn annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.definition.annotations = annotations;
        self
    }

    /// Says that it changes nothing.
    pub fn read_only(mut self) -> Self {
        self.definition.annotations.read_only = Some(true);
        self
    }

    /// Says that it may destroy something.
    pub fn destructive(mut self) -> Self {
        self.definition.annotations.destructive = Some(true);
        self
    }

    /// Says that calling it twice is like calling it once.
    pub fn idempotent(mut self) -> Self {
        self.definition.annotations.idempotent = Some(true);
        self
    }

    /// Says that it talks to the world outside.
    pub fn open_world(mut self) -> Self {
        self.definition.annotations.open_world = Some(true);
        self
    }

    /// Asks the Claude CLI to show the tool to the model from the first turn on, where it would
    /// otherwise have to be searched for.
    pub fn always_load(self) -> Self {
        self.meta(ALWAYS_LOAD, true)
    }

    /// Adds something to what is known of the tool (`_meta`).
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.meta.insert(key.into(), value.into());
        self.definition.meta = Some(schema::to_json(self.meta.clone()));
        self
    }

    /// The tool as it is listed.
    pub fn definition(&self) -> &Tool {
        &self.definition
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn run(
        &self,
        call: LocalCall<'_>,
        server: &Arc<Shared>,
    ) -> BoxFuture<'static, Result<CallToolResult, ErrorObject>> {
        self.work.run(call, &self.name, server)
    }
}

impl fmt::Debug for InProcessTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InProcessTool")
            .field(&self.definition)
            .finish()
    }
}
