//! `InProcessServer`: the registry of typed tools, resources and prompts.
//!
//! All clones of a server share its tools, resources and prompts, so a change through one clone is
//! visible in every host that is connected to the server. Invariant: a change notification is sent
//! after the change.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::ready;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use indexmap::IndexMap;
use switchboard_wire::mcp::{
    CallToolResult, ErrorObject, GetPromptResult, Implementation, Prompt, ReadResourceResult,
    Resource, ResourceTemplate, ServerCapabilities, ToolDefinition,
};
use switchboard_wire::sync::lock;
use switchboard_wire::{BoxFuture, LocalCall, LocalServer, ServerNotification};
use tokio::sync::broadcast;

use super::error::ToolResult;
use super::handler::{BlockingHandler, ToolHandler};
use super::panic_error;
use super::prompt::{InProcessPrompt, PromptHandler};
use super::resource::{InProcessResource, InProcessTemplate, ResourceOutput};
use super::tool::InProcessTool;

/// Number of notifications that are kept for a slow subscriber. A subscriber that falls further
/// behind loses notifications and must treat everything as changed.
const NOTIFICATION_BACKLOG: usize = 64;

/// Items in the order of their registration. Replacing an item keeps its position.
type Registry<T> = Mutex<IndexMap<Arc<str>, Arc<T>>>;

/// An in-process server whose tools, resources and prompts are typed functions of this program.
///
/// See [the crate](crate) for an example. Cheap to clone; all clones are the same server.
#[derive(Clone)]
pub struct InProcessServer {
    shared: Arc<ServerShared>,
}

/// The state that all clones of a server share.
pub(super) struct ServerShared {
    implementation: Implementation,
    instructions: Mutex<Option<String>>,
    tools: Registry<InProcessTool>,
    /// The key is the URI.
    resources: Registry<InProcessResource>,
    /// The key is the text of the URI template.
    templates: Registry<InProcessTemplate>,
    prompts: Registry<InProcessPrompt>,
    /// Whether the `resources` capability is advertised even while there are no resources.
    advertises_resources: AtomicBool,
    /// Whether the `prompts` capability is advertised even while there are no prompts.
    advertises_prompts: AtomicBool,
    /// Values that the handlers share. The key is the type of the value.
    states: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    notifications: broadcast::Sender<ServerNotification>,
}

impl ServerShared {
    pub(super) fn state<S: Send + Sync + 'static>(&self) -> Option<Arc<S>> {
        let state = lock(&self.states).get(&TypeId::of::<S>()).cloned();
        state.and_then(|state| state.downcast().ok())
    }

    fn notify(&self, notification: ServerNotification) {
        // Sending fails if there is no subscriber. Then no one has to be notified.
        let _ = self.notifications.send(notification);
    }
}

