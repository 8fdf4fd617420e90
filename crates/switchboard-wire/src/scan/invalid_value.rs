//! Finds the end of a value that `strict` rejected.
//!
//! Brackets must match and strings must end; numbers, literals, commas, colons and the contents of
//! strings are not checked.

use super::ValueExtent;
use super::nesting::Nesting;

/// Measures the value at `start`. Returns `None` if its end cannot be found.
pub(super) fn measure(text: &[u8], start: usize) -> Option<ValueExtent> {
    let mut extent = ValueExtent {
        end: start,
        ..ValueExtent::default()
    };
    let mut nesting = Nesting::default();
    loop {
        match *text.get(extent.end)? {
            b'"' => extent.end = string_end(text, extent.end)?,
            bracket @ (b'{' | b'[') => {
                extent.end += 1;
                nesting.push(bracket);
                extent.depth = extent.depth.max(nesting.depth());
            }
            bracket @ (b'}' | b']') => {
                extent.end += 1;
                nesting.pop(bracket).ok()?;
                if nesting.depth() == 0 {
                    return Some(extent);
                }
                continue;
            }
            b',' | b':' if nesting.depth() > 0 => {
                extent.end += 1;
                continue;
            }
            b' ' | b'\t' | b'\r' | b'\n' => {
                extent.end += 1;
                continue;
            }
            _ => extent.end = scalar_end(text, extent.end)?,
        }
        extent.nodes += 1;
        if nesting.depth() == 0 {
            return Some(extent);
        }
    }
}

/// Returns the end of a run of bytes that numbers and literals consist of.
fn scalar_end(text: &[u8], start: usize) -> Option<usize> {
    let is_scalar =
        |byte: &&u8| matches!(byte, b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'+' | b'-' | b'.');
    let length = text.get(start..)?.iter().take_while(is_scalar).count();
    (length > 0).then_some(start + length)
}

/// Returns the offset after the closing quote of the string at `start`.
pub(super) fn string_end(text: &[u8], start: usize) -> Option<usize> {
    if text.get(start) != Some(&b'"') {
        return None;
    }
    let mut position = start + 1;
    loop {
        let rest = text.get(position..)?;
        let offset = memchr::memchr2(b'"', b'\\', rest)?;
        position += offset + 1;
        if rest.get(offset) == Some(&b'"') {
            return Some(position);
        }
        // Skip the escaped byte, which may be a quote.
        position += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::strict;
    use super::*;

    fn json_tokens() -> impl Strategy<Value = String> {
        let token = prop_oneof![
            Just("{"),
            Just("}"),
            Just("["),
            Just("]"),
            Just(","),
            Just(":"),
            Just(" "),
            Just("null"),
            Just("-1.5e3"),
            Just("01"),
            Just("\"a\""),
            Just("\"\\\"\\u0041\""),
            Just("\"\t\""),
            Just("\"b\":[]"),
            Just("{\"c\":{\"d\":[1,2]}}"),
        ];
        prop::collection::vec(token, 0..12).prop_map(|tokens| tokens.concat())
    }

    proptest! {
        #[test]
        fn agrees_with_strict_on_valid_json(text in json_tokens()) {
            let strict = strict::measure_value(text.as_bytes(), 0);
            // A prefix of an invalid token, such as `0` of `01`, may be a valid value.
            if let Some(strict) = strict.filter(|extent| extent.end == text.len()) {
                prop_assert_eq!(measure(text.as_bytes(), 0), Some(strict));
            }
        }

        #[test]
        fn strict_agrees_with_serde_json(text in json_tokens()) {
            let strict = strict::measure_value(text.as_bytes(), 0);
            let is_whole = strict.is_some_and(|extent| extent.end == text.len());
            let serde = serde_json::from_str::<&serde_json::value::RawValue>(&text);
            // serde_json skips the whitespace around the value.
            let is_trimmed = text.trim() == text;
            prop_assert_eq!(is_whole, serde.is_ok() && is_trimmed);
        }
    }
}
