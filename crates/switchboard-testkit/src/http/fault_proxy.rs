//! A TCP proxy that breaks connections according to a plan, which is usually derived from a seed.
//!
//! The proxy does not parse HTTP. Invariant: a seeded plan of the n-th connection depends only on
//! the seed, on n and on `reach`. The effect of a plan on a test also depends on the timing of
//! client and server.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fastrand::Rng;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::WAIT_TIMEOUT;

/// Maximum number of bytes that one read from a socket returns.
const READ_BYTES: usize = 64 * 1024;
/// Number of bytes per direction to which `write_bytes` of the plan applies. Later bytes are
/// forwarded in large writes, because a long transfer in small writes takes too long.
const SMALL_WRITES_UNTIL: usize = 4 * 1024;
/// The longest delay that a seed can produce, in milliseconds. It is short because it passes in
/// real time.
const MAX_DELAY_MS: u64 = 20;

/// What the proxy does to one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionPlan {
    /// If true, the connection is reset right after it was accepted.
    pub is_refused: bool,
    /// The plan for bytes from the client to the server.
    pub to_server: DirectionPlan,
    /// The plan for bytes from the server to the client.
    pub to_client: DirectionPlan,
}

/// What the proxy does to the bytes of one direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectionPlan {
    /// Maximum number of bytes per write, for the first 4 KiB of the direction.
    pub write_bytes: usize,
    /// The number of forwarded bytes after which a fault occurs, and the fault. `None`: no fault.
    pub fault: Option<(usize, FaultKind)>,
}

/// What a fault does when its number of bytes has been forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Both directions of the connection end with a clean close.
    Close,
    /// Both directions of the connection end with a reset.
    Reset,
    /// The direction of the fault ends; the opposite direction continues.
    HalfClose,
    /// No bytes are forwarded for this long, then the direction continues.
    Delay(Duration),
    /// No more bytes of the direction are read or forwarded.
    Stall,
    /// All further bytes of the direction are read and discarded.
    Discard,
}

impl ConnectionPlan {
    /// The plan of a connection that is forwarded unchanged.
    pub const NO_FAULT: Self = Self {
        is_refused: false,
        to_server: DirectionPlan::NO_FAULT,
        to_client: DirectionPlan::NO_FAULT,
    };

    /// The plan of connection number `connection`, counted from 0. Faults occur within the first
    /// `reach` bytes of a direction.
    pub fn from_seed(seed: u64, connection: usize, reach: usize) -> Self {
        let salt = (connection as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let rng = &mut Rng::with_seed(seed ^ salt);
        let mut plan = Self {
            is_refused: rng.u8(..10) == 0,
            to_server: DirectionPlan::draw_write_bytes(rng),
            to_client: DirectionPlan::draw_write_bytes(rng),
        };
        match rng.u8(..10) {
            0..=2 => {}
            3..=5 => plan.to_server.fault = Some(draw_fault(rng, reach)),
            6..=8 => plan.to_client.fault = Some(draw_fault(rng, reach)),
            _ => {
                plan.to_server.fault = Some(draw_fault(rng, reach));
                plan.to_client.fault = Some(draw_fault(rng, reach));
            }
        }
        plan
    }
}

impl DirectionPlan {
    /// The plan of a direction that is forwarded unchanged.
    pub const NO_FAULT: Self = Self {
        write_bytes: usize::MAX,
        fault: None,
    };

    /// The plan of a direction with a fault after `at` bytes.
    pub const fn with_fault(at: usize, kind: FaultKind) -> Self {
        Self {
            write_bytes: usize::MAX,
            fault: Some((at, kind)),
        }
    }

    fn draw_write_bytes(rng: &mut Rng) -> Self {
        let write_bytes = match rng.u8(..4) {
            0 => rng.usize(1..8),
            1 => rng.usize(8..200),
            _ => usize::MAX,
        };
        Self {
            write_bytes,
            fault: None,
        }
    }
}

fn draw_fault(rng: &mut Rng, reach: usize) -> (usize, FaultKind) {
    let at = match rng.u8(..4) {
        0 => 0,
        _ => rng.usize(..=reach),
    };
    let kind = match rng.u8(..16) {
        0..=4 => FaultKind::Close,
        5..=8 => FaultKind::Reset,
        9 => FaultKind::HalfClose,
        10..=12 => FaultKind::Delay(Duration::from_millis(rng.u64(1..=MAX_DELAY_MS))),
        13 => FaultKind::Discard,
        _ => FaultKind::Stall,
    };
    (at, kind)
}

/// A proxy on loopback that breaks connections. Dropping the proxy closes all its connections.
///
/// Faults occur only between [`FaultProxy::arm`] and [`FaultProxy::disarm`]. Bytes forwarded at
/// other times do not count towards the number of bytes before a fault.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    state: Arc<ProxyState>,
    task: JoinHandle<()>,
}

struct ProxyState {
    upstream: SocketAddr,
    plan: Box<dyn Fn(usize) -> ConnectionPlan + Send + Sync>,
    is_armed: AtomicBool,
    /// The plans of all connections so far, in the order of their acceptance.
    plans: Mutex<Vec<ConnectionPlan>>,
    connections: Mutex<JoinSet<()>>,
    /// True after [`FaultProxy::settle`] was called, which ends stalled connections.
    is_settling: watch::Sender<bool>,
}

