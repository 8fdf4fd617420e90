//! A proxy that breaks connections by a plan drawn from a seed.
//!
//! It knows nothing of HTTP. Invariant: the plan of the n-th connection depends on the seed and on n
//! alone; what the client and the server make of it depends on their timing.

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

use super::PATIENCE;

/// How much is taken from one side at once, at most.
const PIECE: usize = 64 * 1024;
/// So many bytes of a direction go in the pieces of its plan; what is longer is not worth the time.
const IN_PIECES: usize = 4 * 1024;
/// The longest delay of a drawn plan: real time, and so short.
const LONGEST_DELAY: u64 = 20;

/// What happens to one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionPlan {
    /// It ends with a reset as soon as it is accepted.
    pub is_refused: bool,
    /// From the client to the server.
    pub to_server: DirectionPlan,
    /// From the server to the client.
    pub to_client: DirectionPlan,
}

/// What happens to one direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectionPlan {
    /// How many of the first few thousand bytes go through at once, at most.
    pub piece: usize,
    /// After how many bytes something happens, and what.
    pub fault: Option<(usize, FaultKind)>,
}

/// What happens to bytes, or to the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Both directions end, as with a clean close.
    Close,
    /// Both directions end with a reset.
    Reset,
    /// This direction ends; the other goes on.
    HalfClose,
    /// Nothing passes for so long.
    Delay(Duration),
    /// Nothing passes any more, and nothing is taken.
    Silence,
    /// What comes is taken and lost.
    Swallow,
}

impl ConnectionPlan {
    /// A connection to which nothing happens.
    pub const NO_FAULT: Self = Self {
        is_refused: false,
        to_server: DirectionPlan::NO_FAULT,
        to_client: DirectionPlan::NO_FAULT,
    };

    /// The plan for the n-th connection of a seed, with faults within the first `reach` bytes of either
    /// direction.
    pub fn from_seed(seed: u64, connection: usize, reach: usize) -> Self {
        let salt = (connection as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let rng = &mut Rng::with_seed(seed ^ salt);
        let mut link = Self {
            is_refused: rng.u8(..10) == 0,
            to_server: DirectionPlan::draw_sound(rng),
            to_client: DirectionPlan::draw_sound(rng),
        };
        match rng.u8(..10) {
            0..=2 => {}
            3..=5 => link.to_server.fault = Some(draw_fault(rng, reach)),
            6..=8 => link.to_client.fault = Some(draw_fault(rng, reach)),
            _ => {
                link.to_server.fault = Some(draw_fault(rng, reach));
                link.to_client.fault = Some(draw_fault(rng, reach));
            }
        }
        link
    }
}

impl DirectionPlan {
    /// A direction to which nothing happens.
    pub const NO_FAULT: Self = Self {
        piece: usize::MAX,
        fault: None,
    };

    /// A direction that ends or stalls after so many bytes.
    pub const fn broken(at: usize, how: FaultKind) -> Self {
        Self {
            piece: usize::MAX,
            fault: Some((at, how)),
        }
    }

    fn draw_sound(rng: &mut Rng) -> Self {
        let piece = match rng.u8(..4) {
            0 => rng.usize(1..8),
            1 => rng.usize(8..200),
            _ => usize::MAX,
        };
        Self { piece, fault: None }
    }
}

fn draw_fault(rng: &mut Rng, reach: usize) -> (usize, FaultKind) {
    let at = match rng.u8(..4) {
        0 => 0,
        _ => rng.usize(..=reach),
    };
    let how = match rng.u8(..16) {
        0..=4 => FaultKind::Close,
        5..=8 => FaultKind::Reset,
        9 => FaultKind::HalfClose,
        10..=12 => FaultKind::Delay(Duration::from_millis(rng.u64(1..=LONGEST_DELAY))),
        13 => FaultKind::Swallow,
        _ => FaultKind::Silence,
    };
    (at, how)
}

/// A proxy on loopback that breaks connections. Dropping it ends them all.
///
/// Nothing happens before [`FaultProxy::arm`] and after [`FaultProxy::disarm`], and no bytes are counted.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<ProxyState>,
    task: JoinHandle<()>,
}

struct ProxyState {
    upstream: SocketAddr,
    plan: Box<dyn Fn(usize) -> ConnectionPlan + Send + Sync>,
    is_armed: AtomicBool,
    /// The plans that were put to use, in order.
    used: Mutex<Vec<ConnectionPlan>>,
    connections: Mutex<JoinSet<()>>,
    /// What is silent ends now.
    is_settling: watch::Sender<bool>,
}

