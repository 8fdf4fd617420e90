//! Lines out of a stream of bytes, each of bounded length.
//!
//! It does no reading itself: bytes are put in, lines are taken out. A long line is kept in pieces, which
//! whoever wants it joins where that holds up nobody. A line that is too long is let go as it comes in,
//! and all that is kept of it is the id of the request it answers.

use bytes::{Bytes, BytesMut};

use crate::limits::LARGE;
use crate::memory_budget::{Budget, Held};
use crate::oversized::{Overlong, PATIENCE};

/// How much is asked of the stream at a time.
pub const READ_AHEAD: usize = 64 * 1024;

#[derive(Debug)]
pub enum Line {
    /// A line, and its share of the budget.
    Complete(Bytes, Option<Held>),
    /// The same, of a long one.
    Long(Pieces, Option<Held>),
    /// A line that was let go; `id` is the request that it answers, where it says so.
    LetGo { id: Option<u64>, why: LetGo },
}

/// Why a line was let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetGo {
    /// It is over the limit.
    TooLong,
    /// All servers together are over the budget.
    NoRoom,
}

/// The stream went on for so long without a line end that it cannot be trusted to come to one.
#[derive(Debug, PartialEq, Eq)]
pub struct Endless;

/// A long line, or the beginning of one.
#[derive(Debug, Default)]
pub struct Pieces {
    pieces: Vec<BytesMut>,
    length: usize,
}

impl Pieces {
    fn push(&mut self, piece: BytesMut) {
        self.length += piece.len();
        self.pieces.push(piece);
    }

    fn feed(self, overlong: &mut Overlong) {
        for piece in self.pieces {
            overlong.feed(&piece);
        }
    }

    /// Makes one of them. The memory of each is given back as soon as it is copied.
    pub fn join(self) -> Bytes {
        let mut whole = Vec::with_capacity(self.length);
        for piece in self.pieces {
            whole.extend_from_slice(&piece);
        }
        whole.into()
    }
}

#[derive(Debug)]
pub struct Lines {
    /// The line that is coming in, as far as it does not fit into the buffer.
    before: Pieces,
    buffer: BytesMut,
    /// How much of the buffer is known to hold no line end.
    searched: usize,
    limit: usize,
    budget: Budget,
    /// What the line that is coming in has of it.
    held: Option<Held>,
    letting_go: Option<LettingGo>,
}

/// A line that is being let go.
#[derive(Debug)]
struct LettingGo {
    overlong: Overlong,
    why: LetGo,
    /// Whoever waits for it knows.
    is_told: bool,
}

impl LettingGo {
    fn new(why: LetGo) -> Self {
        Self {
            overlong: Overlong::default(),
            why,
            is_told: false,
        }
    }

    /// What is told of it, once.
    fn tell(&mut self) -> Option<Line> {
        let line = Line::LetGo {
            id: self.overlong.id(),
            why: self.why,
        };
        (!std::mem::replace(&mut self.is_told, true)).then_some(line)
    }
}

impl Lines {
    pub fn new(limit: usize, budget: &Budget) -> Self {
        Self {
            before: Pieces::default(),
            buffer: BytesMut::new(),
            searched: 0,
            limit,
            budget: budget.clone(),
            held: None,
            letting_go: None,
        }
    }

    /// Where to read into.
    pub fn room(&mut self) -> &mut BytesMut {
        self.buffer.reserve(READ_AHEAD);
        &mut self.buffer
    }

    /// The next line, if it is all there, or is known to be let go and what it answers.
    pub fn next_line(&mut self) -> Result<Option<Line>, Endless> {
        loop {
            let unsearched = self.buffer.get(self.searched..).unwrap_or_default();
            let Some(offset) = memchr::memchr(b'\n', unsearched) else {
                return self.go_on();
            };
            let line = self.buffer.split_to(self.searched + offset + 1);
            self.searched = 0;
            if self.before.length + line.len() > LARGE {
                // The memory of a long line goes with it.
                self.buffer = BytesMut::from(&*self.buffer);
            }
            if let Some(line) = self.finish(line) {
                return Ok(Some(line));
            }
        }
    }

    /// There is no line end yet.
    fn go_on(&mut self) -> Result<Option<Line>, Endless> {
        self.searched = self.buffer.len();
        let told = self.let_go_of_too_much()?;
        if self.buffer.len() > LARGE {
            let next = BytesMut::with_capacity(LARGE + READ_AHEAD);
            self.before.push(std::mem::replace(&mut self.buffer, next));
            self.searched = 0;
        }
        Ok(told)
    }

