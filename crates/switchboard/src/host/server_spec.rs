//! Turns a config entry, a connector or an in-process server into a [`ServerSpec`], and spawns the
//! task that owns the server.
//!
//! Invariant: an entry that is invalid, rejected or not yet approved gets [`ServerEndpoint::None`],
//! so that the host cannot start it or connect to it.

#[cfg(feature = "http")]
pub(super) mod remote;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use switchboard_client::CurrentStage;
use switchboard_client::auth::AuthProvider;
use switchboard_client::connect::ClientContext;
#[cfg(feature = "http")]
use switchboard_client::http::Network;
use switchboard_client::question_limit::QuestionLimits;
use switchboard_client::session::SessionContext;
#[cfg(feature = "http")]
use switchboard_client::session::http::Health;
use switchboard_client::wire_tap::WireTap;
use switchboard_config::{
    InheritEnv, LaunchDecision, LaunchSpec, MaskedEntry, PinnedProgram, Profile, Scope, Secret,
    ServerEntry, SourcePos, StdioConfig, TransportConfig, secrets_in_arguments,
    secrets_in_variable,
};
use switchboard_wire::ServerInstance;
use switchboard_wire::mcp::{Implementation, LogLevel};
use switchboard_wire::redact::Redactor;

use super::HostInner;
use super::client_handler::HostClientHandler;
use crate::cache::{InMemoryServerCache, ServerCache, server_cache_key};
use crate::catalog::ServerKey;
#[cfg(feature = "http")]
use crate::host::claude_ai_proxy::TokenOrigins;
use crate::id::ServerName;
use crate::limits::{Deadlines, MAX_COUNT};
use crate::server::backoff::{Backoff, RetryPolicy};
use crate::server::connect::{ConnectSetup, ServerEndpoint};
use crate::server::environment::{Variables, is_inherited};
use crate::server::sdk_servers::SdkServers;
use crate::server::state::{FailureReason, Phase};
use crate::server::{EntryDescription, InitialState, ServerHandle, ServerSettings};
use crate::status::TransportKind;

/// The options of [`HostBuilder`](crate::HostBuilder) that apply to all servers of a host.
pub(super) struct ServerDefaults {
    /// The client name and version that the host sends in the handshake.
    pub(super) client_info: Implementation,
    /// The environment variables from which child processes inherit a few.
    pub(super) environment: Arc<Variables>,
    /// The working directory of child processes whose entry has no `cwd`. If `None`, these child
    /// processes use the working directory of this process.
    pub(super) working_directory: Option<PathBuf>,
    pub(super) server_cache: Arc<dyn ServerCache>,
    pub(super) wire_tap: Option<Arc<dyn WireTap>>,
    /// The minimum level of the log messages that the host requests. If `None`, the host requests
    /// no log messages.
    pub(super) log_level: Option<LogLevel>,
    pub(super) retry_mode: RetryMode,
    pub(super) profile: Profile,
    #[cfg(feature = "http")]
    pub(super) network: Arc<Network>,
    /// The in-process servers that entries of the type `sdk` refer to by name.
    pub(super) sdk_servers: Arc<SdkServers>,
    /// The providers of credentials that the program set, by server name.
    pub(super) auth: BTreeMap<String, Arc<dyn AuthProvider>>,
    /// The provider of the bearer token of the claude.ai account.
    #[cfg(feature = "http")]
    pub(super) claude_ai_account: Option<Arc<dyn AuthProvider>>,
    /// The origins that may receive the token of the claude.ai account.
    #[cfg(feature = "http")]
    pub(super) claude_ai_origins: TokenOrigins,
}

impl Default for ServerDefaults {
    fn default() -> Self {
        Self {
            client_info: Implementation::new("switchboard", env!("CARGO_PKG_VERSION")),
            environment: Arc::default(),
            working_directory: None,
            server_cache: Arc::new(InMemoryServerCache::default()),
            wire_tap: None,
            log_level: None,
            retry_mode: RetryMode::Reconnect,
            profile: Profile::Local,
            #[cfg(feature = "http")]
            network: Arc::default(),
            sdk_servers: Arc::new(SdkServers::new(BTreeMap::new())),
            auth: BTreeMap::new(),
            #[cfg(feature = "http")]
            claude_ai_account: None,
            #[cfg(feature = "http")]
            claude_ai_origins: TokenOrigins::default(),
        }
    }
}

