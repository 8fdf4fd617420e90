//! The control protocol: one connection to a CLI, over whatever streams.
//!
//! Three tasks: one reads, one writes, one sees it to its end; and one for each thing that the CLI
//! asks. Invariant: reading waits for nobody, so that what the CLI asks is answered while our own
//! requests are under way and while nobody reads messages; every request of ours ends; when a
//! [`Control`] is gone, so is the CLI.

mod desk;
mod ending;
mod frame;
mod inbox;
mod lines;
mod noise;
mod outcome;
mod pending;
mod reading;
mod serving;
#[cfg(test)]
mod tests;
mod turns;
mod writing;

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

pub(crate) use self::desk::Desk;
use self::ending::Ending;
use self::frame::Answer;
use self::inbox::Inbox;
use self::noise::Noise;
use self::pending::{Pending, Ticket};
use self::reading::Reader;
use self::serving::Serving;
use self::writing::Writer;
use crate::error::{Error, LastWords};
use crate::message::{Message, UnknownMessage};
use crate::options::CommandLine;
use crate::program::{Secrets, Stderr};
use crate::servers::SdkServers;

/// The option that says how long a request may take.
const REQUEST_TIMEOUT: &str = "request_timeout";

/// The streams of a CLI, and what there is besides.
pub(crate) struct Link {
    pub(crate) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) writer: Box<dyn AsyncWrite + Send + Unpin>,
    pub(crate) stderr: Option<Stderr>,
    /// What no error message may repeat.
    pub(crate) secrets: Secrets,
    pub(crate) child: Option<RunningProgram>,
    /// Files that the CLI may read as long as it runs.
    pub(crate) files: Option<CommandLine>,
}

/// What holds for a connection.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// How long a request of ours may take.
    pub(crate) time_for_requests: Duration,
    /// How long the CLI may take to read anything at all.
    pub(crate) patience: Duration,
    /// How long a line of the CLI's may be, in bytes.
    pub(crate) longest_line: usize,
    /// How many bytes of messages wait for the user.
    pub(crate) most_waiting: usize,
    /// The input of the CLI ends with its turn.
    pub(crate) ends_with_turn: bool,
}

/// A connection to a CLI. Dropped, the CLI is killed.
pub(crate) struct Control {
    shared: Arc<Shared>,
}

struct Shared {
    settings: Settings,
    desk: Desk,
    outbox: mpsc::Sender<Vec<u8>>,
    pending: Pending,
    serving: Serving,
    inbox: Inbox,
    noise: Noise,
    secrets: Secrets,
    stderr: Option<Stderr>,
    /// Removed when nothing of this is left.
    _files: Option<CommandLine>,
    /// Until its end is near.
    child: Mutex<Option<RunningProgram>>,
    tasks: TaskTracker,
    /// The input of the CLI is to be closed.
    closing: CancellationToken,
    /// This program has closed the connection, and wants to hear no more.
    is_left: AtomicBool,
    /// The CLI has answered `initialize`, and hears what servers of ours say.
    ready: CancellationToken,
    /// Everything is to end at once.
    stop: CancellationToken,
    /// Everything has ended.
    over: CancellationToken,
}

impl Control {
    /// Starts to read and to write. `notices` is what servers of ours say by themselves.
    pub(crate) fn spawn(
        link: Link,
        desk: Desk,
        notices: mpsc::Receiver<(String, Json)>,
        settings: Settings,
    ) -> Self {
        let (outbox, lines) = mpsc::channel(writing::WAITING);
        let shared = Arc::new(Shared {
            inbox: Inbox::new(settings.most_waiting),
            settings,
            desk,
            outbox,
            pending: Pending::new(),
            serving: Serving::default(),
            noise: Noise::default(),
            secrets: link.secrets,
            stderr: link.stderr,
            _files: link.files,
            child: Mutex::new(link.child),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            is_left: AtomicBool::new(false),
            ready: CancellationToken::new(),
            stop: CancellationToken::new(),
            over: CancellationToken::new(),
        });
        let writer = Writer {
            stream: link.writer,
            lines,
            closing: shared.closing.clone(),
            patience: shared.settings.patience,
        };
        let reader = Reader::new(link.reader, Arc::clone(&shared));
        let ending = Ending {
            shared: Arc::clone(&shared),
            reading: shared.tasks.spawn(reader.run()),
            writing: shared.tasks.spawn(writer.run()),
        };
        shared.tasks.spawn(ending.run());
        let telling = tell(Arc::clone(&shared), notices);
        shared.tasks.spawn(telling);
        Self { shared }
    }

    /// Asks the CLI something: the payload of its answer, if there is one.
    pub(crate) async fn request(
        &self,
        subtype: &str,
        fields: Map<String, Value>,
    ) -> Result<Option<Json>, Error> {
        let limit = self.shared.settings.time_for_requests;
        self.request_within(limit, REQUEST_TIMEOUT, subtype, fields)
            .await
    }

