//! Lines of the CLI that are no messages: some builds print them, and so does whatever else was
//! started in its place. The last ones are kept for error messages.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use switchboard::content::for_terminal;

const KEPT_LINES: usize = 5;
const KEPT_CHARS: usize = 200;
/// What prints this much before its first message is not the CLI.
const MOST_BEFORE: usize = 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Noise(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<String>,
    /// Bytes before the first message; `None` when there was one.
    before: Before,
}

#[derive(Debug)]
enum Before {
    Bytes(usize),
    Over,
}

impl Default for Before {
    fn default() -> Self {
        Self::Bytes(0)
    }
}

impl Noise {
    /// Keeps a line. False when there is so much of it that no message can be hoped for.
    pub(super) fn keep(&self, line: &[u8]) -> bool {
        let mut kept = self.lock();
        if kept.lines.len() == KEPT_LINES {
            kept.lines.pop_front();
        }
        kept.lines.push_back(excerpt(line));
        match &mut kept.before {
            Before::Over => true,
            Before::Bytes(bytes) => {
                *bytes += line.len() + 1;
                *bytes <= MOST_BEFORE
            }
        }
    }

    /// A message came: this is the CLI.
    pub(super) fn is_over(&self) {
        self.lock().before = Before::Over;
    }

    pub(super) fn last_lines(&self) -> String {
        let lines: Vec<_> = self.lock().lines.iter().cloned().collect();
        lines.join("\n")
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The beginning of a line, safe to print.
pub(super) fn excerpt(line: &[u8]) -> String {
    let beginning = line.get(..KEPT_CHARS * 4).unwrap_or(line);
    let text = String::from_utf8_lossy(beginning);
    for_terminal(text.trim()).chars().take(KEPT_CHARS).collect()
}
