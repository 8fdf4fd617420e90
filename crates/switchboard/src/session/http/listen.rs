//! What a server says unasked over streamable HTTP: the stream that stands as long as the session.
//!
//! In the legacy era it is asked for by GET and taken up again where it broke off; in the modern era
//! it is the answer to `subscriptions/listen`, asked anew. A server that has no such stream is none
//! the worse, but tells of no changes. Invariants: however often it breaks, it is asked for at a bounded
//! rate; whatever may have changed while there was none counts as changed when there is one again.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde::Serialize;
use tokio::time::Instant;

use super::authorized::AuthorizedResponse;
use super::exchange::StreamMessage;
use super::streamable::{ATTENDING, StreamableHttpSession, Topic};
use super::{ContentType, status};
use crate::rate_limit::RateLimiter;
use crate::session::subscriptions::ListenEnd;
use crate::session::{Delivery, RequestError, SessionEnd, TransportFailure};
use crate::telemetry::Direction;
use crate::transport::http::Body;
use crate::wire::encode::{self, Interests, Updates};
use crate::wire::sse::{Events, Item};

/// How long is waited before a stream that ended is asked for again: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// However short a wait the server asks for.
const MIN_PAUSE: Duration = Duration::from_millis(100);
/// A stream that lasted so long was a good one: the next wait is short again.
const LASTING: Duration = Duration::from_secs(10);
/// After so many failures in a row nobody waits any longer to be told something on a stream.
const REFUSALS: u32 = 3;

/// Ids begin at one.
const NO_REQUEST: u64 = 0;

/// Where a stream stopped, and when to ask for it again.
struct ListenStream {
    last_id: Option<String>,
    pause: Duration,
    /// What the server said about that.
    asked_pause: Option<Duration>,
    rate_limit: RateLimiter,
}

/// How a stream came to its end.
enum StreamEnd {
    /// The server closed it in good order, or it broke.
    Reconnect,
    /// There is none to be had.
    Unsupported,
}

impl StreamableHttpSession {
    /// Listens to the stream of the legacy era.
    pub(super) async fn attend(self: Arc<Self>) {
        let stop = self.peer.stop.clone();
        let mut standing = ListenStream::new();
        let mut is_first = true;
        // In a row.
        let mut refusals = 0;
        let attending = async {
            loop {
                let began = Instant::now();
                let stream = self.stream(standing.last_id.as_deref()).await;
                let is_late = !std::mem::take(&mut is_first) || began.elapsed() >= ATTENDING;
                self.attended.cancel();
                let ended = match stream {
                    Ok(body) => {
                        if is_late {
                            // Few servers say again what they said while nobody listened, and none
                            // says whether it has said all of it.
                            self.peer.list_changes.record_all();
                            self.peer.subscriptions.record_all();
                        }
                        refusals = 0;
                        self.peer.list_changes.set_all_receivable();
                        self.peer.subscriptions.mark_available();
                        self.follow(body, &mut standing, NO_REQUEST).await
                    }
                    Err(error) => {
                        refusals += 1;
                        let why =
                            format!("the server has no stream to tell of changes on: {error}");
                        let ended = self.on_open_error(error);
                        if matches!(ended, StreamEnd::Unsupported) || refusals >= REFUSALS {
                            self.peer.subscriptions.mark_unavailable(why.into());
                        }
                        ended
                    }
                };
                self.peer.list_changes.set_none_receivable();
                if matches!(ended, StreamEnd::Unsupported) {
                    return;
                }
                standing.wait(began).await;
            }
        };
        stop.run_until_cancelled(attending).await;
    }

    /// Listens to a subscription of the modern era.
    pub(super) async fn subscribe(self: Arc<Self>, interests: Interests) {
        let stop = self.peer.stop.clone();
        let mut standing = ListenStream::new();
        let mut is_first = true;
        let attending = async {
            loop {
                let began = Instant::now();
                let id = self.next_id();
                self.peer.list_changes.set_listen_request(id);
                let stream = self.listen(id, interests).await;
                let is_late = !std::mem::take(&mut is_first) || began.elapsed() >= ATTENDING;
                self.attended.cancel();
                let ended = match stream {
                    Ok(reply) => {
                        if is_late {
                            // What changed in between was not told.
                            self.peer.list_changes.record_all();
                        }
                        self.follow(reply.incoming.body, &mut standing, id).await
                    }
                    Err(error) => self.on_open_error(error),
                };
                self.peer.list_changes.set_none_receivable();
                if matches!(ended, StreamEnd::Unsupported) {
                    return;
                }
                standing.wait(began).await;
            }
        };
        stop.run_until_cancelled(attending).await;
    }

