//! The server-to-client stream of streamable HTTP.
//!
//! In the legacy era it is a GET that is resumed at the last event; in the modern era it is the response
//! to `subscriptions/listen`. The stream is optional: without it the server cannot send change
//! notifications. Invariants: the stream is opened again with backoff; after a gap everything counts as
//! changed.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde::Serialize;
use tokio::time::Instant;

use super::authorized::AuthorizedResponse;
use super::exchange::StreamMessage;
use super::streamable::{LISTEN_STREAM_GRACE, RequestHeaders, StreamableHttpSession};
use super::{ContentType, status};
use crate::http::Body;
use crate::rate_limit::RateLimiter;
use crate::session::subscriptions::ListenEnd;
use crate::session::{Delivery, RequestError, SessionEnd, TransportFailure};
use crate::wire_tap::Direction;
use switchboard_wire::encode;
use switchboard_wire::encode::{ListChangeFilter, ResourceFilter};
use switchboard_wire::sse::{SseItem, SseParser};

/// Delay before an ended stream is opened again. Doubles up to the maximum.
const MIN_REOPEN_DELAY: Duration = Duration::from_secs(1);
const MAX_REOPEN_DELAY: Duration = Duration::from_secs(60);
/// Lower bound of a delay that the server asks for.
const MIN_RETRY_HINT: Duration = Duration::from_millis(100);
/// A stream that lasted this long resets the delay.
const STABLE_AFTER: Duration = Duration::from_secs(10);
/// Subscriptions are rejected after this many consecutive failures to open the stream.
const MAX_OPEN_FAILURES: u32 = 3;

/// Matches no request: ids begin at one.
const NO_REQUEST_ID: u64 = 0;

/// State that survives the end of a stream.
struct ListenStream {
    /// Id of the last event, to resume after it.
    last_event_id: Option<String>,
    reopen_delay: Duration,
    /// The delay that the server asked for.
    retry_hint: Option<Duration>,
    rate_limit: RateLimiter,
}

enum StreamEnd {
    /// The server closed it, or the connection failed.
    Reconnect,
    /// The server does not offer the stream.
    Unsupported,
}

