//! HTTP+SSE session of 2024-11-05: one event stream from the server, and POSTs to an endpoint that the
//! server names in its first event.
//!
//! All responses arrive on the stream, so requests wait in a [`RequestTable`] as they do on a byte
//! stream. The end of the stream ends the session. Invariant: nothing is posted to another origin.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, Method};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use super::dispatch::{Dispatched, dispatch};
use super::health::{self, Health, HealthMonitor};
use super::notifications::{NOTIFICATION_TIMEOUT, NotificationSlots};
use super::{ACCEPT_BOTH, ACCEPT_EVENTS, AuthorizedClient, ContentType, JSON, status};
use crate::http::Body;
use crate::rate_limit::RateLimiter;
use crate::session::deadline::Deadline;
use crate::session::peer::{Outgoing, Peer};
use crate::session::query::Query;
use crate::session::request_table::{PendingRequest, Reply, RequestKind, RequestTable};
use crate::session::{
    Delivery, RequestError, SessionContext, SessionEnd, ToolRequest, TransportFailure, run_blocking,
};
use crate::wire_tap::Direction;
use switchboard_wire::Limits;
use switchboard_wire::encode;
use switchboard_wire::encode::InputResponses;
use switchboard_wire::jsonrpc::{InvalidMessage, RawResult, ResponseId};
use switchboard_wire::limits::LARGE_MESSAGE_BYTES;
use switchboard_wire::mcp::{Progress, ProtocolVersion, ServerHello};
use switchboard_wire::memory_budget::MemoryPermit;
use switchboard_wire::sse::{SseItem, SseParser};
use switchboard_wire::sync::lock;

/// Maximum length of an endpoint URL, in bytes.
const MAX_ENDPOINT_BYTES: usize = 8 * 1024;

pub struct Sse2024Session {
    pub(super) peer: Peer,
    client: AuthorizedClient,
    /// URL of the POSTs.
    endpoint: Url,
    tasks: TaskTracker,
    table: Mutex<RequestTable>,
    notifications: NotificationSlots,
    pub(super) health: HealthMonitor,
}

impl std::fmt::Debug for Sse2024Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sse2024Session")
            .field("server", &self.peer.context.server)
            .finish_non_exhaustive()
    }
}

impl Sse2024Session {
    /// Opens the stream and waits for the endpoint event.
    pub(crate) async fn open(
        client: AuthorizedClient,
        context: SessionContext,
        tasks: &TaskTracker,
        stop: CancellationToken,
        health: &Health,
    ) -> Result<Arc<Self>, RequestError> {
        let peer = Peer::new(context, tasks, stop);
        let headers = || HeaderMap::from_iter([(ACCEPT, ACCEPT_EVENTS)]);
        let sent = client.send(Method::GET, None, headers, Bytes::new());
        let reply = sent.await.map_err(status::send_error)?;
        if !reply.incoming.status.is_success() {
            return Err(status::read(&peer, client.url(), None, reply).await);
        }
        if ContentType::of(&reply.incoming.headers) != ContentType::Events {
            let message = "the response is not an event stream: is this the URL of an MCP server?";
            return Err(RequestError::Transport(TransportFailure::unknown(message)));
        }
        let mut body = reply.incoming.body;
        let limits = &peer.context.limits;
        let mut events = SseParser::new(limits.message_bytes, &peer.context.budget);
        let endpoint = read_endpoint_event(&mut body, &mut events).await?;
        let endpoint = same_origin(client.url(), &endpoint)?;
        let session = Arc::new(Self {
            peer,
            client,
            endpoint,
            tasks: tasks.clone(),
            table: Mutex::default(),
            notifications: NotificationSlots::new(),
            health: HealthMonitor::new(health),
        });
        tasks.spawn(Arc::clone(&session).read_all(body, events));
        Ok(session)
    }

    pub(in crate::session) fn limits(&self) -> &Limits {
        &self.peer.context.limits
    }

    pub(crate) fn set_handshake(self: &Arc<Self>, handshake: ServerHello) {
        self.peer.list_changes.set_all_receivable();
        self.peer.set_handshake(handshake);
        self.tasks.spawn(health::run_checks(Arc::clone(self)));
    }

