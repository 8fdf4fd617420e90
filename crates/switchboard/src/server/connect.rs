//! One attempt to reach a server: open, shake hands, done.
//!
//! It makes a [`Live`] session or says what was wrong, in words that help; when and whether to try
//! again is the owner's affair. Dropping the attempt ends whatever it had started.

mod error;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use switchboard_config::{PinnedProgram, RemoteKind, StdioConfig};
use switchboard_process::{ChildProcess, ExitOutcome, ProcessSupervisor};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::handshake::{HandshakeError, Opening, shake_hands, shake_hands_on_stream};
pub(crate) use error::ConnectError;
use error::LastWords;

use super::negotiate::Refusal;
use super::retry_slots::RetrySlots;
use crate::cache::ServerCache;
use crate::limits::Deadlines;
use crate::mcp::{Era, ServerHello};
use crate::network::Network;
use crate::session::http::{AuthorizedClient, Health, Sse2024Session, StreamableHttpSession};
use crate::session::{
    Deadline, LineSession, LocalSession, RequestError, Session, SessionContext, SessionEnd,
    Streams, TransportFailure,
};
use crate::status::Attempt;
use crate::transport::environment::{self, Variables};
use crate::transport::http::{HttpClient, Target};
use crate::transport::memory::{Instances, Kind, LocalServer, ServerInstance};
use crate::transport::remote::RemoteEndpoint;
use crate::transport::stderr::StderrTail;
use crate::transport::{Connector, stdio};
use crate::wire::encode::Interests;

/// How long is waited for a child's exit code and last words once its output has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Where a server is to be found.
#[derive(Clone)]
pub(crate) enum Endpoint {
    Stdio(StdioConfig),
    Local(Arc<dyn LocalServer>),
    Stream(Arc<dyn Connector>),
    Remote(RemoteEndpoint),
    /// One that the embedding program provides under this name, or does not.
    Named {
        name: String,
        instances: Arc<Instances>,
    },
    /// An entry without consent, or without sense: there is nothing that could be opened.
    Withheld,
}

impl From<ServerInstance> for Endpoint {
    fn from(instance: ServerInstance) -> Self {
        match instance.into_kind() {
            Kind::Local(server) => Self::Local(server),
            Kind::Stream(dial) => Self::Stream(dial),
        }
    }
}

impl Endpoint {
    pub(crate) fn is_child(&self) -> bool {
        matches!(self, Self::Stdio(_))
    }

    pub(crate) fn is_remote(&self) -> bool {
        matches!(self, Self::Remote(_))
    }

    pub(crate) fn kind_name(&self) -> &'static str {
        match self {
            Self::Stdio(_) => "stdio",
            Self::Local(_) | Self::Named { .. } => "sdk",
            Self::Stream(_) => "stream",
            Self::Remote(remote) => remote.kind_name(),
            Self::Withheld => "withheld",
        }
    }
}

/// What an attempt needs to know.
pub(crate) struct Site {
    pub(crate) endpoint: Endpoint,
    pub(crate) context: SessionContext,
    pub(crate) deadlines: Deadlines,
    /// Our environment, as far as it was passed in.
    pub(crate) variables: Arc<Variables>,
    /// Where a child without a `cwd` of its own works.
    pub(crate) directory: Option<PathBuf>,
    /// What the user approved, where that was a certain program.
    pub(crate) seal: Option<PinnedProgram>,
    pub(crate) memory: Arc<dyn ServerCache>,
    /// Under which key this server is remembered; servers made in code are not.
    pub(crate) memory_key: Option<String>,
    pub(crate) children: ProcessSupervisor,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
    /// Proxies and certificates.
    pub(crate) network: Arc<Network>,
    /// How remote servers are looked after.
    pub(crate) health: Health,
    /// When the servers of the host are tried again.
    pub(crate) retry_slots: Arc<RetrySlots>,
}

/// An open session and what has to be ended with it.
pub(crate) struct Live {
    pub(crate) session: Session,
    process: Option<ChildProcess>,
    pub(crate) stderr: Option<StderrTail>,
    deadlines: Deadlines,
    /// Ends the tasks that serve this session.
    stop: CancellationToken,
    began: Instant,
    /// How it came to be.
    pub(crate) attempt: Attempt,
}

impl Live {
    fn without_child(session: Session, deadlines: Deadlines, stop: CancellationToken) -> Self {
        Self {
            session,
            process: None,
            stderr: None,
            deadlines,
            stop,
            began: Instant::now(),
            attempt: Attempt::default(),
        }
    }

