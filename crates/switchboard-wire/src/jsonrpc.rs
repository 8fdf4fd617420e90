//! JSON-RPC 2.0 as newline-delimited text: what one line means, and what is wrong with it.
//!
//! It knows no session: it says which request an answer names, not whether that request exists.
//! Invariant: every line has exactly one reading, and reading it costs one pass over its bytes.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;

use crate::decode;
use crate::mcp::{ErrorObject, Json};
use crate::memory_budget::Held;
use crate::scan::{self, Exceeded, JsonBudget, Scanner, Shape};

/// What one line turned out to be.
#[derive(Debug)]
pub enum Received<'a> {
    Message(Message<'a>),
    /// A JSON array: the messages of a batch, still to be read one by one.
    Batch(Vec<&'a [u8]>),
    /// Not JSON-RPC at all: a banner, a log line.
    Noise,
    /// JSON-RPC gone wrong. `id` names the request that was being answered, where that is known.
    Broken {
        id: Option<u64>,
        problem: InvalidMessage,
    },
}

#[derive(Debug, PartialEq)]
pub enum Message<'a> {
    /// An answer to a request of ours.
    Answer { id: AnswerId, outcome: Outcome<'a> },
    /// The server asks something of us.
    Request {
        id: RequestId,
        method: Cow<'a, str>,
        params: Option<&'a [u8]>,
    },
    /// The server tells us something.
    Notification {
        method: Cow<'a, str>,
        params: Option<&'a [u8]>,
    },
}

#[derive(Debug, PartialEq)]
pub enum Outcome<'a> {
    Result(&'a [u8], Shape),
    Error(ErrorObject),
}

/// A result on its way to whoever asked for it.
#[derive(Debug)]
pub struct Answer {
    pub text: Bytes,
    shape: Shape,
    /// Given back when the answer was decoded.
    _held: Option<Held>,
}

impl Answer {
    pub fn new(text: Bytes, shape: Shape, held: Option<Held>) -> Self {
        Self {
            text,
            shape,
            _held: held,
        }
    }

    /// Visits the members of the result.
    pub(crate) fn members<'a>(
        &'a self,
        mut visit: impl FnMut(&[u8], &'a [u8]),
    ) -> Result<(), InvalidMessage> {
        self.shape
            .members(&self.text, |key, value| visit(&key, value))
            .map_err(|_| InvalidMessage::malformed("the result is not an object"))
    }

    /// An object in the result, as if it had been answered by itself.
    pub(crate) fn part(&self, part: &[u8]) -> Option<Self> {
        let place = scan::place_in(&self.text, part);
        (place.start <= place.end && place.end <= self.text.len()).then(|| Self {
            text: self.text.slice(place),
            shape: Shape::unseen(self.shape.is_exact),
            _held: None,
        })
    }

    /// A part of the result, to be carried along.
    pub(crate) fn json(&self, part: &[u8]) -> Option<Json> {
        if self.shape.is_exact {
            Json::of_scanned(&self.text, part)
        } else {
            decode::json(part)
        }
    }
}

/// Which request an answer names. All ids that we give are integers, compared exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerId {
    Ours(u64),
    /// `null`: the server could not tell which request it was.
    Null,
    /// Anything else: no request of ours.
    Foreign,
}

/// The id of a server's request, kept as the very text that was sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(Box<str>);

impl RequestId {
    /// Longer ids than this are refused.
    const LONGEST: usize = 1024;

    fn parse(token: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(token).ok()?;
        let is_string = text.starts_with('"') && serde_json::from_str::<String>(text).is_ok();
        let is_integer = text
            .parse::<i128>()
            .is_ok_and(|number| number.to_string() == text);
        ((is_string || is_integer) && text.len() <= Self::LONGEST).then(|| Self(text.into()))
    }

    pub fn as_json(&self) -> &str {
        &self.0
    }
}

