//! Servers of this program, spoken to in the protocol: one JSON-RPC message in, one out.
//!
//! For peers that carry messages some other way than over a stream, and for tests. What kind of
//! server it is makes no difference to them: one that is called directly ([`local`]) and one that
//! speaks the protocol itself ([`stream`]) are asked alike.
//!
//! Invariant: an answer goes to the request whose id it bears, whatever the order; each request is
//! answered once, or not at all if it was cancelled. Nothing that the adapter began outlives it.

mod flights;
mod local;
mod message;
mod notices;
mod outbox;
mod stream;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::flights::{Flights, Signal};
use self::local::Local;
use self::message::{Incoming, Note, Request};
use self::stream::Stream;
use crate::interact::BoxFuture;
use crate::mcp::{ErrorObject, Json};
use crate::sync::lock;
use crate::transport::memory::{Kind, ServerInstance};

/// How many messages of the server's own may wait. Whoever takes them later than that misses progress;
/// that something changed is said all the same.
const UNASKED: usize = 256;
/// No request takes longer than this, whatever is asked for.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Speaks to one server of this program in the protocol. Cheap to clone.
///
/// ```
/// # use std::time::Duration;
/// # use switchboard::inprocess::{Adapter, ServerInstance};
/// # async fn example(server: ServerInstance) {
/// let (adapter, _said_by_itself) = Adapter::connect(&server, Duration::from_secs(60));
/// let answer = adapter.handle(r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#).await;
/// assert_eq!(answer.unwrap().as_str(), r#"{"jsonrpc":"2.0","id":0,"result":{}}"#);
/// # }
/// ```
#[derive(Clone)]
pub struct Adapter {
    inner: Arc<Inner>,
    /// Gone with the last clone. What is under way holds neither this nor `inner`, and ends then.
    _life: Arc<DropGuard>,
}

struct Inner {
    /// What is newest; `initialize` begins another. Earlier ones end with what is under way in them.
    session: Mutex<Session>,
    side: Side,
    call_timeout: Duration,
    closed: CancellationToken,
}

enum Side {
    Local {
        server: Arc<Local>,
        /// Passes on what the server says by itself.
        _notices: JoinSet<()>,
    },
    Stream(Stream),
}

/// What has happened since `initialize`.
#[derive(Clone)]
struct Session {
    flights: Arc<Flights>,
    /// Where the server speaks the protocol itself, and something was said to it.
    connection: Option<Arc<stream::Connection>>,
}

impl Session {
    fn new() -> Self {
        Self {
            flights: Arc::default(),
            connection: None,
        }
    }
}

impl Adapter {
    /// Begins to speak to a server. Each request ends within `call_timeout` (a day at most). The receiver yields what the
    /// server says by itself: that something changed, how far a call has come, requests of its own. It
    /// need not be read, or kept.
    ///
    /// Has to be called within a runtime of tokio.
    pub fn connect(
        instance: &ServerInstance,
        call_timeout: Duration,
    ) -> (Self, mpsc::Receiver<Json>) {
        let (unasked, receiver) = mpsc::channel(UNASKED);
        let call_timeout = call_timeout.min(LONGEST);
        let closed = CancellationToken::new();
        let side = match instance.kind() {
            Kind::Local(server) => {
                let local = Arc::new(Local::new(server, unasked.clone(), call_timeout));
                let mut tasks = JoinSet::new();
                // Whoever panics when it is asked for them has none.
                let heard = catch_unwind(AssertUnwindSafe(|| server.notifications()));
                if let Some(heard) = heard.ok().flatten() {
                    let wanted = Arc::clone(local.subscriptions());
                    let passing_on = notices::pass_on(heard, wanted, unasked);
                    let closed = closed.clone();
                    tasks.spawn(async move {
                        closed.run_until_cancelled_owned(passing_on).await;
                    });
                }
                Side::Local {
                    server: local,
                    _notices: tasks,
                }
            }
            Kind::Stream(dial) => Side::Stream(Stream::new(Arc::clone(dial), unasked)),
        };
        let life = Arc::new(closed.clone().drop_guard());
        let inner = Arc::new(Inner {
            session: Mutex::new(Session::new()),
            side,
            call_timeout,
            closed,
        });
        (Self { inner, _life: life }, receiver)
    }

