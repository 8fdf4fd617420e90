//! Forwards JSON-RPC messages over a byte stream to a server that speaks the protocol itself.
//!
//! Each `initialize` opens a new connection. Requests keep their ids, and the id of a response
//! determines the request that it answers. Invariant: if a server does not read, does not respond
//! or has ended, only requests to this server wait, each at most for its own time limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use switchboard_wire::limits::Limits;
use switchboard_wire::lines::{DiscardReason, Line, LineSplitter};
use switchboard_wire::mcp::{ErrorObject, Json};
use switchboard_wire::memory_budget::MemoryBudget;
use switchboard_wire::{ByteStreams, Connector};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::in_flight::{InFlight, InFlightGuard, RequestOutcome};
use super::jsonrpc::{self, Id, RawMessage};
use super::notifications::PendingNotifications;
use super::server_input_queue::ServerInputQueue;
use super::timeout_error;

pub(super) struct StreamBackend {
    connector: Arc<dyn Connector>,
    server_messages: mpsc::Sender<Json>,
}

/// One connection to the server. Dropping this value closes the connection.
pub(super) struct StreamConnection {
    queue: Arc<ServerInputQueue>,
    /// Whether notifications of the server are dropped and its requests are refused. Set when a
    /// newer connection replaces this one.
    muted: Arc<AtomicBool>,
    _task: JoinSet<()>,
}

impl StreamBackend {
    pub(super) fn new(connector: Arc<dyn Connector>, server_messages: mpsc::Sender<Json>) -> Self {
        Self {
            connector,
            server_messages,
        }
    }

    /// Opens a connection in the background. Until the connection is open, messages are queued. If
    /// it cannot be opened, all requests on it fail.
    pub(super) fn open(&self, in_flight: &Arc<InFlight>) -> Arc<StreamConnection> {
        let queue = Arc::new(ServerInputQueue::new());
        let muted = Arc::new(AtomicBool::new(false));
        let task = ConnectionTask {
            in_flight: Arc::clone(in_flight),
            server_messages: self.server_messages.clone(),
            muted: Arc::clone(&muted),
            queue: Arc::clone(&queue),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(task.run(Arc::clone(&self.connector)));
        Arc::new(StreamConnection {
            queue,
            muted,
            _task: tasks,
        })
    }
}

impl StreamConnection {
    pub(super) fn mute(&self) {
        self.muted.store(true, Ordering::Relaxed);
    }

    /// Queues a request during this call, and returns a future that waits for the response. If the
    /// queue is full, the future first waits for room.
    pub(super) fn request(
        self: Arc<Self>,
        method: String,
        text: &str,
        in_flight: InFlightGuard,
        limit: Duration,
    ) -> impl Future<Output = Option<Json>> + Send + use<> {
        let deadline = Instant::now() + limit;
        let unsent = self.queue.try_send(text);
        // MCP forbids cancelling `initialize`.
        let may_cancel = method != "initialize";
        let mut request = SentRequest {
            must_cancel: may_cancel && unsent.is_none(),
            connection: self,
            in_flight,
        };
        async move {
            let outcome = tokio::select! {
                biased;
                outcome = &mut request.in_flight.outcome => outcome.ok(),
                is_sent = request.connection.queue.send_before(deadline, unsent) => {
                    request.must_cancel = may_cancel && is_sent;
                    None
                }
            };
            let outcome = match outcome {
                Some(outcome) => Some(outcome),
                None => tokio::select! {
                    biased;
                    outcome = &mut request.in_flight.outcome => outcome.ok(),
                    () = sleep_until(deadline) => None,
                },
            };
            if outcome.is_some() {
                request.must_cancel = false;
            }
            let id = &request.in_flight.id;
            match outcome {
                Some(RequestOutcome::Answered(response)) => Some(response),
                Some(RequestOutcome::Cancelled) => None,
                Some(RequestOutcome::Failed(error)) => Some(jsonrpc::failure(Some(id), &error)),
                None => {
                    let error = timeout_error(&method, limit);
                    Some(jsonrpc::failure(Some(id), &error))
                }
            }
        }
    }

    /// Queues a notification or response during this call. If the queue is full, the returned
    /// future waits for room, and drops the message after `limit`.
    pub(super) fn notify(
        self: Arc<Self>,
        text: &str,
        limit: Duration,
    ) -> impl Future<Output = ()> + Send + use<> {
        let deadline = Instant::now() + limit;
        let unsent = self.queue.try_send(text);
        async move {
            self.queue.send_before(deadline, unsent).await;
        }
    }
}

/// A request to the server. Sends a cancellation when dropped, if the request was queued and ended
/// without an outcome, because its future was dropped or it timed out. `initialize` is never
/// cancelled.
struct SentRequest {
    connection: Arc<StreamConnection>,
    in_flight: InFlightGuard,
    /// Whether the request was queued, has not ended, and may be cancelled.
    must_cancel: bool,
}

impl Drop for SentRequest {
    fn drop(&mut self) {
        if self.must_cancel {
            let line = jsonrpc::cancellation(&self.in_flight.id, "cancelled by the client");
            self.connection.queue.send_control(line.as_str());
        }
    }
}

/// The task of one connection, which reads and writes its lines.
struct ConnectionTask {
    in_flight: Arc<InFlight>,
    server_messages: mpsc::Sender<Json>,
    muted: Arc<AtomicBool>,
    queue: Arc<ServerInputQueue>,
}

/// Fails the requests of a connection when its task ends, even if the task is aborted or panics.
struct FailOnDrop(Arc<InFlight>);

impl Drop for FailOnDrop {
    fn drop(&mut self) {
        self.0.fail_all(&connection_ended("its task has stopped"));
    }
}

fn connection_ended(why: &str) -> ErrorObject {
    ErrorObject::new(
        ErrorObject::INTERNAL,
        format!("the connection to the server has ended ({why}); send `initialize` again"),
    )
}

impl ConnectionTask {
    async fn run(self, connector: Arc<dyn Connector>) {
        let _fail_on_drop = FailOnDrop(Arc::clone(&self.in_flight));
        let why = match connector.connect().await {
            Ok(streams) => self.forward_both_ways(streams).await,
            Err(error) => format!("cannot connect: {error}"),
        };
        self.in_flight.fail_all(&connection_ended(&why));
        self.queue.close();
    }

