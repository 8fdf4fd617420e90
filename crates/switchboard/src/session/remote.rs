//! Sessions with servers behind a URL.
//!
//! Two transports: [`Streamable`], in both eras, where every request is an exchange of its own, and
//! [`EventStream`], the oldest one, where all answers come on one stream. What they share is how a
//! request is authorized and sent ([`courier`]) and what an answer of HTTP means ([`refusal`]).
//!
//! Invariant: nothing is sent again unless the server cannot have carried it out: not a byte of it
//! left, or the server itself said that it did not take it.

mod courier;
mod event_stream;
mod exchange;
mod health;
mod refusal;
mod standing;
mod streamable;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};

pub(crate) use courier::Courier;
pub(crate) use event_stream::EventStream;
pub(crate) use health::Health;
pub(crate) use streamable::Streamable;

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
enum Media {
    Json,
    Events,
    Other(String),
    Unsaid,
}

impl Media {
    fn of(headers: &HeaderMap) -> Self {
        let Some(value) = headers.get(CONTENT_TYPE) else {
            return Self::Unsaid;
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
