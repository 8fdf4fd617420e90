//! MCP servers over HTTP on loopback, well-behaved or faulty.
//!
//! - [`HttpServer`] plays a [`Script`] over the HTTP transports of both eras, with armable faults.
//! - [`RawServer`] sends arbitrary bytes, for malformed HTTP.
//! - [`FaultProxy`] forwards to any server and breaks connections by a plan derived from a seed.
//!
//! They write HTTP/1.1 without a library, so that a test controls every byte. They need real time:
//! with a paused clock tokio would skip ahead while bytes are in the kernel.

mod connection;
mod event_log;
mod fault;
mod fault_proxy;
mod headers;
mod raw_server;
mod request;
mod response;
mod route;
mod session;
mod state;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use fault::Fault;
pub use fault_proxy::{ConnectionPlan, DirectionPlan, FaultKind, FaultProxy};
pub use raw_server::{RawServer, RawStep};
pub use request::ReceivedRequest;

pub(crate) use connection::AfterResponse;
pub(crate) use fault::CannedResponse;
pub(crate) use request::RequestReader;
pub(crate) use response::{ConnectionCut, ResponseWriter};

use crate::catalog_handle::CatalogHandle;
use crate::script::{Script, Step};
use crate::scripted::{Chunk, notification_line};
use state::{HttpServerState, ServerRun};

/// How long a test waits for a condition before it panics.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// The transport of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Streamable HTTP at `/mcp`. Modern requests ignore `session` and `get_stream`: they have no
    /// sessions and use POST only.
    Streamable {
        /// The format of responses.
        format: ResponseFormat,
        /// `initialize` returns a session id, which all later requests must carry. Legacy only.
        session: bool,
        /// GET opens a stream for notifications. Legacy only.
        get_stream: bool,
    },
    /// The transport of revision 2024-11-05: a stream at `/sse` carries all responses.
    LegacySse,
}

/// The format of responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseFormat {
    /// JSON, or an event stream if the handler sends a message before the response.
    Json,
    /// An event stream. A modern server waits for the first message before it sends the head,
    /// because an error may need its own HTTP status.
    Sse,
}

impl Mode {
    /// JSON responses; legacy scripts have sessions and a GET stream.
    pub const JSON: Self = Self::Streamable {
        format: ResponseFormat::Json,
        session: true,
        get_stream: true,
    };
    /// Event streams; legacy scripts have sessions and a GET stream.
    pub const SSE: Self = Self::Streamable {
        format: ResponseFormat::Sse,
        session: true,
        get_stream: true,
    };
    /// JSON responses, no sessions and no GET stream.
    pub const STATELESS: Self = Self::Streamable {
        format: ResponseFormat::Json,
        session: false,
        get_stream: false,
    };
}

/// A scripted server on loopback. Dropping it stops it.
///
/// The steps `exit` and `abort` stop it like [`HttpServer::stop`]; `closeStdout` ends the stream of
/// the response.
#[derive(Debug)]
pub struct HttpServer {
    state: Arc<HttpServerState>,
    running: Mutex<CurrentRun>,
}

#[derive(Debug)]
struct CurrentRun {
    run: Arc<ServerRun>,
    task: Option<JoinHandle<()>>,
    runs: usize,
}

impl HttpServer {
    /// Starts a server at a free port, on the current runtime.
    pub async fn start(script: Script, mode: Mode) -> Self {
        let process_step = script.first_process_step();
        assert!(
            process_step.is_none(),
            "{process_step:?} needs a process; use the scripted-server binary"
        );
        let has_stream_step = |steps: &Vec<Step>| {
            let is_stream_step = |step: &Step| matches!(step, Step::CloseStdin | Step::StopReading);
            steps.iter().any(is_stream_step)
        };
        assert!(
            !script.on.values().any(has_stream_step),
            "closeStdin and stopReading do not work over HTTP"
        );
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let state = HttpServerState::new(script, mode, address);
        let run = ServerRun::new(&state, 1);
        let server = Self {
            running: Mutex::new(CurrentRun {
                run: Arc::clone(&run),
                task: None,
                runs: 1,
            }),
            state,
        };
        server.spawn(run, listener);
        server
    }

    fn running(&self) -> MutexGuard<'_, CurrentRun> {
        self.running.lock().expect("the lock is not poisoned")
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the server outlives this call and its handle is kept"
    )]
    fn spawn(&self, run: Arc<ServerRun>, listener: TcpListener) {
        let task = tokio::spawn(state::accept_loop(Arc::clone(&self.state), run, listener));
        self.running().task = Some(task);
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.state.address
    }

    /// The URL for a client.
    pub fn url(&self) -> String {
        let path = match self.state.mode {
            Mode::Streamable { .. } => "mcp",
            Mode::LegacySse => "sse",
        };
        format!("http://{}/{path}", self.state.address)
    }
}

