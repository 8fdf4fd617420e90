//! Splits a byte stream into lines of bounded length.
//!
//! [`LineSplitter`] does no I/O: the caller appends bytes to its buffer and takes lines out. A long
//! line stays in several chunks, which the caller joins on a blocking thread. A line over the size
//! limit or over the memory budget is discarded as it arrives; only the id of the request that it
//! responds to is kept.
//!
//! Invariant: when the reader needs more bytes, it holds at most one line, and no more of it than
//! the limit.

use bytes::{Bytes, BytesMut};

use crate::limits::LARGE_MESSAGE_BYTES;
use crate::memory_budget::{MemoryBudget, MemoryPermit};
use crate::oversized::{MAX_OVERSIZE_FACTOR, OversizedScan};

/// Free space of the buffer before each read, in bytes.
pub const READ_CHUNK_BYTES: usize = 64 * 1024;

/// A line without its line end.
#[derive(Debug)]
pub enum Line {
    /// A line of at most [`LARGE_MESSAGE_BYTES`].
    Complete(Bytes, Option<MemoryPermit>),
    /// A longer line.
    Long(ChunkedLine, Option<MemoryPermit>),
    /// A line that is not returned. Reported once, possibly before its end.
    Discarded {
        /// The request that the line responds to, if known.
        id: Option<u64>,
        /// Why the line was discarded.
        reason: DiscardReason,
    },
}

/// Why a message was discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscardReason {
    /// The message exceeds the size limit.
    TooLong,
    /// The large messages of all servers together exceed the memory budget.
    OverMemoryBudget,
}

/// A line or an event does not end within eight times the size limit.
#[derive(Debug, PartialEq, Eq)]
pub struct Unterminated;

/// A long line, or the beginning of one, in the chunks in which it was read.
#[derive(Debug, Default)]
pub struct ChunkedLine {
    chunks: Vec<BytesMut>,
    length: usize,
}

impl ChunkedLine {
    fn push(&mut self, chunk: BytesMut) {
        self.length += chunk.len();
        self.chunks.push(chunk);
    }

    fn feed_to(self, scan: &mut OversizedScan) {
        for chunk in self.chunks {
            scan.feed(&chunk);
        }
    }

    /// Copies the chunks into one buffer. Frees each chunk after it is copied, so that the line is
    /// not in memory twice.
    pub fn join(self) -> Bytes {
        let mut line = Vec::with_capacity(self.length);
        for chunk in self.chunks {
            line.extend_from_slice(&chunk);
        }
        line.into()
    }
}

/// Splits a byte stream into lines.
#[derive(Debug)]
pub struct LineSplitter {
    /// The chunks of the current line that were moved out of `buffer`, because the line is long.
    line_start: ChunkedLine,
    /// The rest of the current line, and the bytes after it.
    buffer: BytesMut,
    /// The buffer contains no line end before this offset.
    searched: usize,
    /// Maximum length of a line, in bytes.
    limit: usize,
    budget: MemoryBudget,
    /// The share of the memory budget that the current line holds.
    permit: Option<MemoryPermit>,
    /// Set while the current line is being discarded.
    discarding: Option<DiscardingLine>,
}

/// The current line, if it is being discarded.
#[derive(Debug)]
struct DiscardingLine {
    scan: OversizedScan,
    reason: DiscardReason,
    is_reported: bool,
}

impl DiscardingLine {
    fn new(reason: DiscardReason) -> Self {
        Self {
            scan: OversizedScan::default(),
            reason,
            is_reported: false,
        }
    }

    /// Returns the report about this line, once.
    fn report(&mut self) -> Option<Line> {
        let line = Line::Discarded {
            id: self.scan.id(),
            reason: self.reason,
        };
        (!std::mem::replace(&mut self.is_reported, true)).then_some(line)
    }
}

impl LineSplitter {
    /// Reads lines of at most `limit` bytes.
    pub fn new(limit: usize, budget: &MemoryBudget) -> Self {
        Self {
            line_start: ChunkedLine::default(),
            buffer: BytesMut::new(),
            searched: 0,
            limit,
            budget: budget.clone(),
            permit: None,
            discarding: None,
        }
    }

    /// The buffer to append to, with at least [`READ_CHUNK_BYTES`] of free space.
    #[inline]
    pub fn read_buffer(&mut self) -> &mut BytesMut {
        self.buffer.reserve(READ_CHUNK_BYTES);
        &mut self.buffer
    }