/// Whether the host reconnects a server whose connection failed or was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryMode {
    /// Reconnects with increasing delays, at most as often as the entry of the server allows.
    Reconnect,
    Never,
}

/// Everything that is needed to spawn the task that owns a server.
pub(super) struct ServerSpec {
    settings: ServerSettings,
    endpoint: ServerEndpoint,
    /// The initial phase of the server. Only `Phase::Starting` connects at once.
    phase: Phase,
    /// The startup timeout in the entry. If `None`, the startup timeout of the host applies.
    startup_timeout: Option<Duration>,
    retries: RetryPolicy,
    cache_key: Option<String>,
    working_directory: Option<PathBuf>,
    /// The server of the same name that this server replaces. This server starts when the replaced
    /// server has stopped.
    replaces: Option<Arc<ServerHandle>>,
    /// The program that the user approved, to be verified before it is started. `None` if the
    /// approval does not depend on the content of a program.
    approved_program: Option<PinnedProgram>,
}

impl HostInner {
    /// Creates the spec of a server from an approved entry. If the entry is not disabled but cannot
    /// be used, the initial phase of the server is `Failed`.
    pub(super) fn spec_for_launch(&self, spec: &LaunchSpec, sequence: u64) -> ServerSpec {
        let config = spec.config();
        let defaults = &self.defaults;
        let (endpoint, problem) = match self.endpoint(spec) {
            Ok(endpoint) => (endpoint, None),
            Err(problem) => (ServerEndpoint::None, Some(problem)),
        };
        let is_lazy = config.lazy || defaults.profile == Profile::Server;
        let phase = match (defaults.profile.check(config), problem) {
            _ if config.disabled => Phase::Off {
                reason: disabled_reason(spec.disabled_by(), spec.enable_hint()),
            },
            // The profile does not allow this entry. The process supervisor would reject it too,
            // but only when it starts a child. Failing here puts the reason into the status.
            (Err(ban), _) => Phase::Failed(FailureReason {
                error: ban.to_string(),
                hint: None,
            }),
            (Ok(()), Some(problem)) => Phase::Failed(problem),
            (Ok(()), None) if is_lazy => Phase::Dormant,
            (Ok(()), None) => Phase::Starting,
        };
        ServerSpec {
            settings: ServerSettings {
                name: spec.name().clone(),
                sequence,
                transport: TransportKind::of_entry_type(config.transport.kind_name()),
                description: EntryDescription {
                    scope: spec.scope(),
                    entry: Some(spec.masked_entry().clone()),
                },
                call_timeout: clamp_timeout(config.call_timeout),
                max_calls: config
                    .max_concurrent_calls
                    .map(|max| max.get().min(MAX_COUNT)),
                trusts_annotations: config.trust_annotations,
            },
            endpoint,
            phase,
            retries: defaults.retry_policy(config.reconnect.max_attempts),
            startup_timeout: clamp_timeout(config.startup_timeout),
            cache_key: server_cache_key(spec, defaults.working_directory.as_deref()),
            working_directory: project_directory(spec),
            replaces: None,
            approved_program: spec.pinned_program().cloned(),
        }
    }

