//! Lines of the CLI that are no messages: some builds print them, and so does whatever else was
//! started in its place. The last ones are kept for error messages.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use switchboard::content::for_terminal;

use crate::program::Secrets;

const KEPT_LINES: usize = 5;
const KEPT_CHARS: usize = 200;
/// How much of a line is searched for secrets, in bytes.
const LOOKED_AT: usize = 64 * 1024;
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
    pub(super) fn keep(&self, line: &[u8], secrets: &Secrets) -> bool {
        let mut kept = self.lock();
        if kept.lines.len() == KEPT_LINES {
            kept.lines.pop_front();
        }
        kept.lines.push_back(excerpt(line, secrets));
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

/// The beginning of a line, safe to print. Secrets are looked for before it is cut.
pub(super) fn excerpt(line: &[u8], secrets: &Secrets) -> String {
    let beginning = line.get(..LOOKED_AT).unwrap_or(line);
    let text = secrets.masked(&String::from_utf8_lossy(beginning));
    for_terminal(text.trim()).chars().take(KEPT_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_kept_and_none_is_cut_in_two() {
        let variables = [("A_KEY".to_owned(), "sk-12345678".to_owned())];
        let secrets = Secrets::of(&variables.into());
        let noise = Noise::default();
        for before in [0, KEPT_CHARS - 3] {
            let line = format!("{}sk-12345678", "x".repeat(before));
            assert!(noise.keep(line.as_bytes(), &secrets));
        }
        let kept = noise.last_lines();
        assert!(!kept.contains("sk"), "{kept}");
    }
}