impl InProcessServer {
    /// Creates a server without tools. It reports this name and version to clients.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            shared: Arc::new(ServerShared {
                implementation: Implementation::new(name, version),
                instructions: Mutex::default(),
                tools: Mutex::default(),
                resources: Mutex::default(),
                templates: Mutex::default(),
                prompts: Mutex::default(),
                advertises_resources: AtomicBool::new(false),
                advertises_prompts: AtomicBool::new(false),
                states: Mutex::default(),
                notifications: broadcast::Sender::new(NOTIFICATION_BACKLOG),
            }),
        }
    }

    pub(super) fn from_shared(shared: &Arc<ServerShared>) -> Self {
        let shared = Arc::clone(shared);
        Self { shared }
    }

    /// Sets the `instructions` of the server, which tell the model how to use it.
    pub fn instructions(self, text: impl Into<String>) -> Self {
        *lock(&self.shared.instructions) = Some(text.into());
        self
    }

    /// Adds a value that all tool handlers share. A handler gets the value by its type, with
    /// [`ToolContext::state`](super::ToolContext::state). Replaces an existing value of the same
    /// type.
    pub fn state<S: Send + Sync + 'static>(self, state: S) -> Self {
        lock(&self.shared.states).insert(TypeId::of::<S>(), Arc::new(state));
        self
    }

    /// Adds a tool that is an async function; see [`ToolHandler`] for the accepted signatures.
    /// Replaces an existing tool of the same name.
    ///
    /// # Panics
    ///
    /// If the name is empty, or if the type of the arguments is neither a struct nor a map.
    #[track_caller]
    pub fn tool<Signature>(
        self,
        name: impl Into<String>,
        description: impl Into<String>,
        handler: impl ToolHandler<Signature>,
    ) -> Self {
        self.with_tool(InProcessTool::new(name, description, handler))
    }

    /// Adds a tool that is a blocking function. The function runs on a thread of tokio's blocking
    /// pool; see [`InProcessTool::blocking`]. Replaces an existing tool of the same name.
    ///
    /// # Panics
    ///
    /// If the name is empty, or if the type of the arguments is neither a struct nor a map.
    #[track_caller]
    pub fn blocking_tool<Signature>(
        self,
        name: impl Into<String>,
        description: impl Into<String>,
        handler: impl BlockingHandler<Signature>,
    ) -> Self {
        self.with_tool(InProcessTool::blocking(name, description, handler))
    }

    /// Adds a tool that was built with [`InProcessTool`], for example with annotations. Replaces an
    /// existing tool of the same name.
    pub fn with_tool(self, tool: InProcessTool) -> Self {
        self.add_tool(tool);
        self
    }

    /// Adds a resource: a URI, and the async function that reads the resource. Replaces an existing
    /// resource with the same URI.
    ///
    /// # Panics
    ///
    /// If the URI is empty.
    #[track_caller]
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

    /// Adds a resource that was built with [`InProcessResource`], for example with a description.
    /// Replaces an existing resource with the same URI.
    pub fn with_resource(self, resource: InProcessResource) -> Self {
        self.add_resource(resource);
        self
    }

    /// Adds the resources that a URI template describes; see [`InProcessTemplate`]. If a URI
    /// matches several templates, the template that was added first reads the resource.
    ///
    /// # Panics
    ///
    /// If the template has no expression, or an expression other than `{name}` and `{+name}`.
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

    /// Adds a resource template that was built with [`InProcessTemplate`], for example with a
    /// description. Replaces an existing template with the same text.
    pub fn with_template(self, template: InProcessTemplate) -> Self {
        self.add_template(template);
        self
    }

    /// Adds a prompt: an async function that turns its arguments into messages. Replaces an
    /// existing prompt of the same name.
    ///
    /// # Panics
    ///
    /// If the type of the arguments is neither a struct nor a map, or has a field that cannot hold
    /// a string.
    #[track_caller]
    pub fn prompt<Signature>(
        self,
        name: impl Into<String>,
        description: impl Into<String>,
        handler: impl PromptHandler<Signature>,
    ) -> Self {
        self.with_prompt(InProcessPrompt::new(name, description, handler))
    }

    /// Adds a prompt that was built with [`InProcessPrompt`], for example with a title. Replaces an
    /// existing prompt of the same name.
    pub fn with_prompt(self, prompt: InProcessPrompt) -> Self {
        self.add_prompt(prompt);
        self
    }

    /// Advertises the `resources` capability although there are no resources yet.
    ///
    /// Call this if the first resource is added after clients have connected. A JSON-RPC client
    /// such as the Claude CLI reads the capabilities only when it connects. A `switchboard` host
    /// also notices later changes of the capabilities.
    pub fn advertise_resources(self) -> Self {
        self.shared
            .advertises_resources
            .store(true, Ordering::Relaxed);
        self
    }

    /// Advertises the `prompts` capability although there are no prompts yet.
    ///
    /// Call this if the first prompt is added after clients have connected. A JSON-RPC client such
    /// as the Claude CLI reads the capabilities only when it connects. A `switchboard` host also
    /// notices later changes of the capabilities.
    pub fn advertise_prompts(self) -> Self {
        self.shared
            .advertises_prompts
            .store(true, Ordering::Relaxed);
        self
    }

    /// Adds a tool to the running server and notifies its clients. Replaces an existing tool of the
    /// same name.
    ///
    /// A handler that changes its own server must get the server from
    /// [`ToolContext::server`](super::ToolContext::server). If it captured a clone of the server,
    /// that would be a reference cycle, and the server would never be freed.
    pub fn add_tool(&self, tool: InProcessTool) {
        let name = Arc::clone(tool.name());
        lock(&self.shared.tools).insert(name, Arc::new(tool));
        self.shared.notify(ServerNotification::ToolsChanged);
    }

    /// Removes a tool from the running server and notifies its clients. Calls in flight continue.
    /// Returns whether the tool existed.
    pub fn remove_tool(&self, name: &str) -> bool {
        let existed = lock(&self.shared.tools).shift_remove(name).is_some();
        if existed {
            self.shared.notify(ServerNotification::ToolsChanged);
        }
        existed
    }

    /// Adds a resource to the running server and notifies its clients. Replaces an existing
    /// resource with the same URI. See [`advertise_resources`](Self::advertise_resources) if the
    /// server had no resources before.
    pub fn add_resource(&self, resource: InProcessResource) {
        let uri = resource.definition().uri.as_str().into();
        lock(&self.shared.resources).insert(uri, Arc::new(resource));
        self.shared.notify(ServerNotification::ResourcesChanged);
    }

    /// Adds a resource template to the running server and notifies its clients. Replaces an
    /// existing template with the same text. See
    /// [`advertise_resources`](Self::advertise_resources) if the server had no resources before.
    pub fn add_template(&self, template: InProcessTemplate) {
        let text = template.definition().uri_template.as_str().into();
        lock(&self.shared.templates).insert(text, Arc::new(template));
        self.shared.notify(ServerNotification::ResourcesChanged);
    }

    /// Removes the resource with this URI, or the template with this text, from the running server
    /// and notifies its clients. Returns whether there was such a resource or template.
    pub fn remove_resource(&self, uri: &str) -> bool {
        let resource = lock(&self.shared.resources).shift_remove(uri);
        let template = lock(&self.shared.templates).shift_remove(uri);
        let existed = resource.is_some() || template.is_some();
        if existed {
            self.shared.notify(ServerNotification::ResourcesChanged);
        }
        existed
    }

    /// Notifies the clients that are subscribed to the resource with this URI that it has changed.
    pub fn notify_resource_updated(&self, uri: &str) {
        self.shared
            .notify(ServerNotification::ResourceUpdated(uri.into()));
    }

    /// Adds a prompt to the running server and notifies its clients. Replaces an existing prompt of
    /// the same name. See [`advertise_prompts`](Self::advertise_prompts) if the server had no
    /// prompts before.
    pub fn add_prompt(&self, prompt: InProcessPrompt) {
        let name = prompt.definition().name.as_str().into();
        lock(&self.shared.prompts).insert(name, Arc::new(prompt));
        self.shared.notify(ServerNotification::PromptsChanged);
    }

    /// Removes a prompt from the running server and notifies its clients. Returns whether the
    /// prompt existed.
    pub fn remove_prompt(&self, name: &str) -> bool {
        let existed = lock(&self.shared.prompts).shift_remove(name).is_some();
        if existed {
            self.shared.notify(ServerNotification::PromptsChanged);
        }
        existed
    }

    fn has_resources(&self) -> bool {
        let shared = &self.shared;
        shared.advertises_resources.load(Ordering::Relaxed)
            || !lock(&shared.resources).is_empty()
            || !lock(&shared.templates).is_empty()
    }

    fn has_prompts(&self) -> bool {
        self.shared.advertises_prompts.load(Ordering::Relaxed)
            || !lock(&self.shared.prompts).is_empty()
    }
}

