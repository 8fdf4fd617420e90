//! The validated configuration of a server, as the engine uses it.
//!
//! The values of an entry are already checked and expanded: these types know nothing about config
//! files and references to variables. Invariant: values of environment variables and headers are
//! [`Secret`]s.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use crate::secret::Secret;

/// The configuration of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent flag of the entry"
)]
pub struct ServerConfig {
    /// How to reach the server.
    pub transport: TransportConfig,
    /// Maximum time until the server is ready (`startupTimeout`).
    pub startup_timeout: Option<Duration>,
    /// Maximum time of one call (`timeout`).
    pub call_timeout: Option<Duration>,
    /// Maximum number of concurrent calls (`maxConcurrentCalls`).
    pub max_concurrent_calls: Option<NonZeroUsize>,
    /// How to reconnect after the session was lost.
    pub reconnect: ReconnectConfig,
    /// Start the server on the first call.
    pub lazy: bool,
    /// Trust the annotations of the server's tools in permission rules.
    pub trust_annotations: bool,
    /// Do not start the server.
    pub disabled: bool,
    /// Always show the server's tools to a model, even if other tools are found by search.
    /// Reserved; ignored today.
    pub always_load: bool,
}

/// How to reconnect after the session was lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReconnectConfig {
    /// Maximum number of attempts; 0 disables reconnecting, `None` uses the engine's default.
    pub max_attempts: Option<u32>,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransportConfig {
    /// A child process that communicates over stdin and stdout.
    Stdio(StdioConfig),
    /// A server at a URL.
    Remote(RemoteConfig),
    /// A server inside the embedding program.
    Sdk {
        /// The name under which the program registered the server.
        name: String,
    },
    /// A server of the user's claude.ai account, reached through claude.ai.
    ClaudeAiProxy {
        /// The URL of the proxy.
        url: String,
        /// The id of the server in the account.
        id: String,
    },
}

impl TransportConfig {
    /// The value of `type` for this transport; `http` for a remote server without a `type`.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Self::Stdio(_) => "stdio",
            Self::Remote(remote) => match remote.kind {
                RemoteKind::Http | RemoteKind::Negotiated => "http",
                RemoteKind::Sse => "sse",
            },
            Self::Sdk { .. } => "sdk",
            Self::ClaudeAiProxy { .. } => "claudeai-proxy",
        }
    }

    /// The URL of a remote server or of the claude.ai proxy.
    pub fn url(&self) -> Option<&str> {
        match self {
            Self::Remote(RemoteConfig { url, .. }) | Self::ClaudeAiProxy { url, .. } => Some(url),
            Self::Stdio(_) | Self::Sdk { .. } => None,
        }
    }
}

/// A program to start.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StdioConfig {
    /// The program: a path, or a name to look up on the `PATH`.
    pub command: String,
    /// The arguments.
    pub args: Vec<String>,
    /// Environment variables in addition to the inherited ones.
    pub env: BTreeMap<String, Secret>,
    /// The working directory. With `None` the host uses the project root for an entry of a project,
    /// and its own working directory otherwise.
    pub cwd: Option<PathBuf>,
    /// Which variables of the host the program inherits.
    pub inherit_env: InheritEnv,
    /// Keep background processes of the server running when it stops.
    pub keep_daemons: bool,
}

impl StdioConfig {
    /// A program without arguments, with default settings.
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            inherit_env: InheritEnv::Default,
            keep_daemons: false,
        }
    }
}

/// Which environment variables a program inherits from the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum InheritEnv {
    /// The variables that programs need to run, such as `PATH`, `HOME`, the locale, proxies and
    /// settings of package runners.
    #[default]
    Default,
    /// All variables.
    All,
    /// The default set and these variables.
    Also(Vec<String>),
}

/// A server at a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteConfig {
    /// The URL, starting with `http://` or `https://`.
    pub url: String,
    /// The transport.
    pub kind: RemoteKind,
    /// Headers sent with each request.
    pub headers: BTreeMap<String, Secret>,
    /// A shell command that prints more headers.
    pub headers_helper: Option<String>,
    /// Certificates for this server.
    pub tls: TlsFiles,
}

/// Certificate files for one server, in PEM format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsFiles {
    /// An additional trusted certificate authority.
    pub ca: Option<PathBuf>,
    /// The client certificate; set together with `key`.
    pub cert: Option<PathBuf>,
    /// The private key of the client certificate.
    pub key: Option<PathBuf>,
}

impl RemoteConfig {
    /// A server at `url` without headers.
    pub fn new(url: impl Into<String>, kind: RemoteKind) -> Self {
        Self {
            url: url.into(),
            kind,
            headers: BTreeMap::new(),
            headers_helper: None,
            tls: TlsFiles::default(),
        }
    }
}

/// The transport of a remote server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemoteKind {
    /// Streamable HTTP.
    Http,
    /// HTTP with server-sent events, the transport of MCP 2024-11-05.
    Sse,
    /// Try streamable HTTP first, then SSE.
    Negotiated,
}

impl ServerConfig {
    /// A server with this transport and default settings.
    pub fn new(transport: TransportConfig) -> Self {
        Self {
            transport,
            startup_timeout: None,
            call_timeout: None,
            max_concurrent_calls: None,
            reconnect: ReconnectConfig::default(),
            lazy: false,
            trust_annotations: false,
            disabled: false,
            always_load: false,
        }
    }

    /// A program to start.
    ///
    /// ```
    /// use switchboard_config::ServerConfig;
    ///
    /// let config = ServerConfig::stdio("npx", ["-y", "some-server"]).env("TOKEN", "hush");
    /// assert!(!format!("{config:?}").contains("hush"));
    /// ```
    pub fn stdio<A: Into<String>>(
        command: impl Into<String>,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        let mut stdio = StdioConfig::new(command);
        stdio.args = args.into_iter().map(Into::into).collect();
        Self::new(TransportConfig::Stdio(stdio))
    }

    /// A server at a URL.
    pub fn remote(url: impl Into<String>, kind: RemoteKind) -> Self {
        Self::new(TransportConfig::Remote(RemoteConfig::new(url, kind)))
    }

    /// A server inside the embedding program, registered as `name`.
    pub fn sdk(name: impl Into<String>) -> Self {
        Self::new(TransportConfig::Sdk { name: name.into() })
    }

    /// Sets an environment variable of a stdio server. Has no effect on other transports.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        if let TransportConfig::Stdio(stdio) = &mut self.transport {
            stdio.env.insert(name.into(), value.into());
        }
        self
    }

    /// Sets the working directory of a stdio server. Has no effect on other transports.
    pub fn cwd(mut self, folder: impl Into<PathBuf>) -> Self {
        if let TransportConfig::Stdio(stdio) = &mut self.transport {
            stdio.cwd = Some(folder.into());
        }
        self
    }

    /// Sets a header for a remote server. Has no effect on other transports.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        if let TransportConfig::Remote(remote) = &mut self.transport {
            remote.headers.insert(name.into(), value.into());
        }
        self
    }

    /// Sets the maximum time until the server is ready.
    pub fn startup_timeout(mut self, limit: Duration) -> Self {
        self.startup_timeout = Some(limit);
        self
    }

    /// Sets the maximum time of one call.
    pub fn call_timeout(mut self, limit: Duration) -> Self {
        self.call_timeout = Some(limit);
        self
    }

    /// Sets the maximum number of concurrent calls.
    pub fn max_concurrent_calls(mut self, limit: NonZeroUsize) -> Self {
        self.max_concurrent_calls = Some(limit);
        self
    }
}
