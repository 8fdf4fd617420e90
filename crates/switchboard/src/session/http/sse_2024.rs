//! HTTP with server-sent events, as it was in 2024-11-05: one stream from the server, and a place to
//! post to, which the server names first.
//!
//! All answers come on the stream, so requests wait in a [`Table`] as they do on a pipe; when the
//! stream is over, so is the session. Invariant: nothing is posted to another origin.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, Method};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use super::dispatch::{Dispatched, dispatch};
use super::health::{self, Health, HealthMonitor};
use super::{ACCEPT_BOTH, ACCEPT_EVENTS, AuthorizedClient, ContentType, JSON, status};
use crate::budget::Held;
use crate::limits::{LARGE, Limits};
use crate::mcp::{Progress, ProtocolVersion, ServerHello};
use crate::rate_limit::RateLimiter;
use crate::session::deadline::Deadline;
use crate::session::peer::{Outgoing, Peer};
use crate::session::query::Query;
use crate::session::request_table::{PendingRequest, Reply, RequestKind, RequestTable};
use crate::session::{
    Delivery, RequestError, SessionContext, SessionEnd, ToolRequest, TransportFailure, run_blocking,
};
use crate::sync::lock;
use crate::telemetry::Direction;
use crate::transport::http::Body;
use crate::wire::encode::Round;
use crate::wire::sse::{Events, Item};
use crate::wire::{Answer, AnswerId, Problem, encode};

/// How many things may be said at a time that no answer is expected to.
const WORDS: usize = 32;
const WORD_TIME: Duration = Duration::from_secs(10);
/// The longest address that a server may name, in bytes.
const LONGEST_ENDPOINT: usize = 8 * 1024;

