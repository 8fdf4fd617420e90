//! A session over a byte stream: newline-delimited JSON-RPC, many requests in flight.
//!
//! Each session has three tasks: the reader (`reader.rs`), the writer and the deadline timer. A
//! caller waits for the response to its request, and decodes the response in its own task.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::AsyncRead;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::deadline::Deadline;
use super::peer::{JsonRpcSession, Peer};
use super::query::Query;
use super::request::RequestOptions;
use super::request_table::{Reply, RequestKind, RequestTable};
use super::subscriptions::ListenEnd;
use super::{Delivery, RequestError, SessionContext, SessionEnd, StrayOutput, ToolRequest};
use crate::deadlines::Deadlines;
use crate::wire_tap::Direction;
use crate::writer::{EnqueueError, WriteQueue};
use switchboard_wire::ByteStreams;
use switchboard_wire::encode;
use switchboard_wire::encode::{InputResponses, ListChangeFilter, ResourceFilter};
use switchboard_wire::jsonrpc::RawResult;
use switchboard_wire::mcp::{Era, ProtocolVersion, ServerHello};
use switchboard_wire::sync::{CachePadded, lock};

/// How long responses are still read after a write to the server failed.
const READ_AFTER_WRITE_ERROR: Duration = Duration::from_millis(500);

pub(crate) type Reader = Box<dyn AsyncRead + Send + Unpin>;

/// A session over a byte stream.
///
/// Threads of different callers write to `writer` and `requests` at the same time. The padding
/// keeps these writes from evicting the other fields from the caches of other cores.
#[repr(align(64))]
pub struct LineSession {
    pub(super) peer: Peer,
    pub(super) writer: CachePadded<WriteQueue>,
    pub(super) requests: CachePadded<Mutex<RequestTable>>,
    /// Wakes the deadline timer: a request was added that expires before the instant for which the
    /// timer waits.
    pub(super) deadline_moved: Notify,
    /// An excerpt of the last line from the server that was neither a message nor empty. `None` if
    /// there was no such line.
    pub(super) stray_output: Mutex<Option<String>>,
    /// Whether the last bytes that were read are the beginning of a line.
    pub(super) has_partial_line: AtomicBool,
    /// Cancelled when a message was lost because other output precedes it on the same line.
    pub(super) message_lost: CancellationToken,
    /// Cancelled when the connection is torn down. For a child process, that is after the process
    /// exited, or when its `LiveSession` is dropped.
    pub(super) server_gone: CancellationToken,
}

impl std::fmt::Debug for LineSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LineSession")
            .field("server", &self.peer.context.server)
            .finish_non_exhaustive()
    }
}

impl LineSession {
    /// Spawns the tasks of the session. The tasks end when the streams end, at the latest when
    /// `server_gone` is cancelled.
    pub(crate) fn spawn(
        streams: ByteStreams,
        context: SessionContext,
        tasks: &TaskTracker,
        server_gone: CancellationToken,
    ) -> Arc<Self> {
        let session = Arc::new(Self {
            writer: CachePadded(WriteQueue::new(
                streams.writer,
                context.limits.write_queue_bytes,
                context.budget.clone(),
            )),
            requests: CachePadded::default(),
            deadline_moved: Notify::new(),
            stray_output: Mutex::default(),
            has_partial_line: AtomicBool::new(false),
            message_lost: CancellationToken::new(),
            peer: Peer::new(context, tasks, server_gone.child_token()),
            server_gone,
        });
        tasks.spawn(Arc::clone(&session).read_all(streams.reader));
        tasks.spawn(Arc::clone(&session).write_all());
        tasks.spawn(Arc::clone(&session).run_deadlines());
        session
    }

    /// Stores the result of the handshake. Later requests use its protocol version.
    pub(crate) fn set_handshake(&self, handshake: ServerHello) {
        if handshake.version.era() == Era::Legacy {
            self.peer.list_changes.set_all_receivable();
        }
        self.peer.set_handshake(handshake);
    }

    pub(super) async fn query(
        &self,
        query: &Query<'_>,
        input_responses: Option<&InputResponses>,
        deadline: Deadline,
    ) -> Result<RawResult, RequestError> {
        let options = RequestOptions {
            kind: RequestKind::of(query.method),
            ..RequestOptions::ordinary(deadline)
        };
        self.request(options, |id| {
            self.peer.encode_query(id, query, input_responses)
        })
        .await
    }

