//! Errors of commands: kind, message, hint, exit code.
//!
//! The exit codes of commands are defined only here; for a usage error, clap exits with the same
//! code. The hint of an error is a command to run or a short instruction.

use std::io;
use std::process::ExitCode;

use serde::Serialize;
use switchboard::call::Delivery;
use switchboard::query::QueryError;
use switchboard::status::ConnectionStatus;
use switchboard::watch::WatchError;
use switchboard::{CallError, StartError};
use switchboard_config::{Diagnostic, EditError};

use switchboard::content::quote_for_shell;

/// The exit codes of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Ok = 0,
    /// A bug, or an unexpected I/O error.
    Internal = 1,
    /// Invalid command line, including unknown names and invalid tool arguments.
    Usage = 2,
    /// Invalid config.
    Config = 3,
    /// The server is not connected, or is not approved.
    Unavailable = 4,
    LoginNeeded = 5,
    Denied = 6,
    /// The tool or the server returned an error.
    AnsweredWithError = 7,
    TimedOut = 8,
    OutcomeUnknown = 9,
    Interrupted = 130,
    /// Stdout was closed. A shell reports the same code for a program killed by SIGPIPE (128 + 13).
    OutputClosed = 141,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The kind of an error. Programs that read `--json` match on its serialized name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Internal,
    Usage,
    UnknownServer,
    UnknownTool,
    UnknownPrompt,
    /// The server does not support resources or prompts at all.
    NotOffered,
    InvalidArguments,
    Config,
    Unavailable,
    Untrusted,
    LoginNeeded,
    Denied,
    Refused,
    UnusableAnswer,
    TimedOut,
    OutcomeUnknown,
    NotSent,
    Interrupted,
    /// Stdout was closed.
    OutputClosed,
}

impl Kind {
    pub(crate) fn exit(self) -> Exit {
        match self {
            Self::Internal => Exit::Internal,
            Self::Usage
            | Self::UnknownServer
            | Self::UnknownTool
            | Self::UnknownPrompt
            | Self::NotOffered
            | Self::InvalidArguments => Exit::Usage,
            Self::Config => Exit::Config,
            Self::Unavailable | Self::Untrusted | Self::NotSent => Exit::Unavailable,
            Self::LoginNeeded => Exit::LoginNeeded,
            Self::Denied => Exit::Denied,
            Self::Refused | Self::UnusableAnswer => Exit::AnsweredWithError,
            Self::TimedOut => Exit::TimedOut,
            Self::OutcomeUnknown => Exit::OutcomeUnknown,
            Self::Interrupted => Exit::Interrupted,
            Self::OutputClosed => Exit::OutputClosed,
        }
    }
}

/// The error of a command. The parts are boxed, so that a `Result` with this error stays small.
#[derive(Debug)]
pub(crate) struct Failure(Box<Parts>);

#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) kind: Kind,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// Whether the call may have reached the server. `None` if the error does not come from a call.
    pub(crate) delivery: Option<Delivery>,
    /// The config problems that caused the error.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Whether `--json` prints this error on one line, for commands that print JSON lines.
    pub(crate) is_json_line: bool,
}

impl Failure {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            kind,
            message: message.into(),
            hint: None,
            delivery: None,
            diagnostics: Vec::new(),
            is_json_line: false,
        }))
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, message)
    }

    pub(crate) fn interrupted() -> Self {
        Self::new(Kind::Interrupted, "interrupted")
    }

    /// Adds to an interruption that a call was in flight. Other errors stay unchanged.
    pub(crate) fn during_call(mut self) -> Self {
        if self.0.kind == Kind::Interrupted {
            self.0
                .message
                .push_str("; the call was cancelled but may have run");
            self.0.delivery = Some(Delivery::Unknown);
        }
        self
    }

    /// Appends `more` to the message of the error.
    pub(crate) fn append(mut self, more: &str) -> Self {
        self.0.message.push_str("; ");
        self.0.message.push_str(more);
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    pub(crate) fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.0.hint = hint.or(self.0.hint);
        self
    }

    pub(crate) fn diagnostics(mut self, diagnostics: Vec<Diagnostic>) -> Self {
        self.0.diagnostics = diagnostics;
        self
    }

    /// Makes `--json` print this error on one line, for commands that print JSON lines.
    pub(crate) fn with_json_line(mut self) -> Self {
        self.0.is_json_line = true;
        self
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.0
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let kind = match &error {
            CallError::UnknownTool { .. } => Kind::UnknownTool,
            CallError::Unavailable(server) => match server.status {
                ConnectionStatus::NeedsAuth => Kind::LoginNeeded,
                _ => Kind::Unavailable,
            },
            CallError::InvalidArguments { .. } => Kind::InvalidArguments,
            CallError::Denied { .. } | CallError::ToolChanged { .. } => Kind::Denied,
            CallError::TimedOut { .. } => Kind::TimedOut,
            CallError::OutcomeUnknown { .. } => Kind::OutcomeUnknown,
            CallError::NotSent { .. } => Kind::NotSent,
            CallError::ErrorResponse { .. } => Kind::Refused,
            CallError::InvalidResponse { .. } => Kind::UnusableAnswer,
            CallError::ShuttingDown => Kind::Interrupted,
            _ => Kind::Internal,
        };
        let mut failure = Self::new(kind, error.to_string()).maybe_hint(error.hint());
        failure.0.delivery = Some(error.delivery());
        failure
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        let kind = match &error {
            QueryError::UnknownServer(_) => Kind::UnknownServer,
            QueryError::Unavailable(server) => match server.status {
                ConnectionStatus::NeedsAuth => Kind::LoginNeeded,
                _ => Kind::Unavailable,
            },
            QueryError::Denied { .. } => Kind::Denied,
            QueryError::UnsupportedCapability { .. } => Kind::NotOffered,
            QueryError::InvalidUri(_) => Kind::Usage,
            QueryError::ErrorResponse { .. } => Kind::Refused,
            QueryError::InvalidResponse { .. } => Kind::UnusableAnswer,
            QueryError::TimedOut { .. } => Kind::TimedOut,
            // A query has no side effects and can be repeated, so it does not matter whether the
            // query reached the server.
            QueryError::ConnectionLost { .. } => Kind::Unavailable,
            QueryError::ShuttingDown => Kind::Interrupted,
            _ => Kind::Internal,
        };
        let hint = match &error {
            QueryError::Unavailable(server) => server.hint.clone(),
            QueryError::UnsupportedCapability { server, .. } => Some(format!(
                "run `switchboard get {}` to see its capabilities",
                quote_for_shell(server.as_ref())
            )),
            QueryError::TimedOut { .. } | QueryError::ConnectionLost { .. } => {
                Some("run the command again".to_owned())
            }
            _ => None,
        };
        Self::new(kind, error.to_string()).maybe_hint(hint)
    }
}

impl From<WatchError> for Failure {
    fn from(error: WatchError) -> Self {
        let kind = match error {
            WatchError::Query(error) => return error.into(),
            WatchError::UnknownTool { .. } => Kind::UnknownTool,
            WatchError::IntervalTooShort(_) => Kind::Usage,
            WatchError::InvalidArguments { .. } => Kind::InvalidArguments,
            WatchError::Ended => Kind::Unavailable,
            _ => Kind::Internal,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        Self::new(Kind::Config, error.to_string())
    }
}

impl From<EditError> for Failure {
    fn from(error: EditError) -> Self {
        let diagnostics = error.diagnostic().into_iter().cloned().collect();
        Self::new(Kind::Config, error.to_string())
            .maybe_hint(error.hint())
            .diagnostics(diagnostics)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::internal(error.to_string())
    }
}
