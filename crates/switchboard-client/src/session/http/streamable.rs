//! Streamable HTTP session of both eras: handshake, tool calls, notifications, DELETE.
//!
//! Every request is one POST, sent in the task of the caller. [`super::exchange`] sends it and
//! reads the response; [`super::listen`] keeps the server-to-client stream open. Invariant: a tool
//! call is sent again only if the server rejected its credential, or its headers because they did
//! not match the tool. docs/delivery.md has the rule for all transports.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use super::health::{self, Health, HealthMonitor, Pingable};
use super::http_core::{HttpCore, NOTIFICATION_TIMEOUT};
use super::request_headers::RequestHeaders;
use super::{ACCEPT_BOTH, AuthorizedClient, METHOD, post_body, status};
use crate::session::deadline::Deadline;
use crate::session::list_changes::ListChangeKind;
use crate::session::peer::{JsonRpcSession, Peer};
use crate::session::progress::ProgressForwarder;
use crate::session::query::Query;
use crate::session::{RequestError, SessionContext, SessionEnd, ToolRequest};
use crate::wire_tap::Direction;
use switchboard_wire::decode::{Page, SkippedItem};
use switchboard_wire::encode;
use switchboard_wire::encode::{InputResponses, ListChangeFilter};
use switchboard_wire::header_params::HeaderParams;
use switchboard_wire::jsonrpc::RawResult;
use switchboard_wire::mcp::{Era, ErrorObject, ProtocolVersion, ServerHello, ToolDefinition};
use switchboard_wire::sync::lock;

/// How long the handshake waits for the server-to-client stream to open. If the stream opens later,
/// notifications may have been lost.
pub(super) const LISTEN_STREAM_GRACE: Duration = Duration::from_secs(1);
/// How long a tool call waits for a new tool list after the server rejected the headers of the
/// call.
const RELIST_TIMEOUT: Duration = Duration::from_secs(10);

/// A session over streamable HTTP, of either era.
pub struct StreamableHttpSession {
    pub(super) core: HttpCore,
    next_id: AtomicU64,
    pub(super) session_id: OnceLock<HeaderValue>,
    /// The URL to which the server redirected the handshake. Empty if it did not.
    pub(super) endpoint: OnceLock<Url>,
    /// By tool name: the arguments that calls of the tool repeat in headers. Holds no entry for
    /// tools without such arguments.
    header_params: Mutex<HashMap<String, Arc<HeaderParams>>>,
    /// Incremented after the last page of each tool list.
    tool_list_revision: watch::Sender<u64>,
    /// Forwards progress to callers. The key is the request id.
    pub(super) progress: Mutex<HashMap<u64, ProgressForwarder>>,
    /// Cancelled when the first attempt to open the server-to-client stream has succeeded or
    /// failed, or when the session needs no such stream.
    pub(super) listen_stream_decided: CancellationToken,
    /// Whether DELETE was sent, or the server no longer knows the session.
    session_deleted: AtomicBool,
}

impl std::fmt::Debug for StreamableHttpSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamableHttpSession")
            .field("server", &self.core.peer.context.server)
            .finish_non_exhaustive()
    }
}

impl StreamableHttpSession {
    pub(crate) fn new(
        client: AuthorizedClient,
        context: SessionContext,
        tasks: &TaskTracker,
        stop: CancellationToken,
        health: &Health,
    ) -> Arc<Self> {
        Arc::new(Self {
            core: HttpCore::new(client, context, tasks, stop, health),
            next_id: AtomicU64::new(1),
            session_id: OnceLock::new(),
            endpoint: OnceLock::new(),
            header_params: Mutex::default(),
            tool_list_revision: watch::Sender::new(0),
            progress: Mutex::default(),
            listen_stream_decided: CancellationToken::new(),
            session_deleted: AtomicBool::new(false),
        })
    }

    pub(super) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// The URL to which requests are sent.
    pub(super) fn url(&self) -> &Url {
        self.endpoint
            .get()
            .unwrap_or_else(|| self.core.client.url())
    }

    pub(super) fn is_modern(&self) -> bool {
        self.core.peer.era() == Some(Era::Modern)
    }

