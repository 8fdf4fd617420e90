//! Decodes `input_required` results: the server needs input before it can respond (modern era).

use std::borrow::Cow;

use super::InvalidMessage;
use super::results::{IncompleteResult, incomplete_type};
use crate::jsonrpc::RawResult;
use crate::mcp::Json;
use crate::scan;

/// Maximum number of input requests in one result.
const MAX_INPUT_REQUESTS: usize = 32;

/// The input that a server needs before it continues.
#[derive(Debug, Default, PartialEq)]
pub struct InputRequired {
    /// The requests, in the order of the server. Keys are unique.
    pub requests: Vec<InputRequest>,
    /// Opaque state that goes back to the server: the JSON text of a string.
    pub state: Option<Json>,
}

/// One request for input.
#[derive(Debug, PartialEq)]
pub struct InputRequest {
    /// The server's key for the request. The response is sent back under this key.
    pub key: String,
    pub method: String,
    pub params: Json,
}

/// Returns the input that the server needs, or `None` if the result is complete. Only for methods
/// other than `tools/call`: a task as result is an error.
pub fn find_input_required(
    result: &RawResult,
) -> Result<Option<Box<InputRequired>>, InvalidMessage> {
    let mut result_type = None;
    result.members(|key, value| {
        if key == b"resultType" {
            result_type = Some(value);
        }
    })?;
    let Some(result_type) = incomplete_type(result_type) else {
        return Ok(None);
    };
    match IncompleteResult::decode(result, result_type) {
        IncompleteResult::InputRequired(input) => Ok(Some(input)),
        IncompleteResult::Invalid(problem) => Err(problem),
        IncompleteResult::Task(_) => Err(InvalidMessage::malformed(
            "the server created a task, but only tool calls may become tasks",
        )),
    }
}

/// Decodes a result whose `resultType` is `input_required`.
pub(super) fn decode_input_required(result: &RawResult) -> Result<InputRequired, InvalidMessage> {
    let (mut requests, mut state) = (None, None);
    result.members(|key, value| match key {
        b"inputRequests" => requests = Some(value),
        b"requestState" => state = Some(value),
        _ => {}
    })?;
    let is_present = |value: &&[u8]| *value != b"null";
    let state = match state.filter(is_present) {
        None => None,
        Some(value) if value.starts_with(b"\"") => {
            let state = Json::parse_bytes(value);
            Some(state.ok_or_else(|| InvalidMessage::malformed("`requestState` is not UTF-8"))?)
        }
        Some(_) => return Err(InvalidMessage::malformed("`requestState` is not a string")),
    };
    let requests = match requests.filter(is_present) {
        Some(value) => input_requests(value)?,
        None => Vec::new(),
    };
    if requests.is_empty() && state.is_none() {
        return Err(InvalidMessage::malformed(
            "an `input_required` result has neither `inputRequests` nor `requestState`",
        ));
    }
    Ok(InputRequired { requests, state })
}

/// Decodes `inputRequests`.
pub(super) fn input_requests(object: &[u8]) -> Result<Vec<InputRequest>, InvalidMessage> {
    let mut requests = Vec::new();
    let mut first_error = None;
    let scanned = scan::members(object, |key, value| {
        if first_error.is_none() {
            match input_request(&key, value, &requests) {
                Ok(request) => requests.push(request),
                Err(error) => first_error = Some(error),
            }
        }
    });
    match (scanned, first_error) {
        (Ok(()), None) => Ok(requests),
        (_, Some(error)) => Err(InvalidMessage::Malformed(error)),
        (Err(_), None) => Err(InvalidMessage::malformed(
            "`inputRequests` is not an object",
        )),
    }
}

fn input_request(
    key: &[u8],
    value: &[u8],
    previous: &[InputRequest],
) -> Result<InputRequest, String> {
    let key = std::str::from_utf8(key)
        .map_err(|_| "a key of `inputRequests` is not UTF-8")?
        .to_owned();
    if previous.iter().any(|request| request.key == key) {
        return Err("`inputRequests` has a duplicate key".to_owned());
    }
    if previous.len() == MAX_INPUT_REQUESTS {
        return Err(format!(
            "`inputRequests` has more than {MAX_INPUT_REQUESTS} requests"
        ));
    }
    let (mut method, mut params) = (None, None);
    scan::members(value, |key, value| match &*key {
        b"method" => method = scan::string_value(value).map(Cow::into_owned),
        b"params" => params = Json::parse_bytes(value),
        _ => {}
    })
    .map_err(|_| "a request in `inputRequests` is not an object")?;
    Ok(InputRequest {
        key,
        method: method.ok_or("a request in `inputRequests` has no `method`")?,
        params: params.unwrap_or_else(|| Json::owned("{}")),
    })
}
