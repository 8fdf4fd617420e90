//! The methods of [`Host`] that add, remove and inspect servers.
//!
//! Invariant: servers are added and removed only under the lock on [`ConfiguredServers`], so that
//! concurrent changes do not overwrite each other.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use serde::Serialize;
use switchboard_client::stderr::StderrOutput;
use switchboard_config::{InvalidServerName, LaunchSpec, ServerConfig};
use switchboard_wire::ServerInstance;
use switchboard_wire::sync::lock;

use super::reconcile::{FileEntry, diff_servers};
use super::server_spec::ServerSpec;
use super::{Host, HostInner};
use crate::call_context::CallContext;
use crate::catalog::CatalogTool;
use crate::host_state::ServerHandles;
use crate::id::ServerName;
use crate::server::ServerHandle;
use crate::server::state::Phase;
use crate::status::{ConnectionStatus, ServerDetails, ServerPhase, ServerStatus};

/// The config entries that [`Host::set_servers`] or [`Host::apply_config`] can replace later.
#[derive(Default)]
pub(super) struct ConfiguredServers {
    /// The entries that [`Host::connect`] and [`Host::set_servers`] added. They have the scope
    /// `dynamic`.
    pub(super) from_code: BTreeMap<ServerName, LaunchSpec>,
    /// The entries of config files.
    pub(super) from_files: BTreeMap<ServerName, FileEntry>,
    /// The sequence number that was assigned last.
    last_sequence: u64,
}

impl ConfiguredServers {
    /// Returns a new sequence number. No other server of the host has it or ever had it.
    pub(super) fn next_sequence(&mut self) -> u64 {
        self.last_sequence += 1;
        self.last_sequence
    }
}

/// The changes that [`Host::set_servers`] made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SetServersResult {
    /// The names of new and changed servers.
    pub added: Vec<String>,
    /// The names of removed and changed servers.
    pub removed: Vec<String>,
    /// Why a server could not be added or connected, by server name. A server that was added but is
    /// not connected is only here, although the host keeps it and can reconnect it.
    pub errors: BTreeMap<String, String>,
}

/// Why a server could not be added, changed or inspected.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The host has no server of this name.
    #[error("no server named {0:?}")]
    Unknown(String),
    /// Another server of the host already has this name.
    #[error("a server named {0} already exists")]
    NameTaken(ServerName),
    /// The name of a new server has an invalid format.
    #[error(transparent)]
    InvalidName(#[from] InvalidServerName),
    /// The server is in the host, but not connected. Holds its status, which says why.
    #[error("server {} is {}{}", .0.name, .0.status, reason_suffix(.0))]
    NotConnected(Box<ServerStatus>),
    /// The host is shutting down.
    #[error("the host is shutting down")]
    ShuttingDown,
}

fn reason_suffix(status: &ServerStatus) -> String {
    let reason = status.error.as_ref().or(status.detail.as_ref());
    reason
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default()
}

/// The condition that [`Host::wait_for`] waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Readiness {
    /// One server is connected, or no server is starting any more.
    First,
    /// No server is starting any more: each is connected, has failed or starts later.
    All,
    /// None of the servers with these names is starting any more. Unknown names are ignored.
    Servers(Vec<ServerName>),
    /// No server that starts by itself is starting any more. Starts no lazy servers.
    Settled,
}

impl Host {
    /// The status of every server, in the order in which the servers were configured.
    #[doc(alias = "mcp_server_status")]
    pub fn status(&self) -> Vec<ServerStatus> {
        let catalog = self.catalog();
        self.state()
            .servers_in_order()
            .iter()
            .map(|server| server.status(&catalog))
            .collect()
    }

    /// The status of one server.
    pub fn server_status(&self, name: &str) -> Result<ServerStatus, ServerError> {
        Ok(self.find_server(name)?.status(&self.catalog()))
    }

    /// The status of one server, with details about its last connection attempt for diagnosis.
    pub fn server_details(&self, name: &str) -> Result<ServerDetails, ServerError> {
        Ok(self.find_server(name)?.details(&self.catalog()))
    }