/// Returns handles to all items of a registry, so that the lock is released before they are used.
fn items<T>(registry: &Registry<T>) -> Vec<Arc<T>> {
    lock(registry).values().cloned().collect()
}

/// Runs a handler of a resource or prompt. An error or a panic of the handler becomes a JSON-RPC
/// error, because only results of tools have `isError`. `what` names the resource or prompt in the
/// error for a panic.
async fn run_handler<T>(
    what: String,
    work: impl Future<Output = ToolResult<T>>,
) -> Result<T, ErrorObject> {
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(result) => {
            result.map_err(|error| ErrorObject::new(ErrorObject::INTERNAL, error.to_text()))
        }
        Err(payload) => Err(panic_error(&what, payload.as_ref())),
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
        let mut capabilities = ServerCapabilities::default().tools_list_changed();
        if resources {
            capabilities = capabilities.resources_list_changed().resources_subscribe();
        }
        if prompts {
            capabilities = capabilities.prompts_list_changed();
        }
        capabilities
    }

    fn tools(&self) -> Vec<ToolDefinition> {
        let tools = items(&self.shared.tools);
        tools.iter().map(|tool| tool.definition().clone()).collect()
    }

    fn call_tool<'a>(
        &'a self,
        call: LocalCall<'a>,
    ) -> BoxFuture<'a, Result<CallToolResult, ErrorObject>> {
        let tool = lock(&self.shared.tools).get(call.tool).cloned();
        match tool {
            Some(tool) => tool.run(call, &self.shared),
            None => Box::pin(ready(Err(ErrorObject::new(
                ErrorObject::INVALID_PARAMS,
                format!("tool {} does not exist; list the tools again", call.tool),
            )))),
        }
    }

    fn resources(&self) -> Vec<Resource> {
        let resources = items(&self.shared.resources);
        resources
            .iter()
            .map(|resource| resource.definition().clone())
            .collect()
    }

    fn resource_templates(&self) -> Vec<ResourceTemplate> {
        let templates = items(&self.shared.templates);
        templates
            .iter()
            .map(|template| template.definition().clone())
            .collect()
    }

    fn read_resource<'a>(
        &'a self,
        uri: &'a str,
    ) -> BoxFuture<'a, Result<ReadResourceResult, ErrorObject>> {
        Box::pin(async move {
            let resource = lock(&self.shared.resources).get(uri).cloned();
            let read = match resource {
                Some(resource) => Some(resource.read()),
                None => items(&self.shared.templates)
                    .iter()
                    .find_map(|template| template.read(uri)),
            };
            let read = read.ok_or_else(|| {
                ErrorObject::new(
                    ErrorObject::RESOURCE_NOT_FOUND,
                    format!("resource {uri} does not exist; list the resources again"),
                )
            })?;
            run_handler(format!("resource {uri}"), read).await
        })
    }

    fn prompts(&self) -> Vec<Prompt> {
        let prompts = items(&self.shared.prompts);
        prompts
            .iter()
            .map(|prompt| prompt.definition().clone())
            .collect()
    }

    fn get_prompt<'a>(
        &'a self,
        name: &'a str,
        arguments: &'a BTreeMap<String, String>,
    ) -> BoxFuture<'a, Result<GetPromptResult, ErrorObject>> {
        Box::pin(async move {
            let prompt = lock(&self.shared.prompts).get(name).cloned();
            let prompt = prompt.ok_or_else(|| {
                ErrorObject::new(
                    ErrorObject::INVALID_PARAMS,
                    format!("prompt {name} does not exist; list the prompts again"),
                )
            })?;
            run_handler(format!("prompt {name}"), prompt.run(arguments)?).await
        })
    }

    fn instance_id(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }

    fn notifications(&self) -> Option<broadcast::Receiver<ServerNotification>> {
        Some(self.shared.notifications.subscribe())
    }
}

impl fmt::Debug for InProcessServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcessServer")
            .field("implementation", &self.shared.implementation)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ServerShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerShared")
            .field("implementation", &self.implementation)
            .finish_non_exhaustive()
    }
}
