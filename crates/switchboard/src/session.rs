//! One handshake with a server, and the requests made on it.
//!
//! Calls come here straight from the pipeline, many at a time; the owner only opens and closes.
//! Invariant: every request ends as *answered*, *not sent* or *unknown*, and its error says which.

pub(crate) mod changes;
mod connection;
mod inbound;
pub(crate) mod inquiry;
mod life;
pub(crate) mod listed;
mod local;
mod logs;
pub(crate) mod neighbours;
pub(crate) mod pace;
mod peer;
mod reading;
pub(crate) mod remote;
mod request;
mod rounds;
pub(crate) mod subscriptions;
mod table;
mod tasks;
mod timekeeper;
mod visits;

use std::any::Any;
use std::fmt;
use std::ptr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::{mpsc, watch};

use self::neighbours::Neighbour;
use self::pace::Floods;
use crate::auth::login::LoginWanted;
use crate::budget::Budget;
use crate::event::EventSink;
use crate::id::ServerName;
use crate::interact::{Interaction, Offers, Turns};
use crate::limits::{LARGE, Limits, legible};
use crate::mcp::{
    CallToolResult, Era, ErrorObject, Implementation, LogLevel, Progress, ServerCapabilities,
    ServerHello,
};
use crate::status::ConnectStage;
use crate::telemetry::{Redactor, WireTap};
use crate::wire::Problem;
use crate::wire::decode::{self, NoResult, Page};
use crate::wire::encode::{self, Round};

use changes::{Change, Changes};
pub(crate) use connection::{Connection, Streams};
use inquiry::Inquiry;
pub(crate) use life::{Life, Patience};
use listed::Listed;
pub(crate) use local::LocalSession;
use peer::{Peer, Voice};
use remote::{EventStream, Streamable};
use subscriptions::Subscriptions;
pub(crate) use tasks::Errand;

/// What is known of a request that ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Delivery {
    /// The server answered, one way or another.
    Answered,
    /// Not a byte of it reached the server: it can safely be tried again.
    NotSent,
    /// It may or may not have been carried out.
    Unknown,
}

/// Why a session is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionEnd {
    /// The server closed its output.
    Eof {
        /// What it said last, when that was not a whole line.
        half_line: Option<String>,
    },
    /// Reading or writing failed.
    Io(String),
    /// The server wrote without end and without a line end.
    Endless,
    /// The server could not be reached, or does not answer.
    Unreachable(String),
    /// The server no longer knows the session: a new one is to be made at once.
    Expired,
    /// One request after the other failed.
    Failing(String),
    /// The server wants a login.
    NeedsLogin(Box<LoginWanted>),
    /// We ended it.
    Closed,
}

impl fmt::Display for SessionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Eof { half_line: None } => f.write_str("the server closed the connection"),
            Self::Eof {
                half_line: Some(text),
            } => {
                write!(f, "the server stopped in the middle of a message: {text:?}")
            }
            Self::Io(error) => write!(f, "the connection broke: {error}"),
            Self::Endless => f.write_str("the server wrote without ever ending a message"),
            Self::Unreachable(why) => f.write_str(why),
            Self::Expired => f.write_str("the server no longer knows the session"),
            Self::Failing(last) => {
                write!(f, "one request after the other failed, the last: {last}")
            }
            Self::NeedsLogin(login) => login.fmt(f),
            Self::Closed => f.write_str("the connection was closed"),
        }
    }
}

/// Why a request has no usable answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("{end}")]
    Lost { delivery: Delivery, end: SessionEnd },
    #[error(
        "it does not fit among the messages that wait to be written, which may take {limit} bytes \
         together (limit `outbox_bytes`)"
    )]
    Congested { limit: usize },
    #[error(
        "no room for it: the messages under way take {limit} bytes already (limit `memory_bytes`)"
    )]
    NoRoom { limit: usize },
    #[error("the request is longer than {limit} bytes (limit `message_bytes`)")]
    TooLong { limit: usize },
    #[error("the server refused: {0}")]
    Refused(ErrorObject),
    #[error("the server's answer cannot be used: {0}")]
    Unusable(Problem),
    #[error(transparent)]
    Failed(Failed),
    #[error("{0}")]
    NeedsLogin(Box<LoginWanted>),
    #[error("{}{}", timeout_text(*.after, *.idle), misaddressed_text(*.misaddressed))]
    TimedOut {
        after: Duration,
        idle: bool,
        delivery: Delivery,
        /// Answers came meanwhile that name none of our requests.
        misaddressed: bool,
    },
}

