//! Functions of this program as tools inside the CLI.

use std::sync::Arc;

use serde_json::json;
use switchboard::inprocess::InProcessTool;
use switchboard::{InProcessServer, ToolContext, ToolResult};
use switchboard_claude::Message;
use switchboard_testkit::fake_model::{Block, ToolOutcome, Turn};
use tokio::sync::{Barrier, mpsc};

use crate::scene::{Scene, ask, connect, receive_turn, result_of};

const ADD: &str = "mcp__calculator__add";

#[tokio::test]
async fn fifteen_and_twenty_seven_are_forty_two() {
    let turns = [
        Turn::blocks([
            Block::text("Let me add."),
            Block::tool(ADD, json!({"a": 15, "b": 27})),
        ]),
        Turn::text("15 + 27 = 42"),
    ];
    let Some(scene) = Scene::saying(turns).await else {
        return;
    };
    let messages = ask("What is 15 + 27?", scene.with_calculator()).await;
    let result = result_of(&messages);
    assert!(result.is_success(), "{result:#?}");
    assert_eq!(result.result.as_deref(), Some("15 + 27 = 42"));
    assert_eq!(result.num_turns, 2);
    assert!(result.usage.output_tokens > 0);

    let texts: Vec<_> = messages.iter().filter_map(Message::text).collect();
    assert_eq!(texts[0], "Let me add.", "{texts:?}");
    let used = messages.iter().flat_map(Message::tool_uses);
    let used: Vec<_> = used
        .map(|block| (block.name.as_str(), &block.input))
        .collect();
    assert_eq!(used, [(ADD, &json!({"a": 15, "b": 27}))]);
    let told = messages.iter().flat_map(Message::tool_results);
    let told: Vec<_> = told.map(|block| (block.text(), block.is_error)).collect();
    assert_eq!(told, [("42".to_owned(), false)]);

    let requests = scene.model.requests();
    let tool = requests[0]
        .tool(ADD)
        .expect("the model is offered the tool");
    assert_eq!(tool["description"], "Adds two numbers");
    assert_eq!(tool["input_schema"]["required"], json!(["a", "b"]));
    assert_eq!(requests[1].last_tool_result().text(), "42");
    scene.close().await;
}

#[tokio::test]
async fn an_error_of_a_tool_is_told_to_the_model() {
    let turns = [
        Turn::tool("mcp__calculator__divide", json!({"a": 1, "b": 0})),
        Turn::tool(ADD, json!({"a": "one", "b": 2})),
        Turn::text("That does not work."),
    ];
    let Some(scene) = Scene::saying(turns).await else {
        return;
    };
    let messages = ask("What is 1 / 0?", scene.with_calculator()).await;
    assert!(result_of(&messages).is_success());
    let heard = scene.model.last_request().tool_results();
    assert_eq!(heard[0].text(), "nothing can be divided by zero");
    assert!(heard[0].is_error && heard[1].is_error, "{heard:#?}");
    // The CLI does not look at the schema: what does not fit is refused on this side.
    assert!(heard[1].text().contains('a'), "{heard:#?}");
    scene.close().await;
}

async fn panic() -> ToolResult<String> {
    panic!("out of tea")
}

#[tokio::test]
async fn a_panic_is_the_error_of_its_call() {
    let turns = [
        Turn::tool("mcp__it__panic", json!({})),
        Turn::tool("mcp__it__fine", json!({})),
        Turn::text("So it is."),
    ];
    let Some(scene) = Scene::saying(turns).await else {
        return;
    };
    let server = InProcessServer::new("it", "1.0")
        .tool("panic", "Panics", panic)
        .tool("fine", "Is fine", || async { Ok("fine") });
    let options = scene.options().sdk_server("it", server);
    let messages = ask("Go on", options.allowed_tools(["mcp__*"])).await;
    assert!(result_of(&messages).is_success());
    let heard = scene.model.last_request().tool_results();
    assert!(heard[0].is_error, "{heard:#?}");
    assert_eq!(
        (heard[1].text().as_str(), heard[1].is_error),
        ("fine", false)
    );
    scene.close().await;
}

