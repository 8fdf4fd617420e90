//! Connects one server: resolves its endpoint, uses and updates the cached protocol era, and adds
//! hints to errors.
//!
//! [`switchboard_client::connect`] makes a connection attempt; [`super::owner`] decides when to
//! make one. Invariant: an entry without approval has no endpoint, so nothing is started for it.

use std::path::PathBuf;
use std::sync::Arc;

#[cfg(feature = "http")]
use switchboard_client::auth::ForPrincipal;
use switchboard_client::connect::{
    ClientContext, ConnectError as ClientError, Endpoint, LiveSession, connect,
};
#[cfg(feature = "http")]
use switchboard_client::http::HttpEndpoint;
use switchboard_client::message_transport::MessageTransport;
use switchboard_client::{ConnectStage, CurrentStage, auth::LoginRequired};
use switchboard_config::PinnedProgram;
#[cfg(feature = "stdio")]
use switchboard_config::StdioConfig;
use switchboard_wire::{Connector, ServerInstance};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::connect_hint;
use super::environment::Variables;
use super::retry_slots::RetrySlots;
use super::sdk_servers::SdkServers;
use super::start_slots::StartSlots;
#[cfg(feature = "stdio")]
use super::{environment, launch::launch};
use crate::cache::ServerCache;
use crate::id::Principal;

/// How to reach a server. Comes from the config entry or from the embedding program.
#[derive(Clone)]
pub(crate) enum ServerEndpoint {
    /// A child process.
    #[cfg(feature = "stdio")]
    Stdio(StdioConfig),
    /// A server behind a URL.
    #[cfg(feature = "http")]
    Http(HttpEndpoint),
    /// A byte stream that the embedding program opens.
    Stream(Arc<dyn Connector>),
    /// A transport of the embedding program that carries messages.
    Messages(MessageTransport),
    /// An in-process server of the embedding program.
    InProcess(ServerInstance),
    /// An in-process server that the config entry refers to by name. The name is looked up at every
    /// connection attempt.
    Sdk {
        name: String,
        servers: Arc<SdkServers>,
    },
    /// The config entry is invalid, rejected or not approved, or this host cannot use it. The host
    /// starts nothing and contacts no server.
    None,
}

impl ServerEndpoint {
    pub(crate) fn is_child(&self) -> bool {
        match self {
            #[cfg(feature = "stdio")]
            Self::Stdio(_) => true,
            _ => false,
        }
    }

    /// Whether principals have different credentials.
    pub(crate) fn depends_on_principal(&self) -> bool {
        match self {
            #[cfg(feature = "http")]
            Self::Http(endpoint) => endpoint.auth.depends_on_principal(),
            _ => false,
        }
    }

    pub(crate) fn is_remote(&self) -> bool {
        match self {
            #[cfg(feature = "http")]
            Self::Http(_) => true,
            _ => false,
        }
    }
}

/// Everything that the owner of a server needs to connect to it.
#[derive(Clone)]
pub(crate) struct ConnectSetup {
    pub(crate) endpoint: ServerEndpoint,
    pub(crate) client: ClientContext,
    /// The environment variables that the embedding program passed in.
    pub(crate) environment: Arc<Variables>,
    /// The working directory of a child whose entry has no `cwd`.
    pub(crate) working_directory: Option<PathBuf>,
    /// The program file that the user approved. `None` if the approval is not tied to a program
    /// file.
    pub(crate) approved_program: Option<PinnedProgram>,
    pub(crate) server_cache: Arc<dyn ServerCache>,
    /// The key of this server in `server_cache`. `None` for servers that are not cached, such as
    /// in-process servers.
    pub(crate) cache_key: Option<String>,
    /// Cancelled when the server is removed or the host shuts down.
    pub(crate) stop: CancellationToken,
    /// Changes when the machine resumes from suspend.
    pub(crate) resumed: tokio::sync::watch::Receiver<u64>,
    /// Spreads simultaneous reconnects over time. Shared by all servers of the host.
    pub(crate) retry_slots: Arc<RetrySlots>,
    /// Limits how many servers start at the same time. Shared by all servers of the host.
    pub(crate) start_slots: Arc<StartSlots>,
}

/// Why a connection attempt failed, or why an established session ended.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("the embedding program offers no server named {name}{}", known_names(.known))]
    UnknownSdkServer {
        name: String,
        /// The names that the embedding program offers.
        known: Vec<String>,
    },
    #[error("not approved")]
    NotApproved,
    #[error("{error}")]
    Client {
        error: ClientError,
        /// An environment variable that the child mentions on stderr. The host's environment
        /// contains it, but the child did not get it.
        missing_variable: Option<String>,
    },
}

impl From<ClientError> for ConnectError {
    fn from(error: ClientError) -> Self {
        Self::Client {
            error,
            missing_variable: None,
        }
    }
}

