//! Functions that the fuzz targets share. They run `switchboard-wire` and return values that can be
//! compared with `==`.

use bytes::Bytes;
use switchboard_wire::jsonrpc::{self, Message, Outcome, ParsedLine, RawResult, ResponseId};
use switchboard_wire::limits::FieldLimits;
use switchboard_wire::lines::{Line, LineSplitter, Unterminated};
use switchboard_wire::mcp::{CallToolResult, Json};
use switchboard_wire::memory_budget::MemoryBudget;
use switchboard_wire::sse::{SseItem, SseParser};
use switchboard_wire::{Limits, decode};

/// Maximum number of blocks or tools that are decoded.
const MAX_ITEMS: usize = 100;

/// Splits the stream into pieces. Each item of `sizes` is the size of a piece minus one; the sizes
/// repeat as needed. Without sizes, the stream is one piece.
pub fn pieces<'a>(mut stream: &'a [u8], sizes: &[u8]) -> Vec<&'a [u8]> {
    let mut sizes = sizes.iter().map(|size| usize::from(*size) + 1).cycle();
    let mut pieces = Vec::new();
    while !stream.is_empty() {
        let size = sizes.next().unwrap_or(stream.len()).min(stream.len());
        let (piece, rest) = stream.split_at(size);
        pieces.push(piece);
        stream = rest;
    }
    pieces
}

/// A line as the line reader returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SplitLine {
    /// The line is within the limit.
    Complete(Vec<u8>),
    /// The line is too long. Contains the id of the request to which the line responds, if known.
    TooLong(Option<u64>),
}

/// All lines of a stream, and how much memory the reader used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitStream {
    /// The lines, in order.
    pub lines: Vec<SplitLine>,
    /// Whether the reader returned `Unterminated`.
    pub is_unterminated: bool,
    /// Maximum number of bytes held between two reads.
    pub max_held_bytes: usize,
    /// Maximum capacity of the read buffer, in bytes.
    pub max_buffer_bytes: usize,
}

/// Splits a stream that arrives in these pieces into lines of at most `limit` bytes.
pub fn split_lines<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limit: usize) -> SplitStream {
    let mut reader = LineSplitter::new(limit, &MemoryBudget::new(usize::MAX));
    let mut split = SplitStream {
        lines: Vec::new(),
        is_unterminated: false,
        max_held_bytes: 0,
        max_buffer_bytes: 0,
    };
    for piece in pieces {
        reader.read_buffer().extend_from_slice(piece);
        loop {
            match reader.next_line() {
                Ok(Some(Line::Complete(line, _))) => {
                    split.lines.push(SplitLine::Complete(line.to_vec()))
                }
                Ok(Some(Line::Long(line, _))) => {
                    split.lines.push(SplitLine::Complete(line.join().to_vec()))
                }
                Ok(Some(Line::Discarded { id, .. })) => split.lines.push(SplitLine::TooLong(id)),
                Ok(None) => break,
                Err(Unterminated) => {
                    split.is_unterminated = true;
                    return split;
                }
            }
        }
        split.max_held_bytes = split.max_held_bytes.max(reader.buffered_bytes());
        split.max_buffer_bytes = split.max_buffer_bytes.max(reader.read_buffer().capacity());
    }
    split
}

/// An item of a stream of server-sent events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParsedEvent {
    /// An event within the limit.
    Complete {
        /// The event type; `None` is `message`.
        kind: Option<String>,
        /// The event id.
        id: Option<String>,
        /// The data lines, joined.
        data: Vec<u8>,
    },
    /// The reconnection time, in milliseconds.
    Retry(u128),
    /// The event is too large. Contains the id of the request to which the event responds, if
    /// known.
    TooLong(Option<u64>),
}

/// All events of a stream, and how much memory the parser used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedEvents {
    /// The events, in order.
    pub events: Vec<ParsedEvent>,
    /// Whether the parser returned `Unterminated`.
    pub is_unterminated: bool,
    /// The id after which to resume.
    pub last_id: Option<String>,
    /// Maximum number of bytes held between two reads.
    pub max_held_bytes: usize,
}

