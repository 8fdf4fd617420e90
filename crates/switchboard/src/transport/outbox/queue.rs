//! Lines that wait to be written, in their order.
//!
//! Short lines are copied behind one another and written as one piece. The memory in which a caller
//! made a line then goes back at once, on the thread that it came from: freed by whoever writes, a
//! whole company of lines is more than allocators keep at hand for a thread, and callers on other
//! threads had to wait for it. Long lines are kept as they came.
//!
//! Invariant: `text` from `start` on is what is left of the short lines, in their order.

use std::collections::VecDeque;
use std::io::IoSlice;

use crate::budget::{FREE, Held};

/// Lines up to this size, in bytes, are short.
const SHORT: usize = 4 * 1024;
// So short ones hold nothing of the budget.
const _: () = assert!(SHORT <= FREE);
/// How many lines, and how many bytes of short ones, an empty queue is kept for.
const KEPT_LINES: usize = 64;
const KEPT_TEXT: usize = 64 * 1024;
/// How many pieces are written at once at most. Short lines in a row are one.
const PIECES: usize = 8;

#[derive(Default)]
pub(super) struct Queue {
    lines: VecDeque<Queued>,
    /// A part of the first line was written.
    is_begun: bool,
    text: Vec<u8>,
    start: usize,
    /// What is left of all lines.
    bytes: usize,
}

struct Queued {
    /// The request this is; notifications and answers have none.
    id: Option<u64>,
    /// How much of it is left to be written.
    left: usize,
    long: Option<Long>,
}

struct Long {
    line: Vec<u8>,
    /// Its share of the budget.
    _held: Option<Held>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// How many lines there are.
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// How many bytes are left to be written.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the first line was begun, and has to be finished before anything else is written.
    pub(super) fn is_begun(&self) -> bool {
        self.is_begun
    }

    pub(super) fn push(&mut self, id: Option<u64>, line: Vec<u8>, held: Option<Held>) {
        let left = line.len();
        self.bytes += left;
        let long = if left > SHORT {
            Some(Long { line, _held: held })
        } else {
            self.text.extend_from_slice(&line);
            None
        };
        self.lines.push_back(Queued { id, left, long });
    }

    /// Takes a request out, unless a part of it was written.
    pub(super) fn withdraw(&mut self, id: u64) -> bool {
        let place = self.lines.iter().position(|queued| queued.id == Some(id));
        let Some(place) = place.filter(|place| *place > 0 || !self.is_begun) else {
            return false;
        };
        let short_before = self.lines.iter().take(place).filter(|it| it.long.is_none());
        let begin = self.start + short_before.map(|queued| queued.left).sum::<usize>();
        if let Some(queued) = self.lines.remove(place) {
            self.bytes -= queued.left;
            if queued.long.is_none() {
                self.text.drain(begin..begin + queued.left);
            }
        }
        if self.is_empty() {
            self.text.clear();
            self.start = 0;
        }
        true
    }

    /// The requests among the lines that were not begun.
    pub(super) fn not_begun(&self) -> impl Iterator<Item = u64> {
        let begun = usize::from(self.is_begun);
        self.lines.iter().skip(begun).filter_map(|queued| queued.id)
    }

    /// What is to be written next, handed to `write`, which says how much of it was taken.
    pub(super) fn offer<R>(&self, write: impl FnOnce(&[IoSlice<'_>]) -> R) -> R {
        let mut slices = [IoSlice::new(&[]); PIECES];
        let mut lines = self.lines.iter().peekable();
        let mut begin = self.start;
        let mut count = 0;
        for slice in &mut slices {
            let piece = match lines.next() {
                Some(Queued {
                    left,
                    long: Some(Long { line, .. }),
                    ..
                }) => line.get(line.len() - left..),
                Some(Queued { left, .. }) => {
                    let mut end = begin + left;
                    while let Some(next) = lines.next_if(|next| next.long.is_none()) {
                        end += next.left;
                    }
                    self.text.get(std::mem::replace(&mut begin, end)..end)
                }
                None => break,
            };
            *slice = IoSlice::new(piece.unwrap_or_default());
            count += 1;
        }
        write(slices.get(..count).unwrap_or_default())
    }

    /// Lets go of what was written.
    pub(super) fn wrote(&mut self, mut written: usize) {
        self.bytes -= written;
        while let Some(first) = self.lines.front_mut() {
            let taken = written.min(first.left);
            written -= taken;
            first.left -= taken;
            if first.long.is_none() {
                self.start += taken;
            }
            if first.left > 0 {
                self.is_begun |= taken > 0;
                return;
            }
            self.is_begun = false;
            self.lines.pop_front();
        }
        self.text.clear();
        self.start = 0;
    }

    /// Takes the first lines, of so many bytes together or a little more.
    pub(super) fn take_front(&mut self, bytes: usize) -> Self {
        let mut front = Self {
            is_begun: std::mem::take(&mut self.is_begun),
            ..Self::default()
        };
        let mut end = self.start;
        while front.bytes < bytes
            && let Some(queued) = self.lines.pop_front()
        {
            front.bytes += queued.left;
            if queued.long.is_none() {
                end += queued.left;
            }
            front.lines.push_back(queued);
        }
        self.bytes -= front.bytes;
        let text = self.text.get(self.start..end);
        front.text.extend_from_slice(text.unwrap_or_default());
        self.start = end;
        self.tidy();
        front
    }

    /// Puts lines behind these, and leaves none.
    pub(super) fn append(&mut self, others: &mut Self) {
        self.tidy();
        self.lines.append(&mut others.lines);
        let text = others.text.get(others.start..).unwrap_or_default();
        self.text.extend_from_slice(text);
        self.bytes += std::mem::take(&mut others.bytes);
        others.text.clear();
        others.start = 0;
    }

    /// Gives up the text that was written, once it is more than what is left.
    fn tidy(&mut self) {
        if self.start > self.text.len() / 2 {
            self.text.drain(..self.start);
            self.start = 0;
        }
    }

    /// Whether its memory is worth keeping for later lines.
    pub(super) fn is_handy(&self) -> bool {
        self.lines.capacity() <= KEPT_LINES && self.text.capacity() <= KEPT_TEXT
    }
}

#[cfg(test)]
mod tests;
