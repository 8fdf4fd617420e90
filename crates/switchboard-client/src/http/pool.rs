//! Connections to one server that wait for the next request.
//!
//! The one used last is taken first, so that those that are not needed grow old and are closed.
//! Invariant: a connection is in here only if its last answer was read to the end; whoever drops
//! one that is not closes it, and with it its task.

use std::pin::pin;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::SendRequest;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

use super::body::Payload;
use switchboard_wire::sync::lock;

/// How many connections are kept. More calls than this are rarely under way with one server.
const IDLE_CONNECTIONS: usize = 64;
/// How long an unused connection is kept. Many servers and gateways close theirs after a minute.
pub(super) const IDLE_TIME: Duration = Duration::from_secs(50);
/// How long a connection may take to be ready after its answer was read. It is not, for longer
/// than a moment, if the server answered without reading the request.
const SETTLING: Duration = Duration::from_millis(20);

/// A connection that is owned by whoever makes a request on it.
pub(super) struct Connection {
    sender: SendRequest<Payload>,
    task: JoinHandle<()>,
}

impl Connection {
    pub(super) fn new(sender: SendRequest<Payload>, task: JoinHandle<()>) -> Self {
        Self { sender, task }
    }

    /// Makes a request. With the head of the answer comes the connection, unless it has ended.
    ///
    /// A request that is handed over while the connection ends can stay in the channel between the
    /// two, neither taken nor refused, until the channel's last sender is gone: an ended connection
    /// is dropped therefore, while the wait for the answer goes on.
    pub(super) async fn request(
        mut self,
        request: Request<Payload>,
    ) -> Result<(Response<Incoming>, Option<Self>), TrySendError<Request<Payload>>> {
        let mut answer = pin!(self.sender.try_send_request(request));
        tokio::select! {
            biased;
            answered = &mut answer => Ok((answered?, Some(self))),
            _ = &mut self.task => {
                drop(self);
                Ok((answer.await?, None))
            }
        }
    }
}

impl Drop for Connection {
    /// hyper would notice only with the next byte from the server that nobody listens any more.
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Idle {
    connection: Connection,
    until: Instant,
}

pub(super) struct Pool {
    idle: Mutex<Waiting>,
    tasks: TaskTracker,
}

#[derive(Default)]
struct Waiting {
    /// The one used last is at the end.
    connections: Vec<Idle>,
    /// Runs while there is something to grow old.
    sweeper: Option<AbortHandle>,
}

impl Pool {
    pub(super) fn new(tasks: TaskTracker) -> Arc<Self> {
        Arc::new(Self {
            idle: Mutex::default(),
            tasks,
        })
    }

    /// A connection that looks alive.
    pub(super) async fn take(&self) -> Option<Connection> {
        loop {
            let mut connection = self.pop()?;
            if connection.sender.is_ready() {
                return Some(connection);
            }
            if let Ok(Ok(())) = timeout(SETTLING, connection.sender.ready()).await {
                return Some(connection);
            }
        }
    }

    fn pop(&self) -> Option<Connection> {
        let mut idle = lock(&self.idle);
        while let Some(last) = idle.connections.pop() {
            if !last.connection.sender.is_closed() && Instant::now() < last.until {
                return Some(last.connection);
            }
        }
        None
    }

    /// Keeps a connection whose answer was read to the end, for as long as the server keeps it.
    pub(super) fn put(self: &Arc<Self>, connection: Connection, kept_for: Duration) {
        if connection.sender.is_closed() || kept_for.is_zero() {
            return;
        }
        let until = Instant::now() + kept_for.min(IDLE_TIME);
        let mut idle = lock(&self.idle);
        if idle.connections.len() < IDLE_CONNECTIONS {
            idle.connections.push(Idle { connection, until });
            if idle.sweeper.is_none() {
                let sweeper = self.tasks.spawn(sweep(Arc::downgrade(self)));
                idle.sweeper = Some(sweeper.abort_handle());
            }
        }
    }

    /// Lets go of what is too old. False when nothing is left.
    fn discard_old(&self) -> bool {
        let now = Instant::now();
        let mut idle = lock(&self.idle);
        let waiting = &mut idle.connections;
        waiting.retain(|idle| now < idle.until && !idle.connection.sender.is_closed());
        let is_empty = waiting.is_empty();
        if is_empty {
            idle.sweeper = None;
        }
        !is_empty
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        lock(&self.idle).connections.len()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(sweeper) = lock(&self.idle).sweeper.take() {
            sweeper.abort();
        }
    }
}

async fn sweep(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(IDLE_TIME / 5).await;
        match pool.upgrade() {
            Some(pool) if pool.discard_old() => {}
            _ => return,
        }
    }
}
