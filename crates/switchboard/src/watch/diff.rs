//! What changed between two contents, in a few lines.
//!
//! Pure. Invariant: the result is short however long and however different the two are, and the work is
//! bounded: what differs too much is shown as taken away and put there.

use std::fmt::Write as _;

use super::snapshot::Content;
use crate::content::limit::fit;

/// How many lines are shown, and how many bytes of each.
const LINES: usize = 40;
const LINE_BYTES: usize = 300;
/// How many unchanged lines are shown before and after what changed.
const AROUND: usize = 2;
/// How many pairs of lines are compared to find what stayed.
const PAIRS: usize = 1 << 17;
/// Of a long line so much is shown before the place where it begins to differ, in bytes.
const LEAD: usize = 60;

/// What changed: in words, and line by line where that can be shown.
#[derive(Debug, PartialEq)]
pub(super) struct Difference {
    pub(super) summary: String,
    pub(super) diff: Option<String>,
}

pub(super) fn between(before: &Content, now: &Content) -> Difference {
    let (Some(old), Some(new)) = (&before.text, &now.text) else {
        let summary = format!(
            "{} bytes where there were {}; too long to show what changed",
            now.size, before.size
        );
        return Difference {
            summary,
            diff: None,
        };
    };
    let old: Vec<&str> = old.lines().collect();
    let new: Vec<&str> = new.lines().collect();
    let steps = compare(&old, &new);
    let count = |wanted| steps.iter().filter(|step| step.change == wanted).count();
    let (added, removed) = (count(Change::Added), count(Change::Removed));
    if added + removed == 0 {
        // What is shown of data is its size; what changed is inside.
        let summary = format!("{} bytes of other content, of the same form", now.size);
        return Difference {
            summary,
            diff: None,
        };
    }
    let lines = |count| if count == 1 { "line" } else { "lines" };
    let summary = match (added, removed) {
        (added, 0) => format!("{added} {} added", lines(added)),
        (0, removed) => format!("{removed} {} removed", lines(removed)),
        (added, removed) => format!("{added} {} added, {removed} removed", lines(added)),
    };
    Difference {
        summary,
        diff: Some(show(&steps)),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Kept,
    Removed,
    Added,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step<'a> {
    change: Change,
    line: &'a str,
    /// From where on the line differs from the one that it replaces, in bytes.
    differs_at: usize,
}

/// The shortest way from one to the other, where it can be found with bounded work.
fn compare<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Step<'a>> {
    let same = |(a, b): &(&&str, &&str)| a == b;
    let head = old.iter().zip(new).take_while(same).count();
    let (old_rest, new_rest) = (
        old.get(head..).unwrap_or(&[]),
        new.get(head..).unwrap_or(&[]),
    );
    let tail = old_rest
        .iter()
        .rev()
        .zip(new_rest.iter().rev())
        .take_while(same)
        .count();
    let (old_middle, old_tail) = old_rest.split_at(old_rest.len() - tail);
    let (new_middle, _) = new_rest.split_at(new_rest.len() - tail);
    let kept = |line: &&'a str| Step::new(Change::Kept, line);
    let mut steps: Vec<Step<'a>> = old.iter().take(head).map(kept).collect();
    if old_middle.len().saturating_mul(new_middle.len()) <= PAIRS {
        align(old_middle, new_middle, &mut steps);
    } else {
        replace(old_middle, new_middle, &mut steps);
    }
    steps.extend(old_tail.iter().map(kept));
    steps
}

impl<'a> Step<'a> {
    fn new(change: Change, line: &'a str) -> Self {
        Self {
            change,
            line,
            differs_at: 0,
        }
    }
}

/// All of the one goes, all of the other comes.
fn replace<'a>(old: &[&'a str], new: &[&'a str], steps: &mut Vec<Step<'a>>) {
    let differ = |at: usize| match (old.get(at), new.get(at)) {
        (Some(old), Some(new)) => {
            let pairs = old.bytes().zip(new.bytes());
            pairs.take_while(|(a, b)| a == b).count()
        }
        _ => 0,
    };
    for (change, lines) in [(Change::Removed, old), (Change::Added, new)] {
        let lines = lines.iter().enumerate();
        steps.extend(lines.map(|(at, line)| Step {
            differs_at: differ(at),
            ..Step::new(change, line)
        }));
    }
}

