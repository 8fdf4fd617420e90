//! Starts the real CLI with a scripted model and checks that no process survives.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use switchboard::in_process::InProcessTool;
use switchboard::{InProcessServer, ToolResult};
use switchboard_claude::{Client, Message, Options, ResultMessage, query};
use switchboard_testkit::fake_model::{FakeModel, ModelRequest, Turn};
use switchboard_testkit::{RealClaude, assert_no_process_left};

/// Maximum time for one step of a test. Long enough for the start of the CLI on a busy machine.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(90);

/// The real CLI in a sandbox, and the scripted model that it uses.
pub(crate) struct Harness {
    claude: RealClaude,
    pub(crate) model: FakeModel,
}

impl Harness {
    /// Starts a model that gives these responses in order. Returns `None` if the CLI is not
    /// installed.
    pub(crate) async fn with_turns(turns: impl IntoIterator<Item = Turn>) -> Option<Self> {
        let claude = RealClaude::find()?;
        let model = FakeModel::start(turns).await;
        Some(Self { claude, model })
    }

    /// Starts a model that answers each request with the response that `choose` picks. Returns
    /// `None` if the CLI is not installed.
    pub(crate) async fn with_model(
        choose: impl Fn(&ModelRequest) -> Turn + Send + Sync + 'static,
    ) -> Option<Self> {
        let claude = RealClaude::find()?;
        let model = FakeModel::with_responder(choose).await;
        Some(Self { claude, model })
    }

    /// Options with which the CLI sends all its requests to the scripted model.
    pub(crate) fn options(&self) -> Options {
        let options = Options::new()
            .cli_path(self.claude.program())
            .cwd(self.claude.sandbox().project());
        let variables = self.claude.environment(&self.model);
        let add = |options: Options, (name, value)| options.env(name, value);
        variables.into_iter().fold(options, add)
    }

    /// Like [`Harness::options`], but with a calculator server whose tools need no permission.
    pub(crate) fn with_calculator(&self) -> Options {
        self.options()
            .sdk_server("calculator", calculator())
            .allowed_tools(["mcp__calculator"])
    }

    /// The tag in the environment of all processes of the CLI, by which leftover processes are
    /// found.
    pub(crate) fn tag(&self) -> &str {
        self.claude.sandbox().tag()
    }

    /// Asserts that no process of the CLI is left.
    pub(crate) async fn close(self) {
        assert_no_process_left(self.tag()).await;
    }
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Pair {
    pub(crate) a: f64,
    pub(crate) b: f64,
}

pub(crate) async fn add(pair: Pair) -> ToolResult<String> {
    Ok((pair.a + pair.b).to_string())
}

async fn divide(pair: Pair) -> ToolResult<String> {
    if pair.b == 0.0 {
        return Err("division by zero".into());
    }
    Ok((pair.a / pair.b).to_string())
}

pub(crate) fn calculator() -> InProcessServer {
    InProcessServer::new("calculator", "1.0")
        .with_tool(InProcessTool::new("add", "Adds two numbers", add).read_only())
        .tool("divide", "Divides two numbers", divide)
}

/// Runs a query that must succeed and returns its messages.
pub(crate) async fn run_query(prompt: &str, options: Options) -> Vec<Message> {
    let mut query = query(prompt, options);
    let mut messages = Vec::new();
    let all = async {
        while let Some(message) = query.next().await {
            messages.push(message.expect("the CLI was lost"));
        }
    };
    let outcome = tokio::time::timeout(TEST_TIMEOUT, all).await;
    outcome.expect("timed out");
    messages
}

pub(crate) async fn connect(options: Options) -> Client {
    let connected = tokio::time::timeout(TEST_TIMEOUT, Client::connect(options)).await;
    connected.expect("timed out").unwrap()
}

/// Reads and returns messages up to and including the next result message.
pub(crate) async fn receive_turn(client: &Client) -> Vec<Message> {
    let mut messages = Vec::new();
    let turn = async {
        loop {
            let message = client.receive().await.expect("the CLI has exited");
            let message = message.expect("the CLI was lost");
            let is_last = message.as_result().is_some();
            messages.push(message);
            if is_last {
                return;
            }
        }
    };
    let outcome = tokio::time::timeout(TEST_TIMEOUT, turn).await;
    outcome.expect("timed out");
    messages
}

/// Sends a prompt and returns the messages of the turn, up to and including its result message.
pub(crate) async fn turn(client: &Client, prompt: &str) -> Vec<Message> {
    client.send(prompt).await.unwrap();
    receive_turn(client).await
}

pub(crate) fn result_of(messages: &[Message]) -> &ResultMessage {
    let result = messages.iter().find_map(Message::as_result);
    result.unwrap_or_else(|| panic!("no result in {messages:#?}"))
}
