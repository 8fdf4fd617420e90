//! Errors of the connection to the CLI.
//!
//! Each message names the failed operation, the cause, something to try, and the last lines that
//! the CLI wrote to stderr.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use switchboard::process::ExitOutcome;

/// The CLI could not be started, was lost, or did not do what a request asked for.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No executable of the CLI was found.
    #[error(
        "Claude CLI not found (searched {}); install it with \
         `npm install -g @anthropic-ai/claude-code` or set `Options::cli_path`",
        join_paths(.searched)
    )]
    NotFound {
        /// The paths that were tried, in order.
        searched: Vec<PathBuf>,
    },
    /// The executable was found, but the process could not be started.
    #[error("could not start the Claude CLI at {}: {cause}", .program.display())]
    NotStarted {
        /// The executable.
        program: PathBuf,
        /// The error of the operating system, or what is wrong with the file.
        cause: String,
    },
    /// The CLI exited or the connection to it became unusable. All requests in flight fail with
    /// this.
    #[error("the Claude CLI {reason} (during: {operation}){hint}{output}", hint = .reason.hint())]
    Lost {
        /// The operation that failed: the subtype of a request, or a short description.
        operation: String,
        /// Why the connection was lost.
        reason: LossReason,
        /// The last output of the CLI.
        output: OutputTail,
    },
    /// The CLI is running but did not respond in time.
    #[error(
        "the Claude CLI did not respond to `{request}` within {} s; check that `claude --version` works, \
         or raise `Options::{option}`{output}",
        .after.as_secs_f64()
    )]
    TimedOut {
        /// The subtype of the request.
        request: String,
        /// The timeout that expired.
        after: Duration,
        /// The method of [`Options`](crate::Options) that sets this timeout.
        option: &'static str,
        /// The last output of the CLI.
        output: OutputTail,
    },
    /// The CLI answered the request with an error.
    #[error("the Claude CLI refused `{request}`: {message}")]
    Refused {
        /// The subtype of the request.
        request: String,
        /// The error message of the CLI.
        message: String,
        /// The error code of the CLI, if it sent one.
        code: Option<String>,
    },
    /// The response of the CLI does not have the expected form.
    #[error("unexpected response to `{request}` ({cause}); update the Claude CLI")]
    UnexpectedResponse {
        /// The subtype of the request.
        request: String,
        /// What is wrong with the response.
        cause: String,
    },
    /// This program had already closed the connection.
    #[error("`{operation}`: the client is closed; connect a new one")]
    Closed {
        /// The operation that failed.
        operation: String,
    },
    /// An option, a prompt or a server entry is invalid. Nothing was sent to the CLI.
    #[error("{0}")]
    InvalidInput(String),
}

impl Error {
    /// The last lines of the CLI's stderr, for [`Error::Lost`] and [`Error::TimedOut`].
    pub fn stderr(&self) -> Option<&str> {
        match self {
            Self::Lost { output, .. } | Self::TimedOut { output, .. } => Some(&output.stderr),
            _ => None,
        }
    }

    /// The exit code of the CLI, if it exited with one.
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
    /// The process exited.
    Exited(ExitOutcome),
    /// A line of stdout starts with `{` but is not valid JSON. Holds the beginning of that line.
    InvalidJson(String),
    /// The process wrote more than 1 MiB to stdout before its first message, so it is not the CLI.
    NotTheCli,
    /// A line of stdout exceeded this many bytes.
    LineTooLong(usize),
    /// Unread messages exceeded this many bytes.
    QueueFull(usize),
    /// The CLI did not read its stdin for this long.
    NotReading(Duration),
    /// The CLI closed its stdin but did not exit.
    ClosedInput,
    /// Reading stdout failed.
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

/// The last output of the CLI, its messages aside. Secrets of the environment are masked.
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
