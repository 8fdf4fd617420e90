//! The state of a scripted HTTP server. A part of it survives a restart, the rest belongs to one
//! run of the server.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Mode;
use super::connection::Connection;
use super::fault::{ArmedFaults, Fault, FaultTrigger};
use super::request::ReceivedRequest;
use super::session::Session;
use crate::script::{Era, Script};
use crate::scripted::{Request, ScriptDriver, SharedState};

/// Maximum number of received bytes that are recorded. Bytes received later are not recorded.
const MAX_RECORDED_BYTES: usize = 64 * 1024 * 1024;
/// How often the server retries to bind a port that was just released, and the pause before each
/// retry.
const BIND_ATTEMPTS: u32 = 200;
const BIND_PAUSE: Duration = Duration::from_millis(10);

/// The part of an HTTP server's state that survives a restart.
#[derive(Debug)]
pub(super) struct HttpServerState {
    pub(super) script: Script,
    pub(super) mode: Mode,
    pub(super) address: SocketAddr,
    pub(super) shared: Arc<SharedState>,
    recorded: Mutex<Recorded>,
    settings: Mutex<Settings>,
    connections: AtomicUsize,
    open_connections: AtomicUsize,
    open_streams: AtomicUsize,
    keeps_connections: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Recorded {
    requests: Vec<ReceivedRequest>,
    bytes: Vec<u8>,
}

/// Faults and other settings that the test changes while the server runs.
#[derive(Debug, Default)]
struct Settings {
    faults: ArmedFaults,
    bearer: Option<String>,
    endpoint: Option<String>,
    retry: Option<Duration>,
}

/// Counts one connection or stream as open for as long as this guard exists.
#[derive(Debug)]
pub(super) struct OpenGuard {
    state: Arc<HttpServerState>,
    count: fn(&HttpServerState) -> &AtomicUsize,
}

impl OpenGuard {
    fn new(state: &Arc<HttpServerState>, count: fn(&HttpServerState) -> &AtomicUsize) -> Self {
        count(state).fetch_add(1, Ordering::Relaxed);
        state.shared.notify_change();
        Self {
            state: Arc::clone(state),
            count,
        }
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        (self.count)(&self.state).fetch_sub(1, Ordering::Relaxed);
        self.state.shared.notify_change();
    }
}

impl HttpServerState {
    pub(super) fn new(script: Script, mode: Mode, address: SocketAddr) -> Arc<Self> {
        Arc::new(Self {
            script,
            mode,
            address,
            shared: Arc::default(),
            recorded: Mutex::default(),
            settings: Mutex::default(),
            connections: AtomicUsize::new(0),
            open_connections: AtomicUsize::new(0),
            open_streams: AtomicUsize::new(0),
            keeps_connections: watch::Sender::new(true),
        })
    }

    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().expect("the lock is not poisoned")
    }

    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().expect("the lock is not poisoned")
    }
}

/// Recorded traffic.
impl HttpServerState {
    /// Records a request and returns its index among the recorded requests.
    pub(super) fn record(&self, request: ReceivedRequest) -> usize {
        let index = {
            let requests = &mut self.recorded().requests;
            requests.push(request);
            requests.len() - 1
        };
        self.shared.notify_change();
        index
    }

    pub(super) fn record_status(&self, index: usize, status: Option<u16>) {
        if let Some(request) = self.recorded().requests.get_mut(index) {
            request.status = status;
        }
        self.shared.notify_change();
    }

    pub(super) fn record_bytes(&self, bytes: &[u8]) {
        let mut recorded = self.recorded();
        let remaining = MAX_RECORDED_BYTES - recorded.bytes.len();
        let kept = bytes.get(..bytes.len().min(remaining)).unwrap_or_default();
        recorded.bytes.extend_from_slice(kept);
    }

