//! What an organisation says about servers: which may be used, and which may not.
//!
//! Pure. Invariants: a deny wins over everything; and where an address cannot be compared with a list
//! without doubt, the server is refused.

mod url_pattern;

use thiserror::Error;

use crate::scope::Scope;
use crate::server::{ServerConfig, TransportConfig};
use crate::server_name::ServerName;
use url_pattern::{Address, Pattern};

/// The administrator's word on servers. The default says nothing: everything may be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerPolicy {
    /// Where there is a list, only servers that something in it fits may be used. Once it names a
    /// command, a program must be allowed by its command and a name no longer does; once it names an
    /// address, so for servers behind an address.
    pub allowed: Option<Vec<ServerMatch>>,
    /// Servers that may not be used, whatever else fits them.
    pub denied: Vec<ServerMatch>,
    /// Only the servers of the administrator's own file may be used.
    pub managed_only: bool,
    /// What servers may be at all.
    pub profile: Profile,
}

/// Which servers are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerMatch {
    /// The one of this name. When denied, in upper or lower case.
    Name(String),
    /// Those that are started by exactly this command and these arguments, variables filled in.
    Command(Vec<String>),
    /// Those at an address that this pattern fits; `*` stands for anything within the host, the port
    /// or the path. Without a path, any fits. When denied, the scheme does not matter, nor does case,
    /// and without a port any fits; when allowed, only the port that goes with the scheme does.
    Url(String),
}

/// For whom a host runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// For a person at their own machine: everything may be used.
    #[default]
    Local,
    /// For many, on a server: nothing external is ever executed, and nobody can be asked.
    Server,
}

/// Why the administrator's word forbids a server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Ban {
    /// It is on the list of those that may not be used.
    #[error("{0} is denied")]
    Denied(ServerMatch),
    /// It is not on the list of those that may.
    #[error("it is not on the list of allowed servers")]
    NotListed,
    /// It is not one of the administrator's own.
    #[error("only the servers of the administrator's own file may be used")]
    NotManaged,
    /// It would execute a program.
    #[error("with the profile `server` no program is executed, and {0} is one")]
    Executes(&'static str),
    /// Nobody can say for sure which address is meant.
    #[error("there are rules about addresses, and it is not certain which address this one is")]
    UnclearAddress,
    /// Nobody can say which addresses are denied.
    #[error("the denied address {0:?} cannot be understood")]
    UnclearRule(String),
}

impl Ban {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::UnclearAddress => {
                "write it plainly: no user name, no `..`, no backslash, and a host in ASCII letters"
            }
            _ => "ask whoever administers this machine (managed-settings.json)",
        }
    }
}

impl std::fmt::Display for ServerMatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => write!(f, "the name {name:?}"),
            Self::Command(words) => write!(f, "the command {words:?}"),
            Self::Url(pattern) => write!(f, "the address {pattern:?}"),
        }
    }
}

impl Profile {
    /// Whether a host of this profile may run such a server.
    pub fn check(self, config: &ServerConfig) -> Result<(), Ban> {
        match (self, &config.transport) {
            (Self::Server, TransportConfig::Stdio(_)) => Err(Ban::Executes("its `command`")),
            (Self::Server, TransportConfig::Remote(remote)) if remote.headers_helper.is_some() => {
                Err(Ban::Executes("its `headersHelper`"))
            }
            _ => Ok(()),
        }
    }
}

impl ServerPolicy {
    /// Whether this server may be used.
    pub fn check(&self, name: &ServerName, scope: Scope, config: &ServerConfig) -> Result<(), Ban> {
        let candidate = Candidate::new(name, &config.transport);
        self.check_address(&candidate)?;
        for denied in &self.denied {
            if candidate.is_denied_by(denied)? {
                return Err(Ban::Denied(denied.clone()));
            }
        }
        if self.managed_only && scope != Scope::Managed {
            return Err(Ban::NotManaged);
        }
        if let Some(allowed) = &self.allowed
            && !candidate.is_allowed_by(allowed)
        {
            return Err(Ban::NotListed);
        }
        self.profile.check(config)
    }

    /// An address that one reader takes for this host and another for that one fits no list.
    fn check_address(&self, candidate: &Candidate<'_>) -> Result<(), Ban> {
        let mut matches = self.denied.iter().chain(self.allowed.iter().flatten());
        let is_about_addresses = matches.any(|one| matches!(one, ServerMatch::Url(_)));
        match candidate.reached {
            Reached::At(None) if is_about_addresses => Err(Ban::UnclearAddress),
            _ => Ok(()),
        }
    }
}

/// A server, as far as lists ask about it.
struct Candidate<'a> {
    name: &'a str,
    reached: Reached<'a>,
}

enum Reached<'a> {
    By(Vec<&'a str>),
    /// `None`: the address is not plain.
    At(Option<Address>),
    Within,
}

impl<'a> Candidate<'a> {
    fn new(name: &'a ServerName, transport: &'a TransportConfig) -> Self {
        let reached = match transport {
            TransportConfig::Stdio(stdio) => {
                let words = std::iter::once(&stdio.command).chain(&stdio.args);
                Reached::By(words.map(String::as_str).collect())
            }
            other => match other.url() {
                Some(url) => Reached::At(Address::parse(url)),
                None => Reached::Within,
            },
        };
        Self {
            name: name.as_str(),
            reached,
        }
    }

    fn is_denied_by(&self, denied: &ServerMatch) -> Result<bool, Ban> {
        Ok(match (denied, &self.reached) {
            (ServerMatch::Name(name), _) => name.to_lowercase() == self.name.to_lowercase(),
            (ServerMatch::Command(words), Reached::By(command)) => command == words,
            (ServerMatch::Url(pattern), Reached::At(Some(address))) => {
                let unclear = || Ban::UnclearRule(pattern.clone());
                let pattern = Pattern::parse(pattern).ok_or_else(unclear)?;
                pattern.fits_widely(address)
            }
            _ => false,
        })
    }

    fn is_allowed_by(&self, allowed: &[ServerMatch]) -> bool {
        let names_commands = allowed
            .iter()
            .any(|one| matches!(one, ServerMatch::Command(_)));
        let names_addresses = allowed.iter().any(|one| matches!(one, ServerMatch::Url(_)));
        allowed.iter().any(|one| match (one, &self.reached) {
            (ServerMatch::Name(_), Reached::By(_)) if names_commands => false,
            (ServerMatch::Name(_), Reached::At(_)) if names_addresses => false,
            (ServerMatch::Name(name), _) => name == self.name,
            (ServerMatch::Command(words), Reached::By(command)) => command == words,
            (ServerMatch::Url(pattern), Reached::At(Some(address))) => {
                Pattern::parse(pattern).is_some_and(|pattern| pattern.fits_exactly(address))
            }
            _ => false,
        })
    }
}
