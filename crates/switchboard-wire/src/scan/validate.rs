//! The pass for text that is valid JSON, which is nearly all there is.
//!
//! It accepts what `serde_json` accepts as a raw value, except that it leaves UTF-8 to others.

use super::Nesting;

/// What a value was found to hold.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// Where it ends.
    pub(super) end: usize,
    /// How many values and keys there are in it.
    pub(super) nodes: usize,
    /// How deep it nests; a scalar has no depth.
    pub(super) depth: usize,
}

/// Steps over the value that begins at `at`, if it is valid JSON.
pub(super) fn value(text: &[u8], at: usize) -> Option<Found> {
    let mut found = Found {
        end: at,
        ..Found::default()
    };
    let mut open = Nesting::default();
    loop {
        // A value begins here.
        found.nodes += 1;
        match *text.get(found.end)? {
            b'"' => found.end = string(text, found.end)?,
            b'{' => {
                open.push(b'{');
                found.depth = found.depth.max(open.depth);
                found.end = space(text, found.end + 1);
                if text.get(found.end) == Some(&b'"') {
                    found.end = key(text, found.end)?;
                    found.nodes += 1;
                    continue;
                }
                found.end = close(text, found.end, b'}', &mut open)?;
            }
            b'[' => {
                open.push(b'[');
                found.depth = found.depth.max(open.depth);
                found.end = space(text, found.end + 1);
                if text.get(found.end) != Some(&b']') {
                    continue;
                }
                found.end = close(text, found.end, b']', &mut open)?;
            }
            b'-' | b'0'..=b'9' => found.end = number(text, found.end)?,
            b't' => found.end = literal(text, found.end, b"true")?,
            b'f' => found.end = literal(text, found.end, b"false")?,
            b'n' => found.end = literal(text, found.end, b"null")?,
            _ => return None,
        }
        // A value ended here, and with it perhaps what it stands in.
        loop {
            if open.depth == 0 {
                return Some(found);
            }
            found.end = space(text, found.end);
            match *text.get(found.end)? {
                b',' => {
                    found.end = space(text, found.end + 1);
                    if open.in_object()? {
                        found.end = key(text, found.end)?;
                        found.nodes += 1;
                    }
                    break;
                }
                bracket => found.end = close(text, found.end, bracket, &mut open)?,
            }
        }
    }
}

fn close(text: &[u8], at: usize, bracket: u8, open: &mut Nesting) -> Option<usize> {
    let closes = matches!(bracket, b'}' | b']') && text.get(at) == Some(&bracket);
    (closes && open.pop(bracket).is_ok()).then_some(at + 1)
}

/// Steps over a key and its colon, to where the value begins.
fn key(text: &[u8], at: usize) -> Option<usize> {
    let at = space(text, string(text, at)?);
    (*text.get(at)? == b':').then(|| space(text, at + 1))
}

fn space(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\r' | b'\n') = text.get(at) {
        at += 1;
    }
    at
}

fn literal(text: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    text.get(at..)?.starts_with(word).then(|| at + word.len())
}

fn number(text: &[u8], mut at: usize) -> Option<usize> {
    if text.get(at) == Some(&b'-') {
        at += 1;
    }
    at = match *text.get(at)? {
        b'0' => at + 1,
        b'1'..=b'9' => digits(text, at + 1),
        _ => return None,
    };
    if text.get(at) == Some(&b'.') {
        at = some_digits(text, at + 1)?;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        at += 1;
        if let Some(b'+' | b'-') = text.get(at) {
            at += 1;
        }
        at = some_digits(text, at)?;
    }
    Some(at)
}

fn digits(text: &[u8], mut at: usize) -> usize {
    while let Some(b'0'..=b'9') = text.get(at) {
        at += 1;
    }
    at
}

fn some_digits(text: &[u8], at: usize) -> Option<usize> {
    let end = digits(text, at);
    (end > at).then_some(end)
}

/// Strings up to here are gone through eight bytes at a time; for longer ones there is better.
const SHORT: usize = 64;

/// Steps over a string with its quotes.
fn string(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = at + 1;
    loop {
        at = plain(text, at)?;
        match *text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at = escape(text, at + 1)?,
            _ => return None,
        }
    }
}

/// The string that begins at `at`, without its quotes, and where it ends; if it has no escapes.
pub fn plain_string(text: &[u8], at: usize) -> Option<(&[u8], usize)> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let end = plain(text, at + 1)?;
    let inner = text.get(at + 1..end)?;
    (text.get(end) == Some(&b'"')).then_some((inner, end + 1))
}

/// Where the first quote, backslash or control character is.
pub fn first_special(text: &[u8]) -> Option<usize> {
    let (eights, rest) = text.as_chunks();
    for (number, eight) in eights.iter().enumerate() {
        let ends = ends_among(u64::from_le_bytes(*eight));
        if ends != 0 {
            return Some(number * eight.len() + ends.trailing_zeros() as usize / 8);
        }
    }
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | ..=0x1F);
    Some(text.len() - rest.len() + rest.iter().position(special)?)
}

/// Steps over what needs no escape: to a quote, a backslash or a control character.
fn plain(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    while let Some(eight) = text.get(at..).and_then(<[u8]>::first_chunk) {
        let ends = ends_among(u64::from_le_bytes(*eight));
        if ends != 0 {
            return Some(at + ends.trailing_zeros() as usize / 8);
        }
        at += eight.len();
        if at - start >= SHORT {
            return plain_and_long(text, at);
        }
    }
    let rest = text.get(at..)?;
    let ends = |byte: &u8| matches!(byte, b'"' | b'\\' | ..=0x1F);
    Some(at + rest.iter().position(ends)?)
}

fn plain_and_long(text: &[u8], at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    let plain = rest.get(..memchr::memchr2(b'"', b'\\', rest)?)?;
    // Without a way out in the middle, so that the compiler looks at many bytes at once.
    let controls = plain.iter().map(|byte| u8::from(*byte < 0x20));
    (controls.fold(0, |seen, is_one| seen | is_one) == 0).then(|| at + plain.len())
}

/// The high bit of each of eight bytes that is a quote, a backslash or a control character. Only
/// the lowest of them is to be relied upon.
fn ends_among(eight: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_le_bytes([0x80; 8]);
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word;
    let quotes = zeros(eight ^ (ONES * u64::from(b'"')));
    let slashes = zeros(eight ^ (ONES * u64::from(b'\\')));
    let controls = eight.wrapping_sub(ONES * 0x20) & !eight;
    (quotes | slashes | controls) & HIGH
}

fn escape(text: &[u8], at: usize) -> Option<usize> {
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

    fn whole(text: &str) -> Option<Found> {
        value(text.as_bytes(), 0).filter(|found| found.end == text.len())
    }

    #[test]
    fn it_takes_what_serde_json_takes() {
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
            let theirs = serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok();
            assert_eq!(whole(text).is_some(), theirs, "{text}");
        }
    }

    #[test]
    fn values_and_keys_are_counted_and_so_is_depth() {
        for (text, nodes, depth) in [
            ("1", 1, 0),
            ("{}", 1, 1),
            (r#"{"a":1,"b":[true,{}]}"#, 7, 3),
            ("[[1,2],[3]]", 6, 2),
        ] {
            let found = whole(text).unwrap();
            assert_eq!((found.nodes, found.depth), (nodes, depth), "{text}");
        }
    }
}
