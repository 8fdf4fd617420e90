//! One attempt to connect to a server: open the transport, negotiate the protocol era, shake hands.
//!
//! [`connect`] returns a [`LiveSession`] or a [`ConnectError`]. It retries only to negotiate the era or
//! the HTTP transport; whether and when to try again after a failure is up to the caller.
//! Invariant: dropping the future ends the child process and the tasks of the attempt.

mod error;
mod handshake;
mod negotiate;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use switchboard_process::{ChildProcess, ExitOutcome, Launch, ProcessSupervisor};
use switchboard_wire::encode::ListChangeFilter;
use switchboard_wire::mcp::{Era, ServerHello};
use switchboard_wire::{ByteStreams, Connector, InstanceKind, LocalServer, ServerInstance};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::handshake::{FirstRequest, HandshakeError, shake_hands, shake_hands_sse_2024};
use crate::connect_stage::ConnectAttempt;
use crate::deadlines::Deadlines;
use crate::http::{HttpClient, HttpEndpoint, HttpTransport, Network, Target};
use crate::session::http::{AuthorizedClient, Health, Sse2024Session, StreamableHttpSession};
use crate::session::{
    Deadline, LineSession, LocalSession, RequestError, Session, SessionContext, SessionEnd,
    TransportFailure,
};
use crate::stderr::StderrTail;

pub use self::error::{ConnectError, ServerOutput};
pub use self::negotiate::HandshakeRejection;

/// Time to wait for a child's exit code and the rest of its stderr after its stdout ended.
const EXIT_GRACE: Duration = Duration::from_millis(500);

/// How to reach a server.
#[derive(Clone)]
pub enum Endpoint {
    /// A child process that speaks over stdin and stdout.
    Process(Launch),
    /// A server in this process.
    Local(Arc<dyn LocalServer>),
    /// A byte stream that the embedding program opens.
    Stream(Arc<dyn Connector>),
    /// A server behind a URL.
    Http(HttpEndpoint),
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(launch) => f.debug_tuple("Process").field(launch).finish(),
            Self::Http(endpoint) => f.debug_tuple("Http").field(endpoint).finish(),
            Self::Local(_) => f.write_str("Local"),
            Self::Stream(_) => f.write_str("Stream"),
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

/// What all connections to one server share.
pub struct ClientContext {
    /// What the sessions share.
    pub session: SessionContext,
    /// Time limits.
    pub deadlines: Deadlines,
    /// Starts child processes.
    pub supervisor: ProcessSupervisor,
    /// Tracks the tasks of all sessions.
    pub tasks: TaskTracker,
    /// Proxies and certificates.
    pub network: Arc<Network>,
    /// When a silent HTTP server is pinged.
    pub health: Health,
}

impl fmt::Debug for ClientContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientContext")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

/// An open session with its child process, if it has one. Dropping it ends both.
pub struct LiveSession {
    /// The session.
    pub session: Session,
    process: Option<ChildProcess>,
    /// The end of what the child wrote to stderr.
    pub stderr: Option<StderrTail>,
    deadlines: Deadlines,
    /// Ends the tasks that serve this session.
    stop: CancellationToken,
    opened_at: Instant,
    /// The duration of each step of the connection attempt.
    pub attempt: ConnectAttempt,
}

impl LiveSession {
    fn without_child(session: Session, deadlines: Deadlines, stop: CancellationToken) -> Self {
        Self {
            session,
            process: None,
            stderr: None,
            deadlines,
            stop,
            opened_at: Instant::now(),
            attempt: ConnectAttempt::default(),
        }
    }

    /// The time since the transport was opened.
    pub fn age(&self) -> Duration {
        self.opened_at.elapsed()
    }

    /// Ends the session, then the child: closes stdin, waits, sends SIGTERM, waits, sends SIGKILL.
    pub async fn shut_down(mut self) {
        let session = self.session.clone();
        // Pending cancellations must reach the server, or it keeps executing those calls.
        let _ = timeout(self.deadlines.exit_after_eof, session.flush_notifications()).await;
        self.session.close();
        if let Session::StreamableHttp(http) = session {
            http.delete_session(self.deadlines.exit_after_eof).await;
        }
        if let Some(process) = self.process.take() {
            process
                .shut_down(
                    self.deadlines.exit_after_eof,
                    self.deadlines.exit_after_term,
                )
                .await;
        }
        self.stop.cancel();
    }

