//! Finds numbers that would change when they are sent.
//!
//! The JSON values of this program hold 64-bit integers and floats. A number with more digits would
//! be rounded silently, so it is rejected before it is sent.

use serde_json::Number;

/// Whether `number` has exactly the value that was written as `text`.
pub(crate) fn is_exact(text: &str, number: &Number) -> bool {
    match (Decimal::parse(text), Decimal::parse(&number.to_string())) {
        (Some(written), Some(sent)) => written == sent,
        _ => false,
    }
}

/// Returns the first number in a valid JSON text that cannot be sent exactly.
pub(crate) fn find_inexact(json: &str) -> Option<&str> {
    numbers(json).find(|text| {
        let number = serde_json::from_str::<Number>(text);
        !number.is_ok_and(|number| is_exact(text, &number))
    })
}

/// The numbers in a valid JSON text, outside of strings.
fn numbers(json: &str) -> impl Iterator<Item = &str> {
    let mut rest = json;
    std::iter::from_fn(move || {
        loop {
            let start = rest
                .find(|letter: char| letter == '"' || letter == '-' || letter.is_ascii_digit())?;
            let found = rest.get(start..)?;
            if let Some(string) = found.strip_prefix('"') {
                rest = string.get(end_of_string(string)..)?;
                continue;
            }
            let is_part = |letter: char| letter.is_ascii_digit() || "+-.eE".contains(letter);
            let end = found.find(|letter| !is_part(letter)).unwrap_or(found.len());
            let (number, after) = found.split_at_checked(end)?;
            rest = after;
            return Some(number);
        }
    })
}

/// The offset behind the quote that ends a JSON string.
fn end_of_string(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 1)
}

/// The value `±0.DIGITS × 10^exponent`, without zeros at either end of the digits. Zero has no
/// digits and no sign.
#[derive(Debug, PartialEq, Eq)]
struct Decimal {
    is_negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    fn parse(text: &str) -> Option<Self> {
        let (is_negative, text) = match text.strip_prefix('-') {
            Some(text) => (true, text),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse().ok()?),
            None => (text, 0_i64),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let significant = all.trim_start_matches('0');
        let leading_zeros = i64::try_from(all.len() - significant.len()).ok()?;
        let digits = significant.trim_end_matches('0').to_owned();
        if digits.is_empty() {
            return Some(Self {
                is_negative: false,
                digits,
                exponent: 0,
            });
        }
        let whole = i64::try_from(whole.len()).ok()?;
        Some(Self {
            is_negative,
            digits,
            exponent: exponent.checked_add(whole)?.checked_sub(leading_zeros)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_that_would_change_are_found() {
        for exact in [
            "0",
            "-0",
            "-0.0e7",
            "1.10",
            "0.1",
            "1e3",
            "18446744073709551615",
            "-9223372036854775808",
            "1e22",
            "0.00012e-5",
            r#"{"a": [1, "12345678901234567890123", -2.50], "9\"9": null}"#,
        ] {
            assert_eq!(find_inexact(exact), None, "{exact}");
        }
        for (json, found) in [
            ("12345678901234567890123", "12345678901234567890123"),
            ("18446744073709551617", "18446744073709551617"),
            (
                r#"{"\\": [1,3.14159265358979323846]}"#,
                "3.14159265358979323846",
            ),
            ("1e-400", "1e-400"),
            (r#"["\"", 9007199254740993.0]"#, "9007199254740993.0"),
        ] {
            assert_eq!(find_inexact(json), Some(found), "{json}");
        }
    }

    proptest! {
        #[test]
        fn every_printed_number_is_exact(float: f64, integer: i64) {
            if let Some(number) = Number::from_f64(float) {
                let printed = number.to_string();
                prop_assert_eq!(find_inexact(&printed), None);
            }
            let printed = integer.to_string();
            prop_assert_eq!(find_inexact(&printed), None);
        }
    }
}
