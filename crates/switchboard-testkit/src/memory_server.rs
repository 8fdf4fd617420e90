//! Scripted servers in memory: no process, no port, and the clock of the test's runtime.
//!
//! What only a process can do (signals, grandchildren, a flooded stderr) is refused when the server is
//! made, so that a test cannot pass because nothing happened.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::task::AbortHandle;

use crate::catalog_handle::CatalogHandle;
use crate::script::Script;
use crate::scripted::{Platform, ServerExit, SharedState, serve};

/// How many bytes fit between the two sides: as many as in a Linux pipe.
const PIPE_SIZE: usize = 64 * 1024;

/// How long a test waits for a message before it gives up, on the clock of its runtime.
const PATIENCE: Duration = Duration::from_secs(60);

/// A scripted server that runs in memory, once per connection. Cloning gives another handle to it.
#[derive(Debug, Clone)]
pub struct MemoryServer {
    inner: Arc<MemoryServerState>,
}

#[derive(Debug)]
struct MemoryServerState {
    /// The n-th connection plays the n-th script; all later ones the last.
    scripts: Vec<Script>,
    memory: Arc<SharedState>,
    connections: Mutex<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    opened: usize,
    current: Option<AbortHandle>,
    ended: Vec<ServerExit>,
}

impl MemoryServer {
    /// A server that plays this script on every connection.
    pub fn new(script: Script) -> Self {
        Self::in_sequence([script])
    }

    /// A server whose n-th connection plays the n-th script, and all later ones the last.
    pub fn in_sequence(scripts: impl IntoIterator<Item = Script>) -> Self {
        let scripts: Vec<_> = scripts.into_iter().collect();
        assert!(!scripts.is_empty(), "a server needs a script");
        let impossible = scripts.iter().find_map(Script::first_process_step);
        assert!(
            impossible.is_none(),
            "{impossible:?} needs a real process: play this script with the scripted-server binary"
        );
        Self {
            inner: Arc::new(MemoryServerState {
                scripts,
                memory: Arc::default(),
                connections: Mutex::default(),
            }),
        }
    }

    /// Starts the server anew on the current runtime, and returns what the client reads from and what
    /// it writes to. The server lives until its script ends it or the client drops what it writes to.
    pub fn open(
        &self,
    ) -> (
        impl AsyncRead + Send + Unpin + 'static,
        impl AsyncWrite + Send + Unpin + 'static,
    ) {
        let (client_reads, server_writes) = tokio::io::duplex(PIPE_SIZE);
        let (server_reads, client_writes) = tokio::io::duplex(PIPE_SIZE);
        self.spawn(server_reads, server_writes);
        (client_reads, client_writes)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the connection outlives this call and its handle is kept"
    )]
    fn spawn(&self, reader: DuplexStream, writer: DuplexStream) {
        let mut connections = self.connections();
        let ordinal = connections.opened;
        connections.opened += 1;
        let last = self.inner.scripts.len() - 1;
        let script = self.inner.scripts.get(ordinal.min(last)).cloned();
        let host = Platform::memory(Arc::clone(&self.inner.memory), ordinal + 1);
        let server = self.clone();
        let task = tokio::spawn(async move {
            let ended = serve(script.unwrap_or_default(), reader, writer, host).await;
            server.connections().ended.push(ended);
        });
        connections.current = Some(task.abort_handle());
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.inner.connections.lock().expect("no holder panics")
    }

    /// Closes the newest connection from the server's side, whatever it is doing.
    pub fn kill(&self) {
        if let Some(current) = self.connections().current.take() {
            current.abort();
        }
    }

    /// How many connections have been opened.
    pub fn opened(&self) -> usize {
        self.connections().opened
    }

    /// How the connections have ended that ended by themselves, in that order.
    pub fn ended(&self) -> Vec<ServerExit> {
        self.connections().ended.clone()
    }

    /// Every message of the client, over all connections, in order. What was not JSON is a string.
    pub fn received(&self) -> Vec<Value> {
        self.inner.memory.seen().received.clone()
    }

    /// Every message of the client with this method, in order.
    pub fn received_with(&self, method: &str) -> Vec<Value> {
        let mut messages = self.received();
        messages.retain(|message| message.get("method").is_some_and(|found| found == method));
        messages
    }

    /// Waits until so many messages with this method have come, and returns them. Panics after a
    /// minute of the runtime's clock, which on a paused clock is as soon as nothing else can happen.
    pub async fn wait_received(&self, method: &str, times: usize) -> Vec<Value> {
        let mut changes = self.inner.memory.changes();
        let enough = async {
            loop {
                let messages = self.received_with(method);
                if messages.len() >= times {
                    return messages;
                }
                changes
                    .changed()
                    .await
                    .expect("the server keeps the sender");
            }
        };
        let outcome = tokio::time::timeout(PATIENCE, enough).await;
        outcome.unwrap_or_else(|_| {
            let received = self.received();
            panic!("waited for {times} of {method}, received {received:#?}")
        })
    }

    /// What it offers besides tools, over all connections: to change it, and to see who is subscribed.
    pub fn catalog(&self) -> CatalogHandle {
        CatalogHandle::new(&self.inner.memory)
    }

    /// How often a handler has begun to carry out a request of this method (`"resources/read"`), or of
    /// this method and name (`"tools/call echo"`), or how often the step `count` has met this name.
    pub fn count(&self, name: &str) -> usize {
        let seen = self.inner.memory.seen();
        seen.counters.get(name).copied().unwrap_or_default()
    }

    /// Everything written to stderr, over all connections.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.inner.memory.seen().stderr).into_owned()
    }
}
