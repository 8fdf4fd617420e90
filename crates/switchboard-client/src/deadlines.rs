//! The time limits of connections, requests and child processes, and their defaults.

use std::time::Duration;

/// Time limits of connections, requests and child processes. The time that the user takes to answer
/// a request of the server does not count against `call`, `idle` and `list`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadlines {
    /// From the start of a connection attempt until the tools of the server are listed. Also the
    /// maximum duration of a later tool listing, and the maximum time that a query waits for a
    /// server that is starting.
    pub startup: Duration,
    /// Maximum duration of one tool call.
    pub call: Duration,
    /// A tool call fails after this time without any notification (such as progress) or request of
    /// the server.
    pub idle: Duration,
    /// Maximum duration of a request that is not a tool call, such as a request for one page of a
    /// listing or for a resource.
    pub list: Duration,
    /// Maximum wait for the response to the probe, `server/discover`, before `initialize` is sent
    /// as well.
    pub probe: Duration,
    /// Maximum duration of opening a connection to a server behind a URL, including the TLS
    /// handshake.
    pub connect: Duration,
    /// A server behind a URL is pinged after this time without a response.
    pub ping_after_idle: Duration,
    /// Maximum wait for the response to a ping.
    pub ping_timeout: Duration,
    /// Maximum wait for the server to report that the user completed a URL elicitation. The call
    /// that needed the elicitation is sent again when the report arrives or this time has passed.
    pub url_elicitation: Duration,
    /// Maximum wait for a child to exit after its stdin was closed, before SIGTERM. Also the
    /// maximum wait for pending notifications to be sent when a session is shut down, and for the
    /// response to the HTTP DELETE of a session.
    pub exit_after_eof: Duration,
    /// Maximum wait for a child to exit after SIGTERM, before SIGKILL.
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

    /// Reduces every duration that is longer than [`MAX`](Self::MAX) to this maximum. Internal to
    /// the switchboard crates.
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
