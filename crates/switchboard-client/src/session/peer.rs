//! State that all JSON-RPC sessions share, independent of the transport.
//!
//! [`Peer`] holds the result of the handshake, handles notifications, encodes requests, and
//! publishes the end of the session. The transports send and receive; they implement
//! [`JsonRpcSession`]. Invariant: a session ends once, and keeps the first reason for its end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::deadline::ActivityClock;
use super::list_changes::{ListChangeKind, ListChanges};
use super::log_forwarding::{self, LogRateLimit};
use super::query::Query;
use super::server_requests::{self, ServerRequests};
use super::subscriptions::Subscriptions;
use super::url_elicitation::UrlElicitations;
use super::{RequestError, SessionContext, SessionEnd, SessionKey, ToolRequest, wait_for_end};
use crate::wire_tap::Direction;
use switchboard_wire::decode;
use switchboard_wire::encode;
use switchboard_wire::encode::{InputResponses, RequestMeta, TaskTtl};
use switchboard_wire::jsonrpc::{InvalidMessage, RequestId};
use switchboard_wire::lines::DiscardReason;
use switchboard_wire::mcp::{Era, Progress, ProtocolVersion, ServerHello};
use switchboard_wire::memory_budget::MemoryPermit;

/// Maximum length of an excerpt of server output in an error message, in characters.
const EXCERPT_CHARS: usize = 200;

/// The transport-independent state of a JSON-RPC session.
pub(super) struct Peer {
    pub(super) key: SessionKey,
    pub(super) context: SessionContext,
    pub(super) clock: ActivityClock,
    handshake: OnceLock<ServerHello>,
    pub(super) server_requests: ServerRequests,
    pub(super) list_changes: ListChanges,
    pub(super) log_rate_limit: Arc<LogRateLimit>,
    pub(super) url_elicitations: UrlElicitations,
    /// Background tasks that send notifications to the server.
    notification_tasks: TaskTracker,
    pub(super) subscriptions: Subscriptions,
    ended: watch::Sender<Option<SessionEnd>>,
    /// Cancelled when the session ends.
    pub(super) stop: CancellationToken,
}

/// A session that exchanges JSON-RPC messages with a server. Each transport has one such type.
pub(super) trait JsonRpcSession: Send + Sync + 'static {
    fn peer(&self) -> &Peer;

    /// Sends a notification or a response without waiting. Errors are logged.
    fn send_notification(self: &Arc<Self>, line: Vec<u8>);

    /// Ends the session because of `end`. Requests in flight fail. If the session has already
    /// ended, the first reason is kept.
    fn end(&self, end: SessionEnd);
}

impl Peer {
    pub(super) fn new(
        context: SessionContext,
        tasks: &TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        Self {
            key: SessionKey::next(),
            clock: ActivityClock::new(),
            handshake: OnceLock::new(),
            server_requests: ServerRequests::new(tasks.clone(), context.limits.inbound_requests),
            list_changes: ListChanges::default(),
            log_rate_limit: Arc::default(),
            url_elicitations: UrlElicitations::default(),
            notification_tasks: TaskTracker::new(),
            subscriptions: Subscriptions::new(tasks),
            ended: watch::Sender::new(None),
            stop,
            context,
        }
    }

    pub(super) fn handshake(&self) -> Option<&ServerHello> {
        self.handshake.get()
    }

    /// Stores the result of the handshake. Later requests use its protocol version.
    pub(super) fn set_handshake(&self, handshake: ServerHello) {
        let _ = self.handshake.set(handshake);
    }

    pub(super) fn version(&self) -> Option<ProtocolVersion> {
        self.handshake.get().map(|handshake| handshake.version)
    }

    /// The protocol era; `None` before the handshake.
    pub(super) fn era(&self) -> Option<Era> {
        self.version().map(ProtocolVersion::era)
    }

    pub(super) fn encode_call(&self, id: u64, call: &ToolRequest<'_>) -> Vec<u8> {
        let meta = self.meta(Some(id), call.trace);
        let task = self.task_ttl(call);
        let tool = call.target.tool();
        encode::call_tool(id, tool, call.arguments, call.input_responses, task, &meta)
    }

    pub(super) fn encode_query(
        &self,
        id: u64,
        query: &Query<'_>,
        input_responses: Option<&InputResponses>,
    ) -> Vec<u8> {
        let meta = self.meta(None, None);
        encode::query(id, query.method, &query.params, input_responses, &meta)
    }

