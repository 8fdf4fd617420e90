//! The plan of one seed: a server, calls and faults. The plan is generated before the run of the
//! seed starts.
//!
//! Pure: a seed always yields the same plan, so a failed seed can be repeated.

use std::time::Duration;

use fastrand::Rng;
use switchboard_config::RemoteKind;
use switchboard_testkit::http::{Fault, Mode, ResponseFormat};
use switchboard_testkit::{Era, Script, Step};

/// Maximum number of concurrent calls of one seed.
const MAX_CALLS: usize = 6;
/// Approximate size of one request or response in bytes, including the HTTP head.
const MESSAGE_BYTES: usize = 500;
/// A number of bytes that the socket buffers cannot hold. A write of this size blocks until the
/// reader has read a part of it.
const ABOVE_SOCKET_BUFFERS: usize = 3_000_000;
/// The deadline of the calls of a plan with a fault that can make a call hang.
const SHORT_DEADLINE: Duration = Duration::from_secs(2);
/// The deadline of the calls of a plan without a fault that can make a call hang. No call of
/// such a plan takes that long.
const LONG_DEADLINE: Duration = Duration::from_secs(60);

/// The plan of one seed.
#[derive(Debug)]
pub(crate) struct SeedPlan {
    pub(crate) transport: Transport,
    pub(crate) calls: Vec<CallPlan>,
    /// Faults of the HTTP server.
    pub(crate) faults: Vec<Fault>,
    /// Faults between host and server: the seed of the proxy that causes them, and the number of
    /// bytes of a connection within which they occur.
    pub(crate) network: Option<(u64, usize)>,
    /// What happens to the server during the calls, and when.
    pub(crate) disruption: Option<(Duration, Disruption)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    ModernJson,
    ModernEvents,
    LegacyJson,
    LegacyEvents,
    /// HTTP with SSE, protocol version 2024-11-05.
    Sse2024,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disruption {
    DropConnections,
    ExpireSessions,
    Restart,
    /// The server is down until the calls are over.
    Stop,
}

#[derive(Debug)]
pub(crate) struct CallPlan {
    /// The name of a tool that no other call uses, so that the server's record identifies the call.
    pub(crate) tool: String,
    pub(crate) after: Duration,
    pub(crate) deadline: Duration,
    pub(crate) dropped_after: Option<Duration>,
    pub(crate) padding: usize,
    pub(crate) action: ServerAction,
}

/// What the server does when it receives a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerAction {
    Respond,
    RespondLate(Duration),
    /// Sends a notification before the response.
    NotifyThenRespond,
}

impl SeedPlan {
    pub(crate) fn generate(seed: u64) -> Self {
        let rng = &mut Rng::with_seed(seed);
        let transport = Transport::ALL[rng.usize(..Transport::ALL.len())];
        let count = rng.usize(1..=MAX_CALLS);
        let mut calls: Vec<_> = (0..count)
            .map(|number| CallPlan::generate(rng, number))
            .collect();
        let mut faults = Vec::new();
        let mut network = None;
        let mut disruption = None;
        match rng.u8(..10) {
            0..=4 => faults = random_faults(rng, count),
            5..=7 => network = Some((rng.u64(..), random_fault_reach(rng, &calls))),
            8 => disruption = Some(random_disruption(rng)),
            _ => {
                faults = random_faults(rng, count);
                network = Some((rng.u64(..), random_fault_reach(rng, &calls)));
                disruption = Some(random_disruption(rng));
            }
        }
        let is_stopped = matches!(disruption, Some((_, Disruption::Stop)));
        if faults.is_empty() && network.is_none() && !is_stopped {
            for call in &mut calls {
                call.deadline = LONG_DEADLINE;
            }
        }
        Self {
            transport,
            calls,
            faults,
            network,
            disruption,
        }
    }

    /// Returns the script of the server. It has one tool per call, and the tool `probe`, which the
    /// test calls after the faults.
    pub(crate) fn script(&self) -> Script {
        let mut script = Script::of_era(self.transport.era())
            .tool("probe")
            .on("tools/call probe", [Step::text("probe")]);
        for call in &self.calls {
            let key = format!("tools/call {}", call.tool);
            script = script.tool(&call.tool).on(&key, call.steps());
        }
        script
    }
}

impl Transport {
    const ALL: [Self; 5] = [
        Self::ModernJson,
        Self::ModernEvents,
        Self::LegacyJson,
        Self::LegacyEvents,
        Self::Sse2024,
    ];

