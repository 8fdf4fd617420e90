//! A server that sends arbitrary bytes, for malformed HTTP.
//!
//! The server sends the bytes of its steps unchanged. It parses requests only to find their end.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream, tcp::OwnedWriteHalf};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::WAIT_TIMEOUT;
use super::request::RequestReader;

/// Repeated bytes are sent in chunks of about this many bytes.
const CHUNK_BYTES: usize = 64 * 1024;

/// One action of a raw server on a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawStep {
    /// Reads one request. A body is read only if the head has a `Content-Length`.
    ReadRequest,
    /// Reads at least this many bytes.
    ReadBytes(usize),
    /// Sends bytes.
    Send(Vec<u8>),
    /// Sends the same bytes many times.
    SendRepeated {
        /// The bytes to repeat.
        bytes: Vec<u8>,
        /// Number of repetitions; `None`: until the client disconnects.
        times: Option<u64>,
    },
    /// Waits for this long, in real time.
    Pause(Duration),
    /// Closes the connection. The end of the steps does the same.
    Close,
    /// Resets the connection.
    Reset,
    /// Sends nothing until the client disconnects.
    Hang,
}

impl RawStep {
    /// Sends bytes.
    pub fn send(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Send(bytes.into())
    }

    /// Sends these bytes again and again until the client disconnects.
    pub fn send_forever(bytes: impl Into<Vec<u8>>) -> Self {
        Self::SendRepeated {
            bytes: bytes.into(),
            times: None,
        }
    }

    /// Sends these bytes `times` times.
    pub fn send_times(times: u64, bytes: impl Into<Vec<u8>>) -> Self {
        Self::SendRepeated {
            bytes: bytes.into(),
            times: Some(times),
        }
    }
}

/// A server on loopback that sends arbitrary bytes. Dropping it stops the server.
#[derive(Debug)]
pub struct RawServer {
    address: SocketAddr,
    state: Arc<RawServerState>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct RawServerState {
    /// The step lists. The n-th connection runs the n-th list, and connections after the last list
    /// run the last list.
    scripts: Vec<Vec<RawStep>>,
    records: Mutex<Vec<ConnectionRecord>>,
    changed: watch::Sender<()>,
}

/// What the server records about one connection.
#[derive(Debug, Default)]
struct ConnectionRecord {
    received: Vec<u8>,
    sent: u64,
    is_over: bool,
}

impl RawServer {
    /// Starts a server that runs the same steps on every connection.
    pub async fn start(steps: impl IntoIterator<Item = RawStep>) -> Self {
        Self::in_sequence([steps.into_iter().collect()]).await
    }

    /// Starts a server whose n-th connection runs the n-th list of steps. Connections after the
    /// last list run the last list.
    #[expect(
        clippy::disallowed_methods,
        reason = "the server outlives this call and its handle is kept"
    )]
    pub async fn in_sequence(scripts: impl IntoIterator<Item = Vec<RawStep>>) -> Self {
        let scripts: Vec<_> = scripts.into_iter().collect();
        assert!(!scripts.is_empty(), "a server needs a script");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a free port");
        let state = Arc::new(RawServerState {
            scripts,
            records: Mutex::default(),
            changed: watch::Sender::new(()),
        });
        Self {
            address: listener.local_addr().expect("it is bound"),
            task: tokio::spawn(accept(Arc::clone(&state), listener)),
            state,
        }
    }

    /// The loopback address at which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL to which a client connects.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Number of connections accepted so far.
    pub fn connections(&self) -> usize {
        self.state.records().len()
    }

    /// Number of connections that are open now.
    pub fn open_connections(&self) -> usize {
        let is_open = |record: &&ConnectionRecord| !record.is_over;
        self.state.records().iter().filter(is_open).count()
    }

    /// The received bytes of each connection, in the order of acceptance.
    pub fn received(&self) -> Vec<Vec<u8>> {
        let received = |record: &ConnectionRecord| record.received.clone();
        self.state.records().iter().map(received).collect()
    }

    /// Number of bytes sent over all connections. The kernel has accepted these bytes, but the
    /// client may not have read them.
    pub fn sent(&self) -> u64 {
        self.state.records().iter().map(|record| record.sent).sum()
    }

    /// Waits until `condition` holds. Panics with `description` after a minute.
    pub async fn wait_until(&self, description: &str, mut condition: impl FnMut(&Self) -> bool) {
        let mut changes = self.state.changed.subscribe();
        let wait = async {
            while !condition(self) {
                let changed = changes.changed().await;
                changed.expect("the server keeps the sender");
            }
        };
        let outcome = tokio::time::timeout(WAIT_TIMEOUT, wait).await;
        assert!(
            outcome.is_ok(),
            "waited for: {description}; {:?}",
            self.state
        );
    }
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RawServerState {
    fn records(&self) -> MutexGuard<'_, Vec<ConnectionRecord>> {
        self.records.lock().expect("the lock is not poisoned")
    }

    fn update(&self, connection: usize, change: impl FnOnce(&mut ConnectionRecord)) {
        if let Some(record) = self.records().get_mut(connection) {
            change(record);
        }
        self.changed.send_replace(());
    }
}

