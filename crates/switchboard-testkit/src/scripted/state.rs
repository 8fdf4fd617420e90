//! What all handlers of one server have in common: its output, its memory and its end.

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

/// Repeated bytes are written in pieces of about this size, so that 17 MiB need no buffer of 17 MiB.
pub(super) const PIECE: usize = 64 * 1024;

/// Under which key of `_meta` a notification names its subscription.
pub(super) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// The rest of a list of steps does not run: cancelled, nowhere to write, or the server has ended.
#[derive(Debug)]
pub(crate) struct StepsStopped;

/// What a script can do to stdin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    Read,
    /// Open, and nobody reads it.
    Ignored,
    Closed,
}

/// The state of one server.
pub(super) struct ServerState {
    /// What is played. Behind a pointer so that handlers can walk it while they change themselves.
    script: Arc<Script>,
    /// What is around the server.
    pub(super) host: Platform,
    /// Stdout, until the script closes it.
    output: tokio::sync::Mutex<Option<Box<dyn AsyncWrite + Send + Unpin>>>,
    /// What the script has done to stdin.
    input: watch::Sender<Input>,
    /// How the server ended, once it has.
    ended: watch::Sender<Option<ServerExit>>,
    /// Every handler that runs.
    tasks: Mutex<JoinSet<()>>,
    memory: Mutex<MutableState>,
    pub(super) audience: Mutex<Listeners>,
    /// Held from an acknowledgement until what it promises is kept, so that nothing falls in between.
    pub(super) acknowledging: tokio::sync::Mutex<()>,
    /// Numbers the server's own requests.
    last_request: AtomicU64,
}

/// What changes while a server runs.
struct MutableState {
    /// The tools on offer.
    tools: Vec<Value>,
    /// How often the list under each key was started.
    rounds: HashMap<String, u64>,
    /// Requests of the client that are being handled, by id, to cancel them.
    pending: HashMap<String, watch::Sender<bool>>,
    /// Requests of the server that it awaits an answer to, by id.
    awaited: HashMap<String, oneshot::Sender<Value>>,
}

impl fmt::Debug for ServerState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ServerState")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

impl ServerState {
    pub(super) fn new(
        script: Script,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        host: Platform,
    ) -> Self {
        host.stock().fill(&script);
        let memory = MutableState {
            tools: script.tools.clone(),
            rounds: HashMap::new(),
            pending: HashMap::new(),
            awaited: HashMap::new(),
        };
        Self {
            script: Arc::new(script),
            host,
            output: tokio::sync::Mutex::new(Some(Box::new(writer))),
            input: watch::Sender::new(Input::Read),
            ended: watch::Sender::new(None),
            tasks: Mutex::new(JoinSet::new()),
            memory: Mutex::new(memory),
            audience: Mutex::default(),
            acknowledging: tokio::sync::Mutex::default(),
            last_request: AtomicU64::new(0),
        }
    }

    pub(super) fn script(&self) -> Arc<Script> {
        Arc::clone(&self.script)
    }

    fn memory(&self) -> MutexGuard<'_, MutableState> {
        self.memory.lock().expect("no holder panics")
    }

    /// Keeps what was received.
    pub(super) fn record(&self, line: &[u8]) {
        self.host.received(line);
        if let Some(path) = &self.script.record
            && let Err(error) = super::platform::append(path, line)
        {
            self.fault(&format!("cannot record to {}: {error}", path.display()));
        }
    }
}

/// Output.
impl ServerState {
    pub(super) async fn write_line(&self, line: &str) -> Result<(), StepsStopped> {
        self.write(format!("{line}\n").as_bytes(), 1).await
    }

    /// Writes bytes so many times, in one piece.
    pub(super) async fn write(&self, bytes: &[u8], times: u64) -> Result<(), StepsStopped> {
        let mut output = self.output.lock().await;
        let writer = output.as_mut().ok_or(StepsStopped)?;
        let per_piece = (PIECE / bytes.len().max(1)).max(1) as u64;
        let piece = bytes.repeat(usize::try_from(per_piece.min(times)).unwrap_or(1));
        let mut left = times;
        while left > 0 {
            let now = left.min(per_piece);
            let length = bytes.len() * usize::try_from(now).unwrap_or(1);
            let part = piece.get(..length).unwrap_or(&piece);
            writer.write_all(part).await.map_err(|_| StepsStopped)?;
            left -= now;
        }
        writer.flush().await.map_err(|_| StepsStopped)
    }

