//! HTTP+SSE session of 2024-11-05: one event stream from the server, and POSTs to the URL that the
//! server names in its first event ([`endpoint`]).
//!
//! All responses arrive on the event stream. As in a session over a byte stream, requests wait for
//! their responses in a [`RequestTable`]. Invariant: when the event stream ends, the session ends
//! and every request in flight fails.

mod endpoint;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, Method};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use super::authorized::SendOptions;
use super::event_stream::{EventStream, EventStreamEnd, is_message};
use super::health::{self, Health, HealthMonitor, Pingable};
use super::http_core::{HttpCore, NOTIFICATION_TIMEOUT};
use super::incoming::{IncomingKind, handle_incoming};
use super::{ACCEPT_BOTH, ACCEPT_EVENTS, AuthorizedClient, ContentType, JSON, post_body, status};
use crate::connect_stage::ConnectStage;
use crate::rate_limit::RateLimiter;
use crate::session::deadline::Deadline;
use crate::session::peer::{JsonRpcSession, Peer};
use crate::session::query::Query;
use crate::session::request_table::{PendingRequest, Reply, RequestKind, RequestTable};
use crate::session::{
    Delivery, RequestError, SessionContext, SessionEnd, ToolRequest, TransportFailure, run_blocking,
};
use crate::wire_tap::Direction;
use switchboard_wire::encode;
use switchboard_wire::encode::InputResponses;
use switchboard_wire::jsonrpc::{RawResult, ResponseId};
use switchboard_wire::limits::LARGE_MESSAGE_BYTES;
use switchboard_wire::mcp::{Progress, ProtocolVersion, ServerHello};
use switchboard_wire::memory_budget::MemoryPermit;
use switchboard_wire::sse::SseItem;
use switchboard_wire::sync::lock;

/// How long reading the response body of a successful POST may take.
const POST_BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a request still waits for its response on the event stream after its POST failed.
const RESPONSE_AFTER_FAILED_POST: Duration = Duration::from_secs(10);

/// A session over HTTP+SSE of 2024-11-05.
pub struct Sse2024Session {
    core: HttpCore,
    /// The URL to which requests are posted.
    endpoint: Url,
    requests: Mutex<RequestTable>,
}

impl std::fmt::Debug for Sse2024Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sse2024Session")
            .field("server", &self.core.peer.context.server)
            .finish_non_exhaustive()
    }
}

impl Sse2024Session {
    /// Opens the event stream and waits for the `endpoint` event.
    pub(crate) async fn open(
        client: AuthorizedClient,
        context: SessionContext,
        tasks: &TaskTracker,
        stop: CancellationToken,
        health: &Health,
    ) -> Result<Arc<Self>, RequestError> {
        let core = HttpCore::new(client, context, tasks, stop, health);
        let headers = || HeaderMap::from_iter([(ACCEPT, ACCEPT_EVENTS)]);
        let sent = core.client.send(Method::GET, None, headers, Bytes::new());
        let response = sent.await.map_err(status::send_error)?;
        if !response.incoming.status.is_success() {
            let error = status::read(&core.peer, core.client.url(), None, response).await;
            return Err(with_streamable_hint(error));
        }
        if ContentType::of(&response.incoming.headers) != ContentType::Events {
            let message = "the response is not an event stream: is this the URL of an MCP server?";
            let error = RequestError::Transport(TransportFailure::unknown(message));
            return Err(with_streamable_hint(error));
        }
        let mut stream = EventStream::new(response.incoming.body, &core.peer.context);
        let endpoint = endpoint::read(&mut stream, core.client.url()).await?;
        let session = Arc::new(Self {
            core,
            endpoint,
            requests: Mutex::default(),
        });
        tasks.spawn(Arc::clone(&session).read_all(stream));
        Ok(session)
    }

    /// Stores the result of the handshake and starts the health checks.
    pub(crate) fn set_handshake(self: &Arc<Self>, handshake: ServerHello) {
        self.core.peer.list_changes.set_all_receivable();
        self.core.peer.set_handshake(handshake);
        self.core.tasks.spawn(health::run_checks(Arc::clone(self)));
    }

