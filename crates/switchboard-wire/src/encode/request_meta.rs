//! The `_meta` object of requests, and the capabilities of the client in it.

use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::{json, write_serialized};
use crate::mcp::{ClientCapabilities, Implementation, LogLevel, ProtocolVersion};

/// The `_meta` of a request: progress token, trace context and, in the modern era, a description of
/// the client.
#[derive(Debug)]
pub struct RequestMeta<'a> {
    progress_token: Option<u64>,
    traceparent: Option<&'a str>,
    modern: Option<ModernFields<'a>>,
}

/// What each request of the modern era says about the client. Replaces `initialize`.
#[derive(Debug)]
struct ModernFields<'a> {
    version: ProtocolVersion,
    client: &'a Implementation,
    capabilities: RawCapabilities,
    log_level: Option<LogLevel>,
}

impl<'a> RequestMeta<'a> {
    /// `modern` is the protocol version of a modern session and `None` in the legacy era.
    pub fn new(
        modern: Option<ProtocolVersion>,
        client: &'a Implementation,
        capabilities: ClientCapabilities,
        progress_token: Option<u64>,
        traceparent: Option<&'a str>,
    ) -> Self {
        let modern = modern.map(|version| ModernFields {
            version,
            client,
            capabilities: RawCapabilities::modern(capabilities),
            log_level: None,
        });
        Self {
            progress_token,
            traceparent,
            modern,
        }
    }

    /// Requests the log messages that have at least this level during the request. No effect in the
    /// legacy era.
    #[inline]
    pub fn log_level(mut self, level: Option<LogLevel>) -> Self {
        if let Some(modern) = &mut self.modern {
            modern.log_level = level;
        }
        self
    }

    /// Appends the object. Each call sends it, so the keys are written without serde.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        if let Some(token) = &self.progress_token {
            out.extend_from_slice(br#","progressToken":"#);
            write_serialized(out, token);
        }
        if let Some(traceparent) = self.traceparent {
            out.extend_from_slice(br#","traceparent":"#);
            json::write_string(out, traceparent);
        }
        if let Some(modern) = &self.modern {
            out.extend_from_slice(br#","io.modelcontextprotocol/protocolVersion":"#);
            json::write_string(out, modern.version.as_str());
            out.extend_from_slice(br#","io.modelcontextprotocol/clientInfo":"#);
            write_serialized(out, modern.client);
            out.extend_from_slice(br#","io.modelcontextprotocol/clientCapabilities":"#);
            write_serialized(out, &modern.capabilities);
            if let Some(level) = modern.log_level {
                out.extend_from_slice(br#","io.modelcontextprotocol/logLevel":"#);
                json::write_string(out, level.as_str());
            }
        }
        // The comma of the first member becomes the opening brace.
        match out.get_mut(start) {
            Some(comma) => *comma = b'{',
            None => out.push(b'{'),
        }
        out.push(b'}');
    }

    pub(super) fn is_empty(&self) -> bool {
        self.progress_token.is_none() && self.traceparent.is_none() && self.modern.is_none()
    }
}

impl Serialize for RequestMeta<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = Vec::new();
        self.write(&mut text);
        let json: &RawValue = serde_json::from_slice(&text).map_err(S::Error::custom)?;
        json.serialize(serializer)
    }
}

/// The client's capabilities as JSON.
#[derive(Debug, Serialize)]
pub(super) struct RawCapabilities {
    #[serde(skip_serializing_if = "Option::is_none")]
    elicitation: Option<Elicitation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sampling: Option<Sampling>,
    #[serde(skip_serializing_if = "Option::is_none")]
    roots: Option<Roots>,
    /// Only in the modern era.
    #[serde(skip_serializing_if = "Option::is_none")]
    extensions: Option<Extensions>,
}

#[derive(Debug, Serialize)]
struct Elicitation {
    #[serde(skip_serializing_if = "Option::is_none")]
    form: Option<EmptyObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<EmptyObject>,
}

#[derive(Debug, Serialize)]
struct Sampling {
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<EmptyObject>,
}

/// The protocol extensions that the client supports.
#[derive(Debug, Default, Serialize)]
struct Extensions {
    #[serde(rename = "io.modelcontextprotocol/tasks")]
    tasks: EmptyObject,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Roots {
    /// Whether the client notifies of changes. Only in the legacy era.
    #[serde(skip_serializing_if = "Option::is_none")]
    list_changed: Option<bool>,
}

/// A capability without settings: `{}`.
#[derive(Debug, Default, Serialize)]
struct EmptyObject {}

impl RawCapabilities {
    fn modern(capabilities: ClientCapabilities) -> Self {
        let has_elicitation = capabilities.elicitation || capabilities.elicitation_url;
        Self {
            elicitation: has_elicitation.then(|| Elicitation {
                form: capabilities.elicitation.then(EmptyObject::default),
                url: capabilities.elicitation_url.then(EmptyObject::default),
            }),
            sampling: capabilities.sampling.then(|| Sampling {
                tools: capabilities.sampling_tools.then(EmptyObject::default),
            }),
            roots: capabilities.roots.then(Roots::default),
            extensions: Some(Extensions::default()),
        }
    }

    pub(super) fn legacy(capabilities: ClientCapabilities) -> Self {
        let mut raw = Self {
            extensions: None,
            ..Self::modern(capabilities)
        };
        // Without URL mode, announce `elicitation: {}`, the form that versions before 2025-11-25
        // define.
        if !capabilities.elicitation_url
            && let Some(elicitation) = &mut raw.elicitation
        {
            elicitation.form = None;
        }
        if let Some(roots) = &mut raw.roots {
            roots.list_changed = Some(true);
        }
        raw
    }
}
