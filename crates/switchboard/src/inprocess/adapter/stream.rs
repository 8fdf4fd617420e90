//! Messages to and from a server that speaks the protocol itself, over a stream of bytes.
//!
//! One connection for each `initialize`. Its requests are sent with the ids that they came with, and an
//! answer is found by its id. Invariant: a server that does not read, does not answer or is gone costs
//! those who asked it their time limit at most, and nobody else anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::flights::{Flights, Signal, Ticket};
use super::message::{self, Id, Written};
use super::notices::Owed;
use super::outbox::Outbox;
use super::too_late;
use crate::budget::Budget;
use crate::limits::Limits;
use crate::mcp::{ErrorObject, Json};
use crate::session::Streams;
use crate::transport::Connector;
use crate::wire::line::{LetGo, Line, Lines};

pub(super) struct Stream {
    dial: Arc<dyn Connector>,
    unasked: mpsc::Sender<Json>,
}

/// One connection. Dropping it ends it.
pub(super) struct Connection {
    outbox: Arc<Outbox>,
    /// What the server says by itself is not passed on any more: there is a newer connection.
    silenced: Arc<AtomicBool>,
    _task: JoinSet<()>,
}

impl Stream {
    pub(super) fn new(dial: Arc<dyn Connector>, unasked: mpsc::Sender<Json>) -> Self {
        Self { dial, unasked }
    }

    /// Opens a connection. Lines wait for it; that it fails is said to those who asked something.
    pub(super) fn open(&self, flights: &Arc<Flights>) -> Arc<Connection> {
        let (outbox, to_write) = Outbox::new();
        let silenced = Arc::new(AtomicBool::new(false));
        let pump = Pump {
            flights: Arc::clone(flights),
            unasked: self.unasked.clone(),
            silenced: Arc::clone(&silenced),
            outbox: Arc::clone(&outbox),
        };
        let dial = Arc::clone(&self.dial);
        let mut task = JoinSet::new();
        task.spawn(pump.run(dial, to_write));
        Arc::new(Connection {
            outbox,
            silenced,
            _task: task,
        })
    }
}

impl Connection {
    pub(super) fn silence(&self) {
        self.silenced.store(true, Ordering::Relaxed);
    }

    /// Sends a request, and waits for its answer.
    pub(super) fn ask(
        self: Arc<Self>,
        method: String,
        text: &str,
        ticket: Ticket,
        limit: Duration,
    ) -> impl Future<Output = Option<Json>> + Send + use<> {
        let end = Instant::now() + limit;
        let waiting = self.outbox.submit(text);
        let mut asked = Asked {
            // What was never begun cannot be cancelled, and the hello may not be.
            is_cancellable: waiting.is_none() && method != "initialize",
            connection: self,
            ticket,
            is_over: false,
        };
        async move {
            let signal = tokio::select! {
                biased;
                signal = &mut asked.ticket.signal => signal.ok(),
                was_sent = asked.connection.outbox.wait_for_room(waiting, end) => {
                    asked.is_cancellable = was_sent && method != "initialize";
                    None
                }
            };
            let signal = match signal {
                Some(signal) => Some(signal),
                None => tokio::select! {
                    biased;
                    signal = &mut asked.ticket.signal => signal.ok(),
                    () = sleep_until(end) => None,
                },
            };
            let failure = |error: &ErrorObject, id: &Id| Some(message::failure(Some(id), error));
            asked.is_over = signal.is_some();
            match signal {
                Some(Signal::Answered(answer)) => Some(answer),
                Some(Signal::Cancelled) => None,
                Some(Signal::Failed(error)) => failure(&error, &asked.ticket.id),
                None => failure(&too_late(&method, limit), &asked.ticket.id),
            }
        }
    }

    /// Sends what wants no answer.
    pub(super) fn tell(
        self: Arc<Self>,
        text: &str,
        limit: Duration,
    ) -> impl Future<Output = ()> + Send + use<> {
        let end = Instant::now() + limit;
        let waiting = self.outbox.submit(text);
        async move {
            self.outbox.wait_for_room(waiting, end).await;
        }
    }
}

/// A request that was sent. The server is told when nobody waits for it any more.
struct Asked {
    connection: Arc<Connection>,
    ticket: Ticket,
    is_cancellable: bool,
    is_over: bool,
}

impl Drop for Asked {
    fn drop(&mut self) {
        if !self.is_over && self.is_cancellable {
            let line = message::cancellation(&self.ticket.id, "nobody waits for it any more");
            self.connection.outbox.owe(line.as_str());
        }
    }
}