    pub(in crate::session) async fn query(
        self: &Arc<Self>,
        query: &Query<'_>,
        input_responses: Option<&InputResponses>,
        deadline: Deadline,
    ) -> Result<RawResult, RequestError> {
        let options = PostOptions::new(RequestKind::of(query.method), deadline);
        self.request(options, |id| {
            self.core.peer.encode_query(id, query, input_responses)
        })
        .await
    }

    pub(in crate::session) async fn call_tool(
        self: &Arc<Self>,
        call: &ToolRequest<'_>,
    ) -> Result<RawResult, RequestError> {
        let options = PostOptions {
            progress: call.progress.clone(),
            send: SendOptions::of("tools/call"),
            ..PostOptions::new(RequestKind::Ordinary, call.deadline)
        };
        self.request(options, |id| self.core.peer.encode_call(id, call))
            .await
    }

    pub(crate) async fn initialize(
        self: &Arc<Self>,
        version: ProtocolVersion,
        deadline: Deadline,
    ) -> Result<RawResult, RequestError> {
        let context = &self.core.peer.context;
        let capabilities = context.client_capabilities();
        let options = PostOptions::new(RequestKind::Handshake, deadline);
        self.request(options, |id| {
            let params = encode::initialize(version, capabilities, &context.client);
            encode::request(id, "initialize", params)
        })
        .await
    }

    /// Sends the `initialized` notification and waits until the POST is done.
    pub(crate) async fn send_initialized(&self) {
        let line = encode::notification("notifications/initialized", None::<()>);
        self.post_notification(line).await;
    }

    /// Sends a request and waits for its response until the deadline.
    async fn request(
        self: &Arc<Self>,
        options: PostOptions,
        encode: impl FnOnce(u64) -> Vec<u8>,
    ) -> Result<RawResult, RequestError> {
        let PostOptions {
            kind,
            deadline,
            progress,
            send,
        } = options;
        let peer = &self.core.peer;
        let (reply, response) = oneshot::channel();
        let request = PendingRequest::new(reply, progress, kind, deadline.start(&peer.clock));
        let inserted = lock(&self.requests).insert(request);
        let id = inserted.map_err(|end| RequestError::Lost {
            delivery: Delivery::NotSent,
            end,
        })?;
        if kind == RequestKind::Ordinary {
            self.core.health.begin_request();
        }
        let mut in_flight = InFlightPost {
            session: self,
            id,
            kind,
            is_waiting: false,
        };
        let line = encode(id);
        let _permit = peer.reserve(&line)?;
        in_flight.is_waiting = true;
        let running = deadline.start(&peer.clock);
        let outcome = tokio::select! {
            biased;
            outcome = self.post_and_wait(line, &send, response) => outcome,
            expired = running.expired(&peer.clock) => {
                let delivery = send.sent.delivery();
                if delivery == Delivery::Unknown {
                    self.send_cancelled(id, kind, "timed out");
                } else {
                    lock(&self.requests).take(id);
                }
                Err(RequestError::timed_out(expired).with_delivery(delivery))
            }
        };
        in_flight.is_waiting = false;
        outcome
    }

    /// Posts a request and waits for its response. The response arrives on the event stream,
    /// possibly before the POST is answered.
    async fn post_and_wait(
        &self,
        line: Vec<u8>,
        send: &SendOptions,
        mut response: oneshot::Receiver<Reply>,
    ) -> Result<RawResult, RequestError> {
        let posted = tokio::select! {
            biased;
            reply = &mut response => return into_result(reply),
            posted = self.post(line, send) => posted,
        };
        match posted {
            Ok(()) => into_result(response.await),
            Err(RequestError::Transport(failed)) if failed.delivery == Delivery::Unknown => {
                // The POST failed, but the event stream may still deliver the response.
                match tokio::time::timeout(RESPONSE_AFTER_FAILED_POST, response).await {
                    Ok(reply) => into_result(reply),
                    Err(_) => Err(RequestError::Transport(failed)),
                }
            }
            Err(error) => Err(error),
        }
    }

