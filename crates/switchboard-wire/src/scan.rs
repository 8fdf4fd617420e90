//! One cheap pass over JSON text: where its members are, and whether it keeps to the budget.
//!
//! It builds nothing. Text that is valid JSON is known to be so afterwards; in text that is not, all
//! that counts is where the members are, so that one bad number costs one tool and not the list.
//! Invariant: memory use does not depend on the input.

mod validate;

pub use validate::{first_special, plain_string};

use std::borrow::Cow;
use std::ops::Range;

use crate::limits::DEEPEST_JSON;

/// How much JSON one message may hold.
#[derive(Clone, Copy, Debug)]
pub struct JsonBudget {
    nodes: usize,
    depth: usize,
}

impl JsonBudget {
    /// At most `nodes` values and keys, nested at most `depth` deep, and never deeper than 128.
    pub fn new(nodes: usize, depth: usize) -> Self {
        Self {
            nodes,
            depth: depth.min(DEEPEST_JSON),
        }
    }

    /// For text that was scanned within its budget before.
    fn spent() -> Self {
        Self {
            nodes: usize::MAX,
            depth: DEEPEST_JSON,
        }
    }
}

/// The limit that a text crossed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    Nodes(usize),
    Depth(usize),
}

/// The text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotJson;

#[derive(Debug)]
pub struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    /// How many objects and arrays around this place were entered.
    level: usize,
    budget: JsonBudget,
    nodes: usize,
    exceeded: Option<Exceeded>,
    is_exact: bool,
}

/// What one pass has found out about an object, so that nobody has to look again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// It is valid JSON, if it is UTF-8.
    pub is_exact: bool,
    /// How many members were noted, or `UNKNOWN`.
    count: u8,
    /// How long the keys are. Apart from where they are, because it takes less room: an answer changes
    /// hands several times.
    key_lengths: [u8; Self::MOST],
    members: [Member; Self::MOST],
}

/// Where a member is, counted from the beginning of its object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Member {
    key: u32,
    value: (u32, u32),
}

impl Shape {
    /// The results of the protocol have no more than this, unless a server adds its own.
    const MOST: usize = 6;
    /// There are more, or one of them cannot be noted: whoever wants them has to look again.
    const UNKNOWN: u8 = u8::MAX;

    /// Of an object of which nothing but this is known.
    pub fn unseen(is_exact: bool) -> Self {
        Self {
            is_exact,
            ..Self::default()
        }
    }

    fn note(&mut self, object: &[u8], key: &[u8], value: &[u8]) {
        let at = usize::from(self.count);
        let slot = self.key_lengths.get_mut(at).zip(self.members.get_mut(at));
        let found = u8::try_from(key.len())
            .ok()
            .zip(span(object, key).zip(span(object, value)));
        match (slot, found) {
            (Some((key_length, member)), Some((length, ((key, _), value)))) => {
                *key_length = length;
                *member = Member { key, value };
                self.count += 1;
            }
            _ => self.count = Self::UNKNOWN,
        }
    }

    /// Visits the members of the object that this is the shape of.
    pub fn members<'a>(
        &self,
        object: &'a [u8],
        mut visit: impl FnMut(Cow<'a, [u8]>, &'a [u8]),
    ) -> Result<(), NotJson> {
        let noted = self.members.get(..self.count.into());
        let Some(noted) = noted.filter(|noted| !noted.is_empty()) else {
            return members(object, visit);
        };
        let part = |start: u32, end: u32| object.get(start as usize..end as usize);
        for (member, length) in noted.iter().zip(self.key_lengths) {
            let key = part(member.key, member.key + u32::from(length));
            if let (Some(key), Some(value)) = (key, part(member.value.0, member.value.1)) {
                visit(Cow::Borrowed(key), value);
            }
        }
        Ok(())
    }
}

/// Where a part lies in the whole that it was cut from.
pub fn place_in(whole: &[u8], part: &[u8]) -> Range<usize> {
    let start = part.as_ptr().addr().wrapping_sub(whole.as_ptr().addr());
    start..start.wrapping_add(part.len())
}

/// Where a part lies in the whole; nowhere if it was not cut from it, as a key that had escapes.
fn span(whole: &[u8], part: &[u8]) -> Option<(u32, u32)> {
    let Range { start, end } = place_in(whole, part);
    let span = (start.try_into().ok()?, end.try_into().ok()?);
    (start <= end && end <= whole.len()).then_some(span)
}

/// The members of an object that was scanned within its budget before.
pub fn members<'a>(
    text: &'a [u8],
    visit: impl FnMut(Cow<'a, [u8]>, &'a [u8]),
) -> Result<(), NotJson> {
    again(text).members(visit)
}

/// A scanner for text that was scanned within its budget before.
pub fn again(text: &[u8]) -> Scanner<'_> {
    Scanner::new(text, JsonBudget::spent())
}