    pub(super) async fn ping(
        self: &Arc<Self>,
        deadline: Deadline,
    ) -> Result<RawResult, RequestError> {
        self.request(RequestKind::Brief, deadline, None, |id| {
            encode::request(id, "ping", serde_json::json!({}))
        })
        .await
    }

    pub(in crate::session) async fn query(
        self: &Arc<Self>,
        query: &Query<'_>,
        input_responses: Option<&InputResponses>,
        deadline: Deadline,
    ) -> Result<RawResult, RequestError> {
        self.request(RequestKind::of(query.method), deadline, None, |id| {
            self.peer.encode_query(id, query, input_responses)
        })
        .await
    }

    pub(in crate::session) async fn call_tool(
        self: &Arc<Self>,
        call: &ToolRequest<'_>,
    ) -> Result<RawResult, RequestError> {
        self.request(
            RequestKind::Ordinary,
            call.deadline,
            call.progress.clone(),
            |id| self.peer.encode_call(id, call),
        )
        .await
    }

    pub(crate) async fn initialize(
        self: &Arc<Self>,
        version: ProtocolVersion,
        deadline: Deadline,
    ) -> Result<RawResult, RequestError> {
        let context = &self.peer.context;
        let capabilities = context.client_capabilities();
        self.request(RequestKind::Handshake, deadline, None, |id| {
            let params = encode::initialize(version, capabilities, &context.client);
            encode::request(id, "initialize", params)
        })
        .await
    }

    /// Sends `initialized`.
    pub(crate) async fn send_initialized(&self) {
        let line = encode::notification("notifications/initialized", None::<()>);
        self.post_notification(line).await;
    }

    async fn request(
        self: &Arc<Self>,
        kind: RequestKind,
        deadline: Deadline,
        progress: Option<mpsc::Sender<Progress>>,
        encode: impl FnOnce(u64) -> Vec<u8>,
    ) -> Result<RawResult, RequestError> {
        let peer = &self.peer;
        let (reply, response) = oneshot::channel();
        let request = PendingRequest::new(reply, progress, kind, deadline.start(&peer.clock));
        let inserted = lock(&self.table).insert(request);
        let id = inserted.map_err(|end| RequestError::Lost {
            delivery: Delivery::NotSent,
            end,
        })?;
        if kind == RequestKind::Ordinary {
            self.health.begin();
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
            outcome = self.post_and_wait(line, response) => outcome,
            expired = running.expired(&peer.clock) => {
                self.send_cancelled(id, kind, "timed out");
                Err(RequestError::timed_out(expired))
            }
        };
        in_flight.is_waiting = false;
        outcome
    }

    /// Posts a request and waits for its response on the stream, which may arrive before the POST returns.
    async fn post_and_wait(
        &self,
        line: Vec<u8>,
        mut response: oneshot::Receiver<Reply>,
    ) -> Result<RawResult, RequestError> {
        let posted = tokio::select! {
            biased;
            reply = &mut response => return into_result(reply),
            posted = self.post(line) => posted,
        };
        match posted {
            Ok(()) => into_result(response.await),
            Err(RequestError::Transport(failed)) if failed.delivery == Delivery::Unknown => {
                // The POST failed, but the event stream may still deliver the response.
                match tokio::time::timeout(NOTIFICATION_TIMEOUT, response).await {
                    Ok(reply) => into_result(reply),
                    Err(_) => Err(RequestError::Transport(failed)),
                }
            }
            Err(error) => Err(error),
        }
    }

    async fn post(&self, mut line: Vec<u8>) -> Result<(), RequestError> {
        line.pop();
        self.peer.tap(Direction::Sent, &line);
        let headers = || {
            let mut headers = HeaderMap::with_capacity(8);
            headers.insert(ACCEPT, ACCEPT_BOTH);
            headers.insert(CONTENT_TYPE, JSON);
            headers
        };
        let body = Bytes::from(line);
        let url = Some(&self.endpoint);
        let sent = self.client.send(Method::POST, url, headers, body);
        let mut reply = sent.await.map_err(status::send_error)?;
        if !reply.incoming.status.is_success() {
            return Err(status::read(&self.peer, &self.endpoint, None, reply).await);
        }
        // Read the short body, so that the connection can be reused.
        let rest = reply
            .incoming
            .body
            .collect(LARGE_MESSAGE_BYTES, &self.peer.context.budget);
        let _ = tokio::time::timeout(NOTIFICATION_TIMEOUT, rest).await;
        Ok(())
    }

