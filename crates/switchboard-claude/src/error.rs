//! Errors of the connection to the CLI.
//!
//! Each message names the failed operation and its cause. Where possible, it also suggests what to
//! try, and shows the last lines that the CLI wrote to stderr.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use switchboard::process::ExitOutcome;

/// Why an operation on the CLI failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No executable of the CLI was found at any of the searched paths.
    #[error(
        "Claude CLI not found (searched {}); install it with \
         `npm install -g @anthropic-ai/claude-code` or set `Options::cli_path`",
        join_paths(.searched)
    )]
    NotFound {
        /// The paths that were tried, in this order.
        searched: Vec<PathBuf>,
    },
    /// The executable was found, but could not be started.
    #[error("could not start the Claude CLI at {}: {cause}", .program.display())]
    NotStarted {
        /// Path of the executable that was found.
        program: PathBuf,
        /// The error of the operating system, or what is wrong with the executable.
        cause: String,
    },
    /// The CLI exited, or the connection to it became unusable. Every request in flight fails with
    /// this error.
    #[error("the Claude CLI {reason} (during: {operation}){hint}{output}", hint = .reason.hint())]
    Lost {
        /// The operation that failed because of the loss: the subtype of a request, or a short
        /// description.
        operation: String,
        /// Why the connection was lost.
        reason: LossReason,
        /// The last lines that the CLI wrote to stderr, and stray lines of its stdout.
        output: OutputTail,
    },
    /// The CLI is running but did not respond to a request in time, or did not read a prompt in
    /// time.
    #[error(
        "the Claude CLI did not respond to `{request}` within {} s; check that `claude --version` works, \
         or raise `Options::{option}`{output}",
        .after.as_secs_f64()
    )]
    TimedOut {
        /// The subtype of the request, or `prompt`.
        request: String,
        /// The timeout that expired.
        after: Duration,
        /// The method of [`Options`](crate::Options) that sets this timeout.
        option: &'static str,
        /// The last lines that the CLI wrote to stderr, and stray lines of its stdout.
        output: OutputTail,
    },
    /// The CLI responded to a request with an error.
    #[error("the Claude CLI refused `{request}`: {message}")]
    Refused {
        /// The subtype of the refused request.
        request: String,
        /// The error message of the CLI.
        message: String,
        /// The error code of the CLI, if it sent one.
        code: Option<String>,
    },
    /// The CLI responded with success, but the payload does not have the expected form.
    #[error("unexpected response to `{request}` ({cause}); update the Claude CLI")]
    UnexpectedResponse {
        /// The subtype of the request.
        request: String,
        /// What is wrong with the response.
        cause: String,
    },
    /// This program closed the connection before or during the operation.
    #[error("`{operation}`: the client is closed; connect a new one")]
    Closed {
        /// The operation that failed: the subtype of a request, or a short description.
        operation: String,
    },
    /// An option, a prompt or a server entry is invalid, or the temporary files for the CLI could
    /// not be written. Nothing was sent to the CLI.
    #[error("{0}")]
    InvalidInput(String),
}

impl Error {
    /// The last lines of the CLI's stderr. `None` for errors other than [`Error::Lost`] and
    /// [`Error::TimedOut`].
    pub fn stderr(&self) -> Option<&str> {
        match self {
            Self::Lost { output, .. } | Self::TimedOut { output, .. } => Some(&output.stderr),
            _ => None,
        }
    }

    /// The exit code of the CLI. `None` if the error is not [`Error::Lost`], or if the CLI did not
    /// exit with a code.
    pub fn exit_code(&self) -> Option<i32> {
        match self {
            Self::Lost {
                reason: LossReason::Exited(exit),
                ..
            } => exit.code(),
            _ => None,
        }
    }
}

/// Why the connection to the CLI was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// The CLI exited. Holds its exit code or signal, if known.
    Exited(ExitOutcome),
    /// The CLI wrote a line that starts with `{` but is not valid JSON. Holds the beginning of the
    /// line.
    InvalidJson(String),
    /// The started program wrote more than 1 MiB to stdout before its first message, so it is not
    /// the CLI.
    NotTheCli,
    /// The CLI wrote a line to stdout that is longer than this many bytes
    /// ([`Options::max_buffer_size`](crate::Options::max_buffer_size)).
    LineTooLong(usize),
    /// The unread messages exceeded this many bytes in total.
    QueueFull(usize),
    /// The CLI did not read its stdin for this long, although this program was writing to it.
    NotReading(Duration),
    /// The CLI closed its stdin but did not exit.
    ClosedInput,
    /// Reading the CLI's stdout failed. Holds the error of the operating system.
    ReadFailed(String),
}

impl LossReason {
    fn hint(&self) -> &'static str {
        match self {
            Self::Exited(_) => "; see stderr below, or run `claude --debug`",
            Self::InvalidJson(_) | Self::NotTheCli => {
                "; check that `Options::cli_path` or the `claude` on the PATH is the CLI"
            }
            Self::LineTooLong(_) => "; raise `Options::max_buffer_size`",
            Self::QueueFull(_) => "; keep reading messages while requests are in flight",
            Self::NotReading(_) | Self::ClosedInput | Self::ReadFailed(_) => "; reconnect",
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(exit) => exit.fmt(f),
            Self::InvalidJson(line) => write!(f, "wrote invalid JSON ({line})"),
            Self::NotTheCli => f.write_str("wrote output that is not the control protocol"),
            Self::LineTooLong(limit) => write!(f, "wrote a line of more than {limit} bytes"),
            Self::QueueFull(limit) => {
                write!(
                    f,
                    "sent more than {limit} bytes of messages that were not read"
                )
            }
            Self::NotReading(time) => {
                write!(f, "did not read its input for {} s", time.as_secs_f64())
            }
            Self::ClosedInput => f.write_str("closed its input"),
            Self::ReadFailed(error) => write!(f, "could not be read from ({error})"),
        }
    }
}

/// The last lines that the CLI wrote to stderr, and the last lines of its stdout that are not
/// messages. Secrets from the environment of the CLI are masked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutputTail {
    /// The last lines of stderr.
    pub stderr: String,
    /// The last lines of stdout that are not messages.
    pub stray_stdout: String,
}

impl fmt::Display for OutputTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.stderr.is_empty() {
            write!(f, "\nstderr:\n{}", self.stderr)?;
        }
        if !self.stray_stdout.is_empty() {
            write!(f, "\nstdout:\n{}", self.stray_stdout)?;
        }
        Ok(())
    }
}

fn join_paths(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    paths.join(", ")
}
