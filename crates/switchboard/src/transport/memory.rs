//! Servers that live in this process.
//!
//! What a host and the [adapter](crate::inprocess::Adapter) need of one, and nothing about how it is
//! made: [`InProcessServer`](crate::InProcessServer) makes them from typed functions.

use std::collections::BTreeMap;
use std::fmt;
use std::ptr;
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value};
use tokio::sync::{broadcast, mpsc};

use super::Dial;
use crate::interact::BoxFuture;
use crate::mcp::{
    CallToolResult, ErrorObject, GetPromptResult, Implementation, Progress, Prompt,
    ReadResourceResult, Resource, ResourceTemplate, ServerCapabilities, Tool,
};
use crate::session::{ActivityClock, ToolRequest};
use crate::sync::lock;

/// A server in this process. Its calls take the same way as any other server's: catalog, schema,
/// permission, permits, content; only the wire is left out.
pub trait LocalServer: Send + Sync + 'static {
    /// Its name and version.
    fn implementation(&self) -> Implementation;

    /// How it wishes to be used.
    fn instructions(&self) -> Option<String> {
        None
    }

    /// What it offers; tools alone unless it says otherwise.
    fn capabilities(&self) -> ServerCapabilities {
        ServerCapabilities {
            tools: true,
            ..ServerCapabilities::default()
        }
    }

    /// Its tools.
    fn tools(&self) -> Vec<Tool>;

    /// Runs one of them. Arguments fit the tool's schema when they get here. The future is dropped
    /// when the call is cancelled; a panic in it fails the one call.
    fn call<'a>(
        &'a self,
        call: LocalCall<'a>,
    ) -> BoxFuture<'a, Result<CallToolResult, ErrorObject>>;

    /// Its resources.
    fn resources(&self) -> Vec<Resource> {
        Vec::new()
    }

    /// Addresses of resources that are made by filling something in.
    fn resource_templates(&self) -> Vec<ResourceTemplate> {
        Vec::new()
    }

    /// Reads a resource.
    fn read<'a>(&'a self, uri: &'a str) -> BoxFuture<'a, Result<ReadResourceResult, ErrorObject>> {
        Box::pin(std::future::ready(Err(ErrorObject::new(
            ErrorObject::RESOURCE_NOT_FOUND,
            format!("there is no resource {uri}"),
        ))))
    }

    /// Its prompts.
    fn prompts(&self) -> Vec<Prompt> {
        Vec::new()
    }

    /// Fills in a prompt.
    fn prompt<'a>(
        &'a self,
        name: &'a str,
        arguments: &'a BTreeMap<String, String>,
    ) -> BoxFuture<'a, Result<GetPromptResult, ErrorObject>> {
        let _ = arguments;
        Box::pin(std::future::ready(Err(ErrorObject::new(
            ErrorObject::INVALID_PARAMS,
            format!("there is no prompt {name}"),
        ))))
    }

    /// The same number for clones of one server, and different ones for servers that are there at the
    /// same time: the address of what the clones share. A server that is not cloned has its own.
    fn identity(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// What it says by itself from now on. Whoever falls behind is told nothing of what it missed and
    /// has to look for itself.
    fn notices(&self) -> Option<broadcast::Receiver<LocalNotice>> {
        None
    }
}

impl<S: LocalServer + ?Sized> LocalServer for Arc<S> {
    fn implementation(&self) -> Implementation {
        (**self).implementation()
    }

    fn instructions(&self) -> Option<String> {
        (**self).instructions()
    }

    fn capabilities(&self) -> ServerCapabilities {
        (**self).capabilities()
    }

    fn tools(&self) -> Vec<Tool> {
        (**self).tools()
    }

    fn call<'a>(
        &'a self,
        call: LocalCall<'a>,
    ) -> BoxFuture<'a, Result<CallToolResult, ErrorObject>> {
        (**self).call(call)
    }

    fn resources(&self) -> Vec<Resource> {
        (**self).resources()
    }

    fn resource_templates(&self) -> Vec<ResourceTemplate> {
        (**self).resource_templates()
    }

    fn read<'a>(&'a self, uri: &'a str) -> BoxFuture<'a, Result<ReadResourceResult, ErrorObject>> {
        (**self).read(uri)
    }

    fn prompts(&self) -> Vec<Prompt> {
        (**self).prompts()
    }

    fn prompt<'a>(
        &'a self,
        name: &'a str,
        arguments: &'a BTreeMap<String, String>,
    ) -> BoxFuture<'a, Result<GetPromptResult, ErrorObject>> {
        (**self).prompt(name, arguments)
    }

    fn identity(&self) -> usize {
        (**self).identity()
    }

    fn notices(&self) -> Option<broadcast::Receiver<LocalNotice>> {
        (**self).notices()
    }
}