    /// The `_meta` of a request: the progress token, the trace, and in the modern era a
    /// description of this client.
    pub(super) fn meta<'a>(
        &'a self,
        token: Option<u64>,
        trace: Option<&'a str>,
    ) -> RequestMeta<'a> {
        let modern_version = self
            .version()
            .filter(|version| version.era() == Era::Modern);
        self.request_meta(modern_version, token, trace)
    }

    /// The `_meta` of a request in `version`. During the handshake, this version is not negotiated
    /// yet.
    pub(super) fn request_meta<'a>(
        &'a self,
        version: Option<ProtocolVersion>,
        token: Option<u64>,
        trace: Option<&'a str>,
    ) -> RequestMeta<'a> {
        let capabilities = self.context.client_capabilities();
        RequestMeta::new(version, &self.context.client, capabilities, token, trace)
            .log_level(self.context.log_level)
    }

    /// Whether the server supports the tasks of version 2025-11-25.
    fn runs_tasks(&self) -> bool {
        self.handshake.get().is_some_and(|handshake| {
            handshake.version == ProtocolVersion::V2025_11_25 && handshake.capabilities.tasks
        })
    }

    /// The lifetime that a call requests for its task. `None` if the tool need not be called as a
    /// task, or if the server does not support the tasks of 2025-11-25.
    pub(super) fn task_ttl(&self, call: &ToolRequest<'_>) -> Option<TaskTtl> {
        (call.target.requires_task() && self.runs_tasks())
            .then(|| TaskTtl::new(call.deadline.remaining()))
    }

    /// Spawns a task that runs `send`, which sends a notification. Does nothing outside a tokio
    /// runtime.
    pub(super) fn spawn_notification(&self, send: impl Future<Output = ()> + Send + 'static) {
        if tokio::runtime::Handle::try_current().is_ok() {
            self.server_requests
                .spawn(self.notification_tasks.track_future(send));
        }
    }

    /// Waits until all tasks of [`spawn_notification`](Self::spawn_notification) have ended.
    pub(super) async fn flush_notifications(&self) {
        self.notification_tasks.close();
        self.notification_tasks.wait().await;
    }

    /// Reports a message to the wire tap, with secrets masked. Does nothing without a wire tap.
    pub(super) fn tap(&self, direction: Direction, line: &[u8]) {
        if let Some(tap) = &self.context.tap {
            let text = String::from_utf8_lossy(line);
            let text = self.context.redactor.redact(text.trim_end());
            let server = &self.context.server;
            let tapped = catch_unwind(AssertUnwindSafe(|| tap.line(server, direction, &text)));
            if tapped.is_err() {
                tracing::error!(%server, "the wire tap panicked");
            }
        }
    }

    /// Handles a notification. For progress, calls `progress` with the request id and the progress;
    /// this closure forwards the progress. Returns whether a caller asked for the progress, and
    /// `false` for any other notification.
    pub(super) fn on_notification(
        &self,
        method: &str,
        params: &[u8],
        progress: impl FnOnce(u64, Progress) -> bool,
    ) -> bool {
        self.clock.touch();
        match method {
            "notifications/progress" => {
                return decode::progress(params).is_some_and(|(id, step)| progress(id, step));
            }
            "notifications/tools/list_changed" => self.list_changes.record(ListChangeKind::Tools),
            "notifications/resources/list_changed" => {
                self.list_changes.record(ListChangeKind::Resources);
            }
            "notifications/prompts/list_changed" => {
                self.list_changes.record(ListChangeKind::Prompts);
            }
            "notifications/message" => log_forwarding::on_message(self, params),
            "notifications/elicitation/complete" => self.url_elicitations.complete(params),
            "notifications/resources/updated" => self.subscriptions.on_updated(params, self.era()),
            "notifications/subscriptions/acknowledged" => {
                self.list_changes.on_acknowledged(params);
                self.subscriptions.on_acknowledged(params);
            }
            "notifications/cancelled" => {
                self.server_requests.cancel(params);
                self.list_changes.on_cancelled(params);
                self.subscriptions.on_cancelled(params);
            }
            _ => tracing::trace!(server = %self.context.server, method, "notification ignored"),
        }
        false
    }

    /// The first [`EXCERPT_CHARS`] characters of `bytes`, which the server sent, for an error or
    /// log message. Secrets are masked.
    pub(super) fn excerpt(&self, bytes: &[u8]) -> String {
        let bytes = bytes.trim_ascii();
        // Mask before the final cut: a secret that is cut in half would not be recognized. The
        // first cut bounds the cost of masking.
        let start = bytes.get(..4 * EXCERPT_CHARS).unwrap_or(bytes);
        let text = self
            .context
            .redactor
            .redact(&String::from_utf8_lossy(start));
        text.chars().take(EXCERPT_CHARS).collect()
    }

    /// The error for a message that exceeds the size limit or the memory budget.
    pub(super) fn discard_error(&self, reason: DiscardReason) -> InvalidMessage {
        match reason {
            DiscardReason::TooLong => InvalidMessage::TooLong {
                limit: self.context.limits.message_bytes,
            },
            DiscardReason::OverMemoryBudget => InvalidMessage::OverMemoryBudget {
                limit: self.context.budget.limit(),
            },
        }
    }

    /// Reserves memory for a message to the server, until the returned permit is dropped. Fails if
    /// the message is longer than the limit `messageBytes` or the memory budget is used up.
    pub(super) fn reserve(&self, line: &[u8]) -> Result<Option<MemoryPermit>, RequestError> {
        let limit = self.context.limits.message_bytes;
        if line.len() > limit {
            return Err(RequestError::TooLong { limit });
        }
        let mut permit = None;
        if !self.context.budget.grow(&mut permit, line.len()) {
            let limit = self.context.budget.limit();
            return Err(RequestError::MemoryBudgetExceeded { limit });
        }
        Ok(permit)
    }

    pub(super) async fn ended(&self) -> SessionEnd {
        wait_for_end(self.ended.subscribe()).await
    }

    /// Publishes the end of the session and cancels `stop`. If the session has already ended, the
    /// first reason is kept.
    pub(super) fn end(&self, end: SessionEnd) {
        self.ended.send_if_modified(|ended| {
            let is_first = ended.is_none();
            if is_first {
                *ended = Some(end);
            }
            is_first
        });
        self.stop.cancel();
    }
}

/// Handles a request from the server. Ignores it in the modern era.
pub(super) fn on_request<S: JsonRpcSession>(
    session: &Arc<S>,
    id: RequestId,
    method: &str,
    params: &[u8],
) {
    let peer = session.peer();
    peer.clock.touch();
    // Servers of the modern era must not send requests. Such a request is ignored.
    if peer.era() != Some(Era::Modern) {
        server_requests::handle(session, id, method, params);
    }
}
