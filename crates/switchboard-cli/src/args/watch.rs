//! What can be typed about watches.

use std::time::Duration;

use clap::Args;

use crate::completion_candidates;

pub(super) const EXAMPLES: &str = "\
A change is told with what changed, until Ctrl-C. A server that says when a resource changes is
listened to; any other is asked every 5 seconds, or as often as --every says. Every call of a tool
passes your rules; where they want you to be asked, you are asked once.

Examples:
  switchboard watch files file:///notes.txt
  switchboard watch files file:///notes.txt --every 30s
  switchboard watch ci --tool build_status branch=main --every 1m --count 1";

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// The server's name
    #[arg(value_name = "SERVER", add = completion_candidates::server_names())]
    pub(crate) server: String,
    /// The address of a resource; with --tool its arguments: key=value, key:=json, one JSON object, or -
    #[arg(value_name = "URI|ARGS", allow_negative_numbers = true)]
    pub(crate) words: Vec<String>,
    /// Watch what this tool answers
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// Ask this often, whatever the server could tell: 30s, 5m, 1h; at least a second
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub(crate) every: Option<Duration>,
    /// End after so many changes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Answer yes when permission is asked for
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// A number and its unit; seconds where none is given.
fn interval(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = text.strip_prefix(digits).unwrap_or_default();
    let millis = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err("write a number and its unit, such as 30s, 5m or 1h".to_owned()),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "write a number and its unit, such as 30s, 5m or 1h".to_owned())?;
    let time = Duration::from_millis(number.saturating_mul(millis));
    if time < Duration::from_secs(1) {
        return Err("that is too often: the shortest interval is 1s".to_owned());
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_a_number_and_its_unit() {
        let seconds = |text: &str| interval(text).map(|time| time.as_secs()).ok();
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
