//! The methods of [`Host`] that start and stop watches and return their events.

use std::sync::Arc;

use super::Host;
use crate::id::Principal;
use crate::watch::{Watch, WatchError, WatchEvent, WatchRequest, start_watch};

impl Host {
    /// Starts a watch of a resource or of a tool result.
    ///
    /// For a resource, returns after the first read. The first event then reports a change since
    /// that read. For a tool, returns before the first call.
    pub async fn watch(&self, request: WatchRequest) -> Result<Watch, WatchError> {
        start_watch(
            Arc::clone(self.state()),
            Arc::clone(&self.inner.watches),
            request,
        )
        .await
    }

    /// All watches that have not ended, in the order in which they were started.
    pub fn watches(&self) -> Vec<Watch> {
        self.inner.watches.all()
    }

    /// The watches on one resource or tool of a server. `target` is the URI of the resource or the
    /// name of the tool.
    pub fn watches_on(&self, server: &str, target: &str) -> Vec<Watch> {
        let mut watches = self.watches();
        watches.retain(|watch| watch.server.as_str() == server && watch.target.name() == target);
        watches
    }

    /// Stops a watch and drops its pending events. Returns the stopped watch, or `None` if there is
    /// no watch with this id.
    pub fn unwatch(&self, id: &str) -> Option<Watch> {
        self.inner.watches.remove(id)
    }

    /// Removes the pending events of all watches and returns them. Does not wait for events.
    pub fn drain_watch_events(&self) -> Vec<WatchEvent> {
        let watches = &self.inner.watches;
        std::iter::from_fn(|| watches.pop(&|_| true)).collect()
    }

    /// Removes the pending events of the watches of one principal and returns them. Does not wait
    /// for events.
    pub fn drain_watch_events_for(&self, principal: &Principal) -> Vec<WatchEvent> {
        let watches = &self.inner.watches;
        std::iter::from_fn(|| watches.pop(&|owner| owner == principal)).collect()
    }

    /// Waits for the next event of any watch and removes it. Returns `None` when the host shuts
    /// down.
    ///
    /// Cancel safe: dropping the future loses no event.
    pub async fn next_watch_event(&self) -> Option<WatchEvent> {
        let stop = &self.state().stop;
        stop.run_until_cancelled(self.inner.watches.next()).await
    }
}
