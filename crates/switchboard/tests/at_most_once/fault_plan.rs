//! What one seed does: servers, calls and faults, drawn before anything runs.
//!
//! Pure: a seed always yields the same plan, so that a seed that failed can be looked at again.

use std::time::Duration;

use fastrand::Rng;
use switchboard_testkit::{Era, Script, Step};

/// How many calls of one seed are under way at once, at most.
const MOST_CALLS: usize = 16;
/// About as long as a request or its answer is.
const ONE_MESSAGE: usize = 130;
/// About as long as all is that one side says until a session is listed.
const UNTIL_LISTED: usize = 2_500;
/// More than fits between host and server, so that a write cannot be done at once.
const MORE_THAN_A_PIPE: usize = 70_000;
/// A stall past every deadline that a caller of these seeds sets.
const PAST_DEADLINES: Duration = Duration::from_secs(90);

/// One seed, drawn.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) servers: Vec<ServerPlan>,
    pub(crate) calls: Vec<CallPlan>,
    /// When somebody orders a server to be reconnected, and which.
    pub(crate) reconnect: Option<(Duration, usize)>,
}

#[derive(Debug)]
pub(crate) struct ServerPlan {
    era: Era,
    /// It answers one request after the other.
    is_serial: bool,
    /// What happens to the n-th connection; later ones are sound.
    pub(crate) links: Vec<LinkPlan>,
}

/// What happens to one connection.
#[derive(Clone, Debug)]
pub(crate) struct LinkPlan {
    /// It cannot be opened at all.
    pub(crate) is_refused: bool,
    /// Bytes are counted only once the calls begin.
    pub(crate) spares_handshake: bool,
    /// What is written reaches the server when it is flushed.
    pub(crate) is_buffered: bool,
    /// How many bytes go through at once, at most.
    pub(crate) piece: usize,
    pub(crate) to_server: Option<Fault>,
    pub(crate) to_host: Option<Fault>,
}

/// A fault of one direction, and after how many bytes it comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// This direction ends; the other goes on.
    HalfClose,
    /// Both directions end, as with a clean close.
    Close,
    /// Both directions end, with an error.
    Reset,
    /// Nothing passes for so long.
    Stall(Duration),
    /// Nothing passes any more.
    Silence,
    /// What is written is taken and lost.
    Swallow,
}

#[derive(Debug)]
pub(crate) struct CallPlan {
    pub(crate) server: usize,
    /// Its tool, which nobody else calls.
    pub(crate) tool: String,
    pub(crate) after: Duration,
    pub(crate) deadline: Option<Duration>,
    pub(crate) dropped_after: Option<Duration>,
    pub(crate) padding: usize,
    pub(crate) deed: Deed,
}

/// What the server does about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Answer,
    AnswerLate(Duration),
    AnswerTwice,
    FailTool,
    Refuse,
    Die,
    DieFirst,
    DieInAnswer,
    CloseOutput,
    Hang,
}

impl Plan {
    pub(crate) fn draw(seed: u64) -> Self {
        let rng = &mut Rng::with_seed(seed);
        let count = rng.usize(1..=MOST_CALLS);
        let servers = rng.usize(1..=3.min(count));
        let calls: Vec<_> = (0..count)
            .map(|number| CallPlan::draw(rng, number, servers))
            .collect();
        let servers = (0..servers).map(|server| {
            let mine = calls.iter().filter(|call| call.server == server);
            let traffic = mine.map(|call| call.padding + ONE_MESSAGE).sum();
            ServerPlan::draw(rng, traffic)
        });
        let servers: Vec<_> = servers.collect();
        let reconnect = one_in(rng, 4).then(|| (pause(rng), rng.usize(..servers.len())));
        Self {
            servers,
            calls,
            reconnect,
        }
    }

    /// The calls of one server.
    pub(crate) fn calls_of(&self, server: usize) -> impl Iterator<Item = &CallPlan> {
        self.calls.iter().filter(move |call| call.server == server)
    }

