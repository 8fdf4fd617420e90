//! What looks like a secret, by its own looks or by the name before it.
//!
//! Values of `env` and `headers` are hidden whatever they look like. This is for the places where most
//! values may be seen, arguments and addresses, and for the warning about secrets in a project's file.
//! A value that consists of references such as `${TOKEN}` is never taken for one.

use std::ops::Range;

use super::MASK;
use crate::expand::is_only_references;

/// How the tokens of well-known services begin, and how long one is at least.
const PREFIXES: [(&str, usize); 38] = [
    ("sk-", 20),
    ("sk_live_", 20),
    ("sk_test_", 20),
    ("rk_live_", 20),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 22),
    ("glpat-", 20),
    ("xoxa-", 15),
    ("xoxb-", 15),
    ("xoxe-", 15),
    ("xoxp-", 15),
    ("xoxr-", 15),
    ("xoxs-", 15),
    ("xapp-", 15),
    ("AKIA", 20),
    ("ASIA", 20),
    ("AIza", 35),
    ("ya29.", 20),
    ("npm_", 30),
    ("pypi-", 30),
    ("hf_", 20),
    ("gsk_", 20),
    ("xai-", 20),
    ("tvly-", 15),
    ("r8_", 20),
    ("dop_v1_", 30),
    ("dckr_pat_", 20),
    ("sbp_", 20),
    ("shpat_", 20),
    ("lin_api_", 20),
    ("ntn_", 20),
    ("figd_", 20),
    ("SG.", 30),
    ("ATATT", 30),
];

/// Words in a name that make its value a secret.
const TELLING: [&str; 18] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "pass",
    "key",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "credential",
    "credentials",
    "authorization",
    "cookie",
    "pat",
    "jwt",
];

/// Endings of words that were written together.
const TELLING_ENDS: [&str; 5] = ["token", "secret", "password", "passwd", "apikey"];

/// The last word of names that only tell something about a secret.
const HARMLESS_ENDS: [&str; 20] = [
    "file", "path", "dir", "folder", "url", "uri", "id", "name", "endpoint", "host", "type", "ttl",
    "limit", "count", "size", "length", "header", "prefix", "format", "store",
];

/// What may stand before a secret in a header.
const SCHEMES: [&str; 3] = ["bearer ", "basic ", "token "];

/// The parts of each argument that look like secrets: on their own, or because of the flag before.
pub(crate) fn in_arguments(arguments: &[&str]) -> Vec<Vec<Range<usize>>> {
    let before = std::iter::once(None).chain(arguments.iter().copied().map(Some));
    arguments
        .iter()
        .zip(before)
        .map(|(argument, before)| in_argument(argument, before))
        .collect()
}

/// The parts of an argument that look like secrets, where `before` is the argument before it.
pub(crate) fn in_argument(argument: &str, before: Option<&str>) -> Vec<Range<usize>> {
    let named = before
        .filter(|flag| flag.starts_with('-') && !flag.contains('='))
        .is_some_and(is_telling);
    if named && !argument.starts_with('-') && !is_harmless(argument) {
        return std::iter::once(0..argument.len()).collect();
    }
    in_text(argument)
}

/// The parts of a text that look like secrets, in order and without overlap.
pub(crate) fn in_text(text: &str) -> Vec<Range<usize>> {
    let mut found = known_tokens(text);
    found.extend(named_values(text));
    found.extend(password_of_address(text));
    found.sort_by_key(|range| range.start);
    let mut parts: Vec<Range<usize>> = Vec::new();
    for range in found {
        match parts.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => parts.push(range),
        }
    }
    parts
}

/// The text with only those parts masked that are tokens beyond doubt and could be nothing else, no
/// command for one: for those who are asked whether it may run.
pub(crate) fn without_tokens(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut parts = known_tokens(text);
    parts.retain(|part| {
        let token = text.get(part.clone());
        token.is_some_and(|token| token.chars().all(is_part))
    });
    masked(text, &parts)
}

/// The text with `parts` of it masked.
pub(crate) fn masked(text: &str, parts: &[Range<usize>]) -> String {
    let mut masked = String::new();
    let mut at = 0;
    for part in parts {
        masked.push_str(text.get(at..part.start).unwrap_or_default());
        masked.push_str(MASK);
        at = part.end;
    }
    masked.push_str(text.get(at..).unwrap_or_default());
    masked
}

/// Whether the value of a variable or a header looks like a secret that somebody wrote down.
pub(crate) fn is_secret_value(name: &str, value: &str) -> bool {
    if is_harmless(value) {
        return false;
    }
    let words = words_of(name);
    let is = |word: &str| words.iter().any(|other| other == word);
    let speaks_for_itself = is("authorization") || is("cookie") || is_password(&words);
    !in_text(value).is_empty()
        || (is_telling(name) && (speaks_for_itself || looks_random(without_scheme(value))))
}

