//! Finds the request that a discarded message responds to, so that this request can fail at once.
//!
//! The message is scanned as it arrives and not stored: only the current key and the id are kept.
//! Scanning a prefix is not enough, because some servers write `result` before `id`.

use crate::jsonrpc::ResponseId;

/// Reading stops with an error if a line or an event is longer than this many times the size limit.
pub(super) const MAX_OVERSIZE_FACTOR: usize = 8;

/// Scans a message byte by byte for the members `id`, `method`, `result` and `error`.
#[derive(Debug, Default)]
pub(super) struct OversizedScan {
    /// Number of bytes scanned.
    pub(super) length: usize,
    depth: usize,
    in_string: bool,
    /// The previous byte was a backslash in a string.
    in_escape: bool,
    kind: MessageKind,
    /// The beginning of the current key or scalar value, if it is on the top level of the message.
    token: Vec<u8>,
    /// The key of the current top-level member, with quotes.
    key: Vec<u8>,
    id: Option<u64>,
}

/// The kind of the message, as far as known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum MessageKind {
    #[default]
    Unknown,
    /// The message has a `method`.
    Call,
    /// The message has a `result` or an `error`.
    Response,
}

impl OversizedScan {
    /// Longer tokens are truncated. Every key that matters and every id of ours is shorter.
    const MAX_TOKEN_BYTES: usize = 24;

    /// The request that the message responds to, if known.
    pub(super) fn id(&self) -> Option<u64> {
        self.id.filter(|_| self.kind != MessageKind::Call)
    }

    /// Scans the next bytes of the message.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.length += bytes.len();
        let mut rest = bytes;
        // Stop as soon as the id is final. A second `id` or a `method` after that is ignored: such
        // a message is invalid anyway.
        while !self.is_id_final() {
            if self.in_string && !self.in_escape && !self.keeps_token() {
                let end = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                rest = rest.get(end..).unwrap_or_default();
            }
            let Some((byte, after)) = rest.split_first() else {
                return;
            };
            self.scan_byte(*byte);
            rest = after;
        }
    }

    /// Whether the message is a response with a known id, so that the rest need not be scanned.
    pub(super) fn is_id_final(&self) -> bool {
        self.kind == MessageKind::Response && self.id.is_some()
    }

    fn scan_byte(&mut self, byte: u8) {
        if self.in_string {
            self.push_to_token(byte);
            match byte {
                _ if self.in_escape => self.in_escape = false,
                b'\\' => self.in_escape = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.push_to_token(byte);
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.end_member();
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => {
                self.key = std::mem::take(&mut self.token);
                let is_outcome = matches!(self.key.as_slice(), b"\"result\"" | b"\"error\"");
                if is_outcome && self.kind == MessageKind::Unknown {
                    self.kind = MessageKind::Response;
                }
            }
            b',' => self.end_member(),
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => self.push_to_token(byte),
        }
    }

    fn push_to_token(&mut self, byte: u8) {
        if self.keeps_token() {
            self.token.push(byte);
        }
    }

    /// Whether the next byte is stored: it is on the top level of the message, and the token is not
    /// full.
    fn keeps_token(&self) -> bool {
        self.depth == 1 && self.token.len() < Self::MAX_TOKEN_BYTES
    }

    fn end_member(&mut self) {
        if self.depth != 1 {
            return;
        }
        match self.key.as_slice() {
            b"\"id\"" => {
                if let ResponseId::Number(id) = ResponseId::parse(&self.token) {
                    self.id = Some(id);
                }
            }
            b"\"method\"" => self.kind = MessageKind::Call,
            _ => {}
        }
        self.key.clear();
        self.token.clear();
    }
}
