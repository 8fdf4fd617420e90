//! In-process servers: the trait that a server implements, and the values it exchanges with its
//! caller.
//!
//! The client crate calls such a server directly, without JSON; the server crate exposes it as
//! JSON-RPC. This module contains only the trait and the values.

use std::collections::BTreeMap;
use std::fmt;
use std::ptr;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::{broadcast, mpsc};

use crate::BoxFuture;
use crate::byte_streams::Connector;
use crate::mcp::{
    CallToolResult, ErrorObject, GetPromptResult, Implementation, Progress, Prompt,
    ReadResourceResult, Resource, ResourceTemplate, ServerCapabilities, ToolDefinition,
};

/// A server in this process.
///
/// Its tools are listed, validated, permitted and limited like those of any other server; only
/// the wire format is skipped.
pub trait LocalServer: Send + Sync + 'static {
    /// Returns the server's name and version.
    fn implementation(&self) -> Implementation;

    /// Returns instructions for the model, if there are any.
    fn instructions(&self) -> Option<String> {
        None
    }

    /// Returns the server's capabilities. The default is tools only.
    fn capabilities(&self) -> ServerCapabilities {
        ServerCapabilities::default().tools()
    }

    /// Lists the tools.
    fn tools(&self) -> Vec<ToolDefinition>;

    /// Runs one tool. The arguments have been validated against the tool's input schema, unless
    /// this schema cannot be compiled.
    ///
    /// The future is dropped when the call is cancelled. A panic in it fails only this call.
    fn call_tool<'a>(
        &'a self,
        call: LocalCall<'a>,
    ) -> BoxFuture<'a, Result<CallToolResult, ErrorObject>>;

    /// Lists the resources.
    fn resources(&self) -> Vec<Resource> {
        Vec::new()
    }

    /// Lists the URI templates of resources.
    fn resource_templates(&self) -> Vec<ResourceTemplate> {
        Vec::new()
    }

    /// Reads a resource.
    fn read_resource<'a>(
        &'a self,
        uri: &'a str,
    ) -> BoxFuture<'a, Result<ReadResourceResult, ErrorObject>> {
        Box::pin(std::future::ready(Err(ErrorObject::new(
            ErrorObject::RESOURCE_NOT_FOUND,
            format!("there is no resource {uri}"),
        ))))
    }

    /// Lists the prompts.
    fn prompts(&self) -> Vec<Prompt> {
        Vec::new()
    }

    /// Returns the messages of a prompt, with these arguments filled in.
    fn get_prompt<'a>(
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

    /// Identifies the server while it is alive: equal for clones that share their state, different
    /// for two servers that exist at the same time.
    ///
    /// The default is the address of `self`. A server whose clones share state returns the address
    /// of that state.
    fn instance_id(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Subscribes to the server's notifications from now on; `None` if it never sends any.
    ///
    /// A receiver that lags misses notifications and has to list everything again.
    fn notifications(&self) -> Option<broadcast::Receiver<ServerNotification>> {
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

    fn tools(&self) -> Vec<ToolDefinition> {
        (**self).tools()
    }

    fn call_tool<'a>(
        &'a self,
        call: LocalCall<'a>,
    ) -> BoxFuture<'a, Result<CallToolResult, ErrorObject>> {
        (**self).call_tool(call)
    }

    fn resources(&self) -> Vec<Resource> {
        (**self).resources()
    }

    fn resource_templates(&self) -> Vec<ResourceTemplate> {
        (**self).resource_templates()
    }

    fn read_resource<'a>(
        &'a self,
        uri: &'a str,
    ) -> BoxFuture<'a, Result<ReadResourceResult, ErrorObject>> {
        (**self).read_resource(uri)
    }

    fn prompts(&self) -> Vec<Prompt> {
        (**self).prompts()
    }

    fn get_prompt<'a>(
        &'a self,
        name: &'a str,
        arguments: &'a BTreeMap<String, String>,
    ) -> BoxFuture<'a, Result<GetPromptResult, ErrorObject>> {
        (**self).get_prompt(name, arguments)
    }

    fn instance_id(&self) -> usize {
        (**self).instance_id()
    }

    fn notifications(&self) -> Option<broadcast::Receiver<ServerNotification>> {
        (**self).notifications()
    }
}

/// A notification of an in-process server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerNotification {
    /// The list of tools changed.
    ToolsChanged,
    /// The list of resources or of resource templates changed.
    ResourcesChanged,
    /// The list of prompts changed.
    PromptsChanged,
    /// The resource with this URI changed.
    ResourceUpdated(Arc<str>),
}