    /// Creates the spec of a server from an entry of a config file. If `decision` does not allow
    /// the launch, the server has no endpoint, and its phase says why.
    pub(super) fn spec_for_entry(
        &self,
        entry: &ServerEntry,
        decision: &LaunchDecision,
        sequence: u64,
    ) -> ServerSpec {
        let phase = match decision {
            LaunchDecision::Launch(spec) => return self.spec_for_launch(spec, sequence),
            // The status of a disabled entry is "disabled", even if it is also not approved or
            // invalid.
            _ if entry.is_disabled() => Phase::Off {
                reason: disabled_reason(entry.disabled_by(), entry.enable_hint()),
            },
            LaunchDecision::AwaitingApproval { reason, hint } => Phase::AwaitingApproval {
                reason: *reason,
                hint: hint.clone(),
            },
            LaunchDecision::Refused(refusal) => Phase::Failed(FailureReason {
                error: refusal.to_string(),
                hint: Some(refusal.hint()),
            }),
            LaunchDecision::Invalid(problem) => Phase::Failed(FailureReason {
                error: problem.message.clone(),
                hint: problem.hint.clone(),
            }),
        };
        let transport = entry
            .kind_name()
            .map_or(TransportKind::Unknown, TransportKind::of_entry_type);
        let mut settings = default_settings(entry.name(), sequence, transport, entry.scope());
        settings.description = describe_entry(entry);
        self.default_spec(settings, ServerEndpoint::None, phase)
    }

    /// Creates the spec of a server with a custom transport.
    pub(super) fn spec_for_custom_transport(
        &self,
        name: &ServerName,
        endpoint: ServerEndpoint,
        sequence: u64,
    ) -> ServerSpec {
        let mut settings = default_settings(name, sequence, TransportKind::Stream, Scope::Dynamic);
        settings.description.entry = Some(MaskedEntry::from_json(&json!({"type": "stream"})));
        self.default_spec(settings, endpoint, Phase::Starting)
    }

    /// Creates the spec of an in-process server.
    pub(super) fn spec_for_instance(
        &self,
        name: &ServerName,
        instance: ServerInstance,
        sequence: u64,
    ) -> ServerSpec {
        let mut settings = default_settings(name, sequence, TransportKind::Sdk, Scope::Dynamic);
        let entry = json!({"type": "sdk", "name": name});
        settings.description.entry = Some(MaskedEntry::from_json(&entry));
        self.default_spec(
            settings,
            ServerEndpoint::InProcess(instance),
            Phase::Starting,
        )
    }

    fn default_spec(
        &self,
        settings: ServerSettings,
        endpoint: ServerEndpoint,
        phase: Phase,
    ) -> ServerSpec {
        ServerSpec {
            settings,
            endpoint,
            phase,
            startup_timeout: None,
            retries: self.defaults.retry_policy(None),
            cache_key: None,
            working_directory: None,
            replaces: None,
            approved_program: None,
        }
    }

    /// Returns the endpoint of an approved entry, or why the host cannot connect to it.
    fn endpoint(&self, spec: &LaunchSpec) -> Result<ServerEndpoint, FailureReason> {
        match &spec.config().transport {
            #[cfg(feature = "stdio")]
            TransportConfig::Stdio(stdio) => Ok(ServerEndpoint::Stdio(stdio.clone())),
            #[cfg(feature = "http")]
            TransportConfig::Remote(config) => self.remote_endpoint(spec, config),
            #[cfg(feature = "http")]
            TransportConfig::ClaudeAiProxy { url, id } => self.claude_ai_endpoint(url, id),
            TransportConfig::Sdk { name } => Ok(ServerEndpoint::Sdk {
                name: name.clone(),
                servers: Arc::clone(&self.defaults.sdk_servers),
            }),
            #[cfg(not(feature = "stdio"))]
            TransportConfig::Stdio(_) => Err(missing_feature("stdio")),
            #[cfg(not(feature = "http"))]
            TransportConfig::Remote(_) | TransportConfig::ClaudeAiProxy { .. } => {
                Err(missing_feature("http"))
            }
            _ => Ok(ServerEndpoint::None),
        }
    }
}

impl ServerDefaults {
    fn retry_policy(&self, max_attempts: Option<u32>) -> RetryPolicy {
        match self.retry_mode {
            RetryMode::Reconnect => RetryPolicy {
                max_attempts,
                ..RetryPolicy::default()
            },
            RetryMode::Never => RetryPolicy::never(),
        }
    }

