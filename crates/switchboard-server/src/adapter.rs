//! Exposes any in-process server as a JSON-RPC endpoint: one message in, at most one message out.
//!
//! The adapter is for clients that exchange messages by other means than a byte stream, and for
//! tests. It hides whether a server is called directly ([`dispatch`]) or speaks JSON-RPC over a
//! byte stream itself ([`stream`]).
//!
//! Invariants: each request gets one response, which carries the id of the request, or none if the
//! request was cancelled or the adapter was closed. Responses may arrive in any order. Tasks and
//! connections of the adapter end when the adapter is closed or dropped.

mod dispatch;
mod in_flight;
mod jsonrpc;
mod notifications;
mod server_input_queue;
mod stream;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use switchboard_wire::limits::truncate_to_millis;
use switchboard_wire::mcp::{ErrorObject, Json};
use switchboard_wire::sync::lock;
use switchboard_wire::{BoxFuture, InstanceKind, LocalServer, ServerInstance};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::dispatch::Dispatcher;
use self::in_flight::{InFlight, RequestOutcome};
use self::jsonrpc::{Incoming, Notification, Request};
use self::stream::{StreamBackend, StreamConnection};

/// Capacity of the channel with the unsolicited messages of the server. If the channel is full,
/// `list_changed` notifications and the resource updates of a directly called server are merged and
/// sent later. All other notifications are dropped, and requests of the server are refused.
const SERVER_MESSAGE_BACKLOG: usize = 256;
/// Upper bound of the time limit for a request.
const MAX_CALL_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// A JSON-RPC endpoint for one in-process server. Cheap to clone; all clones are the same endpoint.
///
/// ```
/// # use std::time::Duration;
/// # use switchboard_server::{JsonRpcAdapter, ServerInstance};
/// # async fn example(server: ServerInstance) {
/// let (adapter, _server_messages) = JsonRpcAdapter::connect(&server, Duration::from_secs(60));
/// let response = adapter.handle(r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#).await;
/// assert_eq!(response.unwrap().as_str(), r#"{"jsonrpc":"2.0","id":0,"result":{}}"#);
/// # }
/// ```
#[derive(Clone)]
pub struct JsonRpcAdapter {
    inner: Arc<Inner>,
    /// Cancels `closed` when the last clone of the adapter is dropped. The futures that
    /// [`handle`](Self::handle) returns hold neither this guard nor `inner`, so they do not keep
    /// the adapter alive.
    _close_guard: Arc<DropGuard>,
}

struct Inner {
    /// The latest session. Each `initialize` starts a new session; the previous one continues until
    /// its requests have ended.
    session: Mutex<AdapterSession>,
    backend: Backend,
    call_timeout: Duration,
    closed: CancellationToken,
}

enum Backend {
    Local {
        dispatcher: Arc<Dispatcher>,
        /// The task that forwards the server's change notifications.
        _notifications: JoinSet<()>,
    },
    Stream(StreamBackend),
}

/// A session between the client and the server: its requests in flight and its connection. Each
/// `initialize` starts a new session.
#[derive(Clone)]
struct AdapterSession {
    in_flight: Arc<InFlight>,
    /// The connection to a server that speaks JSON-RPC itself. `None` for a server that is called
    /// directly, and before the first request.
    connection: Option<Arc<StreamConnection>>,
}

impl AdapterSession {
    fn new() -> Self {
        Self {
            in_flight: Arc::default(),
            connection: None,
        }
    }
}

impl JsonRpcAdapter {
    /// Connects to a server. A request that gets no response within `call_timeout` fails; a timeout
    /// of more than one day is reduced to a day. The returned receiver yields the unsolicited
    /// messages of the server: notifications and requests. The receiver may be dropped.
    ///
    /// Must be called within a tokio runtime.
    pub fn connect(
        instance: &ServerInstance,
        call_timeout: Duration,
    ) -> (Self, mpsc::Receiver<Json>) {
        let (server_messages, receiver) = mpsc::channel(SERVER_MESSAGE_BACKLOG);
        let call_timeout = call_timeout.min(MAX_CALL_TIMEOUT);
        let closed = CancellationToken::new();
        let backend = match instance.kind() {
            InstanceKind::Local(server) => {
                Backend::local(server, server_messages, call_timeout, &closed)
            }
            InstanceKind::Stream(connector) => {
                Backend::Stream(StreamBackend::new(Arc::clone(connector), server_messages))
            }
        };
        let close_guard = Arc::new(closed.clone().drop_guard());
        let inner = Arc::new(Inner {
            session: Mutex::new(AdapterSession::new()),
            backend,
            call_timeout,
            closed,
        });
        let adapter = Self {
            inner,
            _close_guard: close_guard,
        };
        (adapter, receiver)
    }

    /// Handles one message. The future returns the response, or `None` for notifications,
    /// responses, cancelled requests, and all messages after [`close`](Self::close).
    ///
    /// The message is registered during this call and not when the future is polled, so messages
    /// keep the order of the calls. Dropping the future cancels the request.
    pub fn handle(&self, message: &str) -> impl Future<Output = Option<Json>> + Send + use<> {
        let handled = self.inner.accept(message);
        async move {
            match handled {
                Handled::Done(response) => response,
                Handled::Pending(work) => work.await,
            }
        }
    }