    async fn post_notification(&self, line: Vec<u8>) {
        let sent = tokio::time::timeout(NOTIFICATION_TIMEOUT, self.post(line)).await;
        if let Ok(Err(error)) = sent {
            tracing::debug!(server = %self.peer.context.server, %error, "notification not sent");
        }
    }

    fn send_cancelled(self: &Arc<Self>, id: u64, kind: RequestKind, reason: &str) {
        let was_open = lock(&self.table).take(id).is_some();
        if was_open && kind == RequestKind::Ordinary {
            self.send_notification(encode::cancelled(id, reason));
        }
    }

    async fn read_all(self: Arc<Self>, mut body: Body, mut events: SseParser) {
        let mut rate_limit = RateLimiter::unsolicited();
        let read = async {
            loop {
                match events.next_item() {
                    Ok(Some(SseItem::Event(event))) => {
                        self.health.record_success();
                        if event.kind.as_deref().is_some_and(|kind| kind != "message") {
                            continue;
                        }
                        let size = event.data.len();
                        let is_unsolicited = self.receive(event.data, event.permit).await;
                        if is_unsolicited && let Some(pause) = rate_limit.consume(size) {
                            tokio::time::sleep(pause).await;
                        }
                    }
                    Ok(Some(SseItem::Discarded {
                        id: Some(id),
                        reason,
                    })) => {
                        self.deliver(
                            ResponseId::Number(id),
                            Reply::Invalid(self.peer.discard_error(reason)),
                        );
                    }
                    Ok(Some(_)) => {}
                    Ok(None) => match body.chunk().await {
                        Ok(Some(piece)) => events.push(piece),
                        Ok(None) => return SessionEnd::Eof { partial_line: None },
                        Err(error) => {
                            let error = self.peer.context.redactor.redact(&error.to_string());
                            return SessionEnd::Unreachable(error);
                        }
                    },
                    Err(_) => return SessionEnd::Unterminated,
                }
            }
        };
        let stop = self.peer.stop.clone();
        let end = stop.run_until_cancelled(read).await;
        self.end(end.unwrap_or(SessionEnd::Closed));
    }

    /// Handles a message. Returns whether it was unsolicited.
    async fn receive(self: &Arc<Self>, message: Bytes, permit: Option<MemoryPermit>) -> bool {
        self.peer.tap(Direction::Received, &message);
        if message.len() > LARGE_MESSAGE_BYTES {
            let this = Arc::clone(self);
            let receive = move || this.receive_blocking(message, &mut { permit });
            return Box::pin(run_blocking(receive)).await.unwrap_or(false);
        }
        self.receive_blocking(message, &mut { permit })
    }

    fn receive_blocking(
        self: &Arc<Self>,
        message: Bytes,
        permit: &mut Option<MemoryPermit>,
    ) -> bool {
        let progress = |token, progress| lock(&self.table).progress(token, progress);
        match dispatch(self, message, permit, progress) {
            Dispatched::Response { id, reply } => !self.deliver(id, reply),
            Dispatched::Batch(messages) => {
                let mut is_unsolicited = true;
                for message in messages {
                    is_unsolicited &= self.receive_blocking(message, permit);
                }
                is_unsolicited
            }
            Dispatched::RequestedProgress => false,
            Dispatched::Unsolicited => true,
        }
    }

    /// Delivers a response. Returns whether it answers a request.
    fn deliver(&self, id: ResponseId, reply: Reply) -> bool {
        let Some(request) = lock(&self.table).take_for_response(id, &reply) else {
            return false;
        };
        // Sending fails if the caller was dropped since the lookup.
        let _ = request.reply.send(reply);
        true
    }

