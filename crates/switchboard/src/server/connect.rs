//! One attempt to reach a server: open, shake hands, done.
//!
//! It makes a [`Live`] session or says what was wrong, in words that help; when and whether to try
//! again is the owner's affair. Dropping the attempt ends whatever it had started.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use switchboard_config::{Seal, StdioConfig};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::handshake::{HandshakeError, Opening, shake_hands};
use super::memory::ServerMemory;
use super::negotiate::Refusal;
use super::status::{Attempt, Stage};
use crate::limits::Deadlines;
use crate::mcp::Era;
use crate::session::{Connection, LocalSession, Session, SessionContext, SessionEnd, Streams};
use crate::transport::children::Children;
use crate::transport::environment::{self, Variables};
use crate::transport::memory::LocalServer;
use crate::transport::process::{Exit, Process, Sought, SpawnError};
use crate::transport::stderr::StderrTail;
use crate::transport::{Dial, stdio};

/// How long is waited for a child's exit code and last words once its output has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Where a server is to be found.
#[derive(Clone)]
pub(crate) enum Endpoint {
    Stdio(StdioConfig),
    Local(Arc<dyn LocalServer>),
    Stream(Arc<dyn Dial>),
    /// A kind of server that this version does not speak to.
    NotBuilt(&'static str),
    /// An entry without consent, or without sense: there is nothing that could be opened.
    Withheld,
}

impl Endpoint {
    pub(crate) fn is_child(&self) -> bool {
        matches!(self, Self::Stdio(_))
    }

    pub(crate) fn kind_name(&self) -> &'static str {
        match self {
            Self::Stdio(_) => "stdio",
            Self::Local(_) => "sdk",
            Self::Stream(_) => "stream",
            Self::NotBuilt(kind) => kind,
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
    pub(crate) seal: Option<Seal>,
    pub(crate) memory: Arc<dyn ServerMemory>,
    /// Under which key this server is remembered; servers made in code are not.
    pub(crate) memory_key: Option<String>,
    pub(crate) children: Children,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
}

/// An open session and what has to be ended with it.
pub(crate) struct Live {
    pub(crate) session: Session,
    process: Option<Process>,
    pub(crate) stderr: Option<StderrTail>,
    deadlines: Deadlines,
    /// Ends the tasks that serve this session.
    stop: CancellationToken,
    /// How it came to be.
    pub(crate) attempt: Attempt,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error("servers of type {0} are not supported yet")]
    NotBuilt(&'static str),
    #[error("not approved")]
    Withheld,
    #[error("could not connect: {0}")]
    Dial(String),
    #[error("{what}{last_words}")]
    Gone {
        what: String,
        last_words: LastWords,
        withheld: Option<String>,
    },
    #[error("{0}")]
    Refused(Refusal),
    #[error("no answer to the handshake within {after:?}{last_words}")]
    TimedOut {
        after: Duration,
        last_words: LastWords,
    },
}

/// What a server printed before it failed, as the end of an error message.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LastWords {
    stderr: String,
    noise: Option<String>,
}

impl std::fmt::Display for LastWords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(noise) = &self.noise {
            write!(
                f,
                "; on stdout it printed {noise:?}, which is no MCP message"
            )?;
        }
        if !self.stderr.is_empty() {
            write!(f, "; its last words on stderr:\n{}", self.stderr)?;
        }
        Ok(())
    }
}

impl ConnectError {
    /// Trying again would only fail in the same way.
    pub(crate) fn is_permanent(&self) -> bool {
        match self {
            Self::Spawn(error) => !matches!(error, SpawnError::Other { .. }),
            Self::NotBuilt(_) | Self::Withheld | Self::Refused(_) => true,
            Self::Dial(_) | Self::Gone { .. } | Self::TimedOut { .. } => false,
        }
    }

    /// The server was started and went away.
    pub(crate) fn is_crash(&self) -> bool {
        matches!(self, Self::Gone { .. })
    }

    /// Which step it did not get past.
    pub(crate) fn stage(&self) -> Stage {
        match self {
            Self::Spawn(_) | Self::NotBuilt(_) | Self::Withheld | Self::Dial(_) => Stage::Open,
            Self::Gone { .. } => Stage::Alive,
            Self::Refused(_) | Self::TimedOut { .. } => Stage::Handshake,
        }
    }

    /// The server was there, and no session came about.
    fn is_of_handshake(&self) -> bool {
        self.stage() > Stage::Open
    }

