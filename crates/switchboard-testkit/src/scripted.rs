//! Plays a [`Script`] over a pair of byte streams.
//!
//! Reads lines and spawns a handler for each message, until the script or the client ends the
//! connection. All waits use `tokio::time`. Invariant: the server writes a whole line before any
//! other output. Only the steps `bytes` and `hex` write incomplete lines.

mod catalog;
mod defaults;
mod driver;
mod handler;
mod listeners;
mod message;
mod output;
mod platform;
mod server_handle;
mod state;
mod task_table;

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader};
use tokio::sync::{oneshot, watch};

use crate::script::{Script, Step};
pub(crate) use driver::ScriptDriver;
use handler::Handler;
pub(crate) use message::{Message, Request, error_line};
pub(crate) use output::{Chunk, HandlerOutput, WriteFuture};
pub(crate) use platform::SharedState;
pub use platform::{Platform, spawn_fork_bomb};
pub(crate) use server_handle::ServerHandle;
pub(crate) use state::StepsStopped;
use state::{ServerState, StdinMode};

/// How a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerExit {
    /// The server exited with this code.
    Exited(i32),
    /// The server killed itself with SIGKILL.
    Killed,
}

/// Plays the script until it ends the server or the client closes its end. When the returned future
/// completes or is dropped, both streams are closed.
pub async fn serve(
    script: Script,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    platform: Platform,
) -> ServerExit {
    let state = Arc::new(ServerState::new(script, writer, platform));
    state.platform.register(&state);
    let tasks = EndTasksOnDrop(Arc::clone(&state));
    tokio::select! {
        biased;
        () = state.wait_exit() => {}
        () = play(&state, reader) => {}
    }
    tasks.0.end_tasks().await;
    state.exit_status().unwrap_or(ServerExit::Exited(0))
}

/// Aborts the tasks of a server on drop. The tasks and the server state own each other, so dropping
/// the state alone would leak both.
struct EndTasksOnDrop(Arc<ServerState>);

impl Drop for EndTasksOnDrop {
    fn drop(&mut self) {
        self.0.abort_tasks();
    }
}

async fn play(state: &Arc<ServerState>, reader: impl AsyncRead + Unpin) {
    let script = state.script();
    state.start_clocks();
    let _ = Handler::without_request(state).run(&script.start).await;
    if state.exit_status().is_none() {
        receive_all(state, reader).await;
        let _ = Handler::without_request(state).run(&script.on_eof).await;
    }
}

/// Reads lines and starts a handler for each message until the client closes its end. If the script
/// closes stdin or stops reading it, this function never returns.
async fn receive_all(state: &Arc<ServerState>, reader: impl AsyncRead + Unpin) {
    let mut reader = BufReader::new(reader);
    let mut queue = SerialQueue::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = tokio::select! {
            biased;
            input = state.stdin_stopped() => Err(input),
            read = reader.read_until(b'\n', &mut line) => Ok(read),
        };
        match read {
            Ok(Ok(1..)) => receive(state, &line, &mut queue),
            Ok(_) => return,
            Err(StdinMode::Closed) => break,
            Err(_) => std::future::pending::<()>().await,
        }
    }
    drop(reader);
    std::future::pending::<()>().await;
}

fn receive(state: &Arc<ServerState>, line: &[u8], queue: &mut SerialQueue) {
    let line = line.trim_ascii_end();
    if line.is_empty() {
        return;
    }
    state.record(line);
    match Message::read(line) {
        Message::Request(request) => start_request(state, request, queue),
        Message::Notification { method, params } => start_notification(state, &method, &params),
        Message::Response(response) => state.deliver(response),
        Message::Invalid { code, reason } => {
            let state_for_task = Arc::clone(state);
            state.spawn(async move {
                let refusal = error_line(&Value::Null, code, reason, None);
                let _ = state_for_task.write_line(&refusal).await;
            });
        }
    }
}

/// Returns the steps for a request, and how often the list of these steps was chosen, this time
/// included.
fn choose_steps(state: &ServerState, request: &Request) -> (Vec<Step>, u64) {
    let script = state.script();
    let chosen = script.steps_for(&request.method, request.subject(), Some("*"));
    chosen.map_or_else(
        || (vec![Step::Default], 1),
        |(key, steps)| (steps.to_vec(), state.next_occurrence(key)),
    )
}

fn start_request(state: &Arc<ServerState>, request: Request, queue: &mut SerialQueue) {
    let (steps, occurrence) = choose_steps(state, &request);
    let turn = state.script().serial.then(|| queue.take_turn());
    let cancelled = state.start_request(&request.id);
    state.register_client("", &request, None);
    let mut handler = Handler::for_request(state, request.clone(), occurrence, cancelled);
    let counted_state = Arc::clone(state);
    let work = async move {
        counted_state.platform.count_request(&request);
        handler.run_request(&steps).await;
    };
    state.spawn(async move {
        match turn {
            Some(turn) => turn.run(work).await,
            None => work.await,
        }
    });
}

fn start_notification(state: &Arc<ServerState>, method: &str, params: &Value) {
    let script = state.script();
    let subject = message::subject(params);
    let (_, never_cancelled) = watch::channel(false);
    let request = Request::notification(method, params);
    let Some((key, steps)) = script.steps_for(method, subject, None) else {
        defaults::handle_notification(state, &request);
        return;
    };
    let (occurrence, steps) = (state.next_occurrence(key), steps.to_vec());
    let mut handler = Handler::for_request(state, request, occurrence, never_cancelled);
    state.spawn(async move {
        let _ = handler.run(&steps).await;
    });
}

/// Makes each request of a serial server wait until the previous request is done.
#[derive(Debug, Default)]
struct SerialQueue {
    last: Option<oneshot::Receiver<()>>,
}

struct QueueTurn {
    before: Option<oneshot::Receiver<()>>,
    done: oneshot::Sender<()>,
}

impl SerialQueue {
    fn take_turn(&mut self) -> QueueTurn {
        let (done, last) = oneshot::channel();
        QueueTurn {
            before: self.last.replace(last),
            done,
        }
    }
}

impl QueueTurn {
    async fn run(self, work: impl Future<Output = ()>) {
        if let Some(before) = self.before {
            let _ = before.await;
        }
        work.await;
        drop(self.done);
    }
}

/// The JSON line of a notification.
pub(crate) fn notification_line(method: &str, params: Option<&Value>) -> String {
    let mut message = json!({"jsonrpc": "2.0", "method": method});
    if let (Some(message), Some(params)) = (message.as_object_mut(), params) {
        message.insert("params".to_owned(), params.clone());
    }
    message.to_string()
}
