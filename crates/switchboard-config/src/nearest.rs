//! Finds the word closest to a misspelt one, for "did you mean" hints.

/// Returns the candidate with the smallest edit distance to `word`, unless all of them are too far
/// away to be a typo.
///
/// Words of up to 3 characters may differ by 1 edit, up to 6 characters by 2, longer ones by 3.
pub fn nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let length = word.chars().count();
    let allowed = match length {
        0..=3 => 1,
        4..=6 => 2,
        _ => 3,
    };
    let mut row = Vec::new();
    candidates
        .iter()
        .filter(|candidate| candidate.len().abs_diff(length) <= allowed)
        .map(|candidate| (distance(word, candidate, &mut row), *candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance, ignoring ASCII case. The caller passes `row` as scratch space to avoid one
/// allocation per comparison: a file may contain many unknown keys.
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
