//! The permission request for one call, the response to the request, and the reasons for a denial.
//!
//! Data only. A [`PermissionRequest`] asks about one call for which the policy requires permission,
//! and an [`Interaction`](crate::Interaction) responds to it.

use serde_json::{Map, Value};
use switchboard_wire::mcp::ToolAnnotations;

use super::{CallFacts, Decision};
use crate::call_context::CallContext;
use crate::id::{ToolId, WireName};

/// Asks the user for permission for one call. Holds all data that the user needs to decide.
///
/// All fields are owned, so that a front end can move the request to another task.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PermissionRequest {
    /// The server, and the name of the tool as the server sent it.
    pub tool: ToolId,
    /// The name by which the model calls the tool.
    pub wire_name: WireName,
    /// The arguments exactly as the host would send them.
    pub arguments: Map<String, Value>,
    /// The server's hints about the tool. Hints are not verified.
    pub annotations: ToolAnnotations,
    /// Why the call needs permission: because of a rule, or because no rule matches.
    pub decision: Decision,
    /// Who makes the call, and the deadline of the call.
    pub context: CallContext,
}

impl PermissionRequest {
    /// Creates a request for one call. Programs need this only for calls that the host does not
    /// execute itself.
    pub fn new(
        input: &CallFacts<'_>,
        arguments: &Map<String, Value>,
        decision: &Decision,
        context: &CallContext,
    ) -> Self {
        Self {
            tool: input.tool.clone(),
            wire_name: input.wire_name.clone(),
            arguments: arguments.clone(),
            annotations: input.annotations.clone(),
            decision: decision.clone(),
            context: context.clone(),
        }
    }
}

/// The response to a [`PermissionRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PermissionResponse {
    /// Make this one call.
    Allow,
    /// Do not make the call.
    Deny,
    /// No user or front end is available to decide.
    NoInteraction,
}

impl PermissionResponse {
    /// Returns `Ok` for [`Allow`](Self::Allow), otherwise the reason for the denial.
    pub(crate) fn into_result(self) -> Result<(), Denial> {
        match self {
            Self::Allow => Ok(()),
            Self::Deny => Err(Denial::User),
            Self::NoInteraction => Err(Denial::NoInteraction),
        }
    }
}

/// Why a call was denied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Denial {
    /// A rule denies the call.
    #[error("{0}")]
    Rule(Decision),
    /// The user denied the call.
    #[error("the user denied permission")]
    User,
    /// A watch polls this tool. The definition of the tool changed too often after the user had
    /// allowed the polls.
    #[error("the definition of the tool changed too often after the user allowed it")]
    ToolChanged,
    /// The call needs permission, and no user or front end is available to decide.
    #[error("it needs permission and no user can be asked")]
    NoInteraction,
}