    /// Returns the tools of a dormant server from the server cache. `None` for other servers.
    fn cached_tools(&self, spec: &ServerSpec) -> Option<Vec<crate::mcp::ToolDefinition>> {
        let key = spec.cache_key.as_deref()?;
        let is_dormant = spec.phase == Phase::Dormant;
        is_dormant.then(|| self.server_cache.tools(key)).flatten()
    }
}

impl ServerSpec {
    /// Makes the server start only when `previous` has stopped.
    pub(super) fn replacing(mut self, previous: &Arc<ServerHandle>) -> Self {
        self.replaces = Some(Arc::clone(previous));
        self
    }

    pub(super) fn key(&self) -> ServerKey {
        self.settings.key()
    }

    /// Whether the current status of `server` equals the initial status of the server that this
    /// spec describes.
    pub(super) fn has_same_status(&self, server: &ServerHandle) -> bool {
        let settings = server.settings();
        self.phase == server.state().phase
            && self.settings.transport == settings.transport
            && self.settings.description == *server.description()
    }

    /// Spawns the task that owns the server. Puts the cached tools of a dormant server into the
    /// catalog first.
    pub(super) fn spawn(self, host: &HostInner) -> Arc<ServerHandle> {
        let HostInner {
            state, defaults, ..
        } = host;
        let cached_tools = defaults.cached_tools(&self);
        let tools_unknown = self.phase == Phase::Dormant && cached_tools.is_none();
        if let Some(tools) = cached_tools {
            state.catalog.set_tools(&self.key(), tools, true);
        }
        let session = self.session_context(host);
        let mut deadlines = state.deadlines.clone();
        deadlines.startup = self.startup_timeout.unwrap_or(deadlines.startup);
        let setup = ConnectSetup {
            endpoint: self.endpoint,
            client: ClientContext {
                session,
                deadlines,
                #[cfg(feature = "stdio")]
                supervisor: host.children.clone(),
                stage: CurrentStage::default(),
                tasks: state.tasks.clone(),
                #[cfg(feature = "http")]
                network: Arc::clone(&defaults.network),
                #[cfg(feature = "http")]
                health: Health {
                    idle: state.deadlines.ping_after_idle,
                    deadline: state.deadlines.ping_timeout,
                    resumed: host.resumed.clone(),
                },
            },
            environment: Arc::clone(&defaults.environment),
            working_directory: (self.working_directory)
                .or_else(|| defaults.working_directory.clone()),
            approved_program: self.approved_program,
            server_cache: Arc::clone(&defaults.server_cache),
            cache_key: self.cache_key,
            stop: state.stop.child_token(),
            resumed: host.resumed.clone(),
            retry_slots: Arc::clone(&host.retry_slots),
            start_slots: Arc::clone(&host.start_slots),
        };
        Arc::new(ServerHandle::spawn_for_host(
            self.settings,
            setup,
            InitialState {
                phase: self.phase,
                tools_unknown,
                replaces: self.replaces,
            },
            Backoff::new(self.retries),
            Arc::clone(&state.catalog),
            state.events.clone(),
            state.limits.calls_per_server,
        ))
    }

    fn session_context(&self, host: &HostInner) -> SessionContext {
        let HostInner {
            state, defaults, ..
        } = host;
        let server = &self.settings.name;
        SessionContext {
            server: server.clone(),
            limits: Arc::clone(&state.limits),
            budget: host.budget.clone(),
            client: defaults.client_info.clone(),
            handler: Arc::new(HostClientHandler {
                server: server.clone(),
                interaction: Arc::clone(&state.interaction),
                events: state.events.clone(),
            }),
            question_limits: Arc::new(QuestionLimits::new(&state.limits)),
            log_level: defaults.log_level,
            tap: defaults.wire_tap.clone(),
            redactor: match &self.endpoint {
                #[cfg(feature = "stdio")]
                ServerEndpoint::Stdio(config) => stdio_redactor(config, &defaults.environment),
                #[cfg(feature = "http")]
                ServerEndpoint::Http(endpoint) => endpoint.redactor.clone(),
                _ => Redactor::default(),
            },
        }
    }
}

