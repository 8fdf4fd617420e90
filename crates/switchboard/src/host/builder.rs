//! The builder of a host: its servers, rules, limits and options.
//!
//! Invariant: only [`HostBuilder::start`] fails or has an effect. It reports the first invalid name
//! or pattern, so that a chain of calls needs one `?`.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use switchboard_client::auth::AuthProvider;
#[cfg(feature = "http")]
use switchboard_client::http::Network;
use switchboard_client::wire_tap::WireTap;
#[cfg(feature = "http")]
use switchboard_config::RemoteKind;
use switchboard_config::{
    HostConfig, InvalidServerName, LaunchSpec, Profile, Scope, ServerConfig, ServerEntry, Trust,
};
#[cfg(feature = "stdio")]
use switchboard_process::{
    Guardian, HostId, ProcessSupervisor, Spawning, Subreaper, SupervisorOptions,
};
use switchboard_wire::mcp::{Implementation, LogLevel};
use switchboard_wire::memory_budget::MemoryBudget;
use switchboard_wire::{BoxFuture, Connector, ServerInstance};

use super::reconcile::FileEntry;
use super::server_spec::{RetryMode, ServerDefaults};
use super::servers::ConfiguredServers;
use super::suspend::{SuspendClock, time_suspended, watch_for_suspend};
use super::{Host, HostInner, ServerError};
use crate::cache::ServerCache;
use crate::content::ResultStore;
use crate::host_state::HostState;
use crate::id::ServerName;
use crate::interaction::{Interaction, NoInteraction, WithRoots};
use crate::limits::{Deadlines, Limits};
use crate::permission::{
    Action, InvalidPattern, PermissionRequest, PermissionResponse, Policy, Rule,
};
use crate::server::connect::ServerEndpoint;
use crate::server::retry_slots::RetrySlots;
use crate::watch::WatchTable;

/// Builds a [`Host`]. Nothing runs before [`HostBuilder::start`].
///
/// The library reads neither the environment nor the home directory. What children inherit is set
/// with [`HostBuilder::environment`].
pub struct HostBuilder {
    servers: Vec<PendingServer>,
    defaults: ServerDefaults,
    rules: Vec<Rule>,
    interaction: Arc<dyn Interaction>,
    roots: Vec<PathBuf>,
    limits: Limits,
    deadlines: Deadlines,
    result_store: Option<Arc<dyn ResultStore>>,
    #[cfg(feature = "stdio")]
    host_id: HostId,
    #[cfg(feature = "stdio")]
    subreaper: Option<Subreaper>,
    #[cfg(feature = "stdio")]
    guardian: Option<Guardian>,
    suspend_clock: SuspendClock,
    /// The first invalid name or pattern, which `start` returns.
    error: Option<StartError>,
}

/// A server that `start` adds to the host.
enum PendingServer {
    Entry(Box<ServerEntry>, Trust),
    Launch(Box<LaunchSpec>),
    Connector(ServerName, ServerEndpoint),
    Instance(ServerName, ServerInstance),
}

/// Why a host was not started.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Two servers have the same name.
    #[error("two servers are named {0}")]
    NameTaken(ServerName),
    /// The name of a server is not valid.
    #[error(transparent)]
    InvalidName(#[from] InvalidServerName),
    /// The pattern of a rule is not valid.
    #[error(transparent)]
    InvalidPattern(#[from] InvalidPattern),
}

impl Default for HostBuilder {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            defaults: ServerDefaults::default(),
            rules: Vec::new(),
            interaction: Arc::new(NoInteraction),
            roots: Vec::new(),
            limits: Limits::default(),
            deadlines: Deadlines::default(),
            result_store: None,
            #[cfg(feature = "stdio")]
            host_id: HostId::new(),
            #[cfg(feature = "stdio")]
            subreaper: None,
            #[cfg(feature = "stdio")]
            guardian: None,
            suspend_clock: Arc::new(time_suspended),
            error: None,
        }
    }
}

/// Servers.
impl HostBuilder {
    /// Adds a local server: a program that speaks MCP on stdin and stdout.
    #[cfg(feature = "stdio")]
    pub fn stdio<A: Into<String>>(
        self,
        name: impl AsRef<str>,
        command: impl Into<String>,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        self.server(name, ServerConfig::stdio(command, args))
    }

    /// Adds a remote server with the transport Streamable HTTP.
    #[cfg(feature = "http")]
    pub fn http(self, name: impl AsRef<str>, url: impl Into<String>) -> Self {
        self.server(name, ServerConfig::remote(url, RemoteKind::Http))
    }

