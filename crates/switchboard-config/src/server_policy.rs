//! The administrator's allow and deny lists for servers.
//!
//! Pure. Invariants: a deny entry wins over everything else. If the lists contain URL patterns, a
//! server whose URL is ambiguous is refused.

mod url_pattern;

use thiserror::Error;

use crate::scope::Scope;
use crate::server::{ServerConfig, TransportConfig};
use crate::server_name::ServerName;
use url_pattern::{CanonicalUrl, UrlPattern};

/// Which servers the administrator allows. The default allows every server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerPolicy {
    /// If set, only servers that match an item are allowed. If the list contains a `Command` item,
    /// a stdio server must match a `Command` item, and a `Name` item is not sufficient. The same
    /// holds for `Url` items and remote servers.
    pub allowed: Option<Vec<ServerMatch>>,
    /// Servers that are never allowed.
    pub denied: Vec<ServerMatch>,
    /// Allow only the servers of the administrator's managed file.
    pub managed_only: bool,
    /// Restrictions on the kind of server.
    pub profile: Profile,
}

/// Selects servers by name, command or URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerMatch {
    /// The server with this name. In a deny list, case is ignored.
    Name(String),
    /// Servers with exactly this command and these arguments, after expansion of variables.
    Command(Vec<String>),
    /// Servers whose URL matches this pattern. `*` matches any text within the host, the port or
    /// the path. A pattern without a path matches every path. In a deny list, the scheme and case
    /// are ignored, and a pattern without a port matches every port; in an allow list, it matches
    /// only the default port of the scheme.
    Url(String),
}

/// Who uses a host, which decides what kinds of servers it may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// A person on their own machine: no restrictions.
    #[default]
    Local,
    /// A shared server: never runs programs, and there is no user who could be asked.
    Server,
}

/// Why the administrator's policy forbids a server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PolicyViolation {
    /// The server matches an item of the deny list.
    #[error("{0} is denied")]
    Denied(ServerMatch),
    /// The server matches no item of the allow list.
    #[error("not in the list of allowed servers")]
    NotAllowed,
    /// The server is not from the administrator's managed file.
    #[error("only servers from the managed config are allowed")]
    NotManaged,
    /// The server would run a program under [`Profile::Server`].
    #[error("profile `server` forbids running programs ({0})")]
    RunsProgram(&'static str),
    /// The URL of the server has several interpretations, and the lists contain URL patterns.
    #[error("the URL is ambiguous, and URL rules are in effect")]
    AmbiguousUrl,
    /// The deny list contains an invalid URL pattern, so every remote server is refused.
    #[error("invalid URL pattern in deniedServers: {0:?}")]
    InvalidUrlRule(String),
}

impl PolicyViolation {
    /// A command or action to try.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::AmbiguousUrl => {
                "use a plain URL: no user name, no `..`, no backslash, ASCII host"
            }
            _ => "ask your administrator (managed-settings.json)",
        }
    }
}

impl std::fmt::Display for ServerMatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => write!(f, "the name {name:?}"),
            Self::Command(words) => write!(f, "the command {words:?}"),
            Self::Url(pattern) => write!(f, "the URL {pattern:?}"),
        }
    }
}

impl Profile {
    /// Checks whether a host with this profile may run a server with this config.
    pub fn check(self, config: &ServerConfig) -> Result<(), PolicyViolation> {
        match (self, &config.transport) {
            (Self::Server, TransportConfig::Stdio(_)) => {
                Err(PolicyViolation::RunsProgram("its `command`"))
            }
            (Self::Server, TransportConfig::Remote(remote)) if remote.headers_helper.is_some() => {
                Err(PolicyViolation::RunsProgram("its `headersHelper`"))
            }
            _ => Ok(()),
        }
    }
}

impl ServerPolicy {
    /// Checks whether the policy allows this server.
    pub fn check(
        &self,
        name: &ServerName,
        scope: Scope,
        config: &ServerConfig,
    ) -> Result<(), PolicyViolation> {
        let subject = PolicySubject::new(name, &config.transport);
        self.check_url(&subject)?;
        for denied in &self.denied {
            if subject.is_denied_by(denied)? {
                return Err(PolicyViolation::Denied(denied.clone()));
            }
        }
        if self.managed_only && scope != Scope::Managed {
            return Err(PolicyViolation::NotManaged);
        }
        if let Some(allowed) = &self.allowed
            && !subject.is_allowed_by(allowed)
        {
            return Err(PolicyViolation::NotAllowed);
        }
        self.profile.check(config)
    }

    /// Refuses an ambiguous URL if any list contains a URL pattern.
    fn check_url(&self, subject: &PolicySubject<'_>) -> Result<(), PolicyViolation> {
        let mut items = self.denied.iter().chain(self.allowed.iter().flatten());
        let has_url_items = items.any(|item| matches!(item, ServerMatch::Url(_)));
        match subject.reach {
            Reach::Url(None) if has_url_items => Err(PolicyViolation::AmbiguousUrl),
            _ => Ok(()),
        }
    }
}

/// The properties of a server that the lists look at.
struct PolicySubject<'a> {
    name: &'a str,
    reach: Reach<'a>,
}

enum Reach<'a> {
    Command(Vec<&'a str>),
    /// `None` if the URL is ambiguous.
    Url(Option<CanonicalUrl>),
    InProcess,
}

impl<'a> PolicySubject<'a> {
    fn new(name: &'a ServerName, transport: &'a TransportConfig) -> Self {
        let reach = match transport {
            TransportConfig::Stdio(stdio) => {
                let words = std::iter::once(&stdio.command).chain(&stdio.args);
                Reach::Command(words.map(String::as_str).collect())
            }
            other => match other.url() {
                Some(url) => Reach::Url(CanonicalUrl::parse(url)),
                None => Reach::InProcess,
            },
        };
        Self {
            name: name.as_str(),
            reach,
        }
    }

    fn is_denied_by(&self, denied: &ServerMatch) -> Result<bool, PolicyViolation> {
        Ok(match (denied, &self.reach) {
            (ServerMatch::Name(name), _) => name.to_lowercase() == self.name.to_lowercase(),
            (ServerMatch::Command(words), Reach::Command(command)) => command == words,
            (ServerMatch::Url(pattern), Reach::Url(Some(url))) => {
                let invalid = || PolicyViolation::InvalidUrlRule(pattern.clone());
                let pattern = UrlPattern::parse(pattern).ok_or_else(invalid)?;
                pattern.matches_deny(url)
            }
            _ => false,
        })
    }

    fn is_allowed_by(&self, allowed: &[ServerMatch]) -> bool {
        let has_commands = allowed
            .iter()
            .any(|item| matches!(item, ServerMatch::Command(_)));
        let has_urls = allowed
            .iter()
            .any(|item| matches!(item, ServerMatch::Url(_)));
        allowed.iter().any(|item| match (item, &self.reach) {
            (ServerMatch::Name(_), Reach::Command(_)) if has_commands => false,
            (ServerMatch::Name(_), Reach::Url(_)) if has_urls => false,
            (ServerMatch::Name(name), _) => name == self.name,
            (ServerMatch::Command(words), Reach::Command(command)) => command == words,
            (ServerMatch::Url(pattern), Reach::Url(Some(url))) => {
                UrlPattern::parse(pattern).is_some_and(|pattern| pattern.matches_allow(url))
            }
            _ => false,
        })
    }
}
