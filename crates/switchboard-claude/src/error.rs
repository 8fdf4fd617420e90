//! What can go wrong between this program and the CLI.
//!
//! An error says what was being done, what the CLI did instead, and its last words, so that it can be
//! acted on without a look at a log.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use switchboard::process::Exit;

/// Why the CLI could not be used, or did not do what it was asked for.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no CLI.
    #[error(
        "the Claude CLI was not found (looked at: {}): install it with \
         `npm install -g @anthropic-ai/claude-code`, or name it with `Options::cli_path`",
        places(.sought)
    )]
    NotFound {
        /// Where it was looked for, in this order.
        sought: Vec<PathBuf>,
    },
    /// There is one, and it could not be started.
    #[error("the Claude CLI at {} could not be started: {why}", .program.display())]
    NotStarted {
        /// The one.
        program: PathBuf,
        /// What the system says.
        why: String,
    },
    /// The CLI ended, or became unusable, and all that was asked of it with it.
    #[error("the Claude CLI {loss} while this was under way: {doing}{hint}{words}", hint = .loss.hint())]
    Lost {
        /// What was being done.
        doing: String,
        /// What happened.
        loss: Loss,
        /// What the CLI said last.
        words: LastWords,
    },
    /// The CLI runs and did not answer in time.
    #[error(
        "the Claude CLI did not answer `{request}` within {} s: try `claude --version` by hand, or \
         allow more time with `Options::{option}`{words}",
        .after.as_secs_f64()
    )]
    TimedOut {
        /// What was asked.
        request: String,
        /// How long was waited.
        after: Duration,
        /// The option that says how long that is.
        option: &'static str,
        /// What the CLI said last.
        words: LastWords,
    },
    /// The CLI answered that it does not do this.
    #[error("the Claude CLI refused `{request}`: {message}")]
    Refused {
        /// What was asked.
        request: String,
        /// What it says.
        message: String,
        /// The CLI's own name for it, where it has one.
        code: Option<String>,
    },
    /// The CLI answered something that is no answer to what was asked.
    #[error(
        "the Claude CLI answered `{request}` with something else ({why}): it may need an update"
    )]
    Unreadable {
        /// What was asked.
        request: String,
        /// What is wrong with the answer.
        why: String,
    },
    /// The connection was closed by this program.
    #[error("`{doing}` came after the client was closed: connect a new one")]
    Closed {
        /// What was being done.
        doing: String,
    },
    /// Something in the options cannot be used.
    #[error("{0}")]
    Unusable(String),
}

impl Error {
    /// What the CLI wrote to stderr last, where it is the CLI that failed.
    pub fn stderr(&self) -> Option<&str> {
        match self {
            Self::Lost { words, .. } | Self::TimedOut { words, .. } => Some(&words.stderr),
            _ => None,
        }
    }

    /// What the CLI exited with, where it did.
    pub fn exit_code(&self) -> Option<i32> {
        match self {
            Self::Lost {
                loss: Loss::Exited(exit),
                ..
            } => exit.code(),
            _ => None,
        }
    }
}

/// How the CLI was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// It ended.
    Exited(Exit),
    /// It wrote a line that begins as JSON and is none; its beginning.
    Garbled(String),
    /// It wrote so much that is no message that it is not taken for the CLI.
    NotTheCli,
    /// It wrote a line that is longer than this many bytes.
    LineTooLong(usize),
    /// Its messages were not read, and came to more than this many bytes.
    NobodyReads(usize),
    /// It did not read what was sent to it for this long.
    Deaf(Duration),
    /// It closed its input, and went on.
    HungUp,
    /// Its output could not be read.
    Unreadable(String),
}

impl Loss {
    /// What to do about it.
    fn hint(&self) -> &'static str {
        match self {
            Self::Exited(_) => "; its last words tell why, or `claude --debug` by hand does",
            Self::Garbled(_) | Self::NotTheCli => {
                "; check that `Options::cli_path` or the `claude` on the PATH is the CLI"
            }
            Self::LineTooLong(_) => "; allow longer ones with `Options::max_buffer_size`",
            Self::NobodyReads(_) => "; read messages, also while other requests are made",
            Self::Deaf(_) | Self::HungUp | Self::Unreadable(_) => "; connect anew",
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(exit) => exit.fmt(f),
            Self::Garbled(line) => write!(f, "wrote a line that is no JSON ({line})"),
            Self::NotTheCli => f.write_str("wrote nothing but text that is no message"),
            Self::LineTooLong(limit) => write!(f, "wrote a line of more than {limit} bytes"),
            Self::NobodyReads(limit) => {
                write!(
                    f,
                    "had more than {limit} bytes of messages that nobody read"
                )
            }
            Self::Deaf(time) => write!(f, "read nothing for {} s", time.as_secs_f64()),
            Self::HungUp => f.write_str("closed its input"),
            Self::Unreadable(why) => write!(f, "could not be read from ({why})"),
        }
    }
}

/// What the CLI said last, beside its messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastWords {
    /// The end of its stderr.
    pub stderr: String,
    /// Lines of its stdout that were no messages, the last ones.
    pub noise: String,
}

impl fmt::Display for LastWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.stderr.is_empty() {
            write!(f, "\nits stderr ends with:\n{}", self.stderr)?;
        }
        if !self.noise.is_empty() {
            write!(f, "\nit also printed:\n{}", self.noise)?;
        }
        Ok(())
    }
}

fn places(sought: &[PathBuf]) -> String {
    let places: Vec<_> = sought
        .iter()
        .map(|place| place.display().to_string())
        .collect();
    places.join(", ")
}