impl fmt::Debug for ProxyState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ProxyState")
            .field("upstream", &self.upstream)
            .field("plans", &self.plans)
            .finish_non_exhaustive()
    }
}

impl FaultProxy {
    /// Starts a proxy in front of the server at `upstream`, with plans from
    /// [`ConnectionPlan::from_seed`]. Connections are counted from the start of the proxy,
    /// including those that it accepts while no faults are armed.
    pub async fn seeded(upstream: SocketAddr, seed: u64, reach: usize) -> Self {
        Self::start(upstream, move |connection| {
            ConnectionPlan::from_seed(seed, connection, reach)
        })
        .await
    }

    /// Starts a proxy in front of the server at `upstream`. `plan` returns the plan of the n-th
    /// connection, counted from 0.
    #[expect(
        clippy::disallowed_methods,
        reason = "the proxy outlives this call and its handle is kept"
    )]
    pub async fn start(
        upstream: SocketAddr,
        plan: impl Fn(usize) -> ConnectionPlan + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a free port");
        let state = Arc::new(ProxyState {
            upstream,
            plan: Box::new(plan),
            is_armed: AtomicBool::new(false),
            plans: Mutex::default(),
            connections: Mutex::default(),
            is_settling: watch::Sender::new(false),
        });
        Self {
            address: listener.local_addr().expect("it is bound"),
            task: tokio::spawn(accept(Arc::clone(&state), listener)),
            state,
        }
    }

    /// The loopback address at which the proxy listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL `of_server` with the address of the server replaced by the address of the
    /// proxy.
    pub fn url(&self, of_server: &str) -> String {
        let upstream = self.state.upstream.to_string();
        of_server.replace(&upstream, &self.address.to_string())
    }

    /// Enables the faults of all connections, including open ones.
    pub fn arm(&self) {
        self.state.is_armed.store(true, Ordering::Relaxed);
    }

    /// Disables the faults that have not occurred yet. Connections that stall or discard bytes
    /// continue to do so; see [`FaultProxy::drop_connections`].
    pub fn disarm(&self) {
        self.state.is_armed.store(false, Ordering::Relaxed);
    }

    /// The plans of all connections so far, in order. A test prints them when a seed fails.
    pub fn plans(&self) -> Vec<ConnectionPlan> {
        self.state.plans().clone()
    }

    /// Waits until all connections have ended, so that all bytes are forwarded. Call this after the
    /// clients closed their connections. Stalled connections are closed and lose their bytes.
    /// Panics after a minute.
    pub async fn settle(&self) {
        self.state.is_settling.send_replace(true);
        let mut connections = std::mem::take(&mut *self.state.connections());
        let all = async { while connections.join_next().await.is_some() {} };
        let outcome = tokio::time::timeout(WAIT_TIMEOUT, all).await;
        let plans = self.plans();
        assert!(outcome.is_ok(), "a client keeps its connection: {plans:#?}");
    }

    /// Closes all connections; returns when they are closed.
    pub async fn drop_connections(&self) {
        let mut connections = std::mem::take(&mut *self.state.connections());
        connections.shutdown().await;
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.task.abort();
        self.state.connections().abort_all();
    }
}

impl ProxyState {
    fn plans(&self) -> MutexGuard<'_, Vec<ConnectionPlan>> {
        self.plans.lock().expect("the lock is not poisoned")
    }

    fn connections(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.connections.lock().expect("the lock is not poisoned")
    }

    fn is_armed(&self) -> bool {
        self.is_armed.load(Ordering::Relaxed)
    }
}

async fn accept(state: Arc<ProxyState>, listener: TcpListener) {
    while let Ok((client, _)) = listener.accept().await {
        let plan = {
            let mut plans = state.plans();
            let plan = (state.plan)(plans.len());
            plans.push(plan.clone());
            plan
        };
        let mut connections = state.connections();
        while connections.try_join_next().is_some() {}
        connections.spawn(forward_connection(Arc::clone(&state), client, plan));
    }
}

/// How a fault ends both directions of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionEnd {
    Close,
    Reset,
}

async fn forward_connection(state: Arc<ProxyState>, mut client: TcpStream, plan: ConnectionPlan) {
    let reset = |socket: &TcpStream| _ = socket.set_zero_linger();
    if plan.is_refused && state.is_armed() {
        return reset(&client);
    }
    let Ok(mut server) = TcpStream::connect(state.upstream).await else {
        return reset(&client);
    };
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let (end, mut ended) = watch::channel(None);
    {
        let (client_reads, client_writes) = client.split();
        let (server_reads, server_writes) = server.split();
        let forwarder = |plan| Forwarder {
            state: &state,
            plan,
            passed: 0,
            total: 0,
            end: &end,
        };
        let up = forwarder(plan.to_server).run(client_reads, server_writes);
        let down = forwarder(plan.to_client).run(server_reads, client_writes);
        tokio::select! {
            biased;
            _ = ended.wait_for(Option::is_some) => {}
            _ = async { tokio::join!(up, down) } => {}
        }
    }
    if *ended.borrow() == Some(ConnectionEnd::Reset) {
        reset(&client);
        reset(&server);
    } else {
        close(client).await;
        close(server).await;
    }
}

