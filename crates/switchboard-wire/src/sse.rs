//! Parses a stream of server-sent events, each of bounded size.
//!
//! [`SseParser`] does no I/O: the caller pushes pieces of the stream and takes items out. The items
//! do not depend on how the stream is split. An event over the size limit or over the memory budget
//! is discarded as it arrives; only the id of the request that it responds to is kept. An event
//! with one data line that arrives in one piece is not copied.
//!
//! Invariant: when the parser needs more of the stream, it holds at most one event, and no more of
//! it than the limit.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};

use crate::lines::{DiscardReason, Unterminated};
use crate::memory_budget::{MemoryBudget, MemoryPermit};
use crate::oversized::{MAX_OVERSIZE_FACTOR, OversizedScan};

/// Length of the longest known field names, `event` and `retry`.
const MAX_FIELD_NAME_BYTES: usize = 5;
/// Longer event types are truncated to this length plus one byte.
const MAX_KIND_BYTES: usize = 64;
/// Longer event ids are ignored: they could not be sent back in a header.
const MAX_ID_BYTES: usize = 1024;
/// Longer values of `retry` are ignored. A `u64` has at most 20 digits.
const MAX_RETRY_DIGITS: usize = 20;
/// Longer reconnection times are lowered to this.
const MAX_RETRY: Duration = Duration::from_secs(60 * 60);
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// What the parser returns.
#[derive(Debug)]
pub enum SseItem {
    /// An event with data.
    Event(Event),
    /// The reconnection time that the server asks for.
    Retry(Duration),
    /// An event that is not returned, because it is too large.
    Discarded {
        /// The request that the event responds to, if known.
        id: Option<u64>,
        /// Why the event was discarded.
        reason: DiscardReason,
    },
}

/// An event with data.
#[derive(Debug)]
pub struct Event {
    /// The event type. `None` is `message`. Truncated if it is very long.
    pub kind: Option<Box<str>>,
    /// The id of this event. To resume the stream, use [`SseParser::last_event_id`], which also
    /// covers events without an id or without data.
    #[allow(
        dead_code,
        reason = "tests compare it with the result of a simple parser"
    )]
    pub id: Option<String>,
    /// The data lines, joined by line feeds.
    pub data: Bytes,
    /// The share of the memory budget that the data holds.
    pub permit: Option<MemoryPermit>,
}

/// Parses a stream of server-sent events.
#[derive(Debug)]
pub struct SseParser {
    /// The bytes that were pushed and not parsed yet.
    input: Bytes,
    /// Maximum size of the data of an event, in bytes.
    limit: usize,
    budget: MemoryBudget,
    line: PartialLine,
    event: PartialEvent,
    last_id: Option<String>,
    /// The previous line ended with `\r`. A `\n` that follows belongs to the same line end.
    after_carriage_return: bool,
    /// No line was parsed yet, so a byte order mark is skipped.
    is_first_line: bool,
}

/// The line whose end was not parsed yet.
#[derive(Debug, Default)]
struct PartialLine {
    /// Number of bytes so far.
    length: usize,
    field: Field,
    /// The beginning of the field name; then the value, if the field is stored as text.
    text: Vec<u8>,
    /// The last byte was the colon after the name. A space that follows is not part of the value.
    after_colon: bool,
}

