//! A server that plays bytes, for what is no proper HTTP.
//!
//! It understands nothing of what it sends, and of what it receives only where a request ends.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream, tcp::OwnedWriteHalf};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::PATIENCE;
use super::request::Receiver;

/// Repeated bytes are sent in pieces of about this size.
const PIECE: usize = 64 * 1024;

/// One thing that a raw server does on a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawStep {
    /// Reads a request, with its body if it says how long that is.
    ReadRequest,
    /// Reads whatever comes until there are at least so many bytes.
    ReadBytes(usize),
    /// Sends bytes.
    Send(Vec<u8>),
    /// Sends bytes again and again.
    SendRepeated {
        /// What.
        bytes: Vec<u8>,
        /// How often; none: until the client has gone.
        times: Option<u64>,
    },
    /// Waits.
    Pause(Duration),
    /// Closes the connection, which is also what the end of the steps does.
    Close,
    /// Ends the connection with a reset.
    Reset,
    /// Does nothing until the client has gone.
    Hang,
}

impl RawStep {
    /// Sends bytes.
    pub fn send(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Send(bytes.into())
    }

    /// Sends bytes until the client has gone.
    pub fn send_forever(bytes: impl Into<Vec<u8>>) -> Self {
        Self::SendRepeated {
            bytes: bytes.into(),
            times: None,
        }
    }

    /// Sends bytes so many times.
    pub fn send_times(times: u64, bytes: impl Into<Vec<u8>>) -> Self {
        Self::SendRepeated {
            bytes: bytes.into(),
            times: Some(times),
        }
    }
}

/// A server on loopback that plays bytes. Dropping it stops it.
#[derive(Debug)]
pub struct RawServer {
    address: SocketAddr,
    shared: Arc<RawServerState>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct RawServerState {
    /// The n-th connection plays the n-th list; all later ones the last.
    scripts: Vec<Vec<RawStep>>,
    met: Mutex<Vec<ConnectionRecord>>,
    changed: watch::Sender<()>,
}

/// What is known of one connection.
#[derive(Debug, Default)]
struct ConnectionRecord {
    received: Vec<u8>,
    sent: u64,
    is_over: bool,
}

impl RawServer {
    /// Starts a server that plays these steps on every connection.
    pub async fn start(steps: impl IntoIterator<Item = RawStep>) -> Self {
        Self::in_sequence([steps.into_iter().collect()]).await
    }

    /// Starts a server whose n-th connection plays the n-th list, and all later ones the last.
    #[expect(
        clippy::disallowed_methods,
        reason = "the server outlives this call and its handle is kept"
    )]
    pub async fn in_sequence(scripts: impl IntoIterator<Item = Vec<RawStep>>) -> Self {
        let scripts: Vec<_> = scripts.into_iter().collect();
        assert!(!scripts.is_empty(), "a server needs a script");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("there is a free port");
        let shared = Arc::new(RawServerState {
            scripts,
            met: Mutex::default(),
            changed: watch::Sender::new(()),
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

    /// Its address for a client.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// How many connections were accepted.
    pub fn connections(&self) -> usize {
        self.shared.met().len()
    }

    /// How many connections are open.
    pub fn open_connections(&self) -> usize {
        let is_open = |met: &&ConnectionRecord| !met.is_over;
        self.shared.met().iter().filter(is_open).count()
    }

    /// Every byte that was read, for each connection.
    pub fn received(&self) -> Vec<Vec<u8>> {
        let received = |met: &ConnectionRecord| met.received.clone();
        self.shared.met().iter().map(received).collect()
    }

    /// How many bytes were sent over all connections: taken by the system, if not by the client.
    pub fn sent(&self) -> u64 {
        self.shared.met().iter().map(|met| met.sent).sum()
    }

    /// Waits until the server is as described. Panics with the description after a minute.
    pub async fn wait_until(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let mut changes = self.shared.changed.subscribe();
        let enough = async {
            while !is_so(self) {
                let changed = changes.changed().await;
                changed.expect("the server keeps the sender");
            }
        };
        let outcome = tokio::time::timeout(PATIENCE, enough).await;
        assert!(outcome.is_ok(), "waited for: {what}; {:?}", self.shared);
    }
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RawServerState {
    fn met(&self) -> MutexGuard<'_, Vec<ConnectionRecord>> {
        self.met.lock().expect("no holder panics")
    }

    fn note(&self, connection: usize, note: impl FnOnce(&mut ConnectionRecord)) {
        if let Some(met) = self.met().get_mut(connection) {
            note(met);
        }
        self.changed.send_replace(());
    }
}

async fn accept(shared: Arc<RawServerState>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let number = {
            let mut met = shared.met();
            met.push(ConnectionRecord::default());
            met.len() - 1
        };
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            RawConnection::new(&shared, socket, number).run().await;
            shared.note(number, |met| met.is_over = true);
        });
    }
}

