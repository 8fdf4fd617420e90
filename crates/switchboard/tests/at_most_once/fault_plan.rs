//! The plan of one seed: servers, calls and faults. The plan is generated before the run of the
//! seed starts.
//!
//! Pure: a seed always yields the same plan, so a failed seed can be repeated.

use std::time::Duration;

use fastrand::Rng;
use switchboard_testkit::{Era, Script, Step};

/// Maximum number of concurrent calls of one seed.
const MAX_CALLS: usize = 16;
/// Approximate size of one request or response in bytes, without padding.
const MESSAGE_BYTES: usize = 130;
/// Approximate number of bytes that one side sends until the handshake and the tool listing are
/// complete.
const HANDSHAKE_BYTES: usize = 2_500;
/// A number of bytes that the pipe between host and server cannot hold. A write of this size blocks
/// until the reader has read a part of it.
const ABOVE_PIPE_CAPACITY: usize = 70_000;
/// A stall that is longer than every call deadline in a plan.
const LONG_STALL: Duration = Duration::from_secs(90);

/// The plan of one seed with in-memory servers.
#[derive(Debug)]
pub(crate) struct SeedPlan {
    pub(crate) servers: Vec<ServerPlan>,
    pub(crate) calls: Vec<CallPlan>,
    /// When the test calls `Host::reconnect`, and for which server.
    pub(crate) reconnect: Option<(Duration, usize)>,
}

#[derive(Debug)]
pub(crate) struct ServerPlan {
    era: Era,
    /// The server answers each request before it reads the next one.
    is_serial: bool,
    /// The faults of each connection, in the order in which the host opens connections. Connections
    /// after the last entry have no faults.
    pub(crate) connections: Vec<ConnectionPlan>,
}

/// The faults of one connection.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionPlan {
    /// The connection attempt fails.
    pub(crate) is_refused: bool,
    /// If true, [`Fault::at`] counts bytes from the first call on. If false, [`Fault::at`] counts
    /// bytes from the start of the connection.
    pub(crate) starts_after_handshake: bool,
    /// Written bytes reach the server only when they are flushed.
    pub(crate) is_buffered: bool,
    /// Maximum bytes per read or write.
    pub(crate) chunk_limit: usize,
    pub(crate) to_server: Option<Fault>,
    pub(crate) to_host: Option<Fault>,
}

/// A fault in one direction of a connection. It occurs after `at` bytes have passed in that
/// direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) kind: FaultKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// This direction ends. The other direction stays open.
    HalfClose,
    /// Both directions end without an error.
    Close,
    /// Both directions end with an error.
    Reset,
    /// No bytes pass for this time.
    Stall(Duration),
    /// No more bytes pass, and the connection stays open.
    StallForever,
    /// Writes succeed, but their bytes are dropped.
    Discard,
}

#[derive(Debug)]
pub(crate) struct CallPlan {
    pub(crate) server: usize,
    /// The name of a tool that no other call uses, so that the server's record identifies the call.
    pub(crate) tool: String,
    pub(crate) delay: Duration,
    pub(crate) deadline: Option<Duration>,
    pub(crate) dropped_after: Option<Duration>,
    pub(crate) padding: usize,
    pub(crate) action: ServerAction,
}

/// What the server does when it receives a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerAction {
    Respond,
    RespondLate(Duration),
    RespondTwice,
    FailTool,
    RespondError,
    Crash,
    CrashBeforeExecution,
    CrashMidResponse,
    CloseOutput,
    Hang,
}

impl SeedPlan {
    pub(crate) fn generate(seed: u64) -> Self {
        let rng = &mut Rng::with_seed(seed);
        let count = rng.usize(1..=MAX_CALLS);
        let servers = rng.usize(1..=3.min(count));
        let calls: Vec<_> = (0..count)
            .map(|number| CallPlan::generate(rng, number, servers))
            .collect();
        let servers = (0..servers).map(|server| {
            let own_calls = calls.iter().filter(|call| call.server == server);
            let traffic = own_calls.map(|call| call.padding + MESSAGE_BYTES).sum();
            ServerPlan::generate(rng, traffic)
        });
        let servers: Vec<_> = servers.collect();
        let reconnect = one_in(rng, 4).then(|| (random_delay(rng), rng.usize(..servers.len())));
        Self {
            servers,
            calls,
            reconnect,
        }
    }

    /// Returns the calls to one server.
    pub(crate) fn calls_of(&self, server: usize) -> impl Iterator<Item = &CallPlan> {
        self.calls.iter().filter(move |call| call.server == server)
    }

