//! Why a connection to the CLI ended.

use std::sync::Arc;

use crate::error::{Error, LossReason, OutputTail};

/// Why a connection ended. Every pending request fails with this reason, and readers of messages
/// receive it as an error if the connection was lost.
#[derive(Clone, Debug)]
pub(super) enum CloseReason {
    /// This program closed the connection, or the connection served only one turn and that turn
    /// ended.
    Closed,
    Lost(Arc<LostConnection>),
}

#[derive(Debug)]
pub(super) struct LostConnection {
    pub(super) reason: LossReason,
    pub(super) output: OutputTail,
}

impl CloseReason {
    /// Builds the error for `operation`, which failed because the connection ended.
    pub(super) fn to_error(&self, operation: &str) -> Error {
        match self {
            Self::Lost(lost) => lost.to_error(operation),
            Self::Closed => Error::Closed {
                operation: operation.to_owned(),
            },
        }
    }
}

impl LostConnection {
    pub(super) fn to_error(&self, operation: &str) -> Error {
        Error::Lost {
            operation: operation.to_owned(),
            reason: self.reason.clone(),
            output: self.output.clone(),
        }
    }
}
