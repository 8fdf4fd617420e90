//! JSON-RPC error objects and the codes that MCP defines.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Json;
use crate::text::sanitize;

/// A JSON-RPC error object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ErrorObject {
    /// The code; see the constants.
    pub code: i64,
    /// The message: untrusted text if a server sent it.
    #[serde(default)]
    pub message: String,
    /// Additional data, as sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Json>,
}

impl ErrorObject {
    /// The request is not a valid JSON-RPC request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters are invalid.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The server failed internally.
    pub const INTERNAL: i64 = -32603;
    /// The resource does not exist (versions up to 2025-11-25).
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// The user has to open a URL before the request can succeed (2025-11-25).
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// HTTP headers and message body contradict each other (modern era).
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The client lacks a capability that the server requires (modern era).
    pub const MISSING_CAPABILITY: i64 = -32021;
    /// The server does not support the protocol version of the request (modern era).
    pub const UNSUPPORTED_VERSION: i64 = -32022;

    /// Creates an error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }
}

impl fmt::Display for ErrorObject {
    /// Writes the sanitized message and the code.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", sanitize(&self.message), self.code)?;
        match self.required_capabilities() {
            Some(names) => write!(
                f,
                "; the server requires the client capabilities {}",
                sanitize(&names)
            ),
            None => Ok(()),
        }
    }
}

impl ErrorObject {
    /// Returns the names of the capabilities that a
    /// [`MISSING_CAPABILITY`](Self::MISSING_CAPABILITY) error lists, separated by commas.
    fn required_capabilities(&self) -> Option<String> {
        const MAX_NAMES: usize = 8;
        const MAX_NAME_CHARS: usize = 64;
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct RawData {
            required_capabilities: serde_json::Map<String, serde_json::Value>,
        }
        let data = self
            .data
            .as_ref()
            .filter(|_| self.code == Self::MISSING_CAPABILITY)?;
        let raw: RawData = serde_json::from_str(data.as_str()).ok()?;
        let short = |name: &String| name.chars().take(MAX_NAME_CHARS).collect::<String>();
        let names: Vec<_> = raw
            .required_capabilities
            .keys()
            .take(MAX_NAMES)
            .map(short)
            .collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}