/// What is wrong with an answer, a request or a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidMessage {
    /// It is longer than [`Limits::message_bytes`](crate::Limits::message_bytes).
    TooLong {
        /// The limit that was crossed.
        limit: usize,
    },
    /// The messages of all servers together take more than [`Limits::memory_bytes`](crate::Limits::memory_bytes); this one did
    /// not fit any more.
    OverMemoryBudget {
        /// The limit that was crossed.
        limit: usize,
    },
    /// It holds more JSON values than [`Limits::json_nodes`](crate::Limits::json_nodes).
    TooManyValues {
        /// The limit that was crossed.
        limit: usize,
    },
    /// It nests deeper than [`Limits::json_depth`](crate::Limits::json_depth).
    TooDeep {
        /// The limit that was crossed.
        limit: usize,
    },
    /// The call was answered by questions more often than [`Limits::input_requests`](crate::Limits::input_requests).
    TooManyInputRequests {
        /// The limit that was crossed.
        limit: usize,
    },
    /// It is not valid JSON, or not what JSON-RPC or the method prescribes.
    Malformed(String),
}

impl InvalidMessage {
    /// The field of [`Limits`](crate::Limits) that was crossed, if one was.
    pub fn limit(&self) -> Option<&'static str> {
        match self {
            Self::TooLong { .. } => Some("message_bytes"),
            Self::OverMemoryBudget { .. } => Some("memory_bytes"),
            Self::TooManyValues { .. } => Some("json_nodes"),
            Self::TooDeep { .. } => Some("json_depth"),
            Self::TooManyInputRequests { .. } => Some("input_requests"),
            Self::Malformed(_) => None,
        }
    }

    pub(crate) fn malformed(text: impl Into<String>) -> Self {
        Self::Malformed(text.into())
    }
}

impl fmt::Display for InvalidMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { limit } => write!(
                f,
                "longer than {limit} bytes (limit `message_bytes`; raise it to accept more)"
            ),
            Self::OverMemoryBudget { limit } => write!(
                f,
                "no room for it: the messages under way take {limit} bytes already (limit \
                 `memory_bytes`; raise it, or make fewer calls with large answers at a time)"
            ),
            Self::TooManyValues { limit } => write!(
                f,
                "more than {limit} JSON values (limit `json_nodes`; raise it to accept more)"
            ),
            Self::TooDeep { limit } => {
                write!(f, "nested deeper than {limit} levels (limit `json_depth`)")
            }
            Self::TooManyInputRequests { limit } => write!(
                f,
                "it is yet another question, after {limit} were answered (limit `input_requests`; \
                 raise it to answer more)"
            ),
            Self::Malformed(what) => f.write_str(what),
        }
    }
}

impl From<Exceeded> for InvalidMessage {
    fn from(exceeded: Exceeded) -> Self {
        match exceeded {
            Exceeded::Nodes(limit) => Self::TooManyValues { limit },
            Exceeded::Depth(limit) => Self::TooDeep { limit },
        }
    }
}

/// Reads one line.
pub fn read(line: &[u8], budget: JsonBudget) -> Received<'_> {
    let line = line
        .strip_prefix(b"\xEF\xBB\xBF")
        .unwrap_or(line)
        .trim_ascii();
    let mut scanner = Scanner::new(line, budget);
    match line.first() {
        Some(b'{') => read_object(&mut scanner),
        Some(b'[') => match scanner.elements() {
            Ok(messages) if scanner.exceeded().is_none() && scanner.at_end() => {
                Received::Batch(messages)
            }
            _ => Received::Noise,
        },
        _ => Received::Noise,
    }
}

/// The members of a message that JSON-RPC gives a meaning to.
#[derive(Default)]
struct Envelope<'a> {
    version: Option<&'a [u8]>,
    id: Option<&'a [u8]>,
    method: Option<&'a [u8]>,
    params: Option<&'a [u8]>,
    result: Option<&'a [u8]>,
    error: Option<&'a [u8]>,
    /// Of the result.
    shape: Shape,
}

impl<'a> Envelope<'a> {
    fn slot(&mut self, key: &[u8]) -> Option<&mut Option<&'a [u8]>> {
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