/// A request that failed on its way, which says nothing of the session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub(crate) struct Failed {
    pub(crate) delivery: Delivery,
    /// What HTTP said, if it got to say something.
    pub(crate) status: Option<u16>,
    /// How long the server asks to be left alone.
    pub(crate) retry_after: Option<Duration>,
    pub(crate) what: String,
    /// What to do about it.
    pub(crate) hint: Option<String>,
    /// The step that it did not get past, were it the first request of all.
    pub(crate) stage: ConnectStage,
}

impl Failed {
    /// Nobody knows what became of it.
    pub(crate) fn unknown(what: impl Into<String>) -> Self {
        Self {
            delivery: Delivery::Unknown,
            status: None,
            retry_after: None,
            what: what.into(),
            hint: None,
            stage: ConnectStage::Open,
        }
    }
}

impl RequestError {
    /// The field of [`Limits`] that was crossed before anything was sent, if one was.
    pub(crate) fn limit(&self) -> Option<&'static str> {
        match self {
            Self::Congested { .. } => Some("outbox_bytes"),
            Self::NoRoom { .. } => Some("memory_bytes"),
            Self::TooLong { .. } => Some("message_bytes"),
            _ => None,
        }
    }
}

fn timeout_text(after: Duration, idle: bool) -> String {
    let after = legible(after);
    if idle {
        format!("no sign of life for {after:?}")
    } else {
        format!("no answer within {after:?}")
    }
}

/// What to add if there were answers that named none of our requests.
pub(crate) fn misaddressed_text(misaddressed: bool) -> &'static str {
    if misaddressed {
        " (the server answered under ids that are not those of our requests)"
    } else {
        ""
    }
}

/// What a session needs to know of the host around it.
#[derive(Clone)]
pub(crate) struct SessionContext {
    pub(crate) server: ServerName,
    pub(crate) limits: Arc<Limits>,
    /// Of the whole host.
    pub(crate) budget: Budget,
    /// Of the whole host.
    pub(crate) floods: Floods,
    pub(crate) neighbour: Neighbour,
    /// Who we say we are.
    pub(crate) client: Implementation,
    pub(crate) interaction: Arc<dyn Interaction>,
    /// Of the server, whichever session it asks in.
    pub(crate) turns: Arc<Turns>,
    /// From which level on servers are asked to send what they log.
    pub(crate) log_level: Option<LogLevel>,
    pub(crate) events: EventSink,
    pub(crate) tap: Option<Arc<dyn WireTap>>,
    pub(crate) redactor: Redactor,
}

impl SessionContext {
    /// What the server may ask for.
    pub(crate) fn offers(&self) -> Offers {
        self.interaction.offers_to(&self.server)
    }
}

/// A tool call as it goes to a server.
#[derive(Debug)]
pub(crate) struct ToolRequest<'a> {
    /// Which tool, and what is known of the call beyond this session.
    pub(crate) errand: &'a dyn Errand,
    pub(crate) arguments: &'a Map<String, Value>,
    pub(crate) trace: Option<&'a str>,
    pub(crate) patience: Patience,
    pub(crate) progress: Option<mpsc::Sender<Progress>>,
    /// The answers to what the server asked before, if it asked something.
    pub(crate) round: Option<&'a Round>,
}

/// A session that is open; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) enum Session {
    /// JSON text over a stream of bytes.
    Text(Arc<Connection>),
    /// JSON text over HTTP, an exchange for each request.
    Streamable(Arc<Streamable>),
    /// JSON text over HTTP, all answers on one stream.
    EventStream(Arc<EventStream>),
    /// A server in this process.
    Local(Arc<LocalSession>),
}

/// Which session something came from. A session ends with the last who holds it; this holds none.
#[derive(Debug)]
pub(crate) struct SessionMark(Weak<dyn Any + Send + Sync>);

