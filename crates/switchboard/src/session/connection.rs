//! A session over a stream of bytes: JSON text, one message a line, many requests under way.
//!
//! Three tasks serve it: one reads, one writes, one keeps time; callers wait for their own answers and
//! decode them themselves. Invariant: the reading task never waits for anything but the server.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::inquiry::Inquiry;
use super::life::Patience;
use super::pace::Pace;
use super::peer::{self, Peer, Voice};
use super::request::Ask;
use super::subscriptions::ListenEnd;
use super::table::{Kind, Reply, Table};
use super::{Delivery, RequestError, SessionContext, SessionEnd, ToolRequest, aside};
use crate::budget::Held;
use crate::limits::{Deadlines, LARGE, Limits};
use crate::mcp::{Era, ProtocolVersion, ServerHello};
use crate::sync::lock;
use crate::telemetry::Direction;
use crate::transport::outbox::{Outbox, Refused, Writer};
use crate::wire::encode::{self, Interests, Round, Updates};
use crate::wire::line::{Line, Lines};
use crate::wire::scan::place_in;
use crate::wire::{self, Answer, AnswerId, Message, Outcome, Problem, Received};

/// How long answers may still come in after writing has failed.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How fast a long line is read, in bytes: so much at once, and so much a second from there on.
const LONG_AT_ONCE: u32 = 1024 * 1024;
const LONG_PER_SECOND: u32 = 32 * 1024 * 1024;
/// After so many bytes that nobody asked for, others get their turn.
const UNASKED_IN_A_ROW: usize = 4 * 1024;

pub(crate) type Reader = Box<dyn AsyncRead + Send + Unpin>;

/// The two directions of a connection.
pub(crate) struct Streams {
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
}

pub(crate) struct Connection {
    pub(super) peer: Peer,
    pub(super) outbox: Outbox,
    pub(super) table: Mutex<Table>,
    /// Tells the task that keeps time that it has to look earlier than it meant to.
    pub(super) sooner: Notify,
    pub(super) next_id: AtomicU64,
    /// How many answers named no request in a way that we name them.
    pub(super) misaddressed: AtomicU64,
    /// The last line that was no message: what a server printed where it should have spoken.
    noise: Mutex<Option<String>>,
    /// Cancelled when a message stood behind something else on its line, and so was lost.
    garbled: CancellationToken,
    /// Cancelled when the server itself is gone.
    gone: CancellationToken,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("server", &self.peer.context.server)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Starts to serve the streams. Tasks end when the streams do, or with `gone`.
    pub(crate) fn spawn(
        streams: Streams,
        context: SessionContext,
        tasks: &TaskTracker,
        gone: CancellationToken,
    ) -> Arc<Self> {
        let connection = Arc::new(Self {
            outbox: Outbox::new(
                streams.writer,
                context.limits.outbox_bytes,
                context.budget.clone(),
            ),
            table: Mutex::default(),
            sooner: Notify::new(),
            next_id: AtomicU64::new(1),
            misaddressed: AtomicU64::new(0),
            noise: Mutex::default(),
            garbled: CancellationToken::new(),
            peer: Peer::new(context, tasks, gone.child_token()),
            gone,
        });
        tasks.spawn(Arc::clone(&connection).read_all(streams.reader));
        tasks.spawn(Arc::clone(&connection).write_all());
        tasks.spawn(Arc::clone(&connection).keep_time());
        connection
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.peer.context.limits
    }

    pub(crate) fn hello(&self) -> Option<&ServerHello> {
        self.peer.hello()
    }

    /// Ends the handshake: from here on both sides speak this version.
    pub(crate) fn establish(&self, hello: ServerHello) {
        if hello.version.era() == Era::Legacy {
            self.peer.changes.hear_all();
        }
        self.peer.establish(hello);
    }

    pub(super) async fn inquire(
        &self,
        inquiry: &Inquiry<'_>,
        round: Option<&Round>,
        patience: Patience,
    ) -> Result<Answer, RequestError> {
        let ask = Ask {
            kind: Kind::of(inquiry.method),
            ..Ask::plain(patience)
        };
        self.request(ask, |id| self.peer.inquiry_line(id, inquiry, round))
            .await
    }

    pub(super) fn call_tool(
        &self,
        call: &ToolRequest<'_>,
    ) -> impl Future<Output = Result<Answer, RequestError>> {
        let ask = Ask {
            progress: call.progress.clone(),
            ..Ask::plain(call.patience)
        };
        self.request(ask, move |id| self.peer.call_line(id, call))
    }

