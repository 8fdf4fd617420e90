//! State that all handlers of one server share: its output, its in-flight requests and its exit.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use super::listeners::Listeners;
use super::{Platform, ServerExit};
use crate::script::Script;

/// Repeated bytes are written in chunks of about this many bytes, which bounds the write buffer.
pub(super) const CHUNK_BYTES: usize = 64 * 1024;

/// The `_meta` key under which a notification carries its subscription id.
pub(super) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// The remaining steps of a list do not run: a step failed, the request was cancelled, the output
/// is closed, or the server has ended.
#[derive(Debug)]
pub(crate) struct StepsStopped;

/// How the server treats its stdin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StdinMode {
    Read,
    /// Open but no longer read.
    Ignored,
    Closed,
}

/// The state of one run of a server, from its start to its exit.
pub(super) struct ServerState {
    /// In an `Arc`, because a handler iterates over the script's steps while the handler is mutably
    /// borrowed.
    script: Arc<Script>,
    pub(super) platform: Platform,
    /// The stream to the client; `None` after the script closed it.
    output: tokio::sync::Mutex<Option<Box<dyn AsyncWrite + Send + Unpin>>>,
    /// Whether the script lets the server read stdin.
    stdin_mode: watch::Sender<StdinMode>,
    /// How the server ended; `None` while it runs.
    exit: watch::Sender<Option<ServerExit>>,
    /// The tokio tasks of this server: handlers, background steps and periodic changes.
    tasks: Mutex<JoinSet<()>>,
    mutable: Mutex<MutableState>,
    pub(super) listeners: Mutex<Listeners>,
    /// Held while a listen request is acknowledged and registered. The sender of a notification
    /// first waits until this lock is free, so the new listener does not miss the notification.
    pub(super) ack_lock: tokio::sync::Mutex<()>,
    /// The number in the id of the last request that the server sent to the client.
    last_request: AtomicU64,
}

/// The part of the state that changes while the server runs.
struct MutableState {
    /// The current tools.
    tools: Vec<Value>,
    /// How often the list of steps of each script key was started.
    occurrences: HashMap<String, u64>,
    /// The cancellation senders of the client's requests in flight, by request id. The value true
    /// cancels.
    in_flight: HashMap<String, watch::Sender<bool>>,
    /// The server's requests whose response a handler waits for, by request id.
    awaited_responses: HashMap<String, oneshot::Sender<Value>>,
}

impl fmt::Debug for ServerState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ServerState")
            .field("platform", &self.platform)
            .finish_non_exhaustive()
    }
}

impl ServerState {
    pub(super) fn new(
        script: Script,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        platform: Platform,
    ) -> Self {
        platform.catalog().load(&script);
        let mutable = MutableState {
            tools: script.tools.clone(),
            occurrences: HashMap::new(),
            in_flight: HashMap::new(),
            awaited_responses: HashMap::new(),
        };
        Self {
            script: Arc::new(script),
            platform,
            output: tokio::sync::Mutex::new(Some(Box::new(writer))),
            stdin_mode: watch::Sender::new(StdinMode::Read),
            exit: watch::Sender::new(None),
            tasks: Mutex::new(JoinSet::new()),
            mutable: Mutex::new(mutable),
            listeners: Mutex::default(),
            ack_lock: tokio::sync::Mutex::default(),
            last_request: AtomicU64::new(0),
        }
    }

    pub(super) fn script(&self) -> Arc<Script> {
        Arc::clone(&self.script)
    }

    fn mutable(&self) -> MutexGuard<'_, MutableState> {
        self.mutable.lock().expect("the lock is not poisoned")
    }

    /// Records a line that the client sent, in the shared state and in the record file of the
    /// script.
    pub(super) fn record(&self, line: &[u8]) {
        self.platform.record_received(line);
        if let Some(path) = &self.script.record
            && let Err(error) = super::platform::append(path, line)
        {
            self.script_error(&format!("cannot record to {}: {error}", path.display()));
        }
    }
}

/// Input and output.
impl ServerState {
    pub(super) async fn write_line(&self, line: &str) -> Result<(), StepsStopped> {
        self.write(format!("{line}\n").as_bytes(), 1).await
    }

    /// Writes bytes `times` times, without other output between the repetitions.
    pub(super) async fn write(&self, bytes: &[u8], times: u64) -> Result<(), StepsStopped> {
        let mut output = self.output.lock().await;
        let writer = output.as_mut().ok_or(StepsStopped)?;
        let repeats_per_chunk = (CHUNK_BYTES / bytes.len().max(1)).max(1) as u64;
        let chunk = bytes.repeat(usize::try_from(repeats_per_chunk.min(times)).unwrap_or(1));
        let mut remaining = times;
        while remaining > 0 {
            let now = remaining.min(repeats_per_chunk);
            let length = bytes.len() * usize::try_from(now).unwrap_or(1);
            let part = chunk.get(..length).unwrap_or(&chunk);
            writer.write_all(part).await.map_err(|_| StepsStopped)?;
            remaining -= now;
        }
        writer.flush().await.map_err(|_| StepsStopped)
    }

