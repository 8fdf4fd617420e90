//! Arguments of `watch`.

use std::time::Duration;

use clap::Args;

use crate::completion_candidates;

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Server name
    #[arg(value_name = "SERVER", add = completion_candidates::server_names())]
    pub(crate) server: String,
    /// Resource URI; with --tool the tool arguments: key=value, key:=json, one JSON object, or -
    #[arg(value_name = "URI|ARGS", allow_negative_numbers = true)]
    pub(crate) words: Vec<String>,
    /// Watch a tool's result instead of a resource
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// Poll at this interval even if the server supports subscriptions: 30s, 5m, 1h (minimum 1s)
    #[arg(long, value_name = "TIME", value_parser = parse_interval)]
    pub(crate) every: Option<Duration>,
    /// Exit after N changes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Allow the calls without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Parses a number with a unit. Without a unit it means seconds.
fn parse_interval(text: &str) -> Result<Duration, String> {
    const EXPECTED: &str = "expected a duration such as 30s, 5m or 1h";
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
    let time = Duration::from_millis(number.saturating_mul(millis));
    if time < Duration::from_secs(1) {
        return Err("the minimum interval is 1s".to_owned());
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_need_a_number_and_may_have_a_unit() {
        let seconds = |text: &str| parse_interval(text).map(|time| time.as_secs()).ok();
        let known = [
            ("5", 5),
            ("5s", 5),
            ("1500ms", 1),
            ("2m", 120),
            ("2min", 120),
            ("1h", 3600),
        ];
        for (text, expected) in known {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        for text in ["", "s", "-1s", "1.5s", "999ms", "0", "5 s", "1d"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
