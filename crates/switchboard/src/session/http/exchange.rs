//! One request over streamable HTTP, from its making to its end.
//!
//! The answer comes as JSON or at the end of a stream of events. In the legacy era a stream that
//! broke off is taken up again where it stopped; in the modern one the request is lost with it.
//! Invariant: the request itself is sent once.

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
use super::streamable::{StreamableHttpSession, Topic};
use super::{ACCEPT_EVENTS, ContentType, LAST_EVENT_ID, status};
use crate::budget::Held;
use crate::limits::LARGE;
use crate::mcp::Progress;
use crate::rate_limit::RateLimiter;
use crate::session::deadline::{Deadline, Expired};
use crate::session::query::needs_no_cancel;
use crate::session::request_table::Reply;
use crate::session::{Delivery, RequestError, SessionEnd, TransportFailure, run_blocking};
use crate::sync::lock;
use crate::telemetry::Direction;
use crate::transport::http::Body;
use crate::wire::sse::{Events, Item};
use crate::wire::{Answer, AnswerId, Problem};

/// How long is waited before a stream is taken up again, if the server does not say.
const DEFAULT_RESUME_DELAY: Duration = Duration::from_secs(1);
/// How often in a row a stream is taken up again without anything new on it.
const MAX_RESUMPTIONS: u32 = 5;
/// How long a stream may go on after the answer before it is closed.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Where the progress of a request goes, and how much of it was dropped because nobody took it.
pub(super) struct Listener {
    sender: mpsc::Sender<Progress>,
    skipped: u64,
}

/// A request that is under way. Dropped while open, the server is told that nobody waits.
struct Open<'a> {
    session: &'a Arc<StreamableHttpSession>,
    id: u64,
    method: &'static str,
    is_waiting: bool,
    is_listening: bool,
}

impl<'a> Open<'a> {
    fn new(
        session: &'a Arc<StreamableHttpSession>,
        id: u64,
        topic: Topic<'_>,
        progress: Option<mpsc::Sender<Progress>>,
    ) -> Self {
        if counts_as_work(topic.method) {
            session.health.begin();
        }
        let is_listening = progress.is_some();
        if let Some(sender) = progress {
            let listener = Listener { sender, skipped: 0 };
            lock(&session.listeners).insert(id, listener);
        }
        Self {
            session,
            id,
            is_waiting: true,
            method: topic.method,
            is_listening,
        }
    }
}

/// Whether a request is more than the question whether the server is there.
fn counts_as_work(method: &str) -> bool {
    !matches!(method, "ping" | "server/discover")
}

impl Drop for Open<'_> {
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
    Response(Result<Answer, RequestError>),
    /// Progress that a caller asked for.
    RequestedProgress,
    Unsolicited,
}

/// Why the wait for a response ended.
enum Wake {
    Done(Result<Answer, RequestError>),
    Stopped,
    Expired(Expired),
}

impl StreamableHttpSession {
    /// Makes a request, and waits for its answer as long as there is deadline.
    pub(super) async fn request(
        self: &Arc<Self>,
        topic: Topic<'_>,
        deadline: Deadline,
        progress: Option<mpsc::Sender<Progress>>,
        encode: impl FnOnce(u64) -> Vec<u8>,
    ) -> Result<Answer, RequestError> {
        let peer = &self.peer;
        let id = self.next_id();
        let mut line = encode(id);
        line.pop();
        let _held = peer.reserve(&line)?;
        if peer.stop.is_cancelled() {
            let delivery = Delivery::NotSent;
            let end = peer.ended().await;
            return Err(RequestError::Lost { delivery, end });
        }
        peer.tap(Direction::Sent, &line);
        let wait = deadline.start(&peer.clock);
        let mut open = Open::new(self, id, topic, progress);
        let wake = {
            // It is large, so it stays where it is made.
            let exchange = pin!(self.exchange(id, topic, Bytes::from(line)));
            tokio::select! {
                biased;
                outcome = exchange => Wake::Done(outcome),
                () = peer.stop.cancelled() => Wake::Stopped,
                expired = wait.expired(&peer.clock) => Wake::Expired(expired),
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
                Err(RequestError::TimedOut {
                    after: expired.after,
                    idle: expired.idle,
                    delivery: Delivery::Unknown,
                    saw_unknown_ids: false,
                })
            }
        };
        open.is_waiting = false;
        self.learn(topic, outcome)
    }