    pub(super) async fn close_output(&self) {
        self.platform.drop_stdout();
        *self.output.lock().await = None;
    }

    pub(super) fn close_input(&self) {
        self.stdin_mode.send_replace(StdinMode::Closed);
    }

    pub(super) fn stop_reading(&self) {
        self.stdin_mode.send_replace(StdinMode::Ignored);
    }

    /// Waits until the script closes stdin or stops reading it, and returns the new mode.
    pub(super) async fn stdin_stopped(&self) -> StdinMode {
        let mut stdin_mode = self.stdin_mode.subscribe();
        match stdin_mode
            .wait_for(|stdin_mode| *stdin_mode != StdinMode::Read)
            .await
        {
            Ok(stdin_mode) => *stdin_mode,
            Err(_) => StdinMode::Closed,
        }
    }
}

/// Tasks and exit.
impl ServerState {
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().expect("the lock is not poisoned");
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    pub(super) fn abort_tasks(&self) {
        self.clear_listeners();
        self.tasks
            .lock()
            .expect("the lock is not poisoned")
            .abort_all();
    }

    /// Aborts all tokio tasks of the server, waits for their end and closes the output.
    pub(super) async fn end_tasks(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock().expect("the lock is not poisoned"));
        tasks.shutdown().await;
        self.clear_listeners();
        *self.output.lock().await = None;
    }

    pub(super) fn set_exit(&self, exit: ServerExit) {
        self.exit.send_if_modified(|ended| {
            let first = ended.is_none();
            ended.get_or_insert(exit);
            first
        });
    }

    pub(super) fn exit_status(&self) -> Option<ServerExit> {
        *self.exit.borrow()
    }

    pub(super) async fn wait_exit(&self) {
        let _ = self.exit.subscribe().wait_for(Option::is_some).await;
    }

    /// Reports an error in the script and ends the server with exit code 70.
    pub(super) fn script_error(&self, problem: &str) {
        /// `EX_SOFTWARE` of sysexits.h.
        const SCRIPT_ERROR_CODE: i32 = 70;
        self.platform.report_script_error(problem);
        self.set_exit(ServerExit::Exited(SCRIPT_ERROR_CODE));
    }
}

/// Tools, requests and responses.
impl ServerState {
    pub(super) fn tools(&self) -> Vec<Value> {
        self.mutable().tools.clone()
    }

    pub(super) fn set_tools(&self, tools: &[Value]) {
        self.mutable().tools = tools.to_vec();
    }

    /// Counts a start of the list of steps of this script key. Returns the count, this start
    /// included.
    pub(super) fn next_occurrence(&self, key: &str) -> u64 {
        let mut mutable = self.mutable();
        let occurrence = mutable.occurrences.entry(key.to_owned()).or_default();
        *occurrence += 1;
        *occurrence
    }

    pub(super) fn start_request(&self, id: &Value) -> watch::Receiver<bool> {
        let (cancel, cancelled) = watch::channel(false);
        self.mutable().in_flight.insert(id.to_string(), cancel);
        cancelled
    }

    pub(super) fn finish_request(&self, id: &Value) {
        self.mutable().in_flight.remove(&id.to_string());
    }

    pub(super) fn cancel(&self, id: &Value) {
        self.stop_listening(id);
        if let Some(cancel) = self.mutable().in_flight.get(&id.to_string()) {
            cancel.send_replace(true);
        }
    }

    pub(super) fn next_request_id(&self) -> Value {
        let number = self.last_request.fetch_add(1, Ordering::Relaxed) + 1;
        Value::String(format!("server-{number}"))
    }

    pub(super) fn await_response(&self, id: &Value) -> oneshot::Receiver<Value> {
        let (send, response) = oneshot::channel();
        self.mutable()
            .awaited_responses
            .insert(id.to_string(), send);
        response
    }

    /// Passes a response of the client to the handler that waits for it. A response that no handler
    /// waits for is dropped.
    pub(super) fn deliver(&self, response: Value) {
        let id = response.get("id").map(Value::to_string).unwrap_or_default();
        let waiting = self.mutable().awaited_responses.remove(&id);
        if let Some(waiting) = waiting {
            let _ = waiting.send(response);
        }
    }
}
