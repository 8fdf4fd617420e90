//! Parses one line into a JSON-RPC 2.0 message, or says why it is not one.
//!
//! This module keeps no state: it returns the id of a response, and the session looks up the
//! request. Results stay text; [`decode`](crate::decode) decodes them by method.
//!
//! Invariant: parsing takes one pass over the bytes of a line.

mod error_object;
mod id;
mod invalid_message;
mod raw_result;

use std::borrow::Cow;

use crate::mcp::ErrorObject;
use crate::scan::{self, JsonBudget, ObjectIndex, Scanner};

pub use error_object::decode_error_object;
pub use id::{RequestId, ResponseId};
pub use invalid_message::InvalidMessage;
pub use raw_result::RawResult;

/// What one line contains.
#[derive(Debug)]
pub enum ParsedLine<'a> {
    /// One message.
    Message(Message<'a>),
    /// A JSON array: the messages of a batch, not parsed yet.
    Batch(Vec<&'a [u8]>),
    /// Not JSON-RPC: a banner or a log line.
    Noise,
    /// Invalid JSON-RPC.
    Invalid {
        /// The request that the message responds to, if known.
        id: Option<u64>,
        /// Why the message is invalid.
        problem: InvalidMessage,
    },
}

/// A JSON-RPC message from a server.
#[derive(Debug, PartialEq)]
pub enum Message<'a> {
    /// The response to one of our requests.
    Response {
        id: ResponseId,
        outcome: Outcome<'a>,
    },
    /// A request of the server.
    Request {
        id: RequestId,
        method: Cow<'a, str>,
        params: Option<&'a [u8]>,
    },
    /// A notification of the server.
    Notification {
        method: Cow<'a, str>,
        params: Option<&'a [u8]>,
    },
}

/// What a response contains.
#[derive(Debug, PartialEq)]
pub enum Outcome<'a> {
    /// The text of `result` and where its members are.
    Result(&'a [u8], ObjectIndex),
    /// The decoded `error`.
    Error(ErrorObject),
}

/// Parses one line.
pub fn parse_line(line: &[u8], budget: JsonBudget) -> ParsedLine<'_> {
    let line = line
        .strip_prefix(b"\xEF\xBB\xBF")
        .unwrap_or(line)
        .trim_ascii();
    let mut scanner = Scanner::new(line, budget);
    match line.first() {
        Some(b'{') => parse_object(&mut scanner),
        Some(b'[') => match scanner.elements() {
            Ok(messages) if scanner.exceeded().is_none() && scanner.at_end() => {
                ParsedLine::Batch(messages)
            }
            _ => ParsedLine::Noise,
        },
        _ => ParsedLine::Noise,
    }
}

/// The members that JSON-RPC defines for a message, as JSON text.
#[derive(Default)]
struct Envelope<'a> {
    version: Option<&'a [u8]>,
    id: Option<&'a [u8]>,
    method: Option<&'a [u8]>,
    params: Option<&'a [u8]>,
    result: Option<&'a [u8]>,
    error: Option<&'a [u8]>,
    result_index: ObjectIndex,
}

impl<'a> Envelope<'a> {
    fn member_mut(&mut self, key: &[u8]) -> Option<&mut Option<&'a [u8]>> {
        match key {
            b"jsonrpc" => Some(&mut self.version),
            b"id" => Some(&mut self.id),
            b"method" => Some(&mut self.method),
            b"params" => Some(&mut self.params),
            b"result" => Some(&mut self.result),
            b"error" => Some(&mut self.error),
            _ => None,
        }
    }

    /// The id of the request that the message responds to. `None` if the message has a method, or
    /// an id that is not an unsigned integer.
    fn responds_to(&self) -> Option<u64> {
        match (self.method, self.id.map(ResponseId::parse)) {
            (None, Some(ResponseId::Number(id))) => Some(id),
            _ => None,
        }
    }

    fn into_message(self) -> Result<Message<'a>, InvalidMessage> {
        match (self.method, self.id) {
            (Some(method), id) => self.into_call(method, id),
            (None, Some(id)) => Ok(Message::Response {
                id: ResponseId::parse(id),
                outcome: self.into_outcome()?,
            }),
            (None, None) => Err(InvalidMessage::malformed("neither `method` nor `id`")),
        }
    }

    fn into_call(self, method: &'a [u8], id: Option<&[u8]>) -> Result<Message<'a>, InvalidMessage> {
        let method = scan::string_value(method)
            .ok_or_else(|| InvalidMessage::malformed("`method` is not a string"))?;
        let params = self.params;
        let Some(id) = id else {
            return Ok(Message::Notification { method, params });
        };
        let id = RequestId::parse(id).ok_or_else(|| {
            InvalidMessage::malformed("the id of a request must be an integer or a string")
        })?;
        Ok(Message::Request { id, method, params })
    }

    fn into_outcome(self) -> Result<Outcome<'a>, InvalidMessage> {
        match (self.result, self.error) {
            (Some(result), None) => Ok(Outcome::Result(result, self.result_index)),
            (None, Some(error)) => Ok(Outcome::Error(decode_error_object(error)?)),
            (Some(_), Some(_)) => Err(InvalidMessage::malformed("both `result` and `error`")),
            (None, None) => Err(InvalidMessage::malformed("neither `result` nor `error`")),
        }
    }
}

fn parse_object<'a>(scanner: &mut Scanner<'a>) -> ParsedLine<'a> {
    let mut envelope = Envelope::default();
    let mut duplicate_key = None;
    let scanned = scanner.for_each_member(|scanner, key| {
        let value = if *key == *b"result" {
            let (result, index) = scanner.skip_and_index()?;
            envelope.result_index = index;
            result
        } else {
            scanner.skip_value()?
        };
        if let Some(member) = envelope.member_mut(&key)
            && member.replace(value).is_some()
        {
            duplicate_key = Some(String::from_utf8_lossy(&key).into_owned());
        }
        Ok(())
    });
    let id = envelope.responds_to();
    // A line that is not a valid message and has neither `jsonrpc` nor the id of a response is a
    // log line in braces.
    let is_json_rpc = envelope.version.is_some() || id.is_some();
    let invalid = |problem| ParsedLine::Invalid { id, problem };
    if scanned.is_err() || !scanner.at_end() {
        return if is_json_rpc {
            invalid(InvalidMessage::malformed("not valid JSON"))
        } else {
            ParsedLine::Noise
        };
    }
    if let Some(key) = duplicate_key {
        let problem = format!("duplicate key `{key}`");
        return invalid(InvalidMessage::Malformed(problem));
    }
    if let Some(exceeded) = scanner.exceeded() {
        return invalid(exceeded.into());
    }
    if envelope
        .version
        .is_some_and(|version| version != b"\"2.0\"")
    {
        return invalid(InvalidMessage::malformed("`jsonrpc` is not \"2.0\""));
    }
    match envelope.into_message() {
        Ok(message) => ParsedLine::Message(message),
        Err(problem) if is_json_rpc => invalid(problem),
        Err(_) => ParsedLine::Noise,
    }
}

#[cfg(test)]
mod tests;
