//! Sends one request over streamable HTTP: a POST whose response is JSON or an event stream.
//!
//! If the event stream breaks in the legacy era and its events have ids, the rest of the stream is
//! requested with a GET. Otherwise the request fails. Invariant: a broken event stream never causes
//! the request itself to be sent again.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::{Method, StatusCode};
use tokio::sync::mpsc;

use super::authorized::{AuthorizedResponse, SendOptions};
use super::event_stream::{EventStream, EventStreamEnd, is_message};
use super::incoming::{IncomingKind, handle_incoming};
use super::request_headers::RequestHeaders;
use super::streamable::StreamableHttpSession;
use super::{ContentType, post_body, status};
use crate::connect_stage::ConnectStage;
use crate::http::Body;
use crate::rate_limit::RateLimiter;
use crate::session::deadline::{Deadline, Expired};
use crate::session::progress::ProgressForwarder;
use crate::session::query::needs_no_cancel;
use crate::session::request_table::Reply;
use crate::session::{Delivery, RequestError, TransportFailure, run_blocking};
use crate::wire_tap::Direction;
use switchboard_wire::jsonrpc::{InvalidMessage, RawResult, ResponseId};
use switchboard_wire::limits::LARGE_MESSAGE_BYTES;
use switchboard_wire::mcp::Progress;
use switchboard_wire::memory_budget::MemoryPermit;
use switchboard_wire::sse::SseItem;
use switchboard_wire::sync::lock;

/// Delay before a broken stream is resumed, unless the server sets a delay with `retry`.
const DEFAULT_RESUME_DELAY: Duration = Duration::from_secs(1);
/// Lower bound of the delay that the server sets with `retry`.
const MIN_RESUME_DELAY: Duration = Duration::from_millis(20);
/// Maximum number of consecutive attempts to resume a stream without a new event.
const MAX_RESUMPTIONS: u32 = 5;
/// The error for an event that has no end within eight times the size limit.
pub(super) const UNTERMINATED_EVENT: &str = "the server sent an event without an end";
/// How long the rest of an event stream is read after the response arrived.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// A request in flight. Dropping this value while the caller is waiting cancels the request.
struct InFlightExchange<'a> {
    session: &'a Arc<StreamableHttpSession>,
    id: u64,
    method: &'a str,
    /// Whether the caller still waits for the response.
    is_waiting: bool,
    /// Whether the caller asked for progress.
    has_progress: bool,
}

impl<'a> InFlightExchange<'a> {
    fn new(
        session: &'a Arc<StreamableHttpSession>,
        id: u64,
        method: &'a str,
        progress: Option<mpsc::Sender<Progress>>,
    ) -> Self {
        if counts_as_work(method) {
            session.core.health.begin_request();
        }
        let has_progress = progress.is_some();
        if let Some(sender) = progress {
            lock(&session.progress).insert(id, ProgressForwarder::new(sender));
        }
        Self {
            session,
            id,
            method,
            is_waiting: true,
            has_progress,
        }
    }
}

/// Whether a request of this method counts as in flight for the health checks. The requests that
/// health checks send do not count.
fn counts_as_work(method: &str) -> bool {
    !matches!(method, "ping" | "server/discover")
}

impl Drop for InFlightExchange<'_> {
    fn drop(&mut self) {
        if counts_as_work(self.method) {
            self.session.core.health.end_request();
        }
        if self.has_progress {
            lock(&self.session.progress).remove(&self.id);
        }
        if self.is_waiting && !needs_no_cancel(self.method) {
            self.session
                .send_cancelled(self.id, "cancelled by the caller");
        }
    }
}

/// A message on the event stream of a request.
pub(super) enum StreamMessage {
    /// The response to the request.
    Response(Result<RawResult, RequestError>),
    /// Progress that a caller asked for. Not charged to the rate limit.
    RequestedProgress,
    /// A message that is neither the response nor requested progress. It was handled or discarded.
    /// Charged to the rate limit.
    Unsolicited,
}

/// Why [`StreamableHttpSession::request`] stopped waiting for the response.
enum Wake {
    Done(Result<RawResult, RequestError>),
    Stopped,
    Expired(Expired),
}