    pub(super) fn requests(&self) -> Vec<ReceivedRequest> {
        self.recorded().requests.clone()
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.recorded().bytes.clone()
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub(super) fn open_connections(&self) -> usize {
        self.open_connections.load(Ordering::Relaxed)
    }

    pub(super) fn open_streams(&self) -> usize {
        self.open_streams.load(Ordering::Relaxed)
    }

    /// Counts a notification stream as open until the returned guard is dropped.
    pub(super) fn count_stream(self: &Arc<Self>) -> OpenGuard {
        OpenGuard::new(self, |state| &state.open_streams)
    }

    pub(super) fn count(&self, name: &str) -> usize {
        let observed = self.shared.observed();
        observed.counters.get(name).copied().unwrap_or_default()
    }
}

/// Configuration by the test.
impl HttpServerState {
    pub(super) fn arm(&self, fault: Fault) {
        self.settings().faults.arm(fault);
    }

    pub(super) fn disarm(&self) {
        self.settings().faults.disarm();
    }

    /// Returns the armed fault that occurs now, if any, and counts the occurrence.
    pub(super) fn take_fault(
        &self,
        trigger: FaultTrigger,
        request: Option<&ReceivedRequest>,
    ) -> Option<Fault> {
        if self.settings().faults.is_empty() {
            return None;
        }
        let names = request.map(ReceivedRequest::names).unwrap_or_default();
        self.settings().faults.take(trigger, &names)
    }

    pub(super) fn require_bearer(&self, token: Option<&str>) {
        self.settings().bearer = token.map(str::to_owned);
    }

    /// Returns the `WWW-Authenticate` challenge to a request without the required token; `None` if
    /// the request is allowed.
    pub(super) fn challenge_to(&self, request: &ReceivedRequest) -> Option<String> {
        let token = self.settings().bearer.clone()?;
        let authorization = request.header("authorization");
        (authorization != Some(&format!("Bearer {token}"))).then(|| {
            let error = authorization.map_or("", |_| r#", error="invalid_token""#);
            let address = self.address;
            let metadata = format!("http://{address}/.well-known/oauth-protected-resource/mcp");
            format!(r#"Bearer resource_metadata="{metadata}"{error}"#)
        })
    }

    pub(super) fn set_endpoint(&self, endpoint: &str) {
        self.settings().endpoint = Some(endpoint.to_owned());
    }

    pub(super) fn set_retry(&self, retry: Duration) {
        self.settings().retry = Some(retry);
    }

    /// The delay in the `retry` field at the start of each resumable event stream; `None`: no such
    /// field.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.settings().retry
    }

    pub(super) fn close_idle_connections(&self) {
        self.keeps_connections.send_replace(false);
    }

    /// Waits until the test calls
    /// [`HttpServer::close_idle_connections`](super::HttpServer::close_idle_connections).
    pub(super) async fn idle_connections_closed(&self) {
        let mut keeps = self.keeps_connections.subscribe();
        let _ = keeps.wait_for(|keeps| !keeps).await;
    }

    /// The URL that the server announces to a client of [`Mode::LegacySse`] for POST.
    pub(super) fn endpoint(&self, session: &str) -> String {
        let set = self.settings().endpoint.clone();
        set.unwrap_or_else(|| format!("/message?sessionId={session}"))
    }
}

/// Configuration by the script.
impl HttpServerState {
    pub(super) fn is_modern_only(&self) -> bool {
        self.script.era == Era::Modern
    }

    /// Returns whether the request is a `server/discover` probe and the script defines how to
    /// handle it. Of the legacy-era requests without a session id, a server with sessions accepts
    /// only such a probe and `initialize`.
    pub(super) fn handles_probe(&self, request: &Request) -> bool {
        let has_probe_fault = matches!(
            self.script.era,
            Era::LegacyExitsOnProbe | Era::LegacySilentOnProbe
        );
        request.method == "server/discover"
            && (has_probe_fault || self.script.on.contains_key("server/discover"))
    }

