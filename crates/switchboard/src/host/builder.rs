//! [`HostBuilder`]: collects the servers, rules, limits and options of a host, and starts the host.
//!
//! Invariant: only [`HostBuilder::start`] has an effect or returns an error. The other methods
//! store the first invalid name or pattern, and `start` returns the error, so that a chain of
//! methods needs only one `?`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use switchboard_client::auth::AuthProvider;
#[cfg(feature = "http")]
use switchboard_client::http::Network;
use switchboard_client::message_transport::MessageTransport;
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
use switchboard_wire::{BoxFuture, Connector, ServerInstance, Transport};

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
use crate::limits::{Deadlines, Limits, default_start_concurrency};
use crate::permission::{
    Action, InvalidPattern, PermissionRequest, PermissionResponse, Policy, Rule,
};
use crate::server::connect::ServerEndpoint;
use crate::server::retry_slots::RetrySlots;
use crate::server::start_slots::StartSlots;
use crate::watch::WatchTable;

/// Collects the servers and options of a [`Host`]. Nothing runs before [`HostBuilder::start`].
///
/// The host reads neither the environment nor the home directory of the program. The program passes
/// the variables that child processes may inherit to [`HostBuilder::environment`].
pub struct HostBuilder {
    servers: Vec<PendingServer>,
    defaults: ServerDefaults,
    rules: Vec<Rule>,
    interaction: Arc<dyn Interaction>,
    roots: Vec<PathBuf>,
    limits: Limits,
    deadlines: Deadlines,
    start_concurrency: NonZeroUsize,
    result_store: Option<Arc<dyn ResultStore>>,
    #[cfg(feature = "stdio")]
    host_id: HostId,
    #[cfg(feature = "stdio")]
    subreaper: Option<Subreaper>,
    #[cfg(feature = "stdio")]
    guardian: Option<Guardian>,
    suspend_clock: SuspendClock,
    /// The first invalid server name or rule pattern. [`HostBuilder::start`] returns it.
    error: Option<StartError>,
}

/// A server that [`HostBuilder::start`] adds to the host.
enum PendingServer {
    Entry(Box<ServerEntry>, Trust),
    Launch(Box<LaunchSpec>),
    /// A server with a transport of the embedding program.
    Custom(ServerName, ServerEndpoint),
    Instance(ServerName, ServerInstance),
}

