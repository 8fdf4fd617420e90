//! The control protocol: one connection to a CLI over its stdin and stdout.
//!
//! Four tasks serve a connection: the reader, the writer, the shutdown task and the task that
//! forwards notifications of in-process servers. In addition, a task runs for each request of the
//! CLI.
//!
//! Invariants: the reader never waits for the user. Requests of the CLI are therefore answered
//! while requests of this program are in flight and while messages are unread. Each request of this
//! program ends with a response or an error. Dropping a [`Control`] kills the CLI.

mod close_reason;
mod frame;
mod incoming;
mod line_reader;
mod message_queue;
mod pending;
mod reader;
mod router;
mod shutdown;
mod stray_output;
#[cfg(test)]
mod tests;
mod turn_end;
mod writer;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use switchboard::mcp::Json;
use switchboard::process::RunningProgram;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::close_reason::CloseReason;
use self::frame::Response;
use self::incoming::IncomingRequests;
use self::message_queue::MessageQueue;
use self::pending::{PendingRequest, PendingRequests};
use self::reader::Reader;
pub(crate) use self::router::RequestRouter;
use self::shutdown::Shutdown;
use self::stray_output::StrayOutput;
use self::writer::Writer;
use crate::error::{Error, OutputTail};
use crate::message::{Message, UnknownMessage};
use crate::options::CommandLine;
use crate::process::{SecretMask, StderrTail};
use crate::servers::InProcessServers;

/// Names the method of `Options` that sets [`ControlSettings::request_timeout`], for error
/// messages.
const REQUEST_TIMEOUT: &str = "request_timeout";

/// The streams of a CLI process, and everything that must live as long as the process.
pub(crate) struct CliStreams {
    pub(crate) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) writer: Box<dyn AsyncWrite + Send + Unpin>,
    pub(crate) stderr: Option<StderrTail>,
    /// Masks the secrets of the CLI's environment in error messages.
    pub(crate) secrets: SecretMask,
    pub(crate) child: Option<RunningProgram>,
    /// Keeps the temporary files whose paths are in the arguments, because the CLI may read them at
    /// any time.
    pub(crate) files: Option<CommandLine>,
}

/// Timeouts and limits of a connection.
#[derive(Clone, Debug)]
pub(crate) struct ControlSettings {
    /// How long the CLI may take to respond to a request, unless the request has its own timeout.
    pub(crate) request_timeout: Duration,
    /// Maximum duration of a single write to the input of the CLI.
    pub(crate) write_timeout: Duration,
    /// Maximum length of a line of the CLI. A longer line ends the connection with an error.
    pub(crate) max_line_bytes: usize,
    /// Maximum total size of unread messages, in bytes. Exceeding it ends the connection with an
    /// error.
    pub(crate) max_queued_bytes: usize,
    /// Whether to close the input of the CLI when its first turn is over.
    pub(crate) close_after_turn: bool,
}

/// A connection to a CLI. Dropping it kills the CLI.
pub(crate) struct Control {
    shared: Arc<Shared>,
}

struct Shared {
    settings: ControlSettings,
    router: RequestRouter,
    /// Queue of lines for the writer task.
    writer: mpsc::Sender<Vec<u8>>,
    pending: PendingRequests,
    incoming: IncomingRequests,
    messages: MessageQueue,
    stray_output: StrayOutput,
    secrets: SecretMask,
    stderr: Option<StderrTail>,
    /// Keeps the temporary files whose paths are in the CLI's arguments. They are deleted when the
    /// last reference to this struct is dropped.
    _files: Option<CommandLine>,
    /// The CLI process. The shutdown task takes it out to end the process. Dropping the [`Control`]
    /// takes it out to kill the process.
    child: Mutex<Option<RunningProgram>>,
    tasks: TaskTracker,
    /// Cancelled when the writer must close the input of the CLI.
    closing: CancellationToken,
    /// Set by [`Control::close`]. The exit of the CLI is then not an error, whatever its exit code.
    closed_by_us: AtomicBool,
    /// Cancelled after the response to `initialize`. Notifications of in-process servers wait for
    /// this, because the CLI ignores notifications that arrive earlier.
    ready: CancellationToken,
    /// Cancelled to stop all tasks immediately.
    stop: CancellationToken,
    /// Cancelled when the connection has ended and its [`CloseReason`] is published.
    ended: CancellationToken,
}

