//! What is looked for in a message that is too long to be kept: the request that it answers.
//!
//! It holds no more of the message than one key or id.

use crate::jsonrpc::{AnswerId, answer_id};

/// How many times the limit an overlong message may go on before the stream is given up.
pub(super) const PATIENCE: usize = 8;

/// Follows an overlong message byte by byte to find the `id` among the members of the message.
#[derive(Debug, Default)]
pub(super) struct Overlong {
    /// How much of it there was so far.
    pub(super) length: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
    sort: Sort,
    /// The text of the last string or scalar on the first level, as far as it is of interest.
    token: Vec<u8>,
    /// The key whose value comes next.
    key: Vec<u8>,
    id: Option<u64>,
}

/// What sort of message it is, as far as that is known by now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sort {
    #[default]
    Unknown,
    /// It has a method.
    Request,
    /// It has a result or an error.
    Answer,
}

impl Overlong {
    /// No key or id of interest is longer.
    const TOKEN: usize = 24;

    /// The request that it answers, as far as that is known by now.
    pub(super) fn id(&self) -> Option<u64> {
        self.id.filter(|_| self.sort != Sort::Request)
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.length += bytes.len();
        let mut rest = bytes;
        // What it answers stands nearly always before what it answers with. Whoever names two ids, or a
        // method besides, is taken at the first word: it is no message that could be kept to.
        while !self.is_settled() {
            if self.in_string && !self.escaped && !self.is_of_interest() {
                let end = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                rest = rest.get(end..).unwrap_or_default();
            }
            let Some((byte, after)) = rest.split_first() else {
                return;
            };
            self.step(*byte);
            rest = after;
        }
    }

    /// Whether nothing that is still to come can change what it answers.
    pub(super) fn is_settled(&self) -> bool {
        self.sort == Sort::Answer && self.id.is_some()
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            self.keep(byte);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep(byte);
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.end_member();
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => {
                self.key = std::mem::take(&mut self.token);
                let is_outcome = matches!(self.key.as_slice(), b"\"result\"" | b"\"error\"");
                if is_outcome && self.sort == Sort::Unknown {
                    self.sort = Sort::Answer;
                }
            }
            b',' => self.end_member(),
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.is_of_interest() {
            self.token.push(byte);
        }
    }

    /// Whether what comes now may belong to a key or an id.
    fn is_of_interest(&self) -> bool {
        self.depth == 1 && self.token.len() < Self::TOKEN
    }

    fn end_member(&mut self) {
        if self.depth != 1 {
            return;
        }
        match self.key.as_slice() {
            b"\"id\"" => {
                if let AnswerId::Ours(id) = answer_id(&self.token) {
                    self.id = Some(id);
                }
            }
            b"\"method\"" => self.sort = Sort::Request,
            _ => {}
        }
        self.key.clear();
        self.token.clear();
    }
}