    pub(super) fn call_tool(
        &self,
        call: &ToolRequest<'_>,
    ) -> impl Future<Output = Result<RawResult, RequestError>> {
        let options = RequestOptions {
            progress: call.progress.clone(),
            ..RequestOptions::ordinary(call.deadline)
        };
        self.request(options, move |id| self.peer.encode_call(id, call))
    }

    /// Sends `server/discover`, which asks the server for the protocol versions that it supports.
    pub(crate) async fn discover(
        &self,
        version: ProtocolVersion,
        deadline: Deadline,
    ) -> Result<RawResult, RequestError> {
        let params = encode::MetaParams {
            meta: self.peer.request_meta(Some(version), None, None),
        };
        let options = RequestOptions {
            kind: RequestKind::Handshake,
            ..RequestOptions::ordinary(deadline)
        };
        self.request(options, |id| {
            encode::request(id, "server/discover", &params)
        })
        .await
    }

    /// Sends `initialize` with the capabilities of this client.
    pub(crate) async fn initialize(
        &self,
        version: ProtocolVersion,
        deadline: Deadline,
    ) -> Result<RawResult, RequestError> {
        let capabilities = self.peer.context.client_capabilities();
        let options = RequestOptions {
            kind: RequestKind::Handshake,
            ..RequestOptions::ordinary(deadline)
        };
        self.request(options, |id| {
            let params = encode::initialize(version, capabilities, &self.peer.context.client);
            encode::request(id, "initialize", params)
        })
        .await
    }

    /// Subscribes to list changes of a modern server with one long-lived `subscriptions/listen`.
    /// Legacy servers send these notifications without a subscription.
    pub(crate) async fn listen(self: Arc<Self>, interests: ListChangeFilter) {
        let options = RequestOptions {
            kind: RequestKind::LongLived,
            ..RequestOptions::ordinary(Deadline::after(Deadlines::MAX))
        };
        let params = encode::ListenParams {
            notifications: interests,
            meta: self.peer.meta(None, None),
        };
        let response = self.request(options, |id| {
            self.peer.list_changes.set_listen_request(id);
            encode::request(id, "subscriptions/listen", &params)
        });
        let ended = response.await;
        self.peer.list_changes.set_none_receivable();
        if let Err(error) = ended {
            tracing::debug!(server = %self.peer.context.server, %error, "no list change notifications");
        }
    }

    /// Subscribes to updates of these resources of a modern server and waits until the subscription
    /// ends. Calls `sent` with the id of the `subscriptions/listen` request before sending it.
    pub(super) async fn listen_for_updates(&self, uris: &[&str], sent: impl Fn(u64)) -> ListenEnd {
        let options = RequestOptions {
            kind: RequestKind::LongLived,
            ..RequestOptions::ordinary(Deadline::after(Deadlines::MAX))
        };
        let params = encode::ListenParams {
            notifications: ResourceFilter {
                resource_subscriptions: uris,
            },
            meta: self.peer.meta(None, None),
        };
        let response = self.request(options, |id| {
            sent(id);
            encode::request(id, "subscriptions/listen", &params)
        });
        match response.await {
            Ok(_) => ListenEnd::Ended("the server ended the subscription".to_owned()),
            Err(RequestError::Lost { .. }) => ListenEnd::Broken,
            Err(error) => ListenEnd::Ended(error.to_string()),
        }
    }

    /// Sends the `initialized` notification.
    pub(crate) fn send_initialized(&self) {
        let line = encode::notification("notifications/initialized", None::<()>);
        // Ignored: if the server is gone, the next request reports the error.
        let _ = self.send(None, line);
    }

    pub(super) fn send(&self, id: Option<u64>, line: Vec<u8>) -> Result<(), RequestError> {
        let in_flight = lock(&self.requests).in_flight();
        self.enqueue(id, line, in_flight)
    }

