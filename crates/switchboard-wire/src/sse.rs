//! Server-sent events out of a stream of bytes, each of bounded size.
//!
//! It does no reading itself: pieces are put in, events are taken out, and they are the same however
//! the stream was cut. An event that is too large is let go as it comes in, and all that is kept of
//! it is the id of the request it answers. One that has a single line and came in one piece is not
//! copied.
//!
//! Invariant: what is held is at most one event, and no more of it than the limit.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};

use crate::lines::{Endless, LetGo};
use crate::memory_budget::{Budget, Held};
use crate::oversized::{Overlong, PATIENCE};

/// No field that means anything has a longer name.
const LONGEST_NAME: usize = 5;
/// More than this of an event's kind is of no interest, in bytes.
const LONGEST_KIND: usize = 64;
/// Longer ids than this, in bytes, are not kept: they could not be sent back in a header.
const LONGEST_ID: usize = 1024;
/// What has more digits than this is no number.
const LONGEST_NUMBER: usize = 20;
/// No server decides that it is left alone for longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(60 * 60);
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

#[derive(Debug)]
pub enum Item {
    Event(Event),
    /// How long the server wants to be left alone before it is asked again.
    Retry(Duration),
    /// An event that was let go; `id` is the request that it answers, where it says so.
    LetGo {
        id: Option<u64>,
        why: LetGo,
    },
}

#[derive(Debug)]
pub struct Event {
    /// None is the usual `message`. A very long one is cut.
    pub kind: Option<Box<str>>,
    /// The id that this event came with; see [`Events::last_event_id`] for the one to resume from.
    #[allow(dead_code, reason = "tests compare it with what a simple reader finds")]
    pub id: Option<String>,
    pub data: Bytes,
    /// Its share of the budget.
    pub held: Option<Held>,
}

#[derive(Debug)]
pub struct Events {
    /// What was put in and not looked at yet.
    input: Bytes,
    limit: usize,
    budget: Budget,
    /// The line that is coming in.
    line: Line,
    /// The event that is coming in.
    event: Gathered,
    last_id: Option<String>,
    /// A line feed that comes now belongs to the line end that was there.
    is_after_return: bool,
    is_at_start: bool,
}

#[derive(Debug, Default)]
struct Line {
    length: usize,
    field: Field,
    /// The name as far as it is there, or the value of a field that has a short one.
    text: Vec<u8>,
    /// The colon was there and nothing after it: a blank does not count.
    is_after_colon: bool,
}

