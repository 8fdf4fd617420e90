//! Decodes the params of notifications: progress, log messages and cancellations.

use serde::Deserialize;

use super::{MAX_STATUS_BYTES, parse};
use crate::mcp::{Json, Progress};
use crate::scan;
use crate::text::truncate_marked;

/// The data of a log message is truncated to this many bytes.
pub const MAX_LOG_DATA_BYTES: usize = 4 * 1024;

/// Decodes `notifications/progress`: the id of the request, and its progress.
pub fn progress(params: &[u8]) -> Option<(u64, Progress)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct RawProgress {
        progress_token: u64,
        #[serde(flatten)]
        progress: Progress,
    }
    let RawProgress {
        progress_token,
        mut progress,
    } = parse(params)?;
    progress.message = progress
        .message
        .map(|text| truncate_marked(text, MAX_STATUS_BYTES));
    Some((progress_token, progress))
}

/// A log message of a server.
#[derive(Debug, Deserialize)]
pub struct LogMessage {
    /// The severity, not validated.
    #[serde(default)]
    pub level: String,
    /// The part of the server that logged it.
    #[serde(default)]
    pub logger: Option<String>,
    /// The message: a string or any other JSON.
    #[serde(default)]
    pub data: Option<Json>,
}

/// Decodes `notifications/message`.
///
/// The data is truncated to four times [`MAX_LOG_DATA_BYTES`]. The caller masks secrets and then
/// truncates to the final size: a secret that is cut in half would not be recognized.
pub fn log_message(params: &[u8]) -> Option<LogMessage> {
    let mut message: LogMessage = parse(params)?;
    message.level = truncate_marked(message.level, MAX_STATUS_BYTES);
    message.logger = message
        .logger
        .map(|logger| truncate_marked(logger, MAX_STATUS_BYTES));
    message.data = message
        .data
        .map(|data| truncate_json(data, 4 * MAX_LOG_DATA_BYTES));
    Some(message)
}

/// Returns the JSON unchanged if its text is short enough, otherwise a JSON string with the
/// beginning of the text.
pub fn truncate_json(data: Json, max_bytes: usize) -> Json {
    if data.as_str().len() <= max_bytes {
        return data;
    }
    let text = truncate_marked(data.as_str().to_owned(), max_bytes);
    Json::from(&serde_json::Value::from(text))
}

/// Returns the JSON text of the id in `notifications/cancelled`.
pub fn cancelled_id(params: &[u8]) -> Option<String> {
    let mut id = None;
    scan::members(params, |key, value| {
        if *key == *b"requestId" {
            id = std::str::from_utf8(value).ok().map(str::to_owned);
        }
    })
    .ok()?;
    id
}

/// Returns the id in `notifications/cancelled` if it has the form of our ids: an integer, or an
/// integer in a string, because some servers convert ids to strings.
pub fn cancelled_id_number(params: &[u8]) -> Option<u64> {
    cancelled_id(params)?.trim_matches('"').parse().ok()
}