    /// What to do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Spawn(SpawnError::NotFound { command, sought }) => Some(match sought {
                Sought::OnThePath => format!(
                    "is `{command}` installed and on the PATH? An absolute path in `command` works too"
                ),
                Sought::WithoutPath => {
                    "no PATH was passed in: see HostBuilder::environment".to_owned()
                }
                Sought::AtItsPlace => {
                    "there is no such file: mend the path in `command`, or install it there"
                        .to_owned()
                }
                Sought::From(folder) => format!(
                    "a relative path counts from the folder that the server works in, here {}: \
                     mend `command` or `cwd` in its entry, or write an absolute path",
                    folder.display()
                ),
            }),
            Self::Gone {
                withheld: Some(name),
                ..
            } => Some(format!(
                "it names {name}, which is set here but not passed on: write \
                 \"env\": {{\"{name}\": \"${{{name}}}\"}} or \"inheritEnv\": [\"{name}\"] into its entry"
            )),
            Self::Spawn(SpawnError::Changed { .. }) => Some("switchboard trust".to_owned()),
            Self::TimedOut { .. } => Some(
                "a slow start needs more time: `startupTimeout` in its entry, in milliseconds"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

impl Live {
    /// Ends the session and the child: stdin is closed first, then it is waited for, then signals.
    pub(crate) async fn shut_down(mut self) {
        self.session.close();
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
            Some(process) => drop(process.exited().await),
            None => std::future::pending().await,
        }
    }

    /// Says how a session that ended by itself came to its end.
    pub(crate) async fn post_mortem(&mut self, site: &Site) -> ConnectError {
        // Writing may fail before all was read: the end of the session is when both are over.
        let end = timeout(2 * LAST_WORDS, self.session.ended()).await;
        let end = end.unwrap_or(SessionEnd::Eof { half_line: None });
        let exit = self.exit().await;
        let last_words = self.last_words().await;
        gone(&end, exit, last_words, site)
    }

    async fn exit(&mut self) -> Option<Exit> {
        let process = self.process.as_mut()?;
        timeout(LAST_WORDS, process.exited()).await.ok()
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
            Session::Text(connection) => connection.noise(),
            Session::Local(_) => None,
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

fn gone(end: &SessionEnd, exit: Option<Exit>, last_words: LastWords, site: &Site) -> ConnectError {
    let what = match (end, exit) {
        (
            SessionEnd::Eof { half_line: None } | SessionEnd::Io(_) | SessionEnd::Closed,
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

/// Opens a session before `end`.
pub(crate) async fn connect(site: &Site, end: Instant) -> Result<Live, ConnectError> {
    let mut remembered = site
        .memory_key
        .as_deref()
        .and_then(|key| site.memory.era(key));
    let first = match remembered {
        Some(Era::Legacy) => Opening::Initialize,
        Some(Era::Modern) | None => Opening::Probe,
    };
    let live = match attempt(site, first, end).await {
        // It minds the probe, or no longer speaks what it spoke before: one more try.
        Err(gone @ ConnectError::Gone { .. }) if first == Opening::Probe => {
            match attempt(site, Opening::Initialize, end).await {
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
                ConnectError::Gone { .. } | ConnectError::Refused(_) => {
                    attempt(site, Opening::Probe, end).await
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
        let was_garbled = matches!(session, Session::Text(connection) if connection.was_garbled());
        let era = session.hello().map(|hello| hello.version.era());
        if let (Some(key), Some(era)) = (&self.memory_key, era)
            && remembered != Some(era)
            && !was_garbled
        {
            self.memory.remember_era(key, era);
        }
    }
}

async fn attempt(site: &Site, opening: Opening, end: Instant) -> Result<Live, ConnectError> {
    let began = Instant::now();
    let opened = timeout_at(end, open(site)).await;
    let mut live = opened.map_err(|_| ConnectError::TimedOut {
        after: site.deadlines.startup,
        last_words: LastWords::default(),
    })??;
    let Session::Text(connection) = live.session.clone() else {
        return Ok(live);
    };
    let opened = Instant::now();
    live.attempt.opening = Some(opened - began);
    let left = end.saturating_duration_since(opened);
    let outcome = timeout_at(
        end,
        shake_hands(&connection, opening, left, &site.deadlines),
    )
    .await;
    let error = match outcome {
        Ok(Ok(hello)) => {
            let is_modern = hello.version.era() == Era::Modern;
            let announces_changes = hello.capabilities.tools_list_changed;
            connection.establish(hello);
            live.attempt.handshake = Some(opened.elapsed());
            if is_modern && announces_changes {
                let mut listening = Box::pin(connection.listen());
                // Asked before the first listing, so that no change falls between the two.
                let _ = futures_util::poll!(&mut listening);
                site.tasks.spawn(listening);
            }
            return Ok(live);
        }
        Ok(Err(HandshakeError::Gone)) => live.post_mortem(site).await,
        Ok(Err(HandshakeError::Refused(refusal))) => ConnectError::Refused(refusal),
        Ok(Err(HandshakeError::TimedOut)) | Err(_) => ConnectError::TimedOut {
            after: site.deadlines.startup,
            last_words: live.words_so_far(),
        },
    };
    live.shut_down().await;
    Err(error)
}

async fn open(site: &Site) -> Result<Live, ConnectError> {
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
            let session = Session::Local(Arc::new(LocalSession::open(Arc::clone(server))));
            return Ok(Live {
                session,
                process: None,
                stderr: None,
                deadlines,
                stop,
                attempt: Attempt::default(),
            });
        }
        Endpoint::NotBuilt(kind) => return Err(ConnectError::NotBuilt(kind)),
        Endpoint::Withheld => return Err(ConnectError::Withheld),
    };
    let context = site.context.clone();
    let connection = Connection::spawn(streams, context, &site.tasks, stop.child_token());
    Ok(Live {
        session: Session::Text(connection),
        process,
        stderr,
        deadlines,
        stop,
        attempt: Attempt::default(),
    })
}

async fn dialled(dial: &dyn Dial, within: Duration) -> Result<Streams, ConnectError> {
    match timeout(within, dial.dial()).await {
        Ok(Ok(streams)) => Ok(streams.0),
        Ok(Err(error)) => Err(ConnectError::Dial(error.to_string())),
        Err(_) => Err(ConnectError::Dial(format!(
            "no connection within {within:?}"
        ))),
    }
}
