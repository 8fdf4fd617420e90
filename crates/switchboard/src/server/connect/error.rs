//! Why an attempt to reach a server failed, in words that help.

use std::time::Duration;

use crate::auth::login::LoginRequired;
use crate::server::negotiate::Refusal;
use crate::session::TransportFailure;
use crate::status::ConnectStage;
use switchboard_process::{SearchedIn, SpawnError};

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error("the program that runs this offers no server named {name}{}", also(.provided))]
    NotProvided {
        name: String,
        /// The names of those that it does provide.
        provided: Vec<String>,
    },
    #[error("not approved")]
    Withheld,
    #[error("could not connect: {0}")]
    Dial(String),
    /// A server in this process that cannot even say what it is.
    #[error("{0}")]
    Defective(String),
    #[error("{what}{last_words}")]
    Gone {
        what: String,
        last_words: LastWords,
        withheld: Option<String>,
    },
    #[error("{0}")]
    Refused(Refusal),
    /// It could not be reached, or HTTP said no.
    #[error("{0}")]
    Unreachable(TransportFailure),
    /// There is no streamable HTTP at that address.
    #[error("{0}")]
    NotStreamable(TransportFailure),
    /// It does nothing before somebody logs in.
    #[error("{0}")]
    NeedsLogin(Box<LoginRequired>),
    #[error("no answer to the handshake within {after:?}{last_words}")]
    TimedOut {
        after: Duration,
        last_words: LastWords,
    },
}

/// What a server printed before it failed, as the end of an error message.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LastWords {
    pub(super) stderr: String,
    pub(super) noise: Option<String>,
}

impl std::fmt::Display for LastWords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(noise) = &self.noise {
            write!(
                f,
                "; on stdout it printed {noise:?}, which is no MCP message"
            )?;
        }
        if !self.stderr.is_empty() {
            write!(f, "; its last words on stderr:\n{}", self.stderr)?;
        }
        Ok(())
    }
}

impl ConnectError {
    /// Trying again would only fail in the same way.
    pub(crate) fn is_permanent(&self) -> bool {
        match self {
            Self::Spawn(error) => !matches!(error, SpawnError::Other { .. }),
            Self::NotProvided { .. }
            | Self::Withheld
            | Self::Defective(_)
            | Self::Refused(_)
            | Self::NeedsLogin(_) => true,
            Self::Dial(_)
            | Self::Gone { .. }
            | Self::Unreachable(_)
            | Self::NotStreamable(_)
            | Self::TimedOut { .. } => false,
        }
    }

    /// The server was started and went away.
    pub(crate) fn is_crash(&self) -> bool {
        matches!(self, Self::Gone { .. })
    }

    /// Which step it did not get past.
    pub(crate) fn stage(&self) -> ConnectStage {
        match self {
            Self::Spawn(_)
            | Self::NotProvided { .. }
            | Self::Withheld
            | Self::Dial(_)
            | Self::Defective(_) => ConnectStage::Open,
            Self::Unreachable(failed) | Self::NotStreamable(failed) => failed.stage,
            Self::Gone { .. } => ConnectStage::Alive,
            Self::NeedsLogin(_) => ConnectStage::Login,
            Self::Refused(_) | Self::TimedOut { .. } => ConnectStage::Handshake,
        }
    }

    /// The same of an address at which the older transport was sought as well.
    pub(super) fn of_both(self) -> Self {
        match self {
            Self::NotStreamable(failed) => Self::Unreachable(TransportFailure {
                hint: Some(
                    "is the URL right? There is neither streamable HTTP nor the older kind of \
                     stream at it"
                        .to_owned(),
                ),
                ..failed
            }),
            other => other,
        }
    }

    /// How long the server asks to be left alone.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unreachable(failed) => failed.retry_after,
            _ => None,
        }
    }

    /// The server was there, and no session came about.
    pub(super) fn is_of_handshake(&self) -> bool {
        matches!(self.stage(), ConnectStage::Alive | ConnectStage::Handshake)
    }

    /// What to do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Spawn(SpawnError::NotFound { command, searched }) => Some(match searched {
                SearchedIn::Path => format!(
                    "is `{command}` installed and on the PATH? An absolute path in `command` works too"
                ),
                SearchedIn::DefaultPath => {
                    "no PATH was passed in: see HostBuilder::environment".to_owned()
                }
                SearchedIn::AbsolutePath => {
                    "there is no such file: mend the path in `command`, or install it there"
                        .to_owned()
                }
                SearchedIn::Directory(folder) => format!(
                    "a relative path counts from the folder that the server works in, here {}: \
                     mend `command` or `cwd` in its entry, or write an absolute path",
                    folder.display()
                ),
            }),
            Self::Gone {
                withheld: Some(name),
                ..
            } => Some(format!(
                "it names {name}, which is set here but not passed on: write \
                 \"env\": {{\"{name}\": \"${{{name}}}\"}} or \"inheritEnv\": [\"{name}\"] into its entry"
            )),
            Self::NotProvided { name, .. } => Some(format!(
                "an entry of the type `sdk` needs a program that provides its server: \
                 HostBuilder::instance({name:?}, …), or Host::provide({name:?}, …) and then \
                 Host::reconnect"
            )),
            Self::Spawn(SpawnError::Changed { .. }) => Some("switchboard trust".to_owned()),
            Self::NeedsLogin(login) => Some(login.hint.clone()),
            Self::Unreachable(failed) => failed.hint.clone(),
            Self::NotStreamable(_) => Some(
                "is the URL right? A server of the older kind needs \"type\": \"sse\" in its entry"
                    .to_owned(),
            ),
            Self::TimedOut { .. } => Some(
                "a slow start needs more time: `startupTimeout` in its entry, in milliseconds"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

/// What there is instead.
fn also(provided: &[String]) -> String {
    match provided {
        [] => String::new(),
        some => format!(", only {}", some.join(", ")),
    }
}
