//! Describes the difference between two snapshots: a summary, and at most [`MAX_LINES`] lines.
//!
//! Pure. Invariant: the time is bounded by the size of the texts plus [`MAX_COMPARISONS`]. If the
//! changed region needs more comparisons, all its old lines are shown as removed and all its new
//! lines as added.

use std::fmt::Write as _;

use similar::algorithms::{Capture, Replace, diff_slices};
use similar::{Algorithm, DiffOp, DiffTag};
use switchboard_wire::text::fit;

use super::snapshot::Snapshot;

/// Maximum number of lines of a diff, without the lines that mark a gap (`…`) and without the last
/// line, which counts the changed lines that are not shown.
const MAX_LINES: usize = 40;
/// Longer lines are cut to this many bytes.
const MAX_LINE_BYTES: usize = 300;
/// How many unchanged lines are shown before and after a change.
const CONTEXT_LINES: usize = 2;
/// Maximum number of comparisons of two lines. The changed region needs old lines × new lines.
const MAX_COMPARISONS: usize = 1 << 17;
/// How many bytes of a line that is cut are shown before its first difference.
const CONTEXT_BYTES: usize = 60;

/// A one-line summary of a change. Includes the changed lines if both snapshots have a text and the
/// texts differ.
#[derive(Debug, PartialEq)]
pub(super) struct ContentDiff {
    pub(super) summary: String,
    pub(super) diff: Option<String>,
}

impl ContentDiff {
    pub(super) fn summary_only(summary: String) -> Self {
        Self {
            summary,
            diff: None,
        }
    }

