//! Real servers behind a URL: listed, one tool of each called, and restarted while they are in use.
//!
//! Each is a child of the test on a free port of loopback. It is ready when it says so on its stderr.

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

use super::offers::try_offers;
use super::{fixtures, try_entry};

/// A cold start of Node or Python on a busy machine takes seconds; more is a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many attempts there are at finding a port that stays free until the server has it.
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

/// A kind of server, where it serves, and a call that it answers.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    program: Program,
    transport: RemoteKind,
    path: &'static str,
    tool: &'static str,
    /// What the answer holds.
    answer: &'static str,
    /// There is a stream that ends with the server: the loss is noticed before the next call.
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
    answer: "hello",
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
    answer: "42",
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

/// A running server. It ends with this value.
pub(super) struct Served {
    kind: Kind,
    sandbox: Sandbox,
    fixtures: PathBuf,
    port: u16,
    child: Child,
}

impl Served {
    /// `None` if it is not installed and need not be.
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

    /// A new process in the place of the old one, which knows nothing of its sessions.
    fn start_again(&mut self) {
        let child = launch(self.kind, &self.sandbox, &self.fixtures, self.port);
        self.child = child.expect("the port was ours");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Starts the server and waits until it says that it listens; `None` if it ends before that.
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
    // Reads on to the end: a server that cannot write its log would wait for it.
    std::thread::spawn(move || {
        let mut lines = stderr.lines().map_while(Result::ok);
        let listens = |line: String| line.contains("on port") || line.contains("running on http");
        let _ = sender.send(lines.any(listens));
        lines.for_each(drop);
    });
    let listens = receiver.recv_timeout(PATIENCE).unwrap_or(false);
    if !listens {
        let _ = child.kill();
        child.wait().unwrap();
    }
    listens.then_some(child)
}

/// `list`, `tools` and `call` of the command line.
fn try_out(kind: Kind, entry_type: Option<&str>) {
    let Some(served) = Served::start(kind) else {
        return;
    };
    let mut entry = json!({"url": served.url()});
    if let Some(name) = entry_type {
        entry["type"] = name.into();
    }
    let answer = try_entry(&served.sandbox, &entry, kind.tool, &kind.arguments());
    assert!(answer.contains(kind.answer), "{answer}");
}

#[test]
fn everything_over_streamable_http() {
    try_out(STREAMABLE, Some("http"));
}

#[test]
fn everything_besides_tools_over_streamable_http() {
    if let Some(served) = Served::start(STREAMABLE) {
        try_offers(
            &served.sandbox,
            &json!({"type": "http", "url": served.url()}),
        );
    }
}

#[test]
fn everything_over_sse() {
    try_out(SSE, Some("sse"));
}

#[test]
fn everything_over_sse_is_found_out_from_a_bare_url() {
    try_out(SSE, None);
}

#[test]
fn fastmcp_over_http() {
    try_out(FASTMCP_HTTP, Some("http"));
}

/// A host with the server, and who sees it come and go.
struct Used {
    host: Host,
    events: Events,
    kind: Kind,
}

impl Used {
    async fn start(served: &Served) -> Self {
        let kind = served.kind;
        let name = ServerName::new("it").unwrap();
        let config = ServerConfig::remote(served.url(), kind.transport);
        let host = Host::builder()
            .launch(LaunchSpec::from_code(name, config))
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

    /// Waits until something is told of the server.
    async fn change(&mut self) {
        loop {
            match self.events.next().await {
                Some(Event::ServerChanged { .. }) => return,
                Some(_) => {}
                None => panic!("the host is gone"),
            }
        }
    }

    /// Waits for the server to come or to go.
    async fn until(&mut self, connected: bool) {
        let seen = timeout(PATIENCE, async {
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

    async fn assert_answers(&self) {
        let answer = self.call().await.unwrap();
        assert!(answer.contains(self.kind.answer), "{answer}");
    }
}

/// The server is killed between two calls, and comes back at the same address.
async fn restart_in_use(kind: Kind) {
    let Some(mut served) = Served::start(kind) else {
        return;
    };
    let mut used = Used::start(&served).await;
    used.assert_answers().await;

    served.stop();
    if kind.has_stream {
        used.until(false).await;
    }
    let refused = timeout(PATIENCE, used.call()).await;
    refused.expect("a dead server is noticed").unwrap_err();
    used.until(false).await;

    served.start_again();
    used.until(true).await;
    used.assert_answers().await;
    let tools = used.host.tools();
    assert!(tools.iter().all(|tool| tool.available), "{tools:?}");
    used.host.shutdown().await;
}

#[tokio::test]
async fn everything_over_streamable_http_comes_back() {
    restart_in_use(STREAMABLE).await;
}

#[tokio::test]
async fn everything_over_sse_comes_back() {
    restart_in_use(SSE).await;
}

#[tokio::test]
async fn fastmcp_over_http_comes_back() {
    restart_in_use(FASTMCP_HTTP).await;
}

/// So quick that nobody could notice but by the session, which the new process does not know.
#[tokio::test]
async fn a_session_that_the_server_forgot_is_replaced() {
    let Some(mut served) = Served::start(STREAMABLE) else {
        return;
    };
    let mut used = Used::start(&served).await;
    used.assert_answers().await;
    served.stop();
    served.start_again();
    // What is told on the way may differ; what matters is that it ends well, and soon.
    let came_back = timeout(PATIENCE, async {
        while let Err(error) = used.call().await {
            eprintln!("{error}");
            used.change().await;
        }
    });
    came_back.await.expect("the server is there");
    assert!(used.is_connected());
    used.host.shutdown().await;
}
