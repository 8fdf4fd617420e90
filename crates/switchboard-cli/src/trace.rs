//! `--trace FILE`: writes protocol traffic as JSON lines.
//!
//! Each line is `{"time", "server", "direction", "message"}`: the time in UTC, the direction `sent`
//! or `received`, the message as JSON, or as a string if it is not valid JSON. The host has masked
//! the secrets of the server's entry before the message reaches this module.

use std::fs::File;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use serde::Serialize;
use serde_json::value::RawValue;
use switchboard::id::ServerName;
use switchboard::wire_tap::{Direction, WireTap};

use crate::render::utc_timestamp;

/// Writes each protocol message as one line to the trace file.
#[derive(Debug)]
pub(crate) struct TraceFile(Mutex<File>);

#[derive(Serialize)]
struct TraceLine<'a> {
    time: String,
    server: &'a ServerName,
    direction: &'static str,
    message: TraceMessage<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum TraceMessage<'a> {
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
        let line = TraceLine {
            time: utc_timestamp(SystemTime::now()),
            server,
            direction: match direction {
                Direction::Sent => "sent",
                Direction::Received => "received",
            },
            message: serde_json::from_str(text)
                .map_or(TraceMessage::Text(text), TraceMessage::Json),
        };
        let Ok(mut bytes) = serde_json::to_vec(&line) else {
            return;
        };
        bytes.push(b'\n');
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(&bytes) {
            tracing::debug!(%error, "cannot write to the trace file");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::private_file::create_private;

    #[test]
    fn every_line_is_json() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        std::fs::write(&path, "previous content").unwrap();
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
