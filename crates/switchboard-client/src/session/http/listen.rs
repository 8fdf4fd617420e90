//! The server-to-client stream of streamable HTTP.
//!
//! In the legacy era it is the response to a GET, which is resumed after the last event; in the
//! modern era it is the response to `subscriptions/listen`. The stream is optional: without it the
//! server cannot send change notifications.
//!
//! Invariants: a stream that ended is opened again with backoff; after a gap, all lists and
//! resources count as changed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::Serialize;
use tokio::time::Instant;

use super::authorized::AuthorizedResponse;
use super::event_stream::{EventStream, EventStreamEnd, is_message};
use super::exchange::StreamMessage;
use super::request_headers::RequestHeaders;
use super::streamable::{LISTEN_STREAM_GRACE, StreamableHttpSession};
use super::{ACCEPT_EVENTS, ContentType, LAST_EVENT_ID, post_body, status};
use crate::http::Body;
use crate::rate_limit::RateLimiter;
use crate::session::subscriptions::ListenEnd;
use crate::session::{Delivery, RequestError, SessionEnd, TransportFailure};
use crate::wire_tap::Direction;
use switchboard_wire::encode;
use switchboard_wire::encode::{ListChangeFilter, ResourceFilter};
use switchboard_wire::sse::SseItem;

/// Delay before an ended stream is opened again. Doubles up to the maximum.
const MIN_REOPEN_DELAY: Duration = Duration::from_secs(1);
const MAX_REOPEN_DELAY: Duration = Duration::from_secs(60);
/// Lower bound of a delay that the server asks for.
const MIN_RETRY_HINT: Duration = Duration::from_millis(100);
/// A stream that lasted this long resets the delay.
const STABLE_AFTER: Duration = Duration::from_secs(10);
/// Subscriptions are rejected after this many consecutive failures to open the stream.
const MAX_OPEN_FAILURES: u32 = 3;

/// An id that no request has: ids begin at one.
const NO_REQUEST_ID: u64 = 0;

/// The state that outlives one stream and is used to open the next one.
struct ListenStream {
    /// No attempt to open the stream was made yet.
    is_first: bool,
    /// Id of the last event, to resume after it.
    last_event_id: Option<String>,
    reopen_delay: Duration,
    /// The delay that the server asked for.
    retry_hint: Option<Duration>,
    rate_limit: RateLimiter,
}

/// How a stream ended, or why it was not opened.
enum StreamEnd {
    /// The server closed it, or the connection failed. It is opened again.
    Reconnect,
    /// The server does not offer the stream. It is not opened again.
    Unsupported,
}

impl StreamableHttpSession {
    /// Keeps the GET stream of the legacy era open.
    pub(super) async fn run_get_stream(self: Arc<Self>) {
        let stop = self.core.peer.stop.clone();
        let mut listen = ListenStream::new();
        let mut open_failures = 0;
        let run = async {
            loop {
                let opened_at = Instant::now();
                let stream = self.open_stream(listen.last_event_id.as_deref()).await;
                let had_gap = listen.had_gap(opened_at);
                self.listen_stream_decided.cancel();
                let ended = match stream {
                    Ok(body) => {
                        if had_gap {
                            self.core.peer.list_changes.record_all();
                            self.core.peer.subscriptions.record_all();
                        }
                        open_failures = 0;
                        self.core.peer.list_changes.set_all_receivable();
                        self.core.peer.subscriptions.mark_available();
                        self.read_stream(body, &mut listen, NO_REQUEST_ID).await
                    }
                    Err(error) => {
                        open_failures += 1;
                        let why = format!("the server offers no stream for notifications: {error}");
                        let ended = self.on_open_error(error);
                        if matches!(ended, StreamEnd::Unsupported)
                            || open_failures >= MAX_OPEN_FAILURES
                        {
                            self.core.peer.subscriptions.mark_unavailable(why.into());
                        }
                        ended
                    }
                };
                self.core.peer.list_changes.set_none_receivable();
                if matches!(ended, StreamEnd::Unsupported) {
                    return;
                }
                listen.wait_to_reopen(opened_at).await;
            }
        };
        stop.run_until_cancelled(run).await;
    }

    /// Keeps a `subscriptions/listen` request for list changes open (modern era).
    pub(super) async fn run_listen_request(self: Arc<Self>, list_changes: ListChangeFilter) {
        let stop = self.core.peer.stop.clone();
        let mut listen = ListenStream::new();
        let run = async {
            loop {
                let opened_at = Instant::now();
                let id = self.next_id();
                self.core.peer.list_changes.set_listen_request(id);
                let stream = self.send_listen(id, list_changes).await;
                let had_gap = listen.had_gap(opened_at);
                self.listen_stream_decided.cancel();
                let ended = match stream {
                    Ok(reply) => {
                        if had_gap {
                            self.core.peer.list_changes.record_all();
                        }
                        self.read_stream(reply.incoming.body, &mut listen, id).await
                    }
                    Err(error) => self.on_open_error(error),
                };
                self.core.peer.list_changes.set_none_receivable();
                if matches!(ended, StreamEnd::Unsupported) {
                    return;
                }
                listen.wait_to_reopen(opened_at).await;
            }
        };
        stop.run_until_cancelled(run).await;
    }

