//! Headers of streamable HTTP: the protocol version, the session id, and the parts of the body that
//! requests of the modern era repeat in headers.
//!
//! Invariant: a header that repeats a part of the body has the same value as that part.

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};

use super::streamable::StreamableHttpSession;
use super::{ACCEPT_BOTH, JSON, METHOD, NAME, PROTOCOL_VERSION, SESSION_ID};
use crate::session::{RequestError, ToolRequest};
use switchboard_wire::header_params::{HeaderParams, header_value};
use switchboard_wire::jsonrpc::InvalidMessage;
use switchboard_wire::mcp::{Era, ProtocolVersion};

/// Maximum length of a session id, in bytes.
const MAX_SESSION_ID_BYTES: usize = 256;

/// The parts of a request from which its headers are built.
#[derive(Clone, Copy)]
pub(super) struct RequestHeaders<'a> {
    pub(super) method: &'a str,
    /// The name of the tool or prompt, the URI of the resource, or the id of the task.
    pub(super) name: Option<&'a str>,
    /// Which arguments the tool wants in headers, and the call that has these arguments.
    pub(super) header_params: Option<(&'a HeaderParams, &'a ToolRequest<'a>)>,
    /// The protocol version, for requests of the handshake. `None`: the negotiated version is sent.
    pub(super) version: Option<ProtocolVersion>,
}

impl<'a> RequestHeaders<'a> {
    pub(super) fn of(method: &'a str) -> Self {
        Self {
            method,
            name: None,
            header_params: None,
            version: None,
        }
    }
}

impl StreamableHttpSession {
    /// The headers of a POST with this request.
    pub(super) fn headers(&self, request: &RequestHeaders<'_>) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(12);
        headers.insert(ACCEPT, ACCEPT_BOTH);
        headers.insert(CONTENT_TYPE, JSON);
        self.insert_version_headers(&mut headers, request.version);
        let version = request.version.or_else(|| self.core.peer.version());
        if version.is_some_and(|version| version.era() == Era::Modern) {
            headers.insert(METHOD, header_value(request.method));
            if let Some(name) = request.name {
                headers.insert(NAME, header_value(name));
            }
            if let Some((params, call)) = request.header_params {
                headers.extend(params.headers(call.arguments));
            }
        }
        headers
    }

    /// Inserts the header with the protocol version, by default the negotiated one, and the header
    /// with the session id. Leaves out a header whose value is not known yet.
    pub(super) fn insert_version_headers(
        &self,
        headers: &mut HeaderMap,
        version: Option<ProtocolVersion>,
    ) {
        let version = version.or_else(|| self.core.peer.version());
        // Versions up to 2025-03-26 do not have this header.
        if let Some(version) = version.filter(|version| *version > ProtocolVersion::V2025_03_26) {
            let version = HeaderValue::from_static(version.as_str());
            headers.insert(PROTOCOL_VERSION, version);
        }
        if let Some(session) = self.session_id.get() {
            headers.insert(SESSION_ID, session.clone());
        }
    }

    /// Stores the session id from the headers of the response to `initialize`, if there is one.
    /// Fails if the id is invalid.
    pub(super) fn store_session_id(&self, headers: &HeaderMap) -> Result<(), RequestError> {
        let Some(id) = headers.get(SESSION_ID) else {
            return Ok(());
        };
        let is_plain = id.as_bytes().iter().all(u8::is_ascii_graphic);
        if !is_plain || id.is_empty() || id.len() > MAX_SESSION_ID_BYTES {
            let why = format!(
                "its session id is not 1 to {MAX_SESSION_ID_BYTES} visible ASCII characters"
            );
            return Err(RequestError::InvalidResponse(InvalidMessage::Malformed(
                why,
            )));
        }
        let mut id = id.clone();
        // The id authorizes requests: keep it out of debug output.
        id.set_sensitive(true);
        let _ = self.session_id.set(id);
        Ok(())
    }
}