pub(crate) struct Sse2024Session {
    pub(super) peer: Peer,
    client: AuthorizedClient,
    /// Where to post.
    endpoint: Url,
    tasks: TaskTracker,
    table: Mutex<RequestTable>,
    words: Arc<Semaphore>,
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
    /// Opens the stream, and comes back when the server has named the place to post to.
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
            let what = "the server answered with something else than a stream of events: is the \
                        URL that of an MCP server?";
            return Err(RequestError::Transport(TransportFailure::unknown(what)));
        }
        let mut body = reply.incoming.body;
        let limits = &peer.context.limits;
        let mut events = Events::new(limits.message_bytes, &peer.context.budget);
        let named = named_endpoint(&mut body, &mut events).await?;
        let endpoint = same_origin(client.url(), &named)?;
        let session = Arc::new(Self {
            peer,
            client,
            endpoint,
            tasks: tasks.clone(),
            table: Mutex::default(),
            words: Arc::new(Semaphore::new(WORDS)),
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
        self.tasks.spawn(health::watch(Arc::clone(self)));
    }

    /// Asks the server whether it is there.
    pub(super) async fn ping(self: &Arc<Self>, deadline: Deadline) -> Result<Answer, RequestError> {
        self.request(RequestKind::Brief, deadline, None, |id| {
            encode::request(id, "ping", serde_json::json!({}))
        })
        .await
    }

    pub(in crate::session) async fn query(
        self: &Arc<Self>,
        query: &Query<'_>,
        input_responses: Option<&Round>,
        deadline: Deadline,
    ) -> Result<Answer, RequestError> {
        self.request(RequestKind::of(query.method), deadline, None, |id| {
            self.peer.encode_query(id, query, input_responses)
        })
        .await
    }

    pub(in crate::session) async fn call_tool(
        self: &Arc<Self>,
        call: &ToolRequest<'_>,
    ) -> Result<Answer, RequestError> {
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
    ) -> Result<Answer, RequestError> {
        let context = &self.peer.context;
        let offers = context.client_capabilities();
        self.request(RequestKind::Handshake, deadline, None, |id| {
            let params = encode::initialize(version, offers, &context.client);
            encode::request(id, "initialize", params)
        })
        .await
    }

    /// Tells the server that the handshake is over.
    pub(crate) async fn send_initialized(&self) {
        let line = encode::notification("notifications/initialized", None::<()>);
        self.say_now(line).await;
    }

    async fn request(
        self: &Arc<Self>,
        kind: RequestKind,
        deadline: Deadline,
        progress: Option<mpsc::Sender<Progress>>,
        encode: impl FnOnce(u64) -> Vec<u8>,
    ) -> Result<Answer, RequestError> {
        let peer = &self.peer;
        let (reply, answer) = oneshot::channel();
        let pending = PendingRequest::new(reply, progress, kind, deadline.start(&peer.clock));
        let inserted = lock(&self.table).insert(pending);
        let id = inserted.map_err(|end| RequestError::Lost {
            delivery: Delivery::NotSent,
            end,
        })?;
        if kind == RequestKind::Ordinary {
            self.health.begin();
        }
        let mut open = Open {
            session: self,
            id,
            kind,
            is_waiting: false,
        };
        let line = encode(id);
        let _held = peer.reserve(&line)?;
        open.is_waiting = true;
        let wait = deadline.start(&peer.clock);
        let outcome = tokio::select! {
            biased;
            outcome = self.post_and_wait(line, answer) => outcome,
            expired = wait.expired(&peer.clock) => {
                self.send_cancelled(id, kind, "timed out");
                Err(RequestError::TimedOut {
                    after: expired.after,
                    idle: expired.idle,
                    delivery: Delivery::Unknown,
                    saw_unknown_ids: false,
                })
            }
        };
        open.is_waiting = false;
        outcome
    }

    /// Posts a request, and waits for the answer on the stream, which may come first.
    async fn post_and_wait(
        &self,
        line: Vec<u8>,
        mut answer: oneshot::Receiver<Reply>,
    ) -> Result<Answer, RequestError> {
        let posted = tokio::select! {
            biased;
            reply = &mut answer => return of_reply(reply),
            posted = self.post(line) => posted,
        };
        match posted {
            Ok(()) => of_reply(answer.await),
            Err(RequestError::Transport(failed)) if failed.delivery == Delivery::Unknown => {
                // The way there broke, the way back may not have: the answer may be on it.
                match tokio::time::timeout(WORD_TIME, answer).await {
                    Ok(reply) => of_reply(reply),
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
        let place = Some(&self.endpoint);
        let sent = self.client.send(Method::POST, place, headers, body);
        let mut reply = sent.await.map_err(status::send_error)?;
        if !reply.incoming.status.is_success() {
            return Err(status::read(&self.peer, &self.endpoint, None, reply).await);
        }
        // `Accepted`, in a word or two: read so that the connection can be used again.
        let rest = reply
            .incoming
            .body
            .collect(LARGE, &self.peer.context.budget);
        let _ = tokio::time::timeout(WORD_TIME, rest).await;
        Ok(())
    }

    async fn say_now(&self, line: Vec<u8>) {
        let said = tokio::time::timeout(WORD_TIME, self.post(line)).await;
        if let Ok(Err(error)) = said {
            tracing::debug!(server = %self.peer.context.server, %error, "not said");
        }
    }

    fn send_cancelled(self: &Arc<Self>, id: u64, kind: RequestKind, reason: &str) {
        let was_open = lock(&self.table).take(id).is_some();
        if was_open && kind == RequestKind::Ordinary {
            self.send_notification(encode::cancelled(id, reason));
        }
    }

    async fn read_all(self: Arc<Self>, mut body: Body, mut events: Events) {
        let mut rate_limit = RateLimiter::unsolicited();
        let reading = async {
            loop {
                match events.next() {
                    Ok(Some(Item::Event(event))) => {
                        self.health.record_success();
                        if event.kind.as_deref().is_some_and(|kind| kind != "message") {
                            continue;
                        }
                        let size = event.data.len();
                        let is_unsolicited = self.receive(event.data, event.held).await;
                        if is_unsolicited && let Some(pause) = rate_limit.consume(size) {
                            tokio::time::sleep(pause).await;
                        }
                    }
                    Ok(Some(Item::LetGo { id: Some(id), why })) => {
                        self.deliver(
                            AnswerId::Ours(id),
                            Reply::Invalid(self.peer.discard_error(why)),
                        );
                    }
                    Ok(Some(_)) => {}
                    Ok(None) => match body.chunk().await {
                        Ok(Some(piece)) => events.push(piece),
                        Ok(None) => return SessionEnd::Eof { partial_line: None },
                        Err(error) => {
                            let what = self.peer.context.redactor.redact(&error.to_string());
                            return SessionEnd::Unreachable(what);
                        }
                    },
                    Err(_) => return SessionEnd::Unterminated,
                }
            }
        };
        let stop = self.peer.stop.clone();
        let end = stop.run_until_cancelled(reading).await;
        self.end(end.unwrap_or(SessionEnd::Closed));
    }

    /// Handles a message. Returns whether it was unsolicited.
    async fn receive(self: &Arc<Self>, message: Bytes, permit: Option<Held>) -> bool {
        self.peer.tap(Direction::Received, &message);
        if message.len() > LARGE {
            let this = Arc::clone(self);
            let receive = move || this.receive_blocking(message, &mut { permit });
            return Box::pin(run_blocking(receive)).await.unwrap_or(false);
        }
        self.receive_blocking(message, &mut { permit })
    }

    fn receive_blocking(self: &Arc<Self>, message: Bytes, permit: &mut Option<Held>) -> bool {
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
    fn deliver(&self, id: AnswerId, reply: Reply) -> bool {
        let request = lock(&self.table).take_for_response(id, &reply);
        // Sending fails if the caller was dropped since the lookup.
        request.map(|request| request.reply.send(reply)).is_some()
    }

    /// Ends the session: whatever still waits is lost.
    pub(super) fn end(&self, end: SessionEnd) {
        let waiting = lock(&self.table).end(end.clone());
        for (_, pending) in waiting {
            let _ = pending.reply.send(Reply::Lost {
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
        // Whoever asks more than can be answered gets no answer.
        let Ok(turn) = Arc::clone(&self.words).try_acquire_owned() else {
            tracing::debug!(server = %self.peer.context.server, "too much to say at a time");
            return;
        };
        let this = Arc::clone(self);
        self.peer.spawn_notification(async move {
            let stop = this.peer.stop.clone();
            stop.run_until_cancelled(this.say_now(line)).await;
            drop(turn);
        });
    }
}

/// A request that is under way. Dropped while open, it is cancelled.
struct Open<'a> {
    session: &'a Arc<Sse2024Session>,
    id: u64,
    kind: RequestKind,
    is_waiting: bool,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if self.kind == RequestKind::Ordinary {
            self.session.health.end();
        }
        if self.is_waiting {
            self.session
                .send_cancelled(self.id, self.kind, "cancelled by the caller");
        } else {
            // Answered, or never sent: in either case nothing waits for it any more.
            lock(&self.session.table).take(self.id);
        }
    }
}

fn of_reply(reply: Result<Reply, oneshot::error::RecvError>) -> Result<Answer, RequestError> {
    match reply {
        Ok(Reply::Result(answer)) => Ok(answer),
        Ok(Reply::Error(error)) => Err(RequestError::ErrorResponse(error)),
        Ok(Reply::Invalid(problem)) => Err(RequestError::InvalidResponse(problem)),
        Ok(Reply::Lost { delivery, end }) => Err(RequestError::Lost { delivery, end }),
        // Time is kept by whoever waits.
        Ok(Reply::TimedOut { .. }) | Err(_) => Err(RequestError::Lost {
            delivery: Delivery::Unknown,
            end: SessionEnd::Closed,
        }),
    }
}

/// The first event of the stream says where to post.
async fn named_endpoint(body: &mut Body, events: &mut Events) -> Result<String, RequestError> {
    loop {
        let next = events.next();
        let wrong = |what: &str| RequestError::Transport(TransportFailure::unknown(what));
        match next {
            Ok(Some(Item::Event(event))) if event.kind.as_deref() == Some("endpoint") => {
                if event.data.len() > LONGEST_ENDPOINT {
                    return Err(wrong("the server names an endpoint of more than 8 KiB"));
                }
                return Ok(String::from_utf8_lossy(&event.data).trim().to_owned());
            }
            Ok(Some(Item::Event(_))) => {
                return Err(wrong("the server did not begin with the event `endpoint`"));
            }
            Ok(Some(_)) => {}
            Ok(None) => match body.chunk().await {
                Ok(Some(piece)) => events.push(piece),
                Ok(None) => return Err(wrong("the stream ended before it named its endpoint")),
                Err(error) => return Err(wrong(&error.to_string())),
            },
            Err(_) => return Err(wrong("the server wrote without ever ending an event")),
        }
    }
}

/// The place to post to, if it belongs to the server that named it.
fn same_origin(base: &Url, named: &str) -> Result<Url, RequestError> {
    let refuse = |why: String| {
        let why = format!("the place that the server wants requests to be posted to {why}");
        Err(RequestError::InvalidResponse(Problem::Malformed(why)))
    };
    match base.join(named) {
        Ok(place) if place.origin() == base.origin() => Ok(place),
        Ok(place) => refuse(format!(
            "is on another origin ({})",
            place.origin().ascii_serialization()
        )),
        Err(_) => refuse("is no address".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_posted_to_the_origin_of_the_stream_only() {
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
