//! Plays a stand-in, on the stdin and stdout of this process.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid, kill_process};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::frames;
use super::stdin_reader::{StdinEvent, StdinReader};
use super::{FAKE_CLAUDE_TEXT, FAKE_CLAUDE_VARIABLE, FakeClaude, FakeStep};

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// `EX_USAGE` of sysexits.h: there is no script, or it is none.
const USAGE: i32 = 64;
/// `EX_SOFTWARE`: what the script waits for did not come.
const IN_VAIN: i32 = 70;
/// How much filler is written at once.
const PIECE: usize = 64 * 1024;

/// The code to exit with.
struct Exit(i32);

/// Plays the script that the environment holds, and returns the exit code.
#[expect(
    clippy::disallowed_methods,
    reason = "a host starts it with arguments of its own, so the script comes by the environment"
)]
pub fn run() -> i32 {
    if std::env::args().any(|argument| argument == "--version") {
        let _ = writeln!(io::stdout(), "0.0.0 (Claude Code)");
        return 0;
    }
    let text = std::env::var(FAKE_CLAUDE_VARIABLE).unwrap_or_else(|_| "{}".to_owned());
    let script: FakeClaude = match serde_json::from_str(&text) {
        Ok(script) => script,
        Err(error) => return complain(USAGE, &format!("{FAKE_CLAUDE_VARIABLE}: {error}")),
    };
    let record = match script.record.as_deref().map(begin_record).transpose() {
        Ok(record) => record,
        Err(error) => return complain(USAGE, &format!("the record: {error}")),
    };
    let mut player = Player::new(record);
    let ended = script.acts.iter().try_for_each(|act| player.act(act));
    let Exit(code) = match ended {
        Ok(()) => player.be_polite(),
        Err(exit) => exit,
    };
    code
}

fn complain(code: i32, reason: &str) -> i32 {
    let _ = writeln!(io::stderr(), "fake-claude: {reason}");
    code
}

/// Writes down how this process was started. Of the environment only what concerns a CLI.
#[expect(
    clippy::disallowed_methods,
    reason = "the test wants to know what the host has handed on"
)]
fn begin_record(path: &Path) -> io::Result<File> {
    let concerns = |name: &str| name.starts_with("CLAUDE") || name.starts_with("ANTHROPIC");
    let variables = std::env::vars().filter(|(name, _)| concerns(name) || name == "PWD");
    let environment: HashMap<String, String> = variables.collect();
    let started = json!({
        "arguments": std::env::args().skip(1).collect::<Vec<_>>(),
        "directory": std::env::current_dir()?,
        "environment": environment,
    });
    let mut file = File::create(path)?;
    writeln!(file, "{}", json!({"started": started}))?;
    Ok(file)
}

struct Player {
    stdin: Arc<StdinReader>,
    /// Messages of the user that came before they were awaited.
    users: VecDeque<Value>,
    /// The request that is to be answered.
    awaited: Value,
    /// Answers that came, by the ids of what they answer.
    answers: HashMap<String, Value>,
    last_answer: Value,
    /// How many requests were made.
    asked: u64,
}

impl Player {
    fn new(record: Option<File>) -> Self {
        Self {
            stdin: StdinReader::open(record),
            users: VecDeque::new(),
            awaited: Value::Null,
            answers: HashMap::new(),
            last_answer: Value::Null,
            asked: 0,
        }
    }

    fn act(&mut self, act: &FakeStep) -> Result<(), Exit> {
        match act {
            FakeStep::AwaitRequest(subtype) => self.await_request(subtype),
            FakeStep::AwaitUser => self.await_user(),
            FakeStep::AwaitEof => {
                self.read_to_end();
                Ok(())
            }
            FakeStep::Answer(payload) => self.answer(Ok(payload.clone())),
            FakeStep::AnswerEmpty => self.answer(Ok(Value::Null)),
            FakeStep::AnswerError(error) => self.answer(Err(error.clone())),
            FakeStep::AnswerDefault => {
                let request = self.awaited.get("request").cloned().unwrap_or_default();
                self.answer(frames::comply(&request))
            }
            FakeStep::Request(request) => {
                self.start(request)?;
                self.await_answer()
            }
            FakeStep::StartRequest(request) => self.start(request),
            FakeStep::CancelRequest => say(&frames::cancel(&id(self.asked))),
            FakeStep::AwaitResponse => self.await_answer(),
            FakeStep::ConcurrentCalls {
                server,
                tool,
                count,
            } => self.crowd(server, tool, *count),
            FakeStep::ReportResponse => end_turn(&self.last_answer.to_string()),
            FakeStep::Exit(code) => Err(Exit(*code)),
            FakeStep::Silence => {
                self.read_to_end();
                Err(Exit(0))
            }
            said => speak(said),
        }
    }

    /// What the next message is, after what can be dealt with at once.
    fn next(&mut self, what: &str) -> Result<Value, Exit> {
        match self.stdin.next(Instant::now() + PATIENCE) {
            StdinEvent::Message(message) => Ok(message),
            StdinEvent::End => Err(Exit(0)),
            StdinEvent::TooLate => {
                let reason = format!("waited in vain for {what}");
                Err(Exit(complain(IN_VAIN, &reason)))
            }
        }
    }