    /// Listens to a subscription to resources, and comes back when it ends. `sent` is told the id of
    /// the request.
    pub(in crate::session) async fn listen_for_updates(
        self: &Arc<Self>,
        uris: &[&str],
        sent: impl Fn(u64),
    ) -> ListenEnd {
        let updates = Updates {
            resource_subscriptions: uris,
        };
        let id = self.next_id();
        sent(id);
        let why = "the server no longer tells".to_owned();
        let (ended, why) = match self.listen(id, updates).await {
            Ok(reply) => {
                let body = reply.incoming.body;
                (self.follow(body, &mut ListenStream::new(), id).await, why)
            }
            Err(error) => {
                let why = error.to_string();
                (self.on_open_error(error), why)
            }
        };
        match ended {
            StreamEnd::Reconnect => ListenEnd::Broken,
            StreamEnd::Unsupported => ListenEnd::Ended(why),
        }
    }

    async fn listen(
        &self,
        id: u64,
        interests: impl Serialize,
    ) -> Result<AuthorizedResponse, RequestError> {
        let params = encode::Listen {
            notifications: interests,
            meta: self.peer.meta(None, None),
        };
        let topic = Topic::of("subscriptions/listen");
        let mut line = encode::request(id, topic.method, &params);
        line.pop();
        self.peer.tap(Direction::Sent, &line);
        let headers = || self.headers(&topic);
        let sent = self.client.send(Method::POST, None, headers, line.into());
        let reply = sent.await.map_err(status::send_error)?;
        let status = reply.incoming.status;
        if !status.is_success() {
            return Err(status::read(&self.peer, self.client.url(), Some(id), reply).await);
        }
        match ContentType::of(&reply.incoming.headers) {
            ContentType::Events => Ok(reply),
            _ => Err(RequestError::Transport(TransportFailure {
                status: Some(status.as_u16()),
                ..TransportFailure::unknown("the server answered with something else than events")
            })),
        }
    }

    /// There is no stream; whether to ask again, and what it means for the session.
    fn on_open_error(&self, error: RequestError) -> StreamEnd {
        let server = &self.peer.context.server;
        tracing::debug!(%server, %error, "no stream of what it says unasked");
        match error {
            RequestError::Transport(TransportFailure {
                status: Some(429 | 500..=599),
                ..
            }) => StreamEnd::Reconnect,
            RequestError::Transport(TransportFailure {
                status: None,
                delivery,
                message,
                ..
            }) => {
                if delivery == Delivery::NotSent {
                    self.peer.end(SessionEnd::Unreachable(message));
                } else {
                    self.health.check_now();
                }
                StreamEnd::Reconnect
            }
            RequestError::NeedsLogin(challenge) => {
                self.peer.end(SessionEnd::NeedsLogin(challenge));
                StreamEnd::Unsupported
            }
            _ => StreamEnd::Unsupported,
        }
    }

    /// Takes what comes on a stream until it ends. One that was asked for by request `id` ends for
    /// good with the answer to it.
    async fn follow(
        self: &Arc<Self>,
        mut body: Body,
        standing: &mut ListenStream,
        id: u64,
    ) -> StreamEnd {
        let context = &self.peer.context;
        let mut events = Events::new(context.limits.message_bytes, &context.budget);
        loop {
            match events.next() {
                Ok(Some(Item::Event(event))) => {
                    let size = event.data.len();
                    let is_message = event.kind.as_deref().is_none_or(|kind| kind == "message");
                    if is_message
                        && let StreamMessage::Response(_) =
                            self.receive(id, event.data, event.held).await
                    {
                        return StreamEnd::Unsupported;
                    }
                    if let Some(pause) = standing.rate_limit.consume(size) {
                        tokio::time::sleep(pause).await;
                    }
                }
                Ok(Some(Item::Retry(pause))) => standing.asked_pause = Some(pause),
                Ok(Some(Item::LetGo { .. })) => {}
                Ok(None) => match body.chunk().await {
                    Ok(Some(piece)) => events.push(piece),
                    outcome => {
                        standing.keep(&events);
                        if outcome.is_err() {
                            self.health.check_now();
                        }
                        return StreamEnd::Reconnect;
                    }
                },
                Err(_) => {
                    standing.keep(&events);
                    return StreamEnd::Reconnect;
                }
            }
        }
    }
}

impl ListenStream {
    fn new() -> Self {
        Self {
            last_id: None,
            pause: FIRST_PAUSE,
            asked_pause: None,
            rate_limit: RateLimiter::unsolicited(),
        }
    }

    fn keep(&mut self, events: &Events) {
        if let Some(id) = events.last_event_id() {
            self.last_id = Some(id.to_owned());
        }
    }

    /// Waits before the stream is asked for again.
    async fn wait(&mut self, began: Instant) {
        if began.elapsed() >= LASTING {
            self.pause = FIRST_PAUSE;
        }
        // Never sooner than the server asks for.
        let pause = self.asked_pause.unwrap_or(self.pause).max(MIN_PAUSE);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        tokio::time::sleep(pause.mul_f64(1.0 + 0.2 * fastrand::f64())).await;
    }
}