/// Closes a connection cleanly. Reads the pending bytes first, because unread bytes would turn the
/// close into a reset.
async fn close(mut socket: TcpStream) {
    let _ = socket.shutdown().await;
    let mut unread = [0; 1024];
    while let Ok(1..) = socket.try_read(&mut unread) {}
}

/// Forwards the bytes of one direction of a connection.
struct Forwarder<'a> {
    state: &'a ProxyState,
    plan: DirectionPlan,
    /// Number of bytes forwarded while the proxy was armed.
    passed: usize,
    /// Number of all bytes forwarded, also while the proxy was not armed.
    total: usize,
    end: &'a watch::Sender<Option<ConnectionEnd>>,
}

/// How one direction ends, and whether the opposite direction ends too.
enum DirectionEnd {
    /// This direction ends; the opposite one continues.
    HalfClose,
    /// Both directions of the connection end.
    EndBoth(ConnectionEnd),
    /// All further bytes of this direction are read and discarded.
    Discard,
}

impl Forwarder<'_> {
    async fn run(mut self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) {
        match self.forward_until_end(&mut from, &mut to).await {
            DirectionEnd::HalfClose => _ = to.shutdown().await,
            DirectionEnd::EndBoth(end) => self.end_both(end).await,
            DirectionEnd::Discard => {
                let mut lost = [0; 1024];
                while let Ok(1..) = from.read(&mut lost).await {}
                self.end_both(ConnectionEnd::Close).await;
            }
        }
    }

    async fn forward_until_end(
        &mut self,
        from: &mut ReadHalf<'_>,
        to: &mut WriteHalf<'_>,
    ) -> DirectionEnd {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let max = self.fault().map_or(READ_BYTES, |(left, _)| left);
            if max == 0 {
                if let Some(rest) = self.run_fault().await {
                    return rest;
                }
                continue;
            }
            let write_bytes = match self.total {
                ..SMALL_WRITES_UNTIL => self.plan.write_bytes.min(READ_BYTES),
                _ => READ_BYTES,
            };
            let part = buffer.get_mut(..max.min(write_bytes)).unwrap_or_default();
            let read = match from.read(part).await {
                Ok(read @ 1..) => read,
                Ok(0) => return DirectionEnd::HalfClose,
                Err(_) => return DirectionEnd::EndBoth(ConnectionEnd::Reset),
            };
            let mut bytes = part.get(..read).unwrap_or_default();
            // The proxy may have been armed during the read. In that case, the read may have
            // returned more bytes than the fault lets pass.
            while let Some((left, _)) = self.fault()
                && left < bytes.len()
            {
                let (now, later) = bytes.split_at(left);
                if self.pass(to, now).await.is_none() {
                    return DirectionEnd::EndBoth(ConnectionEnd::Reset);
                }
                bytes = later;
                if let Some(rest) = self.run_fault().await {
                    return rest;
                }
            }
            if self.pass(to, bytes).await.is_none() {
                return DirectionEnd::EndBoth(ConnectionEnd::Reset);
            }
        }
    }

    /// The fault that has not occurred yet, and the number of bytes still forwarded before it.
    /// `None` if there is no such fault, and while the proxy is not armed.
    fn fault(&self) -> Option<(usize, FaultKind)> {
        let (at, kind) = self.plan.fault.filter(|_| self.state.is_armed())?;
        Some((at.saturating_sub(self.passed), kind))
    }

    async fn pass(&mut self, to: &mut WriteHalf<'_>, bytes: &[u8]) -> Option<()> {
        to.write_all(bytes).await.ok()?;
        self.total += bytes.len();
        if self.state.is_armed() {
            self.passed += bytes.len();
        }
        Some(())
    }

    /// Runs the fault of this direction. Returns how the direction ends, or `None` if it continues.
    async fn run_fault(&mut self) -> Option<DirectionEnd> {
        let (_, kind) = self.plan.fault.take()?;
        match kind {
            FaultKind::Delay(time) => {
                tokio::time::sleep(time).await;
                None
            }
            FaultKind::HalfClose => Some(DirectionEnd::HalfClose),
            FaultKind::Close => Some(DirectionEnd::EndBoth(ConnectionEnd::Close)),
            FaultKind::Reset => Some(DirectionEnd::EndBoth(ConnectionEnd::Reset)),
            FaultKind::Discard => Some(DirectionEnd::Discard),
            FaultKind::Stall => {
                let mut settling = self.state.is_settling.subscribe();
                let _ = settling.wait_for(|is_settling| *is_settling).await;
                Some(DirectionEnd::EndBoth(ConnectionEnd::Close))
            }
        }
    }

    /// Ends both directions of the connection. This future never completes: `forward_connection`
    /// closes the sockets and drops the future.
    async fn end_both(&self, end: ConnectionEnd) {
        self.end.send_replace(Some(end));
        std::future::pending::<()>().await;
    }
}
