//! One attempt to connect to a server: open the transport, then perform the handshake.
//!
//! [`connect`] returns a [`LiveSession`] or a [`ConnectError`]. One attempt may open several
//! connections, but only to find out which protocol era or HTTP transport the server supports. The
//! caller decides whether and when to try again after a failure. This module is internal to the
//! switchboard crates.
//!
//! Invariant: dropping the future of [`connect`] ends the child process and the tasks of the
//! attempt.

mod error;
mod handshake;
mod live_session;
mod negotiate;
mod transport;

use std::fmt;
use std::sync::Arc;

use futures_util::FutureExt;
#[cfg(feature = "stdio")]
use switchboard_process::{Launch, ProcessSupervisor};
use switchboard_wire::encode::ListChangeFilter;
use switchboard_wire::mcp::{Era, ServerHello};
use switchboard_wire::{Connector, InstanceKind, LocalServer, ServerInstance};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;

use self::error::http_connect_error;
use self::handshake::{FirstRequest, HandshakeError, negotiate_session};
use crate::connect_stage::{ConnectStage, CurrentStage};
use crate::deadlines::Deadlines;
#[cfg(feature = "http")]
use crate::http::{HttpEndpoint, HttpTransport, Network};
use crate::message_transport::MessageTransport;
#[cfg(feature = "http")]
use crate::session::http::Health;
use crate::session::{Deadline, Session, SessionContext};

pub use self::error::{ConnectError, ServerOutput};
pub use self::live_session::LiveSession;
pub use self::negotiate::HandshakeRejection;

/// How to reach a server.
#[derive(Clone)]
pub enum Endpoint {
    /// A child process that speaks over stdin and stdout.
    #[cfg(feature = "stdio")]
    Process(Launch),
    /// A server in this process.
    Local(Arc<dyn LocalServer>),
    /// A byte stream that the program opens through its own [`Connector`].
    Stream(Arc<dyn Connector>),
    /// A [`Transport`](switchboard_wire::Transport) of the program.
    Messages(MessageTransport),
    /// A server behind a URL.
    #[cfg(feature = "http")]
    Http(HttpEndpoint),
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(feature = "stdio")]
            Self::Process(launch) => f.debug_tuple("Process").field(launch).finish(),
            #[cfg(feature = "http")]
            Self::Http(endpoint) => f.debug_tuple("Http").field(endpoint).finish(),
            Self::Local(_) => f.write_str("Local"),
            Self::Stream(_) => f.write_str("Stream"),
            Self::Messages(_) => f.write_str("Messages"),
        }
    }
}

impl From<ServerInstance> for Endpoint {
    fn from(instance: ServerInstance) -> Self {
        match instance.into_kind() {
            InstanceKind::Local(server) => Self::Local(server),
            InstanceKind::Stream(connector) => Self::Stream(connector),
        }
    }
}

/// Everything that connections to one server need besides the [`Endpoint`]. A reconnect uses the
/// same context again.
#[derive(Clone)]
pub struct ClientContext {
    /// Settings, limits and handlers of the sessions with this server.
    pub session: SessionContext,
    /// Time limits of connections, requests and the shutdown of a child.
    pub deadlines: Deadlines,
    /// Starts child processes, and ends all of them when the host ends.
    #[cfg(feature = "stdio")]
    pub supervisor: ProcessSupervisor,
    /// The stage of the connection attempt in progress.
    pub stage: CurrentStage,
    /// Tracks the tasks of all sessions with this server.
    pub tasks: TaskTracker,
    /// The proxies and certificates for HTTP connections.
    #[cfg(feature = "http")]
    pub network: Arc<Network>,
    /// When a server behind a URL is pinged, and how long it may take to respond.
    #[cfg(feature = "http")]
    pub health: Health,
}

impl fmt::Debug for ClientContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientContext")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

/// Connects to a server. Fails with a timeout if the handshake is not complete by `until`.
///
/// `era` is the protocol era of the last session with this server, if known. The handshake of this
/// era is tried first. On success, `era` is set to the negotiated era, with two exceptions: over
/// HTTP+SSE of 2024-11-05, `era` does not change, and if a message of the server was lost, the
/// negotiated era is uncertain and not stored. If `era` is legacy and its handshake fails after the
/// server was reached, `era` is set to `None`.
pub async fn connect(
    endpoint: &Endpoint,
    context: &ClientContext,
    era: &mut Option<Era>,
    until: Instant,
) -> Result<LiveSession, ConnectError> {
    let attempt = ConnectInputs {
        endpoint,
        context,
        until,
    };
    match endpoint {
        #[cfg(feature = "http")]
        Endpoint::Http(http) => attempt.connect_http(http, era).await,
        _ => attempt.connect_negotiated(era).await,
    }
}

/// What one connection attempt needs: the endpoint, the context, and when to give up.
#[derive(Clone, Copy)]
struct ConnectInputs<'a> {
    endpoint: &'a Endpoint,
    context: &'a ClientContext,
    until: Instant,
}

