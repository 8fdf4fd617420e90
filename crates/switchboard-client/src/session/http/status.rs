//! Maps an HTTP error status to a request error.
//!
//! If the body is a JSON-RPC error, this error is the response of the server. Otherwise the status
//! decides the delivery. After a 5xx status, the server may have executed the request (*unknown*).
//! After any other status, it rejected the request (*answered*). Invariant: an error never contains
//! a credential.

use std::time::{Duration, SystemTime};

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use url::Url;

use super::authorized::{AuthorizedResponse, SendFailure};
use crate::connect_stage::ConnectStage;
use crate::http::{BodyError, HttpError};
use crate::session::peer::Peer;
use crate::session::{Delivery, RequestError, TransportFailure};
use switchboard_wire::Limits;
use switchboard_wire::jsonrpc as wire;
use switchboard_wire::jsonrpc::{InvalidMessage, Message, Outcome, ParsedLine, ResponseId};
use switchboard_wire::limits::truncate_to_millis;
use switchboard_wire::mcp::ErrorObject;

/// Maximum size of the body of an error response, in bytes. A longer body is ignored.
const MAX_ERROR_BYTES: usize = 64 * 1024;
/// How long reading the body of an error response may take. After that, the body is ignored.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum delay that is accepted from `Retry-After`. A longer delay is reduced to this one.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads the body of the error response to request `id` and builds the error. `url` is the URL to
/// which the request was sent.
pub(super) async fn read(
    peer: &Peer,
    url: &Url,
    id: Option<u64>,
    mut reply: AuthorizedResponse,
) -> RequestError {
    let redactor = reply.redactor();
    let incoming = &mut reply.incoming;
    let status = incoming.status;
    let body = incoming.body.collect(MAX_ERROR_BYTES, &peer.context.budget);
    let body = match tokio::time::timeout(ERROR_BODY_TIMEOUT, body).await {
        Ok(Ok((body, _held))) => body,
        // Without a body, the error only contains the status.
        _ => bytes::Bytes::new(),
    };
    if let Some(mut error) = rpc_error(&body, id, &peer.context.limits) {
        peer.context.redactor.redact_error(&mut error);
        redactor.redact_error(&mut error);
        return RequestError::ErrorResponse(error);
    }
    // Mask before cutting: a secret that is cut in half would not be recognized.
    let mask = |text: &str| redactor.redact(&peer.context.redactor.redact(text));
    let retry_after = retry_after(&incoming.headers, status, SystemTime::now());
    let mut message = incoming.describe_redirect(url, mask).unwrap_or_else(|| {
        let text = readable_text(&body).map(|text| {
            let text = redactor.redact(&peer.excerpt(text.as_bytes()));
            format!(": {}", text.trim())
        });
        format!(
            "the server returned HTTP {status}{}",
            text.unwrap_or_default()
        )
    });
    if let Some(wait) = retry_after {
        let wait = truncate_to_millis(wait);
        message = format!("{message}; it asks to wait {wait:?} before the next request");
    }
    RequestError::Transport(TransportFailure {
        delivery: if status.is_server_error() {
            Delivery::Unknown
        } else {
            Delivery::Answered
        },
        status: Some(status.as_u16()),
        retry_after,
        stage: match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ConnectStage::Login,
            _ => ConnectStage::Alive,
        },
        ..TransportFailure::unknown(message)
    })
}

/// Parses the JSON-RPC error in a body. Returns `None` if there is none, or if it has the id of
/// another request.
fn rpc_error(body: &[u8], id: Option<u64>, limits: &Limits) -> Option<ErrorObject> {
    // Some servers omit the id of the response if they could not parse the request.
    #[derive(serde::Deserialize)]
    struct WithoutId {
        error: ErrorObject,
    }
    match wire::parse_line(body, limits.json_budget()) {
        ParsedLine::Message(Message::Response {
            id: named,
            outcome: Outcome::Error(error),
        }) => match named {
            ResponseId::Number(named) if Some(named) != id => None,
            // Some servers send null or an invented id that is not a number.
            _ => Some(error),
        },
        ParsedLine::Message(_) | ParsedLine::Batch(_) | ParsedLine::Invalid { id: Some(_), .. } => {
            None
        }
        ParsedLine::Noise | ParsedLine::Invalid { id: None, .. } => {
            let read = serde_json::from_slice::<WithoutId>(body);
            read.ok().map(|body| body.error)
        }
    }
}