    /// Adds a remote server with the HTTP+SSE transport of protocol version 2024-11-05.
    #[cfg(feature = "http")]
    pub fn sse(self, name: impl AsRef<str>, url: impl Into<String>) -> Self {
        self.server(name, ServerConfig::remote(url, RemoteKind::Sse))
    }

    /// Adds a server from a [`ServerConfig`]. It needs no approval.
    pub fn server(mut self, name: impl AsRef<str>, config: ServerConfig) -> Self {
        match ServerName::new(name.as_ref()) {
            Ok(name) => self.launch(LaunchSpec::trusted(name, config)),
            Err(error) => {
                self.set_error(error);
                self
            }
        }
    }

    /// Adds an approved server.
    pub fn launch(mut self, spec: LaunchSpec) -> Self {
        self.servers.push(PendingServer::Launch(Box::new(spec)));
        self
    }

    /// Adds the servers of config files. Entries that `trust` does not cover wait for approval and
    /// are not started.
    pub fn config(mut self, config: HostConfig, trust: &Trust) -> Self {
        let entries = config.servers.into_iter();
        self.servers
            .extend(entries.map(|entry| PendingServer::Entry(Box::new(entry), trust.clone())));
        self
    }

    /// Adds an in-process server.
    pub fn in_process_server(
        mut self,
        name: impl AsRef<str>,
        server: impl Into<ServerInstance>,
    ) -> Self {
        match ServerName::new(name.as_ref()) {
            Ok(name) => {
                let server = PendingServer::Instance(name, server.into());
                self.servers.push(server);
            }
            Err(error) => self.set_error(error),
        }
        self
    }

    /// Registers an in-process server for entries of the type `sdk` that refer to it by name: in
    /// [config files](Self::config) and in
    /// [`ServerConfig::sdk`](switchboard_config::ServerConfig::sdk). The host connects to it when
    /// there is such an entry. See also [`Host::register_sdk_server`].
    pub fn sdk_server(self, name: impl Into<String>, server: impl Into<ServerInstance>) -> Self {
        self.defaults.sdk_servers.insert(name.into(), server.into());
        self
    }

    /// Adds a server with a custom transport.
    pub fn connector(mut self, name: impl AsRef<str>, connector: impl Connector) -> Self {
        match ServerName::new(name.as_ref()) {
            Ok(name) => {
                let endpoint = ServerEndpoint::Stream(Arc::new(connector));
                self.servers.push(PendingServer::Connector(name, endpoint));
            }
            Err(error) => self.set_error(error),
        }
        self
    }

    /// Disables reconnecting. For programs that make a few calls and exit.
    pub fn no_reconnect(mut self) -> Self {
        self.defaults.retry_mode = RetryMode::Never;
        self
    }

    /// Sets the cache that stores the protocol era and the tools of servers between runs. Default:
    /// a cache in memory.
    pub fn server_cache(mut self, cache: impl ServerCache) -> Self {
        self.defaults.server_cache = Arc::new(cache);
        self
    }
}

/// Permissions and interaction.
impl HostBuilder {
    /// Allows the tools that match `pattern`, for example `mcp__time__get_*`. See
    /// [`permission`](crate::permission) for patterns.
    pub fn allow(self, pattern: &str) -> Self {
        self.rule_for(Action::Allow, pattern)
    }

    /// Asks before each call of the tools that match `pattern`.
    pub fn ask(self, pattern: &str) -> Self {
        self.rule_for(Action::Ask, pattern)
    }

    /// Denies the tools that match `pattern`. A deny wins over every other rule.
    pub fn deny(self, pattern: &str) -> Self {
        self.rule_for(Action::Deny, pattern)
    }

    fn rule_for(mut self, action: Action, pattern: &str) -> Self {
        match Rule::new(action, pattern) {
            Ok(rule) => self.rules.push(rule),
            Err(error) => self.set_error(error),
        }
        self
    }

    /// Adds a permission rule. Without rules, every call needs permission.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Adds permission rules.
    pub fn rules(mut self, rules: impl IntoIterator<Item = Rule>) -> Self {
        self.rules.extend(rules);
        self
    }

    /// Sets a function that decides on calls that no rule allows or denies. Replaces the
    /// [`interaction`](Self::interaction), so elicitation and sampling requests are declined.
    pub fn can_use_tool<F, R>(self, decide: F) -> Self
    where
        F: Fn(PermissionRequest) -> R + Send + Sync + 'static,
        R: Future<Output = PermissionResponse> + Send + 'static,
    {
        self.interaction(PermissionCallback(decide))
    }