impl ConnectInputs<'_> {
    /// Connects over the HTTP transport that the endpoint names. With [`HttpTransport::Detect`],
    /// tries streamable HTTP first, then HTTP+SSE of 2024-11-05.
    #[cfg(feature = "http")]
    async fn connect_http(
        self,
        endpoint: &HttpEndpoint,
        era: &mut Option<Era>,
    ) -> Result<LiveSession, ConnectError> {
        if endpoint.transport == HttpTransport::Sse2024 {
            return self.open_and_shake_hands(FirstRequest::Initialize).await;
        }
        match self.connect_negotiated(era).await {
            Err(error @ ConnectError::NotStreamable(_))
                if endpoint.transport == HttpTransport::Detect =>
            {
                let sse_2024 = Endpoint::Http(HttpEndpoint {
                    transport: HttpTransport::Sse2024,
                    ..endpoint.clone()
                });
                let attempt = ConnectInputs {
                    endpoint: &sse_2024,
                    ..self
                };
                // HTTP+SSE of 2024-11-05 has the legacy handshake only.
                match attempt.open_and_shake_hands(FirstRequest::Initialize).await {
                    Err(ConnectError::Unreachable(_) | ConnectError::NotStreamable(_)) => {
                        Err(error.into_no_transport())
                    }
                    other => other,
                }
            }
            other => other,
        }
    }

    /// Tries the handshake of the known era, or the modern handshake if no era is known. If the
    /// server ends the session or rejects `initialize` (also with HTTP status 400, 404 or 405),
    /// tries the handshake of the other era on a new connection.
    async fn connect_negotiated(self, era: &mut Option<Era>) -> Result<LiveSession, ConnectError> {
        let first = match *era {
            Some(Era::Legacy) => FirstRequest::Initialize,
            Some(Era::Modern) | None => FirstRequest::Discover,
        };
        let live = match self.open_and_shake_hands(first).await {
            // Some legacy servers exit when they receive `server/discover`.
            Err(ended @ ConnectError::SessionEnded { .. }) if first == FirstRequest::Discover => {
                match self.open_and_shake_hands(FirstRequest::Initialize).await {
                    // A server that rejects `initialize` is not legacy, so it did not exit because
                    // of `server/discover`: it crashed. Report the crash, which may be temporary.
                    Err(ConnectError::Rejected(_)) => Err(ended),
                    other => other,
                }
            }
            Err(error) if first == FirstRequest::Initialize && error.failed_in_handshake() => {
                *era = None;
                match error {
                    ConnectError::SessionEnded { .. }
                    | ConnectError::Rejected(_)
                    | ConnectError::NotStreamable(_) => {
                        self.open_and_shake_hands(FirstRequest::Discover).await
                    }
                    other => Err(other),
                }
            }
            other => other,
        }?;
        // A lost message may have been the response to `server/discover`. Then the era is only a
        // guess, so it is not stored, and the next attempt sends `server/discover` again.
        let has_lost_message =
            matches!(&live.session, Session::Line(line) if line.has_lost_message());
        if !has_lost_message && let Some(handshake) = live.session.handshake() {
            *era = Some(handshake.version.era());
        }
        Ok(live)
    }

    async fn open_and_shake_hands(self, first: FirstRequest) -> Result<LiveSession, ConnectError> {
        let Self {
            endpoint,
            context,
            until,
        } = self;
        let started = Instant::now();
        context.stage.set(ConnectStage::Open);
        let opened = timeout_at(until, transport::open(endpoint, context)).await;
        let mut live = opened.map_err(|_| ConnectError::TimedOut {
            limit: context.deadlines.startup,
            output: ServerOutput::default(),
        })??;
        let opened = Instant::now();
        context.stage.set(ConnectStage::Handshake);
        live.attempt.opening = Some(opened - started);
        let remaining = until.saturating_duration_since(opened);
        let handshake = negotiate_session(&live.session, first, remaining, context);
        let error = match timeout_at(until, handshake).await {
            // The program was checked before the child was started. The interpreter of a script may
            // have opened the script later, so check again.
            Ok(Ok(handshake)) => match live.recheck_program().await {
                Ok(()) => {
                    if let Some(handshake) = handshake {
                        set_handshake(&live.session, handshake, context).await;
                        set_log_level(&live.session, context);
                        live.attempt.handshake = Some(opened.elapsed());
                    }
                    return Ok(live);
                }
                Err(changed) => changed,
            },
            Ok(Err(HandshakeError::SessionEnded)) => live.failure().await,
            Ok(Err(HandshakeError::Rejected(rejection))) => ConnectError::Rejected(rejection),
            Ok(Err(HandshakeError::Failed(error))) => http_connect_error(error),
            Ok(Err(HandshakeError::TimedOut)) | Err(_) => ConnectError::TimedOut {
                limit: context.deadlines.startup,
                output: live.output(),
            },
        };
        live.shut_down().await;
        Err(error)
    }
}

/// Stores the result of the handshake in the session. Subscribes to the change notifications of a
/// modern server.
async fn set_handshake(session: &Session, mut handshake: ServerHello, context: &ClientContext) {
    if session.is_remote() {
        // The server received the credential of this client and may repeat it in its texts.
        context.session.redactor.redact_handshake(&mut handshake);
    }
    match session {
        Session::Line(line) => {
            let is_modern = handshake.version.era() == Era::Modern;
            let interests = ListChangeFilter::supported_by(&handshake.capabilities);
            line.set_handshake(handshake);
            if is_modern && !interests.is_empty() {
                let mut listening = Box::pin(Arc::clone(line).listen(interests));
                // Poll once, so that the subscription is sent before the first list request.
                // Otherwise a change after the list request and before the subscription would be
                // missed.
                let _ = (&mut listening).now_or_never();
                context.tasks.spawn(listening);
            }
        }
        #[cfg(feature = "http")]
        Session::StreamableHttp(http) => http.set_handshake(handshake).await,
        #[cfg(feature = "http")]
        Session::Sse2024(sse) => sse.set_handshake(handshake),
        Session::Local(_) => {}
    }
}

/// Sends `logging/setLevel` in the background if a log level is configured.
/// [`Session::set_log_level`] sends it only to legacy servers with the logging capability.
fn set_log_level(session: &Session, context: &ClientContext) {
    if context.session.log_level.is_some() {
        let (session, deadline) = (session.clone(), Deadline::after(context.deadlines.list));
        context
            .tasks
            .spawn(async move { session.set_log_level(deadline).await });
    }
}
