//! Finds text that looks like a secret, by its form or by the name in front of it.
//!
//! A [`MaskedEntry`](crate::MaskedEntry) masks all literal values of `env` and `headers` without
//! detection. Detection is for arguments and URLs, most of which may be shown, for the fields that
//! a user reviews before an approval, for variables whose values are masked when a server repeats
//! them, and for the warning about secrets in a project's file. A value made only of references
//! such as `${TOKEN}` is never a secret.

use std::ops::Range;

use crate::expand::is_reference_only;
use crate::secret::Secret;

/// Prefixes of tokens of well-known services, each with the minimum length of such a token.
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

/// Words that mark the value of a name as a secret.
const SECRET_WORDS: [&str; 18] = [
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

/// Endings of compound words, such as `accesstoken`, that mark a value as a secret.
const SECRET_SUFFIXES: [&str; 5] = ["token", "secret", "password", "passwd", "apikey"];

/// Last words of names that describe a secret but do not hold one, such as `token_file`.
const HARMLESS_LAST_WORDS: [&str; 20] = [
    "file", "path", "dir", "folder", "url", "uri", "id", "name", "endpoint", "host", "type", "ttl",
    "limit", "count", "size", "length", "header", "prefix", "format", "store",
];

/// Authentication schemes that precede the secret in a header value.
const SCHEMES: [&str; 3] = ["bearer ", "basic ", "token "];

/// Endings that mark the value of a variable or header as a secret.
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

/// Returns true if the name of a variable or header ends like the name of a secret.
///
/// Unlike [`names_a_secret`], has no exceptions for names such as `MAX_TOKEN`: this function
/// decides what is masked, where a false positive costs little.
pub(crate) fn has_secret_ending(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_ENDINGS.iter().any(|ending| {
        let before = name.strip_suffix(ending);
        before.is_some_and(|before| {
            !matches!(before.chars().last(), Some('a'..='z')) || is_compound_word(before, ending)
        })
    })
}

/// Recognizes compound words such as `apikey` and `accesstoken`.
fn is_compound_word(before: &str, ending: &str) -> bool {
    match ending {
        "key" => ["api", "access", "private", "auth"]
            .iter()
            .any(|word| before.ends_with(word)),
        "token" | "secret" | "password" => true,
        _ => false,
    }
}

/// Returns the secrets in an environment variable, so that they can be masked when a server repeats
/// them.
///
/// The whole value is a secret if its name or its form looks like one. Detected parts are returned
/// as well, because a server may repeat only a part.
pub fn secrets_in_variable(name: &str, value: &str) -> Vec<Secret> {
    // Not passwords: these two variables hold directories.
    let is_directory = matches!(name, "PWD" | "OLDPWD");
    let is_secret = has_secret_ending(name) || names_a_secret(name);
    if is_directory || is_harmless_value(value) {
        return Vec::new();
    }
    let parts = find_in_text(value);
    let whole = (is_secret || !parts.is_empty()).then_some(value);
    let parts = parts.into_iter().filter_map(|part| value.get(part));
    whole.into_iter().chain(parts).map(Secret::from).collect()
}

/// Returns the parts of a server's arguments that look like secrets.
pub fn secrets_in_arguments(arguments: &[String]) -> Vec<Secret> {
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    let parts = find_in_arguments(&words);
    let texts = words.iter().zip(parts).flat_map(|(word, parts)| {
        let texts = parts.into_iter().filter_map(|part| word.get(part));
        texts.map(Secret::from).collect::<Vec<_>>()
    });
    texts.collect()
}

/// Returns the secret ranges of each argument. The argument in front may be a flag that names a
/// secret.
pub(crate) fn find_in_arguments(arguments: &[&str]) -> Vec<Vec<Range<usize>>> {
    let before = std::iter::once(None).chain(arguments.iter().copied().map(Some));
    arguments
        .iter()
        .zip(before)
        .map(|(argument, before)| find_in_argument(argument, before))
        .collect()
}

/// Returns the secret ranges of one argument. `before` is the argument in front of it.
pub(crate) fn find_in_argument(argument: &str, before: Option<&str>) -> Vec<Range<usize>> {
    let named = before
        .filter(|flag| flag.starts_with('-') && !flag.contains('='))
        .is_some_and(names_a_secret);
    if named && !argument.starts_with('-') && !is_harmless_value(argument) {
        return std::iter::once(0..argument.len()).collect();
    }
    find_in_text(argument)
}

/// Returns the secret ranges of a text, in order and without overlap.
pub(crate) fn find_in_text(text: &str) -> Vec<Range<usize>> {
    let mut found = known_tokens(text);
    found.extend(named_values(text));
    found.extend(password_in_url(text));
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

/// Masks only tokens of well-known services, and only those without shell characters.
///
/// Used for reviews of a command before its approval, where a mask must not hide shell syntax.
pub(crate) fn mask_known_tokens(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut parts = known_tokens(text);
    parts.retain(|part| {
        let token = text.get(part.clone());
        token.is_some_and(|token| token.chars().all(is_part))
    });
    mask_ranges(text, &parts)
}

/// Replaces the given ranges of `text` with [`Secret::MASK`]. The ranges must be sorted and must
/// not overlap.
pub(crate) fn mask_ranges(text: &str, parts: &[Range<usize>]) -> String {
    let mut masked = String::new();
    let mut at = 0;
    for part in parts {
        masked.push_str(text.get(at..part.start).unwrap_or_default());
        masked.push_str(Secret::MASK);
        at = part.end;
    }
    masked.push_str(text.get(at..).unwrap_or_default());
    masked
}

/// Returns true if `value`, the literal value of the variable or header `name`, looks like a
/// secret.
pub(crate) fn is_secret_value(name: &str, value: &str) -> bool {
    if is_harmless_value(value) {
        return false;
    }
    let words = split_words(name);
    let is = |word: &str| words.iter().any(|other| other == word);
    let name_is_sufficient = is("authorization") || is("cookie") || is_password(&words);
    !find_in_text(value).is_empty()
        || (names_a_secret(name) && (name_is_sufficient || looks_generated(without_scheme(value))))
}

fn is_password(words: &[String]) -> bool {
    let endings = ["password", "passwd", "passphrase", "pwd"];
    words
        .iter()
        .any(|word| endings.iter().any(|ending| word.ends_with(ending)))
}

/// Returns true if a value with this name is a secret. Splits the name into words and looks at
/// each.
fn names_a_secret(name: &str) -> bool {
    let words = split_words(name);
    let is_secret_word = |word: &String| {
        SECRET_WORDS.contains(&word.as_str())
            || SECRET_SUFFIXES.iter().any(|end| word.ends_with(end))
    };
    let last = words.last().map(String::as_str).unwrap_or_default();
    words.iter().any(is_secret_word)
        && !HARMLESS_LAST_WORDS.contains(&last)
        && !words.iter().any(|word| word == "public" || word == "max")
}

/// Splits a name into lower-case words: `apiKey`, `API_KEY` and `--api-key` give the same words.
fn split_words(name: &str) -> Vec<String> {
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

/// Returns true if a value cannot be a secret under any name: a switch, a short number, a path, a
/// placeholder or only references.
fn is_harmless_value(value: &str) -> bool {
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
    is_reference_only(value) || is_switch || is_number || is_path || is_placeholder
}

fn without_scheme(value: &str) -> &str {
    let scheme = SCHEMES.iter().find(|scheme| {
        let start = value.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    });
    scheme.map_or(value, |scheme| value.get(scheme.len()..).unwrap_or(value))
}

/// Returns true for a single word that looks machine-generated: mixed character classes or high
/// entropy.
fn looks_generated(value: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| value.bytes().any(|byte| kind(&byte));
    let is_word = !value.contains(char::is_whitespace);
    let is_mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
        || has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    is_word && (value.len() >= 8 && is_mixed || value.len() >= 20 && entropy(value) >= 3.5)
}

/// Shannon entropy of the text in bits per byte.
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

/// Finds private keys and tokens with a well-known prefix.
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
        // The default in `${NAME:-sk-…}` is a token too.
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
    let is_jwt = word.starts_with("eyJ") && word.len() >= 30 && word.contains('.');
    let known = PREFIXES.iter().find(|(prefix, _)| word.starts_with(prefix));
    let is_known = known.is_some_and(|(prefix, length)| {
        let rest = word.get(prefix.len()..).unwrap_or_default();
        let is_random = rest.contains(|c: char| c.is_ascii_digit() || c.is_ascii_uppercase());
        word.len() >= *length && is_random
    });
    is_jwt || is_known
}

/// Finds the values in `--token=…`, `TOKEN=…`, `?token=…&` and `Authorization: …`.
fn named_values(text: &str) -> Vec<Range<usize>> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut found = Vec::new();
    // End of the last value: do not search inside of it, so that the scan stays linear.
    let mut searched = 0;
    for (at, mark) in text.match_indices(['=', ':']) {
        if at < searched {
            continue;
        }
        let before = text.get(..at).unwrap_or_default();
        let name = before.trim_end_matches(is_part).len();
        // If the text starts with the name, the value extends to the end of the text, spaces
        // included.
        let is_whole_text = name == 0;
        if (mark == ":" && !is_whole_text)
            || !names_a_secret(before.get(name..).unwrap_or_default())
        {
            continue;
        }
        let after = text.get(at + 1..).unwrap_or_default();
        let value = after.trim_start();
        let ends = |c: char| c.is_whitespace() || matches!(c, '&' | ';' | '#' | '"' | '\'');
        let length = if is_whole_text {
            value.len()
        } else {
            value.find(ends).unwrap_or(value.len())
        };
        let start = at + 1 + (after.len() - value.len());
        let value = value.get(..length).unwrap_or_default();
        searched = start + length;
        if !is_harmless_value(value) {
            let scheme = value.len() - without_scheme(value).len();
            found.push(start + scheme..start + length);
        }
    }
    found
}

/// Finds the password in `https://user:password@host`.
fn password_in_url(text: &str) -> Option<Range<usize>> {
    let start = text.find("://")? + "://".len();
    let rest = text.get(start..)?;
    let authority = rest.get(..rest.find(['/', '?', '#']).unwrap_or(rest.len()))?;
    let (user, _) = authority.rsplit_once('@')?;
    let (name, password) = user.split_once(':')?;
    let range = start + name.len() + 1..start + user.len();
    (!is_harmless_value(password)).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(arguments: &[&str]) -> Vec<String> {
        let parts = find_in_arguments(arguments);
        let pairs = arguments.iter().zip(parts);
        pairs
            .map(|(text, parts)| mask_ranges(text, &parts))
            .collect()
    }

    #[test]
    fn secrets_in_arguments_are_masked() {
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
            assert_eq!(mask(arguments), expected);
        }
    }

    #[test]
    fn scan_of_long_text_is_linear() {
        for text in ["-eyJ", "-sk-", "key=/", "a=", "://:@", "token: "] {
            find_in_text(&text.repeat(50_000));
        }
    }

    #[test]
    fn name_and_form_decide_about_values() {
        let secrets = [
            ("API_KEY", "a1b2c3d4e5"),
            ("DB_PASSWORD", "correct horse"),
            ("Authorization", "Bearer hush"),
            ("X-Api-Key", "abcdefghijklmnopqrstuvwxyz"),
            ("OTHER_NAME", "ghp_0123456789abcdefghij"),
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

    #[test]
    fn secret_variables_are_found_by_name_or_form() {
        let hidden = |name, value| {
            let secrets = secrets_in_variable(name, value);
            secrets.iter().any(|secret| secret.expose() == value)
        };
        for (name, value) in [
            ("AWS_SECRET_ACCESS_KEY", "correct-horse-battery"),
            ("npm_config__authToken", "correct-horse-battery"),
            ("SENTRY_DSN", "correct-horse-battery"),
            ("OTHER_NAME", "ghp_0123456789abcdefghij"),
            ("https_proxy", "http://me:correct-horse@proxy:8080"),
        ] {
            assert!(hidden(name, value), "{name}");
        }
        for (name, value) in [
            ("PATH", "/usr/local/bin:/usr/bin"),
            ("HOME", "/home/ada"),
            ("PWD", "/workspace"),
            ("LANG", "en_GB.UTF-8"),
            ("SSH_AUTH_SOCK", "/run/user/1000/keyring/ssh"),
            ("npm_config_registry", "https://registry.npmjs.org/"),
        ] {
            assert!(!hidden(name, value), "{name}");
        }
    }
}