    /// How long it has lasted.
    pub(crate) fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// Ends the session and the child: stdin is closed first, then it is waited for, then signals.
    pub(crate) async fn shut_down(mut self) {
        let session = self.session.clone();
        // What was given up by now is not to go on for want of a word.
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

    /// Whether there is a process of ours behind it.
    pub(crate) fn has_child(&self) -> bool {
        self.process.is_some()
    }

    /// Comes back when the session is over, or when its child is: somebody else may hold the
    /// child's output open for ever.
    pub(crate) async fn ended(&mut self) {
        let session = self.session.clone();
        tokio::select! {
            biased;
            _ = session.ended() => {}
            () = self.child_ended() => {
                // What it wrote before it left is still to be read.
                let _ = timeout(LAST_WORDS, session.ended()).await;
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

    /// Says how a session that ended by itself came to its end.
    pub(crate) async fn post_mortem(&mut self, site: &Site) -> ConnectError {
        // Writing may fail before all was read: the end of the session is when both are over.
        let end = timeout(2 * LAST_WORDS, self.session.ended()).await;
        let end = end.unwrap_or(SessionEnd::Eof { partial_line: None });
        if let SessionEnd::NeedsLogin(challenge) = end {
            return ConnectError::NeedsLogin(challenge);
        }
        let exit = self.exit().await;
        let last_words = self.last_words().await;
        gone(&end, exit, last_words, site)
    }

    async fn exit(&mut self) -> Option<ExitOutcome> {
        let process = self.process.as_mut()?;
        timeout(LAST_WORDS, process.wait()).await.ok()
    }

    /// What it printed, once it has had the time to print it.
    async fn last_words(&self) -> LastWords {
        if let Some(stderr) = &self.stderr {
            let _ = timeout(LAST_WORDS, stderr.drained()).await;
        }
        self.words_so_far()
    }

    fn words_so_far(&self) -> LastWords {
        let noise = match &self.session {
            Session::Line(line) => line.stray_output(),
            _ => None,
        };
        let stderr = self.stderr.as_ref().map(StderrTail::last_lines);
        LastWords {
            stderr: stderr.unwrap_or_default(),
            noise,
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.session.close();
        self.stop.cancel();
    }
}

fn gone(
    end: &SessionEnd,
    exit: Option<ExitOutcome>,
    last_words: LastWords,
    site: &Site,
) -> ConnectError {
    let what = match (end, exit) {
        (
            SessionEnd::Eof { partial_line: None } | SessionEnd::Io(_) | SessionEnd::Closed,
            Some(exit),
        ) => format!("the server {exit}"),
        (end, Some(exit)) => format!("{end}; it {exit}"),
        (end, None) => end.to_string(),
    };
    let withheld = match &site.endpoint {
        Endpoint::Stdio(config) => {
            environment::named_but_withheld(&last_words.stderr, &site.variables, config)
        }
        _ => None,
    };
    ConnectError::Gone {
        what,
        last_words,
        withheld,
    }
}

/// By which of its transports a server is spoken to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Usual,
    /// The oldest one over HTTP.
    Sse2024Session,
}

/// Opens a session before `end`.
pub(crate) async fn connect(site: &Site, end: Instant) -> Result<Live, ConnectError> {
    let kind = match &site.endpoint {
        Endpoint::Remote(remote) => Some(remote.kind),
        _ => None,
    };
    if kind == Some(RemoteKind::Sse) {
        return attempt(site, Opening::Initialize, Way::Sse2024Session, end).await;
    }
    match connect_usually(site, end).await {
        Err(error @ ConnectError::NotStreamable(_)) if kind == Some(RemoteKind::Negotiated) => {
            match attempt(site, Opening::Initialize, Way::Sse2024Session, end).await {
                // Neither of them is there: what was said first is to be heard.
                Err(ConnectError::Unreachable(_) | ConnectError::NotStreamable(_)) => {
                    Err(error.of_both())
                }
                other => other,
            }
        }
        other => other,
    }
}

async fn connect_usually(site: &Site, end: Instant) -> Result<Live, ConnectError> {
    let mut remembered = site
        .memory_key
        .as_deref()
        .and_then(|key| site.memory.era(key));
    let first = match remembered {
        Some(Era::Legacy) => Opening::Initialize,
        Some(Era::Modern) | None => Opening::Probe,
    };
    let live = match attempt(site, first, Way::Usual, end).await {
        // It minds the probe, or no longer speaks what it spoke before: one more try.
        Err(gone @ ConnectError::Gone { .. }) if first == Opening::Probe => {
            match attempt(site, Opening::Initialize, Way::Usual, end).await {
                // So it did not mind the probe, it only went away: it may come back.
                Err(ConnectError::Refused(_)) => Err(gone),
                other => other,
            }
        }
        Err(error) if first == Opening::Initialize && error.is_of_handshake() => {
            // What was remembered may be to blame: without it there is one more way to try.
            site.forget_era();
            remembered = None;
            match error {
                ConnectError::Gone { .. }
                | ConnectError::Refused(_)
                | ConnectError::NotStreamable(_) => {
                    attempt(site, Opening::Probe, Way::Usual, end).await
                }
                other => Err(other),
            }
        }
        other => other,
    }?;
    site.remember_era(&live.session, remembered);
    Ok(live)
}

impl Site {
    fn forget_era(&self) {
        if let Some(key) = &self.memory_key {
            self.memory.forget_era(key);
        }
    }

    fn remember_era(&self, session: &Session, remembered: Option<Era>) {
        // A server whose first answer gets lost needs a question that it may fail to answer.
        let was_garbled = matches!(session, Session::Line(line) if line.lost_a_message());
        let era = session.handshake().map(|handshake| handshake.version.era());
        if let (Some(key), Some(era)) = (&self.memory_key, era)
            && remembered != Some(era)
            && !was_garbled
        {
            self.memory.remember_era(key, era);
        }
    }
}

async fn attempt(
    site: &Site,
    opening: Opening,
    way: Way,
    end: Instant,
) -> Result<Live, ConnectError> {
    let began = Instant::now();
    let opened = timeout_at(end, open(site, way)).await;
    let mut live = opened.map_err(|_| ConnectError::TimedOut {
        after: site.deadlines.startup,
        last_words: LastWords::default(),
    })??;
    let opened = Instant::now();
    live.attempt.opening = Some(opened - began);
    let left = end.saturating_duration_since(opened);
    let outcome = timeout_at(end, agree(&live.session, opening, left, site)).await;
    let error = match outcome {
        Ok(Ok(handshake)) => {
            if let Some(handshake) = handshake {
                set_handshake(&live.session, handshake, site).await;
                ask_for_log(&live.session, site);
                live.attempt.handshake = Some(opened.elapsed());
            }
            return Ok(live);
        }
        Ok(Err(HandshakeError::Gone)) => live.post_mortem(site).await,
        Ok(Err(HandshakeError::Refused(status))) => ConnectError::Refused(status),
        Ok(Err(HandshakeError::Failed(error))) => unreachable_by(error),
        Ok(Err(HandshakeError::TimedOut)) | Err(_) => ConnectError::TimedOut {
            after: site.deadlines.startup,
            last_words: live.words_so_far(),
        },
    };
    live.shut_down().await;
    Err(error)
}

/// The first exchange; a server in this process needs none.
async fn agree(
    session: &Session,
    opening: Opening,
    left: Duration,
    site: &Site,
) -> Result<Option<ServerHello>, HandshakeError> {
    let handshake = match session {
        Session::Line(line) => shake_hands(line, opening, left, &site.deadlines).await?,
        Session::StreamableHttp(http) => {
            // What is remote takes more room than all else.
            Box::pin(shake_hands(http, opening, left, &site.deadlines)).await?
        }
        Session::Sse2024(sse) => shake_hands_on_stream(sse, left).await?,
        Session::Local(_) => return Ok(None),
    };
    Ok(Some(handshake))
}

async fn set_handshake(session: &Session, mut handshake: ServerHello, site: &Site) {
    if session.is_remote() {
        // It knows the credential that it was asked with.
        site.context.redactor.redact_hello(&mut handshake);
    }
    match session {
        Session::Line(line) => {
            let is_modern = handshake.version.era() == Era::Modern;
            let interests = Interests::in_what(&handshake.capabilities);
            line.set_handshake(handshake);
            if is_modern && !interests.is_none() {
                let mut listening = Box::pin(Arc::clone(line).listen(interests));
                // Asked before the first listing, so that no change falls between the two.
                let _ = (&mut listening).now_or_never();
                site.tasks.spawn(listening);
            }
        }
        Session::StreamableHttp(http) => http.set_handshake(handshake).await,
        Session::Sse2024(sse) => sse.set_handshake(handshake),
        Session::Local(_) => {}
    }
}

/// Asks for the server's log where that is wanted. Nothing waits for the answer.
fn ask_for_log(session: &Session, site: &Site) {
    if site.context.log_level.is_some() {
        let (session, deadline) = (session.clone(), Deadline::after(site.deadlines.list));
        site.tasks
            .spawn(async move { session.set_log_level(deadline).await });
    }
}

/// Why a remote server could not be opened.
fn unreachable_by(error: RequestError) -> ConnectError {
    match error {
        RequestError::NeedsLogin(challenge) => ConnectError::NeedsLogin(challenge),
        RequestError::Transport(failed) => match failed.status {
            Some(400 | 404 | 405) => ConnectError::NotStreamable(failed),
            _ => ConnectError::Unreachable(failed),
        },
        RequestError::InvalidResponse(problem) => ConnectError::Refused(Refusal::Unusable(problem)),
        RequestError::ErrorResponse(error) => ConnectError::Refused(Refusal::Refused(error)),
        other => ConnectError::Unreachable(TransportFailure::unknown(other.to_string())),
    }
}

async fn open(site: &Site, way: Way) -> Result<Live, ConnectError> {
    // Not the server's own: its last words are read until it is gone.
    let stop = CancellationToken::new();
    let deadlines = site.deadlines.clone();
    let (streams, process, stderr) = match &site.endpoint {
        Endpoint::Stdio(config) => {
            let home = site.directory.as_deref();
            let seal = site.seal.clone();
            let started = stdio::start(config, &site.variables, home, seal, &site.children).await?;
            let stderr = StderrTail::spawn(
                started.stderr,
                site.context.limits.stderr_tail_bytes,
                site.context.redactor.clone(),
                &site.tasks,
                stop.clone(),
            );
            (started.streams, Some(started.process), Some(stderr))
        }
        Endpoint::Stream(dial) => (
            dialled(dial.as_ref(), site.deadlines.startup).await?,
            None,
            None,
        ),
        Endpoint::Local(server) => {
            let session = open_local(Arc::clone(server), site, stop.child_token())?;
            return Ok(Live::without_child(session, deadlines, stop));
        }
        Endpoint::Named { name, instances } => match named(name, instances)?.into_kind() {
            Kind::Stream(dial) => {
                let streams = dialled(dial.as_ref(), site.deadlines.startup).await?;
                (streams, None, None)
            }
            Kind::Local(server) => {
                let session = open_local(server, site, stop.child_token())?;
                return Ok(Live::without_child(session, deadlines, stop));
            }
        },
        Endpoint::Remote(remote) => {
            let session = Box::pin(open_remote(remote, way, site, stop.child_token())).await?;
            return Ok(Live::without_child(session, deadlines, stop));
        }
        Endpoint::Withheld => return Err(ConnectError::Withheld),
    };
    let context = site.context.clone();
    let session = LineSession::spawn(streams, context, &site.tasks, stop.child_token());
    Ok(Live {
        session: Session::Line(session),
        process,
        stderr,
        deadlines,
        stop,
        began: Instant::now(),
        attempt: Attempt::default(),
    })
}

fn named(name: &str, instances: &Instances) -> Result<ServerInstance, ConnectError> {
    instances
        .named(name)
        .map_err(|provided| ConnectError::NotProvided {
            name: name.to_owned(),
            provided,
        })
}

fn open_local(
    server: Arc<dyn LocalServer>,
    site: &Site,
    stop: CancellationToken,
) -> Result<Session, ConnectError> {
    let limits = &site.context.limits;
    let session = LocalSession::open(server, limits, &site.tasks, stop);
    session.map(Session::Local).map_err(ConnectError::Defective)
}

async fn open_remote(
    remote: &RemoteEndpoint,
    way: Way,
    site: &Site,
    stop: CancellationToken,
) -> Result<Session, ConnectError> {
    let target = Target {
        url: remote.url.clone(),
        tls: remote.tls.clone(),
    };
    let network = Arc::clone(&site.network);
    let client = HttpClient::new(target, network, site.deadlines.connect, site.tasks.clone())
        .map_err(|error| ConnectError::Unreachable(TransportFailure::from(&error)))?;
    let (server, url) = (site.context.server.clone(), remote.url.clone());
    let client = AuthorizedClient::new(server, url, client, Arc::clone(&remote.auth));
    let context = site.context.clone();
    match way {
        Way::Usual => {
            let http = StreamableHttpSession::new(client, context, &site.tasks, stop, &site.health);
            Ok(Session::StreamableHttp(http))
        }
        Way::Sse2024Session => {
            let stream =
                Sse2024Session::open(client, context, &site.tasks, stop, &site.health).await;
            stream.map(Session::Sse2024).map_err(unreachable_by)
        }
    }
}

async fn dialled(dial: &dyn Connector, within: Duration) -> Result<Streams, ConnectError> {
    match timeout(within, dial.connect()).await {
        Ok(Ok(streams)) => Ok(streams),
        Ok(Err(error)) => Err(ConnectError::Dial(error.to_string())),
        Err(_) => Err(ConnectError::Dial(format!(
            "no connection within {within:?}"
        ))),
    }
}
