//! MCP servers over HTTP on loopback, well-behaved or faulty.
//!
//! - [`HttpServer`] plays a [`Script`] over the HTTP transports of both eras, with armable faults.
//! - [`RawServer`] sends arbitrary bytes, for malformed HTTP.
//! - [`FaultProxy`] forwards to any server and breaks connections according to a plan, which is
//!   usually derived from a seed.
//!
//! The two servers write HTTP/1.1 without a library, so that a test controls every byte. All three
//! need real time: with a paused clock tokio would skip ahead while bytes are in the kernel.

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

/// How long a test waits for a condition before the test panics, in real time.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// The HTTP transport of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Streamable HTTP at `/mcp`. `session` and `get_stream` do not apply to requests of the modern
    /// era, which has no sessions and uses only POST.
    Streamable {
        /// The format of responses to POST.
        format: ResponseFormat,
        /// If true, the response to `initialize` contains a session id, which all later requests
        /// must carry. Legacy era only.
        session: bool,
        /// If true, GET opens a stream for notifications. Legacy era only.
        get_stream: bool,
    },
    /// The transport of revision 2024-11-05: a stream at `/sse` carries all responses.
    LegacySse,
}

/// The format of responses to POST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseFormat {
    /// A JSON body. If the handler sends another message before the response, or if the request is
    /// `subscriptions/listen`, the body is an event stream instead.
    Json,
    /// An event stream. For a request of the modern era, the server waits for the first message
    /// before it sends the head, because an error may need its own HTTP status.
    Sse,
}

impl Mode {
    /// JSON responses; in the legacy era also sessions and a GET stream.
    pub const JSON: Self = Self::Streamable {
        format: ResponseFormat::Json,
        session: true,
        get_stream: true,
    };
    /// Event streams; in the legacy era also sessions and a GET stream.
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

/// A scripted server on loopback. Dropping it stops the server.
///
/// The steps `exit` and `abort` stop the server as [`HttpServer::stop`] does; `closeStdout` ends
/// the event stream of the request that runs the step.
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
    /// Starts a server at a free port, on the current runtime. Panics if the script has a step that
    /// works only in a child process, or has `closeStdin` or `stopReading` among the steps for a
    /// message.
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

    /// The loopback address at which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.state.address
    }

    /// The URL to which a client connects.
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
    /// Every request so far, in order, including requests whose body was not read completely.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.state.requests()
    }

    /// The requests whose body has this MCP method, in order.
    pub fn requests_with(&self, method: &str) -> Vec<ReceivedRequest> {
        let mut requests = self.requests();
        requests.retain(|request| request.rpc_method().as_deref() == Some(method));
        requests
    }

    /// The received bytes of all connections, in the order of arrival. Recording stops after 64
    /// MiB.
    pub fn received_bytes(&self) -> Vec<u8> {
        self.state.bytes()
    }

    /// How often a handler started for this method (`"tools/call"`) or method and name
    /// (`"tools/call echo"`), or how often the step `count` ran with this name.
    pub fn count(&self, name: &str) -> usize {
        self.state.count(name)
    }

    /// The requests of this MCP method whose handler has started, in order. Each is an object with
    /// `id`, `method` and `params`.
    pub fn executed(&self, method: &str) -> Vec<Value> {
        let mut executed = self.state.shared.observed().executed.clone();
        executed.retain(|request| request.get("method").is_some_and(|found| found == method));
        executed
    }

    /// Number of connections accepted so far, over all restarts.
    pub fn connections(&self) -> usize {
        self.state.connections()
    }

    /// Number of connections that are open now.
    pub fn open_connections(&self) -> usize {
        self.state.open_connections()
    }

    /// Number of notification streams that are open now. A client opens one by GET or by
    /// `subscriptions/listen`.
    pub fn open_streams(&self) -> usize {
        self.state.open_streams()
    }

    /// Waits until `condition` holds. Panics with `description` after a minute. The condition is
    /// checked after each recorded event.
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

/// Faults, settings, notifications, connections and restarts.
impl HttpServer {
    /// Arms a fault. If several armed faults match a request, the one armed first occurs.
    pub fn arm(&self, fault: Fault) {
        self.state.arm(fault);
    }

    /// Disarms all faults.
    pub fn disarm(&self) {
        self.state.disarm();
    }

    /// Responds with 401 and a challenge to every later request without this bearer token.
    pub fn require_bearer(&self, token: &str) {
        self.state.require_bearer(Some(token));
    }

    /// Accepts every later request, with any token or none.
    pub fn require_no_token(&self) {
        self.state.require_bearer(None);
    }

    /// Announces this POST endpoint on every later stream of [`Mode::LegacySse`].
    pub fn set_endpoint(&self, endpoint: &str) {
        self.state.set_endpoint(endpoint);
    }

    /// Sends a `retry` field at the start of every later event stream of the legacy era, except
    /// streams of [`Mode::LegacySse`].
    pub fn set_retry(&self, retry: Duration) {
        self.state.set_retry(retry);
    }

    /// Sends a notification to every listening client: on each `subscriptions/listen` whose filter
    /// matches, and on the notification stream of each legacy-era session. If a session has no open
    /// stream, its client receives the notification when it opens one.
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

    /// Returns a handle that changes the resources and prompts of this server and lists its
    /// subscriptions. The changes survive restarts.
    pub fn catalog(&self) -> CatalogHandle {
        CatalogHandle::new(&self.state.shared)
    }

    /// Closes the server's end of every connection that waits for a second or later request,
    /// including connections that begin to wait after this call. A connection counts as open until
    /// the client has closed its end too, so a test can detect connections that the client leaked.
    pub fn close_idle_connections(&self) {
        self.state.close_idle_connections();
    }

    /// Closes all connections, even in the middle of a response. Returns when they are closed.
    pub async fn drop_connections(&self) {
        let run = Arc::clone(&self.running().run);
        run.drop_connections().await;
    }

    /// Expires all sessions: their streams end, and later requests with their ids get 404.
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
