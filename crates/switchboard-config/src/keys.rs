//! What a key in a server entry means: whether it is known, which one a misspelt one stands for, whether
//! it holds secrets.
//!
//! The known keys are those of the [`reference`](crate::reference). Invariant: a value under a key whose
//! meaning is not known counts as secret.

use crate::reference::{Display, ENTRY_KEYS, entry_key};

/// What other programs call the same things, too far from our names to be taken for a slip.
const FOREIGN: [(&str, &str); 6] = [
    ("environment", "env"),
    ("httpUrl", "url"),
    ("serverUrl", "url"),
    ("transport", "type"),
    ("enabled", "disabled"),
    ("workingDirectory", "cwd"),
];

pub(crate) fn is_known(key: &str) -> bool {
    entry_key(key).is_some()
}

/// The known key that an unknown one most likely stands for.
pub(crate) fn suggest(key: &str) -> Option<&'static str> {
    let foreign = FOREIGN.iter().find(|(theirs, _)| *theirs == key);
    foreign.map(|(_, ours)| *ours).or_else(|| {
        let known: Vec<_> = ENTRY_KEYS.iter().map(|key| key.name).collect();
        nearest(key, &known)
    })
}

/// Whether literal values under this key are kept out of everything that is shown.
pub(crate) fn holds_secrets(key: &str) -> bool {
    let meant = entry_key(key).or_else(|| entry_key(suggest(key)?));
    meant.is_none_or(|key| key.display == Display::Masked)
}

/// The word nearest to `word`, if one is near enough to be meant.
pub fn nearest<'a>(word: &str, words: &[&'a str]) -> Option<&'a str> {
    let length = word.chars().count();
    let allowed = match length {
        0..=3 => 1,
        4..=6 => 2,
        _ => 3,
    };
    let mut row = Vec::new();
    words
        .iter()
        .filter(|candidate| candidate.len().abs_diff(length) <= allowed)
        .map(|candidate| (distance(word, candidate, &mut row), *candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many letters must be inserted, removed or replaced; upper and lower case count as one. `row` is
/// room to work in: files may hold many keys that nobody knows.
fn distance(from: &str, to: &str, row: &mut Vec<usize>) -> usize {
    row.clear();
    row.extend(0..=to.chars().count());
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        let mut cells = row.iter_mut();
        if let Some(first) = cells.next() {
            *first = left;
        }
        for (b, cell) in to.chars().zip(cells) {
            let replaced = diagonal + usize::from(!a.eq_ignore_ascii_case(&b));
            left = replaced.min(left + 1).min(*cell + 1);
            diagonal = std::mem::replace(cell, left);
        }
    }
    row.last().copied().unwrap_or_default()
}
