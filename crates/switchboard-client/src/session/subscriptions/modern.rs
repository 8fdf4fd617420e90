//! Subscriptions of the modern era: one `subscriptions/listen` request for all URIs, replaced when
//! the set of URIs changes.
//!
//! If the connection of a request fails, the request is sent again with backoff. A request that the
//! server ended is not sent again. Invariant: a request is replaced only after the server
//! acknowledged the new request, so that no update is missed.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{ListenRequest, Subscriptions, Uris};
use crate::session::Session;
use crate::session::peer::Peer;
use switchboard_wire::sync::lock;

/// Changes of the set of URIs within this time are covered by one request.
const COALESCE_DELAY: Duration = Duration::from_millis(20);
/// How long a server may take to acknowledge a `subscriptions/listen` request.
const ACK_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay before a request is sent again after its connection failed. Doubles with each failure, up
/// to [`MAX_RETRY_DELAY`].
const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);
/// A request that was open this long before it failed resets the delay to [`MIN_RETRY_DELAY`].
const STABLE_AFTER: Duration = Duration::from_secs(10);

/// How a `subscriptions/listen` request ended.
pub(in crate::session) enum ListenEnd {
    /// The connection failed. The request may be sent again.
    Broken,
    /// The server ended, rejected or did not acknowledge the request, or the session cannot
    /// subscribe. The request is not sent again. Holds the reason.
    Ended(String),
}

/// An open `subscriptions/listen` request. Dropping it ends the request.
struct ActiveListen<'a> {
    subscriptions: &'a Subscriptions,
    listen: Arc<ListenRequest>,
    request: BoxFuture<'static, ListenEnd>,
    started_at: Instant,
}

impl Drop for ActiveListen<'_> {
    fn drop(&mut self) {
        let listens = &mut lock(&self.subscriptions.state).listens;
        listens.retain(|listen| !Arc::ptr_eq(listen, &self.listen));
    }
}

impl<'a> ActiveListen<'a> {
    fn open(session: &Session, subscriptions: &'a Subscriptions, uris: Uris) -> Self {
        let listen = Arc::new(ListenRequest {
            id: AtomicU64::new(0),
            uris,
            is_acknowledged: CancellationToken::new(),
            is_cancelled: CancellationToken::new(),
        });
        lock(&subscriptions.state).listens.push(Arc::clone(&listen));
        Self {
            subscriptions,
            request: send_listen(session.clone(), Arc::clone(&listen)),
            listen,
            started_at: Instant::now(),
        }
    }

    /// Waits until the request ends.
    async fn end(&mut self) -> ListenEnd {
        tokio::select! {
            biased;
            () = self.listen.is_cancelled.cancelled() => {
                ListenEnd::Ended("the server cancelled the subscription".to_owned())
            }
            end = &mut self.request => end,
        }
    }
}

fn send_listen(session: Session, listen: Arc<ListenRequest>) -> BoxFuture<'static, ListenEnd> {
    async move {
        let uris: Vec<&str> = listen.uris.iter().map(|uri| &**uri).collect();
        let sent = |id| listen.id.store(id, Ordering::Relaxed);
        match &session {
            Session::Line(line) => line.listen_for_updates(&uris, sent).await,
            #[cfg(feature = "http")]
            Session::StreamableHttp(http) => http.listen_for_updates(&uris, sent).await,
            _ => ListenEnd::Ended("the server does not support subscriptions".to_owned()),
        }
    }
    .boxed()
}

enum Wake {
    Changed,
    RenewalDue,
    Ended(ListenEnd),
}

struct ListenTask<'a> {
    session: &'a Session,
    peer: &'a Peer,
    current: Option<ActiveListen<'a>>,
    /// When to send a request for the current set of URIs. `None` if no request is planned.
    due: Option<Instant>,
    /// After a failure, no request is sent before this instant.
    not_before: Instant,
    retry_delay: Duration,
    /// Whether updates may have been missed because no request was open for some time.
    missed_updates: bool,
}

