//! Servers on loopback that speak MCP over HTTP, well or badly.
//!
//! - [`HttpServer`] plays a [`Script`] over the transports of both eras, with faults to be armed.
//! - [`RawServer`] plays bytes, for what is no proper HTTP.
//! - [`FaultProxy`] stands before any server and breaks its connections by a plan drawn from a seed.
//!
//! They speak HTTP/1.1 by hand, so that every byte is theirs to get wrong. They run on the test's runtime,
//! in real time: a paused clock would run on while bytes are under way.

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

pub(crate) use fault::CannedResponse;
pub(crate) use request::Receiver;
pub(crate) use response::{ConnectionCut, Sender};

use crate::catalog_handle::CatalogHandle;
use crate::script::{Script, Step};
use crate::scripted::{Chunk, notification_line};
use state::{HttpServerState, ServerRun};

/// How long a test waits for anything before it gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// One address, `/mcp`. What is modern in the script is answered without sessions and by POST only,
    /// whatever is said here about those.
    Streamable {
        /// How requests are answered.
        format: ResponseFormat,
        /// `initialize` gives a session id, and everything after needs it. Legacy only.
        session: bool,
        /// There is a stream for what no request asked for, to be had by GET. Legacy only.
        get_stream: bool,
    },
    /// The transport of the first revision: a stream at `/sse`, answers come on it.
    LegacySse,
}

/// How requests are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseFormat {
    /// With JSON, unless something is said before the answer: then with a stream of events.
    Json,
    /// With a stream of events. A modern one begins with its first word, because refusals have a status.
    Sse,
}

impl Mode {
    /// ResponseFormat with JSON, with sessions and a stream to be had by GET where the script is legacy.
    pub const JSON: Self = Self::Streamable {
        format: ResponseFormat::Json,
        session: true,
        get_stream: true,
    };
    /// ResponseFormat with streams of events, with sessions and a stream to be had by GET where the script is
    /// legacy.
    pub const SSE: Self = Self::Streamable {
        format: ResponseFormat::Sse,
        session: true,
        get_stream: true,
    };
    /// ResponseFormat with JSON, and remembers nobody.
    pub const STATELESS: Self = Self::Streamable {
        format: ResponseFormat::Json,
        session: false,
        get_stream: false,
    };
}

/// A scripted server on loopback. Dropping it stops it.
///
/// `exit` and `abort` in the script stop it as [`HttpServer::stop`] does; `closeStdout` ends the stream
/// of that answer.
#[derive(Debug)]
pub struct HttpServer {
    inner: Arc<HttpServerState>,
    running: Mutex<CurrentRun>,
}

#[derive(Debug)]
struct CurrentRun {
    life: Arc<ServerRun>,
    task: Option<JoinHandle<()>>,
    lives: usize,
}

impl HttpServer {
    /// Starts a server at a free port, on the current runtime.
    pub async fn start(script: Script, mode: Mode) -> Self {
        let impossible = script.first_process_step();
        assert!(
            impossible.is_none(),
            "{impossible:?} needs a real process: play this script with the scripted-server binary"
        );
        let has_streams = |steps: &Vec<Step>| {
            let needs_one = |step: &Step| matches!(step, Step::CloseStdin | Step::StopReading);
            steps.iter().any(needs_one)
        };
        assert!(
            !script.on.values().any(has_streams),
            "closeStdin and stopReading need a stream of lines"
        );
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("there is a free port");
        let address = listener.local_addr().expect("it is bound");
        let inner = HttpServerState::new(script, mode, address);
        let life = ServerRun::new(&inner, 1);
        let server = Self {
            running: Mutex::new(CurrentRun {
                life: Arc::clone(&life),
                task: None,
                lives: 1,
            }),
            inner,
        };
        server.spawn(life, listener);
        server
    }

    fn running(&self) -> MutexGuard<'_, CurrentRun> {
        self.running.lock().expect("no holder panics")
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the server outlives this call and its handle is kept"
    )]
    fn spawn(&self, life: Arc<ServerRun>, listener: TcpListener) {
        let task = tokio::spawn(state::live(Arc::clone(&self.inner), life, listener));
        self.running().task = Some(task);
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.inner.address
    }

    /// Its address for a client.
    pub fn url(&self) -> String {
        let path = match self.inner.mode {
            Mode::Streamable { .. } => "mcp",
            Mode::LegacySse => "sse",
        };
        format!("http://{}/{path}", self.inner.address)
    }
}

