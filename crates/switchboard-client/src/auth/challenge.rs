//! Parses `WWW-Authenticate` headers.
//!
//! Many servers send malformed headers, so the parser keeps the valid parts and skips the rest.
//!
//! Invariant: `MAX_SCHEMES`, `MAX_PARAMS` and `MAX_BYTES` bound the size of a parsed challenge.

use std::fmt;

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;
use serde::Serialize;

use switchboard_wire::redact::Redactor;
use switchboard_wire::text::for_terminal;

/// Maximum number of schemes in a challenge. Further schemes are dropped.
const MAX_SCHEMES: usize = 8;
/// Maximum number of parameters of one scheme. Further parameters are dropped.
const MAX_PARAMS: usize = 32;
/// Maximum number of bytes that are parsed, summed over all `WWW-Authenticate` headers of a
/// response.
const MAX_BYTES: usize = 8 * 1024;
/// `Display` truncates scheme names and parameter values after this many characters.
const MAX_DISPLAY_CHARS: usize = 200;

/// The authentication schemes that a server lists in its `WWW-Authenticate` headers. Untrusted:
/// their texts come from the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Challenge {
    schemes: Vec<ChallengeScheme>,
}

/// One authentication scheme with its parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ChallengeScheme {
    /// `Bearer`, `Basic`, …, as the server spells it.
    pub scheme: String,
    /// Parameter names in lower case with their values, in the server's order. Values are unquoted.
    pub params: Vec<(String, String)>,
}

impl ChallengeScheme {
    /// Returns the value of the first parameter with this name. Ignores the case of the name.
    pub fn param(&self, name: &str) -> Option<&str> {
        let mut params = self.params.iter();
        let param = params.find(|(key, _)| key.eq_ignore_ascii_case(name));
        param.map(|(_, value)| value.as_str())
    }
}

impl Challenge {
    /// Parses the values of all `WWW-Authenticate` headers of a response. Skips malformed parts.
    ///
    /// ```
    /// use switchboard_client::auth::Challenge;
    ///
    /// let header = r#"Bearer realm="a, b", error=invalid_token, Basic"#;
    /// let challenge = Challenge::parse([header.as_bytes()]);
    /// assert_eq!(challenge.bearer().unwrap().param("realm"), Some("a, b"));
    /// assert_eq!(challenge.schemes()[1].scheme, "Basic");
    /// ```
    pub fn parse<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut challenge = Self::default();
        let mut remaining = MAX_BYTES;
        for value in values {
            let kept = value.get(..remaining).unwrap_or(value);
            remaining -= kept.len();
            let mut items = split_items(&String::from_utf8_lossy(kept));
            if kept.len() < value.len() {
                // A header beyond `MAX_BYTES` was cut. Drop its last item: a truncated URL is worse
                // than none.
                items.pop();
            }
            // A parameter belongs only to a scheme of the same header, never to one of a previous
            // header.
            let first_of_header = challenge.schemes.len();
            for item in items {
                challenge.push_item(&item, first_of_header);
            }
            if remaining == 0 {
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

    /// Masks secrets in the names of the schemes, and in the names and values of their parameters.
    pub(crate) fn redacted(mut self, redactor: &Redactor) -> Self {
        for scheme in &mut self.schemes {
            scheme.scheme = redactor.redact(&scheme.scheme);
            for (name, value) in &mut scheme.params {
                *name = redactor.redact(name);
                *value = redactor.redact(value);
            }
        }
        self
    }

    /// All schemes, in the server's order.
    pub fn schemes(&self) -> &[ChallengeScheme] {
        &self.schemes
    }

    /// Returns the first `Bearer` scheme.
    pub fn bearer(&self) -> Option<&ChallengeScheme> {
        let mut schemes = self.schemes.iter();
        schemes.find(|scheme| scheme.scheme.eq_ignore_ascii_case("bearer"))
    }

    /// Adds an item of a header: a scheme, a scheme with its first parameter, or a further
    /// parameter of the last scheme. Ignores a parameter before the first scheme of the header.
    fn push_item(&mut self, item: &str, first_of_header: usize) {
        let (head, rest) = split_word(item);
        if !is_token(head) {
            return;
        }
        if let Some(value) = rest.strip_prefix('=') {
            if self.schemes.len() > first_of_header
                && let Some(scheme) = self.schemes.last_mut()
            {
                scheme.push_param(head, value);
            }
        } else if self.schemes.len() <= MAX_SCHEMES {
            let mut scheme = ChallengeScheme {
                scheme: head.to_owned(),
                params: Vec::new(),
            };
            let (name, value) = split_word(rest);
            if let Some(value) = value.strip_prefix('=') {
                scheme.push_param(name, value);
            }
            self.schemes.push(scheme);
        } else if let Some(surplus) = self.schemes.last_mut() {
            // One scheme beyond `MAX_SCHEMES` stays in the list until parsing ends. It absorbs the
            // parameters of all dropped schemes, which would otherwise be added to the last valid
            // scheme.
            surplus.params.clear();
        }
    }
}

impl ChallengeScheme {
    fn push_param(&mut self, name: &str, value: &str) {
        let value = value.trim();
        // `abc==` is Base64 data (a `token68` of RFC 9110), not a parameter.
        let is_padding = value.chars().all(|letter| letter == '=');
        if is_token(name) && !is_padding && self.params.len() < MAX_PARAMS {
            self.params
                .push((name.to_ascii_lowercase(), unquote(value)));
        }
    }
}

/// Lists the schemes, each with its `realm`, `scope`, `error` and `error_description`. Safe to
/// print to a terminal.
impl fmt::Display for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, scheme) in self.schemes.iter().enumerate() {
            if index > 0 {
                f.write_str(" or ")?;
            }
            f.write_str(&display_text(&scheme.scheme))?;
            let names = ["realm", "scope", "error", "error_description"];
            let params = names
                .iter()
                .filter_map(|name| Some((name, scheme.param(name)?)));
            let params: Vec<_> = params
                .filter(|(_, value)| !value.trim().is_empty())
                .map(|(name, value)| format!("{}: {}", name.replace('_', " "), display_text(value)))
                .collect();
            if !params.is_empty() {
                write!(f, " ({})", params.join(", "))?;
            }
        }
        Ok(())
    }
}

fn display_text(value: &str) -> String {
    for_terminal(value)
        .chars()
        .take(MAX_DISPLAY_CHARS)
        .collect()
}

/// Splits a header at commas outside quotes. A quote without an end extends to the end of the
/// header. Drops control characters except tabs.
fn split_items(value: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    let (mut is_quoted, mut is_escaped) = (false, false);
    for character in value
        .chars()
        .filter(|character| !character.is_control() || *character == '\t')
    {
        if character == ',' && !is_quoted {
            items.push(String::new());
            continue;
        }
        match character {
            '\\' if is_quoted && !is_escaped => is_escaped = true,
            '"' if !is_escaped => is_quoted = !is_quoted,
            _ => is_escaped = false,
        }
        if let Some(item) = items.last_mut() {
            item.push(character);
        }
    }
    items
}

/// Splits off the first word, which ends at a space, a tab or an equals sign.
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

/// Removes the quotes and escapes of a quoted value. Returns a value that does not begin with a
/// quote unchanged.
fn unquote(value: &str) -> String {
    let Some(inner) = value.strip_prefix('"') else {
        return value.to_owned();
    };
    let mut text = String::new();
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => text.extend(characters.next()),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests;