/// Why a host was not started.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Two servers have the same name.
    #[error("two servers are named {0}")]
    NameTaken(ServerName),
    /// The name of a server has an invalid format.
    #[error(transparent)]
    InvalidName(#[from] InvalidServerName),
    /// The pattern of a permission rule has an invalid format.
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
            start_concurrency: default_start_concurrency(),
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

/// Adding servers.
impl HostBuilder {
    /// Adds a program that the host starts as a child process, with MCP on its stdin and stdout.
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

    /// Adds a server from a [`ServerConfig`]. The user does not have to approve it.
    pub fn server(mut self, name: impl AsRef<str>, config: ServerConfig) -> Self {
        match ServerName::new(name.as_ref()) {
            Ok(name) => self.launch(LaunchSpec::trusted(name, config)),
            Err(error) => {
                self.set_error(error);
                self
            }
        }
    }

    /// Adds a server from a [`LaunchSpec`], which proves that the user has approved it.
    pub fn launch(mut self, spec: LaunchSpec) -> Self {
        self.servers.push(PendingServer::Launch(Box::new(spec)));
        self
    }

    /// Adds the servers of config files. An entry that `trust` does not approve is not started: its
    /// server waits for approval or, if the entry was rejected, has failed.
    pub fn config(mut self, config: HostConfig, trust: &Trust) -> Self {
        let entries = config.servers.into_iter();
        self.servers
            .extend(entries.map(|entry| PendingServer::Entry(Box::new(entry), trust.clone())));
        self
    }

    /// Adds a server that runs in this process, such as an
    /// [`InProcessServer`](crate::InProcessServer).
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

    /// Registers an in-process server without adding it to the host. Entries of the type `sdk` can
    /// refer to it by `name`, in [config files](Self::config) or in
    /// [`ServerConfig::sdk`](switchboard_config::ServerConfig::sdk). The host connects to the
    /// server only if there is such an entry. See also [`Host::register_sdk_server`].
    pub fn sdk_server(self, name: impl Into<String>, server: impl Into<ServerInstance>) -> Self {
        self.defaults.sdk_servers.insert(name.into(), server.into());
        self
    }

    /// Adds a server with a custom transport: `connector` opens the byte streams of each session.
    pub fn connector(self, name: impl AsRef<str>, connector: impl Connector) -> Self {
        self.endpoint(name.as_ref(), ServerEndpoint::Stream(Arc::new(connector)))
    }

    /// Adds a server with a custom transport that carries whole messages. See
    /// [`transport`](crate::transport) for an example.
    pub fn transport(self, name: impl AsRef<str>, transport: impl Transport) -> Self {
        let transport = MessageTransport::new(transport);
        self.endpoint(name.as_ref(), ServerEndpoint::Messages(transport))
    }

    fn endpoint(mut self, name: &str, endpoint: ServerEndpoint) -> Self {
        match ServerName::new(name) {
            Ok(name) => self.servers.push(PendingServer::Custom(name, endpoint)),
            Err(error) => self.set_error(error),
        }
        self
    }

    /// Does not reconnect a server whose connection failed or was lost. A session that the server
    /// has expired is still replaced. For programs that make a few calls and exit.
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

/// Permissions, and requests to the user.
impl HostBuilder {
    /// Allows the tools that match `pattern`, for example `mcp__time__get_*`, unless a deny rule or
    /// an earlier ask rule matches. See [`permission`](crate::permission) for patterns.
    pub fn allow(self, pattern: &str) -> Self {
        self.rule_for(Action::Allow, pattern)
    }

    /// Asks the [`interaction`](Self::interaction) before each call of a tool that matches
    /// `pattern`, unless a deny rule or an earlier allow rule matches.
    pub fn ask(self, pattern: &str) -> Self {
        self.rule_for(Action::Ask, pattern)
    }

    /// Denies the tools that match `pattern`. A deny rule wins over all other rules.
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

    /// Adds a permission rule. If no rule matches a call, the [`interaction`](Self::interaction)
    /// decides.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Adds several permission rules to those that were added before.
    pub fn rules(mut self, rules: impl IntoIterator<Item = Rule>) -> Self {
        self.rules.extend(rules);
        self
    }

    /// Sets a function that decides on calls that no rule allows or denies. This replaces the
    /// [`interaction`](Self::interaction), so that elicitation and sampling requests are declined.
    pub fn can_use_tool<F, R>(self, decide: F) -> Self
    where
        F: Fn(PermissionRequest) -> R + Send + Sync + 'static,
        R: Future<Output = PermissionResponse> + Send + 'static,
    {
        self.interaction(PermissionCallback(decide))
    }

    /// Sets the handler of permission requests of the host and of elicitation, sampling and roots
    /// requests of servers. Without a handler, calls that no rule allows are denied, and
    /// elicitation and sampling requests are declined.
    pub fn interaction(mut self, interaction: impl Interaction) -> Self {
        self.interaction = Arc::new(interaction);
        self
    }

    /// Adds absolute paths of directories that servers may work in. All servers, remote ones
    /// included, get these directories as roots, in addition to the roots of the
    /// [interaction](Self::interaction). To give each server different roots, implement
    /// [`Interaction::roots`] instead.
    pub fn roots<P: Into<PathBuf>>(mut self, roots: impl IntoIterator<Item = P>) -> Self {
        self.roots.extend(roots.into_iter().map(Into::into));
        self
    }
}

/// Options of connections to servers.
impl HostBuilder {
    /// Sets the client name and version that the host sends to servers in the handshake.
    pub fn client_info(mut self, client_info: Implementation) -> Self {
        self.defaults.client_info = client_info;
        self
    }

    /// Requests log messages of at least this level from servers. Each message becomes an
    /// [event](Host::events) of the host and a `tracing` event, except messages beyond
    /// `Limits::log_messages_per_second`. By default the host requests no log messages, but some
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

    /// Sets the provider of credentials for the remote server with this name. The headers of the
    /// provider replace headers of the same name in the entry. The `headersHelper` of the entry is
    /// not run.
    pub fn auth(mut self, server: impl Into<String>, provider: impl AuthProvider) -> Self {
        let provider = Arc::new(provider);
        self.defaults.auth.insert(server.into(), provider);
        self
    }

    /// Sets the provider of the bearer token of the user's claude.ai account. The host uses the
    /// token only for entries of the type `claudeai-proxy`, and sends it only to the origins of
    /// claude.ai and to [origins that the program added](Self::claude_ai_origins). Without a
    /// provider, servers of this type report that a login is needed.
    #[cfg(feature = "http")]
    pub fn claude_ai_account(mut self, account: impl AuthProvider) -> Self {
        self.defaults.claude_ai_account = Some(Arc::new(account));
        self
    }

    /// Allows the host to send the bearer token of the claude.ai account to the origins of these
    /// URLs. Config files cannot allow further origins.
    #[cfg(feature = "http")]
    pub fn claude_ai_origins<A: AsRef<str>>(mut self, urls: impl IntoIterator<Item = A>) -> Self {
        for url in urls {
            self.defaults.claude_ai_origins.allow(url.as_ref());
        }
        self
    }

    /// Sets a tap that receives a copy of the raw messages between the host and its servers. The
    /// tap gets no messages of in-process servers; see [`WireTap`] for other exceptions.
    pub fn wire_tap(mut self, tap: Arc<dyn WireTap>) -> Self {
        self.defaults.wire_tap = Some(tap);
        self
    }

    /// Sets a function that returns how long the machine was suspended in total since it booted.
    /// The host calls the function every few seconds. If the returned time has grown by at least
    /// two seconds, the host checks the connections to remote servers. The default works on Linux
    /// only; on other systems it always returns zero.
    pub fn suspend_clock(mut self, clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        self.suspend_clock = Arc::new(clock);
        self
    }
}

/// Options of child processes.
impl HostBuilder {
    /// Sets the environment variables from which child processes inherit a few, such as `PATH` and
    /// `HOME`. An entry can request more of them. Most programs pass `std::env::vars()`.
    pub fn environment(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        self.defaults.environment = Arc::new(variables.into_iter().collect());
        self
    }

    /// Sets the working directory of child processes whose entry has no `cwd`. Servers of a project
    /// file run in the directory of that file instead. Default: the current directory.
    pub fn working_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.defaults.working_directory = Some(directory.into());
        self
    }

    /// Sets the id that marks the child processes of this host; see [`process`](crate::process). No
    /// other host may use the same id. Default: a new random id.
    #[cfg(feature = "stdio")]
    pub fn host_id(mut self, host_id: HostId) -> Self {
        self.host_id = host_id;
        self
    }

    /// Makes the host reap orphaned descendants of its child processes too. This affects the whole
    /// process of the program; see [`Subreaper`].
    #[cfg(feature = "stdio")]
    pub fn subreaper(mut self, subreaper: Subreaper) -> Self {
        self.subreaper = Some(subreaper);
        self
    }

    /// Makes the host start a guardian process together with its first child process. If the
    /// process of the program is killed, the guardian kills the child processes.
    #[cfg(feature = "stdio")]
    pub fn guardian(mut self, guardian: Guardian) -> Self {
        self.guardian = Some(guardian);
        self
    }

    /// Sets how many child processes start at the same time. The others wait until a server has
    /// completed its handshake, or has been starting for 5 seconds. Default: twice the number of
    /// cores.
    pub fn start_concurrency(mut self, servers: NonZeroUsize) -> Self {
        self.start_concurrency = servers;
        self
    }

    /// Sets who uses the host: a person on their own machine, or the users of a shared server. With
    /// [`Profile::Server`], the host never starts a child process, even if an entry has a command,
    /// treats all config entries as lazy, and ignores [`Self::interaction`] and [`Self::roots`].
    pub fn profile(mut self, profile: Profile) -> Self {
        self.defaults.profile = profile;
        self
    }
}

/// Setting limits, and starting the host.
impl HostBuilder {
    /// Sets the maximum sizes and counts, for example of messages and of calls in flight.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the time limits of connections, calls and child processes.
    pub fn deadlines(mut self, deadlines: Deadlines) -> Self {
        self.deadlines = deadlines;
        self
    }

    /// Sets the store for binary data of resources and for the full text of truncated results.
    /// Without a store, both are discarded.
    pub fn result_store(mut self, store: impl ResultStore + 'static) -> Self {
        self.result_store = Some(Arc::new(store));
        self
    }

    /// Starts the host and its servers. Returns without waiting until the servers are connected;
    /// see [`Host::wait_for`]. Lazy servers start with their first call.
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
            start_slots: Arc::new(StartSlots::new(self.start_concurrency)),
            state,
        };
        for server in self.servers {
            inner.add_pending(server)?;
        }
        Ok(Host {
            inner: Arc::new(inner),
        })
    }

    /// Stores an error for [`Self::start`]. Does nothing if an error is already stored.
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
                let is_from_file = !matches!(launch.scope(), Scope::Dynamic | Scope::ClaudeAi);
                let entry = is_from_file.then(|| FileEntry::Launched(launch));
                (name, spec, entry)
            }
            PendingServer::Custom(name, endpoint) => {
                let spec = self.spec_for_custom_transport(&name, endpoint, sequence);
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

/// The [`Interaction`] that [`HostBuilder::can_use_tool`] sets.
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
