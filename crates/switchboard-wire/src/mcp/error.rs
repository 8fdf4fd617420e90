//! What a server says when it refuses a request.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Json;

/// A JSON-RPC error object, as the server sent it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ErrorObject {
    /// What kind of refusal; see the constants.
    pub code: i64,
    /// The server's words: untrusted text.
    #[serde(default)]
    pub message: String,
    /// Whatever the server added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Json>,
}

impl ErrorObject {
    /// The request could not be understood.
    pub const INVALID_REQUEST: i64 = -32600;
    /// There is no such method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters do not fit.
    pub const INVALID_PARAMS: i64 = -32602;
    /// Something broke inside the server.
    pub const INTERNAL: i64 = -32603;
    /// There is no such resource (until 2025-11-25).
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// The user has to visit an address before the request can be carried out (2025-11-25).
    pub const VISIT_REQUIRED: i64 = -32042;
    /// Headers and body disagree (modern era).
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The client lacks a capability the server insists on (modern era).
    pub const MISSING_CAPABILITY: i64 = -32021;
    /// The server does not speak the version that was asked for (modern era).
    pub const UNSUPPORTED_VERSION: i64 = -32022;

    /// A refusal of our own making, for in-process servers and for requests that we turn down.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }
}

impl fmt::Display for ErrorObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.message, self.code)?;
        match self.wanted() {
            Some(wanted) => write!(f, "; the server wants its client to offer {wanted}"),
            None => Ok(()),
        }
    }
}

impl ErrorObject {
    /// The capabilities that the server insists on, in words, where that is what it is about.
    fn wanted(&self) -> Option<String> {
        const MOST: usize = 8;
        const LONGEST: usize = 64;
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Written {
            required_capabilities: serde_json::Map<String, serde_json::Value>,
        }
        let data = self
            .data
            .as_ref()
            .filter(|_| self.code == Self::MISSING_CAPABILITY)?;
        let written: Written = serde_json::from_str(data.as_str()).ok()?;
        let short = |name: &String| name.chars().take(LONGEST).collect::<String>();
        let names: Vec<_> = written
            .required_capabilities
            .keys()
            .take(MOST)
            .map(short)
            .collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}
