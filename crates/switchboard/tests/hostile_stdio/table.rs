//! What a row of the table says, and the words it is written in.

use std::path::Path;
use std::time::Duration;

use switchboard::limits::{Deadlines, Limits};
use switchboard_config::ServerConfig;
use switchboard_testkit::{Script, Step};

use crate::harness::Scene;

const MIB: u64 = 1024 * 1024;

/// One hostile server, and what must come of it.
pub(crate) struct Row {
    /// How the server is started.
    pub(crate) launch: Launch,
    /// Variables of its entry.
    pub(crate) env: Vec<(&'static str, &'static str)>,
    pub(crate) limits: Limits,
    pub(crate) deadlines: Deadlines,
    /// The entry's own limits of time.
    pub(crate) call_timeout: Duration,
    pub(crate) startup_timeout: Duration,
    /// How it starts.
    pub(crate) start: Start,
    /// Which tools are called, one after the other, and what the caller sees.
    pub(crate) calls: Vec<(&'static str, Sees)>,
    /// What has become of the server after the calls.
    pub(crate) afterwards: Afterwards,
    /// By how many bytes the memory of the host may grow at its peak.
    pub(crate) memory: u64,
    /// What nobody may ever get to see.
    pub(crate) secret: Option<&'static str>,
    /// What else must hold.
    pub(crate) check: Option<Check>,
}

pub(crate) type Check = Box<dyn Fn(&Scene)>;

pub(crate) enum Launch {
    /// The real child plays this script.
    Script(Box<Script>),
    /// Something else, made in the folder that is given.
    Made(fn(&Path) -> ServerConfig),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Connected,
    /// Connected, but the tools could not be listed: the status says so in these words.
    Unlisted(&'static str),
    /// Given up, with these words.
    Failed(&'static str),
}

/// What the caller of a tool sees.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sees {
    /// A result with these words in it.
    Text(&'static str),
    /// An error of this kind, with these words in it.
    Error(Kind, &'static str),
}

/// The typed errors of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Unusable,
    TimedOut,
    OutcomeUnknown,
    NotSent,
    Refused,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Afterwards {
    /// The same process answers the next call.
    Stays,
    /// It is started anew by itself, and answers again.
    ComesBack,
    /// It is there, and answers no more.
    Stuck,
    /// It is gone for good.
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

pub(crate) fn unknown(words: &'static str) -> Sees {
    Sees::Error(Kind::OutcomeUnknown, words)
}

pub(crate) fn not_sent(words: &'static str) -> Sees {
    Sees::Error(Kind::NotSent, words)
}

pub(crate) fn refused(words: &'static str) -> Sees {
    Sees::Error(Kind::Refused, words)
}

/// A legacy server with the tools that every row has: `work`, which is up to no good, `echo` and
/// `pid`, which are polite.
pub(crate) fn legacy() -> Script {
    Script::legacy().tool("work").tool("echo").tool("pid")
}

/// The same, as a modern server.
pub(crate) fn modern() -> Script {
    Script::modern().tool("work").tool("echo").tool("pid")
}

/// The right answer to the request at hand.
pub(crate) fn right() -> Step {
    Step::text("right")
}

impl Row {
    /// A server that plays this script.
    pub(crate) fn of(script: Script) -> Self {
        Self::launched(Launch::Script(Box::new(script)))
    }

    /// A server that does this when its tool `work` is called.
    pub(crate) fn working(steps: impl IntoIterator<Item = Step>) -> Self {
        Self::of(legacy().on("tools/call work", steps))
    }

    /// A server that does this before it reads anything.
    pub(crate) fn starting(steps: impl IntoIterator<Item = Step>) -> Self {
        Self::of(legacy().on_start(steps))
    }

    /// A server that is made in a folder.
    pub(crate) fn made(make: fn(&Path) -> ServerConfig) -> Self {
        Self::launched(Launch::Made(make))
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
            afterwards: Afterwards::Stays,
            memory: 16 * MIB,
            secret: None,
            check: None,
        }
    }

    /// `work` is called, and the caller sees this.
    pub(crate) fn sees(self, sees: Sees) -> Self {
        self.calls("work", sees)
    }

    /// A tool is called, and the caller sees this.
    pub(crate) fn calls(mut self, tool: &'static str, sees: Sees) -> Self {
        self.calls.push((tool, sees));
        self
    }

    /// It never comes to a session, and the status says why.
    pub(crate) fn does_not_start(mut self, words: &'static str) -> Self {
        self.start = Start::Failed(words);
        self.afterwards = Afterwards::Gone;
        self
    }

    /// It is connected, but has no tools, and the status says why.
    pub(crate) fn lists_nothing(mut self, words: &'static str) -> Self {
        self.start = Start::Unlisted(words);
        self.afterwards = Afterwards::Gone;
        self
    }

    /// Its session is lost, and it is started anew by itself.
    pub(crate) fn comes_back(mut self) -> Self {
        self.afterwards = Afterwards::ComesBack;
        self
    }

    /// It is there, and answers no more.
    pub(crate) fn gets_stuck(mut self) -> Self {
        self.afterwards = Afterwards::Stuck;
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

    /// Its entry has a secret in a variable, and nobody may ever get to see it.
    pub(crate) fn keeps(mut self, variable: &'static str, secret: &'static str) -> Self {
        self.env.push((variable, secret));
        self.secret = Some(secret);
        self
    }

    /// This holds when all is over.
    pub(crate) fn holds(mut self, check: impl Fn(&Scene) + 'static) -> Self {
        self.check = Some(Box::new(check));
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
