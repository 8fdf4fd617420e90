//! Headers of streamable HTTP: protocol version, session id, and the parts of the body that the
//! modern era repeats in headers.
//!
//! Invariant: headers and body of a request agree.

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

/// The parts of a request that its headers repeat.
#[derive(Clone, Copy)]
pub(super) struct RequestHeaders<'a> {
    pub(super) method: &'static str,
    /// The tool, resource or prompt.
    pub(super) name: Option<&'a str>,
    /// The arguments that the tool wants in headers, and the call that they belong to.
    pub(super) header_params: Option<(&'a HeaderParams, &'a ToolRequest<'a>)>,
    /// The protocol version of a request of the handshake. Otherwise the negotiated version is
    /// used.
    pub(super) version: Option<ProtocolVersion>,
}

impl RequestHeaders<'_> {
    pub(super) fn of(method: &'static str) -> Self {
        Self {
            method,
            name: None,
            header_params: None,
            version: None,
        }
    }
}

impl StreamableHttpSession {
    /// The headers of a POST.
    pub(super) fn headers(&self, request: &RequestHeaders<'_>) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(12);
        headers.insert(ACCEPT, ACCEPT_BOTH);
        headers.insert(CONTENT_TYPE, JSON);
        self.insert_version_headers(&mut headers, request.version);
        let version = request.version.or_else(|| self.core.peer.version());
        if version.is_some_and(|version| version.era() == Era::Modern) {
            headers.insert(METHOD, HeaderValue::from_static(request.method));
            if let Some(name) = request.name {
                headers.insert(NAME, header_value(name));
            }
            if let Some((params, call)) = request.header_params {
                headers.extend(params.headers(call.arguments));
            }
        }
        headers
    }

    /// Inserts the protocol version and the session id.
    pub(super) fn insert_version_headers(
        &self,
        headers: &mut HeaderMap,
        version: Option<ProtocolVersion>,
    ) {
        let version = version.or_else(|| self.core.peer.version());
        // Older versions do not have the header.
        if let Some(version) = version.filter(|version| *version > ProtocolVersion::V2025_03_26) {
            let version = HeaderValue::from_static(version.as_str());
            headers.insert(PROTOCOL_VERSION, version);
        }
        if let Some(session) = self.session_id.get() {
            headers.insert(SESSION_ID, session.clone());
        }
    }

    /// Stores the session id that the server assigned, if any.
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
