//! Runs a [`FakeClaude`] on the stdin and stdout of this process.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::frames;
use super::stdin_reader::{StdinEvent, StdinReader};
use super::{FAKE_CLAUDE_TEXT, FAKE_CLAUDE_VARIABLE, FakeClaude, FakeStep};

/// How long the fake CLI waits for each message.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);
/// `EX_USAGE` of sysexits.h: the script is invalid.
const USAGE_CODE: i32 = 64;
/// `EX_SOFTWARE` of sysexits.h: a message did not arrive in time, or the process was not killed as
/// the script requires.
const TIMEOUT_CODE: i32 = 70;
/// Number of bytes per write of a long line.
const CHUNK_BYTES: usize = 64 * 1024;

/// The error that stops the script: the fake CLI exits with this code.
struct Exit(i32);

/// Runs the script in [`FAKE_CLAUDE_VARIABLE`] and returns the exit code.
#[expect(
    clippy::disallowed_methods,
    reason = "the host chooses the arguments, so the script is in the environment"
)]
pub fn run() -> i32 {
    if std::env::args().any(|argument| argument == "--version") {
        let _ = writeln!(io::stdout(), "0.0.0 (Claude Code)");
        return 0;
    }
    let text = std::env::var(FAKE_CLAUDE_VARIABLE).unwrap_or_else(|_| "{}".to_owned());
    let script: FakeClaude = match serde_json::from_str(&text) {
        Ok(script) => script,
        Err(error) => return fail(USAGE_CODE, &format!("{FAKE_CLAUDE_VARIABLE}: {error}")),
    };
    let record = match script.record.as_deref().map(create_record).transpose() {
        Ok(record) => record,
        Err(error) => return fail(USAGE_CODE, &format!("record file: {error}")),
    };
    let mut player = Player::new(record);
    let ended = script
        .steps
        .iter()
        .try_for_each(|step| player.run_step(step));
    let Exit(code) = match ended {
        Ok(()) => player.run_default(),
        Err(exit) => exit,
    };
    code
}

fn fail(code: i32, reason: &str) -> i32 {
    let _ = writeln!(io::stderr(), "fake-claude: {reason}");
    code
}

/// Creates the record file. Its first line contains the command line, the working directory and the
/// environment variables that concern Claude.
#[expect(
    clippy::disallowed_methods,
    reason = "the record contains the environment that the host passed"
)]
fn create_record(path: &Path) -> io::Result<File> {
    let is_claude_variable =
        |name: &str| name.starts_with("CLAUDE") || name.starts_with("ANTHROPIC");
    let variables = std::env::vars().filter(|(name, _)| is_claude_variable(name) || name == "PWD");
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
    /// User messages that arrived before a step waited for them.
    user_messages: VecDeque<Value>,
    /// The control request to which the next `Respond…` step responds.
    awaited_request: Value,
    /// Responses of the host for which no step has waited yet, by request id.
    responses: HashMap<String, Value>,
    last_response: Value,
    /// Number of control requests that were sent so far; the last one has this number.
    requests_sent: u64,
}

impl Player {
    fn new(record: Option<File>) -> Self {
        Self {
            stdin: StdinReader::open(record),
            user_messages: VecDeque::new(),
            awaited_request: Value::Null,
            responses: HashMap::new(),
            last_response: Value::Null,
            requests_sent: 0,
        }
    }

