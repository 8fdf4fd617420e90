//! Parses JSON that the CLI writes and that `serde_json` rejects.
//!
//! The CLI repeats text of the model unchecked. Such text may contain lone surrogate escapes
//! (`\ud83d` without its second half), numbers outside the range of `f64`, or nesting beyond the
//! recursion limit of `serde_json`. Invariant: [`parse_lossy`] returns a value for every
//! syntactically valid JSON text. A lone surrogate becomes U+FFFD; any other part that cannot be
//! parsed becomes `null`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

/// Maximum nesting depth at which [`parse_lossy`] replaces only the invalid part of a value by
/// `null`. A deeper value becomes `null` as a whole. The members that this crate reads are less
/// deep.
const MAX_SALVAGE_DEPTH: usize = 8;
const REPLACEMENT: &str = "\\ufffd";
/// Length of an escape such as `\ud83d`, in bytes.
const ESCAPE_LEN: usize = 6;

/// Parses a text, with lone surrogates replaced by U+FFFD. Fails if any other part cannot be
/// parsed.
pub(crate) fn parse(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text).or_else(|_| serde_json::from_str(&replace_lone_surrogates(text)))
}

/// Parses a text and replaces all parts that cannot be parsed. Fails only on invalid JSON syntax.
pub(crate) fn parse_lossy(text: &str) -> Result<Value, serde_json::Error> {
    parse(text).or_else(|_| {
        let text = replace_lone_surrogates(text);
        let root: &RawValue = serde_json::from_str(&text)?;
        Ok(parse_partial(root, MAX_SALVAGE_DEPTH))
    })
}

fn parse_partial(part: &RawValue, depth: usize) -> Value {
    if let Ok(value) = serde_json::from_str(part.get()) {
        return value;
    }
    let Some(depth) = depth.checked_sub(1) else {
        return Value::Null;
    };
    if let Ok(members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(part.get()) {
        let members = members.into_iter();
        let members = members.map(|(name, member)| (name, parse_partial(member, depth)));
        return Value::Object(members.collect());
    }
    match serde_json::from_str::<Vec<&RawValue>>(part.get()) {
        Ok(items) => items
            .into_iter()
            .map(|item| parse_partial(item, depth))
            .collect(),
        Err(_) => Value::Null,
    }
}

/// Replaces the escape of each lone surrogate by the escape of U+FFFD.
pub(crate) fn replace_lone_surrogates(text: &str) -> Cow<'_, str> {
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return Cow::Borrowed(text);
    }
    let mut output = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        output.push_str(before);
        let is_pair =
            || surrogate(escape.get(ESCAPE_LEN..).unwrap_or_default()) == Some(Surrogate::Low);
        let (replacement, length) = match surrogate(escape) {
            Some(Surrogate::High) if is_pair() => (None, 2 * ESCAPE_LEN),
            Some(_) => (Some(REPLACEMENT), ESCAPE_LEN),
            // Skip the character after the backslash, too. In `\\`, that is a second backslash,
            // which must not be taken for the start of an escape.
            None => (None, escape.chars().take(2).map(char::len_utf8).sum()),
        };
        let (original, after) = escape.split_at(length);
        output.push_str(replacement.unwrap_or(original));
        rest = after;
    }
    output.push_str(rest);
    Cow::Owned(output)
}

/// Which half of a UTF-16 surrogate pair an escape stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Surrogate {
    High,
    Low,
}

/// Returns which half of a surrogate pair the escape at the start of the text stands for. Returns
/// `None` if the text does not start with such an escape.
fn surrogate(text: &str) -> Option<Surrogate> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xd800..=0xdbff => Some(Surrogate::High),
        0xdc00..=0xdfff => Some(Surrogate::Low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lone_surrogates_are_replaced() {
        for (text, expected) in [
            (r#"["\ud83d"]"#, "\u{fffd}"),
            (r#"["\uDE00x"]"#, "\u{fffd}x"),
            (r#"["\ud83d\ude00"]"#, "\u{1f600}"),
            (r#"["\ud83d\ud83d\ude00"]"#, "\u{fffd}\u{1f600}"),
            (r#"["\ud83d\n\\ud83d"]"#, "\u{fffd}\n\\ud83d"),
            (r#"["\\\ud83dé\"é"]"#, "\\\u{fffd}é\"é"),
        ] {
            let value = parse(text).unwrap();
            assert_eq!(value[0], expected, "{text}");
        }
        for text in ["\\ud8", "\"\\", "\\ud83d\\u", "{\"\\ud83d"] {
            assert!(parse_lossy(text).is_err(), "{text}");
        }
    }

    #[test]
    fn unparsable_part_leaves_siblings_intact() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let text = format!(r#"{{"a":{{"b":[1,{deep},1e999,"\ud83d"]}},"c":2}}"#);
        assert!(parse(&text).is_err());
        let value = parse_lossy(&text).unwrap();
        assert_eq!(value["c"], 2);
        assert_eq!(value["a"]["b"][0], 1);
        assert_eq!(value["a"]["b"][2], Value::Null);
        assert_eq!(value["a"]["b"][3], "\u{fffd}");
    }
}