    pub(super) async fn close_output(&self) {
        self.host.forget_stdout();
        *self.output.lock().await = None;
    }

    pub(super) fn close_input(&self) {
        self.input.send_replace(Input::Closed);
    }

    pub(super) fn stop_reading(&self) {
        self.input.send_replace(Input::Ignored);
    }

    /// Comes back when stdin shall no longer be read, and says what becomes of it.
    pub(super) async fn no_longer_read(&self) -> Input {
        let mut input = self.input.subscribe();
        match input.wait_for(|input| *input != Input::Read).await {
            Ok(input) => *input,
            Err(_) => Input::Closed,
        }
    }
}

/// Tasks and the end.
impl ServerState {
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().expect("no holder panics");
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    pub(super) fn abort_tasks(&self) {
        self.dismiss();
        self.tasks.lock().expect("no holder panics").abort_all();
    }

    /// Ends all tasks and waits until they are gone, so that nobody holds the streams any more.
    pub(super) async fn end_tasks(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock().expect("no holder panics"));
        tasks.shutdown().await;
        self.dismiss();
        *self.output.lock().await = None;
    }

    pub(super) fn end(&self, how: ServerExit) {
        self.ended.send_if_modified(|ended| {
            let first = ended.is_none();
            ended.get_or_insert(how);
            first
        });
    }

    pub(super) fn how_ended(&self) -> Option<ServerExit> {
        *self.ended.borrow()
    }

    pub(super) async fn ended(&self) {
        let _ = self.ended.subscribe().wait_for(Option::is_some).await;
    }

    /// The script asks for what cannot be done: says so and ends the server.
    pub(super) fn fault(&self, what: &str) {
        /// `EX_SOFTWARE` of sysexits.h.
        const SCRIPT_FAULT: i32 = 70;
        self.host.complain(what);
        self.end(ServerExit::Exited(SCRIPT_FAULT));
    }
}

/// MutableState.
impl ServerState {
    pub(super) fn tools(&self) -> Vec<Value> {
        self.memory().tools.clone()
    }

    pub(super) fn set_tools(&self, tools: &[Value]) {
        self.memory().tools = tools.to_vec();
    }

    /// Counts a start of the list under this key, from 1.
    pub(super) fn next_round(&self, key: &str) -> u64 {
        let mut memory = self.memory();
        let round = memory.rounds.entry(key.to_owned()).or_default();
        *round += 1;
        *round
    }

    pub(super) fn begin(&self, id: &Value) -> watch::Receiver<bool> {
        let (cancel, cancelled) = watch::channel(false);
        self.memory().pending.insert(id.to_string(), cancel);
        cancelled
    }

    pub(super) fn finish(&self, id: &Value) {
        self.memory().pending.remove(&id.to_string());
    }

    pub(super) fn cancel(&self, id: &Value) {
        self.stop_listening(id);
        if let Some(cancel) = self.memory().pending.get(&id.to_string()) {
            cancel.send_replace(true);
        }
    }

    pub(super) fn next_request_id(&self) -> Value {
        let number = self.last_request.fetch_add(1, Ordering::Relaxed) + 1;
        Value::String(format!("server-{number}"))
    }

    pub(super) fn await_response(&self, id: &Value) -> oneshot::Receiver<Value> {
        let (send, response) = oneshot::channel();
        self.memory().awaited.insert(id.to_string(), send);
        response
    }

    /// Hands a response to whoever awaits it; otherwise it was recorded, and that is all.
    pub(super) fn deliver(&self, response: Value) {
        let id = response.get("id").map(Value::to_string).unwrap_or_default();
        let waiting = self.memory().awaited.remove(&id);
        if let Some(waiting) = waiting {
            let _ = waiting.send(response);
        }
    }
}