    fn era(self) -> Era {
        match self {
            Self::ModernJson | Self::ModernEvents => Era::Modern,
            Self::LegacyJson | Self::LegacyEvents | Self::Sse2024 => Era::Legacy,
        }
    }

    pub(crate) fn mode(self) -> Mode {
        let streamable = |format| Mode::Streamable {
            format,
            session: true,
            get_stream: true,
        };
        match self {
            Self::ModernJson | Self::LegacyJson => streamable(ResponseFormat::Json),
            Self::ModernEvents | Self::LegacyEvents => streamable(ResponseFormat::Sse),
            Self::Sse2024 => Mode::LegacySse,
        }
    }

    pub(crate) fn kind(self) -> RemoteKind {
        match self {
            Self::Sse2024 => RemoteKind::Sse,
            _ => RemoteKind::Http,
        }
    }
}

impl CallPlan {
    fn generate(rng: &mut Rng, number: usize) -> Self {
        Self {
            tool: format!("work{number}"),
            after: random_delay(rng),
            deadline: SHORT_DEADLINE,
            dropped_after: one_in(rng, 12).then(|| random_delay(rng)),
            padding: match rng.u8(..24) {
                0 => ABOVE_SOCKET_BUFFERS,
                1..=4 => rng.usize(..20_000),
                _ => 0,
            },
            action: match rng.u8(..6) {
                0 => ServerAction::RespondLate(Duration::from_millis(rng.u64(1..30))),
                1 => ServerAction::NotifyThenRespond,
                _ => ServerAction::Respond,
            },
        }
    }

    /// The text that the server returns on success.
    pub(crate) fn response_text(&self) -> String {
        format!("{} is done", self.tool)
    }

    fn steps(&self) -> Vec<Step> {
        let response_text = Step::text(&self.response_text());
        match self.action {
            ServerAction::Respond => vec![response_text],
            ServerAction::RespondLate(time) => vec![Step::delay(time), response_text],
            ServerAction::NotifyThenRespond => {
                vec![Step::notify("notifications/message"), response_text]
            }
        }
    }
}

/// Returns the number of bytes of a connection within which faults occur: either its first exchange
/// or all its traffic.
fn random_fault_reach(rng: &mut Rng, calls: &[CallPlan]) -> usize {
    let all: usize = calls.iter().map(|call| call.padding + MESSAGE_BYTES).sum();
    if rng.bool() { 2 * MESSAGE_BYTES } else { all }
}

fn random_faults(rng: &mut Rng, calls: usize) -> Vec<Fault> {
    let count = rng.usize(1..=3);
    (0..count).map(|_| random_fault(rng, calls)).collect()
}

fn random_fault(rng: &mut Rng, calls: usize) -> Fault {
    let fault = match rng.u8(..20) {
        0 => return Fault::close_on_accept().nth(rng.usize(1..=3)),
        1 | 2 => Fault::close_in_body(),
        3 | 4 => Fault::close_before_execution(),
        5..=7 => Fault::close_after_execution(),
        8..=10 => Fault::close_in_response(rng.usize(..MESSAGE_BYTES)),
        11 => Fault::close_after_response(),
        12 => Fault::end_stream(),
        13 => Fault::status(*choose(rng, &[400, 413, 429])),
        14 => Fault::status(*choose(rng, &[500, 502, 503])),
        15 => Fault::status(*choose(rng, &[500, 502, 504])).after_execution(),
        16 => Fault::raw("HTTP/1.1 what\r\n\r\n").after_execution(),
        17 => Fault::hang(),
        18 => Fault::hang().after_execution(),
        _ => Fault::slow(rng.usize(1..60), Duration::from_millis(1)),
    };
    let fault = if one_in(rng, 3) {
        fault.with_reset()
    } else {
        fault
    };
    fault.on("tools/call").nth(rng.usize(1..=calls))
}

fn random_disruption(rng: &mut Rng) -> (Duration, Disruption) {
    let disruption = [
        Disruption::DropConnections,
        Disruption::ExpireSessions,
        Disruption::Restart,
        Disruption::Stop,
    ];
    (random_delay(rng), *choose(rng, &disruption))
}

fn choose<'a, T>(rng: &mut Rng, values: &'a [T]) -> &'a T {
    &values[rng.usize(..values.len())]
}

fn one_in(rng: &mut Rng, share: u8) -> bool {
    rng.u8(..share) == 0
}

/// Returns a random delay, which is zero in most cases.
fn random_delay(rng: &mut Rng) -> Duration {
    match rng.u8(..8) {
        0..=4 => Duration::ZERO,
        _ => Duration::from_micros(rng.u64(..20_000)),
    }
}
