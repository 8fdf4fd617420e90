//! The state of a scripted HTTP server, and its lives: a restart begins a new one.

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

/// How many received bytes are kept for the test to look at.
const MOST_BYTES: usize = 64 * 1024 * 1024;
/// How often, and with what pause, a port is asked for that was just left.
const BIND_ATTEMPTS: u32 = 200;
const BIND_PAUSE: Duration = Duration::from_millis(10);

/// What outlives a restart.
#[derive(Debug)]
pub(super) struct HttpServerState {
    pub(super) script: Script,
    pub(super) mode: Mode,
    pub(super) address: SocketAddr,
    pub(super) memory: Arc<SharedState>,
    noted: Mutex<Noted>,
    connections: AtomicUsize,
    open_connections: AtomicUsize,
    open_streams: AtomicUsize,
    keeps_connections: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Noted {
    requests: Vec<ReceivedRequest>,
    bytes: Vec<u8>,
    armed: ArmedFaults,
    bearer: Option<String>,
    endpoint: Option<String>,
    retry: Option<Duration>,
}

/// Something that is open, counted for as long as it is.
#[derive(Debug)]
pub(super) struct OpenGuard {
    inner: Arc<HttpServerState>,
    count: fn(&HttpServerState) -> &AtomicUsize,
}

impl OpenGuard {
    fn new(inner: &Arc<HttpServerState>, count: fn(&HttpServerState) -> &AtomicUsize) -> Self {
        count(inner).fetch_add(1, Ordering::Relaxed);
        inner.memory.touch();
        Self {
            inner: Arc::clone(inner),
            count,
        }
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        (self.count)(&self.inner).fetch_sub(1, Ordering::Relaxed);
        self.inner.memory.touch();
    }
}

impl HttpServerState {
    pub(super) fn new(script: Script, mode: Mode, address: SocketAddr) -> Arc<Self> {
        Arc::new(Self {
            script,
            mode,
            address,
            memory: Arc::default(),
            noted: Mutex::default(),
            connections: AtomicUsize::new(0),
            open_connections: AtomicUsize::new(0),
            open_streams: AtomicUsize::new(0),
            keeps_connections: watch::Sender::new(true),
        })
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().expect("no holder panics")
    }
}

/// What was seen.
impl HttpServerState {
    /// Keeps a request, and says where.
    pub(super) fn record(&self, seen: ReceivedRequest) -> usize {
        let place = {
            let requests = &mut self.noted().requests;
            requests.push(seen);
            requests.len() - 1
        };
        self.memory.touch();
        place
    }

    pub(super) fn record_status(&self, place: usize, status: Option<u16>) {
        if let Some(seen) = self.noted().requests.get_mut(place) {
            seen.status = status;
        }
        self.memory.touch();
    }

    pub(super) fn record_bytes(&self, bytes: &[u8]) {
        let mut noted = self.noted();
        let room = MOST_BYTES - noted.bytes.len();
        let kept = bytes.get(..bytes.len().min(room)).unwrap_or_default();
        noted.bytes.extend_from_slice(kept);
    }

    pub(super) fn requests(&self) -> Vec<ReceivedRequest> {
        self.noted().requests.clone()
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.noted().bytes.clone()
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

    /// A stream is open for what no request asked for.
    pub(super) fn count_stream(self: &Arc<Self>) -> OpenGuard {
        OpenGuard::new(self, |inner| &inner.open_streams)
    }

    pub(super) fn count(&self, name: &str) -> usize {
        let seen = self.memory.seen();
        seen.counters.get(name).copied().unwrap_or_default()
    }
}

/// What a test has set.
impl HttpServerState {
    pub(super) fn arm(&self, fault: Fault) {
        self.noted().armed.arm(fault);
    }

    pub(super) fn disarm(&self) {
        self.noted().armed.disarm();
    }

    /// The fault that happens now, to this request if there is one yet.
    pub(super) fn take_fault(
        &self,
        moment: FaultTrigger,
        seen: Option<&ReceivedRequest>,
    ) -> Option<Fault> {
        if self.noted().armed.is_empty() {
            return None;
        }
        let names = seen.map(ReceivedRequest::names).unwrap_or_default();
        self.noted().armed.take(moment, &names)
    }

    pub(super) fn require_bearer(&self, token: Option<&str>) {
        self.noted().bearer = token.map(str::to_owned);
    }