fn is_password(words: &[String]) -> bool {
    let begins = ["password", "passwd", "passphrase", "pwd"];
    words
        .iter()
        .any(|word| begins.iter().any(|end| word.ends_with(end)))
}

/// Whether what goes by this name is a secret.
pub(super) fn is_telling(name: &str) -> bool {
    let words = words_of(name);
    let tells = |word: &String| {
        TELLING.contains(&word.as_str()) || TELLING_ENDS.iter().any(|end| word.ends_with(end))
    };
    let last = words.last().map(String::as_str).unwrap_or_default();
    words.iter().any(tells)
        && !HARMLESS_ENDS.contains(&last)
        && !words.iter().any(|word| word == "public" || word == "max")
}

/// `apiKey`, `API_KEY` and `--api-key` are the same words.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in name.chars() {
        if !letter.is_ascii_alphanumeric() || (letter.is_ascii_uppercase() && was_lower) {
            words.push(String::new());
        }
        was_lower = letter.is_ascii_lowercase();
        if let Some(word) = words.last_mut().filter(|_| letter.is_ascii_alphanumeric()) {
            word.push(letter.to_ascii_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether a value is plainly none, whatever it is called.
pub(super) fn is_harmless(value: &str) -> bool {
    let value = without_scheme(value).trim();
    let is_switch = ["true", "false", "yes", "no", "on", "off", "none", "null"]
        .iter()
        .any(|word| value.eq_ignore_ascii_case(word));
    let is_number = value.len() < 8 && value.bytes().all(|byte| byte.is_ascii_digit());
    let is_path = ["./", "../", "~/"]
        .iter()
        .any(|start| value.starts_with(start))
        || (value.starts_with('/') && value.matches('/').count() > 1);
    let is_placeholder = value.starts_with('<')
        || value.to_ascii_lowercase().starts_with("your")
        || value
            .chars()
            .all(|letter| matches!(letter, 'x' | 'X' | '*' | '.' | '…'));
    is_only_references(value) || is_switch || is_number || is_path || is_placeholder
}

fn without_scheme(value: &str) -> &str {
    let scheme = SCHEMES.iter().find(|scheme| {
        let start = value.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    });
    scheme.map_or(value, |scheme| value.get(scheme.len()..).unwrap_or(value))
}

/// Letters and digits as nobody would choose them.
fn looks_random(value: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| value.bytes().any(|byte| kind(&byte));
    let is_word = !value.contains(char::is_whitespace);
    let is_mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
        || has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    is_word && (value.len() >= 8 && is_mixed || value.len() >= 20 && entropy(value) >= 3.5)
}

/// How many bits each byte of the text says, judged by how often it occurs.
#[expect(clippy::cast_precision_loss, reason = "lengths of values are small")]
fn entropy(text: &str) -> f64 {
    let mut counts = std::collections::BTreeMap::<u8, usize>::new();
    for byte in text.bytes() {
        *counts.entry(byte).or_default() += 1;
    }
    let length = text.len() as f64;
    let shares = counts.values().map(|count| *count as f64 / length);
    shares.map(|share| -share * share.log2()).sum()
}

/// Tokens that say what they are.
fn known_tokens(text: &str) -> Vec<Range<usize>> {
    if let Some(start) = text
        .find("-----BEGIN")
        .filter(|_| text.contains("PRIVATE KEY"))
    {
        return std::iter::once(start..text.len()).collect();
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let start = at + rest.find(is_part).unwrap_or(rest.len());
        let rest = text.get(start..).unwrap_or_default();
        let end = start + rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let word = text.get(start..end).unwrap_or_default();
        // `${NAME:-sk-…}` holds one too.
        let token = word.trim_start_matches('-');
        if is_known_token(token) {
            found.push(end - token.len()..end);
        }
        at = end.max(at + 1);
        while !text.is_char_boundary(at) {
            at += 1;
        }
    }
    found
}

fn is_known_token(word: &str) -> bool {
    let is_web_token = word.starts_with("eyJ") && word.len() >= 30 && word.contains('.');
    let known = PREFIXES.iter().find(|(prefix, _)| word.starts_with(prefix));
    let is_known = known.is_some_and(|(prefix, length)| {
        let rest = word.get(prefix.len()..).unwrap_or_default();
        let is_random = rest.contains(|c: char| c.is_ascii_digit() || c.is_ascii_uppercase());
        word.len() >= *length && is_random
    });
    is_web_token || is_known
}

/// `--token=…`, `TOKEN=…`, `?token=…&` and `Authorization: …`.
fn named_values(text: &str) -> Vec<Range<usize>> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut found = Vec::new();
    // Where the last value ends: what is inside of it was looked at.
    let mut seen = 0;
    for (at, mark) in text.match_indices(['=', ':']) {
        if at < seen {
            continue;
        }
        let before = text.get(..at).unwrap_or_default();
        let name = before.trim_end_matches(is_part).len();
        // What stands alone is a value to its end, however many blanks it holds.
        let is_alone = name == 0;
        if (mark == ":" && !is_alone) || !is_telling(before.get(name..).unwrap_or_default()) {
            continue;
        }
        let behind = text.get(at + 1..).unwrap_or_default();
        let value = behind.trim_start();
        let ends = |c: char| c.is_whitespace() || matches!(c, '&' | ';' | '#' | '"' | '\'');
        let length = if is_alone {
            value.len()
        } else {
            value.find(ends).unwrap_or(value.len())
        };
        let start = at + 1 + (behind.len() - value.len());
        let value = value.get(..length).unwrap_or_default();
        seen = start + length;
        if !is_harmless(value) {
            let scheme = value.len() - without_scheme(value).len();
            found.push(start + scheme..start + length);
        }
    }
    found
}

/// `https://user:password@host`
fn password_of_address(text: &str) -> Option<Range<usize>> {
    let start = text.find("://")? + "://".len();
    let rest = text.get(start..)?;
    let authority = rest.get(..rest.find(['/', '?', '#']).unwrap_or(rest.len()))?;
    let (user, _) = authority.rsplit_once('@')?;
    let (name, password) = user.split_once(':')?;
    let range = start + name.len() + 1..start + user.len();
    (!is_harmless(password)).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(arguments: &[&str]) -> Vec<String> {
        let parts = in_arguments(arguments);
        let pairs = arguments.iter().zip(parts);
        pairs.map(|(text, parts)| masked(text, &parts)).collect()
    }

    #[test]
    fn arguments_that_look_like_secrets_are_masked() {
        let cases: [(&[&str], &[&str]); 15] = [
            (&["--token", "hush"], &["--token", "***"]),
            (&["--api-key=abc def"], &["--api-key=***"]),
            (&["-e", "GITHUB_TOKEN=hush"], &["-e", "GITHUB_TOKEN=***"]),
            (
                &["--header", "Authorization: Bearer hush"],
                &["--header", "Authorization: Bearer ***"],
            ),
            (&["x sk-proj-abcdefghijklm1234 y"], &["x *** y"]),
            (&["AKIAIOSFODNN7EXAMPLE"], &["***"]),
            (
                &["https://me:hush@example.com/x?api_key=hush&page=2"],
                &["https://me:***@example.com/x?api_key=***&page=2"],
            ),
            (&["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln"], &["***"]),
            (&["--token", "${TOKEN}"], &["--token", "${TOKEN}"]),
            (&["${TOKEN:-ghp_0123456789abcdefghij}"], &["${TOKEN:-***}"]),
            (&["--token-file", "/run/x/y"], &["--token-file", "/run/x/y"]),
            (&["--max-tokens", "8192"], &["--max-tokens", "8192"]),
            (&["--token", "--verbose"], &["--token", "--verbose"]),
            (
                &["-y", "sk-learn-server-for-everyone"],
                &["-y", "sk-learn-server-for-everyone"],
            ),
            (
                &["ü=ß", "https://example.com:8080/a:b"],
                &["ü=ß", "https://example.com:8080/a:b"],
            ),
        ];
        for (arguments, expected) in cases {
            assert_eq!(shown(arguments), expected);
        }
    }

    #[test]
    fn long_texts_are_read_about_once() {
        for text in ["-eyJ", "-sk-", "key=/", "a=", "://:@", "token: "] {
            in_text(&text.repeat(50_000));
        }
    }

    #[test]
    fn values_are_judged_by_name_and_looks() {
        let secrets = [
            ("API_KEY", "a1b2c3d4e5"),
            ("DB_PASSWORD", "correct horse"),
            ("Authorization", "Bearer hush"),
            ("X-Api-Key", "abcdefghijklmnopqrstuvwxyz"),
            ("WHATEVER", "ghp_0123456789abcdefghij"),
            ("DATABASE_URL", "postgres://me:hush@db/x"),
        ];
        for (name, value) in secrets {
            assert!(is_secret_value(name, value), "{name}");
        }
        let others = [
            ("API_KEY", "${API_KEY}"),
            ("Authorization", "Bearer ${TOKEN}"),
            ("API_KEY", "<your key>"),
            ("API_KEY", "YOUR_API_KEY_1"),
            ("API_KEY", "development"),
            ("KEY_FILE", "a1b2c3d4e5"),
            ("LOG_LEVEL", "Debug123"),
            ("MAX_TOKEN", "a1b2c3d4e5"),
            ("PASSWORD", ""),
        ];
        for (name, value) in others {
            assert!(!is_secret_value(name, value), "{name}={value}");
        }
    }
}