/// Recorded traffic.
impl HttpServer {
    /// Every request so far, in order, including requests that were only partly read.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.state.requests()
    }

    /// The requests with this MCP method.
    pub fn requests_with(&self, method: &str) -> Vec<ReceivedRequest> {
        let mut requests = self.requests();
        requests.retain(|request| request.rpc_method().as_deref() == Some(method));
        requests
    }

    /// Every received byte, over all connections.
    pub fn received_bytes(&self) -> Vec<u8> {
        self.state.bytes()
    }

    /// How often a handler started for this method (`"tools/call"`) or method and name
    /// (`"tools/call echo"`), or how often the step `count` ran with this name.
    pub fn count(&self, name: &str) -> usize {
        self.state.count(name)
    }

    /// The requests of this method whose handler has started, in order, with `id`, `method` and
    /// `params`.
    pub fn executed(&self, method: &str) -> Vec<Value> {
        let mut executed = self.state.shared.observed().executed.clone();
        executed.retain(|request| request.get("method").is_some_and(|found| found == method));
        executed
    }

    /// Number of accepted connections.
    pub fn connections(&self) -> usize {
        self.state.connections()
    }

    /// Number of open connections.
    pub fn open_connections(&self) -> usize {
        self.state.open_connections()
    }

    /// Number of open notification streams: by GET, or by `subscriptions/listen`.
    pub fn open_streams(&self) -> usize {
        self.state.open_streams()
    }

    /// Waits until `condition` holds. Panics with `description` after a minute.
    pub async fn wait_until(&self, description: &str, mut condition: impl FnMut(&Self) -> bool) {
        let mut changes = self.state.shared.changes();
        let wait = async {
            while !condition(self) {
                let changed = changes.changed().await;
                changed.expect("the server keeps the sender");
            }
        };
        let outcome = tokio::time::timeout(WAIT_TIMEOUT, wait).await;
        assert!(
            outcome.is_ok(),
            "waited for: {description}; requests: {:#?}",
            self.requests()
        );
    }

    /// Waits until [`HttpServer::count`] reaches `times`.
    pub async fn wait_count(&self, name: &str, times: usize) {
        let description = format!("{times} of {name}");
        self.wait_until(&description, |server| server.count(name) >= times)
            .await;
    }
}

/// Control.
impl HttpServer {
    /// Arms a fault. If several faults match a request, the one armed first occurs.
    pub fn arm(&self, fault: Fault) {
        self.state.arm(fault);
    }

    /// Disarms all faults.
    pub fn disarm(&self) {
        self.state.disarm();
    }

    /// Rejects every request without this token with 401 and a challenge.
    pub fn require_bearer(&self, token: &str) {
        self.state.require_bearer(Some(token));
    }

    /// Accepts every request, with any token or none.
    pub fn require_no_token(&self) {
        self.state.require_bearer(None);
    }

    /// Announces this endpoint on every later stream of [`Mode::LegacySse`].
    pub fn set_endpoint(&self, endpoint: &str) {
        self.state.set_endpoint(endpoint);
    }

    /// Sends a `retry` field at the start of every legacy stream.
    pub fn set_retry(&self, retry: Duration) {
        self.state.set_retry(retry);
    }

    /// Sends a notification to every listening client: on the stream of each session, and on each
    /// `subscriptions/listen`. A session without an open stream receives it when it opens one.
    pub async fn push_notification(&self, method: &str, params: Value) {
        let run = Arc::clone(&self.running().run);
        run.driver.publish(method, &params).await;
        let line = notification_line(method, Some(&params));
        if !self.state.is_modern_only() {
            for session in run.listeners(self.state.mode) {
                let _ = session.notifications.put(Chunk::Line(line.clone())).await;
            }
        }
    }

    /// Returns a handle that changes resources and prompts and lists subscriptions. Changes survive
    /// restarts.
    pub fn catalog(&self) -> CatalogHandle {
        CatalogHandle::new(&self.state.shared)
    }

    /// Closes every idle connection from now on. A connection counts as open until the client has
    /// closed its end, so a test can detect connections that the client leaked.
    pub fn close_idle_connections(&self) {
        self.state.close_idle_connections();
    }

    /// Closes all connections, even in the middle of a response. Returns when they are closed.
    pub async fn drop_connections(&self) {
        let run = Arc::clone(&self.running().run);
        run.drop_connections().await;
    }

    /// Expires all sessions: their streams end, and requests with their ids get 404.
    pub fn expire_sessions(&self) {
        self.running().run.end_sessions();
    }

    /// Stops the server: aborts handlers, closes connections and refuses new ones.
    pub async fn stop(&self) {
        let (run, task) = {
            let mut running = self.running();
            (Arc::clone(&running.run), running.task.take())
        };
        if let Some(task) = task {
            task.abort();
            let _ = task.await;
        }
        run.driver.abort();
        run.drop_connections().await;
    }

    /// Restarts the server at the same port, with the script from its beginning and no sessions.
    /// The resources and prompts keep their changes.
    pub async fn restart(&self) {
        self.stop().await;
        let listener = state::bind(self.state.address).await;
        let run = {
            let mut running = self.running();
            running.runs += 1;
            running.run = ServerRun::new(&self.state, running.runs);
            Arc::clone(&running.run)
        };
        self.spawn(run, listener);
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let running = self.running();
        if let Some(task) = &running.task {
            task.abort();
        }
        running.run.abort();
    }
}
