//! Durations, dates and timestamps as text. Dates and timestamps are in UTC.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Formats a duration: `340 ms` if it is shorter than one second, `2.5 s` otherwise.
pub(crate) fn format_duration(time: Duration) -> String {
    match time.as_millis() {
        millis @ 0..1000 => format!("{millis} ms"),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

/// Formats a date in UTC: `2026-11-15`.
pub(crate) fn utc_date(time: SystemTime) -> String {
    utc_timestamp(time).chars().take(10).collect()
}

/// Formats a timestamp in UTC: `2026-07-28T12:34:56.789Z`.
pub(crate) fn utc_timestamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs();
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date_from_days(days);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let millis = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Converts days since 1970-01-01 to year, month and day. Computes with years that begin in March,
/// so that the leap day is the last day of a year.
fn date_from_days(days: u64) -> (u64, u64, u64) {
    const DAYS_FROM_YEAR_0_TO_1970: u64 = 719_468;
    const DAYS_IN_400_YEARS: u64 = 146_097;
    let shifted = days + DAYS_FROM_YEAR_0_TO_1970;
    let (cycle, of_cycle) = (shifted / DAYS_IN_400_YEARS, shifted % DAYS_IN_400_YEARS);
    let of_cycle_year = (of_cycle - of_cycle / 1460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
    let of_year = of_cycle - (365 * of_cycle_year + of_cycle_year / 4 - of_cycle_year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = 400 * cycle + of_cycle_year + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_utc() {
        let at = |seconds, millis| {
            utc_timestamp(UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_millis(millis))
        };
        assert_eq!(at(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_400, 7), "2000-02-29T00:00:00.007Z");
        assert_eq!(at(951_868_799, 999), "2000-02-29T23:59:59.999Z");
        assert_eq!(at(951_868_800, 0), "2000-03-01T00:00:00.000Z");
        assert_eq!(at(1_785_242_096, 789), "2026-07-28T12:34:56.789Z");
        assert_eq!(at(4_107_542_399, 0), "2100-02-28T23:59:59.000Z");
        assert_eq!(at(4_107_542_400, 0), "2100-03-01T00:00:00.000Z");
    }
}
