//! The sessions that one server has for further principals.
//!
//! If the credentials of a remote server depend on the principal, every principal has its own
//! [`ServerHandle`]: its own session, listings and catalog. The handle of the host serves the
//! default principal and owns the handles of all others. Invariants: two principals never share a
//! session, and at most [`MAX_PRINCIPALS`] further principals have one. A handle that was
//! not used for [`IDLE_TIMEOUT`] is stopped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use switchboard_wire::sync::lock;
use tokio::time::{Instant, sleep_until};

use super::backoff::Backoff;
use super::connect::ConnectSetup;
use super::state::{Phase, State};
use super::{InitialState, ServerHandle, ServerSettings};
use crate::catalog::CatalogPublisher;
use crate::event::EventSink;
use crate::id::Principal;
use crate::status::Unavailable;

/// The number of further principals that can use one server at the same time.
pub(crate) const MAX_PRINCIPALS: usize = 256;
/// A session that is not used for this long is closed.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// The handles of further principals of one server.
pub(super) struct PrincipalHandles {
    pub(super) settings: ServerSettings,
    pub(super) setup: Arc<ConnectSetup>,
    /// The backoff of a server that never failed.
    pub(super) backoff: Backoff,
    pub(super) default_max_calls: usize,
    pub(super) by_principal: Arc<Mutex<HandleTable>>,
}

pub(super) type HandleTable = HashMap<Principal, UsedHandle>;

#[derive(Debug)]
pub(super) struct UsedHandle {
    server: Arc<ServerHandle>,
    last_used: Instant,
}

impl UsedHandle {
    /// Whether a call, a query or a watch has a reference in addition to the table.
    fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.server) > 1
    }
}

impl std::fmt::Debug for PrincipalHandles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PrincipalHandles").finish_non_exhaustive()
    }
}

impl PrincipalHandles {
    /// Returns the handle of a principal. Spawns a dormant one if there is none. Fails if too many
    /// principals use the server.
    pub(super) fn handle(&self, principal: &Principal) -> Result<Arc<ServerHandle>, Unavailable> {
        let mut table = lock(&self.by_principal);
        let now = Instant::now();
        if let Some(used) = table.get_mut(principal) {
            used.last_used = now;
            return Ok(Arc::clone(&used.server));
        }
        if table.len() >= MAX_PRINCIPALS && !evict_least_recently_used(&mut table) {
            return Err(self.too_many());
        }
        let server = self.spawn(principal);
        let used = UsedHandle {
            server: Arc::clone(&server),
            last_used: now,
        };
        table.insert(principal.clone(), used);
        let evict = evict_when_idle(Arc::downgrade(&self.by_principal), principal.clone(), now);
        let stop = self.setup.stop.clone();
        let tasks = &self.setup.client.tasks;
        tasks.spawn(async move { stop.run_until_cancelled(evict).await });
        Ok(server)
    }

    /// Whether `server` is the handle of a principal.
    pub(super) fn contains(&self, server: &ServerHandle) -> bool {
        let table = lock(&self.by_principal);
        let mut handles = table.values();
        handles.any(|used| std::ptr::eq(Arc::as_ptr(&used.server), server))
    }

    fn spawn(&self, principal: &Principal) -> Arc<ServerHandle> {
        // This sink has no subscribers: events report the default principal.
        let events = EventSink::new(1);
        let catalog = Arc::new(CatalogPublisher::new(events.clone()));
        catalog.add_server(&self.settings.key());
        let initial = InitialState {
            phase: Phase::Dormant,
            tools_unknown: true,
            replaces: None,
        };
        Arc::new(ServerHandle::spawn(
            self.settings.clone(),
            self.setup.for_principal(principal),
            initial,
            self.backoff.clone(),
            catalog,
            events,
            self.default_max_calls,
        ))
    }

    fn too_many(&self) -> Unavailable {
        Unavailable {
            server: self.settings.name.clone(),
            status: State::new(Phase::Dormant).status(),
            reason: Some(format!("{MAX_PRINCIPALS} principals are using it")),
            hint: Some("repeat the call later".to_owned()),
            retry_in: None,
        }
    }
}

/// Stops and removes the handle that was unused for the longest time. Returns `false` if all handles
/// are in use.
fn evict_least_recently_used(table: &mut HandleTable) -> bool {
    let unused = table.iter().filter(|(_, used)| !used.is_in_use());
    let oldest = unused.min_by_key(|(_, used)| used.last_used);
    let Some(principal) = oldest.map(|(principal, _)| principal.clone()) else {
        return false;
    };
    if let Some(used) = table.remove(&principal) {
        used.server.stop();
    }
    true
}

/// Waits until the handle of a principal was not used for [`IDLE_TIMEOUT`], then stops and removes
/// it.
async fn evict_when_idle(
    table: Weak<Mutex<HandleTable>>,
    principal: Principal,
    mut last_used: Instant,
) {
    loop {
        sleep_until(last_used + IDLE_TIMEOUT).await;
        let Some(table) = table.upgrade() else {
            return;
        };
        let mut table = lock(&table);
        let now = Instant::now();
        match table.get_mut(&principal) {
            None => return,
            Some(used) if used.is_in_use() => used.last_used = now,
            Some(used) if used.last_used + IDLE_TIMEOUT > now => {}
            Some(used) => {
                used.server.stop();
                table.remove(&principal);
                return;
            }
        }
        last_used = table.get(&principal).map_or(now, |used| used.last_used);
    }
}
