//! Strings that must not be printed.
//!
//! Invariant: neither `Debug` nor `Serialize` ever shows the text; only [`Secret::expose`] does.

pub(crate) mod looks;

use std::fmt;

use serde::{Serialize, Serializer};

/// What stands in the place of a hidden value, wherever one is shown.
pub(crate) const MASK: &str = "***";

/// The value of an environment variable or a header: usable, but never shown.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Secret(String);

impl Secret {
    /// Hides `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that hands it to the server.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}

/// The parts of a server's arguments that look like secrets, whoever wrote them there.
pub fn secrets_in_arguments(arguments: &[String]) -> Vec<Secret> {
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    let parts = looks::in_arguments(&words);
    let texts = words.iter().zip(parts).flat_map(|(word, parts)| {
        let texts = parts.into_iter().filter_map(|part| word.get(part));
        texts.map(Secret::from).collect::<Vec<_>>()
    });
    texts.collect()
}