    /// Takes one message and answers it: nothing for notifications, responses, and requests that are
    /// cancelled before they are done.
    ///
    /// The message counts as taken when this returns, so that messages are in the order of these calls
    /// whoever awaits the answers, and when. Dropping the future cancels the request.
    pub fn handle(&self, message: &str) -> impl Future<Output = Option<Json>> + Send + use<> {
        let course = self.inner.take(message);
        async move {
            match course {
                Course::Over(answer) => answer,
                Course::UnderWay(work) => work.await,
            }
        }
    }

    /// Ends what is under way, unanswered, and the connection if there is one; nothing is answered from
    /// then on. Dropping the last clone does the same, and lets go of the server.
    pub fn close(&self) {
        self.inner.closed.cancel();
        *lock(&self.inner.session) = Session::new();
    }
}

impl fmt::Debug for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adapter")
            .field("call_timeout", &self.inner.call_timeout)
            .finish_non_exhaustive()
    }
}

/// What becomes of a message that was taken.
enum Course {
    Over(Option<Json>),
    UnderWay(BoxFuture<'static, Option<Json>>),
}

impl Inner {
    fn take(&self, text: &str) -> Course {
        if self.closed.is_cancelled() {
            return Course::Over(None);
        }
        match message::read(text) {
            Ok(Incoming::Request(request)) => self.begin(request, text),
            Ok(Incoming::Note(note)) => self.hear(&note, text),
            Ok(Incoming::Response) => self.pass_on(text),
            Err((id, error)) => Course::Over(Some(message::failure(id.as_ref(), &error))),
        }
    }

    fn begin(&self, request: Request, text: &str) -> Course {
        let Some(session) = self.session_for(&request) else {
            return Course::Over(None);
        };
        let id = request.id.clone();
        let ticket = match session.flights.enter(&id) {
            Ok(ticket) => ticket,
            Err(error) => return Course::Over(Some(message::failure(Some(&id), &error))),
        };
        let closed = self.closed.clone();
        let work: BoxFuture<'static, Option<Json>> = match (&self.side, session.connection) {
            (Side::Local { server, .. }, _) => Box::pin(Arc::clone(server).answer(request, ticket)),
            (Side::Stream(_), Some(connection)) => {
                let limit = self.call_timeout;
                Box::pin(connection.ask(request.method, text, ticket, limit))
            }
            (Side::Stream(_), None) => return Course::Over(None),
        };
        Course::UnderWay(Box::pin(async move {
            closed.run_until_cancelled_owned(work).await.flatten()
        }))
    }

    /// The session that a request belongs to: a new one for `initialize`, and none once it is closed.
    fn session_for(&self, request: &Request) -> Option<Session> {
        let mut session = lock(&self.session);
        // Under the lock, so that nothing is opened after `close` has taken leave of the last session.
        if self.closed.is_cancelled() {
            return None;
        }
        let begins = request.method == "initialize";
        if begins {
            if let Some(earlier) = &session.connection {
                earlier.silence();
            }
            *session = Session::new();
        }
        match &self.side {
            Side::Local { server, .. } if begins => server.subscriptions().clear(),
            Side::Stream(stream) if session.connection.is_none() => {
                session.connection = Some(stream.open(&session.flights));
            }
            _ => {}
        }
        Some(session.clone())
    }

    fn hear(&self, note: &Note, text: &str) -> Course {
        let flights = Arc::clone(&lock(&self.session).flights);
        let passed_on = self.pass_on(text);
        if let Some(id) = &note.cancelled {
            flights.signal(id, Signal::Cancelled);
        }
        passed_on
    }

    /// Hands on what wants no answer. A server that is called directly has no use for it.
    fn pass_on(&self, text: &str) -> Course {
        let connection = lock(&self.session).connection.clone();
        match connection {
            Some(connection) => {
                let limit = self.call_timeout;
                let told = connection.tell(text, limit);
                let closed = self.closed.clone();
                Course::UnderWay(Box::pin(async move {
                    closed.run_until_cancelled_owned(told).await;
                    None
                }))
            }
            None => Course::Over(None),
        }
    }
}

/// What is said of a request that took too long.
fn too_late(method: &str, limit: Duration) -> ErrorObject {
    let limit = crate::limits::rounded_to_millis(limit);
    ErrorObject::new(
        ErrorObject::INTERNAL,
        format!(
            "{method} was not answered within {limit:?} and was stopped: ask for less at a time, or raise \
             the time limit of calls"
        ),
    )
}
