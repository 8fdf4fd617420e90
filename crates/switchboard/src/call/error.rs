//! The reasons why a call has no result.

use std::time::Duration;

use switchboard_client::session::unknown_ids_note;
use switchboard_wire::limits::truncate_to_millis;
use switchboard_wire::mcp::ErrorObject;

use super::{Delivery, InvalidMessage, Violation};
use crate::id::ToolId;
use crate::permission::Denial;
use crate::status::Unavailable;

/// Why a call has no result. A result with `isError` is a result, not a `CallError`.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// No server has a tool of this name.
    #[error("no tool named {name}{}", did_you_mean(.nearest.as_deref()))]
    UnknownTool {
        /// The requested name.
        name: String,
        /// A tool with a similar name.
        nearest: Option<String>,
    },
    /// The server of the tool is not connected.
    #[error(transparent)]
    Unavailable(Unavailable),
    /// The arguments do not match the input schema of the tool.
    #[error("invalid arguments for {tool}: {}", join_violations(.violations))]
    InvalidArguments {
        /// The tool.
        tool: ToolId,
        /// The violations of the schema.
        violations: Vec<Violation>,
    },
    /// A rule or the user denied the call.
    #[error("{tool} was not called: {denial}")]
    Denied {
        /// The tool.
        tool: ToolId,
        /// Which rule, or whose answer.
        denial: Denial,
    },
    /// The tool or its server changed after the call was permitted.
    #[error("{tool} was not called: the tool or its server changed after the permission check")]
    ToolChanged {
        /// The tool.
        tool: ToolId,
    },
    /// The server did not respond in time.
    #[error(
        "{tool}: {}{}{}", timeout_text(*.after, *.kind), unknown_ids_note(*.saw_unknown_ids),
        delivery_text(*.delivery)
    )]
    TimedOut {
        /// The tool.
        tool: ToolId,
        /// The time limit.
        after: Duration,
        /// Which time limit was exceeded.
        kind: TimeoutKind,
        /// Whether the call reached the server.
        delivery: Delivery,
        /// Whether the server sent responses whose id matches no request.
        saw_unknown_ids: bool,
    },
    /// The server may or may not have executed the call. The host does not send it again.
    #[error("{tool} may or may not have run: {reason}")]
    OutcomeUnknown {
        /// The tool.
        tool: ToolId,
        /// What happened.
        reason: String,
    },
    /// The call never reached the server. Making it again is safe.
    #[error("{tool} was not called: {reason}")]
    NotSent {
        /// The tool.
        tool: ToolId,
        /// What happened.
        reason: String,
        /// The exceeded limit, if any: a field of [`Limits`](crate::limits::Limits).
        limit: Option<&'static str>,
    },
    /// The server responded with an error.
    #[error("server {} returned an error for {}: {error}", .tool.server, .tool.tool)]
    ErrorResponse {
        /// The tool.
        tool: ToolId,
        /// The error of the server.
        error: ErrorObject,
    },
    /// The response exceeds a limit or violates the protocol.
    #[error("invalid response to {tool}: {problem}")]
    InvalidResponse {
        /// The tool.
        tool: ToolId,
        /// What is wrong with the response.
        problem: InvalidMessage,
    },
    /// The host is shutting down.
    #[error("the host is shutting down")]
    ShuttingDown,
}

/// The time limit that a call exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeoutKind {
    /// The server sent neither a response nor a progress notification for too long.
    Idle,
    /// The whole call took too long.
    Total,
}

impl CallError {
    /// Whether the call reached the server.
    pub fn delivery(&self) -> Delivery {
        match self {
            Self::OutcomeUnknown { .. } => Delivery::Unknown,
            Self::TimedOut { delivery, .. } => *delivery,
            Self::ErrorResponse { .. } | Self::InvalidResponse { .. } => Delivery::Answered,
            _ => Delivery::NotSent,
        }
    }

    /// Whether the same call may succeed later, and making it again cannot execute it twice.
    pub fn is_transient(&self) -> bool {
        self.delivery() == Delivery::NotSent
            && matches!(
                self,
                Self::Unavailable(_) | Self::NotSent { .. } | Self::TimedOut { .. }
            )
    }

    /// The exceeded limit, if any: a field of [`Limits`](crate::limits::Limits) or
    /// [`Deadlines`](crate::limits::Deadlines).
    pub fn limit(&self) -> Option<&'static str> {
        match self {
            Self::InvalidResponse { problem, .. } => problem.limit(),
            Self::NotSent { limit, .. } => *limit,
            Self::TimedOut { kind, .. } => Some(match kind {
                TimeoutKind::Idle => "idle",
                TimeoutKind::Total => "call",
            }),
            _ => None,
        }
    }

    /// What the user can do about the error, if known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unavailable(server) => server.hint.clone(),
            _ => None,
        }
    }
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest
        .map(|name| format!("; did you mean {name}?"))
        .unwrap_or_default()
}

pub(crate) fn join_violations(violations: &[Violation]) -> String {
    violations
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

fn timeout_text(after: Duration, kind: TimeoutKind) -> String {
    let what = match kind {
        TimeoutKind::Idle => "no activity for",
        TimeoutKind::Total => "no response within",
    };
    format!("{what} {:?}", truncate_to_millis(after))
}

fn delivery_text(delivery: Delivery) -> &'static str {
    match delivery {
        Delivery::Unknown => "; it may or may not have run",
        Delivery::NotSent => "; it was not sent",
        Delivery::Answered => "",
    }
}
