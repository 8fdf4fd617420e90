//! One request over streamable HTTP: POST, response as JSON or as an event stream, outcome.
//!
//! In the legacy era a broken event stream is resumed at the last event; in the modern era the request is
//! lost with its stream. Invariant: the request itself is sent once.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::sync::mpsc;

use super::authorized::AuthorizedResponse;
use super::dispatch::{Dispatched, dispatch};
use super::streamable::{RequestHeaders, StreamableHttpSession};
use super::{ACCEPT_EVENTS, ContentType, LAST_EVENT_ID, status};
use crate::http::Body;
use crate::rate_limit::RateLimiter;
use crate::session::deadline::{Deadline, Expired};
use crate::session::query::needs_no_cancel;
use crate::session::request_table::Reply;
use crate::session::{Delivery, RequestError, SessionEnd, TransportFailure, run_blocking};
use crate::wire_tap::Direction;
use switchboard_wire::jsonrpc::{InvalidMessage, RawResult, ResponseId};
use switchboard_wire::limits::LARGE_MESSAGE_BYTES;
use switchboard_wire::mcp::Progress;
use switchboard_wire::memory_budget::MemoryPermit;
use switchboard_wire::sse::{SseItem, SseParser};
use switchboard_wire::sync::lock;

/// Delay before a stream is resumed, unless the server sets one.
const DEFAULT_RESUME_DELAY: Duration = Duration::from_secs(1);
/// Maximum number of consecutive resumptions without a new event.
const MAX_RESUMPTIONS: u32 = 5;
/// How long the rest of a stream is read after the response.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) struct ProgressListener {
    sender: mpsc::Sender<Progress>,
    /// Progress dropped since the last one that was delivered.
    skipped: u64,
}

/// A request in flight. Notifies the server when it is dropped before the response.
struct InFlightExchange<'a> {
    session: &'a Arc<StreamableHttpSession>,
    id: u64,
    method: &'static str,
    is_waiting: bool,
    is_listening: bool,
}

impl<'a> InFlightExchange<'a> {
    fn new(
        session: &'a Arc<StreamableHttpSession>,
        id: u64,
        method: &'static str,
        progress: Option<mpsc::Sender<Progress>>,
    ) -> Self {
        if counts_as_work(method) {
            session.health.begin();
        }
        let is_listening = progress.is_some();
        if let Some(sender) = progress {
            let listener = ProgressListener { sender, skipped: 0 };
            lock(&session.listeners).insert(id, listener);
        }
        Self {
            session,
            id,
            is_waiting: true,
            method,
            is_listening,
        }
    }
}

/// Whether a request is more than a health check.
fn counts_as_work(method: &str) -> bool {
    !matches!(method, "ping" | "server/discover")
}

impl Drop for InFlightExchange<'_> {
    fn drop(&mut self) {
        if counts_as_work(self.method) {
            self.session.health.end();
        }
        if self.is_listening {
            lock(&self.session.listeners).remove(&self.id);
        }
        if self.is_waiting && !needs_no_cancel(self.method) {
            self.session
                .send_cancelled(self.id, "cancelled by the caller");
        }
    }
}

/// A message on the stream of a request.
pub(super) enum StreamMessage {
    /// The response to the request.
    Response(Result<RawResult, RequestError>),
    /// Progress that a caller asked for.
    RequestedProgress,
    Unsolicited,
}