    /// Compiles the schemas of these tools. Afterwards, [`CatalogTool::schema_notes`] and
    /// [`ServerDetails::notes`] have a note about each schema that cannot be used. Without this
    /// method, the host compiles a schema when the first call needs it.
    pub async fn check_schemas(&self, tools: impl IntoIterator<Item = &Arc<CatalogTool>>) {
        let schemas = tools.into_iter().flat_map(|tool| {
            let input = Arc::clone(&tool.input_schema);
            std::iter::once(input).chain(tool.output_schema.clone())
        });
        let schemas = schemas.collect();
        self.state().schema_checks.compile(schemas).await;
    }

    /// The phase of every server, in the order in which the servers were configured. Cheaper than
    /// [`Host::status`], which copies the tool lists.
    pub fn phases(&self) -> Vec<(ServerName, ServerPhase)> {
        let servers = self.state().servers_in_order();
        let phases = servers
            .iter()
            .map(|server| (server.settings().name.clone(), server.phase()));
        phases.collect()
    }

    /// What the child process of a server wrote to stderr after its first `position` bytes. `None`
    /// if the server is not a connected child process. A new session starts at position 0.
    pub fn server_stderr(
        &self,
        name: &str,
        position: u64,
    ) -> Result<Option<StderrOutput>, ServerError> {
        Ok(self.find_server(name)?.stderr_since(position))
    }

    /// Waits until the condition `readiness` is met. A server that is not starting is connected,
    /// has failed, or has not been started. This method has no timeout.
    ///
    /// Lazy servers whose tools are not known, because no tool list was cached, are started so that
    /// the catalog has their tools. [`Readiness::Settled`] does not start them. Servers that a rule
    /// denies are never started.
    pub async fn wait_for(&self, readiness: Readiness) {
        let state = self.state();
        let servers = match &readiness {
            Readiness::Servers(names) => {
                let servers = names.iter().filter_map(|name| state.server(name));
                servers.collect()
            }
            Readiness::First | Readiness::All | Readiness::Settled => state.servers_in_order(),
        };
        let discovers = readiness != Readiness::Settled;
        let starting = servers.iter().map(|server| async move {
            if discovers && self.may_discover(server) {
                server.discover().await
            } else {
                server.wait_until_settled().await
            }
        });
        if readiness == Readiness::First {
            let mut starting: FuturesUnordered<_> = starting.collect();
            while let Some(state) = starting.next().await {
                if state.status() == ConnectionStatus::Connected {
                    return;
                }
            }
        } else {
            join_all(starting).await;
        }
    }

    /// Starts the selected servers whose tools are not known yet, and waits until they are settled,
    /// at most for the startup timeout.
    pub(crate) async fn discover(&self, context: &CallContext) {
        let servers = self.state().servers_in_order();
        let selected = servers.iter().filter(|server| {
            context.servers.contains(&server.settings().name) && self.may_discover(server)
        });
        // If too many principals use a server, its tools are missing in the listing.
        let servers = selected.filter_map(|server| server.for_principal(&context.principal).ok());
        let servers: Vec<_> = servers.collect();
        let discovered = join_all(servers.iter().map(|server| server.discover()));
        // After the timeout, the catalog has the tools of the servers that answered in time.
        let _ = tokio::time::timeout(self.state().deadlines.startup, discovered).await;
    }

    /// The servers with which the principal of the request has its own session.
    pub(crate) fn separate_servers(
        &self,
        context: &CallContext,
    ) -> BTreeMap<ServerName, Arc<ServerHandle>> {
        let servers = self.state().servers();
        let principal = &context.principal;
        let separate = servers
            .values()
            .filter(|server| server.is_separate_for(principal));
        let handles = separate.filter_map(|server| server.for_principal(principal).ok());
        handles
            .map(|server| (server.settings().name.clone(), server))
            .collect()
    }

    /// Starts the servers whose tools are not known yet, without waiting.
    pub(crate) fn request_discovery(&self) {
        for server in self.state().servers().values() {
            if server.is_undiscovered() && self.may_discover(server) {
                server.request_discovery();
            }
        }
    }

