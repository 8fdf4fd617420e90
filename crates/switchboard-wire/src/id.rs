//! Names of servers and tools.
//!
//! Invariant: a [`ToolId`] is the pair (server, raw tool name) and is what decisions are made on;
//! a [`WireName`] is only how that pair is spelled for a model.

mod server_name;

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

pub use server_name::{InvalidServerName, ServerName};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident($text:ty)) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name($text);

        impl $name {
            /// The text of it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

text_id! {
    /// A tool's name exactly as its server wrote it.
    ToolName(Arc<str>)
}

text_id! {
    /// How a model spells a tool: `mcp__server__tool`, at most 64 characters of `[A-Za-z0-9_-]`.
    WireName(Arc<str>)
}

/// The identity of a tool: which server offers it, and under which raw name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[non_exhaustive]
pub struct ToolId {
    /// The configured server, by the name the user gave it.
    pub server: ServerName,
    /// The tool's raw name.
    pub tool: ToolName,
}

impl ToolId {
    /// Pairs a server with one of its tools.
    pub fn new(server: ServerName, tool: impl Into<ToolName>) -> Self {
        Self {
            server,
            tool: tool.into(),
        }
    }
}

impl fmt::Display for ToolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of server {}", self.tool, self.server)
    }
}
