//! Servers as they are declared to the CLI.
//!
//! Invariant: `Debug` shows no value of the environment, no header, no argument, and of an address
//! nothing but where it leads. Only [`McpServerConfig::declared`] writes them out, for the CLI.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value, json};
use switchboard::Instance;
use switchboard_config::Secret;

/// By how much the CLI waits longer for a tool of this program than we do.
const GRACE: Duration = Duration::from_secs(5);
/// The CLI takes no shorter time for a call than this.
const SHORTEST_TIMEOUT: Duration = Duration::from_secs(1);

/// A server that the CLI is to have: a program, an address, or functions of this program.
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
    way: Way,
    timeout: Option<Duration>,
    always_load: bool,
}

/// How a server is reached.
#[derive(Clone)]
enum Way {
    Stdio {
        command: String,
        args: Vec<Secret>,
        env: BTreeMap<String, Secret>,
    },
    Sse(Remote),
    Http(Remote),
    Sdk(Instance),
}

#[derive(Clone)]
struct Remote {
    url: String,
    headers: BTreeMap<String, Secret>,
}

impl McpServerConfig {
    /// A program that the CLI starts and speaks to over its standard input and output.
    pub fn stdio(
        command: impl Into<String>,
        args: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self::by(Way::Stdio {
            command: command.into(),
            args: args.into_iter().map(Secret::new).collect(),
            env: BTreeMap::new(),
        })
    }

    /// A server behind a URL, over streamable HTTP.
    pub fn http(url: impl Into<String>) -> Self {
        Self::by(Way::Http(Remote::at(url)))
    }

    /// A server behind a URL, over the transport of 2024-11-05 with server-sent events.
    pub fn sse(url: impl Into<String>) -> Self {
        Self::by(Way::Sse(Remote::at(url)))
    }

    /// A server of this program. The CLI lets go of it when it ends; the server lives on.
    pub fn sdk(server: impl Into<Instance>) -> Self {
        Self::by(Way::Sdk(server.into()))
    }

    fn by(way: Way) -> Self {
        Self {
            way,
            timeout: None,
            always_load: false,
        }
    }

    /// Adds a variable to the environment of the server's process. Other kinds have none: for them
    /// it changes nothing.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Way::Stdio { env, .. } = &mut self.way {
            env.insert(name.into(), Secret::new(value));
        }
        self
    }

    /// Adds a header to every request to the server. Only servers behind a URL have them: for others
    /// it changes nothing.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Way::Http(remote) | Way::Sse(remote) = &mut self.way {
            remote.headers.insert(name.into(), Secret::new(value));
        }
        self
    }

    /// How long a call of one of its tools may take. The CLI takes no less than a second.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout.max(SHORTEST_TIMEOUT));
        self
    }

    /// The model sees its tools from the beginning, and the first turn waits a while for it.
    pub fn always_load(mut self) -> Self {
        self.always_load = true;
        self
    }

    pub(crate) fn is_always_loaded(&self) -> bool {
        self.always_load
    }

    /// The server itself, where it is one of this program.
    pub(crate) fn instance(&self) -> Option<&Instance> {
        match &self.way {
            Way::Sdk(instance) => Some(instance),
            _ => None,
        }
    }

    /// A server of this program with a limit of the CLI's: by default a little more than the time in
    /// which we answer, so that the CLI hears from us why there is no result.
    pub(crate) fn patient(&self, call_timeout: Duration) -> Self {
        let config = self.clone();
        match (&self.way, self.timeout) {
            (Way::Sdk(_), None) => config.timeout(call_timeout.saturating_add(GRACE)),
            _ => config,
        }
    }

    /// As `--mcp-config` and `mcp_set_servers` take it, with all secrets. `key` is the name under which
    /// the CLI knows the server.
    pub(crate) fn declared(&self, key: &str) -> Value {
        let mut entry = match &self.way {
            Way::Stdio { command, args, env } => stdio_entry(command, args, env),
            Way::Sse(remote) => remote.entry("sse"),
            Way::Http(remote) => remote.entry("http"),
            Way::Sdk(_) => object([("type", json!("sdk")), ("name", json!(key))]),
        };
        self.add_switches(&mut entry);
        Value::Object(entry)
    }

    /// As `sdkMcpServerConfigs` of `initialize` takes it: a server of this program that is declared by
    /// name has its settings here. Nothing where there are none.
    pub(crate) fn settings(&self) -> Option<Value> {
        let mut entry = Map::new();
        self.add_switches(&mut entry);
        (!entry.is_empty()).then_some(Value::Object(entry))
    }

    fn add_switches(&self, entry: &mut Map<String, Value>) {
        if let Some(timeout) = self.timeout {
            entry.insert("timeout".to_owned(), millis(timeout).into());
        }
        if self.always_load {
            entry.insert("alwaysLoad".to_owned(), true.into());
        }
    }
}