impl StreamableHttpSession {
    /// Sends a request and waits for its response until the deadline.
    pub(super) async fn request(
        self: &Arc<Self>,
        headers: RequestHeaders<'_>,
        deadline: Deadline,
        progress: Option<mpsc::Sender<Progress>>,
        encode: impl FnOnce(u64) -> Vec<u8>,
    ) -> Result<RawResult, RequestError> {
        let peer = &self.core.peer;
        let id = self.next_id();
        let body = post_body(encode(id));
        let _permit = peer.reserve(&body)?;
        if peer.stop.is_cancelled() {
            let delivery = Delivery::NotSent;
            let end = peer.ended().await;
            return Err(RequestError::Lost { delivery, end });
        }
        peer.tap(Direction::Sent, &body);
        let running = deadline.start(&peer.clock);
        let options = SendOptions::of(headers.method);
        let mut in_flight = InFlightExchange::new(self, id, headers.method, progress);
        let wake = {
            // Pinned in place, so that this large future is not copied.
            let exchange = pin!(self.exchange(id, headers, &options, body));
            tokio::select! {
                biased;
                outcome = exchange => Wake::Done(outcome),
                () = peer.stop.cancelled() => Wake::Stopped,
                expired = running.expired(&peer.clock) => Wake::Expired(expired),
            }
        };
        let outcome = match wake {
            Wake::Done(outcome) => outcome,
            Wake::Stopped => Err(RequestError::Lost {
                delivery: options.sent.delivery(),
                end: peer.ended().await,
            }),
            Wake::Expired(expired) => {
                let delivery = options.sent.delivery();
                if delivery == Delivery::Unknown {
                    self.send_cancelled(id, "timed out");
                }
                Err(RequestError::timed_out(expired).with_delivery(delivery))
            }
        };
        in_flight.is_waiting = false;
        self.core.record_outcome(headers.method, outcome)
    }

    async fn exchange(
        self: &Arc<Self>,
        id: u64,
        headers: RequestHeaders<'_>,
        options: &SendOptions,
        body: Bytes,
    ) -> Result<RawResult, RequestError> {
        let build_headers = || self.headers(&headers);
        let url = self.endpoint.get();
        let sent = self
            .core
            .client
            .send_with(Method::POST, url, options, build_headers, body);
        let mut reply = sent.await.map_err(status::send_error)?;
        let status = reply.incoming.status;
        if !status.is_success() {
            return Err(self.on_error_status(Some(id), reply).await);
        }
        if self.core.peer.version().is_none()
            && let Some(url) = reply.incoming.redirected_to.take()
        {
            // Calls are not redirected, so they are sent to the URL at which the handshake
            // succeeded.
            let _ = self.endpoint.set(url);
        }
        if headers.method == "initialize" {
            self.store_session_id(&reply.incoming.headers)?;
        }
        match ContentType::of(&reply.incoming.headers) {
            ContentType::Json => self.read_json(id, &mut reply).await,
            ContentType::Events => Box::pin(self.read_events(id, reply.incoming.body)).await,
            other => {
                let message = match other {
                    ContentType::Other(kind) => format!(
                        "unexpected content type {}: expected JSON or an event stream; is this the \
                         URL of an MCP server?",
                        self.core.peer.excerpt(kind.as_bytes())
                    ),
                    _ => format!(
                        "the server accepted the request (HTTP {status}) but sent no response"
                    ),
                };
                Err(RequestError::Transport(TransportFailure {
                    status: Some(status.as_u16()),
                    stage: ConnectStage::Alive,
                    ..TransportFailure::unknown(message)
                }))
            }
        }
    }

    /// Maps an error status to the error of request `id`. Ends the session if the status says that
    /// the server no longer knows the session id.
    pub(super) async fn on_error_status(
        &self,
        id: Option<u64>,
        reply: AuthorizedResponse,
    ) -> RequestError {
        let status = reply.incoming.status;
        let has_session = self.session_id.get().is_some();
        if has_session && status == StatusCode::NOT_FOUND {
            return self.end_expired();
        }
        match status::read(&self.core.peer, self.url(), id, reply).await {
            // The protocol prescribes 404 for an unknown session, but many servers respond with
            // 400.
            RequestError::ErrorResponse(error)
                if has_session
                    && status == StatusCode::BAD_REQUEST
                    && error.message.to_ascii_lowercase().contains("session") =>
            {
                self.end_expired()
            }
            error => error,
        }
    }

    async fn read_json(
        self: &Arc<Self>,
        id: u64,
        reply: &mut AuthorizedResponse,
    ) -> Result<RawResult, RequestError> {
        let context = &self.core.peer.context;
        let limit = context.limits.message_bytes;
        let body = reply.incoming.body.collect(limit, &context.budget);
        let (text, held) = body
            .await
            .map_err(|error| status::body_error(error, &self.core.peer))?;
        match self.receive(id, text, held).await {
            StreamMessage::Response(response) => response,
            _ => {
                let reason = "it holds no response to the request".to_owned();
                Err(RequestError::InvalidResponse(InvalidMessage::Malformed(
                    reason,
                )))
            }
        }
    }

