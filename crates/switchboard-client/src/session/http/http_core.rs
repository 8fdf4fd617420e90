//! The part of an HTTP session that both HTTP transports share.
//!
//! Holds the HTTP client, sends notifications in the background, and derives from the outcome of
//! each request whether the server is healthy. The transports encode requests and receive the
//! responses.
//!
//! Invariant: at most [`MAX_PENDING_NOTIFICATIONS`] notifications are being sent at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::AuthorizedClient;
use super::health::{Health, HealthMonitor};
use crate::session::peer::Peer;
use crate::session::{Delivery, RequestError, SessionContext, SessionEnd};
use switchboard_wire::jsonrpc::RawResult;

/// Maximum number of notifications and responses that are being sent at a time. Further ones are
/// dropped, so a server that sends requests faster than it accepts responses does not receive all
/// responses.
const MAX_PENDING_NOTIFICATIONS: usize = 32;
/// How long sending one notification may take.
pub(super) const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct HttpCore {
    pub(super) peer: Peer,
    pub(super) client: AuthorizedClient,
    /// Tracks the background tasks of the session.
    pub(super) tasks: TaskTracker,
    pub(super) health: HealthMonitor,
    notification_slots: Arc<Semaphore>,
}

impl HttpCore {
    pub(super) fn new(
        client: AuthorizedClient,
        context: SessionContext,
        tasks: &TaskTracker,
        stop: CancellationToken,
        health: &Health,
    ) -> Self {
        Self {
            peer: Peer::new(context, tasks, stop),
            client,
            tasks: tasks.clone(),
            health: HealthMonitor::new(health),
            notification_slots: Arc::new(Semaphore::new(MAX_PENDING_NOTIFICATIONS)),
        }
    }

    /// Runs `send`, which sends a notification, in the background until the session ends. Drops
    /// `send` if [`MAX_PENDING_NOTIFICATIONS`] others are running.
    pub(super) fn spawn_notification(&self, send: impl Future<Output = ()> + Send + 'static) {
        let Ok(slot) = Arc::clone(&self.notification_slots).try_acquire_owned() else {
            let server = &self.peer.context.server;
            tracing::debug!(%server, "notification dropped: too many are being sent");
            return;
        };
        let stop = self.peer.stop.clone();
        self.peer.spawn_notification(async move {
            stop.run_until_cancelled(send).await;
            drop(slot);
        });
    }

    /// Records the outcome of a request in the health monitor. Ends the session if the server
    /// cannot be reached, requires a login, or failed too often in a row. Returns the outcome; if
    /// the server cannot be reached or requires a login, the error becomes
    /// [`RequestError::Lost`] with the delivery *not sent*. During the handshake, outcomes are
    /// returned unchanged.
    pub(super) fn record_outcome(
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
            RequestError::Transport(failure) if is_open => {
                if failure.status.is_none() && failure.delivery == Delivery::NotSent {
                    let end = SessionEnd::Unreachable(failure.message.clone());
                    return Err(self.end_before_delivery(end));
                }
                if failure.delivery == Delivery::Unknown && self.health.record_failure() {
                    self.peer
                        .end(SessionEnd::TooManyFailures(failure.message.clone()));
                } else if failure.status.is_none() {
                    self.health.check_now();
                }
            }
            RequestError::NeedsLogin(login) if is_open => {
                return Err(self.end_before_delivery(SessionEnd::NeedsLogin(login.clone())));
            }
            RequestError::ErrorResponse(_) | RequestError::InvalidResponse(_) => {
                self.health.record_success();
            }
            RequestError::TimedOut { .. } if method != "ping" => self.health.check_now(),
            _ => {}
        }
        Err(error)
    }

    /// Ends the session because a request did not reach the server or was rejected. Returns the
    /// error for this request, with the delivery *not sent*.
    fn end_before_delivery(&self, end: SessionEnd) -> RequestError {
        self.peer.end(end.clone());
        RequestError::Lost {
            delivery: Delivery::NotSent,
            end,
        }
    }
}
