//! The state of one server, as its owner publishes it.

use std::sync::Arc;
use std::time::Duration;

use switchboard_config::PendingReason;
use tokio::time::Instant;

use crate::auth::login::LoginRequired;
use crate::id::Generation;
use crate::mcp::ServerHello;
use crate::session::Session;
use crate::status::{Attempt, ConnectionStatus, ServerPhase};
use crate::transport::stderr::StderrTail;

/// Where a server is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Configured, not started; a call wakes it.
    Dormant,
    /// Switched off before it was ever started.
    Off {
        /// By whom, and how it is switched on again.
        why: String,
    },
    /// Starting, shaking hands, or listing for the first time.
    Starting,
    Ready,
    /// The session just ended; how, is being found out.
    Lost,
    /// Away; the next attempt is at this time.
    Retrying {
        attempt: u32,
        at: Instant,
    },
    /// Waits for the user's consent; nothing of it has run.
    AwaitingApproval {
        waiting: PendingReason,
        hint: String,
    },
    /// Waits for somebody to log in; not tried again before it is asked for.
    NeedsAuth(Box<LoginRequired>),
    /// Gave up.
    Failed(Failure),
    /// `StreamEnd` for good.
    Stopped,
}

impl Phase {
    /// The phase without its data, as the status reports it.
    pub(crate) fn public(&self) -> ServerPhase {
        match self {
            Self::Dormant => ServerPhase::Dormant,
            Self::Off { .. } => ServerPhase::Off,
            Self::Starting => ServerPhase::Starting,
            Self::Ready => ServerPhase::Ready,
            Self::Lost => ServerPhase::Lost,
            Self::Retrying { .. } => ServerPhase::Retrying,
            Self::AwaitingApproval { .. } => ServerPhase::AwaitingApproval,
            Self::NeedsAuth(_) => ServerPhase::NeedsAuth,
            Self::Failed(_) => ServerPhase::Failed,
            Self::Stopped => ServerPhase::Stopped,
        }
    }
}

/// Why a server is given up until somebody asks for it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) error: String,
    /// What to do about it.
    pub(crate) hint: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) phase: Phase,
    /// False: the session is kept, and nothing of it is exposed.
    pub(crate) enabled: bool,
    pub(crate) generation: Generation,
    /// The open session; only in phase `Ready`.
    pub(crate) session: Option<Session>,
    /// What the server said when the last session began.
    pub(crate) hello: Option<Arc<ServerHello>>,
    /// The last thing that went wrong, as long as it matters.
    pub(crate) error: Option<String>,
    pub(crate) connect_time: Option<Duration>,
    /// How far the last attempt came.
    pub(crate) attempt: Option<Attempt>,
    pub(crate) notes: Arc<Vec<String>>,
    pub(crate) stderr: Option<StderrTail>,
}

impl State {
    pub(crate) fn new(phase: Phase) -> Self {
        Self {
            phase,
            enabled: true,
            generation: Generation::default(),
            session: None,
            hello: None,
            error: None,
            connect_time: None,
            attempt: None,
            notes: Arc::default(),
            stderr: None,
        }
    }

    /// There is, or there is not, a session to be had: no sense in waiting for it.
    pub(crate) fn is_settled(&self) -> bool {
        !matches!(self.phase, Phase::Starting | Phase::Lost)
    }

    /// No session comes about by itself.
    pub(crate) fn has_given_up(&self) -> bool {
        !matches!(
            self.phase,
            Phase::Starting | Phase::Ready | Phase::Lost | Phase::Retrying { .. }
        )
    }

    pub(crate) fn status(&self) -> ConnectionStatus {
        if !self.enabled {
            return ConnectionStatus::Disabled;
        }
        match &self.phase {
            Phase::Ready => ConnectionStatus::Connected,
            Phase::Failed(_) | Phase::Stopped => ConnectionStatus::Failed,
            Phase::NeedsAuth(_) => ConnectionStatus::NeedsAuth,
            Phase::Off { .. } => ConnectionStatus::Disabled,
            Phase::Dormant
            | Phase::Starting
            | Phase::Lost
            | Phase::Retrying { .. }
            | Phase::AwaitingApproval { .. } => ConnectionStatus::Pending,
        }
    }

    /// What went wrong, for the status.
    pub(crate) fn error(&self) -> Option<String> {
        match &self.phase {
            Phase::Failed(failure) => Some(failure.error.clone()),
            Phase::NeedsAuth(login) => Some(login.what.clone()),
            _ => self.error.clone(),
        }
    }

    /// The state in words.
    pub(crate) fn detail(&self) -> Option<String> {
        if !self.enabled && self.session.is_some() {
            return Some("switched off; the connection is kept".to_owned());
        }
        match &self.phase {
            Phase::Dormant => Some("not started; the first call starts it".to_owned()),
            Phase::Off { why } => Some(why.clone()),
            Phase::Starting => Some("starting".to_owned()),
            Phase::Ready => None,
            Phase::Lost => Some("the connection was lost".to_owned()),
            Phase::Retrying { attempt, at } => {
                let wait = at.saturating_duration_since(Instant::now()).as_secs_f64();
                Some(format!(
                    "attempt {attempt} failed, the next is in {wait:.1} s"
                ))
            }
            Phase::AwaitingApproval { waiting, hint } => {
                let why = match waiting {
                    PendingReason::New => "not approved",
                    PendingReason::Changed => "changed since you were asked about it",
                };
                Some(format!("{why}, nothing was started: {hint}"))
            }
            Phase::Failed(failure) => failure.hint.clone(),
            Phase::NeedsAuth(login) => Some(login.hint.clone()),
            Phase::Stopped => Some("stopped".to_owned()),
        }
    }
}