/// The elements of an array that was scanned within its budget before, one after the other.
pub fn elements(text: &[u8]) -> Elements<'_> {
    Elements {
        scanner: again(text),
        place: Place::Before,
    }
}

/// See [`elements`]. Nothing comes after an error.
#[derive(Debug)]
pub struct Elements<'a> {
    scanner: Scanner<'a>,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Before,
    Within,
    After,
}

impl<'a> Elements<'a> {
    fn step(&mut self) -> Result<Option<&'a [u8]>, NotJson> {
        if self.place == Place::Before {
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
        if self.place == Place::After {
            return None;
        }
        let step = self.step();
        self.place = match step {
            Ok(Some(_)) => Place::Within,
            Ok(None) | Err(NotJson) => Place::After,
        };
        step.transpose()
    }
}

/// How many values and keys there are in a text, up to `most`.
pub fn count_nodes(text: &[u8], most: usize) -> usize {
    let budget = JsonBudget {
        nodes: most,
        depth: DEEPEST_JSON,
    };
    let mut scanner = Scanner::new(text, budget);
    match scanner.skip_value() {
        Ok(_) => scanner.nodes,
        Err(NotJson) => 0,
    }
}

impl<'a> Scanner<'a> {
    pub fn new(text: &'a [u8], budget: JsonBudget) -> Self {
        Self {
            text,
            at: 0,
            level: 0,
            budget,
            nodes: 0,
            exceeded: None,
            is_exact: true,
        }
    }

    pub fn exceeded(&self) -> Option<Exceeded> {
        self.exceeded
    }

    /// Whether nothing but white space is left.
    pub fn at_end(&mut self) -> bool {
        self.skip_space();
        self.at == self.text.len()
    }

    /// Visits the members of the object that begins here. Keys come unescaped.
    pub fn members(
        &mut self,
        mut visit: impl FnMut(Cow<'a, [u8]>, &'a [u8]),
    ) -> Result<(), NotJson> {
        self.each_member(|scanner, key| {
            let value = scanner.skip_value()?;
            visit(key, value);
            Ok(())
        })
    }

