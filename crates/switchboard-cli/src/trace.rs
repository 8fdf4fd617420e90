//! `--trace FILE`: the wire traffic as JSON lines.
//!
//! Each line is `{"time", "server", "direction", "message"}`: the time in UTC, the direction `sent` or
//! `received`, the message as JSON, or as a string where it was none. Secrets of the server's entry
//! are masked by the engine before a line gets here.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::Serialize;
use serde_json::value::RawValue;
use switchboard::id::ServerName;
use switchboard::{Direction, WireTap};

use crate::failure::Failure;

/// Opens a file that only its owner may read, and empties it. A link is not followed: whoever put it
/// there would choose which file is emptied.
pub(crate) fn create_private(path: &Path) -> Result<File, Failure> {
    open_private(path).map_err(|error| {
        let failed = |why: &str| Failure::usage(format!("cannot write {}: {why}", path.display()));
        match Errno::from_io_error(&error) {
            Some(Errno::LOOP) => failed("it is a link").hint("name the file itself"),
            _ => failed(&error.to_string()),
        }
    })
}

fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    if !is_of_the_system(path) {
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    }
    let file = options.open(path)?;
    // The file may have been there before; a terminal or a pipe is not ours to change.
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// `/dev/stderr` and `/proc/self/fd/3` are links too, and nobody else can put one there.
fn is_of_the_system(path: &Path) -> bool {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    folder.is_some_and(|folder| folder == Path::new("/dev") || folder.starts_with("/proc"))
}

/// Writes what it sees to a file.
#[derive(Debug)]
pub(crate) struct TraceFile(Mutex<File>);

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    server: &'a ServerName,
    direction: &'static str,
    message: Message<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Message<'a> {
    Json(&'a RawValue),
    Text(&'a str),
}

impl TraceFile {
    pub(crate) fn new(file: File) -> Self {
        Self(Mutex::new(file))
    }
}

impl WireTap for TraceFile {
    fn line(&self, server: &ServerName, direction: Direction, text: &str) {
        let line = Line {
            time: utc(SystemTime::now()),
            server,
            direction: match direction {
                Direction::Sent => "sent",
                Direction::Received => "received",
            },
            message: serde_json::from_str(text).map_or(Message::Text(text), Message::Json),
        };
        let Ok(mut bytes) = serde_json::to_vec(&line) else {
            return;
        };
        bytes.push(b'\n');
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(&bytes) {
            tracing::debug!(%error, "a line of the trace was not written");
        }
    }
}

/// `2026-07-28T12:34:56.789Z`
pub(crate) fn utc(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs();
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let millis = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// The date of a day counted from 1970-01-01. Years are taken to begin in March, so that the leap day
/// comes last.
fn civil(days: u64) -> (u64, u64, u64) {
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
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        let at = |seconds, millis| {
            utc(UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_millis(millis))
        };
        assert_eq!(at(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_400, 7), "2000-02-29T00:00:00.007Z");
        assert_eq!(at(951_868_799, 999), "2000-02-29T23:59:59.999Z");
        assert_eq!(at(951_868_800, 0), "2000-03-01T00:00:00.000Z");
        assert_eq!(at(1_785_242_096, 789), "2026-07-28T12:34:56.789Z");
        assert_eq!(at(4_107_542_399, 0), "2100-02-28T23:59:59.000Z");
        assert_eq!(at(4_107_542_400, 0), "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn lines_are_json_whatever_was_sent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        std::fs::write(&path, "what was there before").unwrap();
        let trace = TraceFile::new(create_private(&path).unwrap());
        let server = ServerName::new("s").unwrap();
        trace.line(&server, Direction::Sent, r#"{"id": 1}"#);
        trace.line(&server, Direction::Received, "junk\u{1b}[2J");

        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["message"], serde_json::json!({"id": 1}));
        assert_eq!(lines[0]["direction"], "sent");
        assert_eq!(lines[1]["message"], "junk\u{1b}[2J");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