    /// A server whose tools are all denied is not started to learn its tools.
    fn may_discover(&self, server: &ServerHandle) -> bool {
        let name = &server.settings().name;
        self.state().check_server_not_denied(name).is_ok()
    }

    /// Adds a server and waits until it is connected. If the connection fails, this method returns
    /// an error, but the server stays in the host and can be inspected and reconnected.
    pub async fn connect(
        &self,
        name: &str,
        config: ServerConfig,
    ) -> Result<ServerStatus, ServerError> {
        let name = ServerName::new(name)?;
        let spec = LaunchSpec::trusted(name, config);
        let server = self.inner.add_from_code(&spec)?;
        server.start_and_settle().await;
        self.require_connected(&server)
    }

    /// Removes a server. When this method returns, the tools of the server are no longer in the
    /// catalog, and the process of the server has exited. If the server was still connecting, its
    /// process is killed, but this method does not wait until the process has exited.
    pub async fn disconnect(&self, name: &str) -> Result<(), ServerError> {
        let server = self.find_server(name)?;
        self.inner.remove_server(&server.settings().name);
        server.stop();
        server.wait_until_stopped().await;
        Ok(())
    }

    /// Starts a dormant server without calling a tool, and waits until it is connected. If the
    /// server is not dormant, waits only while it is starting.
    pub async fn start_server(&self, name: &str) -> Result<ServerStatus, ServerError> {
        let server = self.find_server(name)?;
        server.start_and_settle().await;
        self.require_connected(&server)
    }

    /// Closes the session of a server, if it has one, and opens a new session. Waits until the new
    /// session is open.
    #[doc(alias = "reconnect_mcp_server")]
    pub async fn reconnect(&self, name: &str) -> Result<ServerStatus, ServerError> {
        let server = self.find_server(name)?;
        server.restart().await;
        server.wait_until_settled().await;
        self.require_connected(&server)
    }

    /// Enables a server that [`Host::disable_server`] or its config entry disabled.
    #[doc(alias = "toggle_mcp_server")]
    pub async fn enable_server(&self, name: &str) -> Result<(), ServerError> {
        self.find_server(name)?.set_enabled(true).await;
        Ok(())
    }

    /// Disables a server: removes its tools from the catalog, but keeps its connection open.
    #[doc(alias = "toggle_mcp_server")]
    pub async fn disable_server(&self, name: &str) -> Result<(), ServerError> {
        self.find_server(name)?.set_enabled(false).await;
        Ok(())
    }

    /// Replaces the servers that [`Host::connect`] and this method added, and waits until the new
    /// servers are connected or have failed. A server with the same config keeps its process. A
    /// server with another config is removed and added. Servers of config files are not affected.
    #[doc(alias = "set_mcp_servers")]
    pub async fn set_servers(&self, wanted: BTreeMap<String, ServerConfig>) -> SetServersResult {
        let _changing = self.state().config_lock.lock().await;
        let mut result = SetServersResult::default();
        let mut specs = BTreeMap::new();
        for (name, config) in wanted {
            match ServerName::new(&name) {
                Ok(name) => drop(specs.insert(name.clone(), LaunchSpec::trusted(name, config))),
                Err(error) => drop(result.errors.insert(name, error.to_string())),
            }
        }
        let diff = diff_servers(&lock(&self.inner.configured).from_code, specs);
        for name in &diff.remove {
            if self.disconnect(name.as_str()).await.is_ok() {
                result.removed.push(name.to_string());
            }
        }
        let mut added = Vec::new();
        for spec in diff.add {
            let name = spec.name().to_string();
            match self.inner.add_from_code(&spec) {
                Ok(server) => added.push((name, server)),
                Err(error) => drop(result.errors.insert(name, error.to_string())),
            }
        }
        for (name, server) in added {
            let state = server.wait_until_settled().await;
            // A dormant server is not connected, but that is no error: its first call starts it.
            match self.require_connected(&server) {
                Err(error) if state.phase != Phase::Dormant => {
                    result.errors.insert(name, error.to_string());
                }
                _ => result.added.push(name),
            }
        }
        result
    }

