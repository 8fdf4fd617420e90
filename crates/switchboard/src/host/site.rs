//! From an entry to everything that its owner needs.

mod remote;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use switchboard_config::{
    InheritEnv, LaunchDecision, LaunchSpec, PinnedProgram, Profile as HostProfile, Scope, Secret,
    ServerEntry, SourcePos, TransportConfig, secrets_in_arguments, secrets_in_variable,
};
use switchboard_process::ProcessSupervisor;

use super::Shared;
use super::server_events::InteractionHandler;
use crate::auth::AuthProvider;
use crate::cache::{ServerCache, server_cache_key};
use crate::catalog::Stand;
use crate::id::ServerName;
use crate::interact::Turns;
use crate::limits::{Deadlines, MOST};
use crate::mcp::{Implementation, LogLevel};
use crate::network::Network;
use crate::server::backoff::{Backoff, Policy as RetryPolicy};
use crate::server::connect::{Endpoint, Site};
use crate::server::spacing::Spacing;
use crate::server::state::{Failure, Phase};
use crate::server::{Beginning, Described, Profile, ServerHandle};
use crate::session::SessionContext;
use crate::session::http::Health;
use crate::telemetry::{Redactor, WireTap};
use crate::transport::environment::{Variables, is_inherited};
use crate::transport::memory::{Instances, ServerInstance};
use crate::transport::proxy::AllowedOrigins;

/// What all servers of a host have in common.
pub(crate) struct Sites {
    pub(super) client: Implementation,
    pub(super) variables: Arc<Variables>,
    pub(super) directory: Option<PathBuf>,
    pub(super) memory: Arc<dyn ServerCache>,
    pub(super) tap: Option<Arc<dyn WireTap>>,
    pub(super) log_level: Option<LogLevel>,
    pub(super) retries: Retries,
    pub(super) host_profile: HostProfile,
    pub(super) network: Arc<Network>,
    /// Changes whenever the machine has slept.
    pub(super) slept: tokio::sync::watch::Receiver<u64>,
    /// When servers are tried again.
    pub(super) spacing: Arc<Spacing>,
    pub(super) children: ProcessSupervisor,
    /// The servers that entries of the type `sdk` ask for by name.
    pub(super) instances: Arc<Instances>,
    /// Who authorizes requests to the server of this name.
    pub(super) auth: BTreeMap<String, Arc<dyn AuthProvider>>,
    /// Who provides the bearer of the claude.ai account, and who may be shown it.
    pub(super) claude_ai: Option<Arc<dyn AuthProvider>>,
    pub(super) claude_ai_origins: AllowedOrigins,
}

/// Whether servers that went away come back by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retries {
    ByPolicy,
    Never,
}

/// A server that is described but not yet started.
pub(crate) struct Plot {
    profile: Profile,
    endpoint: Endpoint,
    phase: Phase,
    /// The entry's own limit for a start.
    startup: Option<Duration>,
    retries: RetryPolicy,
    server_cache_key: Option<String>,
    directory: Option<PathBuf>,
    predecessor: Option<Arc<ServerHandle>>,
    seal: Option<PinnedProgram>,
}

impl Sites {
    /// A server with consent to run.
    pub(super) fn launched(&self, spec: &LaunchSpec, place: u64) -> Plot {
        let config = spec.config();
        let (endpoint, problem) = match self.endpoint(spec) {
            Ok(endpoint) => (endpoint, None),
            Err(problem) => (Endpoint::Withheld, Some(problem)),
        };
        let is_lazy = config.lazy || self.host_profile == HostProfile::Server;
        let phase = match (self.host_profile.check(config), problem) {
            _ if config.disabled => Phase::Off {
                why: switched_off(spec.name(), spec.disabled_by()),
            },
            // Told at once; whoever tries it nevertheless is stopped where processes are started.
            (Err(ban), _) => Phase::Failed(Failure {
                error: ban.to_string(),
                hint: None,
            }),
            (Ok(()), Some(problem)) => Phase::Failed(problem),
            (Ok(()), None) if is_lazy => Phase::Dormant,
            (Ok(()), None) => Phase::Starting,
        };
        Plot {
            profile: Profile {
                name: spec.name().clone(),
                place,
                transport: config.transport.kind_name(),
                described: Described {
                    scope: spec.scope(),
                    written: Some(spec.masked_entry().clone()),
                },
                call_timeout: within_reason(config.call_timeout),
                max_calls: config.max_concurrent_calls.map(|most| most.get().min(MOST)),
                trusts_annotations: config.trust_annotations,
            },
            endpoint,
            phase,
            retries: self.retry_policy(config.reconnect.max_attempts),
            startup: within_reason(config.startup_timeout),
            server_cache_key: server_cache_key(spec, self.directory.as_deref()),
            directory: project_of(spec),
            predecessor: None,
            seal: spec.pinned_program().cloned(),
        }
    }

