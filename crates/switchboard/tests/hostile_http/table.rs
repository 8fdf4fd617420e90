//! What a row of the table says, and the words it is written in.

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

use crate::harness::Stage;

pub(crate) const MIB: u64 = 1024 * 1024;

/// What every request to the hostile server carries, and nobody else may ever see.
pub(crate) const CANARY: &str = "canary-5d41402abc4b2a76b9719d911017c592";

/// One hostile server, and what must come of it.
pub(crate) struct Row {
    pub(crate) script: Script,
    pub(crate) mode: Mode,
    pub(crate) kind: RemoteKind,
    /// Where the entry says that the server is, if not where it is.
    pub(crate) url: Option<UrlOf>,
    /// What is arranged before the host starts, and once the server is connected.
    pub(crate) before: Vec<Arrange>,
    pub(crate) then: Vec<Arrange>,
    pub(crate) limits: Limits,
    pub(crate) deadlines: Deadlines,
    /// The entry's own limits of time.
    pub(crate) call_timeout: Duration,
    pub(crate) startup_timeout: Duration,
    /// Where the credential comes from.
    pub(crate) credential: From,
    /// How it starts.
    pub(crate) start: Start,
    /// What the caller of `work` sees, one time after the other.
    pub(crate) calls: Vec<Sees>,
    pub(crate) arguments: Value,
    /// What has become of the session after the calls.
    pub(crate) afterwards: Afterwards,
    /// By how many bytes the memory of the host may grow at its peak.
    pub(crate) memory: u64,
    /// What else must hold.
    pub(crate) checks: Vec<Check>,
}

pub(crate) type Arrange = Box<dyn FnOnce(&Stage)>;
pub(crate) type Check = Box<dyn Fn(&Stage)>;
pub(crate) type UrlOf = fn(&Stage) -> String;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Connected,
    /// Connected, but the tools could not be listed: the status says so in these words.
    Unlisted(&'static str),
    /// Given up, with these words.
    Failed(&'static str),
    /// To be tried again, with these words.
    Retried(&'static str),
    /// Waiting for a login.
    NeedsLogin,
    /// Anything but connected.
    Any,
}

/// What the caller of a tool sees.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sees {
    /// A result with these words in it.
    Text(&'static str),
    /// An error of this kind, with these words in it.
    Error(Kind, &'static str),
    /// Any error that says that nothing was done.
    Undone,
}

/// The typed errors of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Unusable,
    TimedOut,
    OutcomeUnknown,
    NotSent,
    Refused,
    Unavailable,
    Other,
}

/// Where the credential comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// A header of the entry.
    Entry,
    Stubborn,
}

/// Thinks that the next request will be taken, however many were refused.
pub(crate) struct Stubborn;

impl AuthProvider for Stubborn {
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
pub(crate) enum Afterwards {
    /// The same session answers the next call.
    Stays,
    /// There is another session, and it answers.
    ComesBack,
    /// It is gone, or of no use.
    Gone,
}

pub(crate) fn text(words: &'static str) -> Sees {
    Sees::Text(words)
}

pub(crate) fn unusable(words: &'static str) -> Sees {
    Sees::Error(Kind::Unusable, words)
}

pub(crate) fn timed_out() -> Sees {
    Sees::Error(Kind::TimedOut, "no response within")
}

pub(crate) fn silent() -> Sees {
    Sees::Error(Kind::TimedOut, "no activity")
}

pub(crate) fn unknown(words: &'static str) -> Sees {
    Sees::Error(Kind::OutcomeUnknown, words)
}

pub(crate) fn refused(words: &'static str) -> Sees {
    Sees::Error(Kind::Refused, words)
}

/// It did not come to it, for whatever reason.
pub(crate) fn not_carried_out() -> Sees {
    Sees::Undone
}

/// The tools that every row has: `work`, which is up to no good, and `echo`, which is polite.
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

/// The right answer to the request at hand, as JSON.
pub(crate) const RIGHT: &str =
    r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"right"}]}}"#;

/// The head of an answer that ends with its connection.
pub(crate) fn head(kind: &str) -> RawStep {
    RawStep::send(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n"
    ))
}

/// An answer to `work` made of these steps.
pub(crate) fn working(steps: impl IntoIterator<Item = RawStep>) -> Row {
    Row::modern().works(Fault::raw_steps(steps))
}

