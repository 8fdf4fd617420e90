//! JSON as the CLI writes it, where a stricter reader would refuse it.
//!
//! The CLI repeats what a model wrote: escapes of half a character (`\ud83d` alone), numbers that are
//! too large for any type, nesting without end. Invariant: a message that is JSON is read, whatever is
//! in it. What cannot be kept is replaced by the least that stands for it: half a character by U+FFFD,
//! anything else by `null`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

/// How deep is looked for what can be kept. Messages have their own members above that.
const LEVELS: usize = 8;
const REPLACEMENT: &str = "\\ufffd";
/// The length of `\ud83d`.
const ESCAPE: usize = 6;

/// The tree of a text of which nothing but halves of characters may be replaced.
pub(crate) fn tree(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text).or_else(|_| serde_json::from_str(&mended(text)))
}

/// The tree of a text, without what cannot be kept. Only what is no JSON is an error.
pub(crate) fn outline(text: &str) -> Result<Value, serde_json::Error> {
    tree(text).or_else(|_| {
        let mended = mended(text);
        let whole: &RawValue = serde_json::from_str(&mended)?;
        Ok(kept(whole, LEVELS))
    })
}

fn kept(part: &RawValue, levels: usize) -> Value {
    if let Ok(value) = serde_json::from_str(part.get()) {
        return value;
    }
    let Some(levels) = levels.checked_sub(1) else {
        return Value::Null;
    };
    if let Ok(members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(part.get()) {
        let members = members.into_iter();
        let members = members.map(|(name, member)| (name, kept(member, levels)));
        return Value::Object(members.collect());
    }
    match serde_json::from_str::<Vec<&RawValue>>(part.get()) {
        Ok(items) => items.into_iter().map(|item| kept(item, levels)).collect(),
        Err(_) => Value::Null,
    }
}

/// The text with each escape of half a character replaced.
pub(crate) fn mended(text: &str) -> Cow<'_, str> {
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return Cow::Borrowed(text);
    }
    let mut mended = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        mended.push_str(before);
        let is_pair = || half(escape.get(ESCAPE..).unwrap_or_default()) == Some(Half::Second);
        let (written, length) = match half(escape) {
            Some(Half::First) if is_pair() => (None, 2 * ESCAPE),
            Some(_) => (Some(REPLACEMENT), ESCAPE),
            // A backslash that is itself escaped begins nothing.
            None => (None, escape.chars().take(2).map(char::len_utf8).sum()),
        };
        let (as_it_is, after) = escape.split_at(length);
        mended.push_str(written.unwrap_or(as_it_is));
        rest = after;
    }
    mended.push_str(rest);
    Cow::Owned(mended)
}

/// Half a character, as one of the two units that stand for those beyond the first 65536.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    First,
    Second,
}

/// What a text begins with, if that is an escape of half a character.
fn half(text: &str) -> Option<Half> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xd800..=0xdbff => Some(Half::First),
        0xdc00..=0xdfff => Some(Half::Second),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_characters_are_replaced_and_nothing_else() {
        for (text, expected) in [
            (r#"["\ud83d"]"#, "\u{fffd}"),
            (r#"["\uDE00x"]"#, "\u{fffd}x"),
            (r#"["\ud83d\ude00"]"#, "\u{1f600}"),
            (r#"["\ud83d\ud83d\ude00"]"#, "\u{fffd}\u{1f600}"),
            (r#"["\ud83d\n\\ud83d"]"#, "\u{fffd}\n\\ud83d"),
            (r#"["\\\ud83dé\"é"]"#, "\\\u{fffd}é\"é"),
        ] {
            let read = tree(text).unwrap();
            assert_eq!(read[0], expected, "{text}");
        }
        for text in ["\\ud8", "\"\\", "\\ud83d\\u", "{\"\\ud83d"] {
            assert!(outline(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_kept_costs_nothing_beside_it() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let text = format!(r#"{{"a":{{"b":[1,{deep},1e999,"\ud83d"]}},"c":2}}"#);
        assert!(tree(&text).is_err());
        let read = outline(&text).unwrap();
        assert_eq!(read["c"], 2);
        assert_eq!(read["a"]["b"][0], 1);
        assert_eq!(read["a"]["b"][2], Value::Null);
        assert_eq!(read["a"]["b"][3], "\u{fffd}");
    }
}
