//! [`CallError`]: why a call has no result, and whether the server may have executed it.

use std::time::Duration;

use switchboard_client::session::StrayOutput;
use switchboard_wire::limits::truncate_to_millis;
use switchboard_wire::mcp::ErrorObject;

use super::{Delivery, InvalidMessage, Violation};
use crate::id::{ServerName, ToolId};
use crate::permission::Denial;
use crate::status::Unavailable;

/// Why a call has no result. A tool result with `isError` is not a `CallError`: it is returned as
/// an [`Output`](crate::Output).
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The catalog has no tool with the requested wire name.
    #[error("no tool named {name}{}", did_you_mean(.nearest.as_deref()))]
    UnknownTool {
        /// The requested wire name.
        name: String,
        /// The most similar wire name in the catalog, if there is a similar one.
        nearest: Option<String>,
    },
    /// The server of the tool is not connected.
    #[error(transparent)]
    Unavailable(Unavailable),
    /// The arguments do not match the input schema of the tool.
    #[error("invalid arguments for {tool}: {}", join_violations(.violations))]
    InvalidArguments {
        /// The server and the name of the called tool.
        tool: ToolId,
        /// Where and how the arguments violate the input schema.
        violations: Vec<Violation>,
    },
    /// A rule or the user denied the call.
    #[error("{tool} was not called: {denial}")]
    Denied {
        /// The server and the name of the called tool.
        tool: ToolId,
        /// The rule that denied the call, or the answer of the user.
        denial: Denial,
    },
    /// The [context](crate::CallContext::servers) of the call does not include the server of the
    /// tool.
    #[error("{name} was not called: this request may not use server {server}")]
    ServerNotSelected {
        /// The requested wire name.
        name: String,
        /// The server of the tool.
        server: ServerName,
    },
    /// The definition or the server of the tool changed between the permission check and sending.
    #[error("{tool} was not called: the tool or its server changed after the permission check")]
    ToolChanged {
        /// The server and the name of the called tool.
        tool: ToolId,
    },
    /// The server did not respond in time.
    #[error(
        "{tool}: {}{}{}", timeout_text(*.after, *.kind), stray.note(),
        delivery_text(*.delivery)
    )]
    TimedOut {
        /// The server and the name of the called tool.
        tool: ToolId,
        /// The exceeded time limit.
        after: Duration,
        /// Whether `after` limits the whole call or the time without a notification or request of
        /// the server.
        kind: TimeoutKind,
        /// Whether the server may have executed the call.
        delivery: Delivery,
        /// What the server sent instead of a response.
        stray: StrayOutput,
    },
    /// No response arrived, and the server may or may not have executed the call. The host does not
    /// send the call again.
    #[error("{tool} may or may not have run: {reason}")]
    OutcomeUnknown {
        /// The server and the name of the called tool.
        tool: ToolId,
        /// Why there is no response.
        reason: String,
    },
    /// The server did not execute the call: the call never reached the server, or the server
    /// responded that it does not know the session. Making it again is safe.
    #[error("{tool} was not called: {reason}")]
    NotSent {
        /// The server and the name of the called tool.
        tool: ToolId,
        /// Why the call was not sent.
        reason: String,
        /// The name of the field of [`Limits`](crate::limits::Limits) that the call exceeds. `None`
        /// if `reason` is not an exceeded limit.
        limit: Option<&'static str>,
    },
    /// The server responded with a JSON-RPC error, or with an HTTP error status.
    #[error("server {} returned an error for {}: {error}", .tool.server, .tool.tool)]
    ErrorResponse {
        /// The server and the name of the called tool.
        tool: ToolId,
        /// The error of the server. For an HTTP error, its code is the HTTP status.
        error: ErrorObject,
    },
    /// The response exceeds a limit or violates the protocol.
    #[error("invalid response to {tool}: {problem}")]
    InvalidResponse {
        /// The server and the name of the called tool.
        tool: ToolId,
        /// What is wrong with the response.
        problem: InvalidMessage,
    },
    /// The call was not sent, because the host is shutting down.
    #[error("the host is shutting down")]
    ShuttingDown,
}

/// Which of its two time limits a call exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeoutKind {
    /// Neither the response nor any notification or request of the server arrived within
    /// `Deadlines::idle`.
    Idle,
    /// There was no response within the timeout of the server or of the host, or until the deadline
    /// in the [`CallContext`](crate::call::CallContext).
    Total,
}

impl CallError {
    /// Whether the server may have executed the call.
    pub fn delivery(&self) -> Delivery {
        match self {
            Self::OutcomeUnknown { .. } => Delivery::Unknown,
            Self::TimedOut { delivery, .. } => *delivery,
            Self::ErrorResponse { .. } | Self::InvalidResponse { .. } => Delivery::Answered,
            _ => Delivery::NotSent,
        }
    }

    /// Whether it makes sense to repeat the call later: the cause may go away, and the call was
    /// not sent, so that it cannot run twice.
    pub fn is_transient(&self) -> bool {
        self.delivery() == Delivery::NotSent
            && matches!(
                self,
                Self::Unavailable(_) | Self::NotSent { .. } | Self::TimedOut { .. }
            )
    }

    /// The name of the exceeded limit: a field of [`Limits`](crate::limits::Limits) or
    /// [`Deadlines`](crate::limits::Deadlines). `None` if no limit was exceeded. For
    /// [`TimeoutKind::Total`], always `call`, even if the call exceeded another time limit.
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

    /// What the user can do about the error. Only [`CallError::Unavailable`] can have a hint.
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
