//! [`CallContext`]: the principal, the origin, the deadline and the `traceparent` of a call.
//!
//! Plain data. The type is not in the module `call`, because `permission` uses it and `call`
//! depends on `permission`.

use tokio::time::Instant;

use crate::id::Principal;

/// On whose behalf a call is made, what triggered it, and until when its caller waits.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CallContext {
    /// On whose behalf the call is made.
    pub principal: Principal,
    /// What triggered the call.
    pub origin: CallOrigin,
    /// When the caller stops waiting. The call can end earlier, at the call timeout of its server
    /// or, if the server has none, of the host.
    pub deadline: Option<Instant>,
    /// A W3C `traceparent` value that is sent to the server with the call.
    pub traceparent: Option<String>,
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

    /// Sets when the caller stops waiting. The call then fails with a timeout.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets a W3C `traceparent` value that is sent to the server with the call.
    pub fn traceparent(mut self, traceparent: impl Into<String>) -> Self {
        self.traceparent = Some(traceparent.into());
        self
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
