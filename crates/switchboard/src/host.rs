//! The host: starts servers, publishes their tools, makes calls, sends queries, runs watches.
//!
//! This file defines [`Host`] and its main methods. The submodules implement the other methods, and
//! what these methods need. [`Host::shutdown`] closes sessions and waits for child processes to
//! exit. Dropping the last clone of a host kills the child processes. Invariant: no child process
//! outlives its host.

mod builder;
#[cfg(feature = "http")]
mod claude_ai_proxy;
mod client_handler;
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
use crate::server::start_slots::StartSlots;
use crate::watch::WatchTable;
use server_spec::ServerDefaults;
use servers::ConfiguredServers;

/// How long [`Host::shutdown`] waits for the tasks of the host, in addition to
/// `Deadlines::exit_after_eof` and `Deadlines::exit_after_term`.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// A set of MCP servers whose tools the program can call. See the [crate] for an example.
///
/// All clones are handles to the same servers. The servers stop when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Host {
    inner: Arc<HostInner>,
}

/// Everything that the clones of a host share.
///
/// Tasks of the host hold [`HostState`] and never this struct. The `drop` of this struct stops the
/// tasks, and it would never run if a task held this struct.
struct HostInner {
    state: Arc<HostState>,
    watches: Arc<WatchTable>,
    /// The config entries of the servers. Locked while servers are added or removed.
    configured: Mutex<ConfiguredServers>,
    /// The options of [`HostBuilder`] that apply to all servers.
    defaults: ServerDefaults,
    /// Enforces `Limits::memory_bytes` for the messages of all servers together.
    budget: MemoryBudget,
    #[cfg(feature = "stdio")]
    children: ProcessSupervisor,
    /// The number of times that the machine has resumed from suspend since the host started.
    resumed: tokio::sync::watch::Receiver<u64>,
    /// Spreads the reconnects of many servers over time.
    retry_slots: Arc<RetrySlots>,
    /// Limits how many servers start at the same time.
    start_slots: Arc<StartSlots>,
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
    /// Creates a builder without servers and with default options.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    pub(crate) fn state(&self) -> &Arc<HostState> {
        &self.inner.state
    }

    /// The tools of all servers, ordered by server and then as each server listed them. If the tool
    /// list of a server has expired, the host also requests a new one. It appears in the catalog
    /// later: this method does not wait for it.
    #[doc(alias = "list_all_tools")]
    pub fn tools(&self) -> Vec<Arc<CatalogTool>> {
        for server in self.state().servers().values() {
            server.refresh_if_expired();
        }
        self.catalog().tools().to_vec()
    }

    /// The current snapshot of the catalog. Later changes do not affect the returned snapshot.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.state().catalog())
    }

    /// Prepares a call of the tool with this wire name (`mcp__server__tool`). The call is made when
    /// the returned [`Call`] is awaited.
    #[doc(alias = "call_tool")]
    pub fn call<'h>(
        &'h self,
        wire_name: impl Into<Cow<'h, str>>,
        arguments: impl Into<Arguments<'h>>,
    ) -> Call<'h> {
        Call::new(self.state(), wire_name.into(), arguments.into())
    }

    /// Makes the calls of one agent turn in order. Adjacent calls of tools with the annotation
    /// `readOnlyHint` run concurrently. The results are in the order of the calls.
    pub async fn call_batch(&self, calls: Vec<Call<'_>>) -> Vec<Result<Output, CallError>> {
        batch::call_batch(calls).await
    }

    /// Subscribes to the events of the host. The stream has no events from before the subscription.
    pub fn events(&self) -> Events {
        self.state().events.subscribe()
    }

    /// Notifies connected servers of the legacy era that the roots changed, so that they can
    /// request the roots again. Servers of the modern era get no notification: they request roots
    /// whenever they need them.
    #[doc(alias = "notify_roots_list_changed")]
    pub fn notify_roots_changed(&self) {
        for server in self.state().servers().values() {
            if let Some(session) = server.session() {
                session.notify_roots_changed();
            }
        }
    }

    /// Replaces all permission rules, including those of the [`HostBuilder`]. Calls that were
    /// already permitted are not affected.
    pub fn set_rules(&self, rules: impl IntoIterator<Item = Rule>) {
        self.state().set_policy(Policy::new(rules));
    }

    /// Reads the full text of a truncated result. `handle` is the value of [`Output::stored`].
    pub fn stored_result(&self, handle: &ResultHandle) -> std::io::Result<String> {
        match &self.state().result_store {
            Some(store) => store.read(handle),
            None => Err(std::io::Error::other("the host has no result store")),
        }
    }

    /// Stops the host: rejects new calls, closes sessions, waits for child processes to exit, kills
    /// the child processes that do not exit in time, and ends the event streams.
    pub async fn shutdown(&self) {
        let state = self.state();
        state.tasks.close();
        state.stop.cancel();
        let children = state.deadlines.exit_after_eof + state.deadlines.exit_after_term;
        // Ignores the timeout: `children.shut_down` kills the child processes of a task that did
        // not end in time.
        let _ = timeout(children + SHUTDOWN_GRACE, state.tasks.wait()).await;
        #[cfg(feature = "stdio")]
        self.inner.children.shut_down().await;
        state.events.close();
    }
}
