//! The configuration of an MCP server and its JSON form for the CLI.
//!
//! Invariant: `Debug` prints no argument, header or environment value, and no query, fragment or
//! credentials of a URL. Only [`McpServerConfig::to_json`] writes these values out, for the CLI.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value, json};
use switchboard::in_process::ServerInstance;
use switchboard_config::Secret;

/// How much longer than `call_timeout` the CLI waits for a tool of an in-process server that has no
/// timeout of its own. The timeout error of this crate therefore reaches the CLI before the timeout
/// of the CLI expires.
const CLI_TIMEOUT_MARGIN: Duration = Duration::from_secs(5);
/// Minimum of the call timeout; the CLI does not accept a shorter one.
const MIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Configuration of an MCP server: a program, a URL, or an in-process server.
///
/// ```
/// use std::time::Duration;
/// use switchboard_claude::McpServerConfig;
///
/// let files = McpServerConfig::stdio("npx", ["-y", "@modelcontextprotocol/server-filesystem", "."]);
/// let issues = McpServerConfig::http("https://example.com/mcp")
///     .header("Authorization", "Bearer …")
///     .timeout(Duration::from_secs(30));
/// ```
#[derive(Clone, Debug)]
pub struct McpServerConfig {
    kind: ServerKind,
    timeout: Option<Duration>,
    always_load: bool,
}

/// How the CLI reaches a server: as a process, at a URL, or in this process.
#[derive(Clone)]
enum ServerKind {
    Stdio {
        command: String,
        args: Vec<Secret>,
        env: BTreeMap<String, Secret>,
    },
    Sse(RemoteServer),
    Http(RemoteServer),
    Sdk(ServerInstance),
}

#[derive(Clone)]
struct RemoteServer {
    url: String,
    headers: BTreeMap<String, Secret>,
}

impl McpServerConfig {
    /// Configures a server that the CLI starts as a process and talks to over stdin and stdout.
    pub fn stdio(
        command: impl Into<String>,
        args: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self::new(ServerKind::Stdio {
            command: command.into(),
            args: args.into_iter().map(Secret::new).collect(),
            env: BTreeMap::new(),
        })
    }

    /// Configures a remote server with the streamable HTTP transport.
    pub fn http(url: impl Into<String>) -> Self {
        Self::new(ServerKind::Http(RemoteServer::new(url)))
    }

    /// Configures a remote server with the HTTP+SSE transport of protocol version 2024-11-05.
    pub fn sse(url: impl Into<String>) -> Self {
        Self::new(ServerKind::Sse(RemoteServer::new(url)))
    }

    /// Configures a server that runs in this process. It continues to exist when the CLI exits.
    pub fn sdk(server: impl Into<ServerInstance>) -> Self {
        Self::new(ServerKind::Sdk(server.into()))
    }

    fn new(kind: ServerKind) -> Self {
        Self {
            kind,
            timeout: None,
            always_load: false,
        }
    }

    /// Adds a variable to the environment of the server's process. Has no effect on remote and
    /// in-process servers.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let ServerKind::Stdio { env, .. } = &mut self.kind {
            env.insert(name.into(), Secret::new(value));
        }
        self
    }

    /// Adds a header to every request to a remote server. Has no effect on stdio and in-process
    /// servers.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let ServerKind::Http(remote) | ServerKind::Sse(remote) = &mut self.kind {
            remote.headers.insert(name.into(), Secret::new(value));
        }
        self
    }

    /// Sets how long the CLI waits for a call of a tool of this server. A timeout of less than one
    /// second is raised to one second.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout.max(MIN_TIMEOUT));
        self
    }

    /// Makes the CLI load the server's tools into the context of the model from the start. The
    /// first turn then waits briefly until the server is connected.
    pub fn always_load(mut self) -> Self {
        self.always_load = true;
        self
    }

    pub(crate) fn is_always_loaded(&self) -> bool {
        self.always_load
    }

    /// The server, if it is in-process; otherwise `None`.
    pub(crate) fn instance(&self) -> Option<&ServerInstance> {
        match &self.kind {
            ServerKind::Sdk(instance) => Some(instance),
            _ => None,
        }
    }

    /// If the server is in-process and has no timeout, sets its timeout to `call_timeout` plus
    /// `CLI_TIMEOUT_MARGIN`.
    pub(crate) fn with_default_timeout(&self, call_timeout: Duration) -> Self {
        let config = self.clone();
        match (&self.kind, self.timeout) {
            (ServerKind::Sdk(_), None) => {
                config.timeout(call_timeout.saturating_add(CLI_TIMEOUT_MARGIN))
            }
            _ => config,
        }
    }

    /// Builds the entry of the server for `--mcp-config` and `mcp_set_servers`. The entry contains
    /// secrets in plain text.
    pub(crate) fn to_json(&self, name: &str) -> Value {
        let mut entry = match &self.kind {
            ServerKind::Stdio { command, args, env } => stdio_entry(command, args, env),
            ServerKind::Sse(remote) => remote.entry("sse"),
            ServerKind::Http(remote) => remote.entry("http"),
            ServerKind::Sdk(_) => object([("type", json!("sdk")), ("name", json!(name))]),
        };
        self.add_common_members(&mut entry);
        Value::Object(entry)
    }

    /// Builds the settings of an in-process server for the member `sdkMcpServerConfigs` of
    /// `initialize`. Returns `None` if the server has no settings.
    pub(crate) fn in_process_settings(&self) -> Option<Value> {
        let mut entry = Map::new();
        self.add_common_members(&mut entry);
        (!entry.is_empty()).then_some(Value::Object(entry))
    }

    fn add_common_members(&self, entry: &mut Map<String, Value>) {
        if let Some(timeout) = self.timeout {
            entry.insert("timeout".to_owned(), millis(timeout).into());
        }
        if self.always_load {
            entry.insert("alwaysLoad".to_owned(), true.into());
        }
    }
}

