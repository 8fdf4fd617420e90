//! The time limits of all requests of a connection, kept by one timer.
//!
//! Nearly every request is answered long before its time is up, so a timer of its own would be set
//! in vain. The one that there is goes off at the first end that it knows of, and looks again.
//! Invariant: it never goes off later than the time of any request in the table is up.

use std::sync::Arc;

use tokio::time::Instant;

use super::connection::Connection;
use super::life::Expired;
use super::table::Reply;
use crate::sync::lock;

impl Connection {
    /// Ends requests whose time is up, as long as the session lasts.
    pub(super) async fn keep_time(self: Arc<Self>) {
        loop {
            let next = self.end_overdue();
            let alarm = async {
                match next {
                    Some(next) => tokio::time::sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.peer.stop.cancelled() => return,
                () = self.sooner.notified() => {}
                () = alarm => {}
            }
        }
    }

    /// Ends those whose time is up, and says when to look again.
    fn end_overdue(&self) -> Option<Instant> {
        let (overdue, next) = lock(&self.requests).look(&self.peer.life, Instant::now());
        for (id, Expired { after, idle }) in overdue {
            let (pending, delivery) = self.give_up(id, "timed out");
            if let Some(pending) = pending {
                let misaddressed = lock(&self.requests).was_misaddressed_since(&pending);
                let _ = pending.reply.send(Reply::TimedOut {
                    after,
                    idle,
                    delivery,
                    misaddressed,
                });
            }
        }
        next
    }
}
