//! Cancels a task whose caller stopped waiting.

use std::time::Duration;

use futures_util::FutureExt;
use tokio::runtime::Handle;

use super::is_modern;
use crate::session::Session;
use crate::session::deadline::Deadline;
use crate::session::query::Query;

/// Maximum wait for the response to `tasks/cancel`.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends `tasks/cancel` on drop, if the task may still be running and the server supports
/// `tasks/cancel`.
pub(super) struct CancelTaskOnDrop {
    /// The session that polls the task.
    pub(super) session: Session,
    /// Id of the task.
    pub(super) id: String,
    /// Whether the task may still be running. The poller sets this to `false` when the task has
    /// ended.
    pub(super) maybe_running: bool,
}

impl Drop for CancelTaskOnDrop {
    fn drop(&mut self) {
        let can_cancel = can_cancel(&self.session) && Handle::try_current().is_ok();
        if !self.maybe_running || !can_cancel {
            return;
        }
        let Some(peer) = self.session.peer() else {
            return;
        };
        let (session, id) = (self.session.clone(), std::mem::take(&mut self.id));
        let mut cancel = Box::pin(async move {
            let deadline = Deadline::after(CANCEL_TIMEOUT);
            let query = Query::new("tasks/cancel", deadline).with_subject("taskId", &id);
            if let Err(error) = session.query(&query).await {
                tracing::debug!(id, %error, "the task was not cancelled");
            }
        });
        // Poll once now, so that the request is sent even if the session is closed right after.
        if cancel.as_mut().now_or_never().is_none() {
            peer.spawn_notification(cancel);
        }
    }
}

fn can_cancel(session: &Session) -> bool {
    let handshake = session.handshake();
    is_modern(session) || handshake.is_some_and(|handshake| handshake.capabilities.tasks_cancel)
}
