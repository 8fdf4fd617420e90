//! Finds the members of JSON objects and the elements of arrays in one pass, without building a
//! tree.
//!
//! [`Scanner`] visits members and elements, counts values against a [`JsonBudget`], and records
//! where the members of one object are ([`ObjectIndex`]).
//!
//! Two modules find the end of a value. `strict` also validates the value, and almost all values
//! pass it. `invalid_value` finds the end of a value that `strict` rejected, so that one invalid
//! value fails one tool of a listing and not the whole listing, and so that the id of an invalid
//! response is still found.
//!
//! The scanner does not decode values; numbers and the escapes in strings stay text.
//!
//! Invariant: memory use does not depend on the input, except for the list of [`Scanner::elements`]
//! and for keys with escapes.

mod invalid_value;
mod nesting;
mod object_index;
mod strict;

use std::borrow::Cow;
use std::ops::Range;

pub use object_index::ObjectIndex;
pub use strict::{find_special, unescaped_string};

/// Maximum nesting depth of JSON that this crate reads.
pub const MAX_JSON_DEPTH: usize = 128;

/// Limits on the JSON of one message.
#[derive(Clone, Copy, Debug)]
pub struct JsonBudget {
    nodes: usize,
    depth: usize,
}

impl JsonBudget {
    /// Allows `nodes` values and keys, nested at most `depth` deep. A depth above
    /// [`MAX_JSON_DEPTH`] counts as [`MAX_JSON_DEPTH`].
    pub fn new(nodes: usize, depth: usize) -> Self {
        Self {
            nodes,
            depth: depth.min(MAX_JSON_DEPTH),
        }
    }

    /// The budget for text that was already checked against a budget.
    fn already_checked() -> Self {
        Self {
            nodes: usize::MAX,
            depth: MAX_JSON_DEPTH,
        }
    }
}

/// The limit of the [`JsonBudget`] that a text exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetExceeded {
    /// More values and keys than this.
    Nodes(usize),
    /// Nested deeper than this.
    Depth(usize),
}

/// The text is not JSON, or not the expected kind of value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotJson;

/// The size of one value in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ValueExtent {
    /// Offset of the first byte after the value.
    end: usize,
    /// Number of values and keys in the value, itself included.
    nodes: usize,
    /// Nesting depth; 0 for a scalar.
    depth: usize,
}

/// Reads JSON text from front to back.
#[derive(Debug)]
pub struct Scanner<'a> {
    text: &'a [u8],
    /// Offset of the next byte to read.
    position: usize,
    /// Number of objects and arrays that were entered and not left.
    open_containers: usize,
    budget: JsonBudget,
    nodes: usize,
    /// The first limit that was exceeded. Scanning continues, to find the id of the message.
    exceeded: Option<BudgetExceeded>,
    is_valid_json: bool,
}

/// Returns the byte range of `part` in `whole`. If `part` is not a subslice of `whole`, the range
/// does not lie within `whole`.
#[inline]
pub fn range_of(whole: &[u8], part: &[u8]) -> Range<usize> {
    let start = part.as_ptr().addr().wrapping_sub(whole.as_ptr().addr());
    start..start.wrapping_add(part.len())
}

/// Visits the members of an object that was already checked against a budget. Keys are unescaped.
pub fn members<'a>(
    text: &'a [u8],
    visit: impl FnMut(Cow<'a, [u8]>, &'a [u8]),
) -> Result<(), NotJson> {
    Scanner::rescan(text).members(visit)
}

/// Returns the elements of an array that was already checked against a budget.
pub fn elements(text: &[u8]) -> Elements<'_> {
    Elements {
        scanner: Scanner::rescan(text),
        position: ElementPosition::BeforeFirst,
    }
}

/// The iterator that [`elements`] returns. It ends after the first error.
#[derive(Debug)]
pub struct Elements<'a> {
    scanner: Scanner<'a>,
    position: ElementPosition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ElementPosition {
    BeforeFirst,
    AfterElement,
    AtEnd,
}