/// Receives the progress notifications of one call.
///
/// A call borrows its sink, so a call that reports no progress allocates nothing.
pub trait ProgressSink: Send + Sync {
    /// Takes one notification. Never blocks; drops the notification if the receiver is gone or too
    /// slow.
    fn report(&self, progress: Progress);

    /// Returns an owned sink for the same call, which can be kept after this borrow ends.
    fn to_shared(&self) -> Arc<dyn ProgressSink>;
}

impl ProgressSink for mpsc::Sender<Progress> {
    fn report(&self, progress: Progress) {
        let _ = self.try_send(progress);
    }

    fn to_shared(&self) -> Arc<dyn ProgressSink> {
        Arc::new(self.clone())
    }
}

/// One call of a tool of an in-process server.
#[non_exhaustive]
pub struct LocalCall<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// The arguments.
    pub arguments: &'a Map<String, Value>,
    /// The call's `_meta`.
    pub meta: Map<String, Value>,
    progress: Option<&'a dyn ProgressSink>,
}

impl<'a> LocalCall<'a> {
    /// Creates a call. `progress` receives the progress notifications; it is `None` if the caller
    /// did not ask for them.
    pub fn new(
        tool: &'a str,
        arguments: &'a Map<String, Value>,
        meta: Map<String, Value>,
        progress: Option<&'a dyn ProgressSink>,
    ) -> Self {
        Self {
            tool,
            arguments,
            meta,
            progress,
        }
    }

    /// Reports progress, which also restarts the caller's idle timeout. The notification is dropped
    /// if the caller did not ask for progress or reads too slowly.
    #[inline]
    pub fn report(&self, progress: Progress) {
        if let Some(sink) = self.progress {
            sink.report(progress);
        }
    }

    /// Returns an owned reporter for the same call, for example for another task.
    pub fn reporter(&self) -> ProgressReporter {
        ProgressReporter(self.progress.map(ProgressSink::to_shared))
    }
}

impl fmt::Debug for LocalCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalCall")
            .field("tool", &self.tool)
            .field("arguments", &self.arguments)
            .field("meta", &self.meta)
            .finish_non_exhaustive()
    }
}

/// Reports the progress of one call.
#[derive(Clone)]
pub struct ProgressReporter(Option<Arc<dyn ProgressSink>>);

impl ProgressReporter {
    /// Reports progress, as [`LocalCall::report`] does.
    pub fn report(&self, progress: Progress) {
        if let Some(sink) = &self.0 {
            sink.report(progress);
        }
    }
}

impl fmt::Debug for ProgressReporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressReporter")
    }
}

/// A server of the embedding program. Clients can connect to it any number of times.
///
/// Clones refer to the same server. Disconnecting drops a handle and does not stop the server.
#[derive(Clone)]
pub struct ServerInstance(InstanceKind);

/// How a [`ServerInstance`] is reached.
#[doc(hidden)]
#[derive(Clone)]
pub enum InstanceKind {
    /// The client calls the server's methods directly.
    Local(Arc<dyn LocalServer>),
    /// The server speaks JSON-RPC over a new byte stream for each connection.
    Stream(Arc<dyn Connector>),
}

impl ServerInstance {
    /// A server that speaks JSON-RPC over a new byte stream for each connection.
    pub fn stream(connector: impl Connector) -> Self {
        Self(InstanceKind::Stream(Arc::new(connector)))
    }

    /// Whether both are clones of one instance, or hold clones of one server.
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (InstanceKind::Local(one), InstanceKind::Local(two)) => {
                Arc::ptr_eq(one, two) || one.instance_id() == two.instance_id()
            }
            (InstanceKind::Stream(one), InstanceKind::Stream(two)) => Arc::ptr_eq(one, two),
            _ => false,
        }
    }

    /// How the server is reached.
    #[doc(hidden)]
    pub fn kind(&self) -> &InstanceKind {
        &self.0
    }

    /// Consumes the instance and returns how the server is reached.
    #[doc(hidden)]
    pub fn into_kind(self) -> InstanceKind {
        self.0
    }
}

impl<S: LocalServer> From<S> for ServerInstance {
    fn from(server: S) -> Self {
        Self(InstanceKind::Local(Arc::new(server)))
    }
}

impl fmt::Debug for ServerInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerInstance::{:?}", self.0)
    }
}

impl fmt::Debug for InstanceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local(_) => "Local",
            Self::Stream(_) => "Stream",
        })
    }
}