/// What carries the lines of one connection.
struct Pump {
    flights: Arc<Flights>,
    unasked: mpsc::Sender<Json>,
    silenced: Arc<AtomicBool>,
    outbox: Arc<Outbox>,
}

/// Ends what is under way, however the task of the connection ends.
struct End(Arc<Flights>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end(&ended("its task has stopped"));
    }
}

fn ended(why: &str) -> ErrorObject {
    ErrorObject::new(
        ErrorObject::INTERNAL,
        format!("the connection to the server has ended ({why}): initialize it again"),
    )
}

impl Pump {
    async fn run(self, dial: Arc<dyn Connector>, to_write: mpsc::Receiver<String>) {
        let _end = End(Arc::clone(&self.flights));
        let why = match dial.connect().await {
            Ok(streams) => self.carry(streams, to_write).await,
            Err(error) => format!("it could not be opened: {error}"),
        };
        self.flights.end(&ended(&why));
    }

    /// Carries lines both ways until either way ends, and says why it did.
    async fn carry(&self, streams: Streams, to_write: mpsc::Receiver<String>) -> String {
        let Streams { reader, writer } = streams;
        tokio::select! {
            why = self.read(reader) => why,
            why = self.outbox.write(writer, to_write) => why,
        }
    }

    async fn read(&self, mut reader: impl tokio::io::AsyncRead + Unpin) -> String {
        let limits = Limits::default();
        let mut lines = Lines::new(limits.message_bytes, &Budget::new(limits.memory_bytes));
        let mut owed = Owed::default();
        loop {
            tokio::select! {
                read = reader.read_buf(lines.room()) => match read {
                    Ok(0) => return "the server closed it".to_owned(),
                    Ok(_) => {}
                    Err(error) => return format!("reading failed: {error}"),
                },
                Ok(permit) = self.unasked.reserve(), if !owed.is_empty() => {
                    if let Some(message) = owed.pay() {
                        permit.send(message);
                    }
                }
            }
            loop {
                match lines.next_line() {
                    Ok(Some(line)) => self.receive(line, &mut owed),
                    Ok(None) => break,
                    Err(_) => return "the server wrote a line without end".to_owned(),
                }
            }
        }
    }

    fn receive(&self, line: Line, owed: &mut Owed) {
        match line {
            Line::Complete(line, _held) => match std::str::from_utf8(&line) {
                Ok(text) => self.take(text.trim(), owed),
                Err(_) => tracing::debug!("a line of a server in this process is not UTF-8"),
            },
            Line::Long(line, held) => self.receive(Line::Complete(line.join(), held), owed),
            Line::LetGo { id: Some(id), why } => {
                let why = match why {
                    LetGo::TooLong => "the answer is longer than a message may be: ask for less",
                    LetGo::NoRoom => "there was no room for the answer: ask for less at a time",
                };
                let error = ErrorObject::new(ErrorObject::INTERNAL, why);
                self.flights
                    .signal(&Id::Number(id.into()), Signal::Failed(error));
            }
            Line::LetGo { id: None, .. } => {
                tracing::debug!("a line of a server in this process is too long");
            }
        }
    }

    fn take(&self, text: &str, owed: &mut Owed) {
        let Ok(written) = serde_json::from_str::<Written<'_>>(text) else {
            if !text.is_empty() {
                tracing::debug!("a line of a server in this process is not a message");
            }
            return;
        };
        let id = written.id();
        match (&written.method, id) {
            (Some(method), id) => self.pass_on(text, method, id, owed),
            (None, Some(id)) => {
                if let Ok(answer) = Json::parse(text) {
                    self.flights.signal(&id, Signal::Answered(answer));
                }
            }
            (None, None) => {
                tracing::debug!("an answer of a server in this process names no request");
            }
        }
    }

    /// Passes on what the server says by itself, if there is room: answers do not wait for that.
    fn pass_on(&self, text: &str, method: &str, id: Option<Id>, owed: &mut Owed) {
        let has_ears = !self.silenced.load(Ordering::Relaxed) && !self.unasked.is_closed();
        if has_ears && id.is_none() && owed.note_change(method) {
            return;
        }
        let message = Json::parse(text).ok().filter(|_| has_ears);
        let is_passed_on = message.is_some_and(|message| self.unasked.try_send(message).is_ok());
        if let Some(id) = id.filter(|_| !is_passed_on) {
            let why = "nobody is there who could answer: try again later, or do without";
            let error = ErrorObject::new(ErrorObject::INTERNAL, why);
            let refusal = message::failure(Some(&id), &error);
            self.outbox.owe(refusal.as_str());
        }
    }
}
