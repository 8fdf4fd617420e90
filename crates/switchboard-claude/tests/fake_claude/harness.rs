//! Starts the fake CLI for a test and checks that no process survives.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_claude::{Client, Error, Message, Options, query};
use switchboard_testkit::fake_claude::{FAKE_CLAUDE_VARIABLE, FakeClaude, program};
use switchboard_testkit::{Sandbox, TAG_VARIABLE, assert_no_process_left, read_record};

/// Maximum time for one step of a test. No step takes this long, even on a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A fake CLI with its own sandbox, in which it records what it reads.
pub(crate) struct Harness {
    sandbox: Sandbox,
    script: FakeClaude,
}

impl Harness {
    pub(crate) fn new(script: FakeClaude) -> Self {
        let sandbox = Sandbox::new();
        let record = sandbox.root().join("record");
        Self {
            script: script.record(record),
            sandbox,
        }
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.sandbox.project()
    }

    pub(crate) fn options(&self) -> Options {
        Options::new()
            .cli_path(program())
            .cwd(self.sandbox.project())
            .env(FAKE_CLAUDE_VARIABLE, self.script.to_json())
            .env(TAG_VARIABLE, self.sandbox.tag())
    }

    /// What the fake CLI recorded: first how it was started, then every line that it read.
    pub(crate) fn record(&self) -> Vec<Value> {
        read_record(self.sandbox.root().join("record"))
    }

    /// Asserts that no process of the test is left.
    pub(crate) async fn close(self) {
        assert_no_process_left(self.sandbox.tag()).await;
    }
}

/// Runs a query to its end. Returns its messages, and the error with which it ended, if any.
pub(crate) async fn run_query(options: Options) -> (Vec<Message>, Option<Error>) {
    let mut query = query("hello", options);
    let mut messages = Vec::new();
    let mut error = None;
    let all = async {
        while let Some(next) = query.next().await {
            match next {
                Ok(message) => messages.push(message),
                Err(found) => error = Some(found),
            }
        }
    };
    let outcome = tokio::time::timeout(TEST_TIMEOUT, all).await;
    outcome.expect("timed out");
    (messages, error)
}

/// Runs a query that must succeed and returns the text of its result.
pub(crate) async fn result_text(options: Options) -> String {
    let (messages, error) = run_query(options).await;
    assert!(error.is_none(), "{error:?}");
    let result = messages.iter().find_map(Message::as_result);
    let text = result.and_then(|result| result.result.clone());
    text.unwrap_or_else(|| panic!("no result in {messages:#?}"))
}

/// Like [`result_text`], but parses the text as JSON. With `FakeStep::ReportResponse`, the text is
/// the response that the fake CLI received to its request.
pub(crate) async fn report(options: Options) -> Value {
    let text = result_text(options).await;
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

pub(crate) async fn connect(options: Options) -> Result<Client, Error> {
    let connected = tokio::time::timeout(TEST_TIMEOUT, Client::connect(options)).await;
    connected.expect("timed out")
}

/// Reads messages up to and including the next result message. Returns the text of the result.
pub(crate) async fn receive_result(client: &Client) -> String {
    loop {
        let message = in_time(client.receive()).await.expect("the CLI has exited");
        let message = message.expect("the CLI was lost");
        if let Some(result) = message.as_result() {
            return result.result.clone().unwrap_or_default();
        }
    }
}

/// Waits for the future. Fails the test if that takes longer than [`TEST_TIMEOUT`].
pub(crate) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(TEST_TIMEOUT, future).await;
    outcome.expect("timed out")
}

/// A control request with which the CLI sends an MCP message to an in-process server.
pub(crate) fn to_server(server: &str, message: &Value) -> Value {
    json!({"subtype": "mcp_message", "server_name": server, "message": message})
}

/// The JSON-RPC id in the request that [`call`] builds. Larger than every id that
/// `FakeStep::ConcurrentCalls` uses, because some tests run both in one session.
pub(crate) const CALL_ID: u64 = 1_000_000;

/// A control request with which the CLI calls a tool of the in-process server `it`.
pub(crate) fn call(tool: &str) -> Value {
    let params = json!({"name": tool, "arguments": {}});
    to_server(
        "it",
        &json!({"jsonrpc": "2.0", "id": CALL_ID, "method": "tools/call", "params": params}),
    )
}