async fn accept(state: Arc<RawServerState>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let number = {
            let mut records = state.records();
            records.push(ConnectionRecord::default());
            records.len() - 1
        };
        let state = Arc::clone(&state);
        connections.spawn(async move {
            RawConnection::new(&state, socket, number).run().await;
            state.update(number, |record| record.is_over = true);
        });
    }
}

/// Runs the steps of one connection.
struct RawConnection<'s> {
    state: &'s RawServerState,
    receiver: RequestReader,
    writer: OwnedWriteHalf,
    number: usize,
}

/// The connection has ended, so the remaining steps do not run.
struct ConnectionOver;

impl<'s> RawConnection<'s> {
    fn new(state: &'s RawServerState, socket: TcpStream, number: usize) -> Self {
        let _ = socket.set_nodelay(true);
        let (reader, writer) = socket.into_split();
        Self {
            state,
            receiver: RequestReader::new(reader, number + 1),
            writer,
            number,
        }
    }

    async fn run(mut self) {
        let last = self.state.scripts.len() - 1;
        let steps = self.state.scripts.get(self.number.min(last));
        for step in steps.into_iter().flatten() {
            if *step == RawStep::Reset {
                let _ = self.writer.as_ref().set_zero_linger();
                self.writer.forget();
                return;
            }
            if self.run_step(step).await.is_err() {
                return;
            }
        }
    }

    async fn run_step(&mut self, step: &RawStep) -> Result<(), ConnectionOver> {
        match step {
            RawStep::ReadRequest => self.read_request().await,
            RawStep::ReadBytes(max) => {
                let mut read = 0;
                while read < *max {
                    read += self.read_more().await?;
                }
                self.receiver.discard_buffer();
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
        let change = |record: &mut ConnectionRecord| record.received.extend_from_slice(bytes);
        self.state.update(self.number, change);
        Ok(bytes.len())
    }

    async fn read_request(&mut self) -> Result<(), ConnectionOver> {
        let mut request = loop {
            match self.receiver.take_head() {
                Ok(Some(request)) => break request,
                Ok(None) => _ = self.read_more().await?,
                Err(_) => return Err(ConnectionOver),
            }
        };
        let length = request.length().unwrap_or(0);
        loop {
            self.receiver.take_body(&mut request, length);
            if request.body.len() >= length {
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
        let change = |record: &mut ConnectionRecord| record.sent += bytes.len() as u64;
        self.state.update(self.number, change);
        Ok(())
    }

    async fn send_repeated(
        &mut self,
        bytes: &[u8],
        times: Option<u64>,
    ) -> Result<(), ConnectionOver> {
        for chunk in RepeatedBytes::of(bytes, times).iter() {
            self.send(chunk).await?;
            // Yield, because the client may run on the same thread.
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

/// Bytes to send repeatedly, grouped into chunks to reduce the number of writes.
pub(super) struct RepeatedBytes {
    chunk: Vec<u8>,
    /// How often `chunk` is sent before `rest`; `None`: unlimited.
    chunks: Option<u64>,
    rest: Vec<u8>,
}

impl RepeatedBytes {
    pub(super) fn of(bytes: &[u8], times: Option<u64>) -> Self {
        let per_chunk = (CHUNK_BYTES / bytes.len().max(1)).max(1);
        let times_per_chunk = per_chunk as u64;
        let rest = times.map_or(0, |times| times % times_per_chunk);
        Self {
            chunk: bytes.repeat(per_chunk),
            chunks: times.map(|times| times / times_per_chunk),
            rest: bytes.repeat(usize::try_from(rest).unwrap_or_default()),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> + Send {
        let max = self.chunks.unwrap_or(u64::MAX);
        let chunks = (0..max).map(|_| self.chunk.as_slice());
        chunks.chain([self.rest.as_slice()])
    }
}
