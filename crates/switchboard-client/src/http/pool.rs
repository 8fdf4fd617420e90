//! Pool of idle connections to one server.
//!
//! The connection that was used last is taken first, so that surplus connections expire.
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

/// Further connections are closed after use. More concurrent requests to one server are rare.
const MAX_IDLE_CONNECTIONS: usize = 64;
/// Maximum time that a connection stays idle. Many servers and gateways close it after a minute.
pub(super) const MAX_IDLE_TIME: Duration = Duration::from_secs(50);
/// Maximum wait until a pooled connection can send. Longer waits occur if the server responded
/// without reading the whole request.
const READY_TIMEOUT: Duration = Duration::from_millis(20);

/// An open connection that is sending one request or idle.
pub(super) struct Connection {
    sender: SendRequest<RequestBody>,
    /// Drives the connection; ends when the connection is closed.
    task: JoinHandle<()>,
}

impl Connection {
    pub(super) fn new(sender: SendRequest<RequestBody>, task: JoinHandle<()>) -> Self {
        Self { sender, task }
    }

    /// Sends a request. Returns the response when its headers arrived, and the connection if it is
    /// still open.
    ///
    /// If the connection ends while hyper queues the request, the request can stay in hyper's
    /// channel, neither sent nor returned, until the sender is dropped. So drop the sender as soon as
    /// the task has ended, then wait for the outcome.
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
    /// Without the abort, hyper would keep the connection open until the server sends another byte.
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
    /// In order of last use, the most recent at the end.
    connections: Vec<IdleConnection>,
    /// The task that removes expired connections. Runs while the pool is not empty.
    sweeper: Option<AbortHandle>,
}

impl Pool {
    pub(super) fn new(tasks: TaskTracker) -> Arc<Self> {
        Arc::new(Self {
            idle: Mutex::default(),
            tasks,
        })
    }

    /// Takes a connection that is open and ready to send.
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

    /// Adds a connection whose response was read to the end. The server keeps it open for
    /// `keep_alive`.
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

    /// Closes expired connections. Returns whether any connection is left.
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