/// The settings of a server that has no config entry or whose entry is not launched.
fn default_settings(
    name: &ServerName,
    sequence: u64,
    transport: TransportKind,
    scope: Scope,
) -> ServerSettings {
    ServerSettings {
        name: name.clone(),
        sequence,
        transport,
        description: EntryDescription { scope, entry: None },
        call_timeout: None,
        max_calls: None,
        trusts_annotations: false,
    }
}

/// Says where a server was disabled. If a settings file disabled it, also says how to enable it.
fn disabled_reason(by_settings: Option<&SourcePos>, enable_hint: Option<&str>) -> String {
    match (by_settings, enable_hint) {
        (None, _) => "disabled in its entry".to_owned(),
        (Some(origin), None) => format!("disabled by {origin}"),
        (Some(origin), Some(hint)) => format!("disabled by {origin}; to enable it: {hint}"),
    }
}

/// The failure of an entry whose transport needs a Cargo feature that is not enabled.
#[cfg(not(all(feature = "http", feature = "stdio")))]
fn missing_feature(feature: &str) -> FailureReason {
    FailureReason {
        error: format!("this program was built without the feature `{feature}`"),
        hint: Some(format!(
            "build it with the feature `{feature}` of the crate `switchboard`"
        )),
    }
}

fn clamp_timeout(timeout: Option<Duration>) -> Option<Duration> {
    timeout.map(|timeout| timeout.min(Deadlines::MAX))
}

/// The scope of an entry and its JSON with masked secrets, for the status.
pub(super) fn describe_entry(entry: &ServerEntry) -> EntryDescription {
    EntryDescription {
        scope: entry.scope(),
        entry: Some(entry.masked_entry().clone()),
    }
}

/// Returns the directory of the project config file that contains the entry. The host runs the
/// server in this directory, unless the entry sets `cwd`. `None` for entries of other scopes.
pub(super) fn project_directory(spec: &LaunchSpec) -> Option<PathBuf> {
    let file = spec
        .origin()
        .file
        .as_ref()
        .filter(|_| spec.scope() == Scope::Project)?;
    file.parent().map(Path::to_owned)
}

/// Creates a redactor for the secrets that a child process gets: all values of `env`, all variables
/// that `inheritEnv` names, and what looks like a secret in the arguments and in other inherited
/// variables.
fn stdio_redactor(config: &StdioConfig, host_env: &Variables) -> Redactor {
    let own = config.env.values().map(|value| value.expose().to_owned());
    let named = match &config.inherit_env {
        InheritEnv::Also(names) => names.as_slice(),
        _ => &[],
    };
    let inherited = host_env
        .iter()
        .filter(|(name, _)| is_inherited(name, &config.inherit_env));
    let inherited = inherited.flat_map(|(name, value)| {
        if named.contains(name) {
            vec![Secret::from(value.as_str())]
        } else {
            secrets_in_variable(name, value)
        }
    });
    let in_arguments = secrets_in_arguments(&config.args).into_iter();
    let detected = inherited.chain(in_arguments);
    Redactor::new(own.chain(detected.map(|secret| secret.expose().to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inherited_secrets_are_masked() {
        let mut config = StdioConfig::new("x");
        let secret = "correct-horse-battery";
        let names = [
            "AWS_SECRET_ACCESS_KEY",
            "npm_config__authToken",
            "PATH",
            "PLAIN",
        ];
        let is_masked = |config: &StdioConfig, name: &str| {
            let host_env: Variables = names
                .iter()
                .map(|name| ((*name).to_owned(), format!("{name}-{secret}")))
                .collect();
            let redactor = stdio_redactor(config, &host_env);
            redactor.redact(&format!("{name}-{secret}")) == "***"
        };
        let masked = |config: &StdioConfig| names.map(|name| is_masked(config, name));
        assert_eq!(masked(&config), [false, true, false, false]);
        config.inherit_env = InheritEnv::All;
        assert_eq!(masked(&config), [true, true, false, false]);
        config.inherit_env = InheritEnv::Also(vec!["PLAIN".to_owned()]);
        assert_eq!(masked(&config), [false, true, false, true]);
    }
}
