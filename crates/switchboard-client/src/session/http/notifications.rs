//! Sends notifications over HTTP in the background, a bounded number at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::session::peer::Peer;

/// Maximum number of notifications being sent. More are dropped: a server that sends more requests than
/// can be answered gets no responses.
const MAX_PENDING_NOTIFICATIONS: usize = 32;
/// How long sending one notification may take.
pub(super) const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct NotificationSlots(Arc<Semaphore>);

impl NotificationSlots {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(MAX_PENDING_NOTIFICATIONS)))
    }

    /// Runs `send` in the background until the session ends, if a slot is free.
    pub(super) fn spawn(&self, peer: &Peer, send: impl Future<Output = ()> + Send + 'static) {
        let Ok(slot) = Arc::clone(&self.0).try_acquire_owned() else {
            let server = &peer.context.server;
            tracing::debug!(%server, "notification dropped: too many are being sent");
            return;
        };
        let stop = peer.stop.clone();
        peer.spawn_notification(async move {
            stop.run_until_cancelled(send).await;
            drop(slot);
        });
    }
}