    /// Returns the next line, or `None` if more bytes have to be read.
    pub fn next_line(&mut self) -> Result<Option<Line>, Unterminated> {
        loop {
            let unsearched = self.buffer.get(self.searched..).unwrap_or_default();
            let Some(offset) = memchr::memchr(b'\n', unsearched) else {
                return self.store_partial_line();
            };
            let line = self.buffer.split_to(self.searched + offset + 1);
            self.searched = 0;
            if self.line_start.length + line.len() > LARGE_MESSAGE_BYTES {
                // Copy the rest, so that it does not keep the memory of the long line alive.
                self.buffer = BytesMut::from(&*self.buffer);
            }
            if let Some(line) = self.finish_line(line) {
                return Ok(Some(line));
            }
        }
    }

    /// Keeps or discards the current line, whose end was not read yet.
    fn store_partial_line(&mut self) -> Result<Option<Line>, Unterminated> {
        self.searched = self.buffer.len();
        let report = self.discard_if_too_large()?;
        if self.buffer.len() > LARGE_MESSAGE_BYTES {
            let next = BytesMut::with_capacity(LARGE_MESSAGE_BYTES + READ_CHUNK_BYTES);
            self.line_start
                .push(std::mem::replace(&mut self.buffer, next));
            self.searched = 0;
        }
        Ok(report)
    }

    /// Number of bytes held: of the current line and of those after it.
    #[inline]
    pub fn buffered_bytes(&self) -> usize {
        self.line_start.length + self.buffer.len()
    }

    /// Whether the rest of the buffer is at least half of a read. Then the stream probably has more
    /// bytes ready.
    #[inline]
    pub fn is_buffer_half_full(&self) -> bool {
        self.buffer.len() >= READ_CHUNK_BYTES / 2
    }

    /// Whether the next call of [`next_line`](Self::next_line) starts to discard a large line. That
    /// call scans the whole line for its id, so it belongs on a blocking thread.
    #[inline]
    pub fn will_scan_discarded_line(&self) -> bool {
        let size = self.buffered_bytes();
        let is_large = size > LARGE_MESSAGE_BYTES && self.discarding.is_none();
        is_large && (size > self.limit || !self.budget.has_room(self.permit.as_ref(), size))
    }

    /// Moves the contents to a new reader and leaves an empty one.
    pub fn take(&mut self) -> Self {
        let empty = Self::new(self.limit, &self.budget);
        std::mem::replace(self, empty)
    }

    /// Returns the bytes after the last line end, at the end of the stream. `None` if they are
    /// blank or belong to a discarded line.
    pub fn take_remainder(&mut self) -> Option<Bytes> {
        let mut rest = std::mem::take(&mut self.line_start);
        rest.push(self.buffer.split());
        let rest = rest.join();
        (self.discarding.take().is_none() && !rest.trim_ascii().is_empty()).then_some(rest)
    }

    /// Returns the emptied buffer, to read and ignore the rest of the stream with.
    pub fn into_drain_buffer(self) -> BytesMut {
        let mut buffer = self.buffer;
        buffer.clear();
        buffer.reserve(READ_CHUNK_BYTES);
        buffer
    }

    /// Returns the current line, of which `line` is the last part. `None` if the line is discarded
    /// and was reported before.
    fn finish_line(&mut self, mut line: BytesMut) -> Option<Line> {
        let mut permit = self.permit.take();
        let mut line_start = std::mem::take(&mut self.line_start);
        let length = line_start.length + line.len();
        let mut discarding = match self.discarding.take() {
            Some(discarding) => discarding,
            None if length > self.limit + 1 => DiscardingLine::new(DiscardReason::TooLong),
            None if !self.budget.grow(&mut permit, length) => {
                DiscardingLine::new(DiscardReason::OverMemoryBudget)
            }
            None => {
                line.truncate(line.len() - 1);
                if line_start.chunks.is_empty() && length <= LARGE_MESSAGE_BYTES {
                    return Some(Line::Complete(line.freeze(), permit));
                }
                line_start.push(line);
                return Some(Line::Long(line_start, permit));
            }
        };
        line_start.push(line);
        line_start.feed_to(&mut discarding.scan);
        discarding.report()
    }

