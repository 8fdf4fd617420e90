//! Finds the end of a value and validates it in the same pass.
//!
//! Accepts what `serde_json` accepts as a raw value, except that UTF-8 is not checked. Values
//! nested deeper than [`MAX_JSON_DEPTH`](super::MAX_JSON_DEPTH) are rejected if an object or array
//! there has more than one element.

use super::ValueExtent;
use super::nesting::Nesting;

/// Measures the value at `start`. Returns `None` if it is not valid JSON.
pub(super) fn measure_value(text: &[u8], start: usize) -> Option<ValueExtent> {
    let mut extent = ValueExtent {
        end: start,
        ..ValueExtent::default()
    };
    let mut nesting = Nesting::default();
    loop {
        // A value starts here.
        extent.nodes += 1;
        match *text.get(extent.end)? {
            b'"' => extent.end = skip_string(text, extent.end)?,
            b'{' => {
                nesting.push(b'{');
                extent.depth = extent.depth.max(nesting.depth());
                extent.end = skip_whitespace(text, extent.end + 1);
                if text.get(extent.end) == Some(&b'"') {
                    extent.end = skip_key(text, extent.end)?;
                    extent.nodes += 1;
                    continue;
                }
                extent.end = skip_closing_bracket(text, extent.end, b'}', &mut nesting)?;
            }
            b'[' => {
                nesting.push(b'[');
                extent.depth = extent.depth.max(nesting.depth());
                extent.end = skip_whitespace(text, extent.end + 1);
                if text.get(extent.end) != Some(&b']') {
                    continue;
                }
                extent.end = skip_closing_bracket(text, extent.end, b']', &mut nesting)?;
            }
            b'-' | b'0'..=b'9' => extent.end = skip_number(text, extent.end)?,
            b't' => extent.end = skip_literal(text, extent.end, b"true")?,
            b'f' => extent.end = skip_literal(text, extent.end, b"false")?,
            b'n' => extent.end = skip_literal(text, extent.end, b"null")?,
            _ => return None,
        }
        // A value ended here. Skip the brackets that close after it, up to the next value.
        loop {
            if nesting.depth() == 0 {
                return Some(extent);
            }
            extent.end = skip_whitespace(text, extent.end);
            match *text.get(extent.end)? {
                b',' => {
                    extent.end = skip_whitespace(text, extent.end + 1);
                    if nesting.in_object()? {
                        extent.end = skip_key(text, extent.end)?;
                        extent.nodes += 1;
                    }
                    break;
                }
                bracket => {
                    extent.end = skip_closing_bracket(text, extent.end, bracket, &mut nesting)?;
                }
            }
        }
    }
}

fn skip_closing_bracket(
    text: &[u8],
    at: usize,
    bracket: u8,
    nesting: &mut Nesting,
) -> Option<usize> {
    let closes = matches!(bracket, b'}' | b']') && text.get(at) == Some(&bracket);
    (closes && nesting.pop(bracket).is_ok()).then_some(at + 1)
}

/// Skips a key, its colon and the whitespace around the colon.
fn skip_key(text: &[u8], at: usize) -> Option<usize> {
    let at = skip_whitespace(text, skip_string(text, at)?);
    (*text.get(at)? == b':').then(|| skip_whitespace(text, at + 1))
}

fn skip_whitespace(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\r' | b'\n') = text.get(at) {
        at += 1;
    }
    at
}

fn skip_literal(text: &[u8], at: usize, literal: &[u8]) -> Option<usize> {
    text.get(at..)?
        .starts_with(literal)
        .then(|| at + literal.len())
}

fn skip_number(text: &[u8], mut at: usize) -> Option<usize> {
    if text.get(at) == Some(&b'-') {
        at += 1;
    }
    at = match *text.get(at)? {
        b'0' => at + 1,
        b'1'..=b'9' => skip_digits(text, at + 1),
        _ => return None,
    };
    if text.get(at) == Some(&b'.') {
        at = skip_one_or_more_digits(text, at + 1)?;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        at += 1;
        if let Some(b'+' | b'-') = text.get(at) {
            at += 1;
        }
        at = skip_one_or_more_digits(text, at)?;
    }
    Some(at)
}

fn skip_digits(text: &[u8], mut at: usize) -> usize {
    while let Some(b'0'..=b'9') = text.get(at) {
        at += 1;
    }
    at
}

fn skip_one_or_more_digits(text: &[u8], at: usize) -> Option<usize> {
    let end = skip_digits(text, at);
    (end > at).then_some(end)
}

/// After this many bytes of a string without a special byte, the search switches from eight bytes
/// at a time to `memchr`, which is faster for long strings and slower to start.
const SHORT_STRING_BYTES: usize = 64;

/// Skips a string and its quotes.
fn skip_string(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = at + 1;
    loop {
        at = skip_to_special(text, at)?;
        match *text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at = skip_escape(text, at + 1)?,
            _ => return None,
        }
    }
}

