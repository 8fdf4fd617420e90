//! [`HostState`]: the state of a running host that calls, queries and watches share.
//!
//! It holds the servers, the catalog, the permission rules and the limits. It neither makes calls
//! nor starts servers. Only [`Host`](crate::Host) changes the set of servers. Invariant: readers
//! see the set of servers either before or after a change, never a mix.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use rpds::HashTrieMapSync;
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
use crate::schema_check::SchemaChecks;
use crate::server::ServerHandle;

/// The servers of a host by name.
pub(crate) type ServerHandles = HashTrieMapSync<ServerName, Arc<ServerHandle>>;

/// The part of a host that its tasks and calls share.
pub(crate) struct HostState {
    /// The servers by name. The map is immutable and replaced as a whole, so that calls read it
    /// without a lock.
    servers: ArcSwap<ServerHandles>,
    pub(crate) catalog: Arc<CatalogPublisher>,
    /// The permission rules. [`Host::set_rules`](crate::Host::set_rules) replaces all of them.
    policy: ArcSwap<Policy>,
    pub(crate) interaction: Arc<dyn Interaction>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) deadlines: Deadlines,
    pub(crate) events: EventSink,
    /// Stores the full text of truncated results, and binary data of resources.
    pub(crate) result_store: Option<Arc<dyn ResultStore>>,
    /// The call slots of the whole host: `Limits::calls_in_flight` permits.
    pub(crate) call_slots: CachePadded<Semaphore>,
    /// Validates arguments and results against schemas that take long to check.
    pub(crate) schema_checks: SchemaChecks,
    next_call: AtomicU64,
    /// Locked while [`Host::apply_config`](crate::Host::apply_config) or
    /// [`Host::set_servers`](crate::Host::set_servers) runs. Both wait until the old servers have
    /// stopped; `set_servers` also waits for the new servers.
    pub(crate) config_lock: tokio::sync::Mutex<()>,
    /// Tracks all tasks of the host. [`Host::shutdown`](crate::Host::shutdown) closes it.
    pub(crate) tasks: TaskTracker,
    /// Cancelled by [`Host::shutdown`](crate::Host::shutdown), or when the last clone of the host
    /// is dropped. All tasks of the host then end.
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
            schema_checks: SchemaChecks::default(),
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

    /// Whether [`Host::shutdown`](crate::Host::shutdown) was called.
    pub(crate) fn is_stopping(&self) -> bool {
        self.tasks.is_closed()
    }

    pub(crate) fn servers(&self) -> Guard<Arc<ServerHandles>> {
        self.servers.load()
    }

    /// Replaces the set of servers. The caller holds the lock on `ConfiguredServers`, which
    /// serializes changes.
    pub(crate) fn set_servers(&self, servers: ServerHandles) {
        self.servers.store(Arc::new(servers));
    }

    pub(crate) fn server(&self, name: &ServerName) -> Option<Arc<ServerHandle>> {
        self.servers.load().get(name).cloned()
    }

    /// Finds the server by the server part of a wire name, `mcp__server__tool`.
    pub(crate) fn server_for_wire_name(&self, wire_name: &str) -> Option<Arc<ServerHandle>> {
        let (part, _) = naming::split_wire_name(wire_name)?;
        self.server(&self.catalog.server_of_part(part)?)
    }

    /// Returns the servers in the configured order, which is also their order in the catalog.
    pub(crate) fn servers_in_order(&self) -> Vec<Arc<ServerHandle>> {
        let servers = self.servers.load();
        let order = self.catalog.order();
        let in_order = order.iter().filter_map(|name| servers.get(name));
        in_order.cloned().collect()
    }

    /// Finds the server of this name. If there is none, waits until a running config change has
    /// ended and looks again, because that change may be replacing the server.
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