/// A time as the CLI takes it. It counts in 32 bits: of a longer one it would not wait at all.
pub(crate) fn millis(time: Duration) -> u64 {
    const MOST: u64 = 0x7fff_ffff;
    u64::try_from(time.as_millis()).map_or(MOST, |millis| millis.min(MOST))
}

impl From<Instance> for McpServerConfig {
    fn from(instance: Instance) -> Self {
        Self::sdk(instance)
    }
}

impl Remote {
    fn at(url: impl Into<String>) -> Self {
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

    /// Where the address leads, without what else it may hold: a password, a key in the query.
    fn place(&self) -> &str {
        let end = self.url.find(['?', '#']).unwrap_or(self.url.len());
        let place = self.url.get(..end).unwrap_or_default();
        let after_scheme = place.find("://").map_or(0, |at| at + 3);
        let authority_end = place
            .get(after_scheme..)
            .and_then(|rest| rest.find('/'))
            .map_or(place.len(), |at| after_scheme + at);
        match place.get(..authority_end).and_then(|text| text.rfind('@')) {
            Some(at) => place.get(at + 1..).unwrap_or_default(),
            None => place,
        }
    }
}

/// The CLI fails an entry without `args`, so that they are always there.
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

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remote = |f: &mut fmt::Formatter<'_>, kind: &str, remote: &Remote| {
            f.debug_struct(kind)
                .field("url", &remote.place())
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
    fn each_kind_is_declared_as_the_cli_wants_it() {
        let program = McpServerConfig::stdio("node", ["index.js"]).env("TOKEN", "t");
        assert_eq!(
            program.declared("p"),
            json!({"type": "stdio", "command": "node", "args": ["index.js"], "env": {"TOKEN": "t"}})
        );
        let bare = McpServerConfig::stdio("node", [""; 0]);
        assert_eq!(
            bare.declared("p"),
            json!({"type": "stdio", "command": "node", "args": []})
        );
        let http = McpServerConfig::http("http://localhost/mcp").header("X-T", "1");
        assert_eq!(
            http.declared("h"),
            json!({"type": "http", "url": "http://localhost/mcp", "headers": {"X-T": "1"}})
        );
        let sse = McpServerConfig::sse("http://localhost/sse").timeout(Duration::from_millis(1500));
        assert_eq!(
            sse.declared("s"),
            json!({"type": "sse", "url": "http://localhost/sse", "timeout": 1500})
        );
    }

    #[test]
    fn a_time_that_the_cli_would_not_take_becomes_the_nearest_that_it_takes() {
        let hasty = McpServerConfig::http("http://localhost/mcp").timeout(Duration::ZERO);
        assert_eq!(hasty.settings(), Some(json!({"timeout": 1000})));
        let patient = McpServerConfig::http("http://localhost/mcp").timeout(Duration::MAX);
        assert_eq!(patient.settings(), Some(json!({"timeout": i32::MAX})));
    }

    #[test]
    fn no_secret_of_an_entry_is_shown() {
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
