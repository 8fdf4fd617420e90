//! The description of a case, and the functions that build cases.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard::auth::{
    AuthError, AuthProvider, AuthRefusal, AuthRequest, AuthVerdict, Credential,
};
use switchboard::interaction::BoxFuture;
use switchboard::limits::{Deadlines, Limits};
use switchboard_config::{RemoteKind, Secret};
use switchboard_testkit::http::{Fault, Mode, RawStep};
use switchboard_testkit::{Script, Step};

use crate::harness::TestServers;

pub(crate) const MIB: u64 = 1024 * 1024;

/// The credential of the hostile server. It must not reach another server, an error message or a
/// note.
pub(crate) const CANARY: &str = "canary-5d41402abc4b2a76b9719d911017c592";

/// A hostile server, the calls to make, and the expected behaviour of the host.
pub(crate) struct Case {
    pub(crate) script: Script,
    pub(crate) mode: Mode,
    pub(crate) kind: RemoteKind,
    /// The URL in the config entry. `None`: the URL of the hostile server.
    pub(crate) url: Option<UrlFn>,
    /// `before_start` runs before the host starts, `after_connect` after the server is connected.
    pub(crate) before_start: Vec<Action>,
    pub(crate) after_connect: Vec<Action>,
    pub(crate) limits: Limits,
    pub(crate) deadlines: Deadlines,
    /// The timeouts in the config entry.
    pub(crate) call_timeout: Duration,
    pub(crate) startup_timeout: Duration,
    pub(crate) credential: CredentialSource,
    pub(crate) start: Start,
    /// The calls of `work` to make one after another, each with its expected outcome.
    pub(crate) calls: Vec<Expected>,
    /// Whether each call waits until the client has closed the connections that the server closed.
    /// Without the wait, a call may use a connection at the moment when the server closes it, and
    /// then its outcome is unknown.
    pub(crate) waits_for_closed_connections: bool,
    pub(crate) arguments: Value,
    /// Expected state of the session after the calls.
    pub(crate) session_after: SessionAfter,
    /// Maximum growth of the host's memory, in bytes.
    pub(crate) memory: u64,
    /// Additional checks that run after the shutdown of the host.
    pub(crate) checks: Vec<Check>,
}

pub(crate) type Action = Box<dyn FnOnce(&TestServers)>;
pub(crate) type Check = Box<dyn Fn(&TestServers)>;
pub(crate) type UrlFn = fn(&TestServers) -> String;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Connected,
    /// Connected, but the tool listing failed; the error contains this text.
    ListingFailed(&'static str),
    /// Failed, and the host does not retry; the error contains this text.
    Failed(&'static str),
    /// Failed, and the host will retry; the error contains this text.
    Retried(&'static str),
    NeedsLogin,
    /// Any status except connected.
    NotConnected,
}

/// Expected outcome of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expected {
    /// A result that contains this text.
    Text(&'static str),
    /// An error of this kind that contains this text.
    Error(ErrorKind, &'static str),
    /// Any error whose [`Delivery`](switchboard::call::Delivery) is not `Unknown`.
    NotExecuted,
}

/// The variants of `CallError` that cases distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    InvalidResponse,
    TimedOut,
    OutcomeUnknown,
    NotSent,
    ErrorResponse,
    Unavailable,
    Other,
}

/// Where the host gets the credential of the hostile server from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CredentialSource {
    /// A header of the config entry.
    Entry,
    RetryingProvider,
}

/// An auth provider that asks the host to retry after every refusal.
pub(crate) struct RetryingProvider;

impl AuthProvider for RetryingProvider {
    fn credential<'a>(
        &'a self,
        _: AuthRequest<'a>,
    ) -> BoxFuture<'a, Result<Credential, AuthError>> {
        Box::pin(std::future::ready(Credential::bearer(&Secret::from(
            CANARY,
        ))))
    }

    fn refused<'a>(&'a self, _: AuthRefusal<'a>) -> BoxFuture<'a, AuthVerdict> {
        Box::pin(std::future::ready(AuthVerdict::TryAgain))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionAfter {
    /// The same session answers the next call.
    Same,
    /// A new session answers the next call.
    New,
    /// No session is usable, so the harness makes no further check.
    Ended,
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

pub(crate) fn idle_timeout() -> Expected {
    Expected::Error(ErrorKind::TimedOut, "no activity")
}

pub(crate) fn outcome_unknown(message: &'static str) -> Expected {
    Expected::Error(ErrorKind::OutcomeUnknown, message)
}

pub(crate) fn error_response(message: &'static str) -> Expected {
    Expected::Error(ErrorKind::ErrorResponse, message)
}

pub(crate) fn not_executed() -> Expected {
    Expected::NotExecuted
}

/// Adds the tools of every case: `work`, which the faults of the case affect, and `echo`, which
/// works.
fn with_tools(script: Script) -> Script {
    script
        .tool("work")
        .tool("echo")
        .on("tools/call work", [Step::text("right")])
}

pub(crate) fn modern() -> Script {
    with_tools(Script::modern())
}

pub(crate) fn legacy() -> Script {
    with_tools(Script::legacy())
}

/// A valid JSON-RPC response to the request that is being answered.
pub(crate) const VALID_RESPONSE: &str =
    r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"right"}]}}"#;