    /// Sets the handler of permission requests and of elicitation, sampling and roots requests.
    /// Without one, calls that need permission are denied, and elicitation and sampling requests
    /// are declined.
    pub fn interaction(mut self, interaction: impl Interaction) -> Self {
        self.interaction = Arc::new(interaction);
        self
    }

    /// Adds directories that servers may work in, by their absolute paths. They are announced as
    /// roots to all servers, remote ones included, in addition to the roots of the
    /// [interaction](Self::interaction). An [`Interaction`] can offer other roots to each server.
    pub fn roots<P: Into<PathBuf>>(mut self, roots: impl IntoIterator<Item = P>) -> Self {
        self.roots.extend(roots.into_iter().map(Into::into));
        self
    }
}

/// Connections.
impl HostBuilder {
    /// Sets the name and version that the host sends to servers.
    pub fn client_info(mut self, client_info: Implementation) -> Self {
        self.defaults.client_info = client_info;
        self
    }

    /// Requests log messages of at least this level from servers. They become
    /// [events](Host::events) and `tracing` events. By default the host requests none, but some
    /// servers send them anyway.
    pub fn server_log_level(mut self, level: LogLevel) -> Self {
        self.defaults.log_level = Some(level);
        self
    }

    /// Sets proxies and trusted certificates for connections to remote servers.
    #[cfg(feature = "http")]
    pub fn network(mut self, network: Network) -> Self {
        self.defaults.network = Arc::new(network);
        self
    }

    /// Sets the provider of credentials for a remote server. Its headers replace headers of the
    /// same name in the entry, and the `headersHelper` of the entry is not run.
    pub fn auth(mut self, server: impl Into<String>, provider: impl AuthProvider) -> Self {
        let provider = Arc::new(provider);
        self.defaults.auth.insert(server.into(), provider);
        self
    }

    /// Sets the provider of the bearer token of the user's claude.ai account. The host uses the
    /// token only for entries of the type `claudeai-proxy`, and sends it only to claude.ai and the
    /// [allowed origins](Self::claude_ai_origins). Without a provider such servers require a login.
    #[cfg(feature = "http")]
    pub fn claude_ai_account(mut self, account: impl AuthProvider) -> Self {
        self.defaults.claude_ai_account = Some(Arc::new(account));
        self
    }

    /// Adds URLs whose origins may receive the token of the claude.ai account. Config files cannot
    /// add origins.
    #[cfg(feature = "http")]
    pub fn claude_ai_origins<A: AsRef<str>>(mut self, urls: impl IntoIterator<Item = A>) -> Self {
        for url in urls {
            self.defaults.claude_ai_origins.allow(url.as_ref());
        }
        self
    }

    /// Sets a tap that receives all raw messages between the host and its servers.
    pub fn wire_tap(mut self, tap: Arc<dyn WireTap>) -> Self {
        self.defaults.wire_tap = Some(tap);
        self
    }

    /// Sets a clock that returns how long the machine was suspended since it booted. The host reads
    /// it every few seconds and checks remote servers after a suspend. The default compares two
    /// clocks of Linux; on other systems it detects no suspend.
    pub fn suspend_clock(mut self, clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        self.suspend_clock = Arc::new(clock);
        self
    }
}

/// Processes.
impl HostBuilder {
    /// Sets the environment from which children inherit a few variables, such as `PATH` and `HOME`.
    /// Most programs pass `std::env::vars()`.
    pub fn environment(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        self.defaults.environment = Arc::new(variables.into_iter().collect());
        self
    }

    /// Sets the working directory of children without a `cwd`. Default: the current directory.
    pub fn working_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.defaults.working_directory = Some(directory.into());
        self
    }

    /// Sets the id that marks the children of this host; see [`process`](crate::process). Must be
    /// unique. Default: a new random id.
    #[cfg(feature = "stdio")]
    pub fn host_id(mut self, host_id: HostId) -> Self {
        self.host_id = host_id;
        self
    }

    /// Also reaps orphaned descendants of children. Affects the whole process; see [`Subreaper`].
    #[cfg(feature = "stdio")]
    pub fn subreaper(mut self, subreaper: Subreaper) -> Self {
        self.subreaper = Some(subreaper);
        self
    }

    /// Starts a guardian process with the first child. The guardian kills the children if this
    /// process is killed.
    #[cfg(feature = "stdio")]
    pub fn guardian(mut self, guardian: Guardian) -> Self {
        self.guardian = Some(guardian);
        self
    }

    /// Sets whether the host acts for a local user or in a server. With [`Profile::Server`] the
    /// host never starts a process, even if an entry asks for one, and ignores
    /// [`Self::interaction`].
    pub fn profile(mut self, profile: Profile) -> Self {
        self.defaults.profile = profile;
        self
    }
}

