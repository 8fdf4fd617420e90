//! Reads the `endpoint` event, which names the URL to which requests are posted.
//!
//! Invariant: this URL has the same origin as the URL of the event stream, so that no message and
//! no credential is sent to another server.

use url::Url;

use super::super::event_stream::{EventStream, EventStreamEnd};
use super::super::exchange::UNTERMINATED_EVENT;
use crate::session::{RequestError, TransportFailure};
use switchboard_wire::jsonrpc::InvalidMessage;
use switchboard_wire::sse::SseItem;

/// Maximum length of an endpoint URL, in bytes.
const MAX_ENDPOINT_BYTES: usize = 8 * 1024;

/// Waits for the first event, which must be `endpoint`, and returns the URL in it.
pub(super) async fn read(stream: &mut EventStream, stream_url: &Url) -> Result<Url, RequestError> {
    let failure = |message: &str| RequestError::Transport(TransportFailure::unknown(message));
    loop {
        match stream.next().await {
            Ok(SseItem::Event(event)) if event.kind.as_deref() == Some("endpoint") => {
                if event.data.len() > MAX_ENDPOINT_BYTES {
                    return Err(failure("the endpoint URL is longer than 8 KiB"));
                }
                return resolve(stream_url, String::from_utf8_lossy(&event.data).trim());
            }
            Ok(SseItem::Event(_)) => return Err(failure("the first event is not `endpoint`")),
            Ok(SseItem::Retry(_) | SseItem::Discarded { .. }) => {}
            Err(EventStreamEnd::Closed) => {
                return Err(failure("the stream ended before the `endpoint` event"));
            }
            Err(EventStreamEnd::Failed(error)) => return Err(failure(&error.to_string())),
            Err(EventStreamEnd::Unterminated) => return Err(failure(UNTERMINATED_EVENT)),
        }
    }
}

/// Resolves the endpoint URL against the URL of the event stream. Fails if the origins differ.
fn resolve(stream_url: &Url, endpoint: &str) -> Result<Url, RequestError> {
    let invalid = |reason: String| {
        let reason = format!("the endpoint URL {reason}");
        Err(RequestError::InvalidResponse(InvalidMessage::Malformed(
            reason,
        )))
    };
    match stream_url.join(endpoint) {
        Ok(url) if url.origin() == stream_url.origin() => Ok(url),
        Ok(url) => invalid(format!(
            "has another origin ({})",
            url.origin().ascii_serialization()
        )),
        Err(_) => invalid("is not valid".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_must_have_the_origin_of_the_stream() {
        let stream_url = Url::parse("https://host.example/sse").unwrap();
        let resolved = |endpoint: &str| resolve(&stream_url, endpoint).map(|url| url.to_string());
        assert_eq!(
            resolved("/messages?session=1").unwrap(),
            "https://host.example/messages?session=1"
        );
        assert_eq!(
            resolved("https://host.example:443/m").unwrap(),
            "https://host.example/m"
        );
        for foreign in [
            "https://evil.example/m",
            "//evil.example/m",
            "http://host.example/m",
            "https://host.example:444/m",
            "https://host.example.evil.example/m",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "data:text/plain,x",
        ] {
            assert!(resolved(foreign).is_err(), "{foreign}");
        }
    }
}
