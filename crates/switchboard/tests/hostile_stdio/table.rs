//! The description of a case, and the functions that build cases.

use std::path::Path;
use std::time::Duration;

use switchboard::limits::{Deadlines, Limits};
use switchboard_config::ServerConfig;
use switchboard_testkit::{Script, Step};

use crate::harness::TestHost;

const MIB: u64 = 1024 * 1024;

/// A hostile server, the calls to make, and the expected behaviour of the host.
pub(crate) struct Case {
    pub(crate) launch: Launch,
    /// The environment variables in the config entry.
    pub(crate) env: Vec<(&'static str, &'static str)>,
    pub(crate) limits: Limits,
    pub(crate) deadlines: Deadlines,
    /// The timeouts in the config entry.
    pub(crate) call_timeout: Duration,
    pub(crate) startup_timeout: Duration,
    pub(crate) start: Start,
    /// The calls to make one after another: the tool and the expected outcome of each.
    pub(crate) calls: Vec<(&'static str, Expected)>,
    /// Expected state of the server after the calls.
    pub(crate) final_state: FinalState,
    /// Maximum growth of the host's memory, in bytes.
    pub(crate) memory: u64,
    /// A secret in the config entry that must not appear in an error, a note or the recorded
    /// stderr.
    pub(crate) secret: Option<&'static str>,
    /// An additional check that runs before the shutdown of the host.
    pub(crate) check: Option<Check>,
}

pub(crate) type Check = Box<dyn Fn(&TestHost)>;

pub(crate) enum Launch {
    /// The scripted server runs this script.
    Script(Box<Script>),
    /// The function prepares a program in the given directory and returns the config entry that
    /// runs it.
    Command(fn(&Path) -> ServerConfig),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Connected,
    /// Connected, but the tool listing failed; the error contains this text.
    ListingFailed(&'static str),
    /// Failed, and the host does not retry; the error contains this text.
    Failed(&'static str),
}

/// Expected outcome of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expected {
    /// A result that contains this text.
    Text(&'static str),
    /// An error of this kind that contains this text.
    Error(ErrorKind, &'static str),
}

/// The variants of `CallError` that cases distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    InvalidResponse,
    TimedOut,
    OutcomeUnknown,
    NotSent,
    ErrorResponse,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FinalState {
    /// The same process answers the next call.
    SameProcess,
    /// The host restarts the server, and a new process answers the next call.
    Restarted,
    /// The process no longer responds, so the harness makes no further check.
    Stuck,
    /// The server cannot be called, so the harness makes no further check.
    NotRunning,
}

pub(crate) fn text(message: &'static str) -> Expected {
    Expected::Text(message)
}

pub(crate) fn invalid_response(message: &'static str) -> Expected {
    Expected::Error(ErrorKind::InvalidResponse, message)
}

pub(crate) fn timed_out() -> Expected {
    Expected::Error(ErrorKind::TimedOut, "no response within")
}

pub(crate) fn outcome_unknown(message: &'static str) -> Expected {
    Expected::Error(ErrorKind::OutcomeUnknown, message)
}

pub(crate) fn not_sent(message: &'static str) -> Expected {
    Expected::Error(ErrorKind::NotSent, message)
}

pub(crate) fn error_response(message: &'static str) -> Expected {
    Expected::Error(ErrorKind::ErrorResponse, message)
}

/// A legacy server with the tools of every case: `work`, which misbehaves, and `echo` and `pid`,
/// which work.
pub(crate) fn legacy() -> Script {
    Script::legacy().tool("work").tool("echo").tool("pid")
}

/// A modern server with the tools of every case: `work`, which misbehaves, and `echo` and `pid`,
/// which work.
pub(crate) fn modern() -> Script {
    Script::modern().tool("work").tool("echo").tool("pid")
}

/// A valid response to the request that is being answered.
pub(crate) fn valid_response() -> Step {
    Step::text("right")
}

impl Case {
    /// A server that runs this script.
    pub(crate) fn new(script: Script) -> Self {
        Self::launched(Launch::Script(Box::new(script)))
    }

    /// A server that runs these steps when `work` is called.
    pub(crate) fn on_work(steps: impl IntoIterator<Item = Step>) -> Self {
        Self::new(legacy().on("tools/call work", steps))
    }

    /// A server that runs these steps at startup.
    pub(crate) fn on_start(steps: impl IntoIterator<Item = Step>) -> Self {
        Self::new(legacy().on_start(steps))
    }

    /// A server that is not the scripted server. `make` prepares its program.
    pub(crate) fn with_command(make: fn(&Path) -> ServerConfig) -> Self {
        Self::launched(Launch::Command(make))
    }

    fn launched(launch: Launch) -> Self {
        let mut deadlines = Deadlines::default();
        deadlines.probe = Duration::from_millis(500);
        deadlines.exit_after_eof = Duration::from_millis(200);
        deadlines.exit_after_term = Duration::from_millis(200);
        Self {
            launch,
            env: Vec::new(),
            limits: Limits::default(),
            deadlines,
            call_timeout: Duration::from_secs(15),
            startup_timeout: Duration::from_secs(15),
            start: Start::Connected,
            calls: Vec::new(),
            final_state: FinalState::SameProcess,
            memory: 16 * MIB,
            secret: None,
            check: None,
        }
    }

    /// Calls `work` and expects this outcome.
    pub(crate) fn expects(self, expected: Expected) -> Self {
        self.calls("work", expected)
    }

    /// Calls a tool and expects this outcome.
    pub(crate) fn calls(mut self, tool: &'static str, expected: Expected) -> Self {
        self.calls.push((tool, expected));
        self
    }

    /// Expects that the server does not start.
    pub(crate) fn start_fails(mut self, message: &'static str) -> Self {
        self.start = Start::Failed(message);
        self.final_state = FinalState::NotRunning;
        self
    }

    /// Expects that the server connects and its tool listing fails.
    pub(crate) fn listing_fails(mut self, message: &'static str) -> Self {
        self.start = Start::ListingFailed(message);
        self.final_state = FinalState::NotRunning;
        self
    }

    /// Expects that the server is restarted.
    pub(crate) fn restarts(mut self) -> Self {
        self.final_state = FinalState::Restarted;
        self
    }

    /// States that the process no longer responds, so the harness does not use it after the calls.
    pub(crate) fn becomes_stuck(mut self) -> Self {
        self.final_state = FinalState::Stuck;
        self
    }

    pub(crate) fn call_timeout(mut self, milliseconds: u64) -> Self {
        self.call_timeout = Duration::from_millis(milliseconds);
        self
    }

    pub(crate) fn startup_timeout(mut self, milliseconds: u64) -> Self {
        self.startup_timeout = Duration::from_millis(milliseconds);
        self
    }

    pub(crate) fn limits(mut self, change: fn(&mut Limits)) -> Self {
        change(&mut self.limits);
        self
    }

    pub(crate) fn memory(mut self, mebibytes: u64) -> Self {
        self.memory = mebibytes * MIB;
        self
    }

    /// Adds an environment variable with a secret that must not appear in an error, a note or the
    /// recorded stderr.
    pub(crate) fn has_secret(mut self, variable: &'static str, secret: &'static str) -> Self {
        self.env.push((variable, secret));
        self.secret = Some(secret);
        self
    }

    /// Adds a check that runs before shutdown.
    pub(crate) fn also_checks(mut self, check: impl Fn(&TestHost) + 'static) -> Self {
        self.check = Some(Box::new(check));
        self
    }
}

/// Defines one test per case, and `NAMES` with the names of all cases.
macro_rules! cases {
    ($($name:ident: $description:literal => $case:expr;)+) => {
        pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),+];
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                crate::harness::run_case(stringify!($name), $description, $case).await;
            }
        )+
    };
}