    /// Drops requests in flight without a response, closes the connection if there is one, and
    /// ignores every later message. Dropping the last clone of the adapter does the same and also
    /// releases the server.
    pub fn close(&self) {
        self.inner.closed.cancel();
        *lock(&self.inner.session) = AdapterSession::new();
    }
}

impl fmt::Debug for JsonRpcAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonRpcAdapter")
            .field("call_timeout", &self.inner.call_timeout)
            .finish_non_exhaustive()
    }
}

impl Backend {
    fn local(
        server: &Arc<dyn LocalServer>,
        server_messages: mpsc::Sender<Json>,
        call_timeout: Duration,
        closed: &CancellationToken,
    ) -> Self {
        let dispatcher = Arc::new(Dispatcher::new(
            server,
            server_messages.clone(),
            call_timeout,
        ));
        let mut tasks = JoinSet::new();
        // A server whose `notifications` panics is treated as a server without notifications.
        let notifications = catch_unwind(AssertUnwindSafe(|| server.notifications()));
        if let Some(notifications) = notifications.ok().flatten() {
            let subscriptions = Arc::clone(dispatcher.subscriptions());
            let forward =
                notifications::forward_notifications(notifications, subscriptions, server_messages);
            let closed = closed.clone();
            tasks.spawn(async move {
                closed.run_until_cancelled_owned(forward).await;
            });
        }
        Self::Local {
            dispatcher,
            _notifications: tasks,
        }
    }
}

/// The result of accepting a message: the response if there is nothing to wait for, or a future
/// that returns the response.
enum Handled {
    Done(Option<Json>),
    Pending(BoxFuture<'static, Option<Json>>),
}

impl Inner {
    fn accept(&self, text: &str) -> Handled {
        if self.closed.is_cancelled() {
            return Handled::Done(None);
        }
        match jsonrpc::parse(text) {
            Ok(Incoming::Request(request)) => self.start_request(request, text),
            Ok(Incoming::Notification(notification)) => {
                self.handle_notification(&notification, text)
            }
            Ok(Incoming::Response) => self.forward(text),
            Err((id, error)) => Handled::Done(Some(jsonrpc::failure(id.as_ref(), &error))),
        }
    }

    fn start_request(&self, request: Request, text: &str) -> Handled {
        let Some(session) = self.session_for(&request) else {
            return Handled::Done(None);
        };
        let id = request.id.clone();
        let guard = match session.in_flight.register(&id) {
            Ok(guard) => guard,
            Err(error) => return Handled::Done(Some(jsonrpc::failure(Some(&id), &error))),
        };
        let closed = self.closed.clone();
        let work: BoxFuture<'static, Option<Json>> = match (&self.backend, session.connection) {
            (Backend::Local { dispatcher, .. }, _) => {
                Box::pin(Arc::clone(dispatcher).respond(request, guard))
            }
            (Backend::Stream(_), Some(connection)) => {
                let limit = self.call_timeout;
                Box::pin(connection.request(request.method, text, guard, limit))
            }
            (Backend::Stream(_), None) => return Handled::Done(None),
        };
        Handled::Pending(Box::pin(async move {
            closed.run_until_cancelled_owned(work).await.flatten()
        }))
    }

    /// The session of a request. Starts a new session for `initialize`. Returns `None` after
    /// `close`.
    fn session_for(&self, request: &Request) -> Option<AdapterSession> {
        let mut session = lock(&self.session);
        // Check under the lock: `close` replaces the session under the same lock, and after that no
        // connection may be opened.
        if self.closed.is_cancelled() {
            return None;
        }
        let is_initialize = request.method == "initialize";
        if is_initialize {
            if let Some(previous) = &session.connection {
                previous.mute();
            }
            *session = AdapterSession::new();
        }
        match &self.backend {
            Backend::Local { dispatcher, .. } if is_initialize => {
                dispatcher.subscriptions().clear();
            }
            Backend::Stream(stream) if session.connection.is_none() => {
                session.connection = Some(stream.open(&session.in_flight));
            }
            _ => {}
        }
        Some(session.clone())
    }

    fn handle_notification(&self, notification: &Notification, text: &str) -> Handled {
        let in_flight = Arc::clone(&lock(&self.session).in_flight);
        let forwarded = self.forward(text);
        if let Some(id) = &notification.cancelled {
            in_flight.resolve(id, RequestOutcome::Cancelled);
        }
        forwarded
    }

    /// Forwards a notification or response to a server that speaks JSON-RPC itself. Does nothing
    /// without a connection: a server that is called directly needs no such messages.
    fn forward(&self, text: &str) -> Handled {
        let connection = lock(&self.session).connection.clone();
        match connection {
            Some(connection) => {
                let sent = connection.notify(text, self.call_timeout);
                let closed = self.closed.clone();
                Handled::Pending(Box::pin(async move {
                    closed.run_until_cancelled_owned(sent).await;
                    None
                }))
            }
            None => Handled::Done(None),
        }
    }
}

/// The error of a request that exceeded the time limit. `what` is the method or the tool.
fn timeout_error(what: &str, limit: Duration) -> ErrorObject {
    let limit = truncate_to_millis(limit);
    ErrorObject::new(
        ErrorObject::INTERNAL,
        format!(
            "{what} timed out after {limit:?} and was stopped; request less at a time, or raise the call \
             timeout"
        ),
    )
}
