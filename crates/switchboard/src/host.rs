//! The whole of it: servers, catalog, permissions, calls.
//!
//! A [`Host`] is cheap to clone. [`Host::shutdown`] ends everything in good order; dropping the
//! last clone ends it at once. Invariant: no child process outlives its host.

mod builder;
mod instances;
mod offerings;
mod reading;
pub(crate) mod reconcile;
mod reload;
mod server_events;
mod site;
mod suspend;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use serde::Serialize;
use switchboard_config::{InvalidServerName, LaunchSpec, ServerConfig};
use switchboard_process::ProcessSupervisor;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use builder::{HostBuilder, StartError};
pub(crate) use offerings::check_uri;
pub use offerings::{CompletionTarget, Listing, QueryError, ServerItem};
pub use reading::MentionedResource;
pub use reload::ReloadResult;

use crate::budget::Budget;
use crate::call::{Arguments, Call, CallError, batch};
use crate::catalog::{Catalog, CatalogTool, Publisher, Stand, naming};
use crate::content::Output;
use crate::content::result_store::{ResultHandle, ResultStore};
use crate::event::{EventSink, Events};
use crate::id::{CallId, ServerName};
use crate::interact::Interaction;
use crate::limits::{Deadlines, Limits};
use crate::permission::{Policy, Rule};
use crate::server::ServerHandle;
use crate::server::state::Phase;
use crate::status::{ConnectionStatus, ServerDetails, ServerStatus};
use crate::sync::{Apart, lock};
use crate::watch::Watches;
use reconcile::Filed;
use site::Sites;

/// What shutting down may take on top of the time that children are given.
const SHUTDOWN_SLACK: Duration = Duration::from_secs(5);

/// Servers, and the calls made to their tools. See the [crate] for an example.
#[derive(Clone, Debug)]
pub struct Host {
    shared: Arc<Shared>,
    /// None in the hands of a task of the host itself, which is not to keep it alive.
    _keeper: Option<Arc<Keeper>>,
}

/// Ends the host when the last of those who use it has gone.
#[derive(Debug)]
struct Keeper {
    stop: CancellationToken,
    children: ProcessSupervisor,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop.cancel();
        self.children.kill_all();
    }
}

/// What all clones of a host share.
pub(crate) struct Shared {
    /// The servers by name, changed as a whole: every call looks into it.
    handles: ArcSwap<Handles>,
    servers: Mutex<Servers>,
    catalog: Arc<Publisher>,
    /// Replaced as a whole while calls are being decided on.
    policy: ArcSwap<Policy>,
    interaction: Arc<dyn Interaction>,
    limits: Arc<Limits>,
    budget: Budget,
    deadlines: Deadlines,
    events: EventSink,
    result_store: Option<Arc<dyn ResultStore>>,
    /// Calls under way in the whole host.
    permits: Apart<Semaphore>,
    next_call: AtomicU64,
    sites: Sites,
    /// Held while a set of servers is being changed.
    changing: tokio::sync::Mutex<()>,
    tasks: TaskTracker,
    stop: CancellationToken,
    children: ProcessSupervisor,
    watches: Watches,
}

type Handles = BTreeMap<ServerName, Arc<ServerHandle>>;

/// What was asked for. Locked while the set of servers is being changed.
#[derive(Default)]
struct Servers {
    /// The entries of scope *dynamic*.
    dynamic: BTreeMap<ServerName, LaunchSpec>,
    /// The entries that came from files.
    filed: BTreeMap<ServerName, Filed>,
    next_place: u64,
}

impl Servers {
    fn next_place(&mut self) -> u64 {
        self.next_place += 1;
        self.next_place
    }
}

/// What [`Host::set_servers`] changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SetServersResult {
    /// Servers that are new or changed.
    pub added: Vec<String>,
    /// Servers that are gone or changed.
    pub removed: Vec<String>,
    /// What went wrong, by server.
    pub errors: BTreeMap<String, String>,
}