/// What a server in this process says by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LocalNotice {
    /// There are other tools than before.
    ToolsChanged,
    /// There are other resources or templates than before.
    ResourcesChanged,
    /// There are other prompts than before.
    PromptsChanged,
    /// The resource at this address has changed.
    ResourceUpdated(Arc<str>),
}

/// One call of a tool in this process.
#[derive(Debug)]
#[non_exhaustive]
pub struct LocalCall<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// Its arguments.
    pub arguments: &'a Map<String, Value>,
    /// What the caller added to the call (`_meta`).
    pub meta: Map<String, Value>,
    progress: Option<mpsc::Sender<Progress>>,
    life: Option<&'a Arc<ActivityClock>>,
}

impl<'a> LocalCall<'a> {
    pub(crate) fn new(request: &ToolRequest<'a>, life: &'a Arc<ActivityClock>) -> Self {
        let mut meta = Map::new();
        if let Some(trace) = request.trace {
            meta.insert("traceparent".to_owned(), trace.into());
        }
        Self {
            tool: request.target.tool(),
            arguments: request.arguments,
            meta,
            progress: request.progress.clone(),
            life: Some(life),
        }
    }

    /// A call that came from elsewhere. Progress goes to whoever listens.
    pub(crate) fn from_afar(
        tool: &'a str,
        arguments: &'a Map<String, Value>,
        meta: Map<String, Value>,
        progress: Option<mpsc::Sender<Progress>>,
    ) -> Self {
        Self {
            tool,
            arguments,
            meta,
            progress,
            life: None,
        }
    }

    /// Says how far the call has come, which is a sign of life. Dropped silently when nobody listens
    /// or listens too slowly.
    pub fn report(&self, progress: Progress) {
        report(self.life, self.progress.as_ref(), progress);
    }

    /// The same, to be kept beyond this borrow.
    pub fn reporter(&self) -> Reporter {
        Reporter {
            progress: self.progress.clone(),
            life: self.life.cloned(),
        }
    }
}

fn report(
    life: Option<&Arc<ActivityClock>>,
    to: Option<&mpsc::Sender<Progress>>,
    progress: Progress,
) {
    if let Some(life) = life {
        life.touch();
    }
    if let Some(listener) = to {
        let _ = listener.try_send(progress);
    }
}

/// Says how far a call has come.
#[derive(Clone, Debug)]
pub struct Reporter {
    progress: Option<mpsc::Sender<Progress>>,
    life: Option<Arc<ActivityClock>>,
}

impl Reporter {
    /// Says how far the call has come, which is a sign of life. Dropped silently when nobody listens
    /// or listens too slowly.
    pub fn report(&self, progress: Progress) {
        report(self.life.as_ref(), self.progress.as_ref(), progress);
    }
}

/// A server of the embedding program: to be connected wherever it is wanted, as often as it is wanted.
/// Whoever disconnects it lets go of it, and no more.
#[derive(Clone)]
pub struct Instance(pub(crate) Kind);

#[derive(Clone)]
pub(crate) enum Kind {
    /// Called directly.
    Local(Arc<dyn LocalServer>),
    /// Spoken to in the protocol, over a stream of its own for each connection.
    Stream(Arc<dyn Dial>),
}

impl Instance {
    /// A server that speaks the protocol, with a stream of bytes for each connection.
    pub fn stream(dial: impl Dial) -> Self {
        Self(Kind::Stream(Arc::new(dial)))
    }

    /// Whether the other is a clone of this one, or made of a clone of the same server.
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Kind::Local(one), Kind::Local(two)) => {
                Arc::ptr_eq(one, two) || one.identity() == two.identity()
            }
            (Kind::Stream(one), Kind::Stream(two)) => Arc::ptr_eq(one, two),
            _ => false,
        }
    }
}

impl<S: LocalServer> From<S> for Instance {
    fn from(server: S) -> Self {
        Self(Kind::Local(Arc::new(server)))
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Kind::Local(_) => "Instance::Local",
            Kind::Stream(_) => "Instance::Stream",
        })
    }
}

/// The servers of the embedding program, by the names under which entries ask for them. Looked into
/// at every attempt to connect: what is provided later is found by the next one.
#[derive(Debug, Default)]
pub(crate) struct Instances(Mutex<BTreeMap<String, Instance>>);

impl Instances {
    pub(crate) fn new(instances: BTreeMap<String, Instance>) -> Self {
        Self(Mutex::new(instances))
    }

    /// Says what was there before.
    pub(crate) fn put(&self, name: String, instance: Instance) -> Option<Instance> {
        lock(&self.0).insert(name, instance)
    }

    pub(crate) fn take(&self, name: &str) -> Option<Instance> {
        lock(&self.0).remove(name)
    }

    /// The one of this name, or the names of those that there are.
    pub(crate) fn named(&self, name: &str) -> Result<Instance, Vec<String>> {
        let instances = lock(&self.0);
        let instance = instances.get(name).cloned();
        instance.ok_or_else(|| instances.keys().cloned().collect())
    }
}
