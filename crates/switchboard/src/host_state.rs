//! The state of a running host that calls, queries and watches share.
//!
//! It holds the servers, the catalog, the policy and the limits. It neither makes calls nor starts
//! servers; only [`Host`](crate::Host) changes the set of servers. Invariant: readers see the set
//! of servers either before or after a change, never a mix.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use switchboard_wire::naming;
use switchboard_wire::sync::CachePadded;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::catalog::{Catalog, CatalogPublisher};
use crate::content::ResultStore;
use crate::event::EventSink;
use crate::id::{CallId, ServerName};
use crate::interaction::Interaction;
use crate::limits::{Deadlines, Limits};
use crate::permission::Policy;
use crate::server::ServerHandle;

/// The servers of a host by name.
pub(crate) type ServerHandles = BTreeMap<ServerName, Arc<ServerHandle>>;

/// The state of a host that its tasks and calls share.
pub(crate) struct HostState {
    /// Replaced as a whole, so that calls read it without a lock.
    servers: ArcSwap<ServerHandles>,
    pub(crate) catalog: Arc<CatalogPublisher>,
    /// Replaced as a whole by [`Host::set_rules`](crate::Host::set_rules).
    policy: ArcSwap<Policy>,
    pub(crate) interaction: Arc<dyn Interaction>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) deadlines: Deadlines,
    pub(crate) events: EventSink,
    /// Where results that exceed the limits are stored in full.
    pub(crate) result_store: Option<Arc<dyn ResultStore>>,
    /// Limits the calls in flight of the whole host.
    pub(crate) call_slots: CachePadded<Semaphore>,
    next_call: AtomicU64,
    /// Held during a config change, until the old servers have stopped.
    pub(crate) config_lock: tokio::sync::Mutex<()>,
    /// All tasks of the host. Closed when the host shuts down.
    pub(crate) tasks: TaskTracker,
    /// Cancelled when the host shuts down.
    pub(crate) stop: CancellationToken,
}

impl HostState {
    pub(crate) fn new(
        policy: Policy,
        interaction: Arc<dyn Interaction>,
        limits: Limits,
        deadlines: Deadlines,
        result_store: Option<Arc<dyn ResultStore>>,
    ) -> Self {
        let events = EventSink::new(limits.event_backlog);
        Self {
            servers: ArcSwap::default(),
            catalog: Arc::new(CatalogPublisher::new(events.clone())),
            policy: ArcSwap::from_pointee(policy),
            interaction,
            call_slots: CachePadded(Semaphore::new(limits.calls_in_flight)),
            limits: Arc::new(limits),
            deadlines,
            events,
            result_store,
            next_call: AtomicU64::new(1),
            config_lock: tokio::sync::Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    pub(crate) fn catalog(&self) -> Guard<Arc<Catalog>> {
        self.catalog.current()
    }

    pub(crate) fn policy(&self) -> Guard<Arc<Policy>> {
        self.policy.load()
    }

    pub(crate) fn set_policy(&self, policy: Policy) {
        self.policy.store(Arc::new(policy));
    }

    pub(crate) fn next_call_id(&self) -> CallId {
        CallId(self.next_call.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether the host is shutting down.
    pub(crate) fn is_stopping(&self) -> bool {
        self.tasks.is_closed()
    }

    pub(crate) fn servers(&self) -> Guard<Arc<ServerHandles>> {
        self.servers.load()
    }

    /// Replaces the set of servers. The caller holds the lock that serializes changes.
    pub(crate) fn set_servers(&self, servers: ServerHandles) {
        self.servers.store(Arc::new(servers));
    }

    pub(crate) fn server(&self, name: &ServerName) -> Option<Arc<ServerHandle>> {
        self.servers.load().get(name).cloned()
    }

    /// The server whose name is the server part of `wire_name`.
    pub(crate) fn server_for_wire_name(&self, wire_name: &str) -> Option<Arc<ServerHandle>> {
        let (part, _) = naming::split_wire_name(wire_name)?;
        let servers = self.servers.load();
        servers
            .values()
            .find(|server| naming::server_part(&server.settings().name) == part)
            .cloned()
    }

    /// The servers in the order in which they were configured.
    pub(crate) fn servers_in_order(&self) -> Vec<Arc<ServerHandle>> {
        let servers = self.servers.load();
        let order = self.catalog.order();
        let in_order = order.iter().filter_map(|name| servers.get(name));
        in_order.cloned().collect()
    }

    /// The server of this name. Waits for a running config change if there is none, because the
    /// change may be replacing the server.
    pub(crate) async fn server_after_config_change(
        &self,
        name: &ServerName,
    ) -> Option<Arc<ServerHandle>> {
        if let Some(server) = self.server(name) {
            return Some(server);
        }
        drop(self.config_lock.lock().await);
        self.server(name)
    }
}

impl std::fmt::Debug for HostState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostState").finish_non_exhaustive()
    }
}