impl fmt::Debug for ProxyState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ProxyState")
            .field("upstream", &self.upstream)
            .field("used", &self.used)
            .finish_non_exhaustive()
    }
}

impl FaultProxy {
    /// Stands before a server, with plans drawn from a seed by [`ConnectionPlan::from_seed`]. Connections that were
    /// opened before it was armed count too, and those after it have the plans that follow.
    pub async fn seeded(upstream: SocketAddr, seed: u64, reach: usize) -> Self {
        Self::start(upstream, move |connection| {
            ConnectionPlan::from_seed(seed, connection, reach)
        })
        .await
    }

    /// Stands before a server, with a plan for the n-th connection, counted from 0.
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
            .expect("there is a free port");
        let shared = Arc::new(ProxyState {
            upstream,
            plan: Box::new(plan),
            is_armed: AtomicBool::new(false),
            used: Mutex::default(),
            connections: Mutex::default(),
            is_settling: watch::Sender::new(false),
        });
        Self {
            address: listener.local_addr().expect("it is bound"),
            task: tokio::spawn(accept(Arc::clone(&shared), listener)),
            shared,
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of a server behind it, for a client that shall come by here.
    pub fn url(&self, of_server: &str) -> String {
        let upstream = self.shared.upstream.to_string();
        of_server.replace(&upstream, &self.address.to_string())
    }

    /// The faults begin.
    pub fn arm(&self) {
        self.shared.is_armed.store(true, Ordering::Relaxed);
    }

    /// The faults are over, except that what is silent stays so; see [`FaultProxy::drop_connections`].
    pub fn disarm(&self) {
        self.shared.is_armed.store(false, Ordering::Relaxed);
    }

    /// The plans of all connections so far, in order: what to print when a seed fails.
    pub fn used(&self) -> Vec<ConnectionPlan> {
        self.shared.used().clone()
    }

    /// Waits until every byte that is to pass has passed: the clients have closed their connections
    /// before. What is silent ends without what it holds. Panics after a minute.
    pub async fn settle(&self) {
        self.shared.is_settling.send_replace(true);
        let mut connections = std::mem::take(&mut *self.shared.connections());
        let all = async { while connections.join_next().await.is_some() {} };
        let outcome = tokio::time::timeout(PATIENCE, all).await;
        let used = self.used();
        assert!(outcome.is_ok(), "a client keeps its connection: {used:#?}");
    }

    /// Closes all connections; comes back when they are closed.
    pub async fn drop_connections(&self) {
        let mut connections = std::mem::take(&mut *self.shared.connections());
        connections.shutdown().await;
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.task.abort();
        self.shared.connections().abort_all();
    }
}

impl ProxyState {
    fn used(&self) -> MutexGuard<'_, Vec<ConnectionPlan>> {
        self.used.lock().expect("no holder panics")
    }

    fn connections(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.connections.lock().expect("no holder panics")
    }

    fn is_armed(&self) -> bool {
        self.is_armed.load(Ordering::Relaxed)
    }
}

async fn accept(shared: Arc<ProxyState>, listener: TcpListener) {
    while let Ok((client, _)) = listener.accept().await {
        let link = {
            let mut used = shared.used();
            let link = (shared.plan)(used.len());
            used.push(link.clone());
            link
        };
        let mut connections = shared.connections();
        while connections.try_join_next().is_some() {}
        connections.spawn(carry(Arc::clone(&shared), client, link));
    }
}

/// How a connection ends before either side has ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionEnd {
    Close,
    Reset,
}