    /// Where the server is to be found, or why that cannot be told.
    fn endpoint(&self, spec: &LaunchSpec) -> Result<Endpoint, Failure> {
        match &spec.config().transport {
            TransportConfig::Stdio(stdio) => Ok(Endpoint::Stdio(stdio.clone())),
            TransportConfig::Remote(config) => self.remote(spec, config),
            TransportConfig::ClaudeAiProxy { url, id } => self.claude_ai(url, id),
            TransportConfig::Sdk { name } => Ok(Endpoint::Named {
                name: name.clone(),
                instances: Arc::clone(&self.instances),
            }),
            _ => Ok(Endpoint::Withheld),
        }
    }

    /// An entry of a file: launched, or saying why not.
    pub(super) fn entry(
        &self,
        entry: &ServerEntry,
        admission: &LaunchDecision,
        place: u64,
    ) -> Plot {
        let phase = match admission {
            LaunchDecision::Launch(spec) => return self.launched(spec, place),
            // Whoever does not want it has nothing to approve and nothing to mend.
            _ if entry.is_disabled() => Phase::Off {
                why: switched_off(entry.name(), entry.disabled_by()),
            },
            LaunchDecision::AwaitingApproval { reason, hint } => Phase::AwaitingApproval {
                waiting: *reason,
                hint: hint.clone(),
            },
            LaunchDecision::Refused(refusal) => Phase::Failed(Failure {
                error: refusal.to_string(),
                hint: Some(refusal.hint()),
            }),
            LaunchDecision::Invalid(problem) => Phase::Failed(Failure {
                error: problem.message.clone(),
                hint: problem.hint.clone(),
            }),
        };
        let kind = entry.kind_name().unwrap_or("unknown");
        let mut profile = profile(entry.name(), place, kind, entry.scope());
        profile.described = described(entry);
        self.plain(profile, Endpoint::Withheld, phase)
    }

    /// A server that the embedding program provides itself.
    pub(super) fn provided(&self, name: &ServerName, endpoint: Endpoint, place: u64) -> Plot {
        let profile = profile(name, place, endpoint.kind_name(), Scope::Dynamic);
        self.plain(profile, endpoint, Phase::Starting)
    }

    /// The same of one in this process, whichever way it is spoken to.
    pub(super) fn spec_for_in_process(
        &self,
        name: &ServerName,
        instance: ServerInstance,
        place: u64,
    ) -> Plot {
        let profile = profile(name, place, "sdk", Scope::Dynamic);
        self.plain(profile, instance.into(), Phase::Starting)
    }

    fn plain(&self, profile: Profile, endpoint: Endpoint, phase: Phase) -> Plot {
        Plot {
            profile,
            endpoint,
            phase,
            startup: None,
            retries: self.retry_policy(None),
            server_cache_key: None,
            directory: None,
            predecessor: None,
            seal: None,
        }
    }

    fn retry_policy(&self, max_attempts: Option<u32>) -> RetryPolicy {
        match self.retries {
            Retries::ByPolicy => RetryPolicy {
                max_attempts,
                ..RetryPolicy::default()
            },
            Retries::Never => RetryPolicy::never(),
        }
    }
}

impl Plot {
    /// The same server, which takes the place of another.
    pub(super) fn after(mut self, predecessor: &Arc<ServerHandle>) -> Self {
        self.predecessor = Some(Arc::clone(predecessor));
        self
    }

    pub(super) fn stand(&self) -> Stand {
        self.profile.stand()
    }

    /// Whether this is what is to be seen of `server` already.
    pub(super) fn shows_the_same(&self, server: &ServerHandle) -> bool {
        let profile = server.profile();
        self.phase == server.state().phase
            && self.profile.transport == profile.transport
            && self.profile.described == *server.described()
    }

