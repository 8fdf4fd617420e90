//! The time bounds of the engine, and the bounds on size and count from `switchboard-wire`.

use std::time::Duration;

pub use switchboard_wire::Limits;
pub(crate) use switchboard_wire::limits::{LARGE, MOST, legible as rounded_to_millis};

/// How long things may take. Time a person spends on a question does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadlines {
    /// From the start of a server to its tools being listed.
    pub startup: Duration,
    /// One tool call, however alive it looks.
    pub call: Duration,
    /// One tool call without any sign of life from its server.
    pub idle: Duration,
    /// One page of a listing, or one read.
    pub list: Duration,
    /// How long a silent server may delay the fallback to the older handshake.
    pub probe: Duration,
    /// How long a connection to a remote server may take to come about.
    pub connect: Duration,
    /// A remote server that sent nothing for this long is pinged.
    pub ping_after_idle: Duration,
    /// Time a remote server has to respond to that ping.
    pub ping_timeout: Duration,
    /// How long a call waits for `notifications/elicitation/complete` after the user agreed to open
    /// the URL. The call is sent again afterwards in any case.
    pub url_elicitation: Duration,
    /// How long a child may take to leave after its stdin was closed, and a remote server to take
    /// leave.
    pub exit_after_eof: Duration,
    /// How long a child may take to leave after SIGTERM, before SIGKILL.
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
    /// Longer than anybody waits, and short enough to be added to a point in time.
    pub(crate) const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

    pub(crate) fn within_reason(mut self) -> Self {
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
            *limit = (*limit).min(Self::LONGEST);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;

    #[test]
    fn largest_count_fits_a_semaphore() {
        const { assert!(MOST <= Semaphore::MAX_PERMITS) };
    }
}
