//! One session with one server, and the requests on it.
//!
//! [`Session`] is an enum of four kinds: byte streams, streamable HTTP, HTTP+SSE of 2024-11-05, and
//! servers in this process. The first three exchange JSON-RPC messages: they implement
//! `JsonRpcSession` and share `Peer`. Any number of requests may be in flight; each waits for
//! its own response.
//!
//! A session does not reconnect: after its end, the owner of the server opens a new session. This
//! module is internal to the switchboard crates.
//!
//! Invariant: the delivery of a failed request is *answered*, *not sent* or *unknown*, and the
//! error says which.

mod deadline;
mod error;
#[cfg(feature = "http")]
pub mod http;
mod input_required;
mod line;
pub mod list_changes;
pub mod list_kind;
mod local;
mod log_forwarding;
pub mod pagination;
mod peer;
mod progress;
pub mod query;
mod reader;
mod request;
mod request_table;
mod server_requests;
pub mod subscriptions;
mod tasks;
mod url_elicitation;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Map, Value};
use tokio::sync::{mpsc, watch};

use crate::client_handler::ClientHandler;
use crate::delivery::Delivery;
use crate::question_limit::QuestionLimits;
use crate::wire_tap::WireTap;
use switchboard_wire::Limits;
use switchboard_wire::decode;
use switchboard_wire::decode::{IncompleteResult, Page};
use switchboard_wire::encode;
use switchboard_wire::encode::InputResponses;
use switchboard_wire::id::ServerName;
use switchboard_wire::jsonrpc::RawResult;
use switchboard_wire::limits::{FieldLimits, LARGE_MESSAGE_BYTES};
use switchboard_wire::mcp::{
    CallToolResult, ClientCapabilities, Era, Implementation, LogLevel, Progress,
    ServerCapabilities, ServerHello,
};
use switchboard_wire::memory_budget::MemoryBudget;
use switchboard_wire::redact::Redactor;

pub use deadline::Deadline;
pub use error::{RequestError, SessionEnd, StrayOutput, TransportFailure};
#[cfg(feature = "http")]
use http::{Sse2024Session, StreamableHttpSession};
pub use line::LineSession;
use list_changes::{ListChangeKind, ListChanges};
use list_kind::ListItem;
pub use local::LocalSession;
use peer::{JsonRpcSession, Peer};
use query::Query;
use subscriptions::Subscriptions;
pub use tasks::CallTarget;

/// Settings, limits and handlers that all sessions of one server share.
#[derive(Clone)]
pub struct SessionContext {
    pub server: ServerName,
    pub limits: Arc<Limits>,
    /// Memory budget for messages, shared by all servers of the host.
    pub budget: MemoryBudget,
    /// Name and version of this client, sent in the handshake.
    pub client: Implementation,
    /// Answers the requests of the server.
    pub handler: Arc<dyn ClientHandler>,
    /// Rate limits on the elicitation and sampling requests of the server. A reconnect does not
    /// reset them.
    pub question_limits: Arc<QuestionLimits>,
    /// Minimum level of the log messages that the client asks the server for. `None`: the client
    /// does not tell the server a level.
    pub log_level: Option<LogLevel>,
    /// Receives a copy of the messages that are sent or received, with secrets masked.
    pub tap: Option<Arc<dyn WireTap>>,
    /// Masks known secrets in texts that the server sends.
    pub redactor: Redactor,
}

impl fmt::Debug for SessionContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionContext")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

impl SessionContext {
    /// The client capabilities that the handshake announces: which requests the client handler
    /// answers, for example sampling.
    pub(crate) fn client_capabilities(&self) -> ClientCapabilities {
        self.handler.capabilities()
    }
}

/// The parameters of one tool call, independent of the transport.
#[derive(Debug)]
pub struct ToolRequest<'a> {
    pub target: &'a dyn CallTarget,
    pub arguments: &'a Map<String, Value>,
    /// The `traceparent` of the call (W3C Trace Context).
    pub trace: Option<&'a str>,
    pub deadline: Deadline,
    /// Receives the progress of the call. `None` if the caller does not want progress.
    pub progress: Option<mpsc::Sender<Progress>>,
    /// Answers to the input requests of the previous `input_required` result of this call. `None`
    /// the first time the call is sent.
    pub input_responses: Option<&'a InputResponses>,
}

/// An open session; cheap to clone.
#[derive(Clone, Debug)]
pub enum Session {
    /// A byte stream, such as stdio: newline-delimited JSON-RPC.
    Line(Arc<LineSession>),
    #[cfg(feature = "http")]
    StreamableHttp(Arc<StreamableHttpSession>),
    /// HTTP+SSE of 2024-11-05.
    #[cfg(feature = "http")]
    Sse2024(Arc<Sse2024Session>),
    /// A server in this process.
    Local(Arc<LocalSession>),
}

