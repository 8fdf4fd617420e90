//! What every test with the stand-in needs.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_claude::{Client, Error, Message, Options, query};
use switchboard_testkit::fake_claude::{FAKE_CLAUDE_VARIABLE, FakeClaude, program};
use switchboard_testkit::{Sandbox, TAG_VARIABLE, assert_no_process_left, read_record};

/// Longer than anything here takes, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(60);

/// A stand-in, and where it leaves what it was told.
pub(crate) struct Scene {
    sandbox: Sandbox,
    script: FakeClaude,
}

impl Scene {
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

    /// How the stand-in was started, and every line that it has read.
    pub(crate) fn record(&self) -> Vec<Value> {
        read_record(self.sandbox.root().join("record"))
    }

    /// Asserts that no process is left.
    pub(crate) async fn close(self) {
        assert_no_process_left(self.sandbox.tag()).await;
    }
}

/// Everything that comes of one prompt, the error that it ends with included.
pub(crate) async fn ask(options: Options) -> (Vec<Message>, Option<Error>) {
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
    let outcome = tokio::time::timeout(PATIENCE, all).await;
    outcome.expect("an end in time");
    (messages, error)
}

/// The text of the result, which is there and without an error.
pub(crate) async fn result_text(options: Options) -> String {
    let (messages, error) = ask(options).await;
    assert!(error.is_none(), "{error:?}");
    let result = messages.iter().find_map(Message::as_result);
    let text = result.and_then(|result| result.result.clone());
    text.unwrap_or_else(|| panic!("no result in {messages:#?}"))
}

/// The same as JSON, where the stand-in has reported.
pub(crate) async fn report(options: Options) -> Value {
    let text = result_text(options).await;
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

pub(crate) async fn connect(options: Options) -> Result<Client, Error> {
    let connected = tokio::time::timeout(PATIENCE, Client::connect(options)).await;
    connected.expect("a connection in time")
}

/// The text of the next result.
pub(crate) async fn receive_result(client: &Client) -> String {
    loop {
        let message = soon(client.receive()).await.expect("the CLI lives");
        let message = message.expect("the CLI goes on");
        if let Some(result) = message.as_result() {
            return result.result.clone().unwrap_or_default();
        }
    }
}

/// Waits, but not for ever.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(PATIENCE, future).await;
    outcome.expect("an end in time")
}

/// A message of the CLI's to a server of ours.
pub(crate) fn to_server(server: &str, message: &Value) -> Value {
    json!({"subtype": "mcp_message", "server_name": server, "message": message})
}

/// The id of [`call`], which none of a crowd has.
pub(crate) const CALL_ID: u64 = 1_000_000;

/// A call of a tool of ours.
pub(crate) fn call(tool: &str) -> Value {
    let params = json!({"name": tool, "arguments": {}});
    to_server(
        "it",
        &json!({"jsonrpc": "2.0", "id": CALL_ID, "method": "tools/call", "params": params}),
    )
}