/// Returns the text of the string at `at` without its quotes, and the offset after it. Returns
/// `None` if the string has escapes.
#[inline]
pub fn unescaped_string(text: &[u8], at: usize) -> Option<(&[u8], usize)> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let end = skip_to_special(text, at + 1)?;
    let inner = text.get(at + 1..end)?;
    (text.get(end) == Some(&b'"')).then_some((inner, end + 1))
}

/// Returns the offset of the first quote, backslash or control character.
#[inline]
pub fn find_special(text: &[u8]) -> Option<usize> {
    let (chunks, rest) = text.as_chunks();
    for (index, chunk) in chunks.iter().enumerate() {
        let mask = special_byte_mask(u64::from_le_bytes(*chunk));
        if mask != 0 {
            return Some(index * chunk.len() + lowest_marked_byte(mask));
        }
    }
    Some(text.len() - rest.len() + rest.iter().position(|byte| is_special(*byte))?)
}

/// Returns the offset of the first special byte at or after `start`.
fn skip_to_special(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    while let Some(chunk) = text.get(at..).and_then(<[u8]>::first_chunk) {
        let mask = special_byte_mask(u64::from_le_bytes(*chunk));
        if mask != 0 {
            return Some(at + lowest_marked_byte(mask));
        }
        at += chunk.len();
        if at - start >= SHORT_STRING_BYTES {
            return skip_to_special_in_long_string(text, at);
        }
    }
    let rest = text.get(at..)?;
    Some(at + rest.iter().position(|byte| is_special(*byte))?)
}

/// Returns the offset of the next quote or backslash, or `None` if a control character precedes it.
fn skip_to_special_in_long_string(text: &[u8], at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    let plain = rest.get(..memchr::memchr2(b'"', b'\\', rest)?)?;
    // No early exit, so that the compiler vectorizes the loop.
    let is_control = plain.iter().map(|byte| u8::from(*byte < 0x20));
    (is_control.fold(0, |any, is_one| any | is_one) == 0).then(|| at + plain.len())
}

fn is_special(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | ..=0x1F)
}

/// Sets the high bit of each byte that is a quote, a backslash or a control character. Only the
/// lowest set bit is reliable: a borrow may set higher bits.
fn special_byte_mask(chunk: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([0x01; 8]);
    const HIGH_BITS: u64 = u64::from_le_bytes([0x80; 8]);
    let zero_bytes = |word: u64| word.wrapping_sub(ONES) & !word;
    let quotes = zero_bytes(chunk ^ (ONES * u64::from(b'"')));
    let backslashes = zero_bytes(chunk ^ (ONES * u64::from(b'\\')));
    let controls = chunk.wrapping_sub(ONES * 0x20) & !chunk;
    (quotes | backslashes | controls) & HIGH_BITS
}

fn lowest_marked_byte(mask: u64) -> usize {
    mask.trailing_zeros() as usize / 8
}

/// Skips what follows a backslash.
fn skip_escape(text: &[u8], at: usize) -> Option<usize> {
    match *text.get(at)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(at + 1),
        b'u' => {
            let digits = text.get(at + 1..at + 5)?;
            digits.iter().all(u8::is_ascii_hexdigit).then_some(at + 5)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measures the text if all of it is one value.
    fn measure(text: &str) -> Option<ValueExtent> {
        measure_value(text.as_bytes(), 0).filter(|extent| extent.end == text.len())
    }

    #[test]
    fn accepts_what_serde_json_accepts() {
        let long = format!("\"{}\"", "x".repeat(100));
        let long_with_tab = format!("\"{}\t{}\"", "x".repeat(50), "y".repeat(50));
        for text in [
            "null",
            "true",
            "false",
            "0",
            "-0",
            "10",
            "01",
            "-",
            "1.",
            "1.5",
            "1.5e",
            "1e5",
            "1E+5",
            "1e-",
            "-a",
            ".5",
            "+1",
            "nul",
            "nulL",
            "truefalse",
            "NaN",
            "\"\"",
            "\"a\"",
            "\"a",
            "\"\\n\"",
            "\"\\x\"",
            "\"\\u00e9\"",
            "\"\\u00g9\"",
            "\"\\u12\"",
            "\"\\",
            "\"\t\"",
            "[]",
            "[ ]",
            "[1]",
            "[1,]",
            "[,1]",
            "[1 2]",
            "[1,2",
            "[1}",
            "{}",
            "{ }",
            "{\"a\":1}",
            "{\"a\" : 1 , \"b\":[ { } ]}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "{1:1}",
            "{\"a\":1]",
            "]",
            "}",
            ",",
            "",
            "[[[[]]]]",
            "[[]",
            &long,
            &long_with_tab,
        ] {
            let expected = serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok();
            assert_eq!(measure(text).is_some(), expected, "{text}");
        }
    }

    #[test]
    fn nodes_and_depth_are_measured() {
        for (text, nodes, depth) in [
            ("1", 1, 0),
            ("{}", 1, 1),
            (r#"{"a":1,"b":[true,{}]}"#, 7, 3),
            ("[[1,2],[3]]", 6, 2),
        ] {
            let extent = measure(text).unwrap();
            assert_eq!((extent.nodes, extent.depth), (nodes, depth), "{text}");
        }
    }
}
