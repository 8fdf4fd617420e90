//! The baseline: a blocking client written by hand for the server program of the benchmark.
//!
//! It does what any client must do: it builds each request from structs, matches each response to
//! its request by id and parses the response into structs. Like Switchboard, it keeps structured
//! content as JSON text whose syntax was checked. It has no deadlines, limits, schemas or
//! permissions, and it trusts the server. One thread handles all connections: it starts all
//! servers, then sends all requests, then reads all responses.

mod http;
mod in_process;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::job::{Figures, Job, Stopwatch, Transport, Work, memory_now, print_ready};

/// Variants of a hand-written client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Writes each request at once with its own system call.
    Plain,
    /// While responses are available, collects new requests and writes them with one system call.
    Batching,
}

pub fn run(job: &Job, style: Style) -> Figures {
    match job {
        Job::Calls(work) if work.transport == Transport::Http => http::calls(work),
        Job::Calls(work) => calls(work, style),
        Job::Connect { servers } => connect(*servers),
        Job::InProcess { calls } => in_process::calls(&Work::in_process(*calls)),
        _ => panic!("the baseline does not support this job"),
    }
}

fn calls(work: &Work, style: Style) -> Figures {
    let mut session = Session::start();
    session.initialize();
    session.make_calls(work, work.warm_up, style);
    let stopwatch = Stopwatch::start();
    let latencies = session.make_calls(work, work.calls, style);
    stopwatch.stop(latencies)
}

fn connect(servers: usize) -> Figures {
    let mut sessions: Vec<Session> = (0..servers).map(|_| Session::start()).collect();
    for session in &mut sessions {
        session.send_initialize();
    }
    for session in &mut sessions {
        session.complete_initialize();
        session.request("tools/list", serde_json::json!({}));
        session.write();
    }
    let listings: Vec<Response<Listing>> =
        sessions.iter_mut().map(Session::read_response).collect();
    assert!(listings.iter().all(|it| !it.result.tools.is_empty()));
    print_ready();
    memory_now()
}

#[derive(Serialize)]
struct Request<'a, P> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: P,
}

#[derive(Serialize)]
struct CallParams<'a> {
    name: &'a str,
    arguments: &'a Value,
}

#[derive(Deserialize)]
struct Response<R> {
    id: u64,
    result: R,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallResult {
    content: Vec<Text>,
    structured_content: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Text {
    text: String,
}

#[derive(Deserialize)]
struct Listing {
    tools: Vec<Tool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "a caller would look at them")]
struct Tool {
    name: String,
    description: Option<String>,
    input_schema: Box<RawValue>,
}

/// One server and its pipes.
struct Session {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Requests that are not written yet.
    outgoing: Vec<u8>,
    line: Vec<u8>,
    next_id: u64,
}

impl Session {
    fn start() -> Self {
        let mut child = Command::new(super::server())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the neutral server is built beside the bench");
        let output = BufReader::with_capacity(64 * 1024, child.stdout.take().expect("piped"));
        Self {
            input: child.stdin.take(),
            child,
            output,
            outgoing: Vec::new(),
            line: Vec::new(),
            next_id: 0,
        }
    }

    fn initialize(&mut self) {
        self.send_initialize();
        self.complete_initialize();
    }

    fn send_initialize(&mut self) {
        let params = serde_json::json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "baseline", "version": "1" },
        });
        self.request("initialize", params);
        self.write();
    }

    fn complete_initialize(&mut self) {
        let response: Response<Value> = self.read_response();
        assert_eq!(response.id, 0);
        self.outgoing
            .extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
        self.write();
    }

    fn request(&mut self, method: &str, params: impl Serialize) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let request = Request {
            jsonrpc: "2.0",
            id,
            method,
            params,
        };
        serde_json::to_writer(&mut self.outgoing, &request).expect("the value is JSON");
        self.outgoing.push(b'\n');
        id
    }

    fn write(&mut self) {
        let input = self.input.as_mut().expect("open until the end");
        input.write_all(&self.outgoing).expect("the server reads");
        self.outgoing.clear();
    }

    fn read_response<R: DeserializeOwned>(&mut self) -> Response<R> {
        self.line.clear();
        self.output
            .read_until(b'\n', &mut self.line)
            .expect("the server responds");
        serde_json::from_slice(&self.line).expect("the call succeeds")
    }

    /// Keeps `in_flight` requests in flight: sends the next request after each response.
    fn make_calls(&mut self, work: &Work, calls: usize, style: Style) -> Vec<Duration> {
        let arguments = work.arguments();
        let mut latencies = Vec::with_capacity(calls);
        let mut in_flight = HashMap::with_capacity(work.in_flight);
        let mut sent = 0;
        while latencies.len() < calls {
            while sent < calls && in_flight.len() < work.in_flight {
                let params = CallParams {
                    name: &work.tool,
                    arguments: &arguments,
                };
                let began = Instant::now();
                in_flight.insert(self.request("tools/call", params), began);
                sent += 1;
                if style != Style::Batching {
                    self.write();
                }
            }
            if self.output.buffer().is_empty() && !self.outgoing.is_empty() {
                self.write();
            }
            let response: Response<CallResult> = self.read_response();
            let text: usize = response.result.content.iter().map(|it| it.text.len()).sum();
            assert!(text > 0 || response.result.structured_content.is_some());
            let began = in_flight
                .remove(&response.id)
                .expect("the id belongs to a request");
            latencies.push(began.elapsed());
        }
        latencies
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.input.take());
        self.child.wait().expect("the server ends with its input");
    }
}