impl<'a> Elements<'a> {
    fn read_next(&mut self) -> Result<Option<&'a [u8]>, NotJson> {
        if self.position == ElementPosition::BeforeFirst {
            self.scanner.open(b'[')?;
            if self.scanner.close(b']') {
                return Ok(None);
            }
        } else if self.scanner.close(b']') {
            return Ok(None);
        } else {
            self.scanner.expect(b',')?;
        }
        self.scanner.skip_value().map(Some)
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<&'a [u8], NotJson>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.position == ElementPosition::AtEnd {
            return None;
        }
        let element = self.read_next();
        self.position = match element {
            Ok(Some(_)) => ElementPosition::AfterElement,
            Ok(None) | Err(NotJson) => ElementPosition::AtEnd,
        };
        element.transpose()
    }
}

/// Returns the number of values and keys in a text, or 0 if the text is not JSON.
pub fn count_nodes(text: &[u8]) -> usize {
    let mut scanner = Scanner::rescan(text);
    match scanner.skip_value() {
        Ok(_) => scanner.nodes,
        Err(NotJson) => 0,
    }
}

/// Decodes a JSON string with its quotes. Borrows the text if it has no escapes.
#[inline]
pub fn string_value(quoted: &[u8]) -> Option<Cow<'_, str>> {
    match unescaped_string(quoted, 0) {
        Some((text, end)) if end == quoted.len() => {
            std::str::from_utf8(text).ok().map(Cow::Borrowed)
        }
        _ => serde_json::from_slice(quoted).ok().map(Cow::Owned),
    }
}

impl<'a> Scanner<'a> {
    /// Starts at the beginning of the text.
    pub fn new(text: &'a [u8], budget: JsonBudget) -> Self {
        Self {
            text,
            position: 0,
            open_containers: 0,
            budget,
            nodes: 0,
            exceeded: None,
            is_valid_json: true,
        }
    }

    /// Starts at the beginning of a text that was already checked against a budget.
    pub fn rescan(text: &'a [u8]) -> Self {
        Self::new(text, JsonBudget::already_checked())
    }

    /// The first limit that the text exceeds, as far as it was read.
    pub fn exceeded(&self) -> Option<BudgetExceeded> {
        self.exceeded
    }

    /// Skips whitespace and returns whether the text ends there.
    pub fn at_end(&mut self) -> bool {
        self.skip_whitespace();
        self.position == self.text.len()
    }

    /// Reads an object and visits its members. Keys are unescaped.
    pub fn members(
        &mut self,
        mut visit: impl FnMut(Cow<'a, [u8]>, &'a [u8]),
    ) -> Result<(), NotJson> {
        self.for_each_member(|scanner, key| {
            let value = scanner.skip_value()?;
            visit(key, value);
            Ok(())
        })
    }

