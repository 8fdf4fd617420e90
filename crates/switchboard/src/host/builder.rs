//! How a host is put together.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use switchboard_config::{
    HostConfig, InvalidServerName, LaunchSpec, Profile, Scope, ServerEntry, Trust,
};
use switchboard_process::{
    Guardian, HostId, ProcessSupervisor, Spawning, Subreaper, SupervisorOptions,
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::reconcile::Filed;
use super::site::{Retries, Sites};
use super::suspend::{self, Asleep};
use super::{Host, ServerError, Servers, Shared};
use crate::auth::AuthProvider;
use crate::budget::Budget;
use crate::cache::{InMemoryServerCache, ServerCache};
use crate::catalog::Publisher;
use crate::content::result_store::ResultStore;
use crate::event::EventSink;
use crate::id::ServerName;
use crate::interact::{Interaction, NoInteraction, WithFolders};
use crate::limits::{Deadlines, Limits};
use crate::mcp::{Implementation, LogLevel};
use crate::network::Network;
use crate::permission::{Policy, Rule};
use crate::server::connect::Endpoint;
use crate::server::spacing::Spacing;
use crate::sync::{Apart, lock};
use crate::telemetry::WireTap;
use crate::transport::Connector;
use crate::transport::environment::Variables;
use crate::transport::memory::{Instances, ServerInstance};
use crate::transport::proxy::AllowedOrigins;
use crate::watch::Watches;

/// Puts a host together. Nothing runs before [`HostBuilder::start`].
///
/// The library reads neither the environment nor the home folder: what children shall inherit is
/// passed in with [`HostBuilder::environment`].
pub struct HostBuilder {
    client: Implementation,
    servers: Vec<Wanted>,
    instances: BTreeMap<String, ServerInstance>,
    rules: Vec<Rule>,
    interaction: Arc<dyn Interaction>,
    folders: Vec<PathBuf>,
    log_level: Option<LogLevel>,
    limits: Limits,
    deadlines: Deadlines,
    variables: Variables,
    directory: Option<PathBuf>,
    memory: Arc<dyn ServerCache>,
    result_store: Option<Arc<dyn ResultStore>>,
    tap: Option<Arc<dyn WireTap>>,
    retries: Retries,
    host_id: HostId,
    subreaper: Option<Subreaper>,
    guardian: Option<Guardian>,
    profile: Profile,
    network: Network,
    asleep: Asleep,
    auth: BTreeMap<String, Arc<dyn AuthProvider>>,
    claude_ai: Option<Arc<dyn AuthProvider>>,
    claude_ai_origins: AllowedOrigins,
}

enum Wanted {
    Entry(Box<ServerEntry>, Trust),
    Launch(Box<LaunchSpec>),
    Provided(String, Endpoint),
    InProcess(String, ServerInstance),
}

/// Why a host was not started.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Two servers have the same name.
    #[error("there are two servers of the name {0}")]
    NameTaken(ServerName),
    /// That is no name for a server.
    #[error(transparent)]
    InvalidName(#[from] InvalidServerName),
}

impl Default for HostBuilder {
    fn default() -> Self {
        Self {
            client: Implementation::new("switchboard", env!("CARGO_PKG_VERSION")),
            servers: Vec::new(),
            instances: BTreeMap::new(),
            rules: Vec::new(),
            interaction: Arc::new(NoInteraction),
            folders: Vec::new(),
            log_level: None,
            limits: Limits::default(),
            deadlines: Deadlines::default(),
            variables: Variables::new(),
            directory: None,
            memory: Arc::new(InMemoryServerCache::default()),
            result_store: None,
            tap: None,
            retries: Retries::ByPolicy,
            host_id: HostId::new(),
            subreaper: None,
            guardian: None,
            profile: Profile::Local,
            network: Network::default(),
            asleep: Arc::new(suspend::by_the_clocks),
            auth: BTreeMap::new(),
            claude_ai: None,
            claude_ai_origins: AllowedOrigins::default(),
        }
    }
}

impl HostBuilder {
    /// Who servers are told they talk to.
    pub fn client_info(mut self, client: Implementation) -> Self {
        self.client = client;
        self
    }

    /// The entries of config files. What `trust` does not cover waits for approval and does not run.
    pub fn config(mut self, config: HostConfig, trust: &Trust) -> Self {
        let entries = config.servers.into_iter();
        self.servers
            .extend(entries.map(|entry| Wanted::Entry(Box::new(entry), trust.clone())));
        self
    }

    /// A server that has consent to run already.
    pub fn launch(mut self, spec: LaunchSpec) -> Self {
        self.servers.push(Wanted::Launch(Box::new(spec)));
        self
    }

    /// A server that lives in this process.
    pub fn in_process_server(
        mut self,
        name: impl Into<String>,
        server: impl Into<ServerInstance>,
    ) -> Self {
        self.servers
            .push(Wanted::InProcess(name.into(), server.into()));
        self
    }

    /// Provides a server of this process for entries of the type `sdk` that name it, those of
    /// [config files](Self::config) as well as [`ServerConfig::sdk`](switchboard_config::ServerConfig::sdk).
    /// Nothing is connected to it before there is such an entry; see also [`Host::register_sdk_server`].
    pub fn sdk_server(
        mut self,
        name: impl Into<String>,
        server: impl Into<ServerInstance>,
    ) -> Self {
        self.instances.insert(name.into(), server.into());
        self
    }

    /// A server at the other end of a stream of bytes.
    pub fn connector(mut self, name: impl Into<String>, dial: impl Connector) -> Self {
        let endpoint = Endpoint::Stream(Arc::new(dial));
        self.servers.push(Wanted::Provided(name.into(), endpoint));
        self
    }

    /// Adds a permission rule. Without any, every call is asked about.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Adds permission rules.
    pub fn rules(mut self, rules: impl IntoIterator<Item = Rule>) -> Self {
        self.rules.extend(rules);
        self
    }

    /// Who answers questions. Without anybody, what would be asked is denied.
    pub fn interaction(mut self, interaction: impl Interaction) -> Self {
        self.interaction = Arc::new(interaction);
        self
    }

    /// Asks servers to send what they log from this level on, as [events](Host::events) and to
    /// `tracing`. Without it none is asked; some send what they like.
    pub fn server_log_level(mut self, level: LogLevel) -> Self {
        self.log_level = Some(level);
        self
    }

    /// Folders that servers are told they may work in (roots), by their absolute paths, besides those
    /// that the [interaction](Self::interaction) has. Servers behind a URL are told, too: an interaction
    /// of your own can tell servers apart ([`Interaction::offers_to`]).
    pub fn roots<P: Into<PathBuf>>(mut self, folders: impl IntoIterator<Item = P>) -> Self {
        self.folders.extend(folders.into_iter().map(Into::into));
        self
    }

    /// Bounds on size and count.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Bounds on time.
    pub fn deadlines(mut self, deadlines: Deadlines) -> Self {
        self.deadlines = deadlines;
        self
    }

    /// The variables from which children inherit a short list (`PATH`, `HOME`, …). A program that
    /// wants its children to find their way passes `std::env::vars()`.
    pub fn environment(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        self.variables = variables.into_iter().collect();
        self
    }

    /// Where children without a `cwd` of their own work; otherwise in the current directory.
    pub fn working_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// What is remembered of servers from one start to the next.
    pub fn server_cache(mut self, memory: impl ServerCache) -> Self {
        self.memory = Arc::new(memory);
        self
    }

    /// Where the whole of a result is kept when it was too long to be handed over.
    pub fn result_store(mut self, result_store: impl ResultStore + 'static) -> Self {
        self.result_store = Some(Arc::new(result_store));
        self
    }

    /// Who sees the traffic.
    pub fn wire_tap(mut self, tap: Arc<dyn WireTap>) -> Self {
        self.tap = Some(tap);
        self
    }

    /// A server that fails is not tried again: for programs that do one thing and leave.
    pub fn no_reconnect(mut self) -> Self {
        self.retries = Retries::Never;
        self
    }

    /// The id that marks the children of this host; see [`process`](crate::process). Must be unique.
    /// Default: a new random id.
    pub fn host_id(mut self, host_id: HostId) -> Self {
        self.host_id = host_id;
        self
    }

    /// Finds and ends orphaned descendants, too. Only for programs whose only children are those of
    /// the host; see [`Subreaper`].
    pub fn subreaper(mut self, subreaper: Subreaper) -> Self {
        self.subreaper = Some(subreaper);
        self
    }

    /// Starts a guardian process before the first child. It ends the children if this process is
    /// killed.
    pub fn guardian(mut self, guardian: Guardian) -> Self {
        self.guardian = Some(guardian);
        self
    }

    /// How remote servers are reached: proxies, and certificates to trust.
    pub fn network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// How long the machine has slept since it was started, asked every few seconds: when it has,
    /// remote servers are looked after at once. Without this, the clocks of Linux are asked.
    pub fn suspend_clock(mut self, asleep: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        self.asleep = Arc::new(asleep);
        self
    }

    /// For whom the host runs. With [`Profile::Server`] nothing external is ever executed, wherever an
    /// entry comes from, and nobody is asked: whatever [`Self::interaction`] was given is not consulted.
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Who authorizes requests to the remote server of this name. Its headers win over those of the
    /// entry; a `headersHelper` of the entry is not run.
    pub fn auth(mut self, server: impl Into<String>, provider: impl AuthProvider) -> Self {
        self.auth.insert(server.into(), Arc::new(provider));
        self
    }

    /// Who provides the bearer of the user's claude.ai account. It goes to entries of the type
    /// `claudeai-proxy` alone, and only to claude.ai itself. Without it they need a login.
    pub fn claude_ai_account(mut self, account: impl AuthProvider) -> Self {
        self.claude_ai = Some(Arc::new(account));
        self
    }

    /// Further addresses whose origins may be shown the bearer of the claude.ai account. No file can
    /// add any.
    pub fn claude_ai_origins<A: AsRef<str>>(
        mut self,
        addresses: impl IntoIterator<Item = A>,
    ) -> Self {
        for address in addresses {
            self.claude_ai_origins.allow(address.as_ref());
        }
        self
    }

    /// Starts all servers at once and comes back without waiting for any of them; see
    /// [`Host::wait_for`].
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, and later in one whose drivers for I/O and time are not enabled.
    pub fn start(self) -> Result<Host, StartError> {
        let limits = Arc::new(self.limits.within_reason());
        let events = EventSink::new(limits.event_backlog);
        let (awake, slept) = tokio::sync::watch::channel(0);
        let children = ProcessSupervisor::new(SupervisorOptions {
            host: self.host_id,
            subreaper: self.subreaper,
            guardian: self.guardian,
            spawning: match self.profile {
                Profile::Server => Spawning::Disabled,
                Profile::Local => Spawning::Allowed,
            },
        });
        let shared = Shared {
            handles: super::ArcSwap::default(),
            servers: super::Mutex::new(Servers::default()),
            catalog: Arc::new(Publisher::new(events.clone())),
            policy: super::ArcSwap::from_pointee(Policy::new(self.rules)),
            interaction: match self.profile {
                Profile::Local if self.folders.is_empty() => self.interaction,
                Profile::Local => Arc::new(WithFolders::new(&self.folders, self.interaction)),
                Profile::Server => Arc::new(NoInteraction),
            },
            permits: Apart(Semaphore::new(limits.calls_in_flight)),
            budget: Budget::new(limits.memory_bytes),
            watches: Watches::new(limits.watches, events.clone()),
            limits,
            deadlines: self.deadlines.within_reason(),
            events,
            result_store: self.result_store,
            next_call: super::AtomicU64::new(1),
            sites: Sites {
                client: self.client,
                variables: Arc::new(self.variables),
                directory: self.directory,
                memory: self.memory,
                tap: self.tap,
                log_level: self.log_level,
                retries: self.retries,
                host_profile: self.profile,
                network: Arc::new(self.network),
                slept,
                spacing: Arc::new(Spacing::new()),
                children: children.clone(),
                instances: Arc::new(Instances::new(self.instances)),
                auth: self.auth,
                claude_ai: self.claude_ai,
                claude_ai_origins: self.claude_ai_origins,
            },
            changing: tokio::sync::Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            children,
        };
        shared
            .children
            .spawn_orphan_reaper(&shared.tasks, shared.stop.clone());
        let watching = suspend::watch(self.asleep, awake, shared.stop.clone());
        shared.tasks.spawn(watching);
        for wanted in self.servers {
            add(&shared, wanted)?;
        }
        Ok(Host::new(shared))
    }
}

fn add(host: &Shared, wanted: Wanted) -> Result<(), StartError> {
    let servers = &mut lock(&host.servers);
    let outcome = match wanted {
        Wanted::Entry(entry, trust) => {
            let admission = entry.decide_launch(&trust);
            let server = host.add(servers, entry.name(), |sites, place| {
                sites.entry(&entry, &admission, place)
            });
            if server.is_ok() {
                let filed = Filed::from(admission);
                servers.filed.insert(entry.name().clone(), filed);
            }
            server
        }
        Wanted::Launch(spec) => {
            let server = host.add(servers, spec.name(), |sites, place| {
                sites.launched(&spec, place)
            });
            if server.is_ok() && spec.scope() != Scope::Dynamic {
                let filed = Filed::Launched(spec.clone());
                servers.filed.insert(spec.name().clone(), filed);
            }
            server
        }
        Wanted::Provided(name, endpoint) => {
            let name = ServerName::new(name)?;
            host.add(servers, &name, |sites, place| {
                sites.provided(&name, endpoint, place)
            })
        }
        Wanted::InProcess(name, instance) => {
            let name = ServerName::new(name)?;
            host.add(servers, &name, |sites, place| {
                sites.spec_for_in_process(&name, instance, place)
            })
        }
    };
    match outcome {
        Err(ServerError::NameTaken(name)) => Err(StartError::NameTaken(name)),
        // The host was made a moment ago: nothing else can go wrong with it.
        _ => Ok(()),
    }
}

impl std::fmt::Debug for HostBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostBuilder")
            .field("servers", &self.servers.len())
            .finish_non_exhaustive()
    }
}