    async fn post(&self, line: Vec<u8>, options: &SendOptions) -> Result<(), RequestError> {
        let body = post_body(line);
        self.core.peer.tap(Direction::Sent, &body);
        let headers = || {
            let mut headers = HeaderMap::with_capacity(8);
            headers.insert(ACCEPT, ACCEPT_BOTH);
            headers.insert(CONTENT_TYPE, JSON);
            headers
        };
        let url = Some(&self.endpoint);
        let sent = self
            .core
            .client
            .send_with(Method::POST, url, options, headers, body);
        let mut reply = sent.await.map_err(status::send_error)?;
        if !reply.incoming.status.is_success() {
            return Err(status::read(&self.core.peer, &self.endpoint, None, reply).await);
        }
        // Read the short body, so that the connection can be reused.
        let rest = reply
            .incoming
            .body
            .collect(LARGE_MESSAGE_BYTES, &self.core.peer.context.budget);
        let _ = tokio::time::timeout(POST_BODY_TIMEOUT, rest).await;
        Ok(())
    }

    async fn post_notification(&self, line: Vec<u8>) {
        let sent = tokio::time::timeout(
            NOTIFICATION_TIMEOUT,
            self.post(line, &SendOptions::default()),
        )
        .await;
        if let Ok(Err(error)) = sent {
            tracing::debug!(server = %self.core.peer.context.server, %error, "notification not sent");
        }
    }

    /// Takes a request out of the table. If it was still in flight and is an ordinary request,
    /// notifies the server that the request was cancelled.
    fn send_cancelled(self: &Arc<Self>, id: u64, kind: RequestKind, reason: &str) {
        let was_open = lock(&self.requests).take(id).is_some();
        if was_open && kind == RequestKind::Ordinary {
            self.send_notification(encode::cancelled(id, reason));
        }
    }

    /// Reads the event stream until it ends or the session is closed. Then ends the session.
    async fn read_all(self: Arc<Self>, mut stream: EventStream) {
        let stop = self.core.peer.stop.clone();
        let end = stop.run_until_cancelled(self.receive_all(&mut stream));
        let end = end.await.unwrap_or(SessionEnd::Closed);
        self.end(end);
    }

    /// Handles the events of the stream until it ends. Returns why it ended.
    async fn receive_all(self: &Arc<Self>, stream: &mut EventStream) -> SessionEnd {
        let mut rate_limit = RateLimiter::unsolicited();
        loop {
            match stream.next().await {
                Ok(SseItem::Event(event)) => {
                    self.core.health.record_success();
                    if !is_message(&event) {
                        continue;
                    }
                    let size = event.data.len();
                    let is_unsolicited = self.receive(event.data, event.permit).await;
                    if is_unsolicited {
                        rate_limit.throttle(size).await;
                    }
                }
                Ok(SseItem::Discarded {
                    id: Some(id),
                    reason,
                }) => {
                    let reply = Reply::Invalid(self.core.peer.discard_error(reason));
                    self.deliver(ResponseId::Number(id), reply);
                }
                Ok(SseItem::Discarded { id: None, .. } | SseItem::Retry(_)) => {}
                Err(EventStreamEnd::Closed) => return SessionEnd::Eof { partial_line: None },
                Err(EventStreamEnd::Failed(error)) => {
                    let error = self.core.peer.context.redactor.redact(&error.to_string());
                    return SessionEnd::Unreachable(error);
                }
                Err(EventStreamEnd::Unterminated) => return SessionEnd::Unterminated,
            }
        }
    }

    /// Handles a message, on a blocking thread if it is longer than [`LARGE_MESSAGE_BYTES`].
    /// Returns whether the message was unsolicited.
    async fn receive(self: &Arc<Self>, message: Bytes, permit: Option<MemoryPermit>) -> bool {
        self.core.peer.tap(Direction::Received, &message);
        if message.len() > LARGE_MESSAGE_BYTES {
            let this = Arc::clone(self);
            let receive = move || this.dispatch_message(message, &mut { permit });
            return Box::pin(run_blocking(receive)).await.unwrap_or(false);
        }
        self.dispatch_message(message, &mut { permit })
    }