    /// Discards the current line if it exceeds the limit or the memory budget. Reports it as soon
    /// as its id is known.
    fn discard_if_too_large(&mut self) -> Result<Option<Line>, Unterminated> {
        if self.discarding.is_none() {
            let size = self.buffered_bytes();
            let reason = if size > self.limit {
                DiscardReason::TooLong
            } else if !self.budget.grow(&mut self.permit, size) {
                DiscardReason::OverMemoryBudget
            } else {
                return Ok(None);
            };
            self.permit = None;
            self.discarding = Some(DiscardingLine::new(reason));
        }
        let Some(discarding) = &mut self.discarding else {
            return Ok(None);
        };
        let scan = &mut discarding.scan;
        std::mem::take(&mut self.line_start).feed_to(scan);
        scan.feed(&self.buffer);
        if self.buffer.capacity() > LARGE_MESSAGE_BYTES {
            self.buffer = BytesMut::new();
        }
        self.buffer.clear();
        self.searched = 0;
        let is_unterminated = scan.length > self.limit.saturating_mul(MAX_OVERSIZE_FACTOR);
        let has_id = scan.is_id_final();
        match has_id.then(|| discarding.report()).flatten() {
            None if is_unterminated => Err(Unterminated),
            report => Ok(report),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line without its memory permit.
    #[derive(Debug, PartialEq)]
    enum TestLine {
        Complete(Bytes),
        Discarded(Option<u64>, DiscardReason),
    }

    fn lines(limit: usize) -> LineSplitter {
        LineSplitter::new(limit, &MemoryBudget::new(1_000_000))
    }

    fn next(lines: &mut LineSplitter) -> Result<Option<TestLine>, Unterminated> {
        let line = lines.next_line()?;
        Ok(line.map(|line| match line {
            Line::Complete(line, _) => TestLine::Complete(line),
            Line::Long(line, _) => TestLine::Complete(line.join()),
            Line::Discarded { id, reason } => TestLine::Discarded(id, reason),
        }))
    }

    fn all(limit: usize, chunks: &[&[u8]]) -> Vec<TestLine> {
        all_of(&mut lines(limit), chunks)
    }

    fn all_of(lines: &mut LineSplitter, chunks: &[&[u8]]) -> Vec<TestLine> {
        let mut found = Vec::new();
        for chunk in chunks {
            lines.read_buffer().extend_from_slice(chunk);
            while let Some(line) = next(lines).unwrap() {
                found.push(line);
            }
        }
        found
    }

    fn complete(text: &'static str) -> TestLine {
        TestLine::Complete(Bytes::from_static(text.as_bytes()))
    }

    fn too_long(id: Option<u64>) -> TestLine {
        TestLine::Discarded(id, DiscardReason::TooLong)
    }

    #[test]
    fn line_over_memory_budget_is_discarded() {
        let budget = MemoryBudget::new(200_000);
        let mut other = None;
        assert!(budget.grow(&mut other, 150_000));
        let large = format!(r#"{{"id":7,"result":"{}"}}"#, "x".repeat(100_000));
        let mut lines = LineSplitter::new(1_000_000, &budget);
        let (one, two) = large.as_bytes().split_at(70_000);
        let seen = all_of(&mut lines, &[one, two, b"\nok\n"]);
        assert_eq!(
            seen,
            [
                TestLine::Discarded(Some(7), DiscardReason::OverMemoryBudget),
                complete("ok")
            ]
        );
        drop(other);
        let seen = all_of(&mut lines, &[one, two, b"\n"]);
        assert_eq!(seen, [TestLine::Complete(large.clone().into())]);
    }

    #[test]
    fn discarded_line_is_reported_once_when_its_id_is_known() {
        let mut lines = lines(10);
        let known = br#"{"id":7,"result":"xxxx"#;
        assert_eq!(all_of(&mut lines, &[known]), [too_long(Some(7))]);
        assert_eq!(all_of(&mut lines, &[b"xxxx", b"\"}"]), []);
        assert_eq!(all_of(&mut lines, &[b"\nok\n"]), [complete("ok")]);
        let unknown = br#"{"result":"xxxxxxx"#;
        assert_eq!(all_of(&mut lines, &[unknown]), []);
        let rest: [&[u8]; 2] = [b"\",\"id\":8}\n", b"ok\n"];
        assert_eq!(
            all_of(&mut lines, &rest),
            [too_long(Some(8)), complete("ok")]
        );
    }

    #[test]
    fn memory_of_long_line_is_released() {
        for limit in [LARGE_MESSAGE_BYTES / 2, 4 * LARGE_MESSAGE_BYTES] {
            let mut lines = lines(limit);
            let text = [vec![b'x'; 3 * LARGE_MESSAGE_BYTES], b"\nnext line".to_vec()].concat();
            for chunk in text.chunks(READ_CHUNK_BYTES) {
                lines.read_buffer().extend_from_slice(chunk);
                while next(&mut lines).unwrap().is_some() {}
            }
            assert_eq!(lines.buffer, b"next line".as_slice());
            assert!(
                lines.buffer.capacity() < LARGE_MESSAGE_BYTES,
                "{}",
                lines.buffer.capacity()
            );
        }
    }

    #[test]
    fn long_lines_are_complete_at_every_length() {
        for length in [
            LARGE_MESSAGE_BYTES - READ_CHUNK_BYTES - 1,
            LARGE_MESSAGE_BYTES - 1,
            LARGE_MESSAGE_BYTES,
            LARGE_MESSAGE_BYTES + 1,
            LARGE_MESSAGE_BYTES + READ_CHUNK_BYTES,
            5 * LARGE_MESSAGE_BYTES / 2,
        ] {
            assert_long_line_is_complete(length);
        }
    }

    fn assert_long_line_is_complete(length: usize) {
        let digits = b"0123456789".iter().copied().cycle();
        let long: Vec<u8> = digits.take(length).collect();
        let text = [&long, b"\nnext\n".as_slice(), &long].concat();
        let mut lines = LineSplitter::new(
            3 * LARGE_MESSAGE_BYTES,
            &MemoryBudget::new(8 * LARGE_MESSAGE_BYTES),
        );
        let chunks: Vec<_> = text.chunks(READ_CHUNK_BYTES - 1).collect();
        let seen = all_of(&mut lines, &chunks);
        assert_eq!(
            seen,
            [TestLine::Complete(long.clone().into()), complete("next")]
        );
        assert_eq!(lines.take_remainder(), Some(long.into()));
    }

    #[test]
    fn lines_do_not_depend_on_chunks() {
        assert_eq!(
            all(100, &[b"a", b"b\nc", b"\n\nd"]),
            [complete("ab"), complete("c"), complete("")]
        );
    }

    #[test]
    fn limit_is_the_longest_accepted_line() {
        assert_eq!(all(3, &[b"abc\n"]), [complete("abc")]);
        assert_eq!(all(3, &[b"abcd\nx\n"]), [too_long(None), complete("x")]);
    }

    #[test]
    fn oversized_response_reports_id_at_any_position() {
        let first = br#"{"jsonrpc":"2.0","id":7,"result":{"id":9,"text":"aaaaaaaa,}"}}"#;
        let last =
            br#"{"result":{"a":[{"id":9}],"text":"\",\"id\":8"},"jsonrpc":"2.0", "id" : 7 }"#;
        for text in [first.as_slice(), last.as_slice()] {
            let cut = text.len() / 2;
            let chunks = [&text[..cut], &text[cut..], b"\nok\n"];
            assert_eq!(all(30, &chunks), [too_long(Some(7)), complete("ok")]);
        }
    }

    #[test]
    fn oversized_server_request_reports_no_id() {
        let text = br#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":"aaaaaa"}}"#;
        assert_eq!(all(30, &[text, b"\n"]), [too_long(None)]);
    }

    #[test]
    fn stream_without_line_end_is_unterminated() {
        let mut lines = lines(10);
        let mut outcome = Ok(None);
        for _ in 0..20 {
            lines.read_buffer().extend_from_slice(b"0123456789");
            outcome = next(&mut lines);
            if outcome.is_err() {
                break;
            }
        }
        assert_eq!(outcome, Err(Unterminated));
    }

    #[test]
    fn incomplete_line_is_the_remainder() {
        let mut lines = lines(10);
        lines.read_buffer().extend_from_slice(b"a\nhalf");
        assert_eq!(next(&mut lines), Ok(Some(complete("a"))));
        assert_eq!(next(&mut lines), Ok(None));
        assert_eq!(lines.take_remainder().as_deref(), Some(b"half".as_slice()));
    }
}
