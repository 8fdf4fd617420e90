//! A session over a stream of bytes: JSON text, one message a line, many requests under way.
//!
//! Three tasks serve it: one reads (`reading.rs`), one writes, one keeps time (`timekeeper.rs`); callers
//! wait for their own answers and decode them themselves.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::AsyncRead;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::inquiry::Inquiry;
use super::life::Patience;
use super::peer::{Peer, Voice};
use super::request::Ask;
use super::subscriptions::ListenEnd;
use super::table::{Kind, Reply, Table};
use super::{Delivery, RequestError, SessionContext, SessionEnd, ToolRequest};
use crate::limits::{Deadlines, Limits};
use crate::mcp::{Era, ProtocolVersion, ServerHello};
use crate::sync::{Apart, lock};
use crate::telemetry::Direction;
use crate::transport::outbox::{Outbox, Refused, Writer};
use crate::wire::Answer;
use crate::wire::encode::{self, Interests, Round, Updates};

/// How long answers may still come in after writing has failed.
const LAST_WORDS: Duration = Duration::from_millis(500);

pub(crate) type Reader = Box<dyn AsyncRead + Send + Unpin>;

/// The two directions of a connection.
pub(crate) struct Streams {
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
}

#[repr(align(64))]
pub(crate) struct Connection {
    pub(super) peer: Peer,
    pub(super) outbox: Apart<Outbox>,
    pub(super) requests: Apart<Mutex<Table>>,
    /// Tells the task that keeps time that it has to look earlier than it meant to.
    pub(super) sooner: Notify,
    /// The last line that was no message: what a server printed where it should have spoken.
    pub(super) noise: Mutex<Option<String>>,
    /// Cancelled when a message stood behind something else on its line, and so was lost.
    pub(super) garbled: CancellationToken,
    /// Cancelled when the server itself is gone.
    pub(super) gone: CancellationToken,
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
            outbox: Apart(Outbox::new(
                streams.writer,
                context.limits.outbox_bytes,
                context.budget.clone(),
            )),
            requests: Apart::default(),
            sooner: Notify::new(),
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
        let under_way = lock(&self.requests).under_way();
        self.submit(id, line, under_way)
    }

    /// As [`send`](Self::send); `under_way` says how many requests are being waited for.
    pub(super) fn submit(
        &self,
        id: Option<u64>,
        line: Vec<u8>,
        under_way: usize,
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
            .submit(id, line, under_way)
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
            let pending = lock(&self.requests).take(id);
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
        let waiting = lock(&self.requests).end(end.clone());
        let not_sent = self.outbox.withdraw_all();
        for (id, pending) in waiting {
            let delivery = if not_sent.contains(&id) {
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
