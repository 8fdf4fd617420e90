//! What a server reports about itself in the handshake.

use serde::{Deserialize, Serialize};

use super::{Json, ProtocolVersion};
use crate::text::{for_terminal, sanitize};

/// Name and version of a client or server, as it reports them. For display only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Implementation {
    /// The name.
    pub name: String,
    /// The version.
    #[serde(default)]
    pub version: String,
    /// The display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

impl Implementation {
    /// Creates an implementation without a display name.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            title: None,
        }
    }

    /// Returns name, version and title for display: on one line each, sanitized.
    pub fn sanitized(&self) -> Self {
        let clean = |text: &String| for_terminal(text).into_owned();
        Self {
            name: clean(&self.name),
            version: clean(&self.version),
            title: self.title.as_ref().map(clean),
        }
    }
}

/// The capabilities of a server that a client acts on.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a separate flag of the protocol"
)]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerCapabilities {
    /// The server has tools.
    pub tools: bool,
    /// The server notifies its clients when the list of tools changes.
    pub tools_list_changed: bool,
    /// The server has resources.
    pub resources: bool,
    /// The server notifies its clients when the list of resources changes.
    pub resources_list_changed: bool,
    /// The server notifies subscribers when a resource changes.
    pub resources_subscribe: bool,
    /// The server has prompts.
    pub prompts: bool,
    /// The server notifies its clients when the list of prompts changes.
    pub prompts_list_changed: bool,
    /// The server sends log messages.
    pub logging: bool,
    /// The server completes arguments.
    pub completions: bool,
    /// The server runs tool calls as tasks on request (2025-11-25).
    pub tasks: bool,
    /// Tasks can be cancelled.
    pub tasks_cancel: bool,
    /// The capabilities object, as sent.
    #[serde(skip)]
    pub raw: Option<Json>,
}

impl ServerCapabilities {
    /// Adds tools.
    pub fn tools(mut self) -> Self {
        self.tools = true;
        self
    }

    /// Adds tools, and notifications when their list changes.
    pub fn tools_list_changed(mut self) -> Self {
        self.tools_list_changed = true;
        self.tools()
    }

    /// Adds resources.
    pub fn resources(mut self) -> Self {
        self.resources = true;
        self
    }

    /// Adds resources, and notifications when their list changes.
    pub fn resources_list_changed(mut self) -> Self {
        self.resources_list_changed = true;
        self.resources()
    }

    /// Adds resources, and notifications to subscribers when a resource changes.
    pub fn resources_subscribe(mut self) -> Self {
        self.resources_subscribe = true;
        self.resources()
    }

    /// Adds prompts.
    pub fn prompts(mut self) -> Self {
        self.prompts = true;
        self
    }

    /// Adds prompts, and notifications when their list changes.
    pub fn prompts_list_changed(mut self) -> Self {
        self.prompts_list_changed = true;
        self.prompts()
    }
}

/// What the handshake established.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerHello {
    /// The negotiated protocol version.
    pub version: ProtocolVersion,
    /// The server's name and version, if it reports them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_info: Option<Implementation>,
    /// The server's capabilities.
    pub capabilities: ServerCapabilities,
    /// Instructions for the model: untrusted text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}

impl ServerHello {
    /// Creates a handshake result.
    pub fn new(
        version: ProtocolVersion,
        server_info: Option<Implementation>,
        capabilities: ServerCapabilities,
        instructions: Option<String>,
    ) -> Self {
        Self {
            version,
            server_info,
            capabilities,
            instructions,
        }
    }
    /// Returns the handshake result for display: all texts of the server are sanitized.
    pub fn sanitized(&self) -> Self {
        let instructions = self.instructions.as_deref();
        Self {
            server_info: self.server_info.as_ref().map(Implementation::sanitized),
            instructions: instructions.map(|text| sanitize(text).into_owned()),
            capabilities: self.capabilities.clone(),
            version: self.version,
        }
    }
}
