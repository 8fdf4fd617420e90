//! Doors for the fuzz targets in `fuzz/`. Not part of the crate: only `--cfg fuzzing` opens them.

use std::borrow::Cow;

use bytes::Bytes;

use crate::budget::Budget;
use crate::limits::Limits;
use crate::mcp::{CallToolResult, Json};
use crate::wire::line::{Endless, Line, Lines};
use crate::wire::sse::{Events, Item};
use crate::wire::{self, Answer, AnswerId, Message, Outcome, Received, decode};

/// How many blocks or tools are decoded.
const BLOCKS: usize = 100;

/// A line as the frame reader cut it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CutLine {
    /// It was short enough.
    Complete(Vec<u8>),
    /// It was not, and answers this request.
    TooLong(Option<u64>),
}

/// What the frame reader made of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The lines, in order.
    pub lines: Vec<CutLine>,
    /// The stream was given up.
    pub is_endless: bool,
    /// The most bytes that were held between two reads.
    pub most_held: usize,
    /// The most bytes that there was room for.
    pub most_room: usize,
}

/// Cuts a stream that comes in these pieces into lines of at most `limit` bytes.
pub fn cut<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limit: usize) -> Cut {
    let mut reader = Lines::new(limit, &Budget::new(usize::MAX));
    let mut cut = Cut {
        lines: Vec::new(),
        is_endless: false,
        most_held: 0,
        most_room: 0,
    };
    for piece in pieces {
        reader.room().extend_from_slice(piece);
        loop {
            match reader.next_line() {
                Ok(Some(Line::Complete(line, _))) => {
                    cut.lines.push(CutLine::Complete(line.to_vec()))
                }
                Ok(Some(Line::Long(line, _))) => {
                    cut.lines.push(CutLine::Complete(line.join().to_vec()))
                }
                Ok(Some(Line::LetGo { id, .. })) => cut.lines.push(CutLine::TooLong(id)),
                Ok(None) => break,
                Err(Endless) => {
                    cut.is_endless = true;
                    return cut;
                }
            }
        }
        cut.most_held = cut.most_held.max(reader.size());
        cut.most_room = cut.most_room.max(reader.room().capacity());
    }
    cut
}

/// What came on a stream of server-sent events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SentEvent {
    /// It was small enough.
    Complete {
        /// `None` is the usual one.
        kind: Option<String>,
        /// The id that it came with.
        id: Option<String>,
        /// Its lines, joined.
        data: Vec<u8>,
    },
    /// How long to wait, in milliseconds.
    Retry(u128),
    /// It was not small enough, and answers this request.
    TooLong(Option<u64>),
}

/// What the reader of server-sent events made of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The events, in order.
    pub events: Vec<SentEvent>,
    /// The stream was given up.
    pub is_endless: bool,
    /// The id to resume after.
    pub last_id: Option<String>,
    /// The most bytes that were held between two reads.
    pub most_held: usize,
}

/// Reads a stream that comes in these pieces as events of at most `limit` bytes.
pub fn sent_events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limit: usize) -> Sent {
    let mut reader = Events::new(limit, &Budget::new(usize::MAX));
    let mut sent = Sent {
        events: Vec::new(),
        is_endless: false,
        last_id: None,
        most_held: 0,
    };
    for piece in pieces {
        reader.push(Bytes::copy_from_slice(piece));
        loop {
            sent.events.push(match reader.next_item() {
                Ok(Some(Item::Event(event))) => SentEvent::Complete {
                    kind: event.kind.map(Into::into),
                    id: event.id,
                    data: event.data.to_vec(),
                },
                Ok(Some(Item::Retry(pause))) => SentEvent::Retry(pause.as_millis()),
                Ok(Some(Item::LetGo { id, .. })) => SentEvent::TooLong(id),
                Ok(None) => break,
                Err(Endless) => {
                    sent.is_endless = true;
                    break;
                }
            });
        }
        sent.last_id = reader.last_event_id().map(str::to_owned);
        sent.most_held = sent.most_held.max(reader.bytes_held());
        if sent.is_endless {
            break;
        }
    }
    sent
}

/// What a line means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A result, as its text, for this request of ours.
    Result(Option<u64>, Vec<u8>),
    /// An error.
    Error,
    /// A request of the server.
    Request(String),
    /// A notification.
    Notification(String),
    /// So many messages.
    Batch(usize),
    /// Nothing.
    Noise,
    /// Something gone wrong, for this request of ours.
    Broken(Option<u64>),
}

/// Reads a line.
pub fn read(line: &[u8]) -> Reading {
    match wire::read(line, Limits::default().json_budget()) {
        Received::Message(Message::Answer { id, outcome }) => match outcome {
            Outcome::Result(result, shape) => {
                // What is said to be exact is carried along unseen.
                let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(result).is_ok();
                let is_text = std::str::from_utf8(result).is_ok();
                assert!(is_json || !is_text || !shape.is_exact);
                Reading::Result(own(id), result.to_vec())
            }
            Outcome::Error(_) => Reading::Error,
        },
        Received::Message(Message::Request { method, .. }) => Reading::Request(method.into_owned()),
        Received::Message(Message::Notification { method, .. }) => {
            Reading::Notification(method.into_owned())
        }
        Received::Batch(messages) => Reading::Batch(messages.len()),
        Received::Noise => Reading::Noise,
        Received::Broken { id, .. } => Reading::Broken(id),
    }
}

fn own(id: AnswerId) -> Option<u64> {
    match id {
        AnswerId::Ours(id) => Some(id),
        AnswerId::Null | AnswerId::Foreign => None,
    }
}

/// The result in a line that answers a request.
fn result_in(line: &[u8]) -> Option<Answer> {
    match wire::read(line, Limits::default().json_budget()) {
        Received::Message(Message::Answer {
            outcome: Outcome::Result(result, shape),
            ..
        }) => Some(Answer::new(result.to_vec().into(), shape, None)),
        _ => None,
    }
}

/// Decodes the answer to `tools/call` that a line holds.
pub fn tool_result(line: &[u8]) -> Option<CallToolResult> {
    decode::call_tool_result(&result_in(line)?, BLOCKS).ok()
}

/// Decodes the page of `tools/list` that a line holds, and says which JSON is carried along.
pub fn tool_page(line: &[u8]) -> Option<Vec<Json>> {
    let page = decode::page(&result_in(line)?, "tools", BLOCKS, decode::tool).ok()?;
    let carried = page.items.into_iter().flat_map(|tool| {
        [Some(tool.input_schema), tool.output_schema, tool.meta]
            .into_iter()
            .flatten()
    });
    Some(carried.collect())
}

/// Decodes the answers to both handshakes that a line may hold.
pub fn hello(line: &[u8]) {
    if let Some(result) = result_in(line) {
        let _ = decode::initialized(&result);
        let _ = decode::discovered(&result);
    }
}

/// Decodes what a server may send unasked.
pub fn notes(params: &[u8]) {
    let _ = decode::progress(params);
    let _ = decode::log_message(params);
    let _ = decode::cancelled(params);
    let _ = decode::error_object(params);
}

/// A name or description as it is shown.
pub fn field(text: &str, most: usize) -> Cow<'_, str> {
    crate::content::field(text, most)
}