    /// Stores the result of the handshake, starts the health checks and opens the server-to-client
    /// stream. Waits for the stream, at most [`LISTEN_STREAM_GRACE`], so that it is open before the
    /// first request is sent.
    pub(crate) async fn set_handshake(self: &Arc<Self>, handshake: ServerHello) {
        let is_modern = handshake.version.era() == Era::Modern;
        let list_changes = ListChangeFilter::supported_by(&handshake.capabilities);
        self.core.peer.set_handshake(handshake);
        if is_modern {
            if list_changes.is_empty() {
                self.listen_stream_decided.cancel();
            } else {
                self.core
                    .tasks
                    .spawn(Arc::clone(self).run_listen_request(list_changes));
            }
        } else {
            self.core.tasks.spawn(Arc::clone(self).run_get_stream());
        }
        self.core.tasks.spawn(health::run_checks(Arc::clone(self)));
        let _ =
            tokio::time::timeout(LISTEN_STREAM_GRACE, self.listen_stream_decided.cancelled()).await;
    }

    pub(in crate::session) async fn query(
        self: &Arc<Self>,
        query: &Query<'_>,
        input_responses: Option<&InputResponses>,
        deadline: Deadline,
    ) -> Result<RawResult, RequestError> {
        let headers = RequestHeaders {
            name: query.name,
            ..RequestHeaders::of(query.method)
        };
        self.request(headers, deadline, None, |id| {
            self.core.peer.encode_query(id, query, input_responses)
        })
        .await
    }

    /// Removes from a page the tools whose header parameters are invalid, and records the header
    /// parameters of the other tools. Does nothing in the legacy era.
    pub(in crate::session) fn filter_tools_for_http(&self, page: &mut Page<ToolDefinition>) {
        if !self.is_modern() {
            return;
        }
        let mut header_params = lock(&self.header_params);
        let skipped = &mut page.skipped;
        page.items
            .retain(|tool| match HeaderParams::from_schema(&tool.input_schema) {
                Ok(params) => {
                    if params.is_empty() {
                        header_params.remove(&tool.name);
                    } else {
                        header_params.insert(tool.name.clone(), Arc::new(params));
                    }
                    true
                }
                Err(why) => {
                    header_params.remove(&tool.name);
                    skipped.push(SkippedItem {
                        name: tool.name.clone(),
                        reason: why,
                    });
                    false
                }
            });
        drop(header_params);
        if page.next_cursor.is_none() {
            self.tool_list_revision.send_modify(|count| *count += 1);
        }
    }

    pub(in crate::session) async fn call_tool(
        self: &Arc<Self>,
        call: &ToolRequest<'_>,
    ) -> Result<RawResult, RequestError> {
        let revision = *self.tool_list_revision.borrow();
        let outcome = self.call_once(call).await;
        match outcome {
            // The server did not execute the call: since the tools were listed, the tool has
            // changed which arguments it wants in headers. Wait for a new tool list, then send the
            // call again.
            Err(RequestError::ErrorResponse(error))
                if error.code == ErrorObject::HEADER_MISMATCH && self.is_modern() =>
            {
                self.core.peer.list_changes.record(ListChangeKind::Tools);
                let mut revisions = self.tool_list_revision.subscribe();
                let relisted = revisions.wait_for(|current| *current != revision);
                match tokio::time::timeout(RELIST_TIMEOUT, relisted)
                    .await
                    .map(|done| done.is_ok())
                {
                    Ok(true) => Box::pin(self.call_once(call)).await,
                    _ => Err(RequestError::ErrorResponse(error)),
                }
            }
            outcome => outcome,
        }
    }

    async fn call_once(
        self: &Arc<Self>,
        call: &ToolRequest<'_>,
    ) -> Result<RawResult, RequestError> {
        let params = lock(&self.header_params).get(call.target.tool()).cloned();
        let headers = RequestHeaders {
            name: Some(call.target.tool()),
            header_params: params.as_deref().map(|params| (params, call)),
            ..RequestHeaders::of("tools/call")
        };
        self.request(headers, call.deadline, call.progress.clone(), |id| {
            self.core.peer.encode_call(id, call)
        })
        .await
    }

    pub(crate) async fn discover(
        self: &Arc<Self>,
        version: ProtocolVersion,
        deadline: Deadline,
    ) -> Result<RawResult, RequestError> {
        let params = encode::MetaParams {
            meta: self.core.peer.request_meta(Some(version), None, None),
        };
        let headers = RequestHeaders {
            version: Some(version),
            ..RequestHeaders::of("server/discover")
        };
        self.request(headers, deadline, None, |id| {
            encode::request(id, headers.method, &params)
        })
        .await
    }

