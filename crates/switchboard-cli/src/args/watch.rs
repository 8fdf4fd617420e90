//! Arguments of `watch`.

use std::time::Duration;

use clap::Args;

use super::duration::parse_duration;
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

/// Parses an interval of at least one second.
fn parse_interval(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text)?;
    if time < Duration::from_secs(1) {
        return Err("the minimum interval is 1s".to_owned());
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_is_at_least_a_second() {
        assert_eq!(parse_interval("1s"), Ok(Duration::from_secs(1)));
        assert!(parse_interval("999ms").is_err());
    }
}
