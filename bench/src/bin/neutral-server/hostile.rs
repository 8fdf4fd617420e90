//! Kinds of hostile behaviour, which start after the server is connected and listed.

use std::io::{self, Write};
use std::thread;
use std::time::Duration;

/// Result size in bytes: one more than the default message limit of a host.
const OVERSIZED: usize = 16 * 1024 * 1024 + 1;

#[derive(Clone, Copy)]
pub enum Hostile {
    /// Sends notifications without end.
    Notifications,
    /// Writes to stderr without end.
    Stderr,
    /// Stops reading.
    Stall,
    /// Exits on a call.
    Crash,
    /// Responds after a delay.
    Slow,
    /// Responds with more than the limit.
    Huge,
}

impl Hostile {
    pub fn named(name: &str) -> Self {
        match name {
            "notifications" => Self::Notifications,
            "stderr" => Self::Stderr,
            "stall" => Self::Stall,
            "crash" => Self::Crash,
            "slow" => Self::Slow,
            "huge" => Self::Huge,
            _ => panic!("unknown hostile kind: {name}"),
        }
    }

    pub fn after_listing(self, output: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Notifications => loop {
                output.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"noise\"}}\n")?;
            },
            Self::Stderr => loop {
                io::stderr().write_all(&[b"noise ".repeat(16), b"\n".to_vec()].concat())?;
            },
            Self::Stall => loop {
                thread::park();
            },
            Self::Crash | Self::Slow | Self::Huge => Ok(()),
        }
    }

    /// Runs the hostile behaviour of a call; returns the size of the result.
    pub fn before_call(self, size: usize) -> usize {
        match self {
            Self::Crash => std::process::exit(1),
            Self::Slow => thread::sleep(Duration::from_millis(500)),
            Self::Huge => return OVERSIZED,
            Self::Notifications | Self::Stderr | Self::Stall => {}
        }
        size
    }
}