/// Why a server could not be changed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// There is no such server.
    #[error("there is no server {0:?}")]
    Unknown(String),
    /// There is one already.
    #[error("there is a server {0} already")]
    NameTaken(ServerName),
    /// That is no name for a server.
    #[error(transparent)]
    InvalidName(#[from] InvalidServerName),
    /// It was added, but did not come up.
    #[error("server {} is {}{}", .0.name, .0.status, reason(.0))]
    NotConnected(Box<ServerStatus>),
    /// The host is shutting down.
    #[error("the host is shutting down")]
    ShuttingDown,
}

fn reason(status: &ServerStatus) -> String {
    let reason = status.error.as_ref().or(status.detail.as_ref());
    reason
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default()
}

/// What [`Host::wait_for`] waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Readiness {
    /// One server is connected, or none can be any more.
    First,
    /// No server is starting any more.
    All,
    /// None of these is starting any more.
    Servers(Vec<ServerName>),
}

impl Host {
    /// Begins to describe a host.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    pub(crate) fn new(shared: Shared) -> Self {
        let keeper = Keeper {
            stop: shared.stop.clone(),
            children: shared.children.clone(),
        };
        Self {
            shared: Arc::new(shared),
            _keeper: Some(Arc::new(keeper)),
        }
    }

    /// The host for one of its own tasks.
    pub(crate) fn inner(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            _keeper: None,
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The tools of all servers, in their stable order.
    pub fn tools(&self) -> Vec<Arc<CatalogTool>> {
        for server in self.shared.handles.load().values() {
            server.note_use();
        }
        self.catalog().tools().to_vec()
    }

    /// The catalog as it is now.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.shared.catalog.current())
    }

    /// Describes a call of the tool that a model knows by `name`. Await it to make it.
    pub fn call<'h>(
        &'h self,
        name: impl Into<Cow<'h, str>>,
        arguments: impl Into<Arguments<'h>>,
    ) -> Call<'h> {
        Call::new(self, name.into(), arguments.into())
    }

    /// Makes the calls of one turn in their order. Neighbours that declare themselves read-only run
    /// at the same time. Outcomes come in the order of the calls.
    pub async fn call_batch(&self, calls: Vec<Call<'_>>) -> Vec<Result<Output, CallError>> {
        batch::run(calls).await
    }

    /// What happens from now on.
    pub fn events(&self) -> Events {
        self.shared.events.subscribe()
    }

    /// Tells servers that the folders they may work in have changed; they ask for them anew. Modern
    /// ones ask whenever they need to know.
    pub fn notify_roots_changed(&self) {
        for server in self.shared.handles.load().values() {
            if let Some(session) = server.session() {
                session.notify_roots_changed();
            }
        }
    }

    /// The status of every server, in the order in which they were configured.
    pub fn status(&self) -> Vec<ServerStatus> {
        let catalog = self.catalog();
        self.shared
            .in_order()
            .iter()
            .map(|server| server.status(&catalog))
            .collect()
    }

    /// The status of one server.
    pub fn server_status(&self, name: &str) -> Result<ServerStatus, ServerError> {
        Ok(self.known(name)?.status(&self.catalog()))
    }

    /// Everything known about one server, for diagnosis.
    pub fn server_details(&self, name: &str) -> Result<ServerDetails, ServerError> {
        Ok(self.known(name)?.details(&self.catalog()))
    }

    /// Waits until servers have come up or have turned out not to.
    pub async fn wait_for(&self, readiness: Readiness) {
        let mut servers = self.shared.in_order();
        if let Readiness::Servers(names) = &readiness {
            servers.retain(|server| names.contains(&server.profile().name));
        }
        let starting = servers.iter().map(|server| server.no_longer_starting());
        if readiness == Readiness::First {
            let mut starting: futures_util::stream::FuturesUnordered<_> = starting.collect();
            while let Some(state) = futures_util::StreamExt::next(&mut starting).await {
                if state.status() == ConnectionStatus::Connected {
                    return;
                }
            }
        } else {
            futures_util::future::join_all(starting).await;
        }
    }

    /// Adds a server and waits until it is connected. It stays even if that fails, so that it can
    /// be looked into and reconnected.
    pub async fn connect(
        &self,
        name: &str,
        config: ServerConfig,
    ) -> Result<ServerStatus, ServerError> {
        let name = ServerName::new(name)?;
        let server = self
            .shared
            .add_dynamic(&LaunchSpec::trusted(name, config))?;
        server.settled().await;
        self.connected(&server)
    }

    /// Ends a server and forgets it. Its tools are gone when this comes back, and so is its process.
    pub async fn disconnect(&self, name: &str) -> Result<(), ServerError> {
        let server = self.known(name)?;
        self.shared.forget(&server.profile().name);
        server.stop();
        server.stopped().await;
        Ok(())
    }

    /// Starts a dormant server without calling it. Any other is left as it is.
    pub async fn start_server(&self, name: &str) -> Result<ServerStatus, ServerError> {
        let server = self.known(name)?;
        server.settled().await;
        self.connected(&server)
    }

    /// Ends a server's session, if there is one, and makes a new one.
    pub async fn reconnect(&self, name: &str) -> Result<ServerStatus, ServerError> {
        let server = self.known(name)?;
        server.restart().await;
        server.no_longer_starting().await;
        self.connected(&server)
    }

    /// Enables a disabled server.
    pub async fn enable_server(&self, name: &str) -> Result<(), ServerError> {
        self.known(name)?.set_enabled(true).await;
        Ok(())
    }

    /// Disables a server: its connection stays open, its tools leave the catalog.
    pub async fn disable_server(&self, name: &str) -> Result<(), ServerError> {
        self.known(name)?.set_enabled(false).await;
        Ok(())
    }

    /// Makes the servers of scope *dynamic* be exactly these. Unchanged ones keep their process; a
    /// changed one counts as removed and added. Entries that came from files are not touched.
    pub async fn set_servers(&self, wanted: BTreeMap<String, ServerConfig>) -> SetServersResult {
        let _changing = self.shared.changing.lock().await;
        let mut result = SetServersResult::default();
        let mut specs = BTreeMap::new();
        for (name, config) in wanted {
            match ServerName::new(&name) {
                Ok(name) => drop(specs.insert(name.clone(), LaunchSpec::trusted(name, config))),
                Err(error) => drop(result.errors.insert(name, error.to_string())),
            }
        }
        let plan = reconcile::between(&lock(&self.shared.servers).dynamic, specs);
        for name in &plan.remove {
            if self.disconnect(name.as_str()).await.is_ok() {
                result.removed.push(name.to_string());
            }
        }
        let mut added = Vec::new();
        for spec in plan.add {
            let name = spec.name().to_string();
            match self.shared.add_dynamic(&spec) {
                Ok(server) => added.push((name, server)),
                Err(error) => drop(result.errors.insert(name, error.to_string())),
            }
        }
        for (name, server) in added {
            let state = server.no_longer_starting().await;
            // One that is started by the first call has not failed.
            if state.phase != Phase::Dormant
                && let Err(error) = self.connected(&server)
            {
                result.errors.insert(name.clone(), error.to_string());
            }
            result.added.push(name);
        }
        result
    }

    /// Replaces all permission rules, those that the host was built with included. A call that was
    /// permitted before stays permitted.
    pub fn set_rules(&self, rules: impl IntoIterator<Item = Rule>) {
        self.shared.policy.store(Arc::new(Policy::new(rules)));
    }

    /// The whole of a result that was cut, by the handle in [`Output::stored`].
    pub fn stored_result(&self, handle: &ResultHandle) -> std::io::Result<String> {
        match &self.shared.result_store {
            Some(result_store) => result_store.read(handle),
            None => Err(std::io::Error::other("no place to keep results was given")),
        }
    }

    /// Ends everything in good order: no new calls, sessions closed, children seen off. Nothing is
    /// left when this comes back.
    pub async fn shutdown(&self) {
        let shared = &self.shared;
        shared.tasks.close();
        shared.stop.cancel();
        let children = shared.deadlines.exit_after_eof + shared.deadlines.exit_after_term;
        // Whatever a task does, the end of the children does not depend on it.
        let _ = timeout(children + SHUTDOWN_SLACK, shared.tasks.wait()).await;
        shared.children.shut_down().await;
    }

    pub(crate) fn known(&self, name: &str) -> Result<Arc<ServerHandle>, ServerError> {
        let server = ServerName::new(name)
            .ok()
            .and_then(|name| self.shared.server(&name));
        server.ok_or_else(|| ServerError::Unknown(name.to_owned()))
    }

    fn connected(&self, server: &ServerHandle) -> Result<ServerStatus, ServerError> {
        let status = server.status(&self.catalog());
        match status.status {
            ConnectionStatus::Connected | ConnectionStatus::Disabled => Ok(status),
            _ => Err(ServerError::NotConnected(Box::new(status))),
        }
    }
}

