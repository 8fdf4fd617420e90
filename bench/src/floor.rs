//! The floor: what a blocking client costs that was written by hand for this one server.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::measure::{Client, Sample, Watch, Work};

pub struct Floor {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
}

#[derive(Serialize)]
struct Request<'a> {
    jsonrpc: &'static str,
    id: u64,
    method: &'static str,
    params: Params<'a>,
}

#[derive(Serialize)]
struct Params<'a> {
    name: &'a str,
    arguments: &'a serde_json::Value,
}

#[derive(Deserialize)]
struct Response {
    id: u64,
    result: CallResult,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallResult {
    content: Vec<Text>,
    #[serde(default)]
    structured_content: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Text {
    text: String,
}

impl Client for Floor {
    fn run(server: &Path, work: &Work) -> Sample {
        let mut client = Self::start(server);
        client.drive(work, work.in_flight * 20);
        let watch = Watch::start();
        let latencies = client.drive(work, work.calls);
        let sample = watch.stop(latencies);
        drop(client.input);
        client.child.wait().expect("the server ends with its input");
        sample
    }
}

impl Floor {
    fn start(server: &Path) -> Self {
        let mut child = Command::new(server)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the neutral server is built beside the bench");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::with_capacity(64 * 1024, child.stdout.take().expect("piped"));
        let mut client = Self {
            child,
            input,
            output,
            line: Vec::new(),
        };
        client
            .input
            .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\"}\n")
            .expect("written");
        client.read_line();
        client
    }

    fn read_line(&mut self) {
        self.line.clear();
        self.output
            .read_until(b'\n', &mut self.line)
            .expect("the server answers");
    }

    /// Keeps a window of requests under way; what can be sent together is.
    fn drive(&mut self, work: &Work, calls: usize) -> Vec<Duration> {
        let arguments = work.arguments();
        let mut latencies = Vec::with_capacity(calls);
        let mut began = HashMap::with_capacity(work.in_flight);
        let mut batch = Vec::new();
        let mut next = 0_u64;
        while latencies.len() < calls {
            while began.len() < work.in_flight && (next as usize) < calls {
                let params = Params {
                    name: work.tool,
                    arguments: &arguments,
                };
                let request = Request {
                    jsonrpc: "2.0",
                    id: next,
                    method: "tools/call",
                    params,
                };
                serde_json::to_writer(&mut batch, &request).expect("written");
                batch.push(b'\n');
                began.insert(next, Instant::now());
                next += 1;
            }
            self.input.write_all(&batch).expect("the server reads");
            batch.clear();
            loop {
                self.read_line();
                let response: Response = serde_json::from_slice(&self.line).expect("an answer");
                let size = response
                    .result
                    .content
                    .iter()
                    .map(|block| block.text.len())
                    .sum::<usize>();
                assert!(size > 0 || response.result.structured_content.is_some());
                latencies.push(began.remove(&response.id).expect("ours").elapsed());
                if self.output.buffer().is_empty() {
                    break;
                }
            }
        }
        latencies
    }
}
