//! Plays a [`Script`] over any pair of byte streams.
//!
//! It reads lines, gives each message to a handler of its own and ends when the script or the client says so.
//! All waiting goes through `tokio::time`. Invariant: a line is written whole, whatever else is being
//! written at the time; only `bytes` and `hex` leave one open.

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
mod tasks;

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
pub use platform::{Platform, spawn_breeders};
pub(crate) use server_handle::ServerHandle;
pub(crate) use state::StepsStopped;
use state::{Input, ServerState};

/// How a server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerExit {
    /// By itself, with this code.
    Exited(i32),
    /// By signal 9, sent to itself.
    Killed,
}

/// Plays the script until it ends. Both streams are closed when this returns, or is dropped.
pub async fn serve(
    script: Script,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    host: Platform,
) -> ServerExit {
    let shared = Arc::new(ServerState::new(script, writer, host));
    shared.host.introduce(&shared);
    let tasks = EndTasksOnDrop(Arc::clone(&shared));
    tokio::select! {
        biased;
        () = shared.ended() => {}
        () = play(&shared, reader) => {}
    }
    tasks.0.end_tasks().await;
    shared.how_ended().unwrap_or(ServerExit::Exited(0))
}

/// The tasks hold the shared state and the shared state holds the tasks: somebody outside must end them.
struct EndTasksOnDrop(Arc<ServerState>);

impl Drop for EndTasksOnDrop {
    fn drop(&mut self) {
        self.0.abort_tasks();
    }
}

async fn play(shared: &Arc<ServerState>, reader: impl AsyncRead + Unpin) {
    let script = shared.script();
    shared.start_clocks();
    let _ = Handler::unprompted(shared).run(&script.start).await;
    if shared.how_ended().is_none() {
        receive_all(shared, reader).await;
        let _ = Handler::unprompted(shared).run(&script.on_eof).await;
    }
}

/// Reads until the client closes its end. If the script closes ours or ignores it, waits for ever.
async fn receive_all(shared: &Arc<ServerState>, reader: impl AsyncRead + Unpin) {
    let mut reader = BufReader::new(reader);
    let mut queue = Queue::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = tokio::select! {
            biased;
            input = shared.no_longer_read() => Err(input),
            read = reader.read_until(b'\n', &mut line) => Ok(read),
        };
        match read {
            Ok(Ok(1..)) => receive(shared, &line, &mut queue),
            Ok(_) => return,
            Err(Input::Closed) => break,
            Err(_) => std::future::pending::<()>().await,
        }
    }
    drop(reader);
    std::future::pending::<()>().await;
}

fn receive(shared: &Arc<ServerState>, line: &[u8], queue: &mut Queue) {
    let line = line.trim_ascii_end();
    if line.is_empty() {
        return;
    }
    shared.record(line);
    match Message::read(line) {
        Message::Request(request) => start_request(shared, request, queue),
        Message::Notification { method, params } => start_notification(shared, &method, &params),
        Message::Response(response) => shared.deliver(response),
        Message::Invalid { code, reason } => {
            let shared_for_task = Arc::clone(shared);
            shared.spawn(async move {
                let refusal = error_line(&Value::Null, code, reason, None);
                let _ = shared_for_task.write_line(&refusal).await;
            });
        }
    }
}

/// The steps that answer a request, and which time it is that they run.
fn choose_steps(shared: &ServerState, request: &Request) -> (Vec<Step>, u64) {
    let script = shared.script();
    let chosen = script.steps_for(&request.method, request.subject(), Some("*"));
    chosen.map_or_else(
        || (vec![Step::Default], 1),
        |(key, steps)| (steps.to_vec(), shared.next_round(key)),
    )
}

fn start_request(shared: &Arc<ServerState>, request: Request, queue: &mut Queue) {
    let (steps, round) = choose_steps(shared, &request);
    let turn = shared.script().serial.then(|| queue.take_turn());
    let cancelled = shared.begin(&request.id);
    shared.notice("", &request, None);
    let mut handler = Handler::for_request(shared, request.clone(), round, cancelled);
    let counting = Arc::clone(shared);
    let work = async move {
        counting.host.counts(&request);
        handler.answer(&steps).await;
    };
    shared.spawn(async move {
        match turn {
            Some(turn) => turn.run(work).await,
            None => work.await,
        }
    });
}

fn start_notification(shared: &Arc<ServerState>, method: &str, params: &Value) {
    let script = shared.script();
    let subject = message::subject(params);
    let (_, never_cancelled) = watch::channel(false);
    let request = Request::notification(method, params);
    let Some((key, steps)) = script.steps_for(method, subject, None) else {
        defaults::heed(shared, &request);
        return;
    };
    let (round, steps) = (shared.next_round(key), steps.to_vec());
    let mut handler = Handler::for_request(shared, request, round, never_cancelled);
    shared.spawn(async move {
        let _ = handler.run(&steps).await;
    });
}

/// The order in which a serial server answers: each request waits until the one before is done.
#[derive(Debug, Default)]
struct Queue {
    last: Option<oneshot::Receiver<()>>,
}

struct QueueTurn {
    before: Option<oneshot::Receiver<()>>,
    done: oneshot::Sender<()>,
}

impl Queue {
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

/// The line of a notification.
pub(crate) fn notification_line(method: &str, params: Option<&Value>) -> String {
    let mut message = json!({"jsonrpc": "2.0", "method": method});
    if let (Some(message), Some(params)) = (message.as_object_mut(), params) {
        message.insert("params".to_owned(), params.clone());
    }
    message.to_string()
}