/// Parses a stream that arrives in these pieces into events of at most `limit` bytes.
pub fn parse_events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limit: usize) -> ParsedEvents {
    let mut reader = SseParser::new(limit, &MemoryBudget::new(usize::MAX));
    let mut parsed = ParsedEvents {
        events: Vec::new(),
        is_unterminated: false,
        last_id: None,
        max_held_bytes: 0,
    };
    for piece in pieces {
        reader.push(Bytes::copy_from_slice(piece));
        loop {
            parsed.events.push(match reader.next_item() {
                Ok(Some(SseItem::Event(event))) => ParsedEvent::Complete {
                    kind: event.kind.map(Into::into),
                    id: event.id,
                    data: event.data.to_vec(),
                },
                Ok(Some(SseItem::Retry(pause))) => ParsedEvent::Retry(pause.as_millis()),
                Ok(Some(SseItem::Discarded { id, .. })) => ParsedEvent::TooLong(id),
                Ok(None) => break,
                Err(Unterminated) => {
                    parsed.is_unterminated = true;
                    break;
                }
            });
        }
        parsed.last_id = reader.last_event_id().map(str::to_owned);
        parsed.max_held_bytes = parsed.max_held_bytes.max(reader.bytes_held());
        if parsed.is_unterminated {
            break;
        }
    }
    parsed
}

/// The content of one line, in a form that can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineContent {
    /// The JSON text of a result, and the id if it is a number.
    Result(Option<u64>, Vec<u8>),
    /// An error response.
    Error,
    /// A request of the server.
    Request(String),
    /// A notification.
    Notification(String),
    /// A batch of this many messages.
    Batch(usize),
    /// Not JSON-RPC.
    Noise,
    /// Invalid JSON-RPC, and the id of the request if it is known.
    Invalid(Option<u64>),
}

/// Parses a line.
pub fn parse_line(line: &[u8]) -> LineContent {
    match jsonrpc::parse_line(line, Limits::default().json_budget()) {
        ParsedLine::Message(Message::Response { id, outcome }) => match outcome {
            Outcome::Result(result, index) => {
                // A result that is marked as valid JSON is not parsed again.
                let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(result).is_ok();
                let is_text = std::str::from_utf8(result).is_ok();
                assert!(is_json || !is_text || !index.is_valid_json);
                LineContent::Result(number(id), result.to_vec())
            }
            Outcome::Error(_) => LineContent::Error,
        },
        ParsedLine::Message(Message::Request { method, .. }) => {
            LineContent::Request(method.into_owned())
        }
        ParsedLine::Message(Message::Notification { method, .. }) => {
            LineContent::Notification(method.into_owned())
        }
        ParsedLine::Batch(messages) => LineContent::Batch(messages.len()),
        ParsedLine::Noise => LineContent::Noise,
        ParsedLine::Invalid { id, .. } => LineContent::Invalid(id),
    }
}

fn number(id: ResponseId) -> Option<u64> {
    match id {
        ResponseId::Number(id) => Some(id),
        ResponseId::Null | ResponseId::Unknown => None,
    }
}

/// Returns the result of a response.
fn result_in(line: &[u8]) -> Option<RawResult> {
    match jsonrpc::parse_line(line, Limits::default().json_budget()) {
        ParsedLine::Message(Message::Response {
            outcome: Outcome::Result(result, index),
            ..
        }) => Some(RawResult::new(result.to_vec().into(), index, None)),
        _ => None,
    }
}

/// Decodes a line as the response to `tools/call`.
pub fn tool_result(line: &[u8]) -> Option<CallToolResult> {
    decode::call_tool_result(&result_in(line)?, MAX_ITEMS).ok()
}

/// Decodes a line as a page of `tools/list` and returns the JSON in it that is not decoded.
pub fn tool_page(line: &[u8]) -> Option<Vec<Json>> {
    let page = decode::page(
        &result_in(line)?,
        "tools",
        MAX_ITEMS,
        &FieldLimits::default(),
        decode::tool,
    )
    .ok()?;
    let carried = page.items.into_iter().flat_map(|tool| {
        [Some(tool.input_schema), tool.output_schema, tool.meta]
            .into_iter()
            .flatten()
    });
    Some(carried.collect())
}

/// Decodes a line as the response to both kinds of handshake.
pub fn decode_handshakes(line: &[u8]) {
    if let Some(result) = result_in(line) {
        let _ = decode::initialize_result(&result, &FieldLimits::default());
        let _ = decode::discover_result(&result, &FieldLimits::default());
    }
}

/// Decodes bytes as the params of several kinds of notifications, and as a JSON-RPC error object.
pub fn decode_notifications(params: &[u8]) {
    let _ = decode::progress(params);
    let _ = decode::log_message(params);
    let _ = decode::cancelled_id(params);
    let _ = jsonrpc::decode_error_object(params);
}
