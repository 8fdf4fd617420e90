//! Which fields look as if they asked for a secret.
//!
//! A guess, on the safe side: a field that is taken for one is filled in unseen, and that is all.

use super::{Field, FieldKind};

/// Words that are enough by themselves.
const TELLING: [&str; 20] = [
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

/// Words that tell together, one after the other.
const TELLING_PAIRS: [(&str, &str); 19] = [
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

/// Endings of words that were written together.
const TELLING_ENDS: [&str; 6] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
];

/// Whether a field looks as if it asked for a secret, by any of its texts. Nothing secret is chosen
/// from a list that the server made, and nothing secret is a yes.
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
    format == Some("password") || texts.into_iter().flatten().any(is_telling)
}

fn is_telling(text: &str) -> bool {
    let words = words(text);
    let is_pair = |pair: &[String]| match pair {
        [one, other] => {
            let other = other.strip_suffix('s').unwrap_or(other);
            TELLING_PAIRS.contains(&(one.as_str(), other))
        }
        _ => false,
    };
    words.iter().any(|word| is_telling_word(word)) || words.windows(2).any(is_pair)
}

fn is_telling_word(word: &str) -> bool {
    let singular = word.strip_suffix('s').unwrap_or(word);
    [word, singular]
        .iter()
        .any(|word| TELLING.contains(word) || TELLING_ENDS.iter().any(|end| word.ends_with(end)))
}

/// The words of a text in small letters; `apiKey` and `api_key` are two each.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for letter in text.chars() {
        if !letter.is_alphanumeric() || (letter.is_uppercase() && was_small) {
            words.push(String::new());
        }
        if letter.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
        was_small = letter.is_lowercase() || letter.is_numeric();
    }
    words.retain(|word| !word.is_empty());
    words
}