    /// Returns whether an event stream starts with an empty event, as revision 2025-11-25 requires.
    pub(super) fn starts_with_empty_event(&self) -> bool {
        self.script.protocol_version.as_deref() == Some("2025-11-25")
    }
}

/// The part of an HTTP server's state that ends with a stop or restart.
#[derive(Debug)]
pub(super) struct ServerRun {
    pub(super) driver: ScriptDriver,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    /// The session of all requests if the server gives out no session ids, otherwise of
    /// `server/discover` probes without a session id.
    common: Arc<Session>,
    ordinal: usize,
    last: AtomicU64,
    connections: Mutex<JoinSet<()>>,
}

impl ServerRun {
    pub(super) fn new(state: &HttpServerState, ordinal: usize) -> Arc<Self> {
        Arc::new(Self {
            driver: ScriptDriver::new(state.script.clone(), &state.shared, ordinal),
            sessions: Mutex::default(),
            common: Session::new(String::new()),
            ordinal,
            last: AtomicU64::new(0),
            connections: Mutex::default(),
        })
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.sessions.lock().expect("the lock is not poisoned")
    }

    /// Returns a name that starts with `prefix` and is unique over all runs of the server.
    pub(super) fn unique_name(&self, prefix: &str) -> String {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        format!("{prefix}-{}-{number}", self.ordinal)
    }

    pub(super) fn open_session(&self) -> Arc<Session> {
        let session = Session::new(self.unique_name("session"));
        self.sessions()
            .insert(session.id.clone(), Arc::clone(&session));
        session
    }

    pub(super) fn session(&self, id: &str) -> Option<Arc<Session>> {
        self.sessions().get(id).cloned()
    }

    pub(super) fn common_session(&self) -> Arc<Session> {
        Arc::clone(&self.common)
    }

    /// The sessions that receive notifications in this transport mode.
    pub(super) fn listeners(&self, mode: Mode) -> Vec<Arc<Session>> {
        let sessions = || self.sessions().values().cloned().collect();
        match mode {
            Mode::Streamable {
                get_stream: false, ..
            } => Vec::new(),
            Mode::Streamable { session: false, .. } => vec![self.common_session()],
            _ => sessions(),
        }
    }

    pub(super) fn end_session(&self, id: &str) -> Option<()> {
        let session = self.sessions().remove(id)?;
        session.end();
        Some(())
    }

    fn connections(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.connections.lock().expect("the lock is not poisoned")
    }

    /// Aborts all connections of this run; returns when they are closed.
    pub(super) async fn drop_connections(&self) {
        let mut connections = std::mem::take(&mut *self.connections());
        connections.shutdown().await;
    }

    /// Aborts all tokio tasks of this run. The tasks and the run own each other, so dropping the
    /// run alone would leak both.
    pub(super) fn abort(&self) {
        self.connections().abort_all();
        self.driver.abort();
    }

    pub(super) fn end_sessions(&self) {
        for (_, session) in self.sessions().drain() {
            session.end();
        }
    }
}

/// Runs the start steps, then accepts connections until the script ends the server.
pub(super) async fn accept_loop(
    state: Arc<HttpServerState>,
    run: Arc<ServerRun>,
    listener: TcpListener,
) {
    run.driver.begin().await;
    tokio::select! {
        biased;
        _ = run.driver.ended() => {}
        () = accept(&state, &run, &listener) => {}
    }
    drop(listener);
    run.driver.abort();
    run.drop_connections().await;
}

async fn accept(state: &Arc<HttpServerState>, run: &Arc<ServerRun>, listener: &TcpListener) {
    loop {
        // `accept` fails if the process has too many open files. Retry until a connection closes.
        let Ok((socket, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let number = state.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let open = OpenGuard::new(state, |state| &state.open_connections);
        let connection = Connection::new(Arc::clone(state), Arc::clone(run), socket, number);
        let mut connections = run.connections();
        while connections.try_join_next().is_some() {}
        connections.spawn(async move {
            connection.serve().await;
            drop(open);
        });
    }
}

/// Binds an address. Retries, because the previous run may just have released it.
pub(super) async fn bind(address: SocketAddr) -> TcpListener {
    let mut attempts = 0;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) if attempts == BIND_ATTEMPTS => {
                panic!("cannot listen at {address}: {error}")
            }
            Err(_) => attempts += 1,
        }
        tokio::time::sleep(BIND_PAUSE).await;
    }
}