    /// `server/discover`, asked before anything is known of the server.
    pub(crate) async fn discover(
        &self,
        version: ProtocolVersion,
        patience: Patience,
    ) -> Result<Answer, RequestError> {
        let params = encode::OnlyMeta {
            meta: self.peer.describe(Some(version), None, None),
        };
        let ask = Ask {
            kind: Kind::Handshake,
            ..Ask::plain(patience)
        };
        self.request(ask, |id| encode::request(id, "server/discover", &params))
            .await
    }

    /// `initialize`, with what the host offers to servers.
    pub(crate) async fn initialize(
        &self,
        version: ProtocolVersion,
        patience: Patience,
    ) -> Result<Answer, RequestError> {
        let offers = self.peer.context.offers();
        let ask = Ask {
            kind: Kind::Handshake,
            ..Ask::plain(patience)
        };
        self.request(ask, |id| {
            let params = encode::initialize(version, offers, &self.peer.context.client);
            encode::request(id, "initialize", params)
        })
        .await
    }

    /// Asks a modern server to say when something of it changes, for as long as the session lasts.
    /// Older ones say so unasked; the tools of a server that will not are listed anew with every
    /// session, and what else it has whenever somebody asks.
    pub(crate) async fn listen(self: Arc<Self>, interests: Interests) {
        let ask = Ask {
            kind: Kind::Standing,
            ..Ask::plain(Patience::within(Deadlines::LONGEST))
        };
        let params = encode::Listen {
            notifications: interests,
            meta: self.peer.meta(None, None),
        };
        let listening = self.request(ask, |id| {
            self.peer.changes.listen(id);
            encode::request(id, "subscriptions/listen", &params)
        });
        let ended = listening.await;
        self.peer.changes.hear_none();
        if let Err(error) = ended {
            tracing::debug!(server = %self.peer.context.server, %error, "not told of changes");
        }
    }

    /// Asks a modern server to say when these resources change, and comes back when it no longer does.
    /// `sent` is told the id of the request.
    pub(super) async fn hear(&self, uris: &[&str], sent: impl Fn(u64)) -> ListenEnd {
        let ask = Ask {
            kind: Kind::Standing,
            ..Ask::plain(Patience::within(Deadlines::LONGEST))
        };
        let params = encode::Listen {
            notifications: Updates {
                resource_subscriptions: uris,
            },
            meta: self.peer.meta(None, None),
        };
        let listening = self.request(ask, |id| {
            sent(id);
            encode::request(id, "subscriptions/listen", &params)
        });
        match listening.await {
            Ok(_) => ListenEnd::ForGood("the server no longer tells".to_owned()),
            Err(RequestError::Lost { .. }) => ListenEnd::Broken,
            Err(error) => ListenEnd::ForGood(error.to_string()),
        }
    }

    /// Tells the server that the handshake is over.
    pub(crate) fn send_initialized(&self) {
        let line = encode::notification("notifications/initialized", None::<()>);
        // A server that is gone by now is noticed by whoever asks it next.
        let _ = self.send(None, line);
    }

    /// Hands a line to the outbox.
    pub(super) fn send(&self, id: Option<u64>, line: Vec<u8>) -> Result<(), RequestError> {
        let alone = lock(&self.table).is_quiet();
        self.submit(id, line, alone)
    }

    /// As [`send`](Self::send); `alone` says that nothing else is under way.
    pub(super) fn submit(
        &self,
        id: Option<u64>,
        line: Vec<u8>,
        alone: bool,
    ) -> Result<(), RequestError> {
        if self.peer.context.tap.is_some() {
            // Whoever has to wait is seen when their turn has come.
            if !self.outbox.has_room(line.len()) {
                let limit = self.outbox.limit();
                return Err(RequestError::Congested { limit });
            }
            self.peer.tap(Direction::Sent, &line);
        }
        self.outbox
            .submit(id, line, alone)
            .map_err(|refused| match refused {
                Refused::Full { limit } => RequestError::Congested { limit },
                Refused::NoRoom { limit } => RequestError::NoRoom { limit },
                Refused::Broken(error) => RequestError::Lost {
                    delivery: Delivery::NotSent,
                    end: SessionEnd::Io(error),
                },
            })
    }

