//! The state of one server that its owner publishes on a `watch` channel.
//!
//! Plain data. Only the owner changes the published state. Invariant: [`State::session`] is set
//! only in [`Phase::Ready`] and, while the session is being closed, in the next phase.

use std::sync::Arc;
use std::time::Duration;

use switchboard_client::CurrentStage;
use switchboard_client::auth::LoginRequired;
use switchboard_client::session::Session;
use switchboard_client::stderr::StderrTail;
use switchboard_config::PendingReason;
use switchboard_wire::mcp::ServerHello;
use switchboard_wire::text::sanitize;
use tokio::time::Instant;

use crate::id::Generation;
use crate::status::{ConnectAttempt, ConnectStage, ConnectionStatus, ServerPhase};

/// Where a server is in its life cycle. [`ServerPhase`] is the public form without the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Configured but not started. The first call starts it.
    Dormant,
    /// Disabled before it was ever started.
    Off {
        /// Where the server was disabled. For a settings file, also how to enable it.
        reason: String,
    },
    /// Waiting for other servers to start first; see [`StartSlots`](super::start_slots).
    Queued,
    /// Opening the connection, negotiating the version, or listing tools for the first time.
    Starting,
    /// A session is open.
    Ready,
    /// The session ended and the owner is determining why.
    Lost,
    /// Waiting for the next connection attempt.
    Retrying {
        /// Failed connection attempts and lost sessions since the last connection attempt that
        /// listed the tools, or since the last reconnect order.
        attempt: u32,
        /// When the next attempt starts.
        at: Instant,
    },
    /// The user has not approved the config entry, so no process was started.
    AwaitingApproval { reason: PendingReason, hint: String },
    /// The server requires a login. The owner does not retry until an order requests a connection.
    NeedsAuth(Box<LoginRequired>),
    /// The config entry cannot be used, or the connection failed for good. The owner does not retry
    /// until an order requests a connection.
    Failed(FailureReason),
    /// The owner has ended.
    Stopped,
}

impl Phase {
    /// Returns the phase without its data, as the public status reports it.
    pub(crate) fn public(&self) -> ServerPhase {
        match self {
            Self::Dormant => ServerPhase::Dormant,
            Self::Off { .. } => ServerPhase::Off,
            Self::Queued => ServerPhase::Queued,
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

/// Why a server failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailureReason {
    pub(crate) error: String,
    /// What the user can do about the error.
    pub(crate) hint: Option<String>,
}

/// The published state: the phase, the open session, and details of the last connection attempt.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) phase: Phase,
    /// If false, the session stays open, but its tools are not in the catalog.
    pub(crate) enabled: bool,
    pub(crate) generation: Generation,
    /// The open session. `None` if no session is open.
    pub(crate) session: Option<Session>,
    /// The handshake response of the last session.
    pub(crate) handshake: Option<Arc<ServerHello>>,
    /// The last error. Cleared by the next successful tool listing or order to connect, and while
    /// the owner determines why a session ended.
    pub(crate) error: Option<String>,
    /// Time from the start of the last successful connection attempt until its tool listing ended.
    pub(crate) connect_time: Option<Duration>,
    /// The progress of the last connection attempt.
    pub(crate) attempt: Option<ConnectAttempt>,
    /// The stage of the connection attempt in progress.
    pub(crate) stage: CurrentStage,
    /// Problems found in the last tool listing.
    pub(crate) notes: Arc<Vec<String>>,
    /// The last stderr lines of the child process. `None` if the server is not a child process.
    pub(crate) stderr: Option<StderrTail>,
}

impl State {
    pub(crate) fn new(phase: Phase) -> Self {
        Self {
            phase,
            enabled: true,
            generation: Generation::default(),
            session: None,
            handshake: None,
            error: None,
            connect_time: None,
            attempt: None,
            stage: CurrentStage::default(),
            notes: Arc::default(),
            stderr: None,
        }
    }

    /// Returns `false` while the server is starting, and while the owner determines why the session
    /// ended. Calls and queries that need a session wait until this method returns `true`.
    pub(crate) fn is_settled(&self) -> bool {
        !matches!(self.phase, Phase::Queued | Phase::Starting | Phase::Lost)
    }

    /// Whether the owner makes no connection attempt until it receives an order.
    pub(crate) fn has_given_up(&self) -> bool {
        !matches!(
            self.phase,
            Phase::Queued | Phase::Starting | Phase::Ready | Phase::Lost | Phase::Retrying { .. }
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
            | Phase::Queued
            | Phase::Starting
            | Phase::Lost
            | Phase::Retrying { .. }
            | Phase::AwaitingApproval { .. } => ConnectionStatus::Pending,
        }
    }

    /// Returns the error that the status shows. It can contain text of the server, which is
    /// sanitized.
    pub(crate) fn error(&self) -> Option<String> {
        let error = match &self.phase {
            Phase::Failed(failure) => &failure.error,
            Phase::NeedsAuth(login) => &login.reason,
            _ => self.error.as_ref()?,
        };
        Some(sanitize(error).into_owned())
    }

    /// Returns the description of the state that the status shows.
    pub(crate) fn detail(&self) -> Option<String> {
        if !self.enabled && self.session.is_some() {
            return Some("disabled; the connection stays open".to_owned());
        }
        match &self.phase {
            Phase::Dormant => Some("not started; the first call starts it".to_owned()),
            Phase::Off { reason } => Some(reason.clone()),
            Phase::Queued => Some("waiting for other servers to start".to_owned()),
            Phase::Starting => Some(match self.stage.get() {
                ConnectStage::Handshake => "initializing".to_owned(),
                ConnectStage::Listing => "listing tools".to_owned(),
                _ => "connecting".to_owned(),
            }),
            Phase::Ready => None,
            Phase::Lost => Some("the connection was lost".to_owned()),
            Phase::Retrying { attempt, at } => {
                let wait = at.saturating_duration_since(Instant::now()).as_secs_f64();
                Some(format!(
                    "attempt {attempt} failed, next attempt in {wait:.1} s"
                ))
            }
            Phase::AwaitingApproval { reason, hint } => {
                let reason = match reason {
                    PendingReason::New => "not approved",
                    PendingReason::Changed => "changed since you decided about it",
                };
                Some(format!("{reason}, not started: {hint}"))
            }
            Phase::Failed(failure) => failure.hint.clone(),
            Phase::NeedsAuth(login) => Some(login.hint.clone()),
            Phase::Stopped => Some("stopped".to_owned()),
        }
    }
}