/// A connection on which steps are played.
struct RawConnection<'s> {
    shared: &'s RawServerState,
    receiver: Receiver,
    writer: OwnedWriteHalf,
    number: usize,
}

/// The rest of the steps is not played: the connection is over.
struct ConnectionOver;

impl<'s> RawConnection<'s> {
    fn new(shared: &'s RawServerState, socket: TcpStream, number: usize) -> Self {
        let _ = socket.set_nodelay(true);
        let (reader, writer) = socket.into_split();
        Self {
            shared,
            receiver: Receiver::new(reader, number + 1),
            writer,
            number,
        }
    }

    async fn run(mut self) {
        let last = self.shared.scripts.len() - 1;
        let steps = self.shared.scripts.get(self.number.min(last));
        for step in steps.into_iter().flatten() {
            if *step == RawStep::Reset {
                let _ = self.writer.as_ref().set_zero_linger();
                self.writer.forget();
                return;
            }
            if self.take(step).await.is_err() {
                return;
            }
        }
    }

    async fn take(&mut self, step: &RawStep) -> Result<(), ConnectionOver> {
        match step {
            RawStep::ReadRequest => self.read_request().await,
            RawStep::ReadBytes(most) => {
                let mut read = 0;
                while read < *most {
                    read += self.read_more().await?;
                }
                self.receiver.forget_buffer();
                Ok(())
            }
            RawStep::Send(bytes) => self.send(bytes).await,
            RawStep::SendRepeated { bytes, times } => self.send_repeated(bytes, *times).await,
            RawStep::Pause(time) => {
                tokio::time::sleep(*time).await;
                Ok(())
            }
            RawStep::Close | RawStep::Reset => Err(ConnectionOver),
            RawStep::Hang => loop {
                self.read_more().await?;
            },
        }
    }

    async fn read_more(&mut self) -> Result<usize, ConnectionOver> {
        let bytes = self.receiver.read_more().await;
        let bytes = bytes.map_err(|_| ConnectionOver)?.ok_or(ConnectionOver)?;
        let note = |met: &mut ConnectionRecord| met.received.extend_from_slice(bytes);
        self.shared.note(self.number, note);
        Ok(bytes.len())
    }

    async fn read_request(&mut self) -> Result<(), ConnectionOver> {
        let mut seen = loop {
            match self.receiver.take_head() {
                Ok(Some(seen)) => break seen,
                Ok(None) => _ = self.read_more().await?,
                Err(_) => return Err(ConnectionOver),
            }
        };
        let length = seen.length().unwrap_or(0);
        loop {
            self.receiver.take_body(&mut seen, length);
            if seen.body.len() >= length {
                return Ok(());
            }
            self.read_more().await?;
        }
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), ConnectionOver> {
        self.writer
            .write_all(bytes)
            .await
            .map_err(|_| ConnectionOver)?;
        let note = |met: &mut ConnectionRecord| met.sent += bytes.len() as u64;
        self.shared.note(self.number, note);
        Ok(())
    }

    async fn send_repeated(
        &mut self,
        bytes: &[u8],
        times: Option<u64>,
    ) -> Result<(), ConnectionOver> {
        for piece in RepeatedBytes::of(bytes, times).iter() {
            self.send(piece).await?;
            // Whoever reads shares our thread.
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

/// The same bytes again and again, in pieces of a fair size.
pub(super) struct RepeatedBytes {
    piece: Vec<u8>,
    /// How often the piece goes out; none: for ever.
    whole: Option<u64>,
    rest: Vec<u8>,
}

impl RepeatedBytes {
    pub(super) fn of(bytes: &[u8], times: Option<u64>) -> Self {
        let per_piece = (PIECE / bytes.len().max(1)).max(1);
        let in_whole = per_piece as u64;
        let rest = times.map_or(0, |times| times % in_whole);
        Self {
            piece: bytes.repeat(per_piece),
            whole: times.map(|times| times / in_whole),
            rest: bytes.repeat(usize::try_from(rest).unwrap_or_default()),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> + Send {
        let most = self.whole.unwrap_or(u64::MAX);
        let whole = (0..most).map(|_| self.piece.as_slice());
        whole.chain([self.rest.as_slice()])
    }
}