/// How a session reaches its server: with JSON-RPC messages, or with function calls in this
/// process.
enum Backend<'a> {
    JsonRpc(&'a Peer),
    Local(&'a LocalSession),
}

/// Identifies a session. Unique in this process; holding a key does not keep the session open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionKey(u64);

impl SessionKey {
    /// Returns a key that no other session of this process has.
    fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

impl Session {
    fn backend(&self) -> Backend<'_> {
        match self {
            Self::Line(line) => Backend::JsonRpc(line.peer()),
            #[cfg(feature = "http")]
            Self::StreamableHttp(http) => Backend::JsonRpc(http.peer()),
            #[cfg(feature = "http")]
            Self::Sse2024(sse) => Backend::JsonRpc(sse.peer()),
            Self::Local(local) => Backend::Local(local),
        }
    }

    /// The state that all JSON-RPC sessions share. `None` for an in-process server.
    fn peer(&self) -> Option<&Peer> {
        match self.backend() {
            Backend::JsonRpc(peer) => Some(peer),
            Backend::Local(_) => None,
        }
    }

    /// The result of the handshake. `None` until the handshake is complete.
    pub fn handshake(&self) -> Option<&ServerHello> {
        match self.backend() {
            Backend::JsonRpc(peer) => peer.handshake(),
            Backend::Local(local) => Some(local.handshake()),
        }
    }

    /// The capabilities of the server. Empty before the handshake. An in-process server may change
    /// its capabilities during the session.
    pub fn capabilities(&self) -> ServerCapabilities {
        match self.backend() {
            Backend::JsonRpc(peer) => peer
                .handshake()
                .map(|handshake| handshake.capabilities.clone())
                .unwrap_or_default(),
            Backend::Local(local) => local.capabilities(),
        }
    }

    /// Whether the server is reached over HTTP. An HTTP server may end the session between two
    /// requests.
    pub fn is_remote(&self) -> bool {
        !matches!(self, Self::Line(_) | Self::Local(_))
    }

    /// Whether the server is reached over HTTP+SSE of 2024-11-05.
    pub fn is_sse_2024(&self) -> bool {
        match self {
            #[cfg(feature = "http")]
            Self::Sse2024(_) => true,
            _ => false,
        }
    }

    /// Whether both handles belong to the same session.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.key() == other.key()
    }

    pub fn key(&self) -> SessionKey {
        match self.backend() {
            Backend::JsonRpc(peer) => peer.key,
            Backend::Local(local) => local.key,
        }
    }

    /// Requests one page of a listing, and decodes at most `max_items` items of it.
    pub(crate) async fn list<T: ListItem>(
        &self,
        cursor: Option<&str>,
        deadline: Deadline,
        max_items: usize,
    ) -> Result<Page<T>, RequestError> {
        if let Self::Local(local) = self {
            return local.list();
        }
        let mut query = Query::new(T::METHOD, deadline);
        if let Some(cursor) = cursor {
            query = query.with("cursor", cursor);
        }
        let result = self.query(&query).await?;
        let limits = match self.peer() {
            Some(peer) => peer.context.limits.field_limits(),
            None => FieldLimits::default(),
        };
        let page = decode::page(&result, T::KEY, max_items, &limits, T::ITEM);
        let mut page = page.map_err(RequestError::InvalidResponse)?;
        #[cfg(feature = "http")]
        if let Self::StreamableHttp(http) = self {
            T::register_header_params(&mut page, http);
        }
        if let Some(peer) = self.peer().filter(|_| self.is_remote()) {
            // The server received the credential of this client and may repeat it in its texts.
            let redactor = &peer.context.redactor;
            page.items.iter_mut().for_each(|item| item.redact(redactor));
        }
        Ok(page)
    }

    /// Calls a tool. Dropping the future cancels the call and notifies the server.
    pub async fn call_tool(
        &self,
        request: &ToolRequest<'_>,
    ) -> Result<CallToolResult, RequestError> {
        // The block drops its locals early. Otherwise the future of `call_tool` would also store
        // them while it answers input requests or polls a task. For the same reason, the futures of
        // all transports except byte streams are boxed.
        let incomplete = {
            let (result, peer) = match self {
                Self::Line(line) => (line.call_tool(request).await?, line.peer()),
                #[cfg(feature = "http")]
                Self::StreamableHttp(http) => {
                    (Box::pin(http.call_tool(request)).await?, http.peer())
                }
                #[cfg(feature = "http")]
                Self::Sse2024(sse) => (Box::pin(sse.call_tool(request)).await?, sse.peer()),
                Self::Local(local) => return Box::pin(local.call_tool(request)).await,
            };
            let max_blocks = peer.context.limits.content_blocks;
            let decoded = if let Some(task) = tasks::created_task(self, request, &result) {
                task.map_err(IncompleteResult::Invalid)
                    .and_then(|task| Err(IncompleteResult::Task(task)))
            } else if result.text.len() > LARGE_MESSAGE_BYTES {
                let decode = move |result: &RawResult| decode::call_tool_result(result, max_blocks);
                Box::pin(decode_response(result, decode)).await?
            } else {
                // Decode without `decode_response`: its future would make the future of `call_tool`
                // larger.
                decode::call_tool_result(&result, max_blocks)
            };
            match decoded {
                Ok(result) => return Ok(result),
                Err(incomplete) => incomplete,
            }
        };
        match incomplete {
            IncompleteResult::InputRequired(input) => {
                input_required::answer_and_repeat(self, request, input).await
            }
            IncompleteResult::Task(task) => {
                tasks::poll_across_reconnects(self, request, task).await
            }
            IncompleteResult::Invalid(error) => Err(RequestError::InvalidResponse(error)),
        }
    }

    fn list_changes(&self) -> &ListChanges {
        match self.backend() {
            Backend::JsonRpc(peer) => &peer.list_changes,
            Backend::Local(local) => &local.list_changes,
        }
    }

    fn subscriptions(&self) -> &Subscriptions {
        match self.backend() {
            Backend::JsonRpc(peer) => &peer.subscriptions,
            Backend::Local(local) => &local.subscriptions,
        }
    }

    /// Sends `logging/setLevel` if the context has a log level and the server is a legacy server
    /// with the logging capability. An error is only logged.
    pub(crate) async fn set_log_level(&self, deadline: Deadline) {
        let Some(peer) = self.peer() else { return };
        let has_logging = peer.handshake().is_some_and(|handshake| {
            handshake.version.era() == Era::Legacy && handshake.capabilities.logging
        });
        let Some(level) = peer.context.log_level.filter(|_| has_logging) else {
            return;
        };
        let query = Query::new("logging/setLevel", deadline).with("level", level.as_str());
        if let Err(error) = self.query(&query).await {
            tracing::debug!(server = %peer.context.server, %error, "log level not set");
        }
    }

    /// Notifies a legacy server that the roots changed, if the client has the roots capability.
    pub fn notify_roots_changed(&self) {
        let has_roots = self.peer().is_some_and(|peer| {
            peer.era() == Some(Era::Legacy) && peer.context.client_capabilities().roots
        });
        if has_roots {
            let method = "notifications/roots/list_changed";
            self.send_notification(encode::notification(method, None::<()>));
        }
    }

    fn send_notification(&self, line: Vec<u8>) {
        match self {
            Self::Line(stream) => stream.send_notification(line),
            #[cfg(feature = "http")]
            Self::StreamableHttp(http) => http.send_notification(line),
            #[cfg(feature = "http")]
            Self::Sse2024(sse) => sse.send_notification(line),
            Self::Local(_) => {}
        }
    }

    /// Waits for a list change notification of this kind. Returns at once if one arrived since the
    /// last wait; several that arrived since then count as one.
    pub async fn list_changed(&self, kind: ListChangeKind) {
        self.list_changes().changed(kind).await;
    }

    /// Number of list change notifications of this kind in this session so far.
    pub fn change_count(&self, kind: ListChangeKind) -> u64 {
        self.list_changes().count(kind)
    }

    /// Whether list change notifications of this kind can arrive now. If not, the list must be
    /// requested again to notice changes.
    pub fn receives_changes(&self, kind: ListChangeKind) -> bool {
        self.list_changes().can_arrive(kind)
    }

    /// Waits until the session ends, and returns the reason.
    pub async fn ended(&self) -> SessionEnd {
        match self.backend() {
            Backend::JsonRpc(peer) => peer.ended().await,
            Backend::Local(local) => local.ended().await,
        }
    }

    /// Waits until the background tasks that send notifications have ended.
    pub(crate) async fn flush_notifications(&self) {
        if let Some(peer) = self.peer() {
            peer.flush_notifications().await;
        }
    }

    /// Ends the session. Requests in flight fail with [`RequestError::Lost`].
    pub(crate) fn close(&self) {
        match self {
            Self::Line(line) => line.end(SessionEnd::Closed),
            #[cfg(feature = "http")]
            Self::StreamableHttp(http) => http.end(SessionEnd::Closed),
            #[cfg(feature = "http")]
            Self::Sse2024(sse) => sse.end(SessionEnd::Closed),
            Self::Local(local) => local.close(),
        }
    }
}

/// Decodes a response. Uses a blocking thread if the response is longer than
/// [`LARGE_MESSAGE_BYTES`].
async fn decode_response<T: Send + 'static>(
    response: RawResult,
    decode: impl FnOnce(&RawResult) -> T + Send + 'static,
) -> Result<T, RequestError> {
    if response.text.len() > LARGE_MESSAGE_BYTES {
        Box::pin(run_blocking(move || decode(&response))).await
    } else {
        Ok(decode(&response))
    }
}

/// Runs CPU-bound work on a blocking thread. Fails if the work panics.
pub async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RequestError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| RequestError::Lost {
        delivery: Delivery::Answered,
        end: SessionEnd::Closed,
    })
}

async fn wait_for_end(mut ended: watch::Receiver<Option<SessionEnd>>) -> SessionEnd {
    match ended.wait_for(Option::is_some).await {
        Ok(end) => end.clone().unwrap_or(SessionEnd::Closed),
        Err(_) => SessionEnd::Closed,
    }
}