    /// Reads an object and calls `read_value` after each key. `read_value` must read the value of
    /// the key.
    pub fn for_each_member(
        &mut self,
        mut read_value: impl FnMut(&mut Self, Cow<'a, [u8]>) -> Result<(), NotJson>,
    ) -> Result<(), NotJson> {
        self.open(b'{')?;
        if self.close(b'}') {
            return Ok(());
        }
        loop {
            self.skip_whitespace();
            self.add_nodes(1);
            let key = self.read_key()?;
            self.expect(b':')?;
            read_value(self, key)?;
            if self.close(b'}') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    /// Reads one value and records where its members are, if it is an object.
    pub fn skip_and_index(&mut self) -> Result<(&'a [u8], ObjectIndex), NotJson> {
        self.skip_whitespace();
        let (start, open_containers, nodes) = (self.position, self.open_containers, self.nodes);
        let rest = self.text.get(start..).ok_or(NotJson)?;
        let mut index = ObjectIndex::default();
        let was_valid_json = std::mem::replace(&mut self.is_valid_json, true);
        if self.peek() != Some(b'{')
            || self
                .members(|key, value| index.record(rest, &key, value))
                .is_err()
        {
            (self.position, self.open_containers, self.nodes) = (start, open_containers, nodes);
            index = ObjectIndex::default();
            self.skip_value()?;
        }
        index.is_valid_json = self.is_valid_json;
        self.is_valid_json &= was_valid_json;
        let value = self.text.get(start..self.position).ok_or(NotJson)?;
        Ok((value, index))
    }

    /// Reads an array and returns its elements.
    pub fn elements(&mut self) -> Result<Vec<&'a [u8]>, NotJson> {
        let mut elements = Vec::new();
        self.for_each_element(|scanner| {
            let element = scanner.skip_value()?;
            // Over budget the elements are not used, so do not let the list grow.
            if scanner.exceeded.is_none() {
                elements.push(element);
            }
            Ok(())
        })?;
        Ok(elements)
    }

    /// Reads an array and calls `read_element` at each element. `read_element` must read the
    /// element.
    pub fn for_each_element(
        &mut self,
        mut read_element: impl FnMut(&mut Self) -> Result<(), NotJson>,
    ) -> Result<(), NotJson> {
        self.open(b'[')?;
        if self.close(b']') {
            return Ok(());
        }
        loop {
            self.skip_whitespace();
            read_element(self)?;
            if self.close(b']') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    /// Reads one value of any size and depth and returns its text.
    pub fn skip_value(&mut self) -> Result<&'a [u8], NotJson> {
        self.skip_whitespace();
        let start = self.position;
        let extent = match strict::measure_value(self.text, start) {
            Some(extent) => extent,
            None => {
                self.is_valid_json = false;
                invalid_value::measure(self.text, start).ok_or(NotJson)?
            }
        };
        self.position = extent.end;
        self.check_depth(extent.depth);
        self.add_nodes(extent.nodes);
        self.text.get(start..self.position).ok_or(NotJson)
    }

    fn read_key(&mut self) -> Result<Cow<'a, [u8]>, NotJson> {
        let start = self.position;
        if let Some((key, end)) = strict::unescaped_string(self.text, start) {
            self.position = end;
            return Ok(Cow::Borrowed(key));
        }
        let end = invalid_value::string_end(self.text, start).ok_or(NotJson)?;
        let quoted = self.text.get(start..end).ok_or(NotJson)?;
        self.position = end;
        self.is_valid_json &= quoted.iter().all(|byte| *byte >= 0x20);
        if quoted.contains(&b'\\') {
            // `"\u0069d"` is the key `id`. Without unescaping, a message could hide its id.
            let key = serde_json::from_slice::<String>(quoted).map_err(|_| NotJson)?;
            return Ok(Cow::Owned(key.into_bytes()));
        }
        quoted
            .get(1..quoted.len() - 1)
            .map(Cow::Borrowed)
            .ok_or(NotJson)
    }

    fn open(&mut self, bracket: u8) -> Result<(), NotJson> {
        self.add_nodes(1);
        self.open_containers += 1;
        self.expect(bracket)
    }

    fn close(&mut self, bracket: u8) -> bool {
        self.skip_whitespace();
        let closes = self.peek() == Some(bracket);
        self.position += usize::from(closes);
        self.open_containers -= usize::from(closes);
        closes
    }

    fn expect(&mut self, byte: u8) -> Result<(), NotJson> {
        self.skip_whitespace();
        if self.peek() != Some(byte) {
            return Err(NotJson);
        }
        self.position += 1;
        Ok(())
    }

    fn skip_whitespace(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.position += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.position).copied()
    }

    fn add_nodes(&mut self, nodes: usize) {
        self.nodes += nodes;
        if self.nodes > self.budget.nodes && self.exceeded.is_none() {
            self.exceeded = Some(BudgetExceeded::Nodes(self.budget.nodes));
        }
    }

    fn check_depth(&mut self, depth: usize) {
        if self.open_containers + depth > self.budget.depth && self.exceeded.is_none() {
            self.exceeded = Some(BudgetExceeded::Depth(self.budget.depth));
        }
    }
}