    fn run_step(&mut self, step: &FakeStep) -> Result<(), Exit> {
        match step {
            FakeStep::AwaitRequest(subtype) => self.await_request(subtype),
            FakeStep::AwaitUser => self.await_user(),
            FakeStep::AwaitEof => {
                self.read_to_end();
                Ok(())
            }
            FakeStep::Respond(payload) => self.respond(Ok(payload.clone())),
            FakeStep::RespondEmpty => self.respond(Ok(Value::Null)),
            FakeStep::RespondError(error) => self.respond(Err(error.clone())),
            FakeStep::RespondDefault => {
                let request = self
                    .awaited_request
                    .get("request")
                    .cloned()
                    .unwrap_or_default();
                self.respond(frames::default_response(&request))
            }
            FakeStep::Request(request) => {
                self.start(request)?;
                self.await_response()
            }
            FakeStep::StartRequest(request) => self.start(request),
            FakeStep::CancelRequest => send(&frames::cancel(&id(self.requests_sent))),
            FakeStep::AwaitResponse => self.await_response(),
            FakeStep::ConcurrentCalls {
                server,
                tool,
                count,
            } => self.call_concurrently(server, tool, *count),
            FakeStep::ReportResponse => end_turn(&self.last_response.to_string()),
            FakeStep::Exit(code) => Err(Exit(*code)),
            FakeStep::Silence => {
                self.read_to_end();
                Err(Exit(0))
            }
            output => run_output_step(output),
        }
    }

    /// Returns the next message from stdin. After a timeout, the error message contains `what`, a
    /// description of the expected message. The end of stdin ends the program with code 0.
    fn next(&mut self, what: &str) -> Result<Value, Exit> {
        match self.stdin.next(Instant::now() + STEP_TIMEOUT) {
            StdinEvent::Message(message) => Ok(message),
            StdinEvent::Eof => Err(Exit(0)),
            StdinEvent::TimedOut => {
                let reason = format!("timed out waiting for {what}");
                Err(Exit(fail(TIMEOUT_CODE, &reason)))
            }
        }
    }

    /// Handles a message other than the one that the current step waits for.
    fn handle_unawaited(&mut self, message: Value) -> Result<(), Exit> {
        match kind(&message) {
            "control_request" => {
                let request = message.get("request").cloned().unwrap_or_default();
                send(&frames::response(
                    &message,
                    frames::default_response(&request),
                ))
            }
            "control_response" => {
                let response = message.get("response").cloned().unwrap_or_default();
                let id = response.get("request_id").and_then(Value::as_str);
                let id = id.unwrap_or_default().to_owned();
                self.responses.insert(id, response);
                Ok(())
            }
            "user" => {
                self.user_messages.push_back(message);
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
                self.awaited_request = message;
                return Ok(());
            }
            self.handle_unawaited(message)?;
        }
    }

    fn await_user(&mut self) -> Result<(), Exit> {
        while self.user_messages.pop_front().is_none() {
            let message = self.next("a user message")?;
            self.handle_unawaited(message)?;
        }
        Ok(())
    }

    fn respond(&mut self, outcome: Result<Value, String>) -> Result<(), Exit> {
        send(&frames::response(&self.awaited_request, outcome))
    }

    fn start(&mut self, request: &Value) -> Result<(), Exit> {
        self.requests_sent += 1;
        send(&frames::request(&id(self.requests_sent), request))
    }

    fn await_response(&mut self) -> Result<(), Exit> {
        self.last_response = self.take_response(self.requests_sent)?;
        Ok(())
    }

    fn take_response(&mut self, number: u64) -> Result<Value, Exit> {
        let id = id(number);
        loop {
            if let Some(response) = self.responses.remove(&id) {
                return Ok(response);
            }
            let message = self.next(&format!("the response to {id}"))?;
            self.handle_unawaited(message)?;
        }
    }

    fn call_concurrently(&mut self, server: &str, tool: &str, count: u64) -> Result<(), Exit> {
        let first = self.requests_sent + 1;
        for number in first..first + count {
            self.start(&frames::call(server, tool, number))?;
        }
        let mut own = 0;
        for number in first..first + count {
            let response = self.take_response(number)?;
            own += u64::from(frames::is_response_to_call(&response, number));
        }
        self.last_response = json!({"answered": count, "own": own, "left": self.responses.len()});
        Ok(())
    }