    /// The same, with a time of its own and the option that it is from.
    pub(crate) async fn request_within(
        &self,
        limit: Duration,
        option: &'static str,
        subtype: &str,
        fields: Map<String, Value>,
    ) -> Result<Option<Json>, Error> {
        let mut request = fields;
        request.insert("subtype".to_owned(), subtype.into());
        let entered = self.shared.pending.enter();
        let ticket = entered.map_err(|outcome| outcome.during(subtype))?;
        let mut asking = Asking {
            ticket,
            shared: &self.shared,
            is_sent: false,
        };
        let asked = asking.ask(Value::Object(request));
        match timeout(limit, asked).await {
            Err(_) => Err(Error::TimedOut {
                request: subtype.to_owned(),
                after: limit,
                option,
                words: self.shared.last_words(),
            }),
            Ok(Err(outcome)) => Err(outcome.during(subtype)),
            Ok(Ok(Answer::Refusal { message, code })) => Err(Error::Refused {
                request: subtype.to_owned(),
                message,
                code,
            }),
            Ok(Ok(Answer::Success(payload))) => payload
                .map(|payload| Json::parse(&payload))
                .transpose()
                .map_err(|error| Error::Unreadable {
                    request: subtype.to_owned(),
                    why: error.to_string(),
                }),
        }
    }

    /// Says something to the model.
    pub(crate) async fn say(&self, content: &Value, session: &str) -> Result<(), Error> {
        const DOING: &str = "a prompt was sent";
        let limit = self.shared.settings.time_for_requests;
        let sent = self.shared.outbox.send(frame::user(session, content));
        match timeout(limit, sent).await {
            Ok(Ok(())) => Ok(()),
            Err(_) => Err(Error::TimedOut {
                request: "a prompt".to_owned(),
                after: limit,
                option: REQUEST_TIMEOUT,
                words: self.shared.last_words(),
            }),
            // The input is closed: why that is, is known when all is over.
            Ok(Err(_)) => {
                self.shared.over.cancelled().await;
                Err(self.shared.pending.outcome().during(DOING))
            }
        }
    }

    /// The next message; an error when the CLI was lost, once; `None` at the end.
    pub(crate) async fn next(&self) -> Option<Result<Message, Error>> {
        let next = self.shared.inbox.next().await?;
        Some(next.map(|text| read(&text)))
    }

    /// The CLI has answered `initialize`: what servers of ours say by themselves is told from now on.
    pub(crate) fn is_ready(&self) {
        self.shared.ready.cancel();
    }

    /// The servers of this program that the CLI has.
    pub(crate) fn servers(&self) -> &SdkServers {
        &self.shared.desk.servers
    }

    /// Closes the CLI's input and sees it off. Nothing of it is left afterwards.
    pub(crate) async fn close(&self) {
        self.shared.is_left.store(true, Ordering::Relaxed);
        self.shared.closing.cancel();
        self.shared.over.cancelled().await;
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
            .field("is_over", &self.shared.over.is_cancelled())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn take_child(&self) -> Option<RunningProgram> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        child.take()
    }

    fn is_left(&self) -> bool {
        self.is_left.load(Ordering::Relaxed)
    }

    fn last_words(&self) -> LastWords {
        let stderr = self.stderr.as_ref().map(Stderr::last_lines);
        LastWords {
            stderr: stderr.unwrap_or_default(),
            noise: self.noise.last_lines(),
        }
    }
}

/// A request under way. Dropped before it is answered, the CLI is told, if there is room for that.
struct Asking<'a> {
    ticket: Ticket,
    shared: &'a Shared,
    is_sent: bool,
}

impl Asking<'_> {
    async fn ask(&mut self, request: Value) -> Result<Answer, outcome::Outcome> {
        let line = frame::request(self.ticket.id(), &request);
        // Where nobody takes it the connection is about to be over, and the ticket will say why.
        self.is_sent = self.shared.outbox.send(line).await.is_ok();
        self.ticket.answer().await
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if self.is_sent && self.ticket.is_open() {
            let _ = self.shared.outbox.try_send(frame::cancel(self.ticket.id()));
        }
    }
}

/// A line of the CLI's as a message. It is known to be JSON; what its parts are like is not.
fn read(line: &str) -> Message {
    Message::parse(line).unwrap_or_else(|_| {
        let raw = Json::parse(line).unwrap_or_else(|_| Json::from(&Value::Null));
        let kind = String::new();
        Message::Unknown(UnknownMessage { kind, raw })
    })
}

/// Hands on what servers of ours say by themselves. The CLI's acknowledgements are of no interest.
/// What is said before the CLI is ready waits: it would not be heard.
async fn tell(shared: Arc<Shared>, mut notices: mpsc::Receiver<(String, Json)>) {
    let ready = shared.ready.cancelled();
    if shared.stop.run_until_cancelled(ready).await.is_none() {
        return;
    }
    loop {
        let notice = shared.stop.run_until_cancelled(notices.recv()).await;
        let Some(Some((server, message))) = notice else {
            return;
        };
        let id = shared.pending.next_id();
        let line = frame::server_message(&id, &server, message.as_str());
        if shared.outbox.send(line).await.is_err() {
            return;
        }
    }
}