    /// Whether the server is a child process of this program.
    pub fn has_child(&self) -> bool {
        self.process.is_some()
    }

    /// Waits until the session or its child ends. A descendant may keep the stdout of a dead child
    /// open, so the end of the stream alone is not enough.
    pub async fn ended(&mut self) {
        let session = self.session.clone();
        tokio::select! {
            biased;
            _ = session.ended() => {}
            () = self.child_ended() => {
                // Read what the child wrote before it exited.
                let _ = timeout(EXIT_GRACE, session.ended()).await;
                session.close();
            }
        }
    }

    async fn child_ended(&mut self) {
        match &mut self.process {
            Some(process) => drop(process.wait().await),
            None => std::future::pending().await,
        }
    }

    /// Returns why the session ended: the exit code of the child, its last output, or the transport
    /// error.
    pub async fn failure(&mut self) -> ConnectError {
        // A failed write can precede the end of the reader; the session ends when both are done.
        let end = timeout(2 * EXIT_GRACE, self.session.ended()).await;
        let end = end.unwrap_or(SessionEnd::Eof { partial_line: None });
        if let SessionEnd::NeedsLogin(login) = end {
            return ConnectError::NeedsLogin(login);
        }
        let exit = self.exit_outcome().await;
        let output = self.last_output().await;
        let reason = match (&end, exit) {
            (
                SessionEnd::Eof { partial_line: None } | SessionEnd::Io(_) | SessionEnd::Closed,
                Some(exit),
            ) => format!("the server {exit}"),
            (end, Some(exit)) => format!("{end}; it {exit}"),
            (end, None) => end.to_string(),
        };
        ConnectError::SessionEnded { reason, output }
    }

    async fn exit_outcome(&mut self) -> Option<ExitOutcome> {
        let process = self.process.as_mut()?;
        timeout(EXIT_GRACE, process.wait()).await.ok()
    }

    /// The output of the server after its stderr was read to the end.
    async fn last_output(&self) -> ServerOutput {
        if let Some(stderr) = &self.stderr {
            let _ = timeout(EXIT_GRACE, stderr.drained()).await;
        }
        self.output()
    }

    /// The output of the server so far.
    fn output(&self) -> ServerOutput {
        let stray_stdout = match &self.session {
            Session::Line(line) => line.stray_output(),
            _ => None,
        };
        let stderr = self.stderr.as_ref().map(StderrTail::last_lines);
        ServerOutput {
            stderr: stderr.unwrap_or_default(),
            stray_stdout,
        }
    }
}

impl fmt::Debug for LiveSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveSession")
            .field("session", &self.session)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

impl Drop for LiveSession {
    fn drop(&mut self) {
        self.session.close();
        self.stop.cancel();
    }
}

/// Connects before `until`.
///
/// `era` is the protocol era of the last session with this server, if known. It decides which
/// handshake is tried first. On return it is the negotiated era, or `None` if the server no longer
/// accepts the handshake of that era.
pub async fn connect(
    endpoint: &Endpoint,
    context: &ClientContext,
    era: &mut Option<Era>,
    until: Instant,
) -> Result<LiveSession, ConnectError> {
    let attempt = Attempt {
        endpoint,
        context,
        until,
    };
    let transport = match endpoint {
        Endpoint::Http(http) => http.transport,
        _ => return attempt.connect_negotiated(era).await,
    };
    if transport == HttpTransport::Sse2024 {
        return attempt.connect_sse_2024().await;
    }
    match attempt.connect_negotiated(era).await {
        Err(error @ ConnectError::NotStreamable(_)) if transport == HttpTransport::Detect => {
            match attempt.connect_sse_2024().await {
                Err(ConnectError::Unreachable(_) | ConnectError::NotStreamable(_)) => {
                    Err(error.into_no_transport())
                }
                other => other,
            }
        }
        other => other,
    }
}

/// The inputs of one connection attempt.
#[derive(Clone, Copy)]
struct Attempt<'a> {
    endpoint: &'a Endpoint,
    context: &'a ClientContext,
    until: Instant,
}

