//! Errors as a person meets them: kind, message, hint, exit code.
//!
//! The one place that knows the exit codes. A hint is something to paste.

use std::io;
use std::process::ExitCode;

use serde::Serialize;
use switchboard::status::ConnectionStatus;
use switchboard::{AskError, CallError, Delivery, StartError, WatchError};
use switchboard_config::{Diagnostic, EditError};

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Ok = 0,
    /// Something that should not happen.
    Internal = 1,
    /// What was typed makes no sense: unknown names and arguments that do not fit included.
    Usage = 2,
    /// What was configured makes no sense.
    Config = 3,
    /// The server is not there, or nobody approved it.
    Unavailable = 4,
    LoginNeeded = 5,
    Denied = 6,
    /// The tool or the server answered, with an error.
    AnsweredWithError = 7,
    TimedOut = 8,
    OutcomeUnknown = 9,
    Interrupted = 130,
    /// What a shell shows of a program that a closed pipe ended.
    OutputClosed = 141,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// What went wrong. Its name is a promise to programs that read `--json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Internal,
    Usage,
    UnknownServer,
    UnknownTool,
    UnknownPrompt,
    /// The server has no such things at all.
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
    /// Whoever should read the result has gone.
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

/// Why a command did not do what it was asked for.
#[derive(Debug)]
pub(crate) struct Failure(Box<Parts>);

#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) kind: Kind,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// What became of the call, where one was meant to be made.
    pub(crate) delivery: Option<Delivery>,
    /// What is wrong with the config, where that is the cause.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// It ends a stream of lines, and is one itself.
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

    /// An interruption that came when the call was on its way.
    pub(crate) fn during_call(mut self) -> Self {
        if self.0.kind == Kind::Interrupted {
            self.0
                .message
                .push_str("; the call was cancelled, and may or may not have been carried out");
            self.0.delivery = Some(Delivery::Unknown);
        }
        self
    }

    /// The same, with something more to say.
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

    /// The last word of a command that prints one line of data after the other.
    pub(crate) fn as_json_line(mut self) -> Self {
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
            CallError::Unavailable { status, .. } => match status {
                ConnectionStatus::NeedsAuth => Kind::LoginNeeded,
                _ => Kind::Unavailable,
            },
            CallError::InvalidArguments { .. } => Kind::InvalidArguments,
            CallError::Denied { .. } | CallError::Redefined { .. } => Kind::Denied,
            CallError::TimedOut { .. } => Kind::TimedOut,
            CallError::OutcomeUnknown { .. } => Kind::OutcomeUnknown,
            CallError::NotSent { .. } => Kind::NotSent,
            CallError::Refused { .. } => Kind::Refused,
            CallError::Unusable { .. } => Kind::UnusableAnswer,
            CallError::ShuttingDown => Kind::Interrupted,
            _ => Kind::Internal,
        };
        let mut failure = Self::new(kind, error.to_string()).maybe_hint(error.hint());
        failure.0.delivery = Some(error.delivery());
        failure
    }
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Self {
        let kind = match &error {
            AskError::UnknownServer(_) => Kind::UnknownServer,
            AskError::Unavailable { status, .. } => match status {
                ConnectionStatus::NeedsAuth => Kind::LoginNeeded,
                _ => Kind::Unavailable,
            },
            AskError::Denied { .. } => Kind::Denied,
            AskError::NotOffered { .. } => Kind::NotOffered,
            AskError::InvalidUri(_) => Kind::Usage,
            AskError::Refused { .. } => Kind::Refused,
            AskError::Unusable { .. } => Kind::UnusableAnswer,
            AskError::TimedOut { .. } => Kind::TimedOut,
            // Asking changes nothing: it may be asked again.
            AskError::Lost { .. } => Kind::Unavailable,
            AskError::ShuttingDown => Kind::Interrupted,
            _ => Kind::Internal,
        };
        let hint = match &error {
            AskError::Unavailable { hint, .. } => hint.clone(),
            AskError::NotOffered { server, .. } => {
                Some(format!("switchboard get {server} shows what it has"))
            }
            AskError::TimedOut { .. } | AskError::Lost { .. } => Some("try it again".to_owned()),
            _ => None,
        };
        Self::new(kind, error.to_string()).maybe_hint(hint)
    }
}

impl From<WatchError> for Failure {
    fn from(error: WatchError) -> Self {
        let kind = match error {
            WatchError::Ask(error) => return error.into(),
            WatchError::UnknownTool { .. } => Kind::UnknownTool,
            WatchError::TooOften(_) => Kind::Usage,
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
