//! Names of servers and tools.
//!
//! Invariant: permissions and calls are decided on the [`ToolId`], the pair of server and raw tool
//! name. The [`WireName`] is only the encoding of that pair for a model. Names are compared and sent
//! as raw text, and sanitized where they are displayed or serialized.

mod server_name;

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::text::for_terminal;

pub use server_name::{InvalidServerName, ServerName};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident($text:ty)) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($text);

        impl $name {
            /// The name as raw text.
            #[inline]
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
            #[inline]
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            #[inline]
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $name {
            /// Writes the name on one line and without invisible characters.
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&for_terminal(&self.0))
            }
        }

        impl fmt::Display for $name {
            /// Writes the name on one line and without invisible characters.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&for_terminal(&self.0))
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
    /// A tool's name exactly as its server lists it: untrusted text. [`as_str`](Self::as_str)
    /// returns the raw name. The name is sanitized where it is displayed or serialized.
    ToolName(Arc<str>)
}

text_id! {
    /// The name under which a model calls a tool: `mcp__server__tool`, at most 64 characters of
    /// `[A-Za-z0-9_-]`.
    WireName(Arc<str>)
}

/// The identity of a tool: its server and its raw name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[non_exhaustive]
pub struct ToolId {
    /// The server, by its configured name.
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