impl PartialEq for SessionMark {
    fn eq(&self, other: &Self) -> bool {
        // Its place is not given to another for as long as this is kept.
        ptr::addr_eq(self.0.as_ptr(), other.0.as_ptr())
    }
}

impl Session {
    /// What the server said of itself; `None` before the handshake is over.
    pub(crate) fn hello(&self) -> Option<&ServerHello> {
        match self {
            Self::Text(connection) => connection.hello(),
            Self::Streamable(streamable) => streamable.hello(),
            Self::EventStream(stream) => stream.hello(),
            Self::Local(local) => Some(local.hello()),
        }
    }

    /// What the server offers: what it said of itself, or, of one in this process, what it says now.
    pub(crate) fn capabilities(&self) -> ServerCapabilities {
        match self {
            Self::Local(local) => local.capabilities(),
            other => other
                .hello()
                .map_or_else(ServerCapabilities::default, |hello| {
                    hello.capabilities.clone()
                }),
        }
    }

    /// Whether the server is somewhere else: such a session can be replaced by another one at any
    /// time.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self, Self::Streamable(_) | Self::EventStream(_))
    }

    /// Whether it is this very session.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.mark() == other.mark()
    }

    /// What it is known by to those who must not keep it open.
    pub(crate) fn mark(&self) -> SessionMark {
        SessionMark(match self {
            Self::Text(connection) => Arc::downgrade(connection) as _,
            Self::Streamable(streamable) => Arc::downgrade(streamable) as _,
            Self::EventStream(stream) => Arc::downgrade(stream) as _,
            Self::Local(local) => Arc::downgrade(local) as _,
        })
    }

    /// One page of a listing, of at most so many items.
    pub(crate) async fn list<T: Listed>(
        &self,
        cursor: Option<&str>,
        patience: Patience,
        most: usize,
    ) -> Result<Page<T>, RequestError> {
        if let Self::Local(local) = self {
            return local.list();
        }
        let mut inquiry = Inquiry::new(T::METHOD, patience);
        if let Some(cursor) = cursor {
            inquiry = inquiry.with("cursor", cursor);
        }
        let answer = self.inquire(&inquiry).await?;
        let page = decode::page(&answer, T::KEY, most, T::ITEM);
        let mut page = page.map_err(RequestError::Unusable)?;
        if let Self::Streamable(streamable) = self {
            T::taken_by(&mut page, streamable);
        }
        if let Some(peer) = self.peer().filter(|_| self.is_remote()) {
            // It knows the credential that it was asked with.
            let redactor = &peer.context.redactor;
            page.items.iter_mut().for_each(|item| item.redact(redactor));
        }
        Ok(page)
    }

    /// Calls a tool. Dropping the future cancels the call, and the server is told.
    pub(crate) async fn call_tool(
        &self,
        request: &ToolRequest<'_>,
    ) -> Result<CallToolResult, RequestError> {
        // In a block of its own, so that nothing of it takes room while questions are answered.
        let unfinished = {
            let (answer, limits) = match self {
                Self::Text(connection) => {
                    (connection.call_tool(request).await?, connection.limits())
                }
                Self::Streamable(streamable) => {
                    let answer = Box::pin(streamable.call_tool(request)).await?;
                    (answer, streamable.limits())
                }
                Self::EventStream(stream) => {
                    let answer = Box::pin(stream.call_tool(request)).await?;
                    (answer, stream.limits())
                }
                Self::Local(local) => return Box::pin(local.call_tool(request)).await,
            };
            let most = limits.content_blocks;
            let decoded = if let Some(task) = tasks::created(self, request, &answer) {
                task.map_err(NoResult::Unusable)
                    .and_then(|task| Err(NoResult::Task(task)))
            } else if answer.text.len() > LARGE {
                Box::pin(aside(move || decode::call_tool_result(&answer, most))).await?
            } else {
                decode::call_tool_result(&answer, most)
            };
            match decoded {
                Ok(result) => return Ok(result),
                Err(unfinished) => unfinished,
            }
        };
        match unfinished {
            NoResult::InputRequired(asked) => rounds::go_on(self, request, asked).await,
            NoResult::Task(task) => tasks::follow(self, request, task).await,
            NoResult::Unusable(problem) => Err(RequestError::Unusable(problem)),
        }
    }

    /// What is known of the server on the other side of a wire.
    fn peer(&self) -> Option<&Peer> {
        match self {
            Self::Text(connection) => Some(connection.peer()),
            Self::Streamable(streamable) => Some(streamable.peer()),
            Self::EventStream(stream) => Some(stream.peer()),
            Self::Local(_) => None,
        }
    }

    fn changes(&self) -> &Changes {
        match self {
            Self::Text(connection) => &connection.peer().changes,
            Self::Streamable(streamable) => &streamable.peer().changes,
            Self::EventStream(stream) => &stream.peer().changes,
            Self::Local(local) => &local.changes,
        }
    }

    fn subscriptions(&self) -> &Subscriptions {
        match self {
            Self::Text(connection) => &connection.peer().subscriptions,
            Self::Streamable(streamable) => &streamable.peer().subscriptions,
            Self::EventStream(stream) => &stream.peer().subscriptions,
            Self::Local(local) => &local.subscriptions,
        }
    }

    /// Tells a legacy server from which level on its log is wanted, where it has one.
    pub(crate) async fn set_log_level(&self, patience: Patience) {
        let Some(peer) = self.peer() else { return };
        let has_log = peer
            .hello()
            .is_some_and(|hello| hello.version.era() == Era::Legacy && hello.capabilities.logging);
        let Some(level) = peer.context.log_level.filter(|_| has_log) else {
            return;
        };
        let inquiry = Inquiry::new("logging/setLevel", patience).with("level", level.as_str());
        let answer = self.inquire(&inquiry).await;
        if let Err(error) = answer {
            tracing::debug!(server = %peer.context.server, %error, "the log level was not set");
        }
    }

    /// Tells the server that the folders it may work in have changed, if it was told that it would be.
    pub(crate) fn announce_roots(&self) {
        let is_told = self.peer().is_some_and(|peer| {
            let version = peer.version();
            version.is_some_and(|version| version.era() == Era::Legacy)
                && peer.context.offers().roots
        });
        if !is_told {
            return;
        }
        let line = encode::notification("notifications/roots/list_changed", None::<()>);
        match self {
            Self::Text(connection) => connection.say(line),
            Self::Streamable(streamable) => streamable.say(line),
            Self::EventStream(stream) => stream.say(line),
            Self::Local(_) => {}
        }
    }

    /// Comes back when the server has said that something changed, once for many such notices.
    pub(crate) async fn changed(&self, change: Change) {
        self.changes().changed(change).await;
    }

    /// How many notices of such a change there were.
    pub(crate) fn notices(&self, change: Change) -> u64 {
        self.changes().count(change)
    }

    /// Whether the server would be heard if it announced such a change now.
    pub(crate) fn hears(&self, change: Change) -> bool {
        self.changes().hears(change)
    }

    /// Comes back when the session is over.
    pub(crate) async fn ended(&self) -> SessionEnd {
        match self {
            Self::Text(connection) => connection.ended().await,
            Self::Streamable(streamable) => streamable.ended().await,
            Self::EventStream(stream) => stream.ended().await,
            Self::Local(local) => local.ended().await,
        }
    }

    /// Waits until the server was told what it is being told, as far as nobody else waits for that.
    pub(crate) async fn words_said(&self) {
        if let Some(peer) = self.peer() {
            peer.words_said().await;
        }
    }

    /// Ends it: nothing more is sent, what waits is lost.
    pub(crate) fn close(&self) {
        match self {
            Self::Text(connection) => connection.close(SessionEnd::Closed),
            Self::Streamable(streamable) => streamable.close(),
            Self::EventStream(stream) => stream.close(),
            Self::Local(local) => local.close(),
        }
    }
}

/// Does work that takes its time where it holds up nobody.
pub(crate) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RequestError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| RequestError::Lost {
        delivery: Delivery::Answered,
        end: SessionEnd::Closed,
    })
}

/// Waits until a watched end is there.
async fn wait_for_end(mut ended: watch::Receiver<Option<SessionEnd>>) -> SessionEnd {
    match ended.wait_for(Option::is_some).await {
        Ok(end) => end.clone().unwrap_or(SessionEnd::Closed),
        Err(_) => SessionEnd::Closed,
    }
}