    /// The request that this answers, if it is an answer and says so.
    fn answered(&self) -> Option<u64> {
        match (self.method, self.id.map(answer_id)) {
            (None, Some(AnswerId::Ours(id))) => Some(id),
            _ => None,
        }
    }
}

fn read_object<'a>(scanner: &mut Scanner<'a>) -> Received<'a> {
    let mut envelope = Envelope::default();
    let mut duplicate = None;
    let scanned = scanner.each_member(|scanner, key| {
        let value = if *key == *b"result" {
            let (result, shape) = scanner.skip_noting()?;
            envelope.shape = shape;
            result
        } else {
            scanner.skip_value()?
        };
        if let Some(slot) = envelope.slot(&key)
            && slot.replace(value).is_some()
        {
            duplicate = Some(String::from_utf8_lossy(&key).into_owned());
        }
        Ok(())
    });
    let id = envelope.answered();
    let broken = |problem| Received::Broken { id, problem };
    if scanned.is_err() || !scanner.at_end() {
        // Half a JSON-RPC message is worth a complaint; any other line in braces is a log line.
        return if envelope.version.is_some() || id.is_some() {
            broken(InvalidMessage::malformed("not valid JSON"))
        } else {
            Received::Noise
        };
    }
    if let Some(key) = duplicate {
        return broken(InvalidMessage::malformed(format!(
            "the key `{key}` stands twice"
        )));
    }
    if let Some(exceeded) = scanner.exceeded() {
        return broken(exceeded.into());
    }
    if envelope
        .version
        .is_some_and(|version| version != b"\"2.0\"")
    {
        return broken(InvalidMessage::malformed("`jsonrpc` is not \"2.0\""));
    }
    classify(&envelope).unwrap_or_else(broken_or_noise(&envelope, id))
}

fn broken_or_noise<'a>(
    envelope: &Envelope<'_>,
    id: Option<u64>,
) -> impl FnOnce(InvalidMessage) -> Received<'a> + use<'a> {
    let is_rpc = envelope.version.is_some() || id.is_some();
    move |problem| {
        if is_rpc {
            Received::Broken { id, problem }
        } else {
            Received::Noise
        }
    }
}

fn classify<'a>(envelope: &Envelope<'a>) -> Result<Received<'a>, InvalidMessage> {
    let message = match (envelope.method, envelope.id) {
        (Some(method), id) => {
            let method = decode::text(method)
                .ok_or_else(|| InvalidMessage::malformed("`method` is not a string"))?;
            let params = envelope.params;
            match id {
                None => Message::Notification { method, params },
                Some(token) => {
                    let id = RequestId::parse(token).ok_or_else(|| {
                        InvalidMessage::malformed(
                            "the id of a request must be an integer or a string",
                        )
                    })?;
                    Message::Request { id, method, params }
                }
            }
        }
        (None, None) => return Err(InvalidMessage::malformed("neither `method` nor `id`")),
        (None, Some(id)) => {
            let outcome = match (envelope.result, envelope.error) {
                (Some(result), None) => Outcome::Result(result, envelope.shape),
                (None, Some(error)) => Outcome::Error(decode::error_object(error)?),
                (Some(_), Some(_)) => {
                    return Err(InvalidMessage::malformed("both `result` and `error`"));
                }
                (None, None) => {
                    return Err(InvalidMessage::malformed("neither `result` nor `error`"));
                }
            };
            Message::Answer {
                id: answer_id(id),
                outcome,
            }
        }
    };
    Ok(Received::Message(message))
}

/// Reads an answer's id: only plain digits can be ours (`1.0` and `"1"` are not `1`).
pub fn answer_id(token: &[u8]) -> AnswerId {
    if token == b"null" {
        return AnswerId::Null;
    }
    let has_leading_zero = token.len() > 1 && token.starts_with(b"0");
    let value = token.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        value.checked_mul(10)?.checked_add(digit.into())
    });
    match value {
        Some(id) if !has_leading_zero && !token.is_empty() => AnswerId::Ours(id),
        _ => AnswerId::Foreign,
    }
}

#[cfg(test)]
mod tests;