/// What was seen.
impl HttpServer {
    /// Every request that arrived, in order, with those of which only a part was read.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.inner.requests()
    }

    /// The requests that carry a message of this method of the protocol.
    pub fn requests_with(&self, method: &str) -> Vec<ReceivedRequest> {
        let mut requests = self.requests();
        requests.retain(|seen| seen.rpc_method().as_deref() == Some(method));
        requests
    }

    /// Every byte that arrived, over all connections.
    pub fn received_bytes(&self) -> Vec<u8> {
        self.inner.bytes()
    }

    /// How often a handler has begun to carry out a request of this method (`"tools/call"`), or of this
    /// method and name (`"tools/call echo"`), or how often the step `count` has met this name.
    pub fn count(&self, name: &str) -> usize {
        self.inner.count(name)
    }

    /// The requests of this method that a handler has begun to carry out, in order, with `id`, `method`
    /// and `params`.
    pub fn executed(&self, method: &str) -> Vec<Value> {
        let mut executed = self.inner.memory.seen().executed.clone();
        executed.retain(|request| request.get("method").is_some_and(|found| found == method));
        executed
    }

    /// How many connections were accepted.
    pub fn connections(&self) -> usize {
        self.inner.connections()
    }

    /// How many connections are open.
    pub fn open_connections(&self) -> usize {
        self.inner.open_connections()
    }

    /// How many streams are open for what no request asked for: by GET, or by `subscriptions/listen`.
    pub fn open_streams(&self) -> usize {
        self.inner.open_streams()
    }

    /// Waits until the server is as described. Panics with the description after a minute.
    pub async fn wait_until(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let mut changes = self.inner.memory.changes();
        let enough = async {
            while !is_so(self) {
                let changed = changes.changed().await;
                changed.expect("the server keeps the sender");
            }
        };
        let outcome = tokio::time::timeout(PATIENCE, enough).await;
        assert!(
            outcome.is_ok(),
            "waited for: {what}; requests: {:#?}",
            self.requests()
        );
    }

    /// Waits until [`HttpServer::count`] has come to so many.
    pub async fn wait_count(&self, name: &str, times: usize) {
        let what = format!("{times} of {name}");
        self.wait_until(&what, |server| server.count(name) >= times)
            .await;
    }
}

/// What a test does to it.
impl HttpServer {
    /// Lets something go wrong. Of several that would come at once the first armed one does.
    pub fn arm(&self, fault: Fault) {
        self.inner.arm(fault);
    }

    /// Nothing that was armed goes wrong any more.
    pub fn disarm(&self) {
        self.inner.disarm();
    }

    /// Refuses every request without this token, with 401 and a challenge.
    pub fn require_bearer(&self, token: &str) {
        self.inner.require_bearer(Some(token));
    }

    /// Takes every request, with whatever token or none.
    pub fn require_no_token(&self) {
        self.inner.require_bearer(None);
    }

    /// Announces this address on every stream of [`Mode::LegacySse`] from now on.
    pub fn set_endpoint(&self, endpoint: &str) {
        self.inner.set_endpoint(endpoint);
    }

    /// Says at the beginning of every legacy stream when a client shall come back to it.
    pub fn set_retry(&self, retry: Duration) {
        self.inner.set_retry(retry);
    }

    /// Sends a notification to every client that listens: on the stream of each session, and on each
    /// `subscriptions/listen`. A session without an open stream gets it when it opens one.
    pub async fn push_notification(&self, method: &str, params: Value) {
        let life = Arc::clone(&self.running().life);
        life.player.publish(method, &params).await;
        let line = notification_line(method, Some(&params));
        if !self.inner.is_modern_only() {
            for session in life.listeners(self.inner.mode) {
                let _ = session.unasked.put(Chunk::Line(line.clone())).await;
            }
        }
    }

    /// What it offers besides tools, over all lives: to change it, and to see who is subscribed.
    pub fn catalog(&self) -> CatalogHandle {
        CatalogHandle::new(&self.inner.memory)
    }

    /// From now on closes every connection that waits for another request, as a server does that is
    /// short of them. It counts as open until the client has closed it too, so that those are seen
    /// which the client has forgotten.
    pub fn close_idle_connections(&self) {
        self.inner.close_idle_connections();
    }

    /// Closes all connections, whatever they are doing; comes back when they are closed.
    pub async fn drop_connections(&self) {
        let life = Arc::clone(&self.running().life);
        life.drop_connections().await;
    }

    /// Forgets all sessions: their streams end, and what names one of them is refused with 404.
    pub fn expire_sessions(&self) {
        self.running().life.end_sessions();
    }

    /// Ends the server: connections close, new ones are refused, nothing that was begun goes on.
    pub async fn stop(&self) {
        let (life, task) = {
            let mut running = self.running();
            (Arc::clone(&running.life), running.task.take())
        };
        if let Some(task) = task {
            task.abort();
            let _ = task.await;
        }
        life.player.abort();
        life.drop_connections().await;
    }

    /// Starts the server again at the same port, with the script from its beginning and no sessions. What
    /// it offers besides tools stays as it has become.
    /// Stops it before if it runs.
    pub async fn restart(&self) {
        self.stop().await;
        let listener = state::bind(self.inner.address).await;
        let life = {
            let mut running = self.running();
            running.lives += 1;
            running.life = ServerRun::new(&self.inner, running.lives);
            Arc::clone(&running.life)
        };
        self.spawn(life, listener);
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let running = self.running();
        if let Some(task) = &running.task {
            task.abort();
        }
        running.life.abort();
    }
}