    /// Adds an in-process server and waits until it is connected.
    ///
    /// [`Host::disconnect`] removes the server from the host, but does not stop the instance: a
    /// clone of it can be added again, also to another host.
    pub async fn add_in_process_server(
        &self,
        name: &str,
        server: impl Into<ServerInstance>,
    ) -> Result<ServerStatus, ServerError> {
        let name = ServerName::new(name)?;
        let instance = server.into();
        let server = {
            let mut configured = self.inner.lock_configured();
            let sequence = configured.next_sequence();
            let spec = self.inner.spec_for_instance(&name, instance, sequence);
            self.inner.add_server(&configured, &name, spec)?
        };
        server.start_and_settle().await;
        self.require_connected(&server)
    }

    /// Registers an in-process server for config entries of the type `sdk`, as
    /// [`HostBuilder::sdk_server`](crate::HostBuilder::sdk_server) does. Returns the instance that
    /// was registered under this name before, if there was one.
    ///
    /// Open sessions use the previous instance until they are reconnected. If an entry failed
    /// because the name was not registered, [`Host::reconnect`] connects it now.
    pub fn register_sdk_server(
        &self,
        name: impl Into<String>,
        server: impl Into<ServerInstance>,
    ) -> Option<ServerInstance> {
        let servers = &self.inner.defaults.sdk_servers;
        servers.insert(name.into(), server.into())
    }

    /// Removes an in-process server that was registered for config entries of the type `sdk`, and
    /// returns it. Open sessions are not affected.
    pub fn unregister_sdk_server(&self, name: &str) -> Option<ServerInstance> {
        self.inner.defaults.sdk_servers.remove(name)
    }

    pub(super) fn find_server(&self, name: &str) -> Result<Arc<ServerHandle>, ServerError> {
        let server = ServerName::new(name)
            .ok()
            .and_then(|name| self.state().server(&name));
        server.ok_or_else(|| ServerError::Unknown(name.to_owned()))
    }

    fn require_connected(&self, server: &ServerHandle) -> Result<ServerStatus, ServerError> {
        let status = server.status(&self.catalog());
        match status.status {
            ConnectionStatus::Connected | ConnectionStatus::Disabled => Ok(status),
            _ => Err(ServerError::NotConnected(Box::new(status))),
        }
    }
}

impl HostInner {
    pub(super) fn lock_configured(&self) -> MutexGuard<'_, ConfiguredServers> {
        lock(&self.configured)
    }

    /// Adds a server that the program configured, and stores its entry in
    /// [`ConfiguredServers::from_code`].
    fn add_from_code(&self, spec: &LaunchSpec) -> Result<Arc<ServerHandle>, ServerError> {
        let mut configured = self.lock_configured();
        let sequence = configured.next_sequence();
        let server = self.spec_for_launch(spec, sequence);
        let server = self.add_server(&configured, spec.name(), server)?;
        let name = spec.name().clone();
        configured.from_code.insert(name, spec.clone());
        Ok(server)
    }

    /// Adds a server and spawns its owner. The parameter `_configured` is not used: it proves that
    /// the caller holds the lock on [`ConfiguredServers`].
    pub(super) fn add_server(
        &self,
        _configured: &ConfiguredServers,
        name: &ServerName,
        spec: ServerSpec,
    ) -> Result<Arc<ServerHandle>, ServerError> {
        if self.state.is_stopping() {
            return Err(ServerError::ShuttingDown);
        }
        if self.state.servers().contains_key(name) {
            return Err(ServerError::NameTaken(name.clone()));
        }
        self.state.catalog.add_server(&spec.key());
        let server = spec.spawn(self);
        let mut servers = ServerHandles::clone(&self.state.servers());
        servers.insert_mut(name.clone(), Arc::clone(&server));
        self.state.set_servers(servers);
        Ok(server)
    }

    fn remove_server(&self, name: &ServerName) {
        let mut configured = self.lock_configured();
        configured.from_code.remove(name);
        configured.from_files.remove(name);
        let mut servers = ServerHandles::clone(&self.state.servers());
        servers.remove_mut(name);
        self.state.set_servers(servers);
    }
}
