//! What every test with the real CLI needs.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use switchboard::inprocess::InProcessTool;
use switchboard::{InProcessServer, ToolResult};
use switchboard_claude::{Client, Message, Options, ResultMessage, query};
use switchboard_testkit::fake_model::{FakeModel, ModelRequest, Turn};
use switchboard_testkit::{RealClaude, assert_no_process_left};

/// A CLI that starts on a busy machine takes its time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// The CLI, and the model that it asks.
pub(crate) struct Scene {
    claude: RealClaude,
    pub(crate) model: FakeModel,
}

impl Scene {
    /// With a model that says this. None if there is no CLI.
    pub(crate) async fn saying(turns: impl IntoIterator<Item = Turn>) -> Option<Self> {
        let claude = RealClaude::find()?;
        let model = FakeModel::start(turns).await;
        Some(Self { claude, model })
    }

    /// With a model that decides by what it is asked.
    pub(crate) async fn answering(
        choose: impl Fn(&ModelRequest) -> Turn + Send + Sync + 'static,
    ) -> Option<Self> {
        let claude = RealClaude::find()?;
        let model = FakeModel::answering(choose).await;
        Some(Self { claude, model })
    }

    /// Options with which nothing leaves the machine.
    pub(crate) fn options(&self) -> Options {
        let options = Options::new()
            .cli_path(self.claude.program())
            .cwd(self.claude.sandbox().project());
        let variables = self.claude.environment(&self.model);
        let add = |options: Options, (name, value)| options.env(name, value);
        variables.into_iter().fold(options, add)
    }

    /// The same, with a calculator whose tools may be used.
    pub(crate) fn with_calculator(&self) -> Options {
        self.options()
            .sdk_server("calculator", calculator())
            .allowed_tools(["mcp__calculator"])
    }

    /// The tag of the CLI's processes.
    pub(crate) fn tag(&self) -> &str {
        self.claude.sandbox().tag()
    }

    /// Asserts that no process is left.
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
        return Err("nothing can be divided by zero".into());
    }
    Ok((pair.a / pair.b).to_string())
}

pub(crate) fn calculator() -> InProcessServer {
    InProcessServer::new("calculator", "1.0")
        .with(InProcessTool::new("add", "Adds two numbers", add).read_only())
        .tool("divide", "Divides two numbers", divide)
}

/// Everything that comes of one prompt.
pub(crate) async fn ask(prompt: &str, options: Options) -> Vec<Message> {
    let mut query = query(prompt, options);
    let mut messages = Vec::new();
    let all = async {
        while let Some(message) = query.next().await {
            messages.push(message.expect("the CLI goes on"));
        }
    };
    let outcome = tokio::time::timeout(PATIENCE, all).await;
    outcome.expect("an end in time");
    messages
}

pub(crate) async fn connect(options: Options) -> Client {
    let connected = tokio::time::timeout(PATIENCE, Client::connect(options)).await;
    connected.expect("a connection in time").unwrap()
}

/// Everything up to the next result.
pub(crate) async fn receive_turn(client: &Client) -> Vec<Message> {
    let mut messages = Vec::new();
    let turn = async {
        loop {
            let message = client.receive().await.expect("the CLI lives");
            let message = message.expect("the CLI goes on");
            let is_last = message.as_result().is_some();
            messages.push(message);
            if is_last {
                return;
            }
        }
    };
    let outcome = tokio::time::timeout(PATIENCE, turn).await;
    outcome.expect("a result in time");
    messages
}

/// One turn of a client.
pub(crate) async fn turn(client: &Client, prompt: &str) -> Vec<Message> {
    client.send(prompt).await.unwrap();
    receive_turn(client).await
}

pub(crate) fn result_of(messages: &[Message]) -> &ResultMessage {
    let result = messages.iter().find_map(Message::as_result);
    result.unwrap_or_else(|| panic!("no result in {messages:#?}"))
}