    pub(super) fn new(before: &Snapshot, now: &Snapshot) -> Self {
        let (Some(old), Some(new)) = (&before.text, &now.text) else {
            return Self::summary_only(format!(
                "{} bytes, before {} bytes; too large to show the differences",
                now.size, before.size
            ));
        };
        let old: Vec<&str> = old.lines().collect();
        let new: Vec<&str> = new.lines().collect();
        let lines = diff_lines(&old, &new);
        let count = |change| lines.iter().filter(|line| line.change == change).count();
        let (added, removed) = (count(LineChange::Added), count(LineChange::Removed));
        if added + removed == 0 {
            // The hashes differ, but the texts are equal, because a text contains only the type and
            // size of binary data.
            let summary = format!("the binary data changed ({} bytes)", now.size);
            return Self::summary_only(summary);
        }
        let noun = |count| if count == 1 { "line" } else { "lines" };
        let summary = match (added, removed) {
            (added, 0) => format!("{added} {} added", noun(added)),
            (0, removed) => format!("{removed} {} removed", noun(removed)),
            (added, removed) => format!("{added} {} added, {removed} removed", noun(added)),
        };
        Self {
            summary,
            diff: Some(render(&lines)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineChange {
    Kept,
    Removed,
    Added,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DiffLine<'a> {
    change: LineChange,
    text: &'a str,
    /// The byte offset of the first difference between a removed line and the added line that
    /// replaces it, otherwise 0.
    differs_at: usize,
}

impl<'a> DiffLine<'a> {
    fn new(change: LineChange, text: &'a str) -> Self {
        Self {
            change,
            text,
            differs_at: 0,
        }
    }
}

fn diff_lines<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<DiffLine<'a>> {
    let kept = |line: &&'a str| DiffLine::new(LineChange::Kept, line);
    let (head, tail) = count_common_lines(old, new);
    let old_middle = old.get(head..old.len() - tail).unwrap_or_default();
    let new_middle = new.get(head..new.len() - tail).unwrap_or_default();
    let mut lines: Vec<_> = old.iter().take(head).map(kept).collect();
    if old_middle.len().saturating_mul(new_middle.len()) > MAX_COMPARISONS {
        push_replaced(old_middle, new_middle, &mut lines);
    } else {
        for op in find_diff_ops(old_middle, new_middle) {
            let old = old_middle.get(op.old_range()).unwrap_or_default();
            let new = new_middle.get(op.new_range()).unwrap_or_default();
            match op.tag() {
                DiffTag::Equal => lines.extend(old.iter().map(kept)),
                _ => push_replaced(old, new, &mut lines),
            }
        }
    }
    lines.extend(old.iter().skip(old.len() - tail).map(kept));
    lines
}

/// Compares two slices of lines in time proportional to the product of their lengths.
///
/// `similar::capture_diff_slices` has no such bound: Myers' algorithm and the hook `Compact` take
/// quadratic time even if one slice has only one line.
fn find_diff_ops(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let mut hook = Replace::new(Capture::new());
    let Ok(()) = diff_slices(Algorithm::Lcs, &mut hook, old, new);
    hook.into_inner().into_ops()
}

/// Counts the lines at the start and at the end that are equal in both slices.
fn count_common_lines(old: &[&str], new: &[&str]) -> (usize, usize) {
    let is_equal = |(a, b): &(&&str, &&str)| a == b;
    let head = old.iter().zip(new).take_while(is_equal).count();
    let rest = old.iter().skip(head).rev().zip(new.iter().skip(head).rev());
    (head, rest.take_while(is_equal).count())
}

/// Appends the old lines as removed and the new lines as added.
fn push_replaced<'a>(old: &[&'a str], new: &[&'a str], lines: &mut Vec<DiffLine<'a>>) {
    let differs_at = |index: usize| match (old.get(index), new.get(index)) {
        (Some(old), Some(new)) => {
            let pairs = old.bytes().zip(new.bytes());
            pairs.take_while(|(a, b)| a == b).count()
        }
        _ => 0,
    };
    for (change, texts) in [(LineChange::Removed, old), (LineChange::Added, new)] {
        let texts = texts.iter().enumerate();
        lines.extend(texts.map(|(index, text)| DiffLine {
            differs_at: differs_at(index),
            ..DiffLine::new(change, text)
        }));
    }
}

/// Formats the changed lines and up to [`CONTEXT_LINES`] lines before and after each change.
fn render(lines: &[DiffLine<'_>]) -> String {
    let is_near_change = |index: usize| {
        let from = index.saturating_sub(CONTEXT_LINES);
        let nearby = lines
            .iter()
            .skip(from)
            .take(index - from + CONTEXT_LINES + 1);
        nearby.clone().any(|line| line.change != LineChange::Kept)
    };
    let mut text = String::new();
    let (mut shown, mut is_gap) = (0, false);
    for (index, line) in lines.iter().enumerate() {
        if !is_near_change(index) {
            is_gap = true;
            continue;
        }
        if shown == MAX_LINES {
            let rest = lines.iter().skip(index);
            let more = rest.filter(|line| line.change != LineChange::Kept).count();
            if more > 0 {
                let _ = writeln!(text, "… {more} more lines changed");
            }
            break;
        }
        if std::mem::take(&mut is_gap) && shown > 0 {
            text.push_str("…\n");
        }
        let sign = match line.change {
            LineChange::Kept => ' ',
            LineChange::Removed => '-',
            LineChange::Added => '+',
        };
        let _ = writeln!(text, "{sign}{}", shorten(line));
        shown += 1;
    }
    text.truncate(text.trim_end_matches('\n').len());
    text
}

/// Cuts a line above [`MAX_LINE_BYTES`] to the part around its first difference.
fn shorten(line: &DiffLine<'_>) -> String {
    let text = line.text;
    if text.len() <= MAX_LINE_BYTES {
        return text.to_owned();
    }
    let from = line.differs_at.saturating_sub(CONTEXT_BYTES);
    let from = (0..=from).rev().find(|at| text.is_char_boundary(*at));
    let from = from.unwrap_or_default();
    let rest = text.get(from..).unwrap_or_default();
    let part = fit(rest, MAX_LINE_BYTES);
    let before = if from > 0 { "…" } else { "" };
    let after = if part.len() < rest.len() { "…" } else { "" };
    format!("{before}{part}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(old: &[&str], new: &[&str]) -> String {
        render(&diff_lines(old, new))
    }

    #[test]
    fn changed_lines_are_shown_with_context() {
        let old = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let new = ["a", "B", "c", "d", "e", "f", "g", "x", "h"];
        assert_eq!(diff(&old, &new), " a\n-b\n+B\n c\n d\n…\n f\n g\n+x\n h");
    }

    #[test]
    fn few_lines_against_many_take_bounded_time() {
        let added: Vec<String> = (1..MAX_COMPARISONS / 2).map(|n| n.to_string()).collect();
        let mut new: Vec<&str> = added.iter().map(String::as_str).collect();
        new.insert(new.len() / 2, "kept");
        for old in [["kept", "removed"], ["removed", "removed"]] {
            let lines = diff_lines(&old, &new);
            assert!(lines.len() > new.len());
            let lines = diff_lines(&new, &old);
            assert!(lines.len() > new.len());
        }
    }

    #[test]
    fn large_regions_are_replaced_as_a_whole() {
        let old = ["same", "old"].repeat(500);
        let new = ["new", "same"].repeat(500);
        let lines = diff_lines(&old, &new);
        assert_eq!(lines.len(), old.len() + new.len());
    }
}
