//! The time limits of connections, requests and child processes, and their defaults.

use std::time::Duration;

/// Time limits. The time that the user takes to answer a question does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadlines {
    /// From the start of a server until its tools are listed.
    pub startup: Duration,
    /// One tool call in total.
    pub call: Duration,
    /// One tool call without progress or any other message of its server.
    pub idle: Duration,
    /// One page of a listing, or one read.
    pub list: Duration,
    /// Wait for the response to the probe, `server/discover`, before `initialize` is sent as well.
    pub probe: Duration,
    /// Opening a connection to a remote server, TLS included.
    pub connect: Duration,
    /// Idle time of a remote server after which it is pinged.
    pub ping_after_idle: Duration,
    /// Wait for the response to that ping.
    pub ping_timeout: Duration,
    /// Wait for the server to report that the user completed a URL elicitation. Then the call is
    /// sent again in any case.
    pub url_elicitation: Duration,
    /// Wait for a child to exit after its stdin was closed, and for the response to the HTTP DELETE
    /// of a session.
    pub exit_after_eof: Duration,
    /// Wait for a child to exit after SIGTERM, before SIGKILL.
    pub exit_after_term: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            startup: Duration::from_secs(30),
            call: Duration::from_secs(60 * 60),
            idle: Duration::from_secs(5 * 60),
            list: Duration::from_secs(30),
            probe: Duration::from_secs(2),
            connect: Duration::from_secs(10),
            ping_after_idle: Duration::from_secs(30),
            ping_timeout: Duration::from_secs(10),
            url_elicitation: Duration::from_secs(5 * 60),
            exit_after_eof: Duration::from_secs(2),
            exit_after_term: Duration::from_secs(2),
        }
    }
}

impl Deadlines {
    /// The largest supported duration. Adding it to an `Instant` does not overflow.
    pub const MAX: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

    /// Limits every duration to [`MAX`](Self::MAX). Internal to the switchboard crates.
    #[doc(hidden)]
    pub fn clamped(mut self) -> Self {
        for limit in [
            &mut self.startup,
            &mut self.call,
            &mut self.idle,
            &mut self.list,
            &mut self.probe,
            &mut self.connect,
            &mut self.ping_after_idle,
            &mut self.ping_timeout,
            &mut self.url_elicitation,
            &mut self.exit_after_eof,
            &mut self.exit_after_term,
        ] {
            *limit = (*limit).min(Self::MAX);
        }
        self
    }
}
