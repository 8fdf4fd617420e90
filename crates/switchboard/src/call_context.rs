//! [`CallContext`]: the principal, the origin, the servers, the deadline and the `traceparent` of a
//! call.
//!
//! Plain data. The type is not in the module `call`, because `permission` uses it and `call`
//! depends on `permission`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::id::{Principal, ServerName};

/// On whose behalf a call is made, what triggered it, and until when its caller waits.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CallContext {
    /// On whose behalf the call is made.
    pub principal: Principal,
    /// What triggered the call.
    pub origin: CallOrigin,
    /// The servers that the request may use. A call of a tool of another server fails.
    pub servers: ServerSelection,
    /// When the caller stops waiting. The call can end earlier, at the call timeout of its server
    /// or, if the server has none, of the host.
    pub deadline: Option<Instant>,
    /// How long the call may take, in place of the timeouts of its server and of the host. The
    /// idle timeout does not apply then.
    pub timeout: Option<Duration>,
    /// A W3C `traceparent` value that is sent to the server with the call.
    pub traceparent: Option<Arc<str>>,
}

impl CallContext {
    /// Creates a context with this principal. The origin is [`CallOrigin::Program`], and there is
    /// no deadline.
    pub fn for_principal(principal: impl Into<Principal>) -> Self {
        Self {
            principal: principal.into(),
            ..Self::default()
        }
    }

    /// Sets what triggered the call.
    pub fn origin(mut self, origin: CallOrigin) -> Self {
        self.origin = origin;
        self
    }

    /// Limits the request to these servers.
    pub fn servers(mut self, servers: impl Into<ServerSelection>) -> Self {
        self.servers = servers.into();
        self
    }

    /// Sets when the caller stops waiting. The call then fails with a timeout.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets how long the call may take, in place of the timeouts of its server and of the host.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets a W3C `traceparent` value that is sent to the server with the call.
    pub fn traceparent(mut self, traceparent: impl Into<Arc<str>>) -> Self {
        self.traceparent = Some(traceparent.into());
        self
    }
}

/// The servers that a request may use.
///
/// ```
/// use switchboard::CallContext;
/// use switchboard::call::ServerSelection;
///
/// assert_eq!(CallContext::default().servers, ServerSelection::All);
/// let context = CallContext::default().servers(["files", "search"]);
/// assert_eq!(context.servers, ServerSelection::only(["search", "files"]));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerSelection {
    /// All servers of the host, including servers that are added later.
    #[default]
    All,
    /// The servers with these names. Names that no server has are ignored.
    Only(Arc<BTreeSet<String>>),
}

impl ServerSelection {
    /// Selects the servers with these names.
    pub fn only<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self::Only(Arc::new(names.into_iter().map(Into::into).collect()))
    }

    /// Whether the server is selected.
    pub fn contains(&self, server: &ServerName) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(server.as_str()),
        }
    }
}

impl<S: Into<String>, const COUNT: usize> From<[S; COUNT]> for ServerSelection {
    fn from(names: [S; COUNT]) -> Self {
        Self::only(names)
    }
}

impl<S: Into<String>> From<Vec<S>> for ServerSelection {
    fn from(names: Vec<S>) -> Self {
        Self::only(names)
    }
}

/// What triggered a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallOrigin {
    /// The embedding program.
    #[default]
    Program,
    /// A model in an agent loop.
    Model,
    /// A user who typed the call.
    User,
    /// A watch that polls a tool.
    Watch,
}