    /// Responds to each user message with a default turn, until stdin ends.
    fn run_default(&mut self) -> Exit {
        loop {
            let turn = self.await_user().and_then(|()| {
                begin_turn()?;
                send(&frames::assistant(FAKE_CLAUDE_TEXT))?;
                end_turn(FAKE_CLAUDE_TEXT)
            });
            if let Err(exit) = turn {
                return exit;
            }
        }
    }

    /// Reads until the end of stdin and discards the messages.
    fn read_to_end(&mut self) {
        while !matches!(
            self.stdin.next(Instant::now() + STEP_TIMEOUT),
            StdinEvent::Eof
        ) {}
    }
}

/// Runs a step that only writes.
fn run_output_step(step: &FakeStep) -> Result<(), Exit> {
    match step {
        FakeStep::Send(message) => send(message),
        FakeStep::Raw(line) => write(&[line, "\n"]),
        FakeStep::Bytes(text) => write(&[text]),
        FakeStep::Flood { message, times } => (0..*times).try_for_each(|_| send(message)),
        FakeStep::LongLine(bytes) => send_long(*bytes),
        FakeStep::Stderr(line) => {
            let _ = writeln!(io::stderr(), "{line}");
            Ok(())
        }
        FakeStep::BeginTurn => begin_turn(),
        FakeStep::EndTurn(text) => end_turn(text),
        FakeStep::Turn(text) => {
            begin_turn()?;
            send(&frames::assistant(text))?;
            end_turn(text)
        }
        FakeStep::KillSelf(number) => {
            kill_self(*number);
            Err(Exit(TIMEOUT_CODE))
        }
        FakeStep::IgnoreShutdown => Err(wait_to_be_killed()),
        other => Err(Exit(fail(
            USAGE_CODE,
            &format!("{other:?} cannot run here"),
        ))),
    }
}

/// The id of the control request with this number.
fn id(number: u64) -> String {
    format!("ask-{number}")
}

fn kind(message: &Value) -> &str {
    let kind = message.get("type").and_then(Value::as_str);
    kind.unwrap_or_default()
}

fn begin_turn() -> Result<(), Exit> {
    send(&frames::state("running"))?;
    send(&frames::init())
}

fn end_turn(text: &str) -> Result<(), Exit> {
    send(&frames::result(text))?;
    send(&frames::state("idle"))
}

fn send(message: &Value) -> Result<(), Exit> {
    write(&[&message.to_string(), "\n"])
}

fn send_long(bytes: usize) -> Result<(), Exit> {
    let (begin, end) = (r#"{"type":"long","text":""#, r#""}"#);
    write(&[begin])?;
    let filler = "x".repeat(CHUNK_BYTES);
    let mut left = bytes.saturating_sub(begin.len() + end.len());
    while left > 0 {
        let now = left.min(CHUNK_BYTES);
        write(&[filler.get(..now).unwrap_or_default()])?;
        left -= now;
    }
    write(&[end, "\n"])
}

/// Writes the parts to stdout, one after the other. If stdout is closed, the program exits with
/// code 0.
fn write(parts: &[&str]) -> Result<(), Exit> {
    let mut stdout = io::stdout().lock();
    let written = parts
        .iter()
        .try_for_each(|part| stdout.write_all(part.as_bytes()))
        .and_then(|()| stdout.flush());
    written.map_err(|_| Exit(0))
}

fn kill_self(signal: i32) {
    let signal = Signal::from_named_raw(signal).unwrap_or(Signal::KILL);
    let _ = kill_process(getpid(), signal);
}

/// Ignores SIGTERM and waits until the process is killed, at most five minutes.
fn wait_to_be_killed() -> Exit {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        return Exit(fail(TIMEOUT_CODE, "no runtime"));
    };
    runtime.block_on(async {
        // tokio's signal handler stays installed until the process ends.
        let _ = signal(SignalKind::terminate());
        let _ = writeln!(io::stderr(), "stubborn");
        tokio::time::sleep(STEP_TIMEOUT * 5).await;
    });
    Exit(TIMEOUT_CODE)
}