    /// Handles the events of a stream until the response to request `id` arrives. Resumes a broken
    /// stream in the legacy era if its events have ids.
    async fn read_events(self: &Arc<Self>, id: u64, body: Body) -> Result<RawResult, RequestError> {
        let mut stream = EventStream::new(body, &self.core.peer.context);
        let mut rate_limit = RateLimiter::unsolicited();
        let mut resume_delay = DEFAULT_RESUME_DELAY;
        let mut resumptions = 0;
        loop {
            let failure = match stream.next().await {
                Ok(SseItem::Event(event)) => {
                    resumptions = 0;
                    if is_message(&event) {
                        let size = event.data.len();
                        match self.receive(id, event.data, event.permit).await {
                            StreamMessage::Response(response) => {
                                self.drain_body(stream.into_body());
                                return response;
                            }
                            StreamMessage::RequestedProgress => {}
                            StreamMessage::Unsolicited => rate_limit.throttle(size).await,
                        }
                    }
                    continue;
                }
                Ok(SseItem::Retry(delay)) => {
                    resume_delay = delay;
                    continue;
                }
                Ok(SseItem::Discarded {
                    id: discarded,
                    reason,
                }) if discarded == Some(id) => {
                    let error = self.core.peer.discard_error(reason);
                    return Err(RequestError::InvalidResponse(error));
                }
                Ok(SseItem::Discarded { .. }) => continue,
                Err(EventStreamEnd::Unterminated) => return Err(unknown(UNTERMINATED_EVENT)),
                Err(EventStreamEnd::Closed) => "the stream ended before the response".to_owned(),
                Err(EventStreamEnd::Failed(error)) => {
                    self.core.peer.context.redactor.redact(&error.to_string())
                }
            };
            resumptions += 1;
            let is_resumable = stream.last_event_id().is_some() && !self.is_modern();
            if !is_resumable || resumptions > MAX_RESUMPTIONS {
                return Err(unknown(failure));
            }
            tokio::time::sleep(resume_delay.max(MIN_RESUME_DELAY)).await;
            self.resume(&mut stream, &failure).await?;
        }
    }

    /// Requests the events after the last one that arrived. If the connection for these events
    /// fails, too, the stream stays broken and the next call may resume it.
    async fn resume(&self, stream: &mut EventStream, failure: &str) -> Result<(), RequestError> {
        match self.open_stream(stream.last_event_id()).await {
            Ok(body) => stream.resume(body),
            Err(RequestError::Transport(TransportFailure { status: None, .. })) => {}
            // The server does not resume the stream, so the response is lost.
            Err(error) => {
                let message = format!("{failure}, and it could not be resumed: {error}");
                return Err(unknown(message));
            }
        }
        Ok(())
    }

    /// Reads the rest of a stream in the background, so that its connection can be reused. Gives up
    /// after [`DRAIN_TIMEOUT`].
    fn drain_body(&self, mut body: Body) {
        match body.chunk().now_or_never() {
            Some(Ok(None) | Err(_)) => {}
            _ => {
                let stop = self.core.peer.stop.clone();
                self.core.tasks.spawn(async move {
                    let rest = async { while let Ok(Some(_)) = body.chunk().await {} };
                    let _ =
                        tokio::time::timeout(DRAIN_TIMEOUT, stop.run_until_cancelled(rest)).await;
                });
            }
        }
    }

    /// Handles a message on the stream of request `id`. Uses a blocking thread if the message is
    /// longer than [`LARGE_MESSAGE_BYTES`].
    pub(super) async fn receive(
        self: &Arc<Self>,
        id: u64,
        message: Bytes,
        permit: Option<MemoryPermit>,
    ) -> StreamMessage {
        self.core.peer.tap(Direction::Received, &message);
        if message.len() > LARGE_MESSAGE_BYTES {
            let this = Arc::clone(self);
            let receive = move || this.dispatch_message(id, message, &mut { permit });
            let received = Box::pin(run_blocking(receive)).await;
            return received.unwrap_or(StreamMessage::Unsolicited);
        }
        self.dispatch_message(id, message, &mut { permit })
    }

    fn dispatch_message(
        self: &Arc<Self>,
        id: u64,
        message: Bytes,
        permit: &mut Option<MemoryPermit>,
    ) -> StreamMessage {
        let progress = |token, progress| self.on_progress(token, progress);
        match handle_incoming(self, message, permit, progress) {
            IncomingKind::Response { id: named, reply }
                if named == ResponseId::Number(id)
                    || matches!((named, &reply), (ResponseId::Null, Reply::Error(_))) =>
            {
                StreamMessage::Response(reply.into_result())
            }
            IncomingKind::Response { id, .. } => {
                let server = &self.core.peer.context.server;
                tracing::debug!(%server, ?id, "response to no request");
                StreamMessage::Unsolicited
            }
            IncomingKind::Batch(messages) => {
                let mut response = StreamMessage::Unsolicited;
                for message in messages {
                    let received = self.dispatch_message(id, message, permit);
                    if matches!(response, StreamMessage::Unsolicited) {
                        response = received;
                    }
                }
                response
            }
            IncomingKind::RequestedProgress => StreamMessage::RequestedProgress,
            IncomingKind::Unsolicited => StreamMessage::Unsolicited,
        }
    }

    /// Forwards progress to the caller of request `id`. Returns whether this caller asked for
    /// progress.
    fn on_progress(&self, id: u64, progress: Progress) -> bool {
        let mut forwarders = lock(&self.progress);
        let Some(forwarder) = forwarders.get_mut(&id) else {
            return false;
        };
        forwarder.forward(progress);
        true
    }
}

fn unknown(message: impl Into<String>) -> RequestError {
    RequestError::Transport(TransportFailure::unknown(message))
}