    /// What the fate of a request says of the session.
    fn learn(
        &self,
        topic: Topic<'_>,
        outcome: Result<Answer, RequestError>,
    ) -> Result<Answer, RequestError> {
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
                self.health.record_success()
            }
            RequestError::TimedOut { .. } if topic.method != "ping" => self.health.check_now(),
            _ => {}
        }
        Err(error)
    }

    async fn exchange(
        self: &Arc<Self>,
        id: u64,
        topic: Topic<'_>,
        body: Bytes,
    ) -> Result<Answer, RequestError> {
        // With others under way: first all answers that are there are read, then the next requests
        // leave together. Else the server would be woken for each.
        if self.health.has_concurrent_requests() {
            tokio::task::yield_now().await;
        }
        let headers = || self.headers(&topic);
        let sent = self.client.send(Method::POST, None, headers, body);
        let mut reply = sent.await.map_err(status::send_error)?;
        let status = reply.incoming.status;
        if !status.is_success() {
            return Err(self.refused(Some(id), reply).await);
        }
        if topic.method == "initialize" {
            self.take_session_id(&reply.incoming.headers)?;
        }
        match ContentType::of(&reply.incoming.headers) {
            ContentType::Json => self.read_json(id, &mut reply).await,
            ContentType::Events => Box::pin(self.read_events(id, reply.incoming.body)).await,
            other => {
                let what = match other {
                    ContentType::Other(kind) => format!(
                        "the server answered with {} where JSON or events are due: is the URL that \
                         of an MCP server?",
                        self.peer.excerpt(kind.as_bytes())
                    ),
                    _ => format!(
                        "the server took the request (HTTP {status}) and gave no answer to it"
                    ),
                };
                Err(RequestError::Transport(TransportFailure {
                    status: Some(status.as_u16()),
                    ..TransportFailure::unknown(what)
                }))
            }
        }
    }

    /// What a status that is no success means, for the request and for the session it belongs to.
    async fn refused(&self, id: Option<u64>, reply: AuthorizedResponse) -> RequestError {
        let status = reply.incoming.status;
        let has_session = self.session_id.get().is_some();
        if has_session && status == StatusCode::NOT_FOUND {
            return self.expire();
        }
        match status::read(&self.peer, self.client.url(), id, reply).await {
            // Not what the protocol prescribes, and what many servers say of a session they forgot.
            RequestError::ErrorResponse(error)
                if has_session
                    && status == StatusCode::BAD_REQUEST
                    && error.message.to_ascii_lowercase().contains("session") =>
            {
                self.expire()
            }
            error => error,
        }
    }

    async fn read_json(
        self: &Arc<Self>,
        id: u64,
        reply: &mut AuthorizedResponse,
    ) -> Result<Answer, RequestError> {
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
                Err(RequestError::InvalidResponse(Problem::Malformed(reason)))
            }
        }
    }

    async fn read_events(
        self: &Arc<Self>,
        id: u64,
        mut body: Body,
    ) -> Result<Answer, RequestError> {
        let limits = &self.peer.context.limits;
        let mut events = Events::new(limits.message_bytes, &self.peer.context.budget);
        let mut rate_limit = RateLimiter::unsolicited();
        let mut pause = DEFAULT_RESUME_DELAY;
        let mut resumes = 0;
        loop {
            let broken = loop {
                match events.next() {
                    Ok(Some(Item::Event(event))) => {
                        resumes = 0;
                        if event.kind.as_deref().is_some_and(|kind| kind != "message") {
                            continue;
                        }
                        let size = event.data.len();
                        match self.receive(id, event.data, event.held).await {
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
                    Ok(Some(Item::Retry(wait))) => pause = wait,
                    Ok(Some(Item::LetGo { id: named, why })) => {
                        if named == Some(id) {
                            return Err(RequestError::InvalidResponse(
                                self.peer.discard_error(why),
                            ));
                        }
                    }
                    Ok(None) => match body.chunk().await {
                        Ok(Some(piece)) => events.push(piece),
                        Ok(None) => break "the stream ended before the answer came".to_owned(),
                        Err(error) => {
                            break self.peer.context.redactor.redact(&error.to_string());
                        }
                    },
                    Err(_) => {
                        let what = "the server wrote without ever ending an event";
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
            tokio::time::sleep(pause).await;
            match self.stream(Some(&last)).await {
                Ok(taken_up) => {
                    body = taken_up;
                    events.begin_anew();
                }
                Err(RequestError::Transport(TransportFailure { status: None, .. })) => {}
                // Whatever it says: the answer is not to be had any more.
                Err(error) => {
                    let what = format!("{broken}, and it could not be taken up again: {error}");
                    return Err(RequestError::Transport(TransportFailure::unknown(what)));
                }
            }
        }
    }

    /// Opens a stream of what the server has to say, from where the last one stopped.
    pub(super) async fn stream(&self, last: Option<&str>) -> Result<Body, RequestError> {
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
            return Err(self.refused(None, reply).await);
        }
        match ContentType::of(&reply.incoming.headers) {
            ContentType::Events => Ok(reply.incoming.body),
            _ => Err(RequestError::Transport(TransportFailure {
                status: Some(StatusCode::OK.as_u16()),
                ..TransportFailure::unknown("the server answered with something else than events")
            })),
        }
    }

    /// Reads a stream to its end after the answer came, so that its connection can be used again.
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
        permit: Option<Held>,
    ) -> StreamMessage {
        self.peer.tap(Direction::Received, &message);
        if message.len() > LARGE {
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
        permit: &mut Option<Held>,
    ) -> StreamMessage {
        let progress = |token, progress| self.on_progress(token, progress);
        match dispatch(self, message, permit, progress) {
            Dispatched::Response { id: named, reply }
                if named == AnswerId::Ours(id)
                    || matches!((named, &reply), (AnswerId::Null, Reply::Error(_))) =>
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