/// Converts a duration to milliseconds, at most `i32::MAX`: a longer timer of the CLI would fire
/// immediately.
pub(crate) fn millis(duration: Duration) -> u64 {
    const MAX: u64 = 0x7fff_ffff;
    u64::try_from(duration.as_millis()).map_or(MAX, |millis| millis.min(MAX))
}

impl From<ServerInstance> for McpServerConfig {
    fn from(instance: ServerInstance) -> Self {
        Self::sdk(instance)
    }
}

impl RemoteServer {
    fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            headers: BTreeMap::new(),
        }
    }

    fn entry(&self, kind: &str) -> Map<String, Value> {
        let mut entry = object([("type", json!(kind)), ("url", json!(self.url))]);
        if !self.headers.is_empty() {
            entry.insert("headers".to_owned(), exposed(&self.headers));
        }
        entry
    }

    /// The URL without query and fragment. If the URL contains a user name or password, also
    /// without everything before the host.
    fn url_without_secrets(&self) -> &str {
        let end = self.url.find(['?', '#']).unwrap_or(self.url.len());
        let url = self.url.get(..end).unwrap_or_default();
        let after_scheme = url.find("://").map_or(0, |at| at + 3);
        let authority_end = url
            .get(after_scheme..)
            .and_then(|rest| rest.find('/'))
            .map_or(url.len(), |at| after_scheme + at);
        match url.get(..authority_end).and_then(|text| text.rfind('@')) {
            Some(at) => url.get(at + 1..).unwrap_or_default(),
            None => url,
        }
    }
}

/// Builds the entry of a stdio server. Always includes `args`, because the CLI rejects an entry
/// without it.
fn stdio_entry(
    command: &str,
    args: &[Secret],
    env: &BTreeMap<String, Secret>,
) -> Map<String, Value> {
    let args: Vec<_> = args.iter().map(Secret::expose).collect();
    let mut entry = object([
        ("type", json!("stdio")),
        ("command", json!(command)),
        ("args", json!(args)),
    ]);
    if !env.is_empty() {
        entry.insert("env".to_owned(), exposed(env));
    }
    entry
}

fn exposed(secrets: &BTreeMap<String, Secret>) -> Value {
    let pairs = secrets.iter();
    let pairs = pairs.map(|(name, value)| (name.clone(), value.expose().into()));
    Value::Object(pairs.collect())
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    let members = members.into_iter();
    members
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

impl fmt::Debug for ServerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remote = |f: &mut fmt::Formatter<'_>, kind: &str, remote: &RemoteServer| {
            f.debug_struct(kind)
                .field("url", &remote.url_without_secrets())
                .field("headers", &remote.headers)
                .finish()
        };
        match self {
            Self::Stdio { command, args, env } => f
                .debug_struct("Stdio")
                .field("command", command)
                .field("args", args)
                .field("env", env)
                .finish(),
            Self::Sse(at) => remote(f, "Sse", at),
            Self::Http(at) => remote(f, "Http", at),
            Self::Sdk(instance) => f.debug_tuple("Sdk").field(instance).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_json_form() {
        let program = McpServerConfig::stdio("node", ["index.js"]).env("TOKEN", "t");
        assert_eq!(
            program.to_json("p"),
            json!({"type": "stdio", "command": "node", "args": ["index.js"], "env": {"TOKEN": "t"}})
        );
        let bare = McpServerConfig::stdio("node", [""; 0]);
        assert_eq!(
            bare.to_json("p"),
            json!({"type": "stdio", "command": "node", "args": []})
        );
        let http = McpServerConfig::http("http://localhost/mcp").header("X-T", "1");
        assert_eq!(
            http.to_json("h"),
            json!({"type": "http", "url": "http://localhost/mcp", "headers": {"X-T": "1"}})
        );
        let sse = McpServerConfig::sse("http://localhost/sse").timeout(Duration::from_millis(1500));
        assert_eq!(
            sse.to_json("s"),
            json!({"type": "sse", "url": "http://localhost/sse", "timeout": 1500})
        );
    }

    #[test]
    fn timeout_is_clamped_to_the_accepted_range() {
        let short = McpServerConfig::http("http://localhost/mcp").timeout(Duration::ZERO);
        assert_eq!(short.in_process_settings(), Some(json!({"timeout": 1000})));
        let long = McpServerConfig::http("http://localhost/mcp").timeout(Duration::MAX);
        assert_eq!(
            long.in_process_settings(),
            Some(json!({"timeout": i32::MAX}))
        );
    }

    #[test]
    fn debug_prints_no_secret() {
        let all = [
            McpServerConfig::stdio("node", ["--key=hidden"]).env("TOKEN", "hidden"),
            McpServerConfig::http("https://user:hidden@localhost/mcp?key=hidden")
                .header("Authorization", "hidden"),
            McpServerConfig::sse("https://hidden@localhost"),
        ];
        for config in all {
            let shown = format!("{config:?}");
            assert!(!shown.contains("hidden"), "{shown}");
        }
    }
}
