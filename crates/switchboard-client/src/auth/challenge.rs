//! What a server that refuses a request wants instead: its `WWW-Authenticate` headers.
//!
//! Pure. What servers write there is often not quite right, so whatever can be understood is taken
//! and the rest is left out. Invariant: whatever a server sends, this stays small and ends.

use std::fmt;

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;
use serde::Serialize;

use switchboard_wire::redact::Redactor;
use switchboard_wire::text::for_terminal;

/// As many challenges are kept.
const MAX_SCHEMES: usize = 8;
/// As many parameters of each.
const MAX_PARAMS: usize = 32;
/// As much of all headers together is looked at.
const MAX_BYTES: usize = 8 * 1024;
/// As much of a value is shown in words.
const SHOWN_CHARS: usize = 200;

/// What a server that refuses a request wants instead. Written by the server: not to be trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Challenge {
    schemes: Vec<ChallengeScheme>,
}

/// One way to authorize that the server knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ChallengeScheme {
    /// `Bearer`, `Basic`, …, as the server spells it.
    pub scheme: String,
    /// What it says about it: names in lower case, values without their quotes.
    pub params: Vec<(String, String)>,
}

impl ChallengeScheme {
    /// The first parameter of this name.
    pub fn param(&self, name: &str) -> Option<&str> {
        let mut named = self
            .params
            .iter()
            .filter(|(key, _)| key.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value.as_str())
    }
}

impl Challenge {
    /// Reads the values of `WWW-Authenticate` headers.
    ///
    /// ```
    /// use switchboard::auth::Challenge;
    ///
    /// let header = r#"Bearer realm="a, b", error=invalid_token, Basic"#;
    /// let challenge = Challenge::parse([header.as_bytes()]);
    /// assert_eq!(challenge.bearer().unwrap().param("realm"), Some("a, b"));
    /// assert_eq!(challenge.schemes()[1].scheme, "Basic");
    /// ```
    pub fn parse<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut challenge = Self::default();
        let mut left = MAX_BYTES;
        for value in values {
            let read = value.get(..left).unwrap_or(value);
            left -= read.len();
            let mut items = items(&String::from_utf8_lossy(read));
            if read.len() < value.len() {
                // Half an address is worse than none.
                items.pop();
            }
            // A header begins with a scheme: what has none belongs to nobody.
            let first = challenge.schemes.len();
            for item in items {
                challenge.take(&item, first);
            }
            if left == 0 {
                break;
            }
        }
        challenge.schemes.truncate(MAX_SCHEMES);
        challenge
    }

    pub(crate) fn from_headers(headers: &HeaderMap) -> Self {
        let values = headers.get_all(WWW_AUTHENTICATE);
        Self::parse(values.iter().map(http::HeaderValue::as_bytes))
    }

    /// The same without these secrets, for people to see.
    pub(crate) fn masked(mut self, secrets: &Redactor) -> Self {
        for offer in &mut self.schemes {
            offer.scheme = secrets.redact(&offer.scheme);
            for (name, value) in &mut offer.params {
                *name = secrets.redact(name);
                *value = secrets.redact(value);
            }
        }
        self
    }

    /// All that the server offers, in its order.
    pub fn schemes(&self) -> &[ChallengeScheme] {
        &self.schemes
    }

    /// What it says about bearer tokens.
    pub fn bearer(&self) -> Option<&ChallengeScheme> {
        let mut bearers = self.schemes.iter();
        bearers.find(|offer| offer.scheme.eq_ignore_ascii_case("bearer"))
    }

    fn take(&mut self, item: &str, first: usize) {
        let (head, rest) = split_word(item);
        if !is_token(head) {
            return;
        }
        if let Some(value) = rest.strip_prefix('=') {
            // A parameter of the scheme before.
            if self.schemes.len() > first
                && let Some(scheme) = self.schemes.last_mut()
            {
                scheme.take(head, value);
            }
        } else if self.schemes.len() <= MAX_SCHEMES {
            let mut scheme = ChallengeScheme {
                scheme: head.to_owned(),
                params: Vec::new(),
            };
            let (name, value) = split_word(rest);
            if let Some(value) = value.strip_prefix('=') {
                scheme.take(name, value);
            }
            self.schemes.push(scheme);
        } else if let Some(surplus) = self.schemes.last_mut() {
            // One too many, kept until the end so that its parameters are nobody else's.
            surplus.params.clear();
        }
    }
}

impl ChallengeScheme {
    fn take(&mut self, name: &str, value: &str) {
        let value = unquoted(value.trim());
        // `abc==` is a token of its own kind and no parameter.
        let is_padding = value.chars().all(|letter| letter == '=');
        if is_token(name) && !is_padding && self.params.len() < MAX_PARAMS {
            self.params.push((name.to_ascii_lowercase(), value));
        }
    }
}

/// In words, for a person: the schemes and what explains them, safe to print.
impl fmt::Display for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, offer) in self.schemes.iter().enumerate() {
            if index > 0 {
                f.write_str(" or ")?;
            }
            f.write_str(&shown(&offer.scheme))?;
            let told = ["realm", "scope", "error", "error_description"];
            let told = told
                .iter()
                .filter_map(|name| Some((name, offer.param(name)?)));
            let told: Vec<_> = told
                .filter(|(_, value)| !value.trim().is_empty())
                .map(|(name, value)| format!("{}: {}", name.replace('_', " "), shown(value)))
                .collect();
            if !told.is_empty() {
                write!(f, " ({})", told.join(", "))?;
            }
        }
        Ok(())
    }
}

fn shown(value: &str) -> String {
    for_terminal(value).chars().take(SHOWN_CHARS).collect()
}

/// Cuts a header at the commas that are not quoted. A quote that is never closed holds to the end.
fn items(value: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    let (mut quoted, mut escaped) = (false, false);
    for letter in value
        .chars()
        .filter(|letter| !letter.is_control() || *letter == '\t')
    {
        if letter == ',' && !quoted {
            items.push(String::new());
            continue;
        }
        match letter {
            '\\' if quoted && !escaped => escaped = true,
            '"' if !escaped => quoted = !quoted,
            _ => escaped = false,
        }
        if let Some(item) = items.last_mut() {
            item.push(letter);
        }
    }
    items
}

/// The first word and what follows it; an equals sign ends a word too.
fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find([' ', '\t', '=']).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (word, rest.trim_start())
}

fn is_token(word: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !word.is_empty() && word.chars().all(is_allowed)
}

/// A value without its quotes, as far as there are any.
fn unquoted(value: &str) -> String {
    let Some(inner) = value.strip_prefix('"') else {
        return value.to_owned();
    };
    let mut text = String::new();
    let mut letters = inner.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => text.extend(letters.next()),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests;
