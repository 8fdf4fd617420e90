//! The lines that wait to be written to one server, in order.
//!
//! Lines of at most [`MAX_COPIED_BYTES`] are copied into one contiguous buffer, and consecutive
//! ones are written as one slice. Longer lines keep their own allocation.
//!
//! Copying has a second advantage: the allocation of a short line is freed on the thread that made
//! it. If the writer task freed the lines of a whole batch on its thread, it would overflow the
//! allocator's per-thread cache, and callers on all threads would contend for the allocator's lock.
//!
//! Invariant: `text[start..]` is the unwritten part of the short lines, in order.

use std::collections::VecDeque;
use std::io::IoSlice;

use switchboard_wire::memory_budget::{MemoryPermit, UNCOUNTED_BYTES};

/// Lines up to this size, in bytes, are copied into `text`.
const MAX_COPIED_BYTES: usize = 4 * 1024;
// A copied line is too short to be charged to the memory budget, so it has no permit to keep.
const _: () = assert!(MAX_COPIED_BYTES <= UNCOUNTED_BYTES);
/// Largest capacity of [`LineQueue::lines`] that is kept for the next batch.
const MAX_RECYCLED_LINES: usize = 64;
const MAX_RECYCLED_TEXT_BYTES: usize = 64 * 1024;
/// Maximum number of slices in one vectored write. Consecutive short lines are one slice.
const MAX_SLICES: usize = 8;

#[derive(Default)]
pub(super) struct LineQueue {
    lines: VecDeque<QueuedLine>,
    /// Whether some bytes of the first line were written.
    first_partly_written: bool,
    /// The short lines, concatenated. The part before `start` was already written.
    text: Vec<u8>,
    /// Offset of the first unwritten byte in `text`.
    start: usize,
    /// Number of unwritten bytes in all lines.
    bytes: usize,
}

struct QueuedLine {
    /// Id of the request in this line. `None` for notifications and responses.
    id: Option<u64>,
    /// Number of unwritten bytes of this line.
    remaining: usize,
    /// The line, if it is longer than [`MAX_COPIED_BYTES`]. Short lines are in [`LineQueue::text`].
    long: Option<LongLine>,
}

struct LongLine {
    line: Vec<u8>,
    /// Reserves the memory of the line in the memory budget for as long as this permit exists.
    _permit: Option<MemoryPermit>,
}

impl LineQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Number of unwritten bytes in all lines.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(&mut self, id: Option<u64>, line: Vec<u8>, permit: Option<MemoryPermit>) {
        let remaining = line.len();
        self.bytes += remaining;
        let long = if remaining > MAX_COPIED_BYTES {
            Some(LongLine {
                line,
                _permit: permit,
            })
        } else {
            self.text.extend_from_slice(&line);
            None
        };
        self.lines.push_back(QueuedLine {
            id,
            remaining,
            long,
        });
    }

    /// Removes the line of a request unless part of it was written. Returns whether it was removed.
    pub(super) fn remove_unsent(&mut self, id: u64) -> bool {
        let index = self.lines.iter().position(|line| line.id == Some(id));
        let Some(index) = index.filter(|index| *index > 0 || !self.first_partly_written) else {
            return false;
        };
        let short_before = self
            .lines
            .iter()
            .take(index)
            .filter(|line| line.long.is_none());
        let begin = self.start + short_before.map(|line| line.remaining).sum::<usize>();
        if let Some(removed) = self.lines.remove(index) {
            self.bytes -= removed.remaining;
            if removed.long.is_none() {
                self.text.drain(begin..begin + removed.remaining);
            }
        }
        if self.is_empty() {
            self.text.clear();
            self.start = 0;
        }
        true
    }

    /// Ids of the requests of which no byte was written.
    pub(super) fn unsent_requests(&self) -> impl Iterator<Item = u64> {
        let partly_written = usize::from(self.first_partly_written);
        self.lines
            .iter()
            .skip(partly_written)
            .filter_map(|line| line.id)
    }

    /// Calls `write` with the slices of the next vectored write.
    pub(super) fn with_slices<R>(&self, write: impl FnOnce(&[IoSlice<'_>]) -> R) -> R {
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let mut lines = self.lines.iter().peekable();
        let mut begin = self.start;
        let mut count = 0;
        for slice in &mut slices {
            let bytes = match lines.next() {
                Some(QueuedLine {
                    remaining,
                    long: Some(LongLine { line, .. }),
                    ..
                }) => line.get(line.len() - remaining..),
                Some(QueuedLine { remaining, .. }) => {
                    let mut end = begin + remaining;
                    while let Some(next) = lines.next_if(|next| next.long.is_none()) {
                        end += next.remaining;
                    }
                    self.text.get(std::mem::replace(&mut begin, end)..end)
                }
                None => break,
            };
            *slice = IoSlice::new(bytes.unwrap_or_default());
            count += 1;
        }
        write(slices.get(..count).unwrap_or_default())
    }

    /// Records that the first `written` bytes were written, and removes the complete lines in them.
    pub(super) fn advance(&mut self, mut written: usize) {
        self.bytes -= written;
        while let Some(first) = self.lines.front_mut() {
            let consumed = written.min(first.remaining);
            written -= consumed;
            first.remaining -= consumed;
            if first.long.is_none() {
                self.start += consumed;
            }
            if first.remaining > 0 {
                self.first_partly_written |= consumed > 0;
                return;
            }
            self.first_partly_written = false;
            self.lines.pop_front();
        }
        self.text.clear();
        self.start = 0;
    }

    /// Splits off whole lines from the front, until they hold at least `bytes` bytes.
    pub(super) fn take_front(&mut self, bytes: usize) -> Self {
        let mut front = Self {
            first_partly_written: std::mem::take(&mut self.first_partly_written),
            ..Self::default()
        };
        let mut end = self.start;
        while front.bytes < bytes
            && let Some(line) = self.lines.pop_front()
        {
            front.bytes += line.remaining;
            if line.long.is_none() {
                end += line.remaining;
            }
            front.lines.push_back(line);
        }
        self.bytes -= front.bytes;
        let text = self.text.get(self.start..end);
        front.text.extend_from_slice(text.unwrap_or_default());
        self.start = end;
        self.compact();
        front
    }

    /// Drops the written part of `text` if that part is more than half of `text`.
    fn compact(&mut self) {
        if self.start > self.text.len() / 2 {
            self.text.drain(..self.start);
            self.start = 0;
        }
    }

    /// Whether the allocations of this queue are small enough to be kept for the next batch.
    pub(super) fn is_worth_recycling(&self) -> bool {
        self.lines.capacity() <= MAX_RECYCLED_LINES
            && self.text.capacity() <= MAX_RECYCLED_TEXT_BYTES
    }
}

#[cfg(test)]
mod tests;