/// The text of an error body. `None` if it is empty, looks like HTML or is not UTF-8.
fn readable_text(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?.trim();
    (!text.is_empty() && !text.starts_with('<')).then(|| text.to_owned())
}

/// Parses the header `Retry-After`, which holds seconds or a date, of a 429 or 503 response.
/// Returns `None` for any other status, and if the header is missing or invalid.
fn retry_after(headers: &HeaderMap, status: StatusCode, now: SystemTime) -> Option<Duration> {
    if !matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    ) {
        return None;
    }
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(text)
            .ok()?
            .duration_since(now)
            .unwrap_or_default(),
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

impl From<&HttpError> for TransportFailure {
    fn from(error: &HttpError) -> Self {
        Self {
            delivery: error.delivery,
            stage: error.stage(),
            ..Self::unknown(error.to_string())
        }
    }
}

/// The error for a request that got no HTTP response, or whose credential was not accepted.
pub(super) fn send_error(error: SendFailure) -> RequestError {
    match error {
        SendFailure::Http(error) => RequestError::Transport(TransportFailure::from(&error)),
        SendFailure::NoCredential(error) => RequestError::Transport(TransportFailure {
            delivery: Delivery::NotSent,
            hint: error.hint(),
            // The call was not executed: nothing was sent, or the server refused the credential of
            // the request.
            stage: ConnectStage::Open,
            ..TransportFailure::unknown(error.to_string())
        }),
        SendFailure::NeedsLogin(login) => RequestError::NeedsLogin(login),
    }
}

/// The error for a response that must be an event stream but has another content type.
pub(super) fn not_an_event_stream(status: StatusCode) -> RequestError {
    RequestError::Transport(TransportFailure {
        status: Some(status.as_u16()),
        stage: ConnectStage::Alive,
        ..TransportFailure::unknown("the response is not an event stream")
    })
}

/// The error for a response whose body could not be read to its end.
pub(super) fn body_error(error: BodyError, peer: &Peer) -> RequestError {
    match error {
        BodyError::TooLong { limit } => {
            RequestError::InvalidResponse(InvalidMessage::TooLong { limit })
        }
        BodyError::NoRoom { limit } => {
            RequestError::InvalidResponse(InvalidMessage::OverMemoryBudget { limit })
        }
        BodyError::Http(error) => {
            let what = peer.context.redactor.redact(&error.to_string());
            RequestError::Transport(TransportFailure::unknown(what))
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn error_in_body_is_used_unless_it_names_another_request() {
        let message = |body: &str| {
            let error = rpc_error(body.as_bytes(), Some(7), &Limits::default());
            error.map(|error| error.message)
        };
        let error = r#""error":{"code":-32000,"message":"no such session"}"#;
        let said = Some("no such session".to_owned());
        assert_eq!(message(&format!(r#"{{"jsonrpc":"2.0",{error}}}"#)), said);
        for (id, expected) in [
            ("7", &said),
            ("null", &said),
            (r#""x""#, &said),
            ("8", &None),
        ] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},{error}}}"#);
            assert_eq!(message(&body), *expected, "{id}");
        }
        for body in [
            "",
            "no",
            "[]",
            r#"{"error":"no"}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
        ] {
            assert_eq!(message(body), None, "{body}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_and_bounded() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let read = |text: &'static str, status| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]);
            retry_after(&headers, status, now)
        };
        let busy = StatusCode::TOO_MANY_REQUESTS;
        assert_eq!(read("7", busy), Some(Duration::from_secs(7)));
        assert_eq!(read("0", busy), Some(Duration::ZERO));
        assert_eq!(read("-5", busy), None);
        assert_eq!(read("soon", busy), None);
        assert_eq!(read("315360000", busy), Some(MAX_RETRY_AFTER));
        let in_a_minute = "Sun, 06 Nov 1994 08:50:37 GMT";
        assert_eq!(read(in_a_minute, busy), Some(Duration::from_secs(60)));
        let past = "Fri, 06 Nov 1992 08:49:37 GMT";
        assert_eq!(
            read(past, StatusCode::SERVICE_UNAVAILABLE),
            Some(Duration::ZERO)
        );
        assert_eq!(read("7", StatusCode::BAD_GATEWAY), None);
    }
}
