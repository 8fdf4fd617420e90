//! A server made of the program's own functions.
//!
//! Cheap to clone: all clones are one server, and what is added to one is offered by all, in every
//! host that it is connected to. Invariant: whatever changes, whoever listens is told after the
//! change.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::future::ready;
use std::sync::{Arc, Mutex};

use tokio::sync::broadcast;

use super::handler::{BlockingHandler, ToolHandler};
use super::shelf::Shelf;
use super::tool::InProcessTool;
use crate::interact::BoxFuture;
use crate::mcp::{CallToolResult, ErrorObject, Implementation, ServerCapabilities, Tool};
use crate::sync::lock;
use crate::transport::memory::{LocalCall, LocalNotice, LocalServer};

/// Notices that a listener may be behind. It is told that it missed some, and lists anew.
const NOTICES: usize = 64;

/// A server made of the program's own functions: tools, resources and prompts with their types.
///
/// See [the module](crate::inprocess) for an example. Cheap to clone; all clones are the same server.
#[derive(Clone)]
pub struct InProcessServer {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    implementation: Implementation,
    instructions: Mutex<Option<String>>,
    tools: Mutex<Shelf<InProcessTool>>,
    /// What handlers share, by its type.
    states: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    notices: broadcast::Sender<LocalNotice>,
}

impl Shared {
    pub(super) fn state<S: Send + Sync + 'static>(&self) -> Option<Arc<S>> {
        let state = lock(&self.states).get(&TypeId::of::<S>()).cloned();
        state.and_then(|state| state.downcast().ok())
    }

    /// Nobody has to be listening.
    fn tell(&self, notice: LocalNotice) {
        let _ = self.notices.send(notice);
    }
}

impl InProcessServer {
    /// A server that offers nothing yet, with the name and version by which it introduces itself.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            shared: Arc::new(Shared {
                implementation: Implementation::new(name, version),
                instructions: Mutex::default(),
                tools: Mutex::default(),
                states: Mutex::default(),
                notices: broadcast::Sender::new(NOTICES),
            }),
        }
    }

    /// Says how the server wishes to be used, to the model.
    pub fn instructions(self, text: impl Into<String>) -> Self {
        *lock(&self.shared.instructions) = Some(text.into());
        self
    }

    /// Gives handlers something to share, which they find by its type in their
    /// [`ToolContext`](super::ToolContext::state). A second value of a type takes the place of the
    /// first.
    pub fn state<S: Send + Sync + 'static>(self, state: S) -> Self {
        lock(&self.shared.states).insert(TypeId::of::<S>(), Arc::new(state));
        self
    }

    /// Adds a tool that is an async function; see [`ToolHandler`] for its forms. Of two tools of one
    /// name, the later replaces the earlier.
    ///
    /// # Panics
    ///
    /// If the type of the arguments is not one of named values, a struct or a map.
    #[track_caller]
    pub fn tool<Marks>(
        self,
        name: impl Into<String>,
        description: impl Into<String>,
        handler: impl ToolHandler<Marks>,
    ) -> Self {
        self.with(InProcessTool::new(name, description, handler))
    }

    /// Adds a tool that is a function which takes its time, on one of the threads that may block.
    /// See [`InProcessTool::blocking`].
    ///
    /// # Panics
    ///
    /// If the type of the arguments is not one of named values, a struct or a map.
    #[track_caller]
    pub fn blocking_tool<Marks>(
        self,
        name: impl Into<String>,
        description: impl Into<String>,
        handler: impl BlockingHandler<Marks>,
    ) -> Self {
        self.with(InProcessTool::blocking(name, description, handler))
    }

    /// Adds a tool of which more is said than its name and description.
    pub fn with(self, tool: InProcessTool) -> Self {
        self.add_tool(tool);
        self
    }

    /// Adds a tool while the server runs, in the place of one of the same name.
    pub fn add_tool(&self, tool: InProcessTool) {
        let name = Arc::clone(tool.name());
        lock(&self.shared.tools).put(name, tool);
        self.shared.tell(LocalNotice::ToolsChanged);
    }

    /// Removes a tool while the server runs; calls under way go on. Says whether there was one.
    pub fn remove_tool(&self, name: &str) -> bool {
        let was_there = lock(&self.shared.tools).remove(name);
        if was_there {
            self.shared.tell(LocalNotice::ToolsChanged);
        }
        was_there
    }
}

impl LocalServer for InProcessServer {
    fn implementation(&self) -> Implementation {
        self.shared.implementation.clone()
    }

    fn instructions(&self) -> Option<String> {
        lock(&self.shared.instructions).clone()
    }

    fn capabilities(&self) -> ServerCapabilities {
        ServerCapabilities {
            tools: true,
            tools_list_changed: true,
            ..ServerCapabilities::default()
        }
    }

    fn tools(&self) -> Vec<Tool> {
        let tools = lock(&self.shared.tools).all();
        tools.iter().map(|tool| tool.definition().clone()).collect()
    }

    fn call<'a>(
        &'a self,
        call: LocalCall<'a>,
    ) -> BoxFuture<'a, Result<CallToolResult, ErrorObject>> {
        let tool = lock(&self.shared.tools).find(call.tool);
        match tool {
            Some(tool) => tool.run(call, &self.shared),
            None => Box::pin(ready(Err(ErrorObject::new(
                ErrorObject::INVALID_PARAMS,
                format!("there is no tool {}: list the tools anew", call.tool),
            )))),
        }
    }

    fn notices(&self) -> Option<broadcast::Receiver<LocalNotice>> {
        Some(self.shared.notices.subscribe())
    }
}

impl fmt::Debug for InProcessServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcessServer")
            .field("implementation", &self.shared.implementation)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("implementation", &self.implementation)
            .finish_non_exhaustive()
    }
}
