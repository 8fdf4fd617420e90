//! Sessions with servers behind a URL.
//!
//! There are two transports. [`StreamableHttpSession`] serves both eras, with one HTTP exchange per
//! request. [`Sse2024Session`] is the transport of 2024-11-05, with all responses on one event
//! stream. Both transports are built on `http_core`, authorize requests with `authorized`, read
//! events with `event_stream`, handle messages in `incoming` and map error statuses with
//! `status`.
//!
//! Invariant: a request is sent again only if the server cannot have executed it. Either no byte of
//! the request was sent, or the server responded that it rejects or redirects the request.

mod authorized;

mod event_stream;
mod exchange;
mod health;
mod http_core;
mod incoming;
mod listen;
mod request_headers;
mod sse_2024;
mod status;
mod streamable;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};

pub(crate) use authorized::AuthorizedClient;
pub use health::Health;
pub use sse_2024::Sse2024Session;
pub use streamable::StreamableHttpSession;

const ACCEPT_BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const ACCEPT_EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Turns an encoded line into the body of a POST: removes the line end.
fn post_body(mut line: Vec<u8>) -> Bytes {
    line.pop();
    line.into()
}

/// Content type of an HTTP response, without its parameters.
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