    /// Goes through the members of the object that begins here; `step` has to step over the value.
    pub fn each_member(
        &mut self,
        mut step: impl FnMut(&mut Self, Cow<'a, [u8]>) -> Result<(), NotJson>,
    ) -> Result<(), NotJson> {
        self.open(b'{')?;
        if self.close(b'}') {
            return Ok(());
        }
        loop {
            self.skip_space();
            self.spend(1);
            let key = self.key()?;
            self.expect(b':')?;
            step(self, key)?;
            if self.close(b'}') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    /// Steps over one value and notes the members that it has.
    pub fn skip_noting(&mut self) -> Result<(&'a [u8], Shape), NotJson> {
        self.skip_space();
        let (start, level, nodes) = (self.at, self.level, self.nodes);
        let rest = self.text.get(start..).ok_or(NotJson)?;
        let mut shape = Shape::default();
        let was_exact = std::mem::replace(&mut self.is_exact, true);
        if self.peek() != Some(b'{')
            || self
                .members(|key, value| shape.note(rest, &key, value))
                .is_err()
        {
            (self.at, self.level, self.nodes) = (start, level, nodes);
            shape = Shape::default();
            self.skip_value()?;
        }
        shape.is_exact = self.is_exact;
        self.is_exact &= was_exact;
        let value = self.text.get(start..self.at).ok_or(NotJson)?;
        Ok((value, shape))
    }

    /// The elements of the array that begins here.
    pub fn elements(&mut self) -> Result<Vec<&'a [u8]>, NotJson> {
        let mut elements = Vec::new();
        self.each_element(|scanner| {
            let element = scanner.skip_value()?;
            // Past the budget the elements are of no use any more; the pass goes on for the ids.
            if scanner.exceeded.is_none() {
                elements.push(element);
            }
            Ok(())
        })?;
        Ok(elements)
    }

    /// Goes through the elements of the array that begins here; `step` has to step over each.
    pub fn each_element(
        &mut self,
        mut step: impl FnMut(&mut Self) -> Result<(), NotJson>,
    ) -> Result<(), NotJson> {
        self.open(b'[')?;
        if self.close(b']') {
            return Ok(());
        }
        loop {
            self.skip_space();
            step(self)?;
            if self.close(b']') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    fn open(&mut self, bracket: u8) -> Result<(), NotJson> {
        self.spend(1);
        self.level += 1;
        self.expect(bracket)
    }

    fn close(&mut self, bracket: u8) -> bool {
        self.skip_space();
        let closes = self.peek() == Some(bracket);
        self.at += usize::from(closes);
        self.level -= usize::from(closes);
        closes
    }

    fn expect(&mut self, byte: u8) -> Result<(), NotJson> {
        self.skip_space();
        if self.peek() != Some(byte) {
            return Err(NotJson);
        }
        self.at += 1;
        Ok(())
    }

    fn key(&mut self) -> Result<Cow<'a, [u8]>, NotJson> {
        let start = self.at;
        if let Some((key, end)) = validate::plain_string(self.text, start) {
            self.at = end;
            return Ok(Cow::Borrowed(key));
        }
        let escaped = self.skip_string()?;
        let quoted = self.text.get(start..self.at).ok_or(NotJson)?;
        self.is_exact &= quoted.iter().all(|byte| *byte >= 0x20);
        if escaped {
            // `"\u0069d"` is `"id"`: a reader that does not see that can be lied to.
            let key = serde_json::from_slice::<String>(quoted).map_err(|_| NotJson)?;
            return Ok(Cow::Owned(key.into_bytes()));
        }
        quoted
            .get(1..quoted.len() - 1)
            .map(Cow::Borrowed)
            .ok_or(NotJson)
    }

    /// Steps over one value of any size and depth, and says where it is.
    pub fn skip_value(&mut self) -> Result<&'a [u8], NotJson> {
        self.skip_space();
        let start = self.at;
        match validate::value(self.text, start) {
            Some(found) => {
                self.at = found.end;
                self.check_depth(found.depth);
                self.spend(found.nodes);
            }
            None => {
                self.is_exact = false;
                self.skip_roughly()?;
            }
        }
        self.text.get(start..self.at).ok_or(NotJson)
    }

    /// Steps over what is nearly JSON: the brackets have to match, and strings to end.
    fn skip_roughly(&mut self) -> Result<(), NotJson> {
        let mut nesting = Nesting::default();
        loop {
            match self.peek().ok_or(NotJson)? {
                b'"' => {
                    self.skip_string()?;
                }
                open @ (b'{' | b'[') => {
                    self.at += 1;
                    nesting.push(open);
                    self.check_depth(nesting.depth);
                }
                close @ (b'}' | b']') => {
                    self.at += 1;
                    nesting.pop(close)?;
                    if nesting.depth == 0 {
                        return Ok(());
                    }
                    continue;
                }
                b',' | b':' if nesting.depth > 0 => {
                    self.at += 1;
                    continue;
                }
                b' ' | b'\t' | b'\r' | b'\n' => {
                    self.at += 1;
                    continue;
                }
                _ => self.skip_scalar()?,
            }
            self.spend(1);
            if nesting.depth == 0 {
                return Ok(());
            }
        }
    }

    fn skip_scalar(&mut self) -> Result<(), NotJson> {
        let rest = self.text.get(self.at..).ok_or(NotJson)?;
        let length = rest
            .iter()
            .position(|byte| !matches!(byte, b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'+' | b'-' | b'.'))
            .unwrap_or(rest.len());
        if length == 0 {
            return Err(NotJson);
        }
        self.at += length;
        Ok(())
    }

    /// Steps over a string and says whether it holds escapes.
    fn skip_string(&mut self) -> Result<bool, NotJson> {
        if self.peek() != Some(b'"') {
            return Err(NotJson);
        }
        self.at += 1;
        let mut escaped = false;
        loop {
            let rest = self.text.get(self.at..).ok_or(NotJson)?;
            let stop = memchr::memchr2(b'"', b'\\', rest).ok_or(NotJson)?;
            self.at += stop + 1;
            if rest.get(stop) == Some(&b'"') {
                return Ok(escaped);
            }
            escaped = true;
            self.at += 1;
        }
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn spend(&mut self, nodes: usize) {
        self.nodes += nodes;
        if self.nodes > self.budget.nodes && self.exceeded.is_none() {
            self.exceeded = Some(Exceeded::Nodes(self.budget.nodes));
        }
    }

    fn check_depth(&mut self, depth: usize) {
        if self.level + depth > self.budget.depth && self.exceeded.is_none() {
            self.exceeded = Some(Exceeded::Depth(self.budget.depth));
        }
    }
}

/// Which brackets are open, one bit each; deeper than that only their number is kept.
#[derive(Default)]
struct Nesting {
    depth: usize,
    objects: u128,
}

impl Nesting {
    fn push(&mut self, bracket: u8) {
        if self.depth < DEEPEST_JSON {
            self.objects = self.objects << 1 | u128::from(bracket == b'{');
        }
        self.depth += 1;
    }

    /// Whether the innermost bracket is that of an object; unknown where nobody kept count.
    fn in_object(&self) -> Option<bool> {
        (1..=DEEPEST_JSON)
            .contains(&self.depth)
            .then_some(self.objects & 1 == 1)
    }

    fn pop(&mut self, bracket: u8) -> Result<(), NotJson> {
        self.depth = self.depth.checked_sub(1).ok_or(NotJson)?;
        if self.depth < DEEPEST_JSON {
            let was_object = self.objects & 1 == 1;
            self.objects >>= 1;
            if was_object != (bracket == b'}') {
                return Err(NotJson);
            }
        }
        Ok(())
    }
}