    /// Returns whether the plan may make a server stop responding without closing its connection.
    pub(crate) fn may_stall(&self, server: usize) -> bool {
        let is_stall = |fault: &Fault| {
            matches!(
                fault.kind,
                FaultKind::StallForever
                    | FaultKind::Discard
                    | FaultKind::HalfClose
                    | FaultKind::Stall(_)
            )
        };
        let connections = self
            .servers
            .get(server)
            .map_or(&[][..], |plan| &plan.connections);
        let mut faults = connections
            .iter()
            .flat_map(|connection| [&connection.to_server, &connection.to_host]);
        faults.any(|fault| fault.as_ref().is_some_and(is_stall))
            || self
                .calls_of(server)
                .any(|call| call.action == ServerAction::Hang)
    }
}

/// The plan of one seed with a real child process, in real time.
#[derive(Debug)]
pub(crate) struct ChildPlan {
    pub(crate) server: ServerPlan,
    pub(crate) calls: Vec<CallPlan>,
    /// When the test kills the child.
    pub(crate) killed_after: Option<Duration>,
}

impl ChildPlan {
    pub(crate) fn generate(seed: u64) -> Self {
        let rng = &mut Rng::with_seed(seed);
        let count = rng.usize(1..=MAX_CALLS);
        let calls = (0..count).map(|number| CallPlan::generate(rng, number, 1).in_real_time());
        let calls = calls.collect();
        let server = ServerPlan {
            is_serial: false,
            ..ServerPlan::generate(rng, 0)
        };
        let killed_after = one_in(rng, 3).then(|| Duration::from_micros(rng.u64(..20_000)));
        Self {
            server,
            calls,
            killed_after,
        }
    }
}

impl ServerPlan {
    fn generate(rng: &mut Rng, traffic: usize) -> Self {
        let era = if rng.bool() { Era::Legacy } else { Era::Modern };
        let mut connections = vec![ConnectionPlan::first(rng, traffic)];
        while one_in(rng, 2) && connections.len() < 4 {
            connections.push(ConnectionPlan::later(rng, traffic));
        }
        Self {
            era,
            // A modern session keeps a subscription request open, which would block all later
            // requests of a serial server.
            is_serial: era == Era::Legacy && one_in(rng, 3),
            connections,
        }
    }

    /// Returns the script of the server. It has one tool per call, and the tool `probe`, which the
    /// test calls after the faults.
    pub(crate) fn script<'c>(&self, calls: impl IntoIterator<Item = &'c CallPlan>) -> Script {
        let mut script = Script::of_era(self.era)
            .tool("probe")
            .on("tools/call probe", [Step::count("probe"), Step::Default]);
        script.serial = self.is_serial;
        for call in calls {
            let key = format!("tools/call {}", call.tool);
            script = script.tool(&call.tool).on(&key, call.steps());
        }
        script
    }
}

impl ConnectionPlan {
    /// A connection without faults.
    pub(crate) const FAULTLESS: Self = Self {
        is_refused: false,
        starts_after_handshake: false,
        is_buffered: false,
        chunk_limit: usize::MAX,
        to_server: None,
        to_host: None,
    };

    fn first(rng: &mut Rng, traffic: usize) -> Self {
        let mut connection = Self {
            starts_after_handshake: true,
            is_buffered: one_in(rng, 3),
            chunk_limit: chunk_limit(rng),
            ..Self::FAULTLESS
        };
        match rng.u8(..10) {
            // The connection has no faults. Only the [`ServerAction`] of a call can disturb it.
            0 | 1 => {}
            2..=5 => connection.to_server = Some(Fault::in_writes(rng, traffic)),
            6..=8 => connection.to_host = Some(Fault::in_reads(rng, traffic)),
            _ => {
                connection.to_server = Some(Fault::in_writes(rng, traffic));
                connection.to_host = Some(Fault::in_reads(rng, traffic));
            }
        }
        connection
    }

    fn later(rng: &mut Rng, traffic: usize) -> Self {
        Self {
            is_refused: one_in(rng, 4),
            starts_after_handshake: false,
            ..Self::first(rng, HANDSHAKE_BYTES + traffic)
        }
    }
}

impl Fault {
    fn in_writes(rng: &mut Rng, traffic: usize) -> Self {
        let kind = match rng.u8(..12) {
            0..=3 => FaultKind::Close,
            4 | 5 => FaultKind::Reset,
            6 | 7 => FaultKind::HalfClose,
            8 => FaultKind::StallForever,
            9 => FaultKind::Discard,
            _ => FaultKind::Stall(random_stall(rng)),
        };
        Self::at_random_offset(rng, traffic, kind)
    }