impl ConnectError {
    /// The error of the client. `None` if no attempt was made because the server has no endpoint.
    fn client(&self) -> Option<&ClientError> {
        match self {
            Self::Client { error, .. } => Some(error),
            Self::UnknownSdkServer { .. } | Self::NotApproved => None,
        }
    }

    /// Whether another attempt would fail for the same reason.
    pub(crate) fn is_permanent(&self) -> bool {
        self.client().is_none_or(ClientError::is_permanent)
    }

    /// Whether the server was started or reached, and its process exited or the session ended after
    /// that.
    pub(crate) fn is_crash(&self) -> bool {
        self.client().is_some_and(ClientError::is_crash)
    }

    /// The stage of the connection attempt that failed.
    pub(crate) fn stage(&self) -> ConnectStage {
        self.client().map_or(ConnectStage::Open, ClientError::stage)
    }

    /// The delay that the server asked for with `Retry-After`.
    pub(crate) fn retry_after(&self) -> Option<std::time::Duration> {
        self.client().and_then(ClientError::retry_after)
    }

    /// The login that the server requires.
    pub(crate) fn login(&self) -> Option<&LoginRequired> {
        match self.client() {
            Some(ClientError::NeedsLogin(login)) => Some(login),
            _ => None,
        }
    }

    /// What the user can do about the error.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownSdkServer { name, .. } => Some(connect_hint::unknown_sdk_server(name)),
            Self::NotApproved => None,
            Self::Client {
                missing_variable: Some(name),
                ..
            } => Some(connect_hint::missing_variable(name)),
            Self::Client { error, .. } => connect_hint::client_error(error),
        }
    }
}

fn known_names(known: &[String]) -> String {
    match known {
        [] => String::new(),
        names => format!("; it offers {}", names.join(", ")),
    }
}

impl ConnectSetup {
    /// Returns the setup of a session of one principal. It has its own credentials, and it does not
    /// use the server cache, whose content belongs to the default principal.
    pub(crate) fn for_principal(&self, principal: &Principal) -> Self {
        let mut setup = self.clone();
        #[cfg(feature = "http")]
        if let ServerEndpoint::Http(endpoint) = &mut setup.endpoint {
            endpoint.auth = Arc::new(ForPrincipal {
                provider: Arc::clone(&endpoint.auth),
                principal: principal.to_string(),
            });
        }
        #[cfg(not(feature = "http"))]
        let _ = principal;
        setup.cache_key = None;
        setup.client.stage = CurrentStage::default();
        setup.stop = self.stop.child_token();
        setup
    }

    /// Connects, or fails at `until`. Updates the cached protocol era.
    pub(crate) async fn connect(&self, until: Instant) -> Result<LiveSession, ConnectError> {
        let endpoint = self.client_endpoint()?;
        let cached_era = self
            .cache_key
            .as_deref()
            .and_then(|key| self.server_cache.era(key));
        let mut era = cached_era;
        let outcome = connect(&endpoint, &self.client, &mut era, until).await;
        if let Some(key) = &self.cache_key {
            match era {
                Some(era) if cached_era != Some(era) => self.server_cache.remember_era(key, era),
                None if cached_era.is_some() => self.server_cache.forget_era(key),
                _ => {}
            }
        }
        outcome.map_err(|error| self.with_missing_variable(error))
    }

    /// Returns why `live` ended: the exit code and last output of a child, or the transport error.
    pub(crate) async fn session_failure(&self, live: &mut LiveSession) -> ConnectError {
        self.with_missing_variable(live.failure().await)
    }

    fn client_endpoint(&self) -> Result<Endpoint, ConnectError> {
        Ok(match &self.endpoint {
            #[cfg(feature = "stdio")]
            ServerEndpoint::Stdio(config) => Endpoint::Process(launch(
                config,
                &self.environment,
                self.working_directory.as_deref(),
                self.approved_program.clone(),
            )),
            #[cfg(feature = "http")]
            ServerEndpoint::Http(endpoint) => Endpoint::Http(endpoint.clone()),
            ServerEndpoint::Stream(connector) => Endpoint::Stream(Arc::clone(connector)),
            ServerEndpoint::Messages(transport) => Endpoint::Messages(transport.clone()),
            ServerEndpoint::InProcess(instance) => instance.clone().into(),
            ServerEndpoint::Sdk { name, servers } => servers
                .find(name)
                .map_err(|known| ConnectError::UnknownSdkServer {
                    name: name.clone(),
                    known,
                })?
                .into(),
            ServerEndpoint::None => return Err(ConnectError::NotApproved),
        })
    }

    fn with_missing_variable(&self, error: ClientError) -> ConnectError {
        let missing_variable = match (&self.endpoint, &error) {
            #[cfg(feature = "stdio")]
            (ServerEndpoint::Stdio(config), ClientError::SessionEnded { output, .. }) => {
                environment::missing_variable(&output.stderr, &self.environment, config)
            }
            _ => None,
        };
        ConnectError::Client {
            error,
            missing_variable,
        }
    }
}