    /// How much there is of the line that is coming in, and of those after it.
    pub fn size(&self) -> usize {
        self.before.length + self.buffer.len()
    }

    /// Whether so much came at once that there may be more.
    pub fn is_behind(&self) -> bool {
        self.buffer.len() >= READ_AHEAD / 2
    }

    /// Whether the line that is coming in is a long one.
    pub fn is_long(&self) -> bool {
        self.letting_go.is_some() || self.size() > LARGE
    }

    /// Whether the next look at the buffer takes long: what is in it is about to be let go, and is
    /// gone through in search of the request that it answers.
    pub fn has_much_to_let_go(&self) -> bool {
        let size = self.size();
        let is_large = size > LARGE && self.letting_go.is_none();
        is_large && (size > self.limit || !self.budget.has_room(self.held.as_ref(), size))
    }

    /// Takes the buffer along, and leaves an empty one.
    pub fn take(&mut self) -> Self {
        let empty = Self::new(self.limit, &self.budget);
        std::mem::replace(self, empty)
    }

    /// What stands after the last line end, when the stream has ended.
    pub fn remainder(&mut self) -> Option<Bytes> {
        let mut rest = std::mem::take(&mut self.before);
        rest.push(self.buffer.split());
        let rest = rest.join();
        (self.letting_go.take().is_none() && !rest.trim_ascii().is_empty()).then_some(rest)
    }

    /// Room for reading on without looking.
    pub fn leftover(self) -> BytesMut {
        let mut room = self.buffer;
        room.clear();
        room.reserve(READ_AHEAD);
        room
    }

    /// What becomes of a line, unless it was told before.
    fn finish(&mut self, mut line: BytesMut) -> Option<Line> {
        let mut held = self.held.take();
        let mut before = std::mem::take(&mut self.before);
        let length = before.length + line.len();
        let mut letting_go = match self.letting_go.take() {
            Some(begun) => begun,
            None if length > self.limit + 1 => LettingGo::new(LetGo::TooLong),
            None if !self.budget.grow(&mut held, length) => LettingGo::new(LetGo::NoRoom),
            None => {
                line.truncate(line.len() - 1);
                if before.pieces.is_empty() && length <= LARGE {
                    return Some(Line::Complete(line.freeze(), held));
                }
                before.push(line);
                return Some(Line::Long(before, held));
            }
        };
        before.push(line);
        before.feed(&mut letting_go.overlong);
        letting_go.tell()
    }

