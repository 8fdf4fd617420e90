//! One cheap pass over JSON text: where its members are, and whether it keeps to the budget.
//!
//! It builds nothing and validates only structure; what is looked into afterwards is parsed by
//! `serde_json`, which validates the rest. Invariant: memory use does not depend on the input.

use std::borrow::Cow;

use crate::limits::{DEEPEST_JSON, Limits};

/// How much JSON one message may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    nodes: usize,
    depth: usize,
}

impl Budget {
    pub(crate) fn of(limits: &Limits) -> Self {
        Self {
            nodes: limits.json_nodes,
            depth: limits.json_depth.min(DEEPEST_JSON),
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
pub(crate) enum Exceeded {
    Nodes(usize),
    Depth(usize),
}

/// The text is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotJson;

pub(crate) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    budget: Budget,
    nodes: usize,
    exceeded: Option<Exceeded>,
}

/// The members of an object that was scanned within its budget before.
pub(crate) fn members<'a>(
    text: &'a [u8],
    visit: impl FnMut(Cow<'a, [u8]>, &'a [u8]),
) -> Result<(), NotJson> {
    Scanner::new(text, Budget::spent()).members(visit)
}

/// The elements of an array that was scanned within its budget before.
pub(crate) fn elements(text: &[u8]) -> Result<Vec<&[u8]>, NotJson> {
    Scanner::new(text, Budget::spent()).elements()
}

/// How many values and keys there are in a text, up to `most`.
pub(crate) fn count_nodes(text: &[u8], most: usize) -> usize {
    let budget = Budget {
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
    pub(crate) fn new(text: &'a [u8], budget: Budget) -> Self {
        Self {
            text,
            at: 0,
            budget,
            nodes: 0,
            exceeded: None,
        }
    }

    pub(crate) fn exceeded(&self) -> Option<Exceeded> {
        self.exceeded
    }

    /// Whether nothing but white space is left.
    pub(crate) fn at_end(&mut self) -> bool {
        self.skip_space();
        self.at == self.text.len()
    }

    /// Visits the members of the object that begins here. Keys come unescaped.
    pub(crate) fn members(
        &mut self,
        mut visit: impl FnMut(Cow<'a, [u8]>, &'a [u8]),
    ) -> Result<(), NotJson> {
        self.open(b'{')?;
        if self.close(b'}') {
            return Ok(());
        }
        loop {
            self.skip_space();
            let key = self.key()?;
            self.expect(b':')?;
            let value = self.skip_value()?;
            visit(key, value);
            if self.close(b'}') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    /// The elements of the array that begins here.
    pub(crate) fn elements(&mut self) -> Result<Vec<&'a [u8]>, NotJson> {
        self.open(b'[')?;
        let mut elements = Vec::new();
        if self.close(b']') {
            return Ok(elements);
        }
        loop {
            let element = self.skip_value()?;
            // Past the budget the elements are of no use any more; the pass goes on for the ids.
            if self.exceeded.is_none() {
                elements.push(element);
            }
            if self.close(b']') {
                return Ok(elements);
            }
            self.expect(b',')?;
        }
    }

    fn open(&mut self, bracket: u8) -> Result<(), NotJson> {
        self.spend();
        self.expect(bracket)
    }

    fn close(&mut self, bracket: u8) -> bool {
        self.skip_space();
        let closes = self.peek() == Some(bracket);
        self.at += usize::from(closes);
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
        let escaped = self.skip_string()?;
        let quoted = self.text.get(start..self.at).ok_or(NotJson)?;
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
    fn skip_value(&mut self) -> Result<&'a [u8], NotJson> {
        self.skip_space();
        let start = self.at;
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
                        break;
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
            self.spend();
            if nesting.depth == 0 {
                break;
            }
        }
        self.text.get(start..self.at).ok_or(NotJson)
    }

    fn skip_scalar(&mut self) -> Result<(), NotJson> {
        let rest = self.text.get(self.at..).ok_or(NotJson)?;
        let length = rest
            .iter()
            .position(|byte| !matches!(byte, b'0'..=b'9' | b'a'..=b'z' | b'E' | b'+' | b'-' | b'.'))
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

    fn spend(&mut self) {
        self.nodes += 1;
        if self.nodes > self.budget.nodes && self.exceeded.is_none() {
            self.exceeded = Some(Exceeded::Nodes(self.budget.nodes));
        }
    }

    fn check_depth(&mut self, depth: usize) {
        // The message itself is the first level.
        if depth >= self.budget.depth && self.exceeded.is_none() {
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