/// Limits and start.
impl HostBuilder {
    /// Sets limits on sizes and counts.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets time limits.
    pub fn deadlines(mut self, deadlines: Deadlines) -> Self {
        self.deadlines = deadlines;
        self
    }

    /// Sets the store for the full text of results that exceed the limits.
    pub fn result_store(mut self, store: impl ResultStore + 'static) -> Self {
        self.result_store = Some(Arc::new(store));
        self
    }

    /// Starts the host and all its servers. Returns without waiting for the servers; see
    /// [`Host::wait_for`].
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime. The runtime needs its I/O and time drivers.
    pub fn start(self) -> Result<Host, StartError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let profile = self.defaults.profile;
        let interaction: Arc<dyn Interaction> = match profile {
            Profile::Local if self.roots.is_empty() => self.interaction,
            Profile::Local => Arc::new(WithRoots::new(&self.roots, self.interaction)),
            Profile::Server => Arc::new(NoInteraction),
        };
        let state = Arc::new(HostState::new(
            Policy::new(self.rules),
            interaction,
            self.limits.clamped(),
            self.deadlines.clamped(),
            self.result_store,
        ));
        #[cfg(feature = "stdio")]
        let children = ProcessSupervisor::new(SupervisorOptions {
            host: self.host_id,
            subreaper: self.subreaper,
            guardian: self.guardian,
            spawning: match profile {
                Profile::Server => Spawning::Disabled,
                Profile::Local => Spawning::Allowed,
            },
        });
        #[cfg(feature = "stdio")]
        children.spawn_orphan_reaper(&state.tasks, state.stop.clone());
        let (resumed_sender, resumed) = tokio::sync::watch::channel(0);
        let stop = state.stop.clone();
        let suspend = watch_for_suspend(self.suspend_clock, resumed_sender, stop);
        state.tasks.spawn(suspend);
        let inner = HostInner {
            watches: Arc::new(WatchTable::new(state.limits.watches, state.events.clone())),
            configured: Mutex::new(ConfiguredServers::default()),
            defaults: self.defaults,
            budget: MemoryBudget::new(state.limits.memory_bytes),
            #[cfg(feature = "stdio")]
            children,
            resumed,
            retry_slots: Arc::new(RetrySlots::new()),
            state,
        };
        for server in self.servers {
            inner.add_pending(server)?;
        }
        Ok(Host {
            inner: Arc::new(inner),
        })
    }

    /// Keeps the first error for [`Self::start`].
    fn set_error(&mut self, error: impl Into<StartError>) {
        self.error.get_or_insert_with(|| error.into());
    }
}

impl HostInner {
    fn add_pending(&self, server: PendingServer) -> Result<(), StartError> {
        let configured = &mut *self.lock_configured();
        let sequence = configured.next_sequence();
        let (name, spec, file_entry) = match server {
            PendingServer::Entry(entry, trust) => {
                let decision = entry.decide_launch(&trust);
                let spec = self.spec_for_entry(&entry, &decision, sequence);
                (entry.name().clone(), spec, Some(FileEntry::from(decision)))
            }
            PendingServer::Launch(launch) => {
                let spec = self.spec_for_launch(&launch, sequence);
                let name = launch.name().clone();
                let is_from_file = launch.scope() != Scope::Dynamic;
                let entry = is_from_file.then(|| FileEntry::Launched(launch));
                (name, spec, entry)
            }
            PendingServer::Connector(name, endpoint) => {
                let spec = self.spec_for_connector(&name, endpoint, sequence);
                (name, spec, None)
            }
            PendingServer::Instance(name, instance) => {
                let spec = self.spec_for_instance(&name, instance, sequence);
                (name, spec, None)
            }
        };
        if let Err(ServerError::NameTaken(name)) = self.add_server(configured, &name, spec) {
            return Err(StartError::NameTaken(name));
        }
        if let Some(entry) = file_entry {
            configured.from_files.insert(name, entry);
        }
        Ok(())
    }
}

/// The interaction of [`HostBuilder::can_use_tool`].
struct PermissionCallback<F>(F);

impl<F, R> Interaction for PermissionCallback<F>
where
    F: Fn(PermissionRequest) -> R + Send + Sync + 'static,
    R: Future<Output = PermissionResponse> + Send + 'static,
{
    fn can_use_tool(&self, request: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        Box::pin((self.0)(request))
    }
}

impl std::fmt::Debug for HostBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostBuilder")
            .field("servers", &self.servers.len())
            .finish_non_exhaustive()
    }
}
