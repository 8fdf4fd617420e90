//! Looks up keys of a server entry: whether a key is known, the nearest known key, and whether the
//! value of a key is secret.
//!
//! Invariant: the value of an unknown key is treated as secret, unless the nearest known key has
//! values that are not secret.

use super::{ENTRY_KEYS, Masking, entry_key};
use crate::nearest::nearest;

/// Keys of other clients, each with the known key to use instead. Most are spelled too differently
/// for [`nearest`].
const FOREIGN_KEY_NAMES: [(&str, &str); 6] = [
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

/// The known key that an unknown key most likely means.
pub(crate) fn nearest_key(key: &str) -> Option<&'static str> {
    let renamed = FOREIGN_KEY_NAMES.iter().find(|(theirs, _)| *theirs == key);
    renamed.map(|(_, ours)| *ours).or_else(|| {
        let known: Vec<_> = ENTRY_KEYS.iter().map(|key| key.name).collect();
        nearest(key, &known)
    })
}

/// Returns true if literal values of this key are masked in snippets and in a
/// [`MaskedEntry`](crate::MaskedEntry).
pub(crate) fn is_secret_key(key: &str) -> bool {
    let known = entry_key(key).or_else(|| entry_key(nearest_key(key)?));
    known.is_none_or(|key| key.masking == Masking::Masked)
}