impl Control {
    /// Spawns the tasks of a connection. `notifications` yields each notification of an in-process
    /// server together with the server's name.
    pub(crate) fn spawn(
        streams: CliStreams,
        router: RequestRouter,
        notifications: mpsc::Receiver<(String, Json)>,
        settings: ControlSettings,
    ) -> Self {
        let (writer, lines) = mpsc::channel(writer::QUEUE_LINES);
        let shared = Arc::new(Shared {
            messages: MessageQueue::new(settings.max_queued_bytes),
            settings,
            router,
            writer,
            pending: PendingRequests::new(),
            incoming: IncomingRequests::default(),
            stray_output: StrayOutput::default(),
            secrets: streams.secrets,
            stderr: streams.stderr,
            _files: streams.files,
            child: Mutex::new(streams.child),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            closed_by_us: AtomicBool::new(false),
            ready: CancellationToken::new(),
            stop: CancellationToken::new(),
            ended: CancellationToken::new(),
        });
        let writer = Writer {
            stream: streams.writer,
            lines,
            closing: shared.closing.clone(),
            write_timeout: shared.settings.write_timeout,
        };
        let reader = Reader::new(streams.reader, Arc::clone(&shared));
        let shutdown = Shutdown {
            shared: Arc::clone(&shared),
            reader: shared.tasks.spawn(reader.run()),
            writer: shared.tasks.spawn(writer.run()),
        };
        shared.tasks.spawn(shutdown.run());
        let forwarder = forward_notifications(Arc::clone(&shared), notifications);
        shared.tasks.spawn(forwarder);
        Self { shared }
    }

    /// Sends a request and waits for the response, at most `request_timeout`. Returns the payload
    /// of the response, if it has one.
    pub(crate) async fn request(
        &self,
        subtype: &str,
        fields: Map<String, Value>,
    ) -> Result<Option<Json>, Error> {
        let limit = self.shared.settings.request_timeout;
        self.request_within(limit, REQUEST_TIMEOUT, subtype, fields)
            .await
    }

    /// Like [`Control::request`], but waits at most `limit`. `option` names the method of `Options`
    /// that sets this limit, for error messages.
    pub(crate) async fn request_within(
        &self,
        limit: Duration,
        option: &'static str,
        subtype: &str,
        fields: Map<String, Value>,
    ) -> Result<Option<Json>, Error> {
        let mut body = fields;
        body.insert("subtype".to_owned(), subtype.into());
        let pending = self.shared.pending.register();
        let pending = pending.map_err(|reason| reason.to_error(subtype))?;
        let mut request = OutgoingRequest {
            pending,
            shared: &self.shared,
            is_sent: false,
        };
        let response = request.send(Value::Object(body));
        match timeout(limit, response).await {
            Err(_) => Err(Error::TimedOut {
                request: subtype.to_owned(),
                after: limit,
                option,
                output: self.shared.output_tail(),
            }),
            Ok(Err(reason)) => Err(reason.to_error(subtype)),
            Ok(Ok(Response::Error { message, code })) => Err(Error::Refused {
                request: subtype.to_owned(),
                message,
                code,
            }),
            Ok(Ok(Response::Success(payload))) => payload
                .map(|payload| Json::parse(&payload))
                .transpose()
                .map_err(|error| Error::UnexpectedResponse {
                    request: subtype.to_owned(),
                    cause: error.to_string(),
                }),
        }
    }

    /// Sends a prompt to the model.
    pub(crate) async fn send_prompt(&self, content: &Value, session: &str) -> Result<(), Error> {
        const OPERATION: &str = "sending a prompt";
        let limit = self.shared.settings.request_timeout;
        let sent = self.shared.writer.send(frame::prompt(session, content));
        match timeout(limit, sent).await {
            Ok(Ok(())) => Ok(()),
            Err(_) => Err(Error::TimedOut {
                request: "prompt".to_owned(),
                after: limit,
                option: REQUEST_TIMEOUT,
                output: self.shared.output_tail(),
            }),
            // The writer has stopped. Wait for the end of the shutdown, which determines the
            // reason.
            Ok(Err(_)) => {
                self.shared.ended.cancelled().await;
                Err(self.shared.pending.close_reason().to_error(OPERATION))
            }
        }
    }

