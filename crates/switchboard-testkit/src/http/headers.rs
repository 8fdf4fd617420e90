//! Checks the HTTP headers that MCP requires in requests. Pure functions.

use serde_json::Value;

use super::fault::CannedResponse;
use super::request::ReceivedRequest;
use crate::scripted::Request;

/// The legacy-era versions that `MCP-Protocol-Version` may have.
const LEGACY_VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const HEADER_MISMATCH: i64 = -32020;
const MISSING_CAPABILITY: i64 = -32021;
const UNSUPPORTED_VERSION: i64 = -32022;

/// Returns the error response to a POST whose `Accept` or `Content-Type` is wrong; `None` if both
/// are right.
pub(super) fn reject_post(received: &ReceivedRequest) -> Option<CannedResponse> {
    if !accepts(received, "application/json") || !accepts(received, "text/event-stream") {
        return Some(CannedResponse::empty(406));
    }
    let content_type = received.header("content-type").unwrap_or_default();
    (!content_type.starts_with("application/json")).then(|| CannedResponse::empty(415))
}

pub(super) fn accepts(received: &ReceivedRequest, media_type: &str) -> bool {
    let accepted = received.header("accept").unwrap_or_default();
    accepted.contains(media_type) || accepted.contains("*/*")
}

/// Returns an error response if a legacy-era server does not support the `MCP-Protocol-Version` of
/// the request.
pub(super) fn reject_version(
    received: &ReceivedRequest,
    request: &Request,
) -> Option<CannedResponse> {
    let version = received.header("mcp-protocol-version")?;
    let is_known = LEGACY_VERSIONS.contains(&version);
    (!is_known && request.method != "initialize").then(|| {
        let reason = format!("unsupported protocol version {version}");
        CannedResponse::error(400, &request.id, -32000, &reason)
    })
}

/// Describes the first difference between the headers of a modern-era request and its body.
pub(super) fn find_mismatch(received: &ReceivedRequest, request: &Request) -> Option<String> {
    let version = request.meta("io.modelcontextprotocol/protocolVersion");
    let named = matches!(
        request.method.as_str(),
        "tools/call"
            | "resources/read"
            | "prompts/get"
            | "tasks/get"
            | "tasks/update"
            | "tasks/cancel"
    );
    [
        ("MCP-Protocol-Version", version.and_then(Value::as_str)),
        ("Mcp-Method", Some(request.method.as_str())),
        ("Mcp-Name", request.subject().filter(|_| named)),
    ]
    .into_iter()
    .filter_map(|(name, body)| Some((name, body?)))
    .find_map(|(name, body)| {
        let header = received.header(name).map(decode_value);
        (header.as_deref() != Some(body))
            .then(|| format!("{name} is {header:?}, but the body has {body:?}"))
    })
}

/// The HTTP status with which a modern-era server sends this JSON-RPC error code; `None`: 200.
pub(super) fn status_of(code: i64) -> Option<u16> {
    match code {
        METHOD_NOT_FOUND => Some(404),
        INVALID_PARAMS | HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION => Some(400),
        _ => None,
    }
}

/// Decodes a header value of the form `=?base64?…?=`. Returns other values as they are.
fn decode_value(value: &str) -> String {
    let encoded = value
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="));
    let decoded = encoded.and_then(decode_base64);
    decoded
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .unwrap_or_else(|| value.to_owned())
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for digit in text.trim_end_matches('=').bytes() {
        let value = ALPHABET.iter().position(|letter| *letter == digit)?;
        bits = bits << 6 | u32::try_from(value).ok()?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_base64_values_are_decoded() {
        assert_eq!(
            decode_value("=?base64?SGVsbG8sIOS4lueVjA==?="),
            "Hello, 世界"
        );
        assert_eq!(decode_value("plain"), "plain");
        assert_eq!(decode_value("=?base64?*?="), "=?base64?*?=");
    }
}