/// The head of a response whose body ends when the connection closes. `kind` is the content type.
pub(crate) fn head(kind: &str) -> RawStep {
    RawStep::send(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n"
    ))
}

/// A server that answers `work` with these bytes.
pub(crate) fn responds_with(steps: impl IntoIterator<Item = RawStep>) -> Case {
    Case::modern().fault_on_work(Fault::raw_steps(steps))
}

/// A server that answers `work` with an event stream of these bytes.
pub(crate) fn responds_with_events(steps: impl IntoIterator<Item = RawStep>) -> Case {
    let head = head("text/event-stream");
    responds_with(std::iter::once(head).chain(steps))
}

/// A valid response as an event.
pub(crate) fn valid_event() -> RawStep {
    RawStep::send(format!("data: {VALID_RESPONSE}\n\n"))
}

impl Case {
    pub(crate) fn new(script: Script, mode: Mode, kind: RemoteKind) -> Self {
        let mut deadlines = Deadlines::default();
        deadlines.probe = Duration::from_millis(500);
        deadlines.connect = Duration::from_millis(500);
        deadlines.exit_after_eof = Duration::from_millis(300);
        Self {
            script,
            mode,
            kind,
            url: None,
            before_start: Vec::new(),
            after_connect: Vec::new(),
            limits: Limits::default(),
            deadlines,
            call_timeout: Duration::from_secs(15),
            startup_timeout: Duration::from_secs(15),
            credential: CredentialSource::Entry,
            start: Start::Connected,
            calls: Vec::new(),
            waits_for_closed_connections: false,
            arguments: json!({}),
            session_after: SessionAfter::Same,
            memory: 16 * MIB,
            checks: Vec::new(),
        }
    }

    pub(crate) fn modern() -> Self {
        Self::new(modern(), Mode::JSON, RemoteKind::Http)
    }

    /// A legacy server that responds with event streams.
    pub(crate) fn legacy() -> Self {
        Self::new(legacy(), Mode::SSE, RemoteKind::Http)
    }

    /// A server of the transport of 2024-11-05.
    pub(crate) fn sse() -> Self {
        Self::new(legacy(), Mode::LegacySse, RemoteKind::Sse)
    }

    /// Changes the script of the server.
    pub(crate) fn script(mut self, change: impl FnOnce(Script) -> Script) -> Self {
        self.script = change(self.script);
        self
    }

    pub(crate) fn at(mut self, url: UrlFn) -> Self {
        self.url = Some(url);
        self
    }

    /// Runs an action before the host starts.
    pub(crate) fn before_start(mut self, action: impl FnOnce(&TestServers) + 'static) -> Self {
        self.before_start.push(Box::new(action));
        self
    }

    /// Arms a fault before the host starts.
    pub(crate) fn fault_at_start(self, fault: Fault) -> Self {
        self.before_start(|servers| servers.hostile.arm(fault))
    }

    /// Runs an action after the server is connected.
    pub(crate) fn after_connect(mut self, action: impl FnOnce(&TestServers) + 'static) -> Self {
        self.after_connect.push(Box::new(action));
        self
    }

    /// Arms a fault for the next call of `work`, after the server is connected.
    pub(crate) fn fault_on_work(self, fault: Fault) -> Self {
        self.after_connect(|servers| servers.hostile.arm(fault.on("tools/call work")))
    }

    /// Takes the credential from an auth provider that always retries.
    pub(crate) fn with_retrying_provider(mut self) -> Self {
        self.credential = CredentialSource::RetryingProvider;
        self
    }

    pub(crate) fn arguments(mut self, arguments: Value) -> Self {
        self.arguments = arguments;
        self
    }

    /// Calls `work` and expects this outcome.
    pub(crate) fn expects(mut self, expects: Expected) -> Self {
        self.calls.push(expects);
        self
    }

    pub(crate) fn waits_for_closed_connections(mut self) -> Self {
        self.waits_for_closed_connections = true;
        self
    }

    /// Expects that the start fails as `start` says. Does not expect a usable session afterwards.
    pub(crate) fn start_fails(mut self, start: Start) -> Self {
        self.start = start;
        self.session_after = SessionAfter::Ended;
        self
    }

    /// Expects that no session is established; any status except connected is allowed.
    pub(crate) fn gets_no_session(mut self) -> Self {
        self.start = Start::NotConnected;
        self.session_after = SessionAfter::Ended;
        self
    }

    /// Expects that the session is lost and replaced.
    pub(crate) fn reconnects(mut self) -> Self {
        self.session_after = SessionAfter::New;
        self
    }

    /// States that the session is lost and not replaced, so the harness does not use it after the
    /// calls.
    pub(crate) fn stays_disconnected(mut self) -> Self {
        self.session_after = SessionAfter::Ended;
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

    pub(crate) fn deadlines(mut self, change: fn(&mut Deadlines)) -> Self {
        change(&mut self.deadlines);
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

    /// Adds a check that runs after shutdown.
    pub(crate) fn also_checks(mut self, check: impl Fn(&TestServers) + 'static) -> Self {
        self.checks.push(Box::new(check));
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
