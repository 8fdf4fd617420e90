//! Sessions with servers behind a URL.
//!
//! Two transports: [`StreamableHttpSession`], in both eras, where every request is an exchange of its own, and
//! [`Sse2024Session`], the oldest one, where all answers come on one stream. What they share is how a
//! request is authorized and sent ([`client`]) and what an answer of HTTP means ([`status`]).
//!
//! Invariant: nothing is sent again unless the server cannot have carried it out: not a byte of it
//! left, or the server itself said that it did not take it.

mod authorized;
mod dispatch;
mod exchange;
mod health;
mod listen;
mod sse_2024;
mod status;
mod streamable;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};

pub(crate) use authorized::AuthorizedClient;
pub(crate) use health::Health;
pub(crate) use sse_2024::Sse2024Session;
pub(crate) use streamable::StreamableHttpSession;

const ACCEPT_BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const ACCEPT_EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// What sort of body an answer has.
#[derive(Debug, PartialEq, Eq)]
enum ContentType {
    Json,
    Events,
    Other(String),
    Missing,
}

impl ContentType {
    fn of(headers: &HeaderMap) -> Self {
        let Some(value) = headers.get(CONTENT_TYPE) else {
            return Self::Missing;
        };
        if value == JSON {
            return Self::Json;
        }
        let value = String::from_utf8_lossy(value.as_bytes());
        let kind = value.split(';').next().unwrap_or_default().trim();
        if kind.eq_ignore_ascii_case("application/json") {
            Self::Json
        } else if kind.eq_ignore_ascii_case("text/event-stream") {
            Self::Events
        } else {
            Self::Other(kind.to_owned())
        }
    }
}