/// Why the wait for a response ended.
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
        let peer = &self.peer;
        let id = self.next_id();
        let mut line = encode(id);
        line.pop();
        let _permit = peer.reserve(&line)?;
        if peer.stop.is_cancelled() {
            let delivery = Delivery::NotSent;
            let end = peer.ended().await;
            return Err(RequestError::Lost { delivery, end });
        }
        peer.tap(Direction::Sent, &line);
        let running = deadline.start(&peer.clock);
        let mut in_flight = InFlightExchange::new(self, id, headers.method, progress);
        let wake = {
            // Pinned in place: the future is large and would be copied otherwise.
            let exchange = pin!(self.exchange(id, headers, Bytes::from(line)));
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
                delivery: Delivery::Unknown,
                end: peer.ended().await,
            }),
            Wake::Expired(expired) => {
                self.send_cancelled(id, "timed out");
                Err(RequestError::timed_out(expired))
            }
        };
        in_flight.is_waiting = false;
        self.update_health(headers.method, outcome)
    }

    /// Records what the outcome of a request says about the server. May end the session.
    fn update_health(
        &self,
        method: &str,
        outcome: Result<RawResult, RequestError>,
    ) -> Result<RawResult, RequestError> {
        let error = match outcome {
            Ok(answer) => {
                self.health.record_success();
                return Ok(answer);
            }
            Err(error) => error,
        };
        let is_open = self.peer.version().is_some();
        match &error {
            RequestError::Transport(failed) if is_open => {
                if failed.status.is_none() && failed.delivery == Delivery::NotSent {
                    let end = SessionEnd::Unreachable(failed.message.clone());
                    self.peer.end(end.clone());
                    return Err(RequestError::Lost {
                        delivery: Delivery::NotSent,
                        end,
                    });
                }
                if failed.delivery == Delivery::Unknown && self.health.record_failure() {
                    self.peer
                        .end(SessionEnd::TooManyFailures(failed.message.clone()));
                } else if failed.status.is_none() {
                    self.health.check_now();
                }
            }
            RequestError::NeedsLogin(challenge) if is_open => {
                let end = SessionEnd::NeedsLogin(challenge.clone());
                self.peer.end(end.clone());
                return Err(RequestError::Lost {
                    delivery: Delivery::NotSent,
                    end,
                });
            }
            RequestError::ErrorResponse(_) | RequestError::InvalidResponse(_) => {
                self.health.record_success();
            }
            RequestError::TimedOut { .. } if method != "ping" => self.health.check_now(),
            _ => {}
        }
        Err(error)
    }

    async fn exchange(
        self: &Arc<Self>,
        id: u64,
        headers: RequestHeaders<'_>,
        body: Bytes,
    ) -> Result<RawResult, RequestError> {
        let build_headers = || self.headers(&headers);
        let sent = self.client.send(Method::POST, None, build_headers, body);
        let mut reply = sent.await.map_err(status::send_error)?;
        let status = reply.incoming.status;
        if !status.is_success() {
            return Err(self.on_error_status(Some(id), reply).await);
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
                        self.peer.excerpt(kind.as_bytes())
                    ),
                    _ => format!(
                        "the server accepted the request (HTTP {status}) but sent no response"
                    ),
                };
                Err(RequestError::Transport(TransportFailure {
                    status: Some(status.as_u16()),
                    ..TransportFailure::unknown(message)
                }))
            }
        }
    }

    /// Maps an error status to a request error. May end the session.
    async fn on_error_status(&self, id: Option<u64>, reply: AuthorizedResponse) -> RequestError {
        let status = reply.incoming.status;
        let has_session = self.session_id.get().is_some();
        if has_session && status == StatusCode::NOT_FOUND {
            return self.end_expired();
        }
        match status::read(&self.peer, self.client.url(), id, reply).await {
            // Not what the protocol prescribes, and what many servers say of a session they forgot.
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
        let context = &self.peer.context;
        let limit = context.limits.message_bytes;
        let body = reply.incoming.body.collect(limit, &context.budget);
        let (text, held) = body
            .await
            .map_err(|error| status::body_error(error, &self.peer))?;
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

    async fn read_events(
        self: &Arc<Self>,
        id: u64,
        mut body: Body,
    ) -> Result<RawResult, RequestError> {
        let limits = &self.peer.context.limits;
        let mut events = SseParser::new(limits.message_bytes, &self.peer.context.budget);
        let mut rate_limit = RateLimiter::unsolicited();
        let mut resume_delay = DEFAULT_RESUME_DELAY;
        let mut resumes = 0;
        loop {
            let broken = loop {
                match events.next_item() {
                    Ok(Some(SseItem::Event(event))) => {
                        resumes = 0;
                        if event.kind.as_deref().is_some_and(|kind| kind != "message") {
                            continue;
                        }
                        let size = event.data.len();
                        match self.receive(id, event.data, event.permit).await {
                            StreamMessage::Response(response) => {
                                self.drain_body(body);
                                return response;
                            }
                            StreamMessage::RequestedProgress => {}
                            StreamMessage::Unsolicited => {
                                if let Some(pause) = rate_limit.consume(size) {
                                    tokio::time::sleep(pause).await;
                                }
                            }
                        }
                    }
                    Ok(Some(SseItem::Retry(delay))) => resume_delay = delay,
                    Ok(Some(SseItem::Discarded { id: named, reason })) => {
                        if named == Some(id) {
                            return Err(RequestError::InvalidResponse(
                                self.peer.discard_error(reason),
                            ));
                        }
                    }
                    Ok(None) => match body.chunk().await {
                        Ok(Some(piece)) => events.push(piece),
                        Ok(None) => break "the stream ended before the response".to_owned(),
                        Err(error) => {
                            break self.peer.context.redactor.redact(&error.to_string());
                        }
                    },
                    Err(_) => {
                        let what = "the server sent an event without an end";
                        return Err(RequestError::Transport(TransportFailure::unknown(what)));
                    }
                }
            };
            resumes += 1;
            let resumable = events.last_event_id().filter(|_| !self.is_modern());
            let Some(last) = resumable.filter(|_| resumes <= MAX_RESUMPTIONS) else {
                return Err(RequestError::Transport(TransportFailure::unknown(broken)));
            };
            let last = last.to_owned();
            tokio::time::sleep(resume_delay).await;
            match self.open_stream(Some(&last)).await {
                Ok(resumed) => {
                    body = resumed;
                    events.reset_for_resume();
                }
                Err(RequestError::Transport(TransportFailure { status: None, .. })) => {}
                // The server rejected the resumption: the response is lost.
                Err(error) => {
                    let message = format!("{broken}, and it could not be resumed: {error}");
                    return Err(RequestError::Transport(TransportFailure::unknown(message)));
                }
            }
        }
    }

    /// Opens the server-to-client stream, after the event `last` of the previous one.
    pub(super) async fn open_stream(&self, last: Option<&str>) -> Result<Body, RequestError> {
        let headers = || {
            let mut headers = HeaderMap::with_capacity(8);
            headers.insert(ACCEPT, ACCEPT_EVENTS);
            self.insert_version_headers(&mut headers, None);
            if let Some(last) = last.and_then(|last| HeaderValue::from_str(last).ok()) {
                headers.insert(LAST_EVENT_ID, last);
            }
            headers
        };
        let sent = self.client.send(Method::GET, None, headers, Bytes::new());
        let reply = sent.await.map_err(status::send_error)?;
        if reply.incoming.status != StatusCode::OK {
            return Err(self.on_error_status(None, reply).await);
        }
        match ContentType::of(&reply.incoming.headers) {
            ContentType::Events => Ok(reply.incoming.body),
            _ => Err(RequestError::Transport(TransportFailure {
                status: Some(StatusCode::OK.as_u16()),
                ..TransportFailure::unknown("the response is not an event stream")
            })),
        }
    }

    /// Reads the rest of a stream after the response, so that its connection can be reused.
    fn drain_body(&self, mut body: Body) {
        match body.chunk().now_or_never() {
            Some(Ok(None) | Err(_)) => {}
            _ => {
                let stop = self.peer.stop.clone();
                self.tasks.spawn(async move {
                    let rest = async { while let Ok(Some(_)) = body.chunk().await {} };
                    let _ =
                        tokio::time::timeout(DRAIN_TIMEOUT, stop.run_until_cancelled(rest)).await;
                });
            }
        }
    }

    /// Handles a message of the stream that belongs to request `id`.
    pub(super) async fn receive(
        self: &Arc<Self>,
        id: u64,
        message: Bytes,
        permit: Option<MemoryPermit>,
    ) -> StreamMessage {
        self.peer.tap(Direction::Received, &message);
        if message.len() > LARGE_MESSAGE_BYTES {
            let this = Arc::clone(self);
            let receive = move || this.receive_blocking(id, message, &mut { permit });
            let received = Box::pin(run_blocking(receive)).await;
            return received.unwrap_or(StreamMessage::Unsolicited);
        }
        self.receive_blocking(id, message, &mut { permit })
    }

    fn receive_blocking(
        self: &Arc<Self>,
        id: u64,
        message: Bytes,
        permit: &mut Option<MemoryPermit>,
    ) -> StreamMessage {
        let progress = |token, progress| self.on_progress(token, progress);
        match dispatch(self, message, permit, progress) {
            Dispatched::Response { id: named, reply }
                if named == ResponseId::Number(id)
                    || matches!((named, &reply), (ResponseId::Null, Reply::Error(_))) =>
            {
                StreamMessage::Response(reply.into_result())
            }
            Dispatched::Response { id, .. } => {
                let server = &self.peer.context.server;
                tracing::debug!(%server, ?id, "response to no request");
                StreamMessage::Unsolicited
            }
            Dispatched::Batch(messages) => {
                let mut response = StreamMessage::Unsolicited;
                for message in messages {
                    let received = self.receive_blocking(id, message, permit);
                    if matches!(response, StreamMessage::Unsolicited) {
                        response = received;
                    }
                }
                response
            }
            Dispatched::RequestedProgress => StreamMessage::RequestedProgress,
            Dispatched::Unsolicited => StreamMessage::Unsolicited,
        }
    }

    /// Forwards progress to the caller. Returns whether the caller asked for progress.
    fn on_progress(&self, id: u64, mut progress: Progress) -> bool {
        let mut listeners = lock(&self.listeners);
        let Some(listener) = listeners.get_mut(&id) else {
            return false;
        };
        progress.skipped = listener.skipped;
        match listener.sender.try_send(progress) {
            Ok(()) => listener.skipped = 0,
            Err(_) => listener.skipped += 1,
        }
        true
    }
}
