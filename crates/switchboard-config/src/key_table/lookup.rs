//! What a key in a server entry means: whether it is known, which one a misspelt one stands for, whether
//! it holds secrets.
//!
//! The known keys are those of the [`reference`](crate::key_table). Invariant: a value under a key whose
//! meaning is not known counts as secret.

use super::{Display, ENTRY_KEYS, entry_key};
use crate::nearest::nearest;

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
