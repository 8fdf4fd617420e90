//! Streamable-HTTP session, both eras: headers, session id, handshake, notifications, DELETE.
//!
//! Every request is one POST, driven by its caller's task; [`super::exchange`] reads the response.
//! Invariant: headers and body of a request agree.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::exchange::ProgressListener;
use super::health::{self, Health, HealthMonitor};
use super::notifications::{NOTIFICATION_TIMEOUT, NotificationSlots};
use super::{
    ACCEPT_BOTH, AuthorizedClient, JSON, METHOD, NAME, PROTOCOL_VERSION, SESSION_ID, status,
};
use crate::session::deadline::Deadline;
use crate::session::list_changes::ListChangeKind;
use crate::session::peer::{Outgoing, Peer};
use crate::session::query::Query;
use crate::session::{Delivery, RequestError, SessionContext, SessionEnd, ToolRequest};
use crate::wire_tap::Direction;
use switchboard_wire::Limits;
use switchboard_wire::decode::{Page, SkippedItem};
use switchboard_wire::encode;
use switchboard_wire::encode::{InputResponses, ListChangeFilter};
use switchboard_wire::header_params::{HeaderParams, header_value};
use switchboard_wire::jsonrpc::RawResult;
use switchboard_wire::mcp::{Era, ErrorObject, ProtocolVersion, ServerHello, ToolDefinition};
use switchboard_wire::sync::lock;

/// How long the handshake waits for the server-to-client stream to open.
pub(super) const LISTEN_STREAM_GRACE: Duration = Duration::from_secs(1);
/// Maximum length of a session id, in bytes.
const MAX_SESSION_ID_BYTES: usize = 256;
/// How long a call waits for a new tool list after the server rejected its headers.
const RELIST_TIMEOUT: Duration = Duration::from_secs(10);

pub struct StreamableHttpSession {
    pub(super) peer: Peer,
    pub(super) client: AuthorizedClient,
    pub(super) tasks: TaskTracker,
    next_id: AtomicU64,
    pub(super) session_id: OnceLock<HeaderValue>,
    /// Per tool, the arguments that its calls repeat in headers.
    header_params: Mutex<HashMap<String, Arc<HeaderParams>>>,
    /// Incremented after each complete tool list.
    tool_list_revision: tokio::sync::watch::Sender<u64>,
    /// Progress listeners by request id.
    pub(super) listeners: Mutex<HashMap<u64, ProgressListener>>,
    notifications: NotificationSlots,
    pub(super) health: HealthMonitor,
    /// Cancelled when the server-to-client stream was opened or rejected.
    pub(super) listen_stream_decided: CancellationToken,
    /// The session was deleted, or the server forgot it.
    session_deleted: AtomicBool,
}

impl std::fmt::Debug for StreamableHttpSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamableHttpSession")
            .field("server", &self.peer.context.server)
            .finish_non_exhaustive()
    }
}

/// The parts of a request that headers repeat.
#[derive(Clone, Copy)]
pub(super) struct RequestHeaders<'a> {
    pub(super) method: &'static str,
    /// The tool, resource or prompt.
    pub(super) name: Option<&'a str>,
    pub(super) header_params: Option<(&'a HeaderParams, &'a ToolRequest<'a>)>,
    /// The protocol version, if none is negotiated yet.
    pub(super) version: Option<ProtocolVersion>,
}