    /// Whether a server may fall silent without its connection ending.
    pub(crate) fn may_fall_silent(&self, server: usize) -> bool {
        let is_silent = |fault: &Fault| {
            matches!(
                fault.how,
                How::Silence | How::Swallow | How::HalfClose | How::Stall(_)
            )
        };
        let links = self.servers.get(server).map_or(&[][..], |plan| &plan.links);
        let mut faults = links
            .iter()
            .flat_map(|link| [&link.to_server, &link.to_host]);
        faults.any(|fault| fault.as_ref().is_some_and(is_silent))
            || self.calls_of(server).any(|call| call.deed == Deed::Hang)
    }
}

/// One seed for a real child, which lives in real time.
#[derive(Debug)]
pub(crate) struct ChildPlan {
    pub(crate) server: ServerPlan,
    pub(crate) calls: Vec<CallPlan>,
    /// When somebody kills it.
    pub(crate) killed_after: Option<Duration>,
}

impl ChildPlan {
    pub(crate) fn draw(seed: u64) -> Self {
        let rng = &mut Rng::with_seed(seed);
        let count = rng.usize(1..=MOST_CALLS);
        let calls = (0..count).map(|number| CallPlan::draw(rng, number, 1).hurried());
        let calls = calls.collect();
        let server = ServerPlan {
            is_serial: false,
            ..ServerPlan::draw(rng, 0)
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
    fn draw(rng: &mut Rng, traffic: usize) -> Self {
        let era = if rng.bool() { Era::Legacy } else { Era::Modern };
        let mut links = vec![LinkPlan::first(rng, traffic)];
        while one_in(rng, 2) && links.len() < 4 {
            links.push(LinkPlan::later(rng, traffic));
        }
        Self {
            era,
            // In a modern session a subscription stays open, and nothing would come after it.
            is_serial: era == Era::Legacy && one_in(rng, 3),
            links,
        }
    }

    /// The server, with a tool for each of these calls and one to see whether it is back.
    pub(crate) fn script<'c>(&self, calls: impl IntoIterator<Item = &'c CallPlan>) -> Script {
        let mut script = Script::of_era(self.era)
            .tool("fresh")
            .on("tools/call fresh", [Step::count("fresh"), Step::Default]);
        script.serial = self.is_serial;
        for call in calls {
            let key = format!("tools/call {}", call.tool);
            script = script.tool(&call.tool).on(&key, call.steps());
        }
        script
    }
}

impl LinkPlan {
    /// A connection to which nothing happens.
    pub(crate) const SOUND: Self = Self {
        is_refused: false,
        spares_handshake: false,
        is_buffered: false,
        piece: usize::MAX,
        to_server: None,
        to_host: None,
    };

    fn first(rng: &mut Rng, traffic: usize) -> Self {
        let mut link = Self {
            spares_handshake: true,
            is_buffered: one_in(rng, 3),
            piece: piece(rng),
            ..Self::SOUND
        };
        match rng.u8(..10) {
            // Its server's deeds are fault enough.
            0 | 1 => {}
            2..=5 => link.to_server = Some(Fault::of_writing(rng, traffic)),
            6..=8 => link.to_host = Some(Fault::of_reading(rng, traffic)),
            _ => {
                link.to_server = Some(Fault::of_writing(rng, traffic));
                link.to_host = Some(Fault::of_reading(rng, traffic));
            }
        }
        link
    }

    fn later(rng: &mut Rng, traffic: usize) -> Self {
        Self {
            is_refused: one_in(rng, 4),
            spares_handshake: false,
            ..Self::first(rng, UNTIL_LISTED + traffic)
        }
    }
}

impl Fault {
    fn of_writing(rng: &mut Rng, traffic: usize) -> Self {
        let how = match rng.u8(..12) {
            0..=3 => How::Close,
            4 | 5 => How::Reset,
            6 | 7 => How::HalfClose,
            8 => How::Silence,
            9 => How::Swallow,
            _ => How::Stall(stall(rng)),
        };
        Self::somewhere(rng, traffic, how)
    }

    fn of_reading(rng: &mut Rng, traffic: usize) -> Self {
        let how = match rng.u8(..10) {
            0..=3 => How::Close,
            4 | 5 => How::Reset,
            6 => How::HalfClose,
            7 => How::Silence,
            _ => How::Stall(stall(rng)),
        };
        Self::somewhere(rng, traffic, how)
    }

