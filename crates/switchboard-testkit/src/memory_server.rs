//! Scripted servers in memory: without process or port, on the clock of the test's runtime.
//!
//! `MemoryServer::new` panics if a step needs a process (signals, grandchildren, a flooded stderr).
//! Without the panic, a test could pass because such a step has no effect.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::task::AbortHandle;

use crate::catalog_handle::CatalogHandle;
use crate::script::Script;
use crate::scripted::{Platform, ServerExit, SharedState, serve};

/// Capacity in bytes of the stream in each direction, the same as that of a Linux pipe.
const PIPE_SIZE: usize = 64 * 1024;

/// How long a test waits for messages, on the clock of its runtime.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// A scripted server in memory. Each connection plays its script from the start. Clones share the
/// same server.
#[derive(Debug, Clone)]
pub struct MemoryServer {
    state: Arc<MemoryServerState>,
}

#[derive(Debug)]
struct MemoryServerState {
    /// The scripts. The n-th connection plays the n-th script, and connections after the last
    /// script play the last script.
    scripts: Vec<Script>,
    shared: Arc<SharedState>,
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

    /// A server whose n-th connection plays the n-th script. Connections after the last script play
    /// the last script.
    pub fn in_sequence(scripts: impl IntoIterator<Item = Script>) -> Self {
        let scripts: Vec<_> = scripts.into_iter().collect();
        assert!(!scripts.is_empty(), "a server needs a script");
        let process_step = scripts.iter().find_map(Script::first_process_step);
        assert!(
            process_step.is_none(),
            "{process_step:?} needs a process; use the scripted-server binary"
        );
        Self {
            state: Arc::new(MemoryServerState {
                scripts,
                shared: Arc::default(),
                connections: Mutex::default(),
            }),
        }
    }

    /// Opens a connection on the current runtime. Returns the streams that the client reads from
    /// and writes to. The server runs until its script ends or the client drops the write stream.
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
        let last = self.state.scripts.len() - 1;
        let script = self.state.scripts.get(ordinal.min(last)).cloned();
        let platform = Platform::memory(Arc::clone(&self.state.shared), ordinal + 1);
        let server = self.clone();
        let task = tokio::spawn(async move {
            let ended = serve(script.unwrap_or_default(), reader, writer, platform).await;
            server.connections().ended.push(ended);
        });
        connections.current = Some(task.abort_handle());
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.state
            .connections
            .lock()
            .expect("the lock is not poisoned")
    }

    /// Aborts the newest connection, which closes both of its streams.
    pub fn kill(&self) {
        if let Some(current) = self.connections().current.take() {
            current.abort();
        }
    }

    /// Number of connections opened so far.
    pub fn opened(&self) -> usize {
        self.connections().opened
    }

    /// How the connections ended, in the order in which they ended. Connections that
    /// [`MemoryServer::kill`] closed are not included.
    pub fn ended(&self) -> Vec<ServerExit> {
        self.connections().ended.clone()
    }

    /// Every message of the client, over all connections, in order. A line that is not JSON is
    /// returned as a JSON string.
    pub fn received(&self) -> Vec<Value> {
        self.state.shared.observed().received.clone()
    }

    /// Every message of the client with this method, in order.
    pub fn received_with(&self, method: &str) -> Vec<Value> {
        let mut messages = self.received();
        messages.retain(|message| message.get("method").is_some_and(|found| found == method));
        messages
    }

    /// Waits for `times` messages with this method and returns them. Panics after a minute on the
    /// runtime's clock. If the clock is paused, this minute passes as soon as all tasks are idle.
    pub async fn wait_received(&self, method: &str, times: usize) -> Vec<Value> {
        let mut changes = self.state.shared.changes();
        let wait = async {
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
        let outcome = tokio::time::timeout(WAIT_TIMEOUT, wait).await;
        outcome.unwrap_or_else(|_| {
            let received = self.received();
            panic!("waited for {times} of {method}, received {received:#?}")
        })
    }

    /// Returns a handle that changes the resources and prompts of this server and lists the
    /// subscriptions of its clients.
    pub fn catalog(&self) -> CatalogHandle {
        CatalogHandle::new(&self.state.shared)
    }

    /// How often a handler started for this method (`"resources/read"`) or method and name
    /// (`"tools/call echo"`), or how often the step `count` ran with this name.
    pub fn count(&self, name: &str) -> usize {
        let observed = self.state.shared.observed();
        observed.counters.get(name).copied().unwrap_or_default()
    }

    /// Everything that the server wrote to stderr, over all connections.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.state.shared.observed().stderr).into_owned()
    }
}