    /// Lets go of a line that is too much, and tells it as soon as it is known what it answers.
    fn let_go_of_too_much(&mut self) -> Result<Option<Line>, Endless> {
        if self.letting_go.is_none() {
            let size = self.size();
            let why = if size > self.limit {
                LetGo::TooLong
            } else if !self.budget.grow(&mut self.held, size) {
                LetGo::NoRoom
            } else {
                return Ok(None);
            };
            self.held = None;
            self.letting_go = Some(LettingGo::new(why));
        }
        let Some(letting_go) = &mut self.letting_go else {
            return Ok(None);
        };
        let overlong = &mut letting_go.overlong;
        std::mem::take(&mut self.before).feed(overlong);
        overlong.feed(&self.buffer);
        if self.buffer.capacity() > LARGE {
            self.buffer = BytesMut::new();
        }
        self.buffer.clear();
        self.searched = 0;
        let is_endless = overlong.length > self.limit.saturating_mul(PATIENCE);
        let is_known = overlong.is_settled();
        match is_known.then(|| letting_go.tell()).flatten() {
            None if is_endless => Err(Endless),
            told => Ok(told),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line without its share of the budget.
    #[derive(Debug, PartialEq)]
    enum Seen {
        Complete(Bytes),
        LetGo(Option<u64>, LetGo),
    }

    fn lines(limit: usize) -> Lines {
        Lines::new(limit, &Budget::new(1_000_000))
    }

    fn next(lines: &mut Lines) -> Result<Option<Seen>, Endless> {
        let line = lines.next_line()?;
        Ok(line.map(|line| match line {
            Line::Complete(line, _) => Seen::Complete(line),
            Line::Long(line, _) => Seen::Complete(line.join()),
            Line::LetGo { id, why } => Seen::LetGo(id, why),
        }))
    }

    fn all(limit: usize, chunks: &[&[u8]]) -> Vec<Seen> {
        all_of(&mut lines(limit), chunks)
    }

    fn all_of(lines: &mut Lines, chunks: &[&[u8]]) -> Vec<Seen> {
        let mut found = Vec::new();
        for chunk in chunks {
            lines.room().extend_from_slice(chunk);
            while let Some(line) = next(lines).unwrap() {
                found.push(line);
            }
        }
        found
    }

    fn complete(text: &'static str) -> Seen {
        Seen::Complete(Bytes::from_static(text.as_bytes()))
    }

    fn too_long(id: Option<u64>) -> Seen {
        Seen::LetGo(id, LetGo::TooLong)
    }

    #[test]
    fn a_line_for_which_there_is_no_room_is_let_go_and_the_next_one_comes_through() {
        let budget = Budget::new(200_000);
        let mut other = None;
        assert!(budget.grow(&mut other, 150_000));
        let large = format!(r#"{{"id":7,"result":"{}"}}"#, "x".repeat(100_000));
        let mut lines = Lines::new(1_000_000, &budget);
        let (one, two) = large.as_bytes().split_at(70_000);
        let seen = all_of(&mut lines, &[one, two, b"\nok\n"]);
        assert_eq!(seen, [Seen::LetGo(Some(7), LetGo::NoRoom), complete("ok")]);
        drop(other);
        let seen = all_of(&mut lines, &[one, two, b"\n"]);
        assert_eq!(seen, [Seen::Complete(large.clone().into())]);
    }

    #[test]
    fn a_line_that_is_let_go_is_told_once_and_as_soon_as_it_is_known_what_it_answers() {
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
    fn the_memory_of_a_long_line_goes_with_it() {
        for limit in [LARGE / 2, 4 * LARGE] {
            let mut lines = lines(limit);
            let text = [vec![b'x'; 3 * LARGE], b"\nthe next one".to_vec()].concat();
            for chunk in text.chunks(READ_AHEAD) {
                lines.room().extend_from_slice(chunk);
                while next(&mut lines).unwrap().is_some() {}
            }
            assert_eq!(lines.buffer, b"the next one".as_slice());
            assert!(
                lines.buffer.capacity() < LARGE,
                "{}",
                lines.buffer.capacity()
            );
        }
    }

    #[test]
    fn a_long_line_comes_out_whole_and_so_does_the_next() {
        for length in [
            LARGE - READ_AHEAD - 1,
            LARGE - 1,
            LARGE,
            LARGE + 1,
            LARGE + READ_AHEAD,
            5 * LARGE / 2,
        ] {
            comes_out_whole(length);
        }
    }

    fn comes_out_whole(length: usize) {
        let digits = b"0123456789".iter().copied().cycle();
        let long: Vec<u8> = digits.take(length).collect();
        let text = [&long, b"\nnext\n".as_slice(), &long].concat();
        let mut lines = Lines::new(3 * LARGE, &Budget::new(8 * LARGE));
        let chunks: Vec<_> = text.chunks(READ_AHEAD - 1).collect();
        let seen = all_of(&mut lines, &chunks);
        assert_eq!(
            seen,
            [Seen::Complete(long.clone().into()), complete("next")]
        );
        assert_eq!(lines.remainder(), Some(long.into()));
    }

    #[test]
    fn lines_come_out_whole_however_they_were_cut() {
        assert_eq!(
            all(100, &[b"a", b"b\nc", b"\n\nd"]),
            [complete("ab"), complete("c"), complete("")]
        );
    }

    #[test]
    fn a_line_of_exactly_the_limit_passes_and_one_more_byte_does_not() {
        assert_eq!(all(3, &[b"abc\n"]), [complete("abc")]);
        assert_eq!(all(3, &[b"abcd\nx\n"]), [too_long(None), complete("x")]);
    }

    #[test]
    fn an_overlong_answer_is_known_by_its_id_wherever_the_id_stands() {
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
    fn an_overlong_request_of_the_server_names_no_request_of_ours() {
        let text = br#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":"aaaaaa"}}"#;
        assert_eq!(all(30, &[text, b"\n"]), [too_long(None)]);
    }

    #[test]
    fn a_stream_that_never_ends_a_line_is_given_up() {
        let mut lines = lines(10);
        let mut outcome = Ok(None);
        for _ in 0..20 {
            lines.room().extend_from_slice(b"0123456789");
            outcome = next(&mut lines);
            if outcome.is_err() {
                break;
            }
        }
        assert_eq!(outcome, Err(Endless));
    }

    #[test]
    fn half_a_line_is_left_when_the_stream_ends() {
        let mut lines = lines(10);
        lines.room().extend_from_slice(b"a\nhalf");
        assert_eq!(next(&mut lines), Ok(Some(complete("a"))));
        assert_eq!(next(&mut lines), Ok(None));
        assert_eq!(lines.remainder().as_deref(), Some(b"half".as_slice()));
    }
}