/// A stream of events in answer to `work`, made of these steps.
pub(crate) fn streaming(steps: impl IntoIterator<Item = RawStep>) -> Row {
    let head = head("text/event-stream");
    working(std::iter::once(head).chain(steps))
}

/// An event with the right answer.
pub(crate) fn right_event() -> RawStep {
    RawStep::send(format!("data: {RIGHT}\n\n"))
}

impl Row {
    pub(crate) fn of(script: Script, mode: Mode, kind: RemoteKind) -> Self {
        let mut deadlines = Deadlines::default();
        deadlines.probe = Duration::from_millis(500);
        deadlines.connect = Duration::from_millis(500);
        deadlines.exit_after_eof = Duration::from_millis(300);
        Self {
            script,
            mode,
            kind,
            url: None,
            before: Vec::new(),
            then: Vec::new(),
            limits: Limits::default(),
            deadlines,
            call_timeout: Duration::from_secs(15),
            startup_timeout: Duration::from_secs(15),
            credential: From::Entry,
            start: Start::Connected,
            calls: Vec::new(),
            arguments: json!({}),
            afterwards: Afterwards::Stays,
            memory: 16 * MIB,
            checks: Vec::new(),
        }
    }

    /// A modern server.
    pub(crate) fn modern() -> Self {
        Self::of(modern(), Mode::JSON, RemoteKind::Http)
    }

    /// A legacy server that answers with events.
    pub(crate) fn legacy() -> Self {
        Self::of(legacy(), Mode::SSE, RemoteKind::Http)
    }

    /// A server of the first transport.
    pub(crate) fn sse() -> Self {
        Self::of(legacy(), Mode::LegacySse, RemoteKind::Sse)
    }

    /// With these tools, or other answers.
    pub(crate) fn script(mut self, change: impl FnOnce(Script) -> Script) -> Self {
        self.script = change(self.script);
        self
    }

    pub(crate) fn at(mut self, url: UrlOf) -> Self {
        self.url = Some(url);
        self
    }

    /// This is arranged before the host starts.
    pub(crate) fn before(mut self, arrange: impl FnOnce(&Stage) + 'static) -> Self {
        self.before.push(Box::new(arrange));
        self
    }

    /// This goes wrong from the start.
    pub(crate) fn begins(self, fault: Fault) -> Self {
        self.before(|stage| stage.server.arm(fault))
    }

    /// This is arranged once the server is connected.
    pub(crate) fn then(mut self, arrange: impl FnOnce(&Stage) + 'static) -> Self {
        self.then.push(Box::new(arrange));
        self
    }

    /// This goes wrong with `work`, once.
    pub(crate) fn works(self, fault: Fault) -> Self {
        self.then(|stage| stage.server.arm(fault.on("tools/call work")))
    }

    /// The credential comes from a program that never gives up.
    pub(crate) fn stubborn(mut self) -> Self {
        self.credential = From::Stubborn;
        self
    }

    pub(crate) fn arguments(mut self, arguments: Value) -> Self {
        self.arguments = arguments;
        self
    }

    /// `work` is called, and the caller sees this.
    pub(crate) fn sees(mut self, sees: Sees) -> Self {
        self.calls.push(sees);
        self
    }

    /// It never comes to a session, and the status says why.
    pub(crate) fn does_not_start(mut self, start: Start) -> Self {
        self.start = start;
        self.afterwards = Afterwards::Gone;
        self
    }

    /// Its session is not taken, or it never comes to one.
    pub(crate) fn gets_no_session(mut self) -> Self {
        self.start = Start::Any;
        self.afterwards = Afterwards::Gone;
        self
    }

    /// Its session is lost, and another is made.
    pub(crate) fn comes_back(mut self) -> Self {
        self.afterwards = Afterwards::ComesBack;
        self
    }

    /// It is of no use any more.
    pub(crate) fn stays_away(mut self) -> Self {
        self.afterwards = Afterwards::Gone;
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

    /// This holds when all is over.
    pub(crate) fn holds(mut self, check: impl Fn(&Stage) + 'static) -> Self {
        self.checks.push(Box::new(check));
        self
    }
}

/// Makes a test of every row, and a list of their names.
macro_rules! rows {
    ($($name:ident: $does:literal => $row:expr;)+) => {
        pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),+];
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                crate::harness::play(stringify!($name), $does, $row).await;
            }
        )+
    };
}
