//! Answers permission questions of the host, and elicitation and roots requests of servers.
//!
//! Elicitation is offered to servers only if a person can be asked; `--yes` answers permission
//! questions but not elicitations. Invariant: local paths are sent to local servers only.

use std::collections::BTreeSet;

use switchboard::Interaction;
use switchboard::elicitation::{ElicitResponse, Elicitation};
use switchboard::interaction::{BoxFuture, ClientCapabilities, Root};
use switchboard::permission::{PermissionRequest, PermissionResponse};
use switchboard_config::ServerName;

use crate::elicit::ElicitPrompt;
use crate::permission_prompt::PermissionPrompt;

/// The CLI's implementation of [`Interaction`].
#[derive(Debug)]
pub(crate) struct CliInteraction {
    /// Asks for permission; `None` in commands that call no tool.
    pub(crate) permission: Option<PermissionPrompt>,
    /// Shows elicitations; `None` if no person can be asked or elicitation is turned off.
    pub(crate) elicit: Option<ElicitPrompt>,
    /// The MCP roots that servers may request: the project directory.
    pub(crate) roots: Vec<Root>,
    /// The servers that run on this machine.
    pub(crate) local_servers: BTreeSet<ServerName>,
}

impl CliInteraction {
    /// Turns elicitation off, so that it is not offered to servers.
    pub(crate) fn without_elicitation(mut self) -> Self {
        self.elicit = None;
        self
    }
}

impl Interaction for CliInteraction {
    fn capabilities_for(&self, server: &ServerName) -> ClientCapabilities {
        let mut capabilities = ClientCapabilities::default();
        if self.elicit.is_some() {
            capabilities = capabilities.elicitation().elicitation_url();
        }
        if self.local_servers.contains(server) && !self.roots.is_empty() {
            capabilities = capabilities.roots();
        }
        capabilities
    }

    fn can_use_tool(&self, request: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        Box::pin(async move {
            match &self.permission {
                Some(prompt) => prompt.ask_permission(&request).await,
                None => PermissionResponse::NoInteraction,
            }
        })
    }

    fn elicit<'a>(&'a self, elicitation: Elicitation<'a>) -> BoxFuture<'a, ElicitResponse> {
        Box::pin(async move {
            match &self.elicit {
                Some(prompt) => prompt.ask(&elicitation).await,
                None => ElicitResponse::Decline,
            }
        })
    }

    fn roots<'a>(&'a self, _: &'a ServerName) -> BoxFuture<'a, Vec<Root>> {
        Box::pin(std::future::ready(self.roots.clone()))
    }
}