    pub(crate) async fn initialize(
        self: &Arc<Self>,
        version: ProtocolVersion,
        deadline: Deadline,
    ) -> Result<RawResult, RequestError> {
        let context = &self.core.peer.context;
        let capabilities = context.client_capabilities();
        let headers = RequestHeaders::of("initialize");
        self.request(headers, deadline, None, |id| {
            let params = encode::initialize(version, capabilities, &context.client);
            encode::request(id, headers.method, params)
        })
        .await
    }

    /// Sends the `initialized` notification and waits for the HTTP response, so that no later
    /// request overtakes the notification.
    pub(crate) async fn send_initialized(self: &Arc<Self>, version: ProtocolVersion) {
        let line = encode::notification("notifications/initialized", None::<()>);
        self.post(line, Some(version)).await;
    }

    /// Posts a notification, or a response to a request of the server. Errors are only logged.
    async fn post(&self, line: Vec<u8>, version: Option<ProtocolVersion>) {
        let body = post_body(line);
        self.core.peer.tap(Direction::Sent, &body);
        let request_headers = RequestHeaders {
            version,
            ..RequestHeaders::of("notifications/initialized")
        };
        let headers = || {
            let mut headers = self.headers(&request_headers);
            // Only requests repeat their method in a header.
            headers.remove(METHOD);
            headers
        };
        let url = self.endpoint.get();
        let sent = self.core.client.send(Method::POST, url, headers, body);
        let server = &self.core.peer.context.server;
        match tokio::time::timeout(NOTIFICATION_TIMEOUT, sent).await {
            Ok(Ok(reply)) if reply.incoming.status.is_success() => {}
            Ok(Ok(reply)) => {
                tracing::debug!(%server, status = %reply.incoming.status, "notification rejected");
            }
            Ok(Err(error)) => {
                let error = status::send_error(error);
                tracing::debug!(%server, %error, "notification not sent");
            }
            Err(_) => tracing::debug!(%server, "notification timed out"),
        }
    }

    /// Sends `notifications/cancelled` in the legacy era, between the handshake and the end of the
    /// session. Sends nothing in the modern era, where closing the HTTP exchange cancels the
    /// request.
    pub(super) fn send_cancelled(self: &Arc<Self>, id: u64, reason: &str) {
        if !self.is_modern()
            && self.core.peer.version().is_some()
            && !self.core.peer.stop.is_cancelled()
        {
            self.send_notification(encode::cancelled(id, reason));
        }
    }

    /// Sends DELETE for the session id and waits at most `within` for the response, which is
    /// ignored. Does nothing without a session id, or if the session was already deleted.
    pub(crate) async fn delete_session(&self, within: Duration) {
        if self.session_id.get().is_none() || self.session_deleted.swap(true, Ordering::Relaxed) {
            return;
        }
        let headers = || {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, ACCEPT_BOTH);
            self.insert_version_headers(&mut headers, None);
            headers
        };
        let delete =
            self.core
                .client
                .send(Method::DELETE, self.endpoint.get(), headers, Bytes::new());
        let _ = tokio::time::timeout(within, delete).await;
    }

    /// Ends the session because the server no longer knows the session id.
    pub(super) fn end_expired(&self) -> RequestError {
        self.session_deleted.store(true, Ordering::Relaxed);
        self.core.peer.end(SessionEnd::Expired);
        RequestError::UnknownSession
    }
}

impl JsonRpcSession for StreamableHttpSession {
    fn peer(&self) -> &Peer {
        &self.core.peer
    }

    fn send_notification(self: &Arc<Self>, line: Vec<u8>) {
        let this = Arc::clone(self);
        let send = async move { this.post(line, None).await };
        self.core.spawn_notification(send);
    }

    fn end(&self, end: SessionEnd) {
        self.core.peer.end(end);
    }
}

impl Pingable for StreamableHttpSession {
    fn health(&self) -> &HealthMonitor {
        &self.core.health
    }

    /// Sends `ping`. In the modern era, which has no `ping`, sends `server/discover`.
    async fn ping(self: &Arc<Self>, deadline: Deadline) -> Result<RawResult, RequestError> {
        match self.core.peer.version() {
            Some(version) if version.era() == Era::Modern => self.discover(version, deadline).await,
            _ => {
                let headers = RequestHeaders::of("ping");
                self.request(headers, deadline, None, |id| {
                    encode::request(id, headers.method, serde_json::json!({}))
                })
                .await
            }
        }
    }
}
