//! Real servers over HTTP and SSE: lists each server, calls one of its tools, and restarts the
//! server while the client is connected.
//!
//! Each server is a child process of the test on a free loopback port. The server prints to stderr
//! as soon as it listens.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard::event::Events;
use switchboard::permission::{Action, Rule};
use switchboard::status::ConnectionStatus;
use switchboard::{Event, Host, Readiness};
use switchboard_config::{LaunchSpec, RemoteKind, ServerConfig, ServerName};
use switchboard_testkit::Sandbox;
use tokio::time::timeout;

use super::listings::try_listings;
use super::{fixtures, try_entry};

/// Timeout for each wait. A cold start of Node or Python takes several seconds on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How many ports are tried: another process may take a free port before the server binds it.
const ATTEMPTS: usize = 3;

const FASTMCP: &str = "\
import sys
from fastmcp import FastMCP
server = FastMCP('sums')
@server.tool
def add(a: int, b: int) -> int:
    return a + b
server.run(transport='http', host='127.0.0.1', port=int(sys.argv[1]), show_banner=False)
";

/// A server program, its endpoint, and a call to test it with.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    program: Program,
    transport: RemoteKind,
    path: &'static str,
    tool: &'static str,
    /// Text that the result of the call contains.
    expected: &'static str,
    /// Whether the client holds a stream open, and so notices a crash of the server before the next
    /// call.
    has_stream: bool,
}

#[derive(Clone, Copy)]
enum Program {
    /// `@modelcontextprotocol/server-everything`, with the name of its transport.
    Everything(&'static str),
    FastMcp,
}

pub(super) const STREAMABLE: Kind = Kind {
    program: Program::Everything("streamableHttp"),
    transport: RemoteKind::Http,
    path: "/mcp",
    tool: "echo",
    expected: "hello",
    has_stream: true,
};

const SSE: Kind = Kind {
    program: Program::Everything("sse"),
    transport: RemoteKind::Sse,
    path: "/sse",
    ..STREAMABLE
};

const FASTMCP_HTTP: Kind = Kind {
    program: Program::FastMcp,
    transport: RemoteKind::Http,
    path: "/mcp",
    tool: "add",
    expected: "42",
    has_stream: false,
};

impl Kind {
    fn arguments(self) -> Value {
        match self.program {
            Program::Everything(_) => json!({"message": "hello"}),
            Program::FastMcp => json!({"a": 15, "b": 27}),
        }
    }

    fn entry_point(self) -> &'static str {
        match self.program {
            Program::Everything(_) => {
                "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
            }
            Program::FastMcp => "venv/bin/python",
        }
    }
}

/// A running server. Dropping the value kills it.
pub(super) struct RunningServer {
    kind: Kind,
    sandbox: Sandbox,
    fixtures: PathBuf,
    port: u16,
    child: Child,
}

