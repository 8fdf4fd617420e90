//! A server's configuration in its one valid shape: what the engine is given to work with.
//!
//! Nothing here knows files or variables: values are expanded and checked before they become these
//! types. Invariant: values of environment variables and headers are [`Secret`]s.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use crate::secret::Secret;

/// One server, ready to be used: how to reach it and how to treat it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent switch of the entry, named as it is written"
)]
pub struct ServerConfig {
    /// How to reach it.
    pub transport: TransportConfig,
    /// How long it may take until it is ready (`startupTimeout`).
    pub startup_timeout: Option<Duration>,
    /// How long one call may take (`timeout`).
    pub call_timeout: Option<Duration>,
    /// How many calls it is given at the same time (`maxConcurrentCalls`).
    pub max_concurrent_calls: Option<NonZeroUsize>,
    /// How it comes back after its session was lost.
    pub reconnect: ReconnectConfig,
    /// Start it with the first call and not before.
    pub lazy: bool,
    /// Believe what its tools say about themselves.
    pub trust_annotations: bool,
    /// Do not start it.
    pub disabled: bool,
    /// Show its tools to a model at once, even where others are found by search.
    pub always_load: bool,
}

/// How a server comes back after its session was lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReconnectConfig {
    /// How often to try before giving up; 0 means never, `None` leaves it to the engine.
    pub max_attempts: Option<u32>,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransportConfig {
    /// A program that is started and spoken to through its standard streams.
    Stdio(StdioConfig),
    /// A server behind a URL.
    Remote(RemoteConfig),
    /// A server that lives inside the embedding program.
    Sdk {
        /// The name under which the program offers it.
        name: String,
    },
    /// A server of the user's claude.ai account, reached through claude.ai.
    ClaudeAiProxy {
        /// Where the proxy is.
        url: String,
        /// Which of the account's servers is meant.
        id: String,
    },
}

impl TransportConfig {
    /// The kind as it is called on the wire. A remote server without a `type` counts as `http`.
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

    /// Where a server is that is reached by an address.
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
    /// The program: a path, or a name to look up in `PATH`.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables that it gets besides the inherited ones.
    pub env: BTreeMap<String, Secret>,
    /// The folder it runs in; with `None` the host decides, and takes the project root for an entry of
    /// the project.
    pub cwd: Option<PathBuf>,
    /// Which of our own variables it inherits.
    pub inherit_env: InheritEnv,
    /// Leave alone what it put into the background when it ends.
    pub keep_daemons: bool,
}

impl StdioConfig {
    /// A program without any arguments, variables or switches.
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

/// Which variables a program inherits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum InheritEnv {
    /// The harmless ones only.
    #[default]
    Default,
    /// All of them.
    All,
    /// The harmless ones and these.
    Also(Vec<String>),
}

/// A server behind a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteConfig {
    /// Where it is, with `http://` or `https://`.
    pub url: String,
    /// Which transport it speaks.
    pub kind: RemoteKind,
    /// Headers to send with each request.
    pub headers: BTreeMap<String, Secret>,
    /// A command that prints further headers.
    pub headers_helper: Option<String>,
    /// Certificates of its own.
    pub tls: TlsFiles,
}

/// The files of a server with certificates of its own, all in PEM format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsFiles {
    /// Who vouches for the server, besides those that the system trusts.
    pub ca: Option<PathBuf>,
    /// Our own certificate; never without its key.
    pub cert: Option<PathBuf>,
    /// The key of our own certificate.
    pub key: Option<PathBuf>,
}

impl RemoteConfig {
    /// A server at `url` without any headers.
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

/// Which transport a remote server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemoteKind {
    /// Streamable HTTP.
    Http,
    /// HTTP with server-sent events, as before 2025.
    Sse,
    /// To be found out: streamable HTTP first, then SSE.
    Negotiated,
}

impl ServerConfig {
    /// A server reached through `transport`, everything else as it is by default.
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

    /// A server behind a URL that speaks `kind`.
    pub fn remote(url: impl Into<String>, kind: RemoteKind) -> Self {
        Self::new(TransportConfig::Remote(RemoteConfig::new(url, kind)))
    }

    /// A server inside the embedding program, offered under `name`.
    pub fn sdk(name: impl Into<String>) -> Self {
        Self::new(TransportConfig::Sdk { name: name.into() })
    }

    /// Sets a variable of a program that is started; without effect on other transports.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        if let TransportConfig::Stdio(stdio) = &mut self.transport {
            stdio.env.insert(name.into(), value.into());
        }
        self
    }

    /// Sets the folder that a program is started in; without effect on other transports.
    pub fn cwd(mut self, folder: impl Into<PathBuf>) -> Self {
        if let TransportConfig::Stdio(stdio) = &mut self.transport {
            stdio.cwd = Some(folder.into());
        }
        self
    }

    /// Sets a header for a server behind a URL; without effect on other transports.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        if let TransportConfig::Remote(remote) = &mut self.transport {
            remote.headers.insert(name.into(), value.into());
        }
        self
    }

    /// Bounds how long it may take until the server is ready.
    pub fn startup_timeout(mut self, limit: Duration) -> Self {
        self.startup_timeout = Some(limit);
        self
    }

    /// Bounds how long one call may take.
    pub fn call_timeout(mut self, limit: Duration) -> Self {
        self.call_timeout = Some(limit);
        self
    }

    /// Bounds how many calls the server is given at the same time.
    pub fn max_concurrent_calls(mut self, limit: NonZeroUsize) -> Self {
        self.max_concurrent_calls = Some(limit);
        self
    }
}
