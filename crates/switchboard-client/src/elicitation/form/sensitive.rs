//! Guesses from the texts of a form field whether the field asks for a secret.
//!
//! A false positive does little harm: the user sees a needless warning, and the input is not
//! echoed.

use super::{Field, FieldKind};

/// Words that indicate a secret.
const SECRET_WORDS: [&str; 20] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "secret",
    "secrets",
    "token",
    "apikey",
    "credential",
    "credentials",
    "pin",
    "otp",
    "totp",
    "cvv",
    "cvc",
    "ssn",
    "jwt",
    "mnemonic",
    "iban",
];

/// Pairs of consecutive words that indicate a secret.
const SECRET_WORD_PAIRS: [(&str, &str); 19] = [
    ("api", "key"),
    ("access", "key"),
    ("private", "key"),
    ("secret", "key"),
    ("signing", "key"),
    ("encryption", "key"),
    ("ssh", "key"),
    ("license", "key"),
    ("credit", "card"),
    ("debit", "card"),
    ("card", "number"),
    ("security", "code"),
    ("verification", "code"),
    ("recovery", "code"),
    ("recovery", "phrase"),
    ("seed", "phrase"),
    ("pass", "word"),
    ("pass", "phrase"),
    ("social", "security"),
];

/// Endings of compound words that indicate a secret, as in `githubtoken`.
const SECRET_SUFFIXES: [&str; 6] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
];

/// Whether the name, title, description or format of a field indicates a secret. Always false for
/// choices and booleans, because the server knows all their possible values.
pub(super) fn is_sensitive(field: &Field, format: Option<&str>) -> bool {
    if !matches!(
        field.kind,
        FieldKind::Text { .. } | FieldKind::Number { .. }
    ) {
        return false;
    }
    let texts = [
        Some(field.name.as_str()),
        field.title.as_deref(),
        field.description.as_deref(),
    ];
    format == Some("password") || texts.into_iter().flatten().any(mentions_secret)
}

fn mentions_secret(text: &str) -> bool {
    let words = split_words(text);
    let is_pair = |pair: &[String]| match pair {
        [first, second] => {
            let second = second.strip_suffix('s').unwrap_or(second);
            SECRET_WORD_PAIRS.contains(&(first.as_str(), second))
        }
        _ => false,
    };
    words.iter().any(|word| is_secret_word(word)) || words.windows(2).any(is_pair)
}

fn is_secret_word(word: &str) -> bool {
    let singular = word.strip_suffix('s').unwrap_or(word);
    [word, singular].iter().any(|word| {
        SECRET_WORDS.contains(word) || SECRET_SUFFIXES.iter().any(|end| word.ends_with(end))
    })
}

/// Splits a text into lower-case words, also where lower case changes to upper case: `apiKey` and
/// `api_key` are both two words.
fn split_words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in text.chars() {
        if !letter.is_alphanumeric() || (letter.is_uppercase() && was_lower) {
            words.push(String::new());
        }
        if letter.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
        was_lower = letter.is_lowercase() || letter.is_numeric();
    }
    words.retain(|word| !word.is_empty());
    words
}