impl Line {
    /// Keeps a part of the value; one byte more than is allowed says that it is too long.
    fn keep(&mut self, value: &[u8]) {
        if let Some(longest) = self.field.longest() {
            let room = (longest + 1).saturating_sub(self.text.len());
            let kept = value.get(..value.len().min(room));
            self.text.extend_from_slice(kept.unwrap_or_default());
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Field {
    /// Its name is not complete.
    #[default]
    Unnamed,
    Data,
    Kind,
    Id,
    Retry,
    /// A comment, or what nobody knows.
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

    /// How much of its value is kept, where it is kept as text.
    fn longest(self) -> Option<usize> {
        match self {
            Self::Kind => Some(LONGEST_KIND),
            Self::Id => Some(LONGEST_ID),
            Self::Retry => Some(LONGEST_NUMBER),
            Self::Unnamed | Self::Data | Self::Ignored => None,
        }
    }
}

#[derive(Debug, Default)]
struct Gathered {
    kind: Option<Box<str>>,
    id: Option<String>,
    /// None before the first line of it.
    data: Option<Data>,
    held: Option<Held>,
}

#[derive(Debug)]
enum Data {
    /// Part of what was put in.
    Shared(Bytes),
    Own(BytesMut),
    LetGo(Box<Overlong>, LetGo),
}

impl Data {
    fn len(&self) -> usize {
        match self {
            Self::Shared(text) => text.len(),
            Self::Own(text) => text.len(),
            Self::LetGo(overlong, _) => overlong.length,
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Shared(text) => text,
            Self::Own(text) => text,
            Self::LetGo(..) => &[],
        }
    }
}

impl Events {
    pub fn new(limit: usize, budget: &Budget) -> Self {
        Self {
            input: Bytes::new(),
            limit,
            budget: budget.clone(),
            line: Line::default(),
            event: Gathered::default(),
            last_id: None,
            is_after_return: false,
            is_at_start: true,
        }
    }

    /// Puts in what came next. [`Events::next`] is to be asked until it has nothing more.
    pub fn push(&mut self, piece: Bytes) {
        if self.input.is_empty() {
            self.input = piece;
        } else {
            self.input = [&*self.input, &*piece].concat().into();
        }
    }

    /// The next event, if it is all there.
    pub fn next_item(&mut self) -> Result<Option<Item>, Endless> {
        let mut input = std::mem::take(&mut self.input);
        while !input.is_empty() {
            if std::mem::take(&mut self.is_after_return) && input.first() == Some(&b'\n') {
                input.advance(1);
                continue;
            }
            let end = memchr::memchr2(b'\n', b'\r', &input);
            self.go_on(&input, end.unwrap_or(input.len()))?;
            let Some(end) = end else {
                break;
            };
            self.is_after_return = input.get(end) == Some(&b'\r');
            input.advance(end + 1);
            if let Some(item) = self.end_line() {
                self.input = input;
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    /// The id to resume after: that of the last event that was complete, with or without data.
    pub fn last_event_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// What comes now is another stream, which goes on behind the last complete event: half of one
    /// is lost with the stream that it came on.
    pub fn begin_anew(&mut self) {
        let last_id = self.last_id.take();
        *self = Self {
            last_id,
            ..Self::new(self.limit, &self.budget)
        };
    }

    /// Takes in the next part of a line: the first `length` bytes of the input.
    fn go_on(&mut self, input: &Bytes, length: usize) -> Result<(), Endless> {
        let part = input.get(..length).unwrap_or_default();
        self.line.length += length;
        let named = match self.line.field {
            Field::Unnamed => self.name(part),
            _ => 0,
        };
        let mut value = part.get(named..).unwrap_or_default();
        if !value.is_empty() && std::mem::take(&mut self.line.is_after_colon) {
            value = value.strip_prefix(b" ").unwrap_or(value);
        }
        match self.line.field {
            Field::Data if value.is_empty() => {}
            Field::Data => self.gather(input.slice_ref(value)),
            _ => self.line.keep(value),
        }
        let has_let_go = match &self.event.data {
            Some(Data::LetGo(overlong, _)) => overlong.length,
            _ => 0,
        };
        if self.line.length.max(has_let_go) > self.limit.saturating_mul(PATIENCE) {
            return Err(Endless);
        }
        Ok(())
    }

    /// Looks for the name of the field, and says how much of the part belongs to it.
    fn name(&mut self, part: &[u8]) -> usize {
        let longest = LONGEST_NAME + BYTE_ORDER_MARK.len();
        let room = longest.saturating_sub(self.line.text.len()) + 1;
        let within = part.get(..part.len().min(room)).unwrap_or_default();
        let colon = memchr::memchr(b':', within);
        let name = within.get(..colon.unwrap_or(within.len()));
        self.line.text.extend_from_slice(name.unwrap_or_default());
        match colon {
            Some(colon) => {
                self.begin_value();
                self.line.is_after_colon = true;
                colon + 1
            }
            None => {
                if self.line.text.len() > longest {
                    self.line.field = Field::Ignored;
                }
                part.len()
            }
        }
    }

    fn begin_value(&mut self) {
        let mut name = self.line.text.as_slice();
        if self.is_at_start {
            name = name.strip_prefix(BYTE_ORDER_MARK).unwrap_or(name);
        }
        self.line.field = Field::named(name);
        self.line.text.clear();
        if self.line.field == Field::Data {
            match self.event.data {
                None => self.event.data = Some(Data::Shared(Bytes::new())),
                Some(_) => self.gather(Bytes::from_static(b"\n")),
            }
        }
    }

    /// Adds to the data of the event, or lets go of all of it.
    fn gather(&mut self, more: Bytes) {
        let Some(data) = self.event.data.as_mut() else {
            return;
        };
        if let Data::LetGo(overlong, _) = data {
            overlong.feed(&more);
            return;
        }
        let size = data.len() + more.len();
        let why = if size > self.limit {
            LetGo::TooLong
        } else if !self.budget.grow(&mut self.event.held, size) {
            LetGo::NoRoom
        } else {
            match data {
                Data::Own(text) => text.extend_from_slice(&more),
                Data::Shared(text) if text.is_empty() => *text = more,
                Data::Shared(text) => {
                    let mut own = BytesMut::with_capacity(size);
                    own.extend_from_slice(text);
                    own.extend_from_slice(&more);
                    *data = Data::Own(own);
                }
                Data::LetGo(..) => {}
            }
            return;
        };
        let mut overlong = Box::<Overlong>::default();
        overlong.feed(data.bytes());
        overlong.feed(&more);
        *data = Data::LetGo(overlong, why);
        self.event.held = None;
    }

    fn end_line(&mut self) -> Option<Item> {
        if self.line.length == 0 {
            return self.dispatch();
        }
        if self.line.field == Field::Unnamed {
            self.begin_value();
        }
        self.is_at_start = false;
        let text = self.line.text.as_slice();
        let mut item = None;
        match self.line.field {
            Field::Kind => self.event.kind = kind(text),
            Field::Id if text.len() <= LONGEST_ID && !text.contains(&0) => {
                self.event.id = Some(String::from_utf8_lossy(text).into_owned());
            }
            Field::Retry => item = pause(text).map(Item::Retry),
            Field::Id | Field::Unnamed | Field::Data | Field::Ignored => {}
        }
        self.line.text.clear();
        self.line.length = 0;
        self.line.field = Field::Unnamed;
        self.line.is_after_colon = false;
        item
    }

    fn dispatch(&mut self) -> Option<Item> {
        self.is_at_start = false;
        let event = std::mem::take(&mut self.event);
        if let Some(id) = &event.id {
            self.last_id = Some(id.clone()).filter(|id| !id.is_empty());
        }
        let data = match event.data? {
            Data::Shared(text) => text,
            Data::Own(text) => text.freeze(),
            Data::LetGo(overlong, why) => {
                let id = overlong.id();
                return Some(Item::LetGo { id, why });
            }
        };
        Some(Item::Event(Event {
            kind: event.kind,
            id: event.id,
            data,
            held: event.held,
        }))
    }

    /// How many bytes are held between two pieces.
    #[cfg(any(test, fuzzing))]
    pub fn bytes_held(&self) -> usize {
        let data = self.event.data.as_ref();
        self.input.len() + self.line.text.len() + data.map_or(0, |data| data.bytes().len())
    }
}

fn kind(text: &[u8]) -> Option<Box<str>> {
    match text {
        b"" | b"message" => None,
        other => Some(String::from_utf8_lossy(other).into()),
    }
}

fn pause(text: &[u8]) -> Option<Duration> {
    let is_number =
        (1..=LONGEST_NUMBER).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    let digits = std::str::from_utf8(text).ok().filter(|_| is_number)?;
    let asked = digits.parse().map_or(LONGEST_PAUSE, Duration::from_millis);
    Some(asked.min(LONGEST_PAUSE))
}

#[cfg(test)]
mod tests;
