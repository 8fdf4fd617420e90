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

/// What of a variable of the environment is to be hidden when a server that was given it repeats it: all
/// of a value whose name or looks give it away, and what looks like a secret inside of it.
pub fn secrets_in_variable(name: &str, value: &str) -> Vec<Secret> {
    // They hold the folder one is in.
    let is_folder = matches!(name, "PWD" | "OLDPWD");
    let is_secret = is_named_like_a_secret(name) || looks::is_telling(name);
    if is_folder || looks::is_harmless(value) {
        return Vec::new();
    }
    let parts = looks::in_text(value);
    let whole = (is_secret || !parts.is_empty()).then_some(value);
    let parts = parts.into_iter().filter_map(|part| value.get(part));
    whole.into_iter().chain(parts).map(Secret::from).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_hidden_by_name_or_looks_and_harmless_ones_are_not() {
        let hidden = |name, value| {
            let secrets = secrets_in_variable(name, value);
            secrets.iter().any(|secret| secret.expose() == value)
        };
        for (name, value) in [
            ("AWS_SECRET_ACCESS_KEY", "correct-horse-battery"),
            ("npm_config__authToken", "correct-horse-battery"),
            ("SENTRY_DSN", "correct-horse-battery"),
            ("WHATEVER", "ghp_0123456789abcdefghij"),
            ("https_proxy", "http://me:correct-horse@proxy:8080"),
        ] {
            assert!(hidden(name, value), "{name}");
        }
        for (name, value) in [
            ("PATH", "/usr/local/bin:/usr/bin"),
            ("HOME", "/home/somebody"),
            ("PWD", "/workspace"),
            ("LANG", "en_GB.UTF-8"),
            ("SSH_AUTH_SOCK", "/run/user/1000/keyring/ssh"),
            ("npm_config_registry", "https://registry.npmjs.org/"),
        ] {
            assert!(!hidden(name, value), "{name}");
        }
    }
}