    /// Forwards lines in both directions until one direction ends. Returns why it ended.
    async fn forward_both_ways(&self, streams: ByteStreams) -> String {
        let ByteStreams { reader, writer } = streams;
        tokio::select! {
            why = self.read(reader) => why,
            Err(error) = self.queue.write_to(writer) => format!("write failed: {error}"),
        }
    }

    async fn read(&self, mut reader: impl AsyncRead + Unpin) -> String {
        let limits = Limits::default();
        let mut lines = LineSplitter::new(
            limits.message_bytes,
            &MemoryBudget::new(limits.memory_bytes),
        );
        let mut pending = PendingNotifications::default();
        loop {
            tokio::select! {
                read = reader.read_buf(lines.read_buffer()) => match read {
                    Ok(0) => return "the server closed it".to_owned(),
                    Ok(_) => {}
                    Err(error) => return format!("read failed: {error}"),
                },
                Ok(permit) = self.server_messages.reserve(), if !pending.is_empty() => {
                    if let Some(message) = pending.pop_message() {
                        permit.send(message);
                    }
                }
            }
            loop {
                match lines.next_line() {
                    Ok(Some(line)) => self.handle_line(line, &mut pending),
                    Ok(None) => break,
                    Err(_) => return "the server sent a line without end".to_owned(),
                }
            }
        }
    }

    fn handle_line(&self, line: Line, pending: &mut PendingNotifications) {
        match line {
            Line::Complete(line, _permit) => match std::str::from_utf8(&line) {
                Ok(text) => self.handle_message(text.trim(), pending),
                Err(_) => tracing::debug!("in-process server sent a line that is not UTF-8"),
            },
            Line::Long(line, permit) => {
                self.handle_line(Line::Complete(line.join(), permit), pending);
            }
            Line::Discarded {
                id: Some(id),
                reason,
            } => {
                let message = match reason {
                    DiscardReason::TooLong => {
                        "the response exceeds the message size limit; request less at a time"
                    }
                    DiscardReason::OverMemoryBudget => {
                        "the response exceeds the memory limit for messages; request less at a time"
                    }
                };
                let error = ErrorObject::new(ErrorObject::INTERNAL, message);
                self.in_flight
                    .resolve(&Id::Number(id.into()), RequestOutcome::Failed(error));
            }
            Line::Discarded { id: None, .. } => {
                tracing::debug!("in-process server sent an oversized line");
            }
        }
    }

    fn handle_message(&self, text: &str, pending: &mut PendingNotifications) {
        let Ok(message) = serde_json::from_str::<RawMessage<'_>>(text) else {
            if !text.is_empty() {
                tracing::debug!("in-process server sent a line that is not a JSON-RPC message");
            }
            return;
        };
        match (&message.method, message.id()) {
            (Some(method), id) => self.forward_server_message(text, method, id, pending),
            (None, Some(id)) => {
                if let Ok(response) = Json::parse(text) {
                    self.in_flight
                        .resolve(&id, RequestOutcome::Answered(response));
                }
            }
            (None, None) => tracing::debug!("in-process server sent a response without id"),
        }
    }

    /// Forwards a request or notification of the server if the channel to the client has room.
    /// Otherwise refuses the request or drops the notification, because waiting would delay the
    /// responses that follow. `list_changed` notifications are added to `pending` and sent later.
    fn forward_server_message(
        &self,
        text: &str,
        method: &str,
        id: Option<Id>,
        pending: &mut PendingNotifications,
    ) {
        let has_receiver = !self.muted.load(Ordering::Relaxed) && !self.server_messages.is_closed();
        if has_receiver && id.is_none() && pending.add_list_changed(method) {
            return;
        }
        let message = Json::parse(text).ok().filter(|_| has_receiver);
        let is_sent = message.is_some_and(|message| self.server_messages.try_send(message).is_ok());
        if let Some(id) = id.filter(|_| !is_sent) {
            let why = "the client does not read requests now; try again later, or continue without";
            let error = ErrorObject::new(ErrorObject::INTERNAL, why);
            let refusal = jsonrpc::failure(Some(&id), &error);
            self.queue.send_control(refusal.as_str());
        }
    }
}
