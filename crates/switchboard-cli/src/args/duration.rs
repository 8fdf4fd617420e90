//! Durations on the command line: a number with a unit.

use std::time::Duration;

const EXPECTED: &str = "expected a duration such as 30s, 5m or 1h";

/// Parses a positive number with a unit. Without a unit it means seconds.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = text.strip_prefix(digits).unwrap_or_default();
    let millis = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(EXPECTED.to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| EXPECTED.to_owned())?;
    match number.saturating_mul(millis) {
        0 => Err(EXPECTED.to_owned()),
        millis => Ok(Duration::from_millis(millis)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_number_and_may_have_a_unit() {
        let millis = |text: &str| parse_duration(text).map(|time| time.as_millis()).ok();
        let known = [
            ("5", 5_000),
            ("5s", 5_000),
            ("1500ms", 1_500),
            ("2m", 120_000),
            ("2min", 120_000),
            ("1h", 3_600_000),
        ];
        for (text, expected) in known {
            assert_eq!(millis(text), Some(expected), "{text}");
        }
        for text in ["", "s", "-1s", "1.5s", "0", "0ms", "5 s", "1d"] {
            assert_eq!(millis(text), None, "{text}");
        }
    }
}