    async fn write_all(self: Arc<Self>) {
        let broken = tokio::select! {
            biased;
            () = self.peer.stop.cancelled() => None,
            broken = self.outbox.run() => broken,
        };
        self.outbox.close();
        let Some(broken) = broken else { return };
        let end = SessionEnd::Io(broken.error);
        for id in broken.not_sent {
            let pending = lock(&self.table).take(id);
            if let Some(pending) = pending {
                let delivery = Delivery::NotSent;
                let _ = pending.reply.send(Reply::Lost {
                    delivery,
                    end: end.clone(),
                });
            }
        }
        // What the server did get it may still answer.
        let _ = tokio::time::timeout(LAST_WORDS, self.ended()).await;
        self.close(end);
    }

    async fn read_all(self: Arc<Self>, mut reader: Reader) {
        let mut lines = Lines::new(
            self.peer.context.limits.message_bytes,
            &self.peer.context.budget,
        );
        let mut unasked_pace = Pace::unasked();
        let mut long_pace = Pace::new(LONG_PER_SECOND, LONG_AT_ONCE);
        let mut stopped = pin!(self.peer.stop.cancelled());
        let end = loop {
            // Reading comes first because it is cheaper to ask for. A server that always has
            // something to say is no exception: the runtime makes it wait now and then.
            let read = tokio::select! {
                biased;
                read = reader.read_buf(lines.room()) => read,
                () = &mut stopped => break SessionEnd::Closed,
            };
            let count = match read {
                Ok(0) => {
                    let rest = lines.remainder();
                    let half_line = rest.and_then(|rest| self.receive_last(rest));
                    break SessionEnd::Eof { half_line };
                }
                Ok(count) => count,
                Err(error) => break SessionEnd::Io(error.to_string()),
            };
            let unasked = match self.take_lines(&mut lines).await {
                Ok(unasked) => unasked,
                Err(end) => break end,
            };
            let long = if lines.is_long() { count } else { 0 };
            let pause = unasked_pace.take(unasked).max(long_pace.take(long));
            if let Some(pause) = pause {
                self.peer
                    .stop
                    .run_until_cancelled(tokio::time::sleep(pause))
                    .await;
            } else if lines.is_behind() {
                // Others have something to read too.
                tokio::task::yield_now().await;
            }
        };
        self.close(end);
        // A server that is still writing when it is told to leave shall not die of a broken pipe.
        let mut rest = lines.leftover();
        self.gone
            .run_until_cancelled(async {
                while matches!(reader.read_buf(&mut rest).await, Ok(1..)) {
                    rest.clear();
                }
            })
            .await;
    }

    /// Takes what a server said last without ending the line, if it is a whole message all the same.
    /// What it is otherwise is returned, to be shown.
    fn receive_last(self: &Arc<Self>, line: Bytes) -> Option<String> {
        if let Received::Message(_) = wire::read(&line, &self.peer.context.limits) {
            self.receive(line, &mut None);
            return None;
        }
        Some(self.peer.shown(&line))
    }

    /// Takes the lines that are there, and says how many bytes of them answered nothing.
    async fn take_lines(self: &Arc<Self>, lines: &mut Lines) -> Result<usize, SessionEnd> {
        let (mut unasked, mut in_a_row) = (0, 0);
        loop {
            let next = if lines.has_much_to_let_go() {
                let mut taken = lines.take();
                let look = move || (taken.next(), taken);
                let (next, taken) = Box::pin(aside(look))
                    .await
                    .map_err(|_| SessionEnd::Closed)?;
                *lines = taken;
                next
            } else {
                lines.next()
            };
            match next {
                Ok(Some(Line::Complete(line, held))) => {
                    self.peer.tap(Direction::Received, &line);
                    let size = line.len();
                    let was_asked = if size > LARGE {
                        let this = Arc::clone(self);
                        let receive = move || this.receive(line, &mut { held });
                        Box::pin(aside(receive)).await.unwrap_or(true)
                    } else {
                        self.receive(line, &mut { held })
                    };
                    if !was_asked {
                        unasked += size;
                        in_a_row += size;
                    }
                    if in_a_row > UNASKED_IN_A_ROW {
                        in_a_row = 0;
                        tokio::task::yield_now().await;
                    }
                }
                Ok(Some(Line::LetGo { id, why })) => {
                    self.reject(id, self.peer.problem(why));
                }
                Ok(None) => return Ok(unasked),
                Err(wire::line::Endless) => return Err(SessionEnd::Endless),
            }
        }
    }