    /// Ends the session. Requests in flight are lost.
    pub(super) fn end(&self, end: SessionEnd) {
        let in_flight = lock(&self.table).end(end.clone());
        for (_, request) in in_flight {
            let _ = request.reply.send(Reply::Lost {
                delivery: Delivery::Unknown,
                end: end.clone(),
            });
        }
        self.peer.end(end);
    }

    pub(in crate::session) fn close(&self) {
        self.end(SessionEnd::Closed);
    }
}

impl Outgoing for Sse2024Session {
    fn peer(&self) -> &Peer {
        &self.peer
    }

    fn send_notification(self: &Arc<Self>, line: Vec<u8>) {
        let this = Arc::clone(self);
        let send = async move { this.post_notification(line).await };
        self.notifications.spawn(&self.peer, send);
    }
}

/// A request in flight. Cancels it when it is dropped before the response.
struct InFlightPost<'a> {
    session: &'a Arc<Sse2024Session>,
    id: u64,
    kind: RequestKind,
    is_waiting: bool,
}

impl Drop for InFlightPost<'_> {
    fn drop(&mut self) {
        if self.kind == RequestKind::Ordinary {
            self.session.health.end();
        }
        if self.is_waiting {
            self.session
                .send_cancelled(self.id, self.kind, "cancelled by the caller");
        } else {
            // Answered or never sent: the table must not keep it.
            lock(&self.session.table).take(self.id);
        }
    }
}

fn into_result(reply: Result<Reply, oneshot::error::RecvError>) -> Result<RawResult, RequestError> {
    let reply = reply.unwrap_or(Reply::Lost {
        delivery: Delivery::Unknown,
        end: SessionEnd::Closed,
    });
    reply.into_result()
}

/// Reads the first event of the stream, which names the URL of the POSTs.
async fn read_endpoint_event(
    body: &mut Body,
    events: &mut SseParser,
) -> Result<String, RequestError> {
    loop {
        let next = events.next_item();
        let failure = |message: &str| RequestError::Transport(TransportFailure::unknown(message));
        match next {
            Ok(Some(SseItem::Event(event))) if event.kind.as_deref() == Some("endpoint") => {
                if event.data.len() > MAX_ENDPOINT_BYTES {
                    return Err(failure("the endpoint URL is longer than 8 KiB"));
                }
                return Ok(String::from_utf8_lossy(&event.data).trim().to_owned());
            }
            Ok(Some(SseItem::Event(_))) => {
                return Err(failure("the first event is not `endpoint`"));
            }
            Ok(Some(_)) => {}
            Ok(None) => match body.chunk().await {
                Ok(Some(piece)) => events.push(piece),
                Ok(None) => return Err(failure("the stream ended before the `endpoint` event")),
                Err(error) => return Err(failure(&error.to_string())),
            },
            Err(_) => return Err(failure("the server sent an event without an end")),
        }
    }
}

/// Resolves the endpoint URL, which must have the origin of the stream.
fn same_origin(base: &Url, named: &str) -> Result<Url, RequestError> {
    let invalid = |reason: String| {
        let reason = format!("the endpoint URL {reason}");
        Err(RequestError::InvalidResponse(InvalidMessage::Malformed(
            reason,
        )))
    };
    match base.join(named) {
        Ok(url) if url.origin() == base.origin() => Ok(url),
        Ok(url) => invalid(format!(
            "has another origin ({})",
            url.origin().ascii_serialization()
        )),
        Err(_) => invalid("is not valid".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_must_have_the_origin_of_the_stream() {
        let base = Url::parse("https://host.example/sse").unwrap();
        let place = |named: &str| same_origin(&base, named).map(|url| url.to_string());
        assert_eq!(
            place("/messages?session=1").unwrap(),
            "https://host.example/messages?session=1"
        );
        assert_eq!(
            place("https://host.example:443/m").unwrap(),
            "https://host.example/m"
        );
        for elsewhere in [
            "https://evil.example/m",
            "//evil.example/m",
            "http://host.example/m",
            "https://host.example:444/m",
            "https://host.example.evil.example/m",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "data:text/plain,x",
        ] {
            assert!(place(elsewhere).is_err(), "{elsewhere}");
        }
    }
}
