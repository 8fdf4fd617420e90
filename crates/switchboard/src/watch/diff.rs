//! Describes the difference between two snapshots in few lines.
//!
//! Pure. Invariants: the description is short for any input, and the work is bounded. Regions that
//! are too large to compare are shown as removed and added.

use std::fmt::Write as _;

use switchboard_wire::text::fit;

use similar::{Algorithm, DiffTag, capture_diff_slices};

use super::snapshot::Snapshot;

/// How many lines are shown.
const MAX_LINES: usize = 40;
/// How many bytes of a line are shown.
const MAX_LINE_BYTES: usize = 300;
/// How many unchanged lines are shown before and after a change.
const CONTEXT_LINES: usize = 2;
/// The largest product of old and new lines that is compared line by line.
const MAX_COMPARISONS: usize = 1 << 17;
/// How many bytes of a long line are shown before its first difference.
const LINE_LEAD_BYTES: usize = 60;

/// A one-line summary, and the changed lines if both texts are known.
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
        let lines = compare(&old, &new);
        let count = |change| lines.iter().filter(|line| line.change == change).count();
        let (added, removed) = (count(LineChange::Added), count(LineChange::Removed));
        if added + removed == 0 {
            // The text shows only the size of binary data. The data itself changed.
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
            diff: Some(show(&lines)),
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
    /// The offset in bytes of the first difference to the line that replaces this one.
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

fn compare<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<DiffLine<'a>> {
    let kept = |line: &&'a str| DiffLine::new(LineChange::Kept, line);
    let (head, tail) = common_ends(old, new);
    let old_middle = old.get(head..old.len() - tail).unwrap_or_default();
    let new_middle = new.get(head..new.len() - tail).unwrap_or_default();
    let mut lines: Vec<_> = old.iter().take(head).map(kept).collect();
    if old_middle.len().saturating_mul(new_middle.len()) > MAX_COMPARISONS {
        push_replaced(old_middle, new_middle, &mut lines);
    } else {
        for op in capture_diff_slices(Algorithm::Myers, old_middle, new_middle) {
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

/// How many lines at the start and at the end are equal.
fn common_ends(old: &[&str], new: &[&str]) -> (usize, usize) {
    let is_equal = |(a, b): &(&&str, &&str)| a == b;
    let head = old.iter().zip(new).take_while(is_equal).count();
    let rest = old.iter().skip(head).rev().zip(new.iter().skip(head).rev());
    (head, rest.take_while(is_equal).count())
}

/// Adds the old lines as removed and the new ones as added.
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

/// The changed lines with their context.
fn show(lines: &[DiffLine<'_>]) -> String {
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

/// The part of a long line around its first difference.
fn shorten(line: &DiffLine<'_>) -> String {
    let text = line.text;
    if text.len() <= MAX_LINE_BYTES {
        return text.to_owned();
    }
    let from = line.differs_at.saturating_sub(LINE_LEAD_BYTES);
    let from = (0..=from).rev().find(|at| text.is_char_boundary(*at));
    let from = from.unwrap_or_default();
    let rest = text.get(from..).unwrap_or_default();
    let part = fit(rest, MAX_LINE_BYTES);
    let before = if from > 0 { "…" } else { "" };
    let after = if part.len() < rest.len() { "…" } else { "" };
    format!("{before}{part}{after}")
}
