//! The server-to-client stream of streamable HTTP.
//!
//! In the legacy era, the stream is the response to a GET; a new GET resumes it after its last
//! event. In the modern era, it is the response to `subscriptions/listen`. The stream is optional.
//! Without the stream, change notifications can arrive only in the legacy era, on the event stream
//! of a request.
//!
//! Invariants: a stream that ended is opened again with backoff, unless the server rejected the
//! stream or ended the subscription. If notifications may have been lost meanwhile, all lists and
//! resources whose changes the stream reports count as changed.

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

/// Delay before a stream that ended is opened again. Doubles each time, up to
/// [`MAX_REOPEN_DELAY`].
const MIN_REOPEN_DELAY: Duration = Duration::from_secs(1);
const MAX_REOPEN_DELAY: Duration = Duration::from_secs(60);
/// Lower bound of the delay that the server sets with `retry`.
const MIN_RETRY_HINT: Duration = Duration::from_millis(100);
/// A stream that was open this long resets the delay to [`MIN_REOPEN_DELAY`].
const STABLE_AFTER: Duration = Duration::from_secs(10);
/// After this many consecutive streams that ended soon and without a message, the delay that the
/// server sets with `retry` no longer shortens the backoff.
const MAX_EMPTY_STREAMS: u32 = 5;
/// After this many consecutive failures to open the GET stream, resource subscriptions are
/// rejected. The session still tries to open the stream.
const MAX_OPEN_FAILURES: u32 = 3;

/// An id that no request has, because request ids begin at one.
const NO_REQUEST_ID: u64 = 0;

/// The state that is kept between an ended stream and the next one.
struct ListenStream {
    /// Whether no attempt to open the stream has finished yet.
    is_first: bool,
    /// Id of the last event. The next GET asks the server to resume after this event.
    last_event_id: Option<String>,
    reopen_delay: Duration,
    /// The delay before the next attempt, as the server set it with `retry`.
    retry_hint: Option<Duration>,
    /// Number of consecutive streams that ended without a message, soon after they were opened.
    empty_streams: u32,
    /// Whether a message arrived on the current stream.
    had_message: bool,
    rate_limit: RateLimiter,
}

/// How a stream ended, or why it was not opened.
enum StreamEnd {
    /// The server closed the stream, or the connection failed. The stream is opened again.
    Reconnect,
    /// The server does not offer the stream, or ended the subscription. The stream is not opened
    /// again.
    Unsupported,
}

impl StreamableHttpSession {
    /// Keeps the GET stream of the legacy era open until the session ends or the server turns out
    /// not to offer it.
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

    /// Keeps a `subscriptions/listen` request for list changes open (modern era), until the session
    /// ends or the server rejects or ends the subscription.
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

    /// Subscribes to updates of these resources and waits until the subscription ends. Calls `sent`
    /// with the id of the `subscriptions/listen` request before sending it.
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

    /// Sends a GET for an event stream. With `last`, requests the events after the event with this
    /// id, on the stream to which it belongs. Without `last`, opens a new server-to-client stream.
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
            .send(Method::GET, self.endpoint.get(), headers, Bytes::new());
        let reply = sent.await.map_err(status::send_error)?;
        if reply.incoming.status != StatusCode::OK {
            return Err(self.on_error_status(None, reply).await);
        }
        match ContentType::of(&reply.incoming.headers) {
            ContentType::Events => Ok(reply.incoming.body),
            _ => Err(status::not_an_event_stream(StatusCode::OK)),
        }
    }

    /// Sends a `subscriptions/listen` request. Returns the response when its headers have arrived
    /// and announce an event stream.
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
            .send(Method::POST, self.endpoint.get(), build_headers, body);
        let reply = sent.await.map_err(status::send_error)?;
        let status = reply.incoming.status;
        if !status.is_success() {
            return Err(status::read(&self.core.peer, self.url(), Some(id), reply).await);
        }
        match ContentType::of(&reply.incoming.headers) {
            ContentType::Events => Ok(reply),
            _ => Err(status::not_an_event_stream(status)),
        }
    }

    /// Decides whether to open the stream again after `error`. Ends the session if the server
    /// cannot be reached or requires a login.
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

    /// Handles the messages of a stream until it ends, or until the response to request `id`
    /// arrives, which ends the subscription.
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
                    listen.had_message |= is_message(&event);
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
            empty_streams: 0,
            had_message: false,
            rate_limit: RateLimiter::unsolicited(),
        }
    }

    /// Whether notifications may have been lost because no stream was open. True for every attempt
    /// to open the stream except the first. Also true for the first attempt if it took at least
    /// [`LISTEN_STREAM_GRACE`]: then requests may have been sent before the stream was open.
    fn had_gap(&mut self, opened_at: Instant) -> bool {
        !std::mem::take(&mut self.is_first) || opened_at.elapsed() >= LISTEN_STREAM_GRACE
    }

    /// Waits before the stream is opened again, for the server's delay or with backoff. After
    /// [`MAX_EMPTY_STREAMS`], the server's delay only counts if it is longer than the backoff.
    async fn wait_to_reopen(&mut self, opened_at: Instant) {
        if opened_at.elapsed() >= STABLE_AFTER || std::mem::take(&mut self.had_message) {
            self.reopen_delay = MIN_REOPEN_DELAY;
            self.empty_streams = 0;
        } else {
            self.empty_streams += 1;
        }
        let delay = match self.retry_hint {
            Some(hint) if self.empty_streams <= MAX_EMPTY_STREAMS => hint.max(MIN_RETRY_HINT),
            Some(hint) => hint.max(self.reopen_delay),
            None => self.reopen_delay,
        };
        if self.retry_hint.is_none() || self.empty_streams > MAX_EMPTY_STREAMS {
            self.reopen_delay = (self.reopen_delay * 2).min(MAX_REOPEN_DELAY);
        }
        tokio::time::sleep(delay.mul_f64(1.0 + 0.2 * fastrand::f64())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long the client waits in total before it has opened 20 more streams.
    async fn time_of_20_streams(retry: Duration, had_message: bool) -> Duration {
        let mut listen = ListenStream::new();
        listen.retry_hint = Some(retry);
        let started = Instant::now();
        for _ in 0..20 {
            listen.had_message = had_message;
            listen.wait_to_reopen(Instant::now()).await;
        }
        started.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn streams_that_end_at_once_are_reopened_with_backoff() {
        let empty = time_of_20_streams(Duration::ZERO, false).await;
        assert!(empty > Duration::from_secs(5 * 60), "{empty:?}");
        let useful = time_of_20_streams(Duration::ZERO, true).await;
        assert!(useful < Duration::from_secs(3), "{useful:?}");
    }
}