    fn in_reads(rng: &mut Rng, traffic: usize) -> Self {
        let kind = match rng.u8(..10) {
            0..=3 => FaultKind::Close,
            4 | 5 => FaultKind::Reset,
            6 => FaultKind::HalfClose,
            7 => FaultKind::StallForever,
            _ => FaultKind::Stall(random_stall(rng)),
        };
        Self::at_random_offset(rng, traffic, kind)
    }

    fn at_random_offset(rng: &mut Rng, traffic: usize, kind: FaultKind) -> Self {
        let at = if one_in(rng, 4) {
            0
        } else {
            rng.usize(..=traffic)
        };
        Self { at, kind }
    }
}

impl CallPlan {
    fn generate(rng: &mut Rng, number: usize, servers: usize) -> Self {
        Self {
            server: rng.usize(..servers),
            tool: format!("work{number}"),
            delay: random_delay(rng),
            deadline: rng.bool().then(|| Duration::from_secs(rng.u64(1..60))),
            dropped_after: one_in(rng, 12).then(|| random_delay(rng)),
            padding: match rng.u8(..8) {
                0 => ABOVE_PIPE_CAPACITY,
                1 | 2 => rng.usize(..400),
                _ => 0,
            },
            action: ServerAction::generate(rng),
        }
    }

    /// Adapts the call to real time: shortens the delays, and sets deadlines that only a call with
    /// [`ServerAction::Hang`] reaches.
    fn in_real_time(self) -> Self {
        let deadline = if self.action == ServerAction::Hang {
            Duration::from_millis(300)
        } else {
            Duration::from_secs(60)
        };
        Self {
            delay: self.delay / 200,
            deadline: Some(deadline),
            dropped_after: self.dropped_after.map(|delay| delay / 200),
            action: match self.action {
                ServerAction::RespondLate(time) => ServerAction::RespondLate(time / 200),
                action => action,
            },
            ..self
        }
    }

    /// The text that the server returns on success.
    pub(crate) fn response_text(&self) -> String {
        format!("{} is done", self.tool)
    }

    fn steps(&self) -> Vec<Step> {
        let count = Step::count(&self.tool);
        let response_text = Step::text(&self.response_text());
        let result = |is_error: bool| {
            let content = [serde_json::json!({"type": "text", "text": self.response_text()})];
            serde_json::json!({"content": content, "isError": is_error, "resultType": "complete"})
        };
        match self.action {
            ServerAction::Respond => vec![count, response_text],
            ServerAction::RespondLate(time) => vec![count, Step::delay(time), response_text],
            ServerAction::RespondTwice => vec![count, Step::ReplyTwice(result(false))],
            ServerAction::FailTool => vec![count, Step::Reply(result(true))],
            ServerAction::RespondError => vec![count, Step::error(-32_000, "not today")],
            ServerAction::Crash => vec![count, Step::Exit(1)],
            ServerAction::CrashBeforeExecution => vec![Step::Abort],
            ServerAction::CrashMidResponse => {
                let half = Step::bytes(r#"{"jsonrpc":"2.0","id":$ID,"result":{"con"#);
                vec![count, half, Step::Exit(0)]
            }
            ServerAction::CloseOutput => vec![count, Step::CloseStdout, Step::Hang],
            ServerAction::Hang => vec![count, Step::Hang],
        }
    }
}

impl ServerAction {
    fn generate(rng: &mut Rng) -> Self {
        match rng.u8(..30) {
            0..=4 => Self::RespondLate(random_delay(rng)),
            5 => Self::RespondTwice,
            6 => Self::FailTool,
            7 | 8 => Self::RespondError,
            9 => Self::Crash,
            10 => Self::CrashBeforeExecution,
            11 => Self::CrashMidResponse,
            12 => Self::CloseOutput,
            13 => Self::Hang,
            _ => Self::Respond,
        }
    }
}

fn one_in(rng: &mut Rng, share: u8) -> bool {
    rng.u8(..share) == 0
}

/// Returns a random delay, which is zero in most cases.
fn random_delay(rng: &mut Rng) -> Duration {
    match rng.u8(..8) {
        0..=4 => Duration::ZERO,
        5 | 6 => Duration::from_millis(rng.u64(1..50)),
        _ => Duration::from_millis(rng.u64(50..8_000)),
    }
}

fn random_stall(rng: &mut Rng) -> Duration {
    if rng.bool() {
        LONG_STALL
    } else {
        random_delay(rng)
    }
}

fn chunk_limit(rng: &mut Rng) -> usize {
    match rng.u8(..4) {
        0 => rng.usize(1..4),
        1 => rng.usize(4..200),
        _ => usize::MAX,
    }
}