    /// Takes a line, and says whether it answers a request. The line's share of the budget goes to
    /// whoever is answered by it.
    fn receive(self: &Arc<Self>, mut line: Bytes, held: &mut Option<Held>) -> bool {
        let (id, result, shape) = match wire::read(&line, &self.peer.context.limits) {
            Received::Message(Message::Answer {
                id,
                outcome: Outcome::Result(result, shape),
            }) => (id, place_in(&line, result), shape),
            Received::Message(Message::Answer {
                id,
                outcome: Outcome::Error(error),
            }) => return self.end_request(id, Reply::Error(error)),
            Received::Message(Message::Notification { method, params }) => {
                self.peer
                    .notified(&method, params.unwrap_or_default(), |id, note| {
                        lock(&self.table).progress(id, note);
                    });
                return false;
            }
            Received::Message(Message::Request { id, method, params }) => {
                peer::asked(self, id, &method, params.unwrap_or(b"{}"));
                return false;
            }
            Received::Batch(messages)
                if self.peer.version() == Some(ProtocolVersion::V2025_03_26) =>
            {
                let mut was_asked = false;
                for message in messages {
                    was_asked |= self.receive(line.slice_ref(message), held);
                }
                return was_asked;
            }
            Received::Batch(_) | Received::Noise => {
                self.note_noise(&line);
                return false;
            }
            Received::Broken { id, problem } => return self.reject(id, problem),
        };
        // What is left of the line is the answer: no second handle on it is made and given back.
        line.truncate(result.end);
        line.advance(result.start);
        self.end_request(id, Reply::Result(Answer::new(line, shape, held.take())))
    }

    /// Hands an answer to whoever waits for it, if somebody does.
    fn end_request(&self, id: AnswerId, mut reply: Reply) -> bool {
        if let Reply::Error(error) = &mut reply {
            self.peer.context.redactor.redact_error(error);
        }
        let mut table = lock(&self.table);
        let pending = match (id, &reply) {
            (AnswerId::Ours(id), _) => table.take(id),
            (AnswerId::Null, Reply::Error(_)) => table.take_only(),
            (AnswerId::Null | AnswerId::Foreign, _) => None,
        };
        drop(table);
        let Some(pending) = pending else {
            if !self.was_given(id) {
                self.misaddressed.fetch_add(1, Ordering::Relaxed);
            }
            tracing::debug!(server = %self.peer.context.server, ?id, "answer to no request");
            return false;
        };
        // A caller who has gone in this very moment takes no answer; that is fine.
        let _ = pending.reply.send(reply);
        true
    }

    /// Whether a request was made under this id, now or before.
    fn was_given(&self, id: AnswerId) -> bool {
        let next = self.next_id.load(Ordering::Relaxed);
        matches!(id, AnswerId::Ours(id) if id < next)
    }

    fn reject(&self, id: Option<u64>, problem: Problem) -> bool {
        let Some(id) = id else {
            tracing::debug!(server = %self.peer.context.server, %problem, "message ignored");
            return false;
        };
        self.end_request(AnswerId::Ours(id), Reply::Unusable(problem))
    }

    fn note_noise(&self, message: &[u8]) {
        if memchr::memmem::find(message, b"\"jsonrpc\"").is_some() {
            self.garbled.cancel();
        }
        let text = self.peer.shown(message);
        if !text.is_empty() {
            tracing::debug!(server = %self.peer.context.server, text, "not a message");
            *lock(&self.noise) = Some(text);
        }
    }

    /// What the server printed where it should have spoken the protocol, if anything.
    pub(crate) fn noise(&self) -> Option<String> {
        lock(&self.noise).clone()
    }

    /// Comes back when a message of the server was lost, because it did not begin a line.
    pub(crate) async fn garbled(&self) {
        self.garbled.cancelled().await;
    }

    pub(crate) fn was_garbled(&self) -> bool {
        self.garbled.is_cancelled()
    }

    pub(crate) async fn ended(&self) -> SessionEnd {
        self.peer.ended().await
    }

    /// Ends the session: whatever still waits is lost, and how is said to each.
    pub(crate) fn close(&self, end: SessionEnd) {
        let waiting = lock(&self.table).end(end.clone());
        for (id, pending) in waiting {
            let delivery = if self.outbox.withdraw(id) {
                Delivery::NotSent
            } else {
                Delivery::Unknown
            };
            let _ = pending.reply.send(Reply::Lost {
                delivery,
                end: end.clone(),
            });
        }
        self.outbox.close();
        self.peer.end(end);
    }
}

impl Voice for Connection {
    fn peer(&self) -> &Peer {
        &self.peer
    }

    fn say(self: &Arc<Self>, line: Vec<u8>) {
        // A server that asks but does not read gets no answer; that is its own doing.
        if self.send(None, line).is_err() {
            tracing::debug!(server = %self.peer.context.server, "answer could not be sent");
        }
    }
}