    fn dispatch_message(
        self: &Arc<Self>,
        message: Bytes,
        permit: &mut Option<MemoryPermit>,
    ) -> bool {
        let progress = |token, progress| lock(&self.requests).forward_progress(token, progress);
        match handle_incoming(self, message, permit, progress) {
            IncomingKind::Response { id, reply } => !self.deliver(id, reply),
            IncomingKind::Batch(messages) => {
                let mut is_unsolicited = true;
                for message in messages {
                    is_unsolicited &= self.dispatch_message(message, permit);
                }
                is_unsolicited
            }
            IncomingKind::RequestedProgress => false,
            IncomingKind::Unsolicited => true,
        }
    }

    /// Delivers a response to its caller. Returns false if it answers no request in flight.
    fn deliver(&self, id: ResponseId, reply: Reply) -> bool {
        let Some(request) = lock(&self.requests).take_for_response(id, &reply) else {
            return false;
        };
        // Sending fails if the caller stopped waiting after the lookup.
        let _ = request.reply.send(reply);
        true
    }
}

impl JsonRpcSession for Sse2024Session {
    fn peer(&self) -> &Peer {
        &self.core.peer
    }

    fn send_notification(self: &Arc<Self>, line: Vec<u8>) {
        let this = Arc::clone(self);
        let send = async move { this.post_notification(line).await };
        self.core.spawn_notification(send);
    }

    fn end(&self, end: SessionEnd) {
        let in_flight = lock(&self.requests).end(end.clone());
        for (_, request) in in_flight {
            let _ = request.reply.send(Reply::Lost {
                delivery: Delivery::Unknown,
                end: end.clone(),
            });
        }
        self.core.peer.end(end);
    }
}

impl Pingable for Sse2024Session {
    fn health(&self) -> &HealthMonitor {
        &self.core.health
    }

    async fn ping(self: &Arc<Self>, deadline: Deadline) -> Result<RawResult, RequestError> {
        let options = PostOptions::new(RequestKind::Brief, deadline);
        self.request(options, |id| {
            encode::request(id, "ping", serde_json::json!({}))
        })
        .await
    }
}

/// The kind and the deadline of a request, the receiver of its progress, and how it is
/// sent.
struct PostOptions {
    kind: RequestKind,
    deadline: Deadline,
    progress: Option<mpsc::Sender<Progress>>,
    send: SendOptions,
}

impl PostOptions {
    fn new(kind: RequestKind, deadline: Deadline) -> Self {
        Self {
            kind,
            deadline,
            progress: None,
            send: SendOptions::default(),
        }
    }
}

/// A request in flight. Dropping this value while the caller is waiting cancels the request.
struct InFlightPost<'a> {
    session: &'a Arc<Sse2024Session>,
    id: u64,
    kind: RequestKind,
    /// Whether the request may have been sent and the caller still waits for the response.
    is_waiting: bool,
}

impl Drop for InFlightPost<'_> {
    fn drop(&mut self) {
        if self.kind == RequestKind::Ordinary {
            self.session.core.health.end_request();
        }
        if self.is_waiting {
            self.session
                .send_cancelled(self.id, self.kind, "cancelled by the caller");
        } else {
            // A request that failed before it was sent is still in the table.
            lock(&self.session.requests).take(self.id);
        }
    }
}

/// Adds a hint to the error for a URL at which no event stream was opened: a server of streamable
/// HTTP responds to a GET with 400, 404, 405 or 406, or with something else than events.
fn with_streamable_hint(error: RequestError) -> RequestError {
    let failure = match error {
        RequestError::ErrorResponse(error) => TransportFailure {
            delivery: Delivery::Answered,
            stage: ConnectStage::Alive,
            ..TransportFailure::unknown(format!("the server returned an error: {error}"))
        },
        RequestError::Transport(failure)
            if matches!(failure.status, None | Some(400 | 404..=406)) =>
        {
            failure
        }
        error => return error,
    };
    let message = format!(
        "{}; if the server uses the newer streamable HTTP, write \"type\": \"http\" in its entry",
        failure.message
    );
    RequestError::Transport(TransportFailure { message, ..failure })
}

fn into_result(reply: Result<Reply, oneshot::error::RecvError>) -> Result<RawResult, RequestError> {
    let reply = reply.unwrap_or(Reply::Lost {
        delivery: Delivery::Unknown,
        end: SessionEnd::Closed,
    });
    reply.into_result()
}