impl StreamableHttpSession {
    /// Keeps the GET stream of the legacy era open.
    pub(super) async fn run_get_stream(self: Arc<Self>) {
        let stop = self.peer.stop.clone();
        let mut listen = ListenStream::new();
        let mut is_first = true;
        let mut open_failures = 0;
        let run = async {
            loop {
                let opened_at = Instant::now();
                let stream = self.open_stream(listen.last_event_id.as_deref()).await;
                let is_late =
                    !std::mem::take(&mut is_first) || opened_at.elapsed() >= LISTEN_STREAM_GRACE;
                self.listen_stream_decided.cancel();
                let ended = match stream {
                    Ok(body) => {
                        if is_late {
                            // Notifications may have been lost while no stream was open.
                            self.peer.list_changes.record_all();
                            self.peer.subscriptions.record_all();
                        }
                        open_failures = 0;
                        self.peer.list_changes.set_all_receivable();
                        self.peer.subscriptions.mark_available();
                        self.read_stream(body, &mut listen, NO_REQUEST_ID).await
                    }
                    Err(error) => {
                        open_failures += 1;
                        let why = format!("the server offers no stream for notifications: {error}");
                        let ended = self.on_open_error(error);
                        if matches!(ended, StreamEnd::Unsupported)
                            || open_failures >= MAX_OPEN_FAILURES
                        {
                            self.peer.subscriptions.mark_unavailable(why.into());
                        }
                        ended
                    }
                };
                self.peer.list_changes.set_none_receivable();
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
        let stop = self.peer.stop.clone();
        let mut listen = ListenStream::new();
        let mut is_first = true;
        let run = async {
            loop {
                let opened_at = Instant::now();
                let id = self.next_id();
                self.peer.list_changes.set_listen_request(id);
                let stream = self.send_listen(id, list_changes).await;
                let is_late =
                    !std::mem::take(&mut is_first) || opened_at.elapsed() >= LISTEN_STREAM_GRACE;
                self.listen_stream_decided.cancel();
                let ended = match stream {
                    Ok(reply) => {
                        if is_late {
                            // Notifications may have been lost while no stream was open.
                            self.peer.list_changes.record_all();
                        }
                        self.read_stream(reply.incoming.body, &mut listen, id).await
                    }
                    Err(error) => self.on_open_error(error),
                };
                self.peer.list_changes.set_none_receivable();
                if matches!(ended, StreamEnd::Unsupported) {
                    return;
                }
                listen.wait_to_reopen(opened_at).await;
            }
        };
        stop.run_until_cancelled(run).await;
    }

    /// Subscribes to updates of resources and waits until the subscription ends. `sent` receives the id
    /// of the request.
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

    async fn send_listen(
        &self,
        id: u64,
        filter: impl Serialize,
    ) -> Result<AuthorizedResponse, RequestError> {
        let params = encode::ListenParams {
            notifications: filter,
            meta: self.peer.meta(None, None),
        };
        let headers = RequestHeaders::of("subscriptions/listen");
        let mut line = encode::request(id, headers.method, &params);
        line.pop();
        self.peer.tap(Direction::Sent, &line);
        let build_headers = || self.headers(&headers);
        let sent = self
            .client
            .send(Method::POST, None, build_headers, line.into());
        let reply = sent.await.map_err(status::send_error)?;
        let status = reply.incoming.status;
        if !status.is_success() {
            return Err(status::read(&self.peer, self.client.url(), Some(id), reply).await);
        }
        match ContentType::of(&reply.incoming.headers) {
            ContentType::Events => Ok(reply),
            _ => Err(RequestError::Transport(TransportFailure {
                status: Some(status.as_u16()),
                ..TransportFailure::unknown("the response is not an event stream")
            })),
        }
    }

    /// Decides whether to try again after the stream could not be opened. May end the session.
    fn on_open_error(&self, error: RequestError) -> StreamEnd {
        let server = &self.peer.context.server;
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

    /// Handles the messages of a stream until it ends. A response to request `id` ends the subscription.
    async fn read_stream(
        self: &Arc<Self>,
        mut body: Body,
        listen: &mut ListenStream,
        id: u64,
    ) -> StreamEnd {
        let context = &self.peer.context;
        let mut events = SseParser::new(context.limits.message_bytes, &context.budget);
        loop {
            match events.next_item() {
                Ok(Some(SseItem::Event(event))) => {
                    let size = event.data.len();
                    let is_message = event.kind.as_deref().is_none_or(|kind| kind == "message");
                    if is_message
                        && let StreamMessage::Response(_) =
                            self.receive(id, event.data, event.permit).await
                    {
                        return StreamEnd::Unsupported;
                    }
                    if let Some(pause) = listen.rate_limit.consume(size) {
                        tokio::time::sleep(pause).await;
                    }
                }
                Ok(Some(SseItem::Retry(delay))) => listen.retry_hint = Some(delay),
                Ok(Some(SseItem::Discarded { .. })) => {}
                Ok(None) => match body.chunk().await {
                    Ok(Some(piece)) => events.push(piece),
                    outcome => {
                        listen.store_event_id(&events);
                        if outcome.is_err() {
                            self.health.check_now();
                        }
                        return StreamEnd::Reconnect;
                    }
                },
                Err(_) => {
                    listen.store_event_id(&events);
                    return StreamEnd::Reconnect;
                }
            }
        }
    }
}

impl ListenStream {
    fn new() -> Self {
        Self {
            last_event_id: None,
            reopen_delay: MIN_REOPEN_DELAY,
            retry_hint: None,
            rate_limit: RateLimiter::unsolicited(),
        }
    }

    fn store_event_id(&mut self, events: &SseParser) {
        if let Some(id) = events.last_event_id() {
            self.last_event_id = Some(id.to_owned());
        }
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