impl Shared {
    pub(crate) fn catalog(&self) -> Guard<Arc<Catalog>> {
        self.catalog.current()
    }

    pub(crate) fn policy(&self) -> Guard<Arc<Policy>> {
        self.policy.load()
    }

    pub(crate) fn interaction(&self) -> &dyn Interaction {
        self.interaction.as_ref()
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn deadlines(&self) -> &Deadlines {
        &self.deadlines
    }

    pub(crate) fn events(&self) -> &EventSink {
        &self.events
    }

    pub(crate) fn result_store(&self) -> Option<&dyn ResultStore> {
        self.result_store.as_deref()
    }

    pub(crate) fn permits(&self) -> &Semaphore {
        &self.permits
    }

    pub(crate) fn next_call(&self) -> CallId {
        CallId(self.next_call.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn watches(&self) -> &Watches {
        &self.watches
    }

    /// Cancelled when the host is over.
    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Starts a task that ends with the host.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Comes back when the set of servers is not being changed.
    pub(crate) async fn no_longer_changing(&self) {
        drop(self.changing.lock().await);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.tasks.is_closed()
    }

    pub(crate) fn server(&self, name: &ServerName) -> Option<Arc<ServerHandle>> {
        self.handles.load().get(name).cloned()
    }

    /// The server that a wire name can only belong to.
    pub(crate) fn server_named_in(&self, wire_name: &str) -> Option<Arc<ServerHandle>> {
        let (part, _) = naming::split_wire_name(wire_name)?;
        let handles = self.handles.load();
        handles
            .values()
            .find(|server| naming::server_part(&server.profile().name) == part)
            .cloned()
    }

    fn in_order(&self) -> Vec<Arc<ServerHandle>> {
        let handles = self.handles.load();
        let order = self.catalog.order();
        let in_order = order.iter().filter_map(|name| handles.get(name));
        in_order.cloned().collect()
    }

    fn add_dynamic(&self, spec: &LaunchSpec) -> Result<Arc<ServerHandle>, ServerError> {
        let mut servers = lock(&self.servers);
        let server = self.add(&mut servers, spec.name(), |sites, place| {
            sites.launched(spec, place)
        })?;
        servers.dynamic.insert(spec.name().clone(), spec.clone());
        Ok(server)
    }

    /// Takes a server in and starts its owner.
    fn add(
        &self,
        servers: &mut Servers,
        name: &ServerName,
        describe: impl FnOnce(&Sites, u64) -> site::Plot,
    ) -> Result<Arc<ServerHandle>, ServerError> {
        if self.is_stopping() {
            return Err(ServerError::ShuttingDown);
        }
        if self.handles.load().contains_key(name) {
            return Err(ServerError::NameTaken(name.clone()));
        }
        let place = servers.next_place();
        let plot = describe(&self.sites, place);
        self.catalog.admit(&Stand {
            server: name.clone(),
            place,
        });
        let server = plot.spawn(self);
        self.change_handles(|handles| drop(handles.insert(name.clone(), Arc::clone(&server))));
        Ok(server)
    }

    fn forget(&self, name: &ServerName) {
        let mut servers = lock(&self.servers);
        servers.dynamic.remove(name);
        servers.filed.remove(name);
        self.change_handles(|handles| drop(handles.remove(name)));
    }

    /// Called with `servers` locked, so that no change overwrites another.
    fn change_handles(&self, change: impl FnOnce(&mut Handles)) {
        let mut handles = Handles::clone(&self.handles.load());
        change(&mut handles);
        self.handles.store(Arc::new(handles));
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.stop.cancel();
        self.children.kill_all();
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}