#[tokio::test]
async fn tools_that_only_read_run_side_by_side() {
    let block = || Block::tool("mcp__it__meet", json!({}));
    let turns = [
        Turn::blocks([block(), block(), block()]),
        Turn::text("They met."),
    ];
    let Some(scene) = Scene::saying(turns).await else {
        return;
    };
    // Nobody comes back before all three are there.
    let barrier = Arc::new(Barrier::new(3));
    let meet = move || {
        let barrier = Arc::clone(&barrier);
        async move {
            barrier.wait().await;
            Ok("met")
        }
    };
    let tool = InProcessTool::new("meet", "Waits for two others", meet).read_only();
    let server = InProcessServer::new("it", "1.0").with(tool);
    let options = scene.options().sdk_server("it", server);
    let messages = ask("Go on", options.allowed_tools(["mcp__it__meet"])).await;
    assert!(result_of(&messages).is_success());
    let heard = scene.model.last_request().tool_results();
    let heard: Vec<_> = heard.iter().map(ToolOutcome::text).collect();
    assert_eq!(heard, ["met", "met", "met"]);
    scene.close().await;
}

/// Says when it is dropped.
struct Gone(mpsc::Sender<&'static str>);

impl Drop for Gone {
    fn drop(&mut self) {
        let _ = self.0.try_send("dropped");
    }
}

#[tokio::test]
async fn an_interrupted_call_is_dropped() {
    let turns = [
        Turn::tool("mcp__it__wait", json!({})),
        Turn::text("Back again."),
    ];
    let Some(scene) = Scene::saying(turns).await else {
        return;
    };
    let (told, mut tells) = mpsc::channel(4);
    let wait = move |context: ToolContext| {
        let told = told.clone();
        async move {
            let _gone = Gone(told.clone());
            let _ = told.try_send("begun");
            context.cancelled().await;
            std::future::pending::<ToolResult<String>>().await
        }
    };
    let server = InProcessServer::new("it", "1.0").tool("wait", "Waits for ever", wait);
    let options = scene.options().sdk_server("it", server);
    let client = connect(options.allowed_tools(["mcp__it"])).await;
    client.send("Wait, please").await.unwrap();
    assert_eq!(tells.recv().await, Some("begun"));
    client.interrupt().await.unwrap();
    let messages = receive_turn(&client).await;
    assert_eq!(result_of(&messages).subtype, "error_during_execution");
    assert_eq!(tells.recv().await, Some("dropped"));

    // The session goes on.
    client.send("And now?").await.unwrap();
    let messages = receive_turn(&client).await;
    assert_eq!(result_of(&messages).result.as_deref(), Some("Back again."));
    client.close().await;
    scene.close().await;
}

#[tokio::test]
async fn a_result_of_a_megabyte_arrives() {
    const SIZE: usize = 1_000_000;
    /// The CLI keeps no more than half a megabyte in the conversation, whoever asks for it.
    const WHOLE: usize = 400_000;
    let turns = [
        Turn::tool("mcp__it__much", json!({})),
        Turn::tool("mcp__it__whole", json!({})),
        Turn::text("That was much."),
    ];
    let Some(scene) = Scene::saying(turns).await else {
        return;
    };
    let much = || async { Ok("x".repeat(SIZE)) };
    let less = || async { Ok("x".repeat(WHOLE)) };
    let whole = InProcessTool::new("whole", "Says much, to be read whole", less)
        .meta("anthropic/maxResultSizeChars", WHOLE);
    let server = InProcessServer::new("it", "1.0")
        .tool("much", "Says much", much)
        .with(whole);
    let options = scene.options().sdk_server("it", server);
    let messages = ask("Go on", options.allowed_tools(["mcp__it"])).await;
    assert!(result_of(&messages).is_success());
    let heard = scene.model.last_request().tool_results();
    assert!(heard.iter().all(|outcome| !outcome.is_error), "{heard:#?}");
    // The CLI keeps what is long in a file, and tells the model where.
    let told = heard[0].text();
    assert!(told.contains("saved to"), "{told}");
    let words = told.split_whitespace();
    let mut files = words.filter_map(|word| std::fs::read(word.trim_end_matches('.')).ok());
    let kept = files.next().expect("the file that is named");
    assert!(kept.len() >= SIZE, "{} bytes", kept.len());
    assert_eq!(heard[1].text().len(), WHOLE);
    scene.close().await;
}
