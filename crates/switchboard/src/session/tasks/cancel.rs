//! What becomes of a task when nobody waits for it any more: its server is told.

use std::time::Duration;

use futures_util::FutureExt;
use tokio::runtime::Handle;

use super::is_modern;
use crate::session::Session;
use crate::session::deadline::Deadline;
use crate::session::query::Query;

/// How long the server may take to hear that.
const TIME_TO_CANCEL: Duration = Duration::from_secs(10);

/// A task that is waited for. Dropped while it may be running, it is cancelled.
pub(super) struct CancelTaskOnDrop {
    /// The session that it is asked for on.
    pub(super) session: Session,
    pub(super) id: String,
    pub(super) maybe_running: bool,
}

impl Drop for CancelTaskOnDrop {
    fn drop(&mut self) {
        let can_be_told = can_cancel(&self.session) && Handle::try_current().is_ok();
        if !self.maybe_running || !can_be_told {
            return;
        }
        let Some(peer) = self.session.peer() else {
            return;
        };
        let (session, id) = (self.session.clone(), std::mem::take(&mut self.id));
        let mut cancelling = Box::pin(async move {
            let deadline = Deadline::after(TIME_TO_CANCEL);
            let query = Query::new("tasks/cancel", deadline).with_subject("taskId", &id);
            if let Err(error) = session.query(&query).await {
                tracing::debug!(id, %error, "the task was not cancelled");
            }
        });
        // It leaves at once if it can: what follows may be the end of the session.
        if cancelling.as_mut().now_or_never().is_none() {
            peer.spawn_notification(cancelling);
        }
    }
}

fn can_cancel(session: &Session) -> bool {
    let handshake = session.handshake();
    is_modern(session) || handshake.is_some_and(|handshake| handshake.capabilities.tasks_cancel)
}