impl Attempt<'_> {
    /// Connects over HTTP+SSE of 2024-11-05, which has the legacy handshake only.
    async fn connect_sse_2024(self) -> Result<LiveSession, ConnectError> {
        self.open_and_shake_hands(FirstRequest::Initialize, HttpTransport::Sse2024)
            .await
    }

    async fn connect_streamable(self, first: FirstRequest) -> Result<LiveSession, ConnectError> {
        self.open_and_shake_hands(first, HttpTransport::Streamable)
            .await
    }

    /// Tries the handshake of the known era first, then the other one on a new connection.
    async fn connect_negotiated(self, era: &mut Option<Era>) -> Result<LiveSession, ConnectError> {
        let first = match *era {
            Some(Era::Legacy) => FirstRequest::Initialize,
            Some(Era::Modern) | None => FirstRequest::Discover,
        };
        let live = match self.connect_streamable(first).await {
            // The server may have exited because it does not know `server/discover`.
            Err(ended @ ConnectError::SessionEnded { .. }) if first == FirstRequest::Discover => {
                match self.connect_streamable(FirstRequest::Initialize).await {
                    // It rejects `initialize`, so the exit was a crash, which may be temporary.
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
                        self.connect_streamable(FirstRequest::Discover).await
                    }
                    other => Err(other),
                }
            }
            other => other,
        }?;
        // If a response was lost, the era was guessed: the next attempt must probe again.
        let lost_message = matches!(&live.session, Session::Line(line) if line.lost_a_message());
        if !lost_message && let Some(handshake) = live.session.handshake() {
            *era = Some(handshake.version.era());
        }
        Ok(live)
    }

    async fn open_and_shake_hands(
        self,
        first: FirstRequest,
        transport: HttpTransport,
    ) -> Result<LiveSession, ConnectError> {
        let Self { context, until, .. } = self;
        let started = Instant::now();
        let opened = timeout_at(until, self.open(transport)).await;
        let mut live = opened.map_err(|_| ConnectError::TimedOut {
            limit: context.deadlines.startup,
            output: ServerOutput::default(),
        })??;
        let opened = Instant::now();
        live.attempt.opening = Some(opened - started);
        let remaining = until.saturating_duration_since(opened);
        let handshake = negotiate_session(&live.session, first, remaining, &context.deadlines);
        let error = match timeout_at(until, handshake).await {
            Ok(Ok(handshake)) => {
                if let Some(handshake) = handshake {
                    set_handshake(&live.session, handshake, context).await;
                    set_log_level(&live.session, context);
                    live.attempt.handshake = Some(opened.elapsed());
                }
                return Ok(live);
            }
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

    /// Opens the transport without sending a request.
    async fn open(self, transport: HttpTransport) -> Result<LiveSession, ConnectError> {
        let context = self.context;
        // Not a child of the server's token: stderr is read until the process has exited.
        let stop = CancellationToken::new();
        let deadlines = context.deadlines.clone();
        let (streams, process, stderr) = match self.endpoint {
            Endpoint::Process(launch) => {
                let (process, pipes) = context.supervisor.start(launch.clone()).await?;
                let stderr = StderrTail::spawn(
                    pipes.stderr,
                    context.session.limits.stderr_tail_bytes,
                    context.session.redactor.clone(),
                    &context.tasks,
                    stop.clone(),
                );
                let streams = ByteStreams {
                    reader: Box::new(pipes.stdout),
                    writer: Box::new(pipes.stdin),
                };
                (streams, Some(process), Some(stderr))
            }
            Endpoint::Stream(connector) => {
                let streams = open_stream(connector.as_ref(), deadlines.startup).await?;
                (streams, None, None)
            }
            Endpoint::Local(server) => {
                let limits = &context.session.limits;
                let token = stop.child_token();
                let session = LocalSession::open(Arc::clone(server), limits, &context.tasks, token)
                    .map_err(ConnectError::Defective)?;
                let session = Session::Local(session);
                return Ok(LiveSession::without_child(session, deadlines, stop));
            }
            Endpoint::Http(endpoint) => {
                let opening = open_http(endpoint, transport, context, stop.child_token());
                // Boxed because this future is larger than those of the other transports.
                let session = Box::pin(opening).await?;
                return Ok(LiveSession::without_child(session, deadlines, stop));
            }
        };
        let session = context.session.clone();
        let session = LineSession::spawn(streams, session, &context.tasks, stop.child_token());
        Ok(LiveSession {
            session: Session::Line(session),
            process,
            stderr,
            deadlines,
            stop,
            opened_at: Instant::now(),
            attempt: ConnectAttempt::default(),
        })
    }
}

/// Performs the handshake. A server in this process has none.
async fn negotiate_session(
    session: &Session,
    first: FirstRequest,
    remaining: Duration,
    deadlines: &Deadlines,
) -> Result<Option<ServerHello>, HandshakeError> {
    let handshake = match session {
        Session::Line(line) => shake_hands(line, first, remaining, deadlines).await?,
        Session::StreamableHttp(http) => {
            // Boxed because this future is larger than those of the other transports.
            Box::pin(shake_hands(http, first, remaining, deadlines)).await?
        }
        Session::Sse2024(sse) => shake_hands_sse_2024(sse, remaining).await?,
        Session::Local(_) => return Ok(None),
    };
    Ok(Some(handshake))
}

async fn set_handshake(session: &Session, mut handshake: ServerHello, context: &ClientContext) {
    if session.is_remote() {
        // The server received our credential and may repeat it.
        context.session.redactor.redact_handshake(&mut handshake);
    }
    match session {
        Session::Line(line) => {
            let is_modern = handshake.version.era() == Era::Modern;
            let interests = ListChangeFilter::supported_by(&handshake.capabilities);
            line.set_handshake(handshake);
            if is_modern && !interests.is_empty() {
                let mut listening = Box::pin(Arc::clone(line).listen(interests));
                // Poll once, so that the subscription is sent before the first listing and no change
                // is missed between the two.
                let _ = (&mut listening).now_or_never();
                context.tasks.spawn(listening);
            }
        }
        Session::StreamableHttp(http) => http.set_handshake(handshake).await,
        Session::Sse2024(sse) => sse.set_handshake(handshake),
        Session::Local(_) => {}
    }
}

/// Sends `logging/setLevel` in the background if a log level is configured.
fn set_log_level(session: &Session, context: &ClientContext) {
    if context.session.log_level.is_some() {
        let (session, deadline) = (session.clone(), Deadline::after(context.deadlines.list));
        context
            .tasks
            .spawn(async move { session.set_log_level(deadline).await });
    }
}

/// Maps the error of the first HTTP request.
fn http_connect_error(error: RequestError) -> ConnectError {
    match error {
        RequestError::NeedsLogin(login) => ConnectError::NeedsLogin(login),
        RequestError::Transport(failure) => match failure.status {
            Some(400 | 404 | 405) => ConnectError::NotStreamable(failure),
            _ => ConnectError::Unreachable(failure),
        },
        RequestError::InvalidResponse(error) => {
            ConnectError::Rejected(HandshakeRejection::InvalidResponse(error))
        }
        RequestError::ErrorResponse(error) => {
            ConnectError::Rejected(HandshakeRejection::ErrorResponse(error))
        }
        other => ConnectError::Unreachable(TransportFailure::unknown(other.to_string())),
    }
}

async fn open_http(
    endpoint: &HttpEndpoint,
    transport: HttpTransport,
    context: &ClientContext,
    stop: CancellationToken,
) -> Result<Session, ConnectError> {
    let target = Target {
        url: endpoint.url.clone(),
        tls: endpoint.tls.clone(),
    };
    let network = Arc::clone(&context.network);
    let tasks = &context.tasks;
    let client = HttpClient::new(target, network, context.deadlines.connect, tasks.clone())
        .map_err(|error| ConnectError::Unreachable(TransportFailure::from(&error)))?;
    let (server, url) = (context.session.server.clone(), endpoint.url.clone());
    let client = AuthorizedClient::new(server, url, client, Arc::clone(&endpoint.auth));
    let session = context.session.clone();
    if transport == HttpTransport::Sse2024 {
        let opened = Sse2024Session::open(client, session, tasks, stop, &context.health).await;
        return opened.map(Session::Sse2024).map_err(http_connect_error);
    }
    let session = StreamableHttpSession::new(client, session, tasks, stop, &context.health);
    Ok(Session::StreamableHttp(session))
}

async fn open_stream(
    connector: &dyn Connector,
    limit: Duration,
) -> Result<ByteStreams, ConnectError> {
    match timeout(limit, connector.connect()).await {
        Ok(Ok(streams)) => Ok(streams),
        Ok(Err(error)) => Err(ConnectError::Connector(error.to_string())),
        Err(_) => Err(ConnectError::Connector(format!(
            "no connection within {limit:?}"
        ))),
    }
}
