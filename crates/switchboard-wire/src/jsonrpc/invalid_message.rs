//! Why a message from a server is rejected.

use std::fmt;

use crate::scan::BudgetExceeded;

/// Why a message of a server was rejected: it exceeds a limit, or it is malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidMessage {
    /// The message is longer than [`Limits::message_bytes`](crate::Limits::message_bytes).
    TooLong {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The message does not fit into [`Limits::memory_bytes`](crate::Limits::memory_bytes), which
    /// the large messages of all servers share.
    OverMemoryBudget {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The message contains more JSON values and keys than
    /// [`Limits::json_nodes`](crate::Limits::json_nodes).
    TooManyValues {
        /// The limit.
        limit: usize,
    },
    /// The message is nested deeper than [`Limits::json_depth`](crate::Limits::json_depth).
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// The server responded with `input_required` more often than
    /// [`Limits::input_requests`](crate::Limits::input_requests).
    TooManyInputRequests {
        /// The limit.
        limit: usize,
    },
    /// The message is not valid JSON, or violates JSON-RPC or the definition of the method.
    Malformed(String),
}

impl InvalidMessage {
    /// Returns the name of the field of [`Limits`](crate::Limits) that was exceeded.
    pub fn limit(&self) -> Option<&'static str> {
        match self {
            Self::TooLong { .. } => Some("message_bytes"),
            Self::OverMemoryBudget { .. } => Some("memory_bytes"),
            Self::TooManyValues { .. } => Some("json_nodes"),
            Self::TooDeep { .. } => Some("json_depth"),
            Self::TooManyInputRequests { .. } => Some("input_requests"),
            Self::Malformed(_) => None,
        }
    }

    pub(crate) fn malformed(text: impl Into<String>) -> Self {
        Self::Malformed(text.into())
    }
}

impl fmt::Display for InvalidMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { limit } => write!(
                f,
                "longer than {limit} bytes (limit `messageBytes`; raise it to accept more)"
            ),
            Self::OverMemoryBudget { limit } => write!(
                f,
                "not enough memory: the messages in flight already take {limit} bytes (limit \
                 `memoryBytes`; raise it, or make fewer calls with large responses at a time)"
            ),
            Self::TooManyValues { limit } => write!(
                f,
                "more than {limit} JSON values (limit `jsonNodes`; raise it to accept more)"
            ),
            Self::TooDeep { limit } => {
                write!(f, "nested deeper than {limit} levels (limit `jsonDepth`)")
            }
            Self::TooManyInputRequests { limit } => write!(
                f,
                "the server asked for input more than {limit} times (limit `inputRequests`; raise \
                 it to answer more)"
            ),
            Self::Malformed(reason) => f.write_str(reason),
        }
    }
}

impl From<BudgetExceeded> for InvalidMessage {
    fn from(exceeded: BudgetExceeded) -> Self {
        match exceeded {
            BudgetExceeded::Nodes(limit) => Self::TooManyValues { limit },
            BudgetExceeded::Depth(limit) => Self::TooDeep { limit },
        }
    }
}