    /// Starts the owner.
    pub(super) fn spawn(self, host: &Shared) -> Arc<ServerHandle> {
        let Self {
            profile,
            endpoint,
            phase,
            startup,
            retries,
            server_cache_key,
            directory,
            predecessor,
            seal,
        } = self;
        let sites = &host.sites;
        let mut deadlines = host.deadlines.clone();
        if let Some(startup) = startup {
            deadlines.startup = startup;
        }
        let context = SessionContext {
            server: profile.name.clone(),
            limits: Arc::clone(&host.limits),
            budget: host.budget.clone(),
            client: sites.client.clone(),
            handler: Arc::new(InteractionHandler {
                server: profile.name.clone(),
                interaction: Arc::clone(&host.interaction),
                events: host.events.clone(),
            }),
            question_limits: Arc::new(Turns::new(&host.limits)),
            log_level: sites.log_level,
            tap: sites.tap.clone(),
            redactor: redactor(&endpoint, &sites.variables),
        };
        if phase == Phase::Dormant
            && let Some(tools) = server_cache_key
                .as_deref()
                .and_then(|key| sites.memory.tools(key))
        {
            host.catalog.list(&profile.stand(), tools, true);
        }
        let site = Site {
            endpoint,
            context,
            deadlines,
            variables: Arc::clone(&sites.variables),
            directory: directory.or_else(|| sites.directory.clone()),
            seal,
            memory: Arc::clone(&sites.memory),
            memory_key: server_cache_key,
            children: host.children.clone(),
            tasks: host.tasks.clone(),
            stop: host.stop.child_token(),
            network: Arc::clone(&sites.network),
            health: Health {
                idle: host.deadlines.silence,
                deadline: host.deadlines.sign_of_life,
                resumed: sites.slept.clone(),
            },
            spacing: Arc::clone(&sites.spacing),
        };
        let backoff = Backoff::new(retries);
        let catalog = Arc::clone(&host.catalog);
        let events = host.events.clone();
        let default_calls = host.limits.calls_per_server;
        Arc::new(ServerHandle::spawn(
            profile,
            site,
            Beginning { phase, predecessor },
            backoff,
            catalog,
            events,
            default_calls,
        ))
    }
}

/// The profile of a server that asks for nothing special.
fn profile(name: &ServerName, place: u64, transport: &'static str, scope: Scope) -> Profile {
    Profile {
        name: name.clone(),
        place,
        transport,
        described: Described {
            scope,
            written: None,
        },
        call_timeout: None,
        max_calls: None,
        trusts_annotations: false,
    }
}

/// By whom a server is switched off, and what to do about it.
fn switched_off(name: &ServerName, by_settings: Option<&SourcePos>) -> String {
    match by_settings {
        None => "switched off in its entry".to_owned(),
        Some(origin) => {
            format!("switched off by {origin}; to switch it on: switchboard enable {name}")
        }
    }
}

fn within_reason(limit: Option<Duration>) -> Option<Duration> {
    limit.map(|limit| limit.min(Deadlines::LONGEST))
}

/// Where and how an entry is written.
pub(super) fn described(entry: &ServerEntry) -> Described {
    Described {
        scope: entry.scope(),
        written: Some(entry.masked_entry().clone()),
    }
}

/// A project's entry works in the project.
pub(super) fn project_of(spec: &LaunchSpec) -> Option<PathBuf> {
    let file = spec
        .origin()
        .file
        .as_ref()
        .filter(|_| spec.scope() == Scope::Project)?;
    file.parent().map(std::path::Path::to_owned)
}

/// Masks what the entry gives its child: its `env`, what it names in `inheritEnv`, and what looks like
/// a secret in its arguments and in whatever else it inherits. A remote server has its own.
fn redactor(endpoint: &Endpoint, ours: &Variables) -> Redactor {
    let config = match endpoint {
        Endpoint::Stdio(config) => config,
        Endpoint::Remote(remote) => return remote.redactor.clone(),
        _ => return Redactor::default(),
    };
    let own = config.env.values().map(|value| value.expose().to_owned());
    let named = match &config.inherit_env {
        InheritEnv::Also(names) => names.as_slice(),
        _ => &[],
    };
    let inherited = ours
        .iter()
        .filter(|(name, _)| is_inherited(name, &config.inherit_env));
    let inherited = inherited.flat_map(|(name, value)| {
        if named.contains(name) {
            vec![Secret::from(value.as_str())]
        } else {
            secrets_in_variable(name, value)
        }
    });
    let given = secrets_in_arguments(&config.args).into_iter();
    let given = inherited.chain(given);
    Redactor::new(own.chain(given.map(|secret| secret.expose().to_owned())))
}

#[cfg(test)]
mod tests {
    use switchboard_config::StdioConfig;

    use super::*;

    #[test]
    fn what_a_server_inherits_is_masked_as_far_as_it_looks_secret() {
        let mut config = StdioConfig::new("x");
        let secret = "correct-horse-battery";
        let names = [
            "AWS_SECRET_ACCESS_KEY",
            "npm_config__authToken",
            "PATH",
            "PLAIN",
        ];
        let redacted = |config: &StdioConfig, name: &str| {
            let ours: Variables = names
                .iter()
                .map(|name| ((*name).to_owned(), format!("{name}-{secret}")))
                .collect();
            let redactor = redactor(&Endpoint::Stdio(config.clone()), &ours);
            redactor.redact(&format!("{name}-{secret}")) == "***"
        };
        let hidden = |config: &StdioConfig| names.map(|name| redacted(config, name));
        assert_eq!(hidden(&config), [false, true, false, false]);
        config.inherit_env = InheritEnv::All;
        assert_eq!(hidden(&config), [true, true, false, false]);
        config.inherit_env = InheritEnv::Also(vec!["PLAIN".to_owned()]);
        assert_eq!(hidden(&config), [false, true, false, true]);
    }
}