    /// Returns the next message and waits for it if none is queued. If the connection was lost,
    /// returns the error once after the last message. Then returns `None`.
    pub(crate) async fn next_message(&self) -> Option<Result<Message, Error>> {
        let next = self.shared.messages.next().await?;
        Some(next.map(|text| parse_message(&text)))
    }

    /// Starts to forward notifications of in-process servers. Call it after the CLI has responded
    /// to `initialize`.
    pub(crate) fn mark_ready(&self) {
        self.shared.ready.cancel();
    }

    /// The in-process servers that the CLI can call.
    pub(crate) fn servers(&self) -> &InProcessServers {
        &self.shared.router.servers
    }

    /// Closes the input of the CLI and waits until the CLI and all its descendants have exited.
    /// Kills them if they do not exit in time.
    pub(crate) async fn close(&self) {
        self.shared.closed_by_us.store(true, Ordering::Relaxed);
        self.shared.closing.cancel();
        self.shared.ended.cancelled().await;
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        drop(self.shared.take_child());
        self.shared.stop.cancel();
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control")
            .field("ended", &self.shared.ended.is_cancelled())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn take_child(&self) -> Option<RunningProgram> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        child.take()
    }

    fn is_closed_by_us(&self) -> bool {
        self.closed_by_us.load(Ordering::Relaxed)
    }

    fn output_tail(&self) -> OutputTail {
        let stderr = self.stderr.as_ref().map(StderrTail::last_lines);
        OutputTail {
            stderr: stderr.unwrap_or_default(),
            stray_stdout: self.stray_output.last_lines(),
        }
    }
}

/// A request of this program. If it is dropped after it was sent and before the response has
/// arrived, it sends a cancellation to the CLI, unless the queue of the writer is full.
struct OutgoingRequest<'a> {
    pending: PendingRequest,
    shared: &'a Shared,
    is_sent: bool,
}

impl OutgoingRequest<'_> {
    async fn send(&mut self, body: Value) -> Result<Response, CloseReason> {
        let line = frame::request(self.pending.id(), &body);
        // If the writer has stopped, sending fails. The shutdown task then completes the pending
        // request with the reason.
        self.is_sent = self.shared.writer.send(line).await.is_ok();
        self.pending.response().await
    }
}

impl Drop for OutgoingRequest<'_> {
    fn drop(&mut self) {
        if self.is_sent && self.pending.is_open() {
            let line = frame::cancel(self.pending.id());
            let _ = self.shared.writer.try_send(line);
        }
    }
}

/// Parses a message. If it is invalid, returns [`Message::Unknown`] with an empty type. The reader
/// has already checked that the line is a JSON object.
fn parse_message(line: &str) -> Message {
    Message::parse(line).unwrap_or_else(|_| {
        let raw = Json::parse(line).unwrap_or_else(|_| Json::from(&Value::Null));
        let kind = String::new();
        Message::Unknown(UnknownMessage { kind, raw })
    })
}

/// Forwards notifications of in-process servers to the CLI and ignores the CLI's responses. Waits
/// until `ready` is cancelled, because the CLI drops notifications that arrive before that.
async fn forward_notifications(
    shared: Arc<Shared>,
    mut notifications: mpsc::Receiver<(String, Json)>,
) {
    let ready = shared.ready.cancelled();
    if shared.stop.run_until_cancelled(ready).await.is_none() {
        return;
    }
    loop {
        let next = shared.stop.run_until_cancelled(notifications.recv()).await;
        let Some(Some((server, message))) = next else {
            return;
        };
        let id = shared.pending.next_id();
        let line = frame::server_message(&id, &server, message.as_str());
        if shared.writer.send(line).await.is_err() {
            return;
        }
    }
}
