//! Pool of idle connections to one server.
//!
//! A request takes the connection that became idle last. Connections that the current load does not
//! need therefore stay unused until they expire.
//!
//! Invariants: a connection enters the pool only after its last response was read to the end.
//! Dropping a connection closes it and aborts its task.

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

use super::body::RequestBody;
use switchboard_wire::sync::lock;

/// Maximum number of idle connections in the pool. If the pool is full, a connection is closed
/// instead of pooled.
const MAX_IDLE_CONNECTIONS: usize = 64;
/// Maximum idle time after which a connection is still reused. Many servers and gateways close an
/// idle connection after a minute.
pub(super) const MAX_IDLE_TIME: Duration = Duration::from_secs(50);
/// How long to wait until a pooled connection can send. A connection that needs longer is closed;
/// the server may have responded without reading the whole previous request.
const READY_TIMEOUT: Duration = Duration::from_millis(20);

/// An open connection, either idle in the pool or in use by one request.
pub(super) struct Connection {
    sender: SendRequest<RequestBody>,
    /// Runs hyper's connection future. Ends when the connection is closed.
    task: JoinHandle<()>,
}

impl Connection {
    pub(super) fn new(sender: SendRequest<RequestBody>, task: JoinHandle<()>) -> Self {
        Self { sender, task }
    }

    /// Sends a request. Returns the response as soon as its headers have arrived, and the
    /// connection if it is still open.
    ///
    /// If the connection closes while hyper queues the request, hyper neither sends nor returns the
    /// request until its `SendRequest` handle is dropped. Therefore `send` drops this handle as
    /// soon as the connection task has ended, and then awaits the outcome.
    pub(super) async fn send(
        mut self,
        request: Request<RequestBody>,
    ) -> Result<(Response<Incoming>, Option<Self>), TrySendError<Request<RequestBody>>> {
        let mut response = pin!(self.sender.try_send_request(request));
        tokio::select! {
            biased;
            outcome = &mut response => Ok((outcome?, Some(self))),
            _ = &mut self.task => {
                drop(self);
                Ok((response.await?, None))
            }
        }
    }
}

impl Drop for Connection {
    /// Aborts the connection task. Otherwise hyper would keep the connection open until the server
    /// sends another byte.
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct IdleConnection {
    connection: Connection,
    expires_at: Instant,
}

pub(super) struct Pool {
    idle: Mutex<IdleConnections>,
    tasks: TaskTracker,
}

#[derive(Default)]
struct IdleConnections {
    /// Sorted by the time at which they became idle, the most recent last.
    connections: Vec<IdleConnection>,
    /// The task that removes expired connections. Ends when it finds the pool empty.
    sweeper: Option<AbortHandle>,
}

impl Pool {
    pub(super) fn new(tasks: TaskTracker) -> Arc<Self> {
        Arc::new(Self {
            idle: Mutex::default(),
            tasks,
        })
    }

    /// Takes a connection that is open and ready to send. Returns `None` if the pool has none.
    pub(super) async fn take(&self) -> Option<Connection> {
        loop {
            let mut connection = self.pop()?;
            if connection.sender.is_ready() {
                return Some(connection);
            }
            if let Ok(Ok(())) = timeout(READY_TIMEOUT, connection.sender.ready()).await {
                return Some(connection);
            }
        }
    }

    fn pop(&self) -> Option<Connection> {
        let mut idle = lock(&self.idle);
        while let Some(last) = idle.connections.pop() {
            if !last.connection.sender.is_closed() && Instant::now() < last.expires_at {
                return Some(last.connection);
            }
        }
        None
    }

    /// Adds a connection whose last response was read to the end. It expires after `keep_alive`, at
    /// the latest after `MAX_IDLE_TIME`. If the pool is full or `keep_alive` is zero, the
    /// connection is closed.
    pub(super) fn put(self: &Arc<Self>, connection: Connection, keep_alive: Duration) {
        if connection.sender.is_closed() || keep_alive.is_zero() {
            return;
        }
        let expires_at = Instant::now() + keep_alive.min(MAX_IDLE_TIME);
        let mut idle = lock(&self.idle);
        if idle.connections.len() < MAX_IDLE_CONNECTIONS {
            idle.connections.push(IdleConnection {
                connection,
                expires_at,
            });
            if idle.sweeper.is_none() {
                let sweeper = self.tasks.spawn(sweep(Arc::downgrade(self)));
                idle.sweeper = Some(sweeper.abort_handle());
            }
        }
    }

    /// Closes expired connections. Returns whether the pool still has connections.
    fn remove_expired(&self) -> bool {
        let now = Instant::now();
        let mut idle = lock(&self.idle);
        let connections = &mut idle.connections;
        connections.retain(|idle| now < idle.expires_at && !idle.connection.sender.is_closed());
        let is_empty = connections.is_empty();
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
        tokio::time::sleep(MAX_IDLE_TIME / 5).await;
        match pool.upgrade() {
            Some(pool) if pool.remove_expired() => {}
            _ => return,
        }
    }
}
