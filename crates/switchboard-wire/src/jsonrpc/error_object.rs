//! Decodes the `error` of a response.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::InvalidMessage;
use crate::mcp::ErrorObject;
use crate::text::truncate_marked;

/// Longer messages are truncated.
const MAX_MESSAGE_BYTES: usize = 4 * 1024;
/// Longer `data` is dropped.
const MAX_DATA_BYTES: usize = 64 * 1024;

/// Decodes an error object. Any other JSON value becomes the message of an internal error, because
/// the request failed all the same.
pub fn decode_error_object(bytes: &[u8]) -> Result<ErrorObject, InvalidMessage> {
    #[derive(Deserialize)]
    struct RawError<'a> {
        code: Option<f64>,
        message: Option<String>,
        #[serde(borrow)]
        data: Option<&'a RawValue>,
    }
    let Ok(raw) = serde_json::from_slice::<RawError<'_>>(bytes) else {
        let message = serde_json::from_slice::<String>(bytes)
            .or_else(|_| serde_json::from_slice::<&RawValue>(bytes).map(|raw| raw.get().to_owned()))
            .map_err(|_| InvalidMessage::malformed("`error` is not valid JSON"))?;
        return Ok(ErrorObject::new(
            ErrorObject::INTERNAL,
            truncate_marked(message, MAX_MESSAGE_BYTES),
        ));
    };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a code is a small integer, `as` saturates"
    )]
    let code = raw.code.map_or(ErrorObject::INTERNAL, |code| code as i64);
    let message = raw.message.unwrap_or_default();
    let mut error = ErrorObject::new(code, truncate_marked(message, MAX_MESSAGE_BYTES));
    error.data = raw
        .data
        .filter(|data| data.get().len() <= MAX_DATA_BYTES)
        .map(|data| data.to_owned().into());
    Ok(error)
}
