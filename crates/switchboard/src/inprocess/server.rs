//! A server made of the program's own functions.
//!
//! Cheap to clone: all clones are one server, and what is added to one is offered by all, in every
//! host that it is connected to. Invariant: whatever changes, whoever listens is told after the
//! change.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::ready;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use tokio::sync::broadcast;

use super::error::ToolResult;
use super::handler::{BlockingHandler, ToolHandler, panicked};
use super::prompt::{InProcessPrompt, PromptHandler};
use super::resource::{InProcessResource, InProcessTemplate, ResourceOutput};
use super::shelf::Shelf;
use super::tool::InProcessTool;
use crate::interact::BoxFuture;
use crate::mcp::{
    CallToolResult, ErrorObject, GetPromptResult, Implementation, Prompt, ReadResourceResult,
    Resource, ResourceTemplate, ServerCapabilities, Tool,
};
use crate::sync::lock;
use crate::transport::memory::{LocalCall, LocalServer, ServerNotification};

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
    resources: Mutex<Shelf<InProcessResource>>,
    templates: Mutex<Shelf<InProcessTemplate>>,
    prompts: Mutex<Shelf<InProcessPrompt>>,
    /// Resources or prompts are announced though there may be none as yet.
    expects_resources: AtomicBool,
    expects_prompts: AtomicBool,
    /// What handlers share, by its type.
    states: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    notices: broadcast::Sender<ServerNotification>,
}

