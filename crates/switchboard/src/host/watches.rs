//! The methods of [`Host`] for watches.

use std::sync::Arc;

use super::Host;
use crate::id::Principal;
use crate::watch::{Watch, WatchError, WatchEvent, WatchRequest, start_watch};

impl Host {
    /// Starts a watch.
    ///
    /// For a resource, returns after the first read; later changes are relative to that content.
    /// For a tool, returns before the first call.
    pub async fn watch(&self, request: WatchRequest) -> Result<Watch, WatchError> {
        start_watch(
            Arc::clone(self.state()),
            Arc::clone(&self.inner.watches),
            request,
        )
        .await
    }

    /// All watches, in the order in which they were started.
    pub fn watches(&self) -> Vec<Watch> {
        self.inner.watches.all()
    }

    /// The watches on one resource (by its URI) or one tool (by its name) of a server.
    pub fn watches_on(&self, server: &str, target: &str) -> Vec<Watch> {
        let mut watches = self.watches();
        watches.retain(|watch| watch.server.as_str() == server && watch.target.name() == target);
        watches
    }

    /// Stops a watch and drops its pending events. Returns the watch, if there was one with this
    /// id.
    pub fn unwatch(&self, id: &str) -> Option<Watch> {
        self.inner.watches.remove(id)
    }

    /// Takes the pending events of all watches. Does not wait.
    pub fn drain_watch_events(&self) -> Vec<WatchEvent> {
        let watches = &self.inner.watches;
        std::iter::from_fn(|| watches.pop(&|_| true)).collect()
    }

    /// Takes the pending events of the watches of one principal. Does not wait.
    pub fn drain_watch_events_for(&self, principal: &Principal) -> Vec<WatchEvent> {
        let watches = &self.inner.watches;
        std::iter::from_fn(|| watches.pop(&|owner| owner == principal)).collect()
    }

    /// Waits for the next event of any watch. Returns `None` when the host shuts down.
    ///
    /// Cancel safe: dropping the future loses no event.
    pub async fn next_watch_event(&self) -> Option<WatchEvent> {
        let stop = &self.state().stop;
        stop.run_until_cancelled(self.inner.watches.next()).await
    }
}