impl RequestHeaders<'_> {
    pub(super) fn of(method: &'static str) -> Self {
        Self {
            method,
            name: None,
            header_params: None,
            version: None,
        }
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
            peer: Peer::new(context, tasks, stop),
            client,
            tasks: tasks.clone(),
            next_id: AtomicU64::new(1),
            session_id: OnceLock::new(),
            header_params: Mutex::default(),
            tool_list_revision: tokio::sync::watch::Sender::new(0),
            listeners: Mutex::default(),
            notifications: NotificationSlots::new(),
            health: HealthMonitor::new(health),
            listen_stream_decided: CancellationToken::new(),
            session_deleted: AtomicBool::new(false),
        })
    }

    pub(in crate::session) fn limits(&self) -> &Limits {
        &self.peer.context.limits
    }

    pub(super) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn is_modern(&self) -> bool {
        self.peer
            .version()
            .is_some_and(|version| version.era() == Era::Modern)
    }

    /// Completes the handshake and opens the server-to-client stream before the first request.
    pub(crate) async fn set_handshake(self: &Arc<Self>, handshake: ServerHello) {
        let is_modern = handshake.version.era() == Era::Modern;
        let list_changes = ListChangeFilter::supported_by(&handshake.capabilities);
        self.peer.set_handshake(handshake);
        if is_modern {
            if list_changes.is_empty() {
                self.listen_stream_decided.cancel();
            } else {
                self.tasks
                    .spawn(Arc::clone(self).run_listen_request(list_changes));
            }
        } else {
            self.tasks.spawn(Arc::clone(self).run_get_stream());
        }
        self.tasks.spawn(health::run_checks(Arc::clone(self)));
        let _ =
            tokio::time::timeout(LISTEN_STREAM_GRACE, self.listen_stream_decided.cancelled()).await;
    }

    pub(super) fn headers(&self, request: &RequestHeaders<'_>) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(12);
        headers.insert(ACCEPT, ACCEPT_BOTH);
        headers.insert(CONTENT_TYPE, JSON);
        self.insert_version_headers(&mut headers, request.version);
        let version = request.version.or_else(|| self.peer.version());
        if version.is_some_and(|version| version.era() == Era::Modern) {
            headers.insert(METHOD, HeaderValue::from_static(request.method));
            if let Some(name) = request.name {
                headers.insert(NAME, header_value(name));
            }
            if let Some((params, call)) = request.header_params {
                headers.extend(params.headers(call.arguments));
            }
        }
        headers
    }

    /// Inserts the protocol version and the session id.
    pub(super) fn insert_version_headers(
        &self,
        headers: &mut HeaderMap,
        version: Option<ProtocolVersion>,
    ) {
        let version = version.or_else(|| self.peer.version());
        // Older versions do not have the header.
        if let Some(version) = version.filter(|version| *version > ProtocolVersion::V2025_03_26) {
            let version = HeaderValue::from_static(version.as_str());
            headers.insert(PROTOCOL_VERSION, version);
        }
        if let Some(session) = self.session_id.get() {
            headers.insert(SESSION_ID, session.clone());
        }
    }

    /// Stores the session id that the server assigned, if any.
    pub(super) fn store_session_id(&self, headers: &HeaderMap) -> Result<(), RequestError> {
        let Some(id) = headers.get(SESSION_ID) else {
            return Ok(());
        };
        let is_plain = id.as_bytes().iter().all(u8::is_ascii_graphic);
        if !is_plain || id.is_empty() || id.len() > MAX_SESSION_ID_BYTES {
            let why = format!(
                "its session id is not 1 to {MAX_SESSION_ID_BYTES} visible ASCII characters"
            );
            return Err(RequestError::InvalidResponse(
                switchboard_wire::jsonrpc::InvalidMessage::Malformed(why),
            ));
        }
        let mut id = id.clone();
        // A bearer secret: keep it out of debug output.
        id.set_sensitive(true);
        let _ = self.session_id.set(id);
        Ok(())
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
            self.peer.encode_query(id, query, input_responses)
        })
        .await
    }

    /// Removes tools that cannot be called over HTTP from a page, and records the header parameters of
    /// the others.
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
            // The server did not execute the call: the header parameters changed since the tool list.
            Err(RequestError::ErrorResponse(error))
                if error.code == ErrorObject::HEADER_MISMATCH && self.is_modern() =>
            {
                self.peer.list_changes.record(ListChangeKind::Tools);
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
            self.peer.encode_call(id, call)
        })
        .await
    }

    pub(crate) async fn discover(
        self: &Arc<Self>,
        version: ProtocolVersion,
        deadline: Deadline,
    ) -> Result<RawResult, RequestError> {
        let params = encode::MetaParams {
            meta: self.peer.request_meta(Some(version), None, None),
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
        let context = &self.peer.context;
        let capabilities = context.client_capabilities();
        let headers = RequestHeaders::of("initialize");
        self.request(headers, deadline, None, |id| {
            let params = encode::initialize(version, capabilities, &context.client);
            encode::request(id, headers.method, params)
        })
        .await
    }

    /// Sends `initialized`. Later requests must not overtake it, so this waits for the response.
    pub(crate) async fn send_initialized(self: &Arc<Self>, version: ProtocolVersion) {
        let line = encode::notification("notifications/initialized", None::<()>);
        self.post(line, Some(version)).await;
    }

    /// Sends `ping`, or `server/discover` in the modern era, which has no ping.
    pub(super) async fn ping(
        self: &Arc<Self>,
        deadline: Deadline,
    ) -> Result<RawResult, RequestError> {
        match self.peer.version() {
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

    /// Sends a notification or a response. Failures are only logged.
    async fn post(&self, mut line: Vec<u8>, version: Option<ProtocolVersion>) {
        line.pop();
        self.peer.tap(Direction::Sent, &line);
        let repeated = RequestHeaders {
            version,
            ..RequestHeaders::of("notifications/initialized")
        };
        let headers = || {
            let mut headers = self.headers(&repeated);
            headers.remove(METHOD);
            headers
        };
        let body = Bytes::from(line);
        let sent = self.client.send(Method::POST, None, headers, body);
        let server = &self.peer.context.server;
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

    /// Sends `cancelled`. In the modern era closing the exchange cancels the request.
    pub(super) fn send_cancelled(self: &Arc<Self>, id: u64, reason: &str) {
        if !self.is_modern() && self.peer.version().is_some() && !self.peer.stop.is_cancelled() {
            self.send_notification(encode::cancelled(id, reason));
        }
    }

    pub(in crate::session) fn close(&self) {
        self.peer.end(SessionEnd::Closed);
    }

    /// Sends DELETE for the session, once. The result is ignored.
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
        let delete = self
            .client
            .send(Method::DELETE, None, headers, Bytes::new());
        let _ = tokio::time::timeout(within, delete).await;
    }

    /// Ends the session because the server no longer knows it. The request was not executed and may be
    /// sent on the next session.
    pub(super) fn end_expired(&self) -> RequestError {
        self.session_deleted.store(true, Ordering::Relaxed);
        self.peer.end(SessionEnd::Expired);
        RequestError::Lost {
            delivery: Delivery::NotSent,
            end: SessionEnd::Expired,
        }
    }
}

impl Outgoing for StreamableHttpSession {
    fn peer(&self) -> &Peer {
        &self.peer
    }

    fn send_notification(self: &Arc<Self>, line: Vec<u8>) {
        let this = Arc::clone(self);
        let send = async move { this.post(line, None).await };
        self.notifications.spawn(&self.peer, send);
    }
}