/// Keeps as many lines as stand in both in the same order.
fn align<'a>(old: &[&'a str], new: &[&'a str], steps: &mut Vec<Step<'a>>) {
    let width = new.len() + 1;
    // How many lines can be kept from here on, for every pair of places.
    let mut kept = vec![0_u32; (old.len() + 1) * width];
    let at = |i: usize, j: usize| i * width + j;
    let read = |kept: &[u32], i, j| kept.get(at(i, j)).copied().unwrap_or_default();
    for (i, a) in old.iter().enumerate().rev() {
        for (j, b) in new.iter().enumerate().rev() {
            let most = if a == b {
                read(&kept, i + 1, j + 1) + 1
            } else {
                read(&kept, i + 1, j).max(read(&kept, i, j + 1))
            };
            if let Some(place) = kept.get_mut(at(i, j)) {
                *place = most;
            }
        }
    }
    let (mut i, mut j) = (0, 0);
    // Where the lines begin that have not been kept.
    let (mut gone, mut come) = (0, 0);
    while let (Some(a), Some(b)) = (old.get(i), new.get(j)) {
        if a == b {
            flush(old, new, (gone, i), (come, j), steps);
            steps.push(Step::new(Change::Kept, a));
            (i, j) = (i + 1, j + 1);
            (gone, come) = (i, j);
        } else if read(&kept, i + 1, j) >= read(&kept, i, j + 1) {
            i += 1;
        } else {
            j += 1;
        }
    }
    flush(old, new, (gone, old.len()), (come, new.len()), steps);
}

fn flush<'a>(
    old: &[&'a str],
    new: &[&'a str],
    gone: (usize, usize),
    come: (usize, usize),
    steps: &mut Vec<Step<'a>>,
) {
    let part = |lines: &'_ [&'a str], (from, to): (usize, usize)| {
        lines.get(from..to).unwrap_or(&[]).to_vec()
    };
    replace(&part(old, gone), &part(new, come), steps);
}

/// The lines that changed, with a few around them.
fn show(steps: &[Step<'_>]) -> String {
    let near = |at: usize| {
        let from = at.saturating_sub(AROUND);
        let around = steps.iter().skip(from).take(at - from + AROUND + 1);
        around.clone().any(|step| step.change != Change::Kept)
    };
    let mut text = String::new();
    let (mut shown, mut is_gap) = (0, false);
    for (at, step) in steps.iter().enumerate() {
        if !near(at) {
            is_gap = true;
            continue;
        }
        if shown == LINES {
            let rest = steps.iter().skip(at);
            let left = rest.filter(|step| step.change != Change::Kept).count();
            if left > 0 {
                let _ = writeln!(text, "… {left} more lines changed");
            }
            break;
        }
        if std::mem::take(&mut is_gap) && shown > 0 {
            text.push_str("…\n");
        }
        let sign = match step.change {
            Change::Kept => ' ',
            Change::Removed => '-',
            Change::Added => '+',
        };
        let _ = writeln!(text, "{sign}{}", shortened(step));
        shown += 1;
    }
    text.truncate(text.trim_end_matches('\n').len());
    text
}

/// A line as far as it can be shown, from where it becomes interesting.
fn shortened(step: &Step<'_>) -> String {
    let line = step.line;
    if line.len() <= LINE_BYTES {
        return line.to_owned();
    }
    let from = step.differs_at.saturating_sub(LEAD);
    let from = (0..=from).rev().find(|at| line.is_char_boundary(*at));
    let from = from.unwrap_or_default();
    let rest = line.get(from..).unwrap_or_default();
    let part = fit(rest, LINE_BYTES);
    let before = if from > 0 { "…" } else { "" };
    let after = if part.len() < rest.len() { "…" } else { "" };
    format!("{before}{part}{after}")
}