async fn carry(shared: Arc<ProxyState>, mut client: TcpStream, link: ConnectionPlan) {
    let reset = |socket: &TcpStream| _ = socket.set_zero_linger();
    if link.is_refused && shared.is_armed() {
        return reset(&client);
    }
    let Ok(mut server) = TcpStream::connect(shared.upstream).await else {
        return reset(&client);
    };
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let (end, mut ended) = watch::channel(None);
    {
        let (client_reads, client_writes) = client.split();
        let (server_reads, server_writes) = server.split();
        let pump = |way| Forwarder {
            shared: &shared,
            way,
            passed: 0,
            in_all: 0,
            end: &end,
        };
        let up = pump(link.to_server).run(client_reads, server_writes);
        let down = pump(link.to_client).run(server_reads, client_writes);
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

/// Closes as somebody does who has read all that came: otherwise it were a reset.
async fn close(mut socket: TcpStream) {
    let _ = socket.shutdown().await;
    let mut unread = [0; 1024];
    while let Ok(1..) = socket.try_read(&mut unread) {}
}

/// Carries the bytes of one direction.
struct Forwarder<'a> {
    shared: &'a ProxyState,
    way: DirectionPlan,
    /// How many bytes have passed since the faults began.
    passed: usize,
    /// How many have passed in all.
    in_all: usize,
    end: &'a watch::Sender<Option<ConnectionEnd>>,
}

/// What is left to do about a direction that carries nothing more.
enum DirectionEnd {
    /// It ends, and the other goes on.
    ConnectionEnd,
    /// Both end.
    EndBoth(ConnectionEnd),
    /// What still comes is lost.
    Swallow,
}

impl Forwarder<'_> {
    async fn run(mut self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) {
        match self.carry(&mut from, &mut to).await {
            DirectionEnd::ConnectionEnd => _ = to.shutdown().await,
            DirectionEnd::EndBoth(end) => self.come_to(end).await,
            DirectionEnd::Swallow => {
                let mut lost = [0; 1024];
                while let Ok(1..) = from.read(&mut lost).await {}
                self.come_to(ConnectionEnd::Close).await;
            }
        }
    }

    async fn carry(&mut self, from: &mut ReadHalf<'_>, to: &mut WriteHalf<'_>) -> DirectionEnd {
        let mut buffer = vec![0; PIECE];
        loop {
            let most = self.fault().map_or(PIECE, |(left, _)| left);
            if most == 0 {
                if let Some(rest) = self.happen().await {
                    return rest;
                }
                continue;
            }
            let piece = match self.in_all {
                ..IN_PIECES => self.way.piece.min(PIECE),
                _ => PIECE,
            };
            let room = buffer.get_mut(..most.min(piece));
            let room = room.unwrap_or_default();
            let read = match from.read(room).await {
                Ok(read @ 1..) => read,
                Ok(0) => return DirectionEnd::ConnectionEnd,
                Err(_) => return DirectionEnd::EndBoth(ConnectionEnd::Reset),
            };
            let mut bytes = room.get(..read).unwrap_or_default();
            // The faults may have begun while it waited: more has come than was to pass.
            while let Some((left, _)) = self.fault()
                && left < bytes.len()
            {
                let (now, later) = bytes.split_at(left);
                if self.pass(to, now).await.is_none() {
                    return DirectionEnd::EndBoth(ConnectionEnd::Reset);
                }
                bytes = later;
                if let Some(rest) = self.happen().await {
                    return rest;
                }
            }
            if self.pass(to, bytes).await.is_none() {
                return DirectionEnd::EndBoth(ConnectionEnd::Reset);
            }
        }
    }

    /// What happens next, and after how many bytes.
    fn fault(&self) -> Option<(usize, FaultKind)> {
        let (at, how) = self.way.fault.filter(|_| self.shared.is_armed())?;
        Some((at.saturating_sub(self.passed), how))
    }

    async fn pass(&mut self, to: &mut WriteHalf<'_>, bytes: &[u8]) -> Option<()> {
        to.write_all(bytes).await.ok()?;
        self.in_all += bytes.len();
        if self.shared.is_armed() {
            self.passed += bytes.len();
        }
        Some(())
    }

    /// Lets the fault happen, and says what is left to do if that was the end.
    async fn happen(&mut self) -> Option<DirectionEnd> {
        let (_, how) = self.way.fault.take()?;
        match how {
            FaultKind::Delay(time) => {
                tokio::time::sleep(time).await;
                None
            }
            FaultKind::HalfClose => Some(DirectionEnd::ConnectionEnd),
            FaultKind::Close => Some(DirectionEnd::EndBoth(ConnectionEnd::Close)),
            FaultKind::Reset => Some(DirectionEnd::EndBoth(ConnectionEnd::Reset)),
            FaultKind::Swallow => Some(DirectionEnd::Swallow),
            FaultKind::Silence => {
                let mut settling = self.shared.is_settling.subscribe();
                let _ = settling.wait_for(|is_settling| *is_settling).await;
                Some(DirectionEnd::EndBoth(ConnectionEnd::Close))
            }
        }
    }

    /// Both directions end; whoever carries the connection sees to it.
    async fn come_to(&self, end: ConnectionEnd) {
        self.end.send_replace(Some(end));
        std::future::pending::<()>().await;
    }
}