impl PartialLine {
    /// Appends to the value. Stores at most one byte more than the maximum, which marks the value
    /// as too long.
    fn push_value(&mut self, value: &[u8]) {
        if let Some(max_bytes) = self.field.max_value_bytes() {
            let room = (max_bytes + 1).saturating_sub(self.text.len());
            let stored = value.get(..value.len().min(room));
            self.text.extend_from_slice(stored.unwrap_or_default());
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Field {
    /// The name is not complete.
    #[default]
    Unnamed,
    Data,
    Kind,
    Id,
    Retry,
    /// A comment or an unknown field.
    Ignored,
}

impl Field {
    fn named(name: &[u8]) -> Self {
        match name {
            b"data" => Self::Data,
            b"event" => Self::Kind,
            b"id" => Self::Id,
            b"retry" => Self::Retry,
            _ => Self::Ignored,
        }
    }

    /// Maximum length of the value, for fields whose value is stored in [`PartialLine::text`].
    fn max_value_bytes(self) -> Option<usize> {
        match self {
            Self::Kind => Some(MAX_KIND_BYTES),
            Self::Id => Some(MAX_ID_BYTES),
            Self::Retry => Some(MAX_RETRY_DIGITS),
            Self::Unnamed | Self::Data | Self::Ignored => None,
        }
    }
}

/// The event whose end was not parsed yet.
#[derive(Debug, Default)]
struct PartialEvent {
    kind: Option<Box<str>>,
    id: Option<String>,
    /// `None` before the first data line.
    data: Option<EventData>,
    permit: Option<MemoryPermit>,
}

#[derive(Debug)]
enum EventData {
    /// A slice of one piece of the stream.
    Shared(Bytes),
    /// Copied from several lines or pieces.
    Owned(BytesMut),
    Discarded(Box<OversizedScan>, DiscardReason),
}

impl EventData {
    fn len(&self) -> usize {
        match self {
            Self::Shared(text) => text.len(),
            Self::Owned(text) => text.len(),
            Self::Discarded(scan, _) => scan.length,
        }
    }

    /// The bytes held in memory.
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Shared(text) => text,
            Self::Owned(text) => text,
            Self::Discarded(..) => &[],
        }
    }
}

impl SseParser {
    /// Parses events whose data has at most `limit` bytes.
    pub fn new(limit: usize, budget: &MemoryBudget) -> Self {
        Self {
            input: Bytes::new(),
            limit,
            budget: budget.clone(),
            line: PartialLine::default(),
            event: PartialEvent::default(),
            last_id: None,
            after_carriage_return: false,
            is_first_line: true,
        }
    }

    /// Appends the next piece of the stream. Then call [`next_item`](Self::next_item) until it
    /// returns `None`.
    pub fn push(&mut self, piece: Bytes) {
        if self.input.is_empty() {
            self.input = piece;
        } else {
            self.input = [&*self.input, &*piece].concat().into();
        }
    }