    fn somewhere(rng: &mut Rng, traffic: usize, how: How) -> Self {
        let at = if one_in(rng, 4) {
            0
        } else {
            rng.usize(..=traffic)
        };
        Self { at, how }
    }
}

impl CallPlan {
    fn draw(rng: &mut Rng, number: usize, servers: usize) -> Self {
        Self {
            server: rng.usize(..servers),
            tool: format!("work{number}"),
            after: pause(rng),
            deadline: rng.bool().then(|| Duration::from_secs(rng.u64(1..60))),
            dropped_after: one_in(rng, 12).then(|| pause(rng)),
            padding: match rng.u8(..8) {
                0 => MORE_THAN_A_PIPE,
                1 | 2 => rng.usize(..400),
                _ => 0,
            },
            deed: Deed::draw(rng),
        }
    }

    /// The same in real time: shorter pauses, and deadlines that only a call without an answer meets.
    fn hurried(self) -> Self {
        let deadline = if self.deed == Deed::Hang {
            Duration::from_millis(300)
        } else {
            Duration::from_secs(60)
        };
        Self {
            after: self.after / 200,
            deadline: Some(deadline),
            dropped_after: self.dropped_after.map(|after| after / 200),
            deed: match self.deed {
                Deed::AnswerLate(time) => Deed::AnswerLate(time / 200),
                deed => deed,
            },
            ..self
        }
    }

    /// What the server says when all goes well.
    pub(crate) fn answer(&self) -> String {
        format!("{} is done", self.tool)
    }

    fn steps(&self) -> Vec<Step> {
        let count = Step::count(&self.tool);
        let answer = Step::text(&self.answer());
        let result = |is_error: bool| {
            let content = [serde_json::json!({"type": "text", "text": self.answer()})];
            serde_json::json!({"content": content, "isError": is_error, "resultType": "complete"})
        };
        match self.deed {
            Deed::Answer => vec![count, answer],
            Deed::AnswerLate(time) => vec![count, Step::delay(time), answer],
            Deed::AnswerTwice => vec![count, Step::ReplyTwice(result(false))],
            Deed::FailTool => vec![count, Step::Reply(result(true))],
            Deed::Refuse => vec![count, Step::error(-32_000, "not today")],
            Deed::Die => vec![count, Step::Exit(1)],
            Deed::DieFirst => vec![Step::Abort],
            Deed::DieInAnswer => {
                let half = Step::bytes(r#"{"jsonrpc":"2.0","id":$ID,"result":{"con"#);
                vec![count, half, Step::Exit(0)]
            }
            Deed::CloseOutput => vec![count, Step::CloseStdout, Step::Hang],
            Deed::Hang => vec![count, Step::Hang],
        }
    }
}

impl Deed {
    fn draw(rng: &mut Rng) -> Self {
        match rng.u8(..30) {
            0..=4 => Self::AnswerLate(pause(rng)),
            5 => Self::AnswerTwice,
            6 => Self::FailTool,
            7 | 8 => Self::Refuse,
            9 => Self::Die,
            10 => Self::DieFirst,
            11 => Self::DieInAnswer,
            12 => Self::CloseOutput,
            13 => Self::Hang,
            _ => Self::Answer,
        }
    }
}

fn one_in(rng: &mut Rng, share: u8) -> bool {
    rng.u8(..share) == 0
}

/// No time at all, most often.
fn pause(rng: &mut Rng) -> Duration {
    match rng.u8(..8) {
        0..=4 => Duration::ZERO,
        5 | 6 => Duration::from_millis(rng.u64(1..50)),
        _ => Duration::from_millis(rng.u64(50..8_000)),
    }
}

fn stall(rng: &mut Rng) -> Duration {
    if rng.bool() {
        PAST_DEADLINES
    } else {
        pause(rng)
    }
}

fn piece(rng: &mut Rng) -> usize {
    match rng.u8(..4) {
        0 => rng.usize(1..4),
        1 => rng.usize(4..200),
        _ => usize::MAX,
    }
}
