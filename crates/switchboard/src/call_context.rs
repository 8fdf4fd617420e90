//! The context of a call: principal, origin, deadline, trace.
//!
//! Plain data. It is not part of `call`, because permission requests contain it and `call` depends
//! on them.

use tokio::time::Instant;

use crate::id::Principal;

/// The context of a call: on whose behalf it is made, what triggered it, and its deadline.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CallContext {
    /// On whose behalf the call is made.
    pub principal: Principal,
    /// What triggered the call.
    pub origin: CallOrigin,
    /// When the caller stops waiting. The timeouts of the host and of the server apply as well.
    pub deadline: Option<Instant>,
    /// A W3C `traceparent` header value to forward to the server.
    pub traceparent: Option<String>,
}

impl CallContext {
    /// A context for calls on behalf of `principal`.
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

    /// Sets when the caller stops waiting.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Forwards a W3C `traceparent` to the server.
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