    /// Hands a line to the write queue. `id` is the id of the request in the line; `None` for
    /// notifications and responses. `in_flight` includes the request in the line.
    pub(super) fn enqueue(
        &self,
        id: Option<u64>,
        line: Vec<u8>,
        in_flight: usize,
    ) -> Result<(), RequestError> {
        if self.peer.context.tap.is_some() {
            // If the queue is full, the caller may enqueue this line again later. Do not report the
            // line to the tap before that.
            if !self.writer.has_space(line.len()) {
                let limit = self.writer.limit();
                return Err(RequestError::WriteQueueFull { limit });
            }
            self.peer.tap(Direction::Sent, &line);
        }
        self.writer
            .enqueue(id, line, in_flight)
            .map_err(|error| match error {
                EnqueueError::Full { limit } => RequestError::WriteQueueFull { limit },
                EnqueueError::MemoryBudgetExceeded { limit } => {
                    RequestError::MemoryBudgetExceeded { limit }
                }
                EnqueueError::Closed(error) => RequestError::Lost {
                    delivery: Delivery::NotSent,
                    end: SessionEnd::Io(error),
                },
            })
    }

    async fn write_all(self: Arc<Self>) {
        let failed = tokio::select! {
            biased;
            () = self.peer.stop.cancelled() => None,
            failed = self.writer.run() => failed,
        };
        self.writer.close();
        let Some(failed) = failed else { return };
        let end = SessionEnd::Io(failed.error);
        for id in failed.not_sent {
            let request = lock(&self.requests).take(id);
            if let Some(request) = request {
                let _ = request.reply.send(Reply::Lost {
                    delivery: Delivery::NotSent,
                    end: end.clone(),
                });
            }
        }
        // The server may still answer the requests that it received.
        let _ = tokio::time::timeout(READ_AFTER_WRITE_ERROR, self.ended()).await;
        self.end(end);
    }

    /// Runs the deadline timer, which fails requests whose deadline passed. One timer serves the
    /// whole session, because nearly every request is answered long before its deadline. The timer
    /// fires at the earliest deadline in the table.
    async fn run_deadlines(self: Arc<Self>) {
        loop {
            let next_check = self.fail_overdue();
            let timer = async {
                match next_check {
                    Some(next) => tokio::time::sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.peer.stop.cancelled() => return,
                () = self.deadline_moved.notified() => {}
                () = timer => {}
            }
        }
    }

    /// Fails the requests whose deadline passed, and returns when to check again.
    fn fail_overdue(&self) -> Option<Instant> {
        let (overdue, next_check) =
            lock(&self.requests).check_deadlines(&self.peer.clock, Instant::now());
        for (id, expired) in overdue {
            let (request, delivery) = self.abandon(id, "timed out");
            if let Some(request) = request {
                let stray = match lock(&self.requests).stray_since(&request) {
                    StrayOutput::None if self.has_partial_line.load(Ordering::Relaxed) => {
                        StrayOutput::PartialLine
                    }
                    stray => stray,
                };
                let _ = request.reply.send(Reply::TimedOut {
                    expired,
                    delivery,
                    stray,
                });
            }
        }
        next_check
    }

    /// An excerpt of the last line from the server that was neither a message nor empty.
    pub(crate) fn stray_output(&self) -> Option<String> {
        lock(&self.stray_output).clone()
    }

    /// Waits until a message is lost because other output precedes it on the same line.
    pub(crate) async fn message_lost(&self) {
        self.message_lost.cancelled().await;
    }

    /// Whether a message was lost because other output precedes it on the same line.
    pub(crate) fn has_lost_message(&self) -> bool {
        self.message_lost.is_cancelled()
    }

    pub(crate) async fn ended(&self) -> SessionEnd {
        self.peer.ended().await
    }
}

impl JsonRpcSession for LineSession {
    fn peer(&self) -> &Peer {
        &self.peer
    }

    fn send_notification(self: &Arc<Self>, line: Vec<u8>) {
        // Fails after the end of the session, or if the queue is full because the server does not
        // read its input.
        if self.send(None, line).is_err() {
            tracing::debug!(server = %self.peer.context.server, "notification not sent");
        }
    }
    /// Ends the session. The delivery of a request in flight is *not sent* if it is still in the
    /// write queue, else *unknown*.
    fn end(&self, end: SessionEnd) {
        let in_flight = lock(&self.requests).end(end.clone());
        let not_sent = self.writer.cancel_all_unsent();
        for (id, request) in in_flight {
            let delivery = if not_sent.contains(&id) {
                Delivery::NotSent
            } else {
                Delivery::Unknown
            };
            let _ = request.reply.send(Reply::Lost {
                delivery,
                end: end.clone(),
            });
        }
        self.writer.close();
        self.peer.end(end);
    }
}
