//! The host: starts servers, publishes their tools, makes calls, answers queries, runs watches.
//!
//! The submodules implement the methods of [`Host`] in groups. [`Host::shutdown`] closes sessions
//! and waits for children to exit. Dropping the last clone of a host kills the children. Invariant:
//! no child process outlives its host.

mod builder;
#[cfg(feature = "http")]
mod claude_ai;
mod interaction_handler;
mod queries;
mod reconcile;
mod reload;
mod server_spec;
mod servers;
mod suspend;
mod watches;

use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[cfg(feature = "stdio")]
use switchboard_process::ProcessSupervisor;
use switchboard_wire::memory_budget::MemoryBudget;
use tokio::time::timeout;

pub use builder::{HostBuilder, StartError};
pub use reload::ReloadResult;
pub use servers::{Readiness, ServerError, SetServersResult};

use crate::call::{Arguments, Call, CallError, batch};
use crate::catalog::{Catalog, CatalogTool};
use crate::content::{Output, ResultHandle};
use crate::event::Events;
use crate::host_state::HostState;
use crate::permission::{Policy, Rule};
use crate::server::retry_slots::RetrySlots;
use crate::watch::WatchTable;
use server_spec::ServerDefaults;
use servers::ConfiguredServers;

/// Time that tasks get to end at shutdown, in addition to the exit timeouts of children.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// MCP servers and the calls to their tools. See the [crate] for an example.
///
/// Clones share the same servers. The host stops when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Host {
    inner: Arc<HostInner>,
}

/// Everything that the clones of a host share.
///
/// Tasks of the host hold [`HostState`] and never this struct, so that they do not keep the host
/// alive.
struct HostInner {
    state: Arc<HostState>,
    watches: Arc<WatchTable>,
    /// The config entries of the servers. Locked while the set of servers is replaced.
    configured: Mutex<ConfiguredServers>,
    /// The options of the builder that apply to all servers.
    defaults: ServerDefaults,
    /// Limits the memory of messages in flight, across all servers.
    budget: MemoryBudget,
    #[cfg(feature = "stdio")]
    children: ProcessSupervisor,
    /// Changes when the machine resumes from suspend.
    resumed: tokio::sync::watch::Receiver<u64>,
    /// Spreads the reconnects of many servers over time.
    retry_slots: Arc<RetrySlots>,
}

impl Drop for HostInner {
    fn drop(&mut self) {
        self.state.stop.cancel();
        #[cfg(feature = "stdio")]
        self.children.kill_all();
    }
}

impl std::fmt::Debug for HostInner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostInner").finish_non_exhaustive()
    }
}

impl Host {
    /// A builder for a new host.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    pub(crate) fn state(&self) -> &Arc<HostState> {
        &self.inner.state
    }

    /// The tools of all servers, in a stable order. Also requests new listings from servers whose
    /// listing has expired; they appear in a later snapshot.
    #[doc(alias = "list_all_tools")]
    pub fn tools(&self) -> Vec<Arc<CatalogTool>> {
        for server in self.state().servers().values() {
            server.refresh_if_expired();
        }
        self.catalog().tools().to_vec()
    }

    /// The current catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.state().catalog())
    }

    /// A call of the tool with this wire name (`mcp__server__tool`). Await the call to make it.
    #[doc(alias = "call_tool")]
    pub fn call<'h>(
        &'h self,
        wire_name: impl Into<Cow<'h, str>>,
        arguments: impl Into<Arguments<'h>>,
    ) -> Call<'h> {
        Call::new(self.state(), wire_name.into(), arguments.into())
    }

    /// Makes the calls of one agent turn in order. Adjacent calls of tools that declare themselves
    /// read-only run concurrently. The results are in the order of the calls.
    pub async fn call_batch(&self, calls: Vec<Call<'_>>) -> Vec<Result<Output, CallError>> {
        batch::call_batch(calls).await
    }

    /// Subscribes to the events of the host. Earlier events are not delivered.
    pub fn events(&self) -> Events {
        self.state().events.subscribe()
    }

    /// Notifies servers that the roots changed. Servers that use roots then request them again.
    /// Servers of a protocol version without this notification request roots whenever they need
    /// them.
    #[doc(alias = "notify_roots_list_changed")]
    pub fn notify_roots_changed(&self) {
        for server in self.state().servers().values() {
            if let Some(session) = server.session() {
                session.notify_roots_changed();
            }
        }
    }

    /// Replaces all permission rules, including those of the builder. Calls that were already
    /// permitted are not affected.
    pub fn set_rules(&self, rules: impl IntoIterator<Item = Rule>) {
        self.state().set_policy(Policy::new(rules));
    }

    /// The full text of a result that was cut, by the handle in [`Output::stored`].
    pub fn stored_result(&self, handle: &ResultHandle) -> std::io::Result<String> {
        match &self.state().result_store {
            Some(store) => store.read(handle),
            None => Err(std::io::Error::other("the host has no result store")),
        }
    }

    /// Stops the host: rejects new calls, closes sessions, waits for children to exit, kills those
    /// that do not, and ends the event streams.
    pub async fn shutdown(&self) {
        let state = self.state();
        state.tasks.close();
        state.stop.cancel();
        let children = state.deadlines.exit_after_eof + state.deadlines.exit_after_term;
        // Children are killed below even if a task does not stop in time.
        let _ = timeout(children + SHUTDOWN_GRACE, state.tasks.wait()).await;
        #[cfg(feature = "stdio")]
        self.inner.children.shut_down().await;
        state.events.close();
    }
}