    /// Deals with a message that is not the awaited one.
    fn deal_with(&mut self, message: Value) -> Result<(), Exit> {
        match kind(&message) {
            "control_request" => {
                let request = message.get("request").cloned().unwrap_or_default();
                say(&frames::response(&message, frames::comply(&request)))
            }
            "control_response" => {
                let response = message.get("response").cloned().unwrap_or_default();
                let id = response.get("request_id").and_then(Value::as_str);
                let id = id.unwrap_or_default().to_owned();
                self.answers.insert(id, response);
                Ok(())
            }
            "user" => {
                self.users.push_back(message);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn await_request(&mut self, subtype: &str) -> Result<(), Exit> {
        loop {
            let message = self.next(subtype)?;
            let found = message.pointer("/request/subtype").and_then(Value::as_str);
            if found == Some(subtype) {
                self.awaited = message;
                return Ok(());
            }
            self.deal_with(message)?;
        }
    }

    fn await_user(&mut self) -> Result<(), Exit> {
        while self.users.pop_front().is_none() {
            let message = self.next("a message of the user")?;
            self.deal_with(message)?;
        }
        Ok(())
    }

    fn answer(&mut self, outcome: Result<Value, String>) -> Result<(), Exit> {
        say(&frames::response(&self.awaited, outcome))
    }

    fn start(&mut self, request: &Value) -> Result<(), Exit> {
        self.asked += 1;
        say(&frames::request(&id(self.asked), request))
    }

    fn await_answer(&mut self) -> Result<(), Exit> {
        self.last_answer = self.take_answer(self.asked)?;
        Ok(())
    }

    fn take_answer(&mut self, number: u64) -> Result<Value, Exit> {
        let id = id(number);
        loop {
            if let Some(answer) = self.answers.remove(&id) {
                return Ok(answer);
            }
            let message = self.next(&format!("the answer to {id}"))?;
            self.deal_with(message)?;
        }
    }

    fn crowd(&mut self, server: &str, tool: &str, count: u64) -> Result<(), Exit> {
        let first = self.asked + 1;
        for number in first..first + count {
            self.start(&frames::call(server, tool, number))?;
        }
        let mut own = 0;
        for number in first..first + count {
            let answer = self.take_answer(number)?;
            own += u64::from(frames::is_own(&answer, number));
        }
        self.last_answer = json!({"answered": count, "own": own, "left": self.answers.len()});
        Ok(())
    }

    /// Agrees to everything, and has a turn for each message of the user, until stdin ends.
    fn be_polite(&mut self) -> Exit {
        loop {
            let turn = self.await_user().and_then(|()| {
                begin_turn()?;
                say(&frames::assistant(FAKE_CLAUDE_TEXT))?;
                end_turn(FAKE_CLAUDE_TEXT)
            });
            if let Err(exit) = turn {
                return exit;
            }
        }
    }

    /// Reads until stdin has ended, and says nothing.
    fn read_to_end(&mut self) {
        while !matches!(self.stdin.next(Instant::now() + PATIENCE), StdinEvent::End) {}
    }
}

/// What needs nothing of what was read.
fn speak(act: &FakeStep) -> Result<(), Exit> {
    match act {
        FakeStep::Send(message) => say(message),
        FakeStep::Raw(line) => write(&[line, "\n"]),
        FakeStep::Bytes(text) => write(&[text]),
        FakeStep::Flood { message, times } => (0..*times).try_for_each(|_| say(message)),
        FakeStep::LongLine(bytes) => say_long(*bytes),
        FakeStep::Stderr(line) => {
            let _ = writeln!(io::stderr(), "{line}");
            Ok(())
        }
        FakeStep::BeginTurn => begin_turn(),
        FakeStep::EndTurn(text) => end_turn(text),
        FakeStep::Turn(text) => {
            begin_turn()?;
            say(&frames::assistant(text))?;
            end_turn(text)
        }
        FakeStep::KillSelf(number) => {
            die(*number);
            Err(Exit(IN_VAIN))
        }
        FakeStep::IgnoreShutdown => Err(stay()),
        other => Err(Exit(complain(USAGE, &format!("{other:?} was not played")))),
    }
}

/// How the requests of this process are called.
fn id(number: u64) -> String {
    format!("ask-{number}")
}

fn kind(message: &Value) -> &str {
    let kind = message.get("type").and_then(Value::as_str);
    kind.unwrap_or_default()
}

fn begin_turn() -> Result<(), Exit> {
    say(&frames::state("running"))?;
    say(&frames::init())
}

fn end_turn(text: &str) -> Result<(), Exit> {
    say(&frames::result(text))?;
    say(&frames::state("idle"))
}

fn say(message: &Value) -> Result<(), Exit> {
    write(&[&message.to_string(), "\n"])
}

fn say_long(bytes: usize) -> Result<(), Exit> {
    let (begin, end) = (r#"{"type":"long","text":""#, r#""}"#);
    write(&[begin])?;
    let filler = "x".repeat(PIECE);
    let mut left = bytes.saturating_sub(begin.len() + end.len());
    while left > 0 {
        let now = left.min(PIECE);
        write(&[filler.get(..now).unwrap_or_default()])?;
        left -= now;
    }
    write(&[end, "\n"])
}

/// Writes, or ends because nobody reads any more.
fn write(parts: &[&str]) -> Result<(), Exit> {
    let mut stdout = io::stdout().lock();
    let written = parts
        .iter()
        .try_for_each(|part| stdout.write_all(part.as_bytes()))
        .and_then(|()| stdout.flush());
    written.map_err(|_| Exit(0))
}

fn die(signal: i32) {
    let signal = Signal::from_named_raw(signal).unwrap_or(Signal::KILL);
    let ourselves: Pid = getpid();
    let _ = kill_process(ourselves, signal);
}

/// Stays until somebody kills it.
fn stay() -> Exit {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        return Exit(complain(IN_VAIN, "no runtime"));
    };
    runtime.block_on(async {
        // The handler stays for the life of the process.
        let _ = signal(SignalKind::terminate());
        let _ = writeln!(io::stderr(), "stubborn");
        tokio::time::sleep(PATIENCE * 5).await;
    });
    Exit(IN_VAIN)
}