    /// Returns the next item, or `None` if more of the stream is needed.
    pub fn next_item(&mut self) -> Result<Option<SseItem>, Unterminated> {
        let mut input = std::mem::take(&mut self.input);
        while !input.is_empty() {
            if std::mem::take(&mut self.after_carriage_return) && input.first() == Some(&b'\n') {
                input.advance(1);
                continue;
            }
            let end = memchr::memchr2(b'\n', b'\r', &input);
            self.parse_line_part(&input, end.unwrap_or(input.len()))?;
            let Some(end) = end else {
                break;
            };
            self.after_carriage_return = input.get(end) == Some(&b'\r');
            input.advance(end + 1);
            if let Some(item) = self.end_line() {
                self.input = input;
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    /// The id to resume the stream from: the last id of the complete events, with or without data.
    pub fn last_event_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// Starts over with a new stream that resumes after the last complete event. An incomplete
    /// event is dropped.
    pub fn reset_for_resume(&mut self) {
        let last_id = self.last_id.take();
        *self = Self {
            last_id,
            ..Self::new(self.limit, &self.budget)
        };
    }

    /// Parses the first `length` bytes of the input, which belong to the current line.
    fn parse_line_part(&mut self, input: &Bytes, length: usize) -> Result<(), Unterminated> {
        let part = input.get(..length).unwrap_or_default();
        self.line.length += length;
        let name_length = match self.line.field {
            Field::Unnamed => self.parse_name(part),
            _ => 0,
        };
        let mut value = part.get(name_length..).unwrap_or_default();
        if !value.is_empty() && std::mem::take(&mut self.line.after_colon) {
            value = value.strip_prefix(b" ").unwrap_or(value);
        }
        match self.line.field {
            Field::Data if value.is_empty() => {}
            Field::Data => self.push_data(input.slice_ref(value)),
            _ => self.line.push_value(value),
        }
        let discarded_bytes = match &self.event.data {
            Some(EventData::Discarded(scan, _)) => scan.length,
            _ => 0,
        };
        let max_bytes = self.limit.saturating_mul(MAX_OVERSIZE_FACTOR);
        if self.line.length.max(discarded_bytes) > max_bytes {
            return Err(Unterminated);
        }
        Ok(())
    }

    /// Parses the name of the field, and returns how many bytes of the part belong to it, with the
    /// colon.
    fn parse_name(&mut self, part: &[u8]) -> usize {
        let max_bytes = MAX_FIELD_NAME_BYTES + BYTE_ORDER_MARK.len();
        let room = max_bytes.saturating_sub(self.line.text.len()) + 1;
        let searched = part.get(..part.len().min(room)).unwrap_or_default();
        let colon = memchr::memchr(b':', searched);
        let name = searched.get(..colon.unwrap_or(searched.len()));
        self.line.text.extend_from_slice(name.unwrap_or_default());
        match colon {
            Some(colon) => {
                self.begin_value();
                self.line.after_colon = true;
                colon + 1
            }
            None => {
                if self.line.text.len() > max_bytes {
                    self.line.field = Field::Ignored;
                }
                part.len()
            }
        }
    }

    fn begin_value(&mut self) {
        let mut name = self.line.text.as_slice();
        if self.is_first_line {
            name = name.strip_prefix(BYTE_ORDER_MARK).unwrap_or(name);
        }
        self.line.field = Field::named(name);
        self.line.text.clear();
        if self.line.field == Field::Data {
            match self.event.data {
                None => self.event.data = Some(EventData::Shared(Bytes::new())),
                Some(_) => self.push_data(Bytes::from_static(b"\n")),
            }
        }
    }

    /// Appends to the data of the event, or discards the data if it becomes too large.
    fn push_data(&mut self, more: Bytes) {
        let Some(data) = self.event.data.as_mut() else {
            return;
        };
        if let EventData::Discarded(scan, _) = data {
            scan.feed(&more);
            return;
        }
        let size = data.len() + more.len();
        let reason = if size > self.limit {
            DiscardReason::TooLong
        } else if !self.budget.grow(&mut self.event.permit, size) {
            DiscardReason::OverMemoryBudget
        } else {
            match data {
                EventData::Owned(text) => text.extend_from_slice(&more),
                EventData::Shared(text) if text.is_empty() => *text = more,
                EventData::Shared(text) => {
                    let mut owned = BytesMut::with_capacity(size);
                    owned.extend_from_slice(text);
                    owned.extend_from_slice(&more);
                    *data = EventData::Owned(owned);
                }
                EventData::Discarded(..) => {}
            }
            return;
        };
        let mut scan = Box::<OversizedScan>::default();
        scan.feed(data.bytes());
        scan.feed(&more);
        *data = EventData::Discarded(scan, reason);
        self.event.permit = None;
    }

    fn end_line(&mut self) -> Option<SseItem> {
        if self.line.length == 0 {
            return self.end_event();
        }
        if self.line.field == Field::Unnamed {
            self.begin_value();
        }
        self.is_first_line = false;
        let text = self.line.text.as_slice();
        let mut item = None;
        match self.line.field {
            Field::Kind => self.event.kind = parse_kind(text),
            Field::Id if text.len() <= MAX_ID_BYTES && !text.contains(&0) => {
                self.event.id = Some(String::from_utf8_lossy(text).into_owned());
            }
            Field::Retry => item = parse_retry(text).map(SseItem::Retry),
            Field::Id | Field::Unnamed | Field::Data | Field::Ignored => {}
        }
        self.line.text.clear();
        self.line.length = 0;
        self.line.field = Field::Unnamed;
        self.line.after_colon = false;
        item
    }

    fn end_event(&mut self) -> Option<SseItem> {
        self.is_first_line = false;
        let event = std::mem::take(&mut self.event);
        if let Some(id) = &event.id {
            self.last_id = Some(id.clone()).filter(|id| !id.is_empty());
        }
        let data = match event.data? {
            EventData::Shared(text) => text,
            EventData::Owned(text) => text.freeze(),
            EventData::Discarded(scan, reason) => {
                let id = scan.id();
                return Some(SseItem::Discarded { id, reason });
            }
        };
        Some(SseItem::Event(Event {
            kind: event.kind,
            id: event.id,
            data,
            permit: event.permit,
        }))
    }

    /// Number of bytes held between two pieces.
    #[cfg(any(test, fuzzing))]
    pub fn bytes_held(&self) -> usize {
        let data = self.event.data.as_ref();
        self.input.len() + self.line.text.len() + data.map_or(0, |data| data.bytes().len())
    }
}

fn parse_kind(text: &[u8]) -> Option<Box<str>> {
    match text {
        b"" | b"message" => None,
        other => Some(String::from_utf8_lossy(other).into()),
    }
}

/// Parses a number of milliseconds. Returns `None` for a text that is too long or contains anything
/// but digits.
fn parse_retry(text: &[u8]) -> Option<Duration> {
    let is_number =
        (1..=MAX_RETRY_DIGITS).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    let digits = std::str::from_utf8(text).ok().filter(|_| is_number)?;
    let delay = digits.parse().map_or(MAX_RETRY, Duration::from_millis);
    Some(delay.min(MAX_RETRY))
}

#[cfg(test)]
mod tests;