    /// The challenge to a request that lacks the token.
    pub(super) fn challenge_to(&self, seen: &ReceivedRequest) -> Option<String> {
        let token = self.noted().bearer.clone()?;
        let given = seen.header("authorization");
        (given != Some(&format!("Bearer {token}"))).then(|| {
            let error = given.map_or("", |_| r#", error="invalid_token""#);
            let address = self.address;
            let metadata = format!("http://{address}/.well-known/oauth-protected-resource/mcp");
            format!(r#"Bearer resource_metadata="{metadata}"{error}"#)
        })
    }

    pub(super) fn set_endpoint(&self, endpoint: &str) {
        self.noted().endpoint = Some(endpoint.to_owned());
    }

    pub(super) fn set_retry(&self, retry: Duration) {
        self.noted().retry = Some(retry);
    }

    /// When a client shall come back to a stream, as it is said at the beginning of each.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.noted().retry
    }

    pub(super) fn close_idle_connections(&self) {
        self.keeps_connections.send_replace(false);
    }

    /// Comes back when connections that wait for a request are not kept any more.
    pub(super) async fn lets_go(&self) {
        let mut keeps = self.keeps_connections.subscribe();
        let _ = keeps.wait_for(|keeps| !keeps).await;
    }

    /// Where a client of the first transport posts to.
    pub(super) fn endpoint(&self, session: &str) -> String {
        let set = self.noted().endpoint.clone();
        set.unwrap_or_else(|| format!("/message?sessionId={session}"))
    }
}

/// What the script says.
impl HttpServerState {
    pub(super) fn is_modern_only(&self) -> bool {
        self.script.era == Era::Modern
    }

    /// Whether the script has something to say to a probe that comes without a session.
    pub(super) fn meets_probe(&self, request: &Request) -> bool {
        let has_way = matches!(
            self.script.era,
            Era::LegacyExitsOnProbe | Era::LegacySilentOnProbe
        );
        request.method == "server/discover"
            && (has_way || self.script.on.contains_key("server/discover"))
    }

    /// Whether a stream begins with an empty event, as the last legacy revision wants it.
    pub(super) fn primes_streams(&self) -> bool {
        self.script.protocol_version.as_deref() == Some("2025-11-25")
    }
}

/// What a restart forgets.
#[derive(Debug)]
pub(super) struct ServerRun {
    pub(super) player: ScriptDriver,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    /// For a server without sessions, which has one client.
    common: Arc<Session>,
    ordinal: usize,
    last: AtomicU64,
    connections: Mutex<JoinSet<()>>,
}

impl ServerRun {
    pub(super) fn new(inner: &HttpServerState, ordinal: usize) -> Arc<Self> {
        Arc::new(Self {
            player: ScriptDriver::new(inner.script.clone(), &inner.memory, ordinal),
            sessions: Mutex::default(),
            common: Session::new(String::new()),
            ordinal,
            last: AtomicU64::new(0),
            connections: Mutex::default(),
        })
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.sessions.lock().expect("no holder panics")
    }

    /// A name that nothing else has.
    pub(super) fn unique(&self, what: &str) -> String {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        format!("{what}-{}-{number}", self.ordinal)
    }

    pub(super) fn open_session(&self) -> Arc<Session> {
        let session = Session::new(self.unique("session"));
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

    /// The sessions that hear what no request asked for.
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
        self.connections.lock().expect("no holder panics")
    }

    /// Closes all connections; comes back when they are closed.
    pub(super) async fn drop_connections(&self) {
        let mut connections = std::mem::take(&mut *self.connections());
        connections.shutdown().await;
    }

    /// Nothing of this life goes on: the tasks hold it and it holds the tasks.
    pub(super) fn abort(&self) {
        self.connections().abort_all();
        self.player.abort();
    }

    pub(super) fn end_sessions(&self) {
        for (_, session) in self.sessions().drain() {
            session.end();
        }
    }
}

/// Accepts connections until the script ends the server.
pub(super) async fn live(inner: Arc<HttpServerState>, life: Arc<ServerRun>, listener: TcpListener) {
    life.player.begin().await;
    tokio::select! {
        biased;
        _ = life.player.ended() => {}
        () = accept(&inner, &life, &listener) => {}
    }
    drop(listener);
    life.player.abort();
    life.drop_connections().await;
}

async fn accept(inner: &Arc<HttpServerState>, life: &Arc<ServerRun>, listener: &TcpListener) {
    loop {
        // Too many open files, perhaps: others are about to close.
        let Ok((socket, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let number = inner.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let open = OpenGuard::new(inner, |inner| &inner.open_connections);
        let connection = Connection::new(Arc::clone(inner), Arc::clone(life), socket, number);
        let mut connections = life.connections();
        while connections.try_join_next().is_some() {}
        connections.spawn(async move {
            connection.serve().await;
            drop(open);
        });
    }
}

/// Listens at that address, which a life before may just have left.
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