impl RunningServer {
    /// Starts the server, and returns `None` if the test is skipped.
    pub(super) fn start(kind: Kind) -> Option<Self> {
        let fixtures = fixtures(kind.entry_point())?;
        let sandbox = Sandbox::new();
        for _ in 0..ATTEMPTS {
            let port = free_port();
            if let Some(child) = launch(kind, &sandbox, &fixtures, port) {
                return Some(Self {
                    kind,
                    sandbox,
                    fixtures,
                    port,
                    child,
                });
            }
        }
        panic!("the server does not start");
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}{}", self.port, self.kind.path)
    }

    fn stop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts a new server process on the same port, which does not know the sessions of the old
    /// process.
    fn start_again(&mut self) {
        let child = launch(self.kind, &self.sandbox, &self.fixtures, self.port);
        self.child = child.expect("the port is free again");
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Starts the server and waits until it listens. Returns `None` if it exits before that.
fn launch(kind: Kind, sandbox: &Sandbox, fixtures: &Path, port: u16) -> Option<Child> {
    let entry_point = fixtures.join(kind.entry_point());
    let mut command = match kind.program {
        Program::Everything(transport) => {
            let mut node = sandbox.command("node");
            node.arg(entry_point).arg(transport);
            node.env("PORT", port.to_string());
            node
        }
        Program::FastMcp => {
            let mut python = sandbox.command(entry_point);
            python.args(["-c", FASTMCP, &port.to_string()]);
            python
        }
    };
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let (sender, receiver) = sync_channel(1);
    // Drains stderr to the end: a full pipe would block the server.
    std::thread::spawn(move || {
        let mut lines = stderr.lines().map_while(Result::ok);
        let listens = |line: String| line.contains("on port") || line.contains("running on http");
        let _ = sender.send(lines.any(listens));
        lines.for_each(drop);
    });
    let listens = receiver.recv_timeout(TIMEOUT).unwrap_or(false);
    if !listens {
        let _ = child.kill();
        child.wait().unwrap();
    }
    listens.then_some(child)
}

/// Runs `list`, `tools` and `call`.
fn try_out(kind: Kind, entry_type: Option<&str>) {
    let Some(server) = RunningServer::start(kind) else {
        return;
    };
    let mut entry = json!({"url": server.url()});
    if let Some(name) = entry_type {
        entry["type"] = name.into();
    }
    let result = try_entry(&server.sandbox, &entry, kind.tool, &kind.arguments());
    assert!(result.contains(kind.expected), "{result}");
}

#[test]
fn everything_server_works_over_streamable_http() {
    try_out(STREAMABLE, Some("http"));
}

#[test]
fn everything_server_lists_resources_over_http() {
    if let Some(server) = RunningServer::start(STREAMABLE) {
        try_listings(
            &server.sandbox,
            &json!({"type": "http", "url": server.url()}),
        );
    }
}

#[test]
fn everything_server_works_over_sse() {
    try_out(SSE, Some("sse"));
}

#[test]
fn sse_is_detected_from_bare_url() {
    try_out(SSE, None);
}

#[test]
fn fastmcp_server_works_over_http() {
    try_out(FASTMCP_HTTP, Some("http"));
}

/// A host that is connected to the server.
struct Connection {
    host: Host,
    events: Events,
    kind: Kind,
}

impl Connection {
    async fn start(server: &RunningServer) -> Self {
        let kind = server.kind;
        let name = ServerName::new("it").unwrap();
        let config = ServerConfig::remote(server.url(), kind.transport);
        let host = Host::builder()
            .launch(LaunchSpec::trusted(name, config))
            .rule(Rule::new(Action::Allow, "mcp__it").unwrap())
            .start()
            .unwrap();
        let events = host.events();
        host.wait_for(Readiness::All).await;
        Self { host, events, kind }
    }

    fn is_connected(&self) -> bool {
        let status = self.host.server_status("it").unwrap();
        status.status == ConnectionStatus::Connected
    }

    /// Waits for the next status event of the server.
    async fn change(&mut self) {
        loop {
            match self.events.next().await {
                Some(Event::ServerChanged { .. }) => return,
                Some(_) => {}
                None => panic!("the host has stopped"),
            }
        }
    }

    async fn wait_until_connected(&mut self, connected: bool) {
        let seen = timeout(TIMEOUT, async {
            while self.is_connected() != connected {
                self.change().await;
            }
        });
        let seen = seen.await.is_ok();
        let status = self.host.server_status("it").unwrap();
        assert!(seen, "connected: {connected}, {status:?}");
    }

    async fn call(&self) -> Result<String, switchboard::CallError> {
        let name = format!("mcp__it__{}", self.kind.tool);
        let output = self.host.call(&name, self.kind.arguments()).await?;
        Ok(output.to_text())
    }

    async fn assert_call_succeeds(&self) {
        let result = self.call().await.unwrap();
        assert!(result.contains(self.kind.expected), "{result}");
    }
}

/// Kills the server between two calls and restarts it on the same port.
async fn restart_in_use(kind: Kind) {
    let Some(mut server) = RunningServer::start(kind) else {
        return;
    };
    let mut connection = Connection::start(&server).await;
    connection.assert_call_succeeds().await;

    server.stop();
    if kind.has_stream {
        connection.wait_until_connected(false).await;
    }
    let refused = timeout(TIMEOUT, connection.call()).await;
    refused.expect("the call fails in time").unwrap_err();
    connection.wait_until_connected(false).await;

    server.start_again();
    connection.wait_until_connected(true).await;
    connection.assert_call_succeeds().await;
    let tools = connection.host.tools();
    assert!(tools.iter().all(|tool| tool.available), "{tools:?}");
    connection.host.shutdown().await;
}

#[tokio::test]
async fn streamable_http_reconnects_after_restart() {
    restart_in_use(STREAMABLE).await;
}

#[tokio::test]
async fn sse_reconnects_after_restart() {
    restart_in_use(SSE).await;
}

#[tokio::test]
async fn fastmcp_reconnects_after_restart() {
    restart_in_use(FASTMCP_HTTP).await;
}

/// Restarts the server between two calls, so fast that the host notices the restart only by the
/// error for an unknown session id.
#[tokio::test]
async fn expired_session_is_replaced() {
    let Some(mut server) = RunningServer::start(STREAMABLE) else {
        return;
    };
    let mut connection = Connection::start(&server).await;
    connection.assert_call_succeeds().await;
    server.stop();
    server.start_again();
    // Which errors occur before the reconnect depends on timing, so they are only printed.
    let reconnected = timeout(TIMEOUT, async {
        while let Err(error) = connection.call().await {
            eprintln!("{error}");
            connection.change().await;
        }
    });
    reconnected.await.expect("the host reconnects in time");
    assert!(connection.is_connected());
    connection.host.shutdown().await;
}
