//! What one seed does: a server, calls and faults, drawn before anything runs.
//!
//! Pure: a seed always yields the same plan, so that a seed that failed can be looked at again.

use std::time::Duration;

use fastrand::Rng;
use switchboard_config::RemoteKind;
use switchboard_testkit::http::{Fault, Mode, ResponseFormat};
use switchboard_testkit::{Era, Script, Step};

/// How many calls of one seed are under way at once, at most.
const MOST_CALLS: usize = 6;
/// About as long as a request or its answer is, head included.
const ONE_MESSAGE: usize = 500;
/// More than fits between two sockets, so that a write cannot be done at once.
const MORE_THAN_SOCKETS_HOLD: usize = 3_000_000;
/// How long a caller waits where the plan may leave him without an answer.
const SHORT: Duration = Duration::from_secs(2);
/// And where it does not: for ever, as far as these tests go.
const LONG: Duration = Duration::from_secs(60);

/// One seed, drawn.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) transport: Transport,
    pub(crate) calls: Vec<CallPlan>,
    /// What the server itself gets wrong.
    pub(crate) faults: Vec<Fault>,
    /// The seed of what goes wrong between host and server, and within how many bytes.
    pub(crate) network: Option<(u64, usize)>,
    /// What somebody does to the server meanwhile, and when.
    pub(crate) meddling: Option<(Duration, Meddling)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    ModernJson,
    ModernEvents,
    LegacyJson,
    LegacyEvents,
    /// The oldest one.
    EventStream,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meddling {
    DropConnections,
    ExpireSessions,
    Restart,
    /// It is gone until the calls are over.
    Stop,
}

#[derive(Debug)]
pub(crate) struct CallPlan {
    /// Its tool, which nobody else calls.
    pub(crate) tool: String,
    pub(crate) after: Duration,
    pub(crate) deadline: Duration,
    pub(crate) dropped_after: Option<Duration>,
    pub(crate) padding: usize,
    pub(crate) deed: Deed,
}

/// What the server does about a call that reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Answer,
    AnswerLate(Duration),
    /// Says something else first.
    AnswerSecond,
}

impl Plan {
    pub(crate) fn draw(seed: u64) -> Self {
        let rng = &mut Rng::with_seed(seed);
        let transport = Transport::ALL[rng.usize(..Transport::ALL.len())];
        let count = rng.usize(1..=MOST_CALLS);
        let mut calls: Vec<_> = (0..count)
            .map(|number| CallPlan::draw(rng, number))
            .collect();
        let mut faults = Vec::new();
        let mut network = None;
        let mut meddling = None;
        match rng.u8(..10) {
            0..=4 => faults = draw_faults(rng, count),
            5..=7 => network = Some((rng.u64(..), draw_reach(rng, &calls))),
            8 => meddling = Some(draw_meddling(rng)),
            _ => {
                faults = draw_faults(rng, count);
                network = Some((rng.u64(..), draw_reach(rng, &calls)));
                meddling = Some(draw_meddling(rng));
            }
        }
        let is_gone = matches!(meddling, Some((_, Meddling::Stop)));
        if faults.is_empty() && network.is_none() && !is_gone {
            for call in &mut calls {
                call.deadline = LONG;
            }
        }
        Self {
            transport,
            calls,
            faults,
            network,
            meddling,
        }
    }

    /// The server, with a tool for each call and one to see whether it is back.
    pub(crate) fn script(&self) -> Script {
        let mut script = Script::of_era(self.transport.era())
            .tool("fresh")
            .on("tools/call fresh", [Step::text("fresh")]);
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
        Self::EventStream,
    ];

    fn era(self) -> Era {
        match self {
            Self::ModernJson | Self::ModernEvents => Era::Modern,
            Self::LegacyJson | Self::LegacyEvents | Self::EventStream => Era::Legacy,
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
            Self::EventStream => Mode::LegacySse,
        }
    }

    pub(crate) fn kind(self) -> RemoteKind {
        match self {
            Self::EventStream => RemoteKind::Sse,
            _ => RemoteKind::Http,
        }
    }
}

impl CallPlan {
    fn draw(rng: &mut Rng, number: usize) -> Self {
        Self {
            tool: format!("work{number}"),
            after: pause(rng),
            deadline: SHORT,
            dropped_after: one_in(rng, 12).then(|| pause(rng)),
            padding: match rng.u8(..24) {
                0 => MORE_THAN_SOCKETS_HOLD,
                1..=4 => rng.usize(..20_000),
                _ => 0,
            },
            deed: match rng.u8(..6) {
                0 => Deed::AnswerLate(Duration::from_millis(rng.u64(1..30))),
                1 => Deed::AnswerSecond,
                _ => Deed::Answer,
            },
        }
    }

    /// What the server says when all goes well.
    pub(crate) fn answer(&self) -> String {
        format!("{} is done", self.tool)
    }

    fn steps(&self) -> Vec<Step> {
        let answer = Step::text(&self.answer());
        match self.deed {
            Deed::Answer => vec![answer],
            Deed::AnswerLate(time) => vec![Step::delay(time), answer],
            Deed::AnswerSecond => vec![Step::notify("notifications/message"), answer],
        }
    }
}

/// How far into the traffic of a connection faults reach: into the first exchange on it, or all.
fn draw_reach(rng: &mut Rng, calls: &[CallPlan]) -> usize {
    let all: usize = calls.iter().map(|call| call.padding + ONE_MESSAGE).sum();
    if rng.bool() { 2 * ONE_MESSAGE } else { all }
}

fn draw_faults(rng: &mut Rng, calls: usize) -> Vec<Fault> {
    let count = rng.usize(1..=3);
    (0..count).map(|_| draw_fault(rng, calls)).collect()
}

fn draw_fault(rng: &mut Rng, calls: usize) -> Fault {
    let fault = match rng.u8(..20) {
        0 => return Fault::close_on_accept().nth(rng.usize(1..=3)),
        1 | 2 => Fault::close_in_body(),
        3 | 4 => Fault::close_before_execution(),
        5..=7 => Fault::close_after_execution(),
        8..=10 => Fault::close_in_answer(rng.usize(..ONE_MESSAGE)),
        11 => Fault::close_after_answer(),
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

fn draw_meddling(rng: &mut Rng) -> (Duration, Meddling) {
    let meddling = [
        Meddling::DropConnections,
        Meddling::ExpireSessions,
        Meddling::Restart,
        Meddling::Stop,
    ];
    (pause(rng), *choose(rng, &meddling))
}

fn choose<'a, T>(rng: &mut Rng, among: &'a [T]) -> &'a T {
    &among[rng.usize(..among.len())]
}

fn one_in(rng: &mut Rng, share: u8) -> bool {
    rng.u8(..share) == 0
}

/// No time at all, most often.
fn pause(rng: &mut Rng) -> Duration {
    match rng.u8(..8) {
        0..=4 => Duration::ZERO,
        _ => Duration::from_micros(rng.u64(..20_000)),
    }
}
