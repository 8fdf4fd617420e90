//! Strings that must not be printed.
//!
//! Invariant: neither `Debug` nor `Serialize` ever shows the text; only [`Secret::expose`] does.

pub(crate) mod looks;

use std::fmt;

use serde::{Serialize, Serializer};

/// What stands in the place of a hidden value, wherever one is shown.
pub(crate) const MASK: &str = "***";

/// Words at the end of the name of a variable or a header that holds a secret.
const SECRET_ENDINGS: [&str; 13] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "key",
    "pat",
    "credentials",
    "authorization",
    "cookie",
    "auth",
    "dsn",
    "bearer",
];

/// Whether the name of a variable or a header gives its value away as a secret.
pub(crate) fn is_named_like_a_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_ENDINGS.iter().any(|ending| {
        let before = name.strip_suffix(ending);
        before.is_some_and(|before| {
            !matches!(before.chars().last(), Some('a'..='z')) || is_joined(before, ending)
        })
    })
}

/// `apikey`, `accesstoken`: words that are written together.
fn is_joined(before: &str, ending: &str) -> bool {
    match ending {
        "key" => ["api", "access", "private", "auth"]
            .iter()
            .any(|word| before.ends_with(word)),
        "token" | "secret" | "password" => true,
        _ => false,
    }
}

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