impl Shared {
    pub(super) fn state<S: Send + Sync + 'static>(&self) -> Option<Arc<S>> {
        let state = lock(&self.states).get(&TypeId::of::<S>()).cloned();
        state.and_then(|state| state.downcast().ok())
    }

    /// Nobody has to be listening.
    fn tell(&self, notice: ServerNotification) {
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
                resources: Mutex::default(),
                templates: Mutex::default(),
                prompts: Mutex::default(),
                expects_resources: AtomicBool::new(false),
                expects_prompts: AtomicBool::new(false),
                states: Mutex::default(),
                notices: broadcast::Sender::new(NOTICES),
            }),
        }
    }

    pub(super) fn of(shared: &Arc<Shared>) -> Self {
        let shared = Arc::clone(shared);
        Self { shared }
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
    /// If the name is empty, or the type of the arguments is not one of named values, a struct or a map.
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
    /// If the name is empty, or the type of the arguments is not one of named values, a struct or a map.
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

    /// Adds a resource: an address, and the async function that reads what is there. Of two resources
    /// at one address, the later replaces the earlier.
    pub fn resource<F, Fut, R>(
        self,
        uri: impl Into<String>,
        name: impl Into<String>,
        handler: F,
    ) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ToolResult<R>> + Send + 'static,
        R: ResourceOutput,
    {
        self.with_resource(InProcessResource::new(uri, name, handler))
    }

    /// Adds a resource of which more is said.
    pub fn with_resource(self, resource: InProcessResource) -> Self {
        self.add_resource(resource);
        self
    }

    /// Adds resources whose addresses are made by filling something in; see [`InProcessTemplate`].
    /// An address that fits several templates belongs to the first of them.
    ///
    /// # Panics
    ///
    /// If the template has no expressions, or others than `{name}` and `{+name}`.
    #[track_caller]
    pub fn resource_template<F, Fut, R>(
        self,
        template: impl Into<String>,
        name: impl Into<String>,
        handler: F,
    ) -> Self
    where
        F: Fn(BTreeMap<String, String>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ToolResult<R>> + Send + 'static,
        R: ResourceOutput,
    {
        self.with_template(InProcessTemplate::new(template, name, handler))
    }

    /// Adds resources by a template of which more is said.
    pub fn with_template(self, template: InProcessTemplate) -> Self {
        self.add_template(template);
        self
    }

    /// Adds a prompt: an async function that makes messages of its arguments. Of two prompts of one
    /// name, the later replaces the earlier.
    ///
    /// # Panics
    ///
    /// If the type of the arguments is not a struct, or has fields that cannot be text.
    #[track_caller]
    pub fn prompt<Marks>(
        self,
        name: impl Into<String>,
        description: impl Into<String>,
        handler: impl PromptHandler<Marks>,
    ) -> Self {
        self.with_prompt(InProcessPrompt::new(name, description, handler))
    }

    /// Adds a prompt of which more is said.
    pub fn with_prompt(self, prompt: InProcessPrompt) -> Self {
        self.add_prompt(prompt);
        self
    }

    /// Announces resources though there are none as yet. A server that has some announces them by
    /// itself, and a host sees what is added later in any case. Who speaks the protocol, as the Claude
    /// CLI does, is told once, when it connects, and needs this for resources that come later.
    pub fn expect_resources(self) -> Self {
        self.shared.expects_resources.store(true, Ordering::Relaxed);
        self
    }

    /// Announces prompts though there are none as yet. A server that has some announces them by
    /// itself, and a host sees what is added later in any case. Who speaks the protocol, as the Claude
    /// CLI does, is told once, when it connects, and needs this for prompts that come later.
    pub fn expect_prompts(self) -> Self {
        self.shared.expects_prompts.store(true, Ordering::Relaxed);
        self
    }

    /// Adds a tool while the server runs, in the place of one of the same name.
    ///
    /// A tool that changes its own server asks its context for it
    /// ([`ToolContext::server`](super::ToolContext::server)): were a clone kept in the handler, the
    /// server would hold itself and never be freed.
    pub fn add_tool(&self, tool: InProcessTool) {
        let name = Arc::clone(tool.name());
        lock(&self.shared.tools).put(name, tool);
        self.shared.tell(ServerNotification::ToolsChanged);
    }

    /// Removes a tool while the server runs; calls under way go on. Says whether there was one.
    pub fn remove_tool(&self, name: &str) -> bool {
        let was_there = lock(&self.shared.tools).remove(name);
        if was_there {
            self.shared.tell(ServerNotification::ToolsChanged);
        }
        was_there
    }

    /// Adds a resource while the server runs, in the place of one at the same address. Where it is the
    /// first, the Claude CLI knows of it only after [`expect_resources`](Self::expect_resources).
    pub fn add_resource(&self, resource: InProcessResource) {
        let uri = resource.listed().uri.as_str().into();
        lock(&self.shared.resources).put(uri, resource);
        self.shared.tell(ServerNotification::ResourcesChanged);
    }

    /// Adds a template of resources while the server runs, in the place of the same one. Where it is
    /// the first, the Claude CLI knows of it only after [`expect_resources`](Self::expect_resources).
    pub fn add_template(&self, template: InProcessTemplate) {
        let text = template.listed().uri_template.as_str().into();
        lock(&self.shared.templates).put(text, template);
        self.shared.tell(ServerNotification::ResourcesChanged);
    }

    /// Removes the resource at an address, or a template, while the server runs. Says whether there
    /// was one.
    pub fn remove_resource(&self, uri: &str) -> bool {
        let was_resource = lock(&self.shared.resources).remove(uri);
        let was_template = lock(&self.shared.templates).remove(uri);
        let was_there = was_resource || was_template;
        if was_there {
            self.shared.tell(ServerNotification::ResourcesChanged);
        }
        was_there
    }

    /// Tells whoever watches it that the resource at this address has changed.
    pub fn resource_updated(&self, uri: &str) {
        self.shared
            .tell(ServerNotification::ResourceUpdated(uri.into()));
    }

    /// Adds a prompt while the server runs, in the place of one of the same name. Where it is the
    /// first, the Claude CLI knows of it only after [`expect_prompts`](Self::expect_prompts).
    pub fn add_prompt(&self, prompt: InProcessPrompt) {
        let name = prompt.listed().name.as_str().into();
        lock(&self.shared.prompts).put(name, prompt);
        self.shared.tell(ServerNotification::PromptsChanged);
    }

    /// Removes a prompt while the server runs. Says whether there was one.
    pub fn remove_prompt(&self, name: &str) -> bool {
        let was_there = lock(&self.shared.prompts).remove(name);
        if was_there {
            self.shared.tell(ServerNotification::PromptsChanged);
        }
        was_there
    }

    fn has_resources(&self) -> bool {
        let shared = &self.shared;
        shared.expects_resources.load(Ordering::Relaxed)
            || !lock(&shared.resources).is_empty()
            || !lock(&shared.templates).is_empty()
    }

    fn has_prompts(&self) -> bool {
        self.shared.expects_prompts.load(Ordering::Relaxed)
            || !lock(&self.shared.prompts).is_empty()
    }
}

/// The answer to a request that is not a call: there, a failure is a refusal.
async fn answer<T>(
    what: String,
    work: impl Future<Output = ToolResult<T>>,
) -> Result<T, ErrorObject> {
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(outcome) => {
            outcome.map_err(|error| ErrorObject::new(ErrorObject::INTERNAL, error.to_text()))
        }
        Err(payload) => Err(panicked(&what, payload.as_ref())),
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
        let (resources, prompts) = (self.has_resources(), self.has_prompts());
        ServerCapabilities {
            tools: true,
            tools_list_changed: true,
            resources,
            resources_list_changed: resources,
            resources_subscribe: resources,
            prompts,
            prompts_list_changed: prompts,
            ..ServerCapabilities::default()
        }
    }

    fn tools(&self) -> Vec<Tool> {
        let tools = lock(&self.shared.tools).all();
        tools.iter().map(|tool| tool.definition().clone()).collect()
    }

    fn call_tool<'a>(
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

    fn resources(&self) -> Vec<Resource> {
        let resources = lock(&self.shared.resources).all();
        resources.iter().map(|one| one.listed().clone()).collect()
    }

    fn resource_templates(&self) -> Vec<ResourceTemplate> {
        let templates = lock(&self.shared.templates).all();
        templates.iter().map(|one| one.listed().clone()).collect()
    }

    fn read_resource<'a>(
        &'a self,
        uri: &'a str,
    ) -> BoxFuture<'a, Result<ReadResourceResult, ErrorObject>> {
        Box::pin(async move {
            let resource = lock(&self.shared.resources).find(uri);
            let templates = || lock(&self.shared.templates).all();
            let reading = match resource {
                Some(resource) => Some(resource.read()),
                None => templates().iter().find_map(|template| template.read(uri)),
            };
            let reading = reading.ok_or_else(|| {
                ErrorObject::new(
                    ErrorObject::RESOURCE_NOT_FOUND,
                    format!("there is no resource {uri}: list the resources anew"),
                )
            })?;
            answer(format!("the resource {uri}"), reading).await
        })
    }

    fn prompts(&self) -> Vec<Prompt> {
        let prompts = lock(&self.shared.prompts).all();
        prompts.iter().map(|one| one.listed().clone()).collect()
    }

    fn get_prompt<'a>(
        &'a self,
        name: &'a str,
        arguments: &'a BTreeMap<String, String>,
    ) -> BoxFuture<'a, Result<GetPromptResult, ErrorObject>> {
        Box::pin(async move {
            let prompt = lock(&self.shared.prompts).find(name);
            let prompt = prompt.ok_or_else(|| {
                ErrorObject::new(
                    ErrorObject::INVALID_PARAMS,
                    format!("there is no prompt {name}: list the prompts anew"),
                )
            })?;
            answer(format!("the prompt {name}"), prompt.tell(arguments)?).await
        })
    }

    fn instance_id(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }

    fn notifications(&self) -> Option<broadcast::Receiver<ServerNotification>> {
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