pub(super) async fn run(session: &Session, peer: &Peer) {
    let mut task = ListenTask {
        session,
        peer,
        current: None,
        due: None,
        not_before: Instant::now(),
        retry_delay: MIN_RETRY_DELAY,
        missed_updates: false,
    };
    loop {
        let due = task.due;
        let wake = tokio::select! {
            biased;
            end = wait_for_listen_end(&mut task.current) => Wake::Ended(end),
            () = peer.subscriptions.changed.notified(), if due.is_none() => Wake::Changed,
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => Wake::RenewalDue,
        };
        match wake {
            Wake::Changed => {
                task.due = Some((Instant::now() + COALESCE_DELAY).max(task.not_before));
            }
            Wake::RenewalDue => {
                task.due = None;
                task.renew().await;
            }
            Wake::Ended(end) => {
                let ended = task.current.take();
                task.on_end(end, ended);
            }
        }
    }
}

/// Waits until the open request ends. Never returns if there is none.
async fn wait_for_listen_end(active: &mut Option<ActiveListen<'_>>) -> ListenEnd {
    match active {
        Some(active) => active.end().await,
        None => pending().await,
    }
}

impl<'a> ListenTask<'a> {
    /// Sends a request for the wanted URIs, and ends the previous request when the server has
    /// acknowledged the new one. Without wanted URIs, only ends the previous request.
    async fn renew(&mut self) {
        let subscriptions: &'a Subscriptions = &self.peer.subscriptions;
        let uris = subscriptions.wanted_uris();
        if uris.is_empty() {
            self.current = None;
            return;
        }
        // A URI whose last subscription was dropped before a new one was added is pending. It needs
        // a new acknowledgement although the set of URIs is the same.
        if let Some(current) = &self.current
            && current.listen.uris == uris
            && !subscriptions.any_pending(&uris)
        {
            return;
        }
        let mut next = ActiveListen::open(self.session, subscriptions, uris);
        let acknowledged = next.listen.is_acknowledged.clone();
        let timeout = sleep(ACK_TIMEOUT);
        tokio::pin!(timeout);
        let outcome = loop {
            tokio::select! {
                biased;
                () = acknowledged.cancelled() => break Ok(()),
                end = next.end() => break Err(end),
                _ = wait_for_listen_end(&mut self.current) => {
                    self.current = None;
                    self.missed_updates = true;
                }
                () = &mut timeout => {
                    let why = "the server did not acknowledge in time".to_owned();
                    break Err(ListenEnd::Ended(why));
                }
            }
        };
        match outcome {
            Ok(()) => {
                if std::mem::take(&mut self.missed_updates) {
                    subscriptions.record_some(&next.listen.uris);
                }
                self.current = Some(next);
            }
            Err(end) => self.on_end(end, Some(next)),
        }
    }

    fn on_end(&mut self, end: ListenEnd, ended: Option<ActiveListen<'_>>) {
        let Some(ended) = ended else { return };
        match end {
            ListenEnd::Broken => {
                if ended.started_at.elapsed() >= STABLE_AFTER {
                    self.retry_delay = MIN_RETRY_DELAY;
                }
                let delay = self.retry_delay.mul_f64(1.0 + 0.2 * fastrand::f64());
                self.retry_delay = (self.retry_delay * 2).min(MAX_RETRY_DELAY);
                self.not_before = Instant::now() + delay;
                self.due = Some(self.not_before);
                self.missed_updates = true;
            }
            ListenEnd::Ended(why) => {
                let server = &self.peer.context.server;
                tracing::debug!(%server, why, "resource subscription ended");
                let active = self.current.as_ref().map(|current| &current.listen.uris);
                let lost = ended.listen.uris.iter();
                let lost = lost.filter(|uri| active.is_none_or(|active| !active.contains(*uri)));
                self.peer.subscriptions.reject(lost, &why.into());
            }
        }
    }
}
