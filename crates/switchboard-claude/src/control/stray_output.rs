//! Keeps the last lines of stdout that are not messages, for error messages.
//!
//! Some builds of the CLI print such lines. If another program was started by mistake, all of its
//! output consists of such lines. Invariant: at most `KEPT_LINES` lines are kept, each truncated
//! and without secrets of the environment.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use switchboard::content::for_terminal;

use crate::process::SecretMask;

const KEPT_LINES: usize = 5;
const KEPT_CHARS: usize = 200;
/// How many bytes at the beginning of a line are searched for secrets. The rest of the line is
/// dropped.
const MASK_SCAN_BYTES: usize = 64 * 1024;
/// If a program writes more bytes than this to stdout before its first message, it is not the CLI.
const MAX_BYTES_BEFORE_FIRST_MESSAGE: usize = 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct StrayOutput(Mutex<StrayLines>);

#[derive(Debug, Default)]
struct StrayLines {
    lines: VecDeque<String>,
    first_message: FirstMessage,
}

#[derive(Debug)]
enum FirstMessage {
    Awaited { stray_bytes: usize },
    Seen,
}

impl Default for FirstMessage {
    fn default() -> Self {
        Self::Awaited { stray_bytes: 0 }
    }
}

impl StrayOutput {
    /// Keeps a line. Returns false if the program has written more than
    /// `MAX_BYTES_BEFORE_FIRST_MESSAGE` without a message, and therefore cannot be the CLI.
    pub(super) fn push(&self, line: &[u8], secrets: &SecretMask) -> bool {
        let mut stray = self.lock();
        if stray.lines.len() == KEPT_LINES {
            stray.lines.pop_front();
        }
        stray.lines.push_back(excerpt(line, secrets));
        match &mut stray.first_message {
            FirstMessage::Seen => true,
            FirstMessage::Awaited { stray_bytes } => {
                *stray_bytes += line.len() + 1;
                *stray_bytes <= MAX_BYTES_BEFORE_FIRST_MESSAGE
            }
        }
    }

    /// Records that the program has written a message. From then on, [`StrayOutput::push`] returns
    /// true.
    pub(super) fn mark_first_message(&self) {
        self.lock().first_message = FirstMessage::Seen;
    }

    pub(super) fn last_lines(&self) -> String {
        let lines: Vec<_> = self.lock().lines.iter().cloned().collect();
        lines.join("\n")
    }

    fn lock(&self) -> MutexGuard<'_, StrayLines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the beginning of a line, safe to print. Masks secrets before it truncates the line, so
/// that no part of a secret remains.
pub(super) fn excerpt(line: &[u8], secrets: &SecretMask) -> String {
    let beginning = line.get(..MASK_SCAN_BYTES).unwrap_or(line);
    let text = secrets.mask(&String::from_utf8_lossy(beginning));
    for_terminal(text.trim()).chars().take(KEPT_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_before_the_cut() {
        let variables = [("A_KEY".to_owned(), "sk-12345678".to_owned())];
        let secrets = SecretMask::from_env(&variables.into());
        let stray = StrayOutput::default();
        for padding in [0, KEPT_CHARS - 3] {
            let line = format!("{}sk-12345678", "x".repeat(padding));
            assert!(stray.push(line.as_bytes(), &secrets));
        }
        let lines = stray.last_lines();
        assert!(!lines.contains("sk"), "{lines}");
    }
}