    /// Subscribes to updates of resources and waits until the subscription ends. `sent` receives
    /// the id of the request.
    pub(in crate::session) async fn listen_for_updates(
        self: &Arc<Self>,
        uris: &[&str],
        sent: impl Fn(u64),
    ) -> ListenEnd {
        let updates = ResourceFilter {
            resource_subscriptions: uris,
        };
        let id = self.next_id();
        sent(id);
        let why = "the server ended the subscription".to_owned();
        let (ended, why) = match self.send_listen(id, updates).await {
            Ok(reply) => {
                let body = reply.incoming.body;
                (
                    self.read_stream(body, &mut ListenStream::new(), id).await,
                    why,
                )
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

    /// Sends the GET for an event stream: the server-to-client stream, or the rest of the stream
    /// whose last event was `last`.
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
        let sent = self
            .core
            .client
            .send(Method::GET, None, headers, Bytes::new());
        let reply = sent.await.map_err(status::send_error)?;
        if reply.incoming.status != StatusCode::OK {
            return Err(self.on_error_status(None, reply).await);
        }
        match ContentType::of(&reply.incoming.headers) {
            ContentType::Events => Ok(reply.incoming.body),
            _ => Err(status::not_an_event_stream(StatusCode::OK)),
        }
    }

    /// Sends a `subscriptions/listen` request and waits for the event stream.
    async fn send_listen(
        &self,
        id: u64,
        filter: impl Serialize,
    ) -> Result<AuthorizedResponse, RequestError> {
        let params = encode::ListenParams {
            notifications: filter,
            meta: self.core.peer.meta(None, None),
        };
        let headers = RequestHeaders::of("subscriptions/listen");
        let body = post_body(encode::request(id, headers.method, &params));
        self.core.peer.tap(Direction::Sent, &body);
        let build_headers = || self.headers(&headers);
        let sent = self
            .core
            .client
            .send(Method::POST, None, build_headers, body);
        let reply = sent.await.map_err(status::send_error)?;
        let status = reply.incoming.status;
        if !status.is_success() {
            return Err(
                status::read(&self.core.peer, self.core.client.url(), Some(id), reply).await,
            );
        }
        match ContentType::of(&reply.incoming.headers) {
            ContentType::Events => Ok(reply),
            _ => Err(status::not_an_event_stream(status)),
        }
    }

    /// Decides whether to open the stream again after a failure. May end the session.
    fn on_open_error(&self, error: RequestError) -> StreamEnd {
        let server = &self.core.peer.context.server;
        tracing::debug!(%server, %error, "no server-to-client stream");
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
                    self.core.peer.end(SessionEnd::Unreachable(message));
                } else {
                    self.core.health.check_now();
                }
                StreamEnd::Reconnect
            }
            RequestError::NeedsLogin(challenge) => {
                self.core.peer.end(SessionEnd::NeedsLogin(challenge));
                StreamEnd::Unsupported
            }
            _ => StreamEnd::Unsupported,
        }
    }

    /// Handles the messages of a stream until it ends. A response to request `id` ends the
    /// subscription.
    async fn read_stream(
        self: &Arc<Self>,
        body: Body,
        listen: &mut ListenStream,
        id: u64,
    ) -> StreamEnd {
        let mut stream = EventStream::new(body, &self.core.peer.context);
        let end = loop {
            match stream.next().await {
                Ok(SseItem::Event(event)) => {
                    let size = event.data.len();
                    if is_message(&event)
                        && let StreamMessage::Response(_) =
                            self.receive(id, event.data, event.permit).await
                    {
                        return StreamEnd::Unsupported;
                    }
                    listen.rate_limit.throttle(size).await;
                }
                Ok(SseItem::Retry(delay)) => listen.retry_hint = Some(delay),
                Ok(SseItem::Discarded { .. }) => {}
                Err(end) => break end,
            }
        };
        if let Some(id) = stream.last_event_id() {
            listen.last_event_id = Some(id.to_owned());
        }
        if matches!(end, EventStreamEnd::Failed(_)) {
            self.core.health.check_now();
        }
        StreamEnd::Reconnect
    }
}

impl ListenStream {
    fn new() -> Self {
        Self {
            is_first: true,
            last_event_id: None,
            reopen_delay: MIN_REOPEN_DELAY,
            retry_hint: None,
            rate_limit: RateLimiter::unsolicited(),
        }
    }

    /// Whether notifications may have been lost because no stream was open: true for all but the
    /// first attempt, and for a first one that took longer than the handshake waits for it.
    fn had_gap(&mut self, opened_at: Instant) -> bool {
        !std::mem::take(&mut self.is_first) || opened_at.elapsed() >= LISTEN_STREAM_GRACE
    }

    /// Waits before the stream is opened again.
    async fn wait_to_reopen(&mut self, opened_at: Instant) {
        if opened_at.elapsed() >= STABLE_AFTER {
            self.reopen_delay = MIN_REOPEN_DELAY;
        }
        let delay = self
            .retry_hint
            .unwrap_or(self.reopen_delay)
            .max(MIN_RETRY_HINT);
        self.reopen_delay = (self.reopen_delay * 2).min(MAX_REOPEN_DELAY);
        tokio::time::sleep(delay.mul_f64(1.0 + 0.2 * fastrand::f64())).await;
    }
}
