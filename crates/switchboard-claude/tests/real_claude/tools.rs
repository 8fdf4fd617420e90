//! In-process tools that the CLI calls.

use std::sync::Arc;

use serde_json::json;
use switchboard::in_process::InProcessTool;
use switchboard::{InProcessServer, ToolContext, ToolResult};
use switchboard_claude::Message;
use switchboard_testkit::fake_model::{Block, ToolOutcome, Turn};
use tokio::sync::{Barrier, mpsc};

use crate::harness::{Harness, connect, receive_turn, result_of, run_query};

const ADD: &str = "mcp__calculator__add";

#[tokio::test]
async fn in_process_tool_is_called() {
    let turns = [
        Turn::blocks([
            Block::text("Let me add."),
            Block::tool(ADD, json!({"a": 15, "b": 27})),
        ]),
        Turn::text("15 + 27 = 42"),
    ];
    let Some(harness) = Harness::with_turns(turns).await else {
        return;
    };
    let messages = run_query("What is 15 + 27?", harness.with_calculator()).await;
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
    let results = messages.iter().flat_map(Message::tool_results);
    let results: Vec<_> = results
        .map(|block| (block.text(), block.is_error))
        .collect();
    assert_eq!(results, [("42".to_owned(), false)]);

    let requests = harness.model.requests();
    let tool = requests[0].tool(ADD).expect("the tool is missing");
    assert_eq!(tool["description"], "Adds two numbers");
    assert_eq!(tool["input_schema"]["required"], json!(["a", "b"]));
    assert_eq!(requests[1].last_tool_result().text(), "42");
    harness.close().await;
}

#[tokio::test]
async fn tool_error_reaches_the_model() {
    let turns = [
        Turn::tool("mcp__calculator__divide", json!({"a": 1, "b": 0})),
        Turn::tool(ADD, json!({"a": "one", "b": 2})),
        Turn::text("That does not work."),
    ];
    let Some(harness) = Harness::with_turns(turns).await else {
        return;
    };
    let messages = run_query("What is 1 / 0?", harness.with_calculator()).await;
    assert!(result_of(&messages).is_success());
    let tool_results = harness.model.last_request().tool_results();
    assert_eq!(tool_results[0].text(), "division by zero");
    assert!(
        tool_results[0].is_error && tool_results[1].is_error,
        "{tool_results:#?}"
    );
    // The CLI does not check arguments against the schema, so the in-process server rejects them.
    assert!(tool_results[1].text().contains('a'), "{tool_results:#?}");
    harness.close().await;
}

async fn panic() -> ToolResult<String> {
    panic!("tool failed")
}

#[tokio::test]
async fn panicking_tool_fails_only_its_call() {
    let turns = [
        Turn::tool("mcp__it__panic", json!({})),
        Turn::tool("mcp__it__fine", json!({})),
        Turn::text("Done."),
    ];
    let Some(harness) = Harness::with_turns(turns).await else {
        return;
    };
    let server = InProcessServer::new("it", "1.0")
        .tool("panic", "Panics", panic)
        .tool("fine", "Is fine", || async { Ok("fine") });
    let options = harness.options().sdk_server("it", server);
    let messages = run_query("Go on", options.allowed_tools(["mcp__*"])).await;
    assert!(result_of(&messages).is_success());
    let tool_results = harness.model.last_request().tool_results();
    assert!(tool_results[0].is_error, "{tool_results:#?}");
    assert_eq!(
        (tool_results[1].text().as_str(), tool_results[1].is_error),
        ("fine", false)
    );
    harness.close().await;
}

#[tokio::test]
async fn read_only_tools_run_concurrently() {
    let block = || Block::tool("mcp__it__meet", json!({}));
    let turns = [
        Turn::blocks([block(), block(), block()]),
        Turn::text("They met."),
    ];
    let Some(harness) = Harness::with_turns(turns).await else {
        return;
    };
    // Each call waits until all three calls have started.
    let barrier = Arc::new(Barrier::new(3));
    let meet = move || {
        let barrier = Arc::clone(&barrier);
        async move {
            barrier.wait().await;
            Ok("met")
        }
    };
    let tool = InProcessTool::new("meet", "Waits for two others", meet).read_only();
    let server = InProcessServer::new("it", "1.0").with_tool(tool);
    let options = harness.options().sdk_server("it", server);
    let messages = run_query("Go on", options.allowed_tools(["mcp__it__meet"])).await;
    assert!(result_of(&messages).is_success());
    let tool_results = harness.model.last_request().tool_results();
    let tool_results: Vec<_> = tool_results.iter().map(ToolOutcome::text).collect();
    assert_eq!(tool_results, ["met", "met", "met"]);
    harness.close().await;
}

/// Sends `"dropped"` when it is dropped. A tool call holds it, so that the test notices when the
/// call is cancelled.
struct DropReporter(mpsc::Sender<&'static str>);

impl Drop for DropReporter {
    fn drop(&mut self) {
        let _ = self.0.try_send("dropped");
    }
}

#[tokio::test]
async fn interrupted_call_is_dropped() {
    let turns = [
        Turn::tool("mcp__it__wait", json!({})),
        Turn::text("Back again."),
    ];
    let Some(harness) = Harness::with_turns(turns).await else {
        return;
    };
    let (events, mut received) = mpsc::channel(4);
    let wait = move |context: ToolContext| {
        let events = events.clone();
        async move {
            let _reporter = DropReporter(events.clone());
            let _ = events.try_send("started");
            context.cancelled().await;
            std::future::pending::<ToolResult<String>>().await
        }
    };
    let server = InProcessServer::new("it", "1.0").tool("wait", "Never returns", wait);
    let options = harness.options().sdk_server("it", server);
    let client = connect(options.allowed_tools(["mcp__it"])).await;
    client.send("Wait, please").await.unwrap();
    assert_eq!(received.recv().await, Some("started"));
    client.interrupt().await.unwrap();
    let messages = receive_turn(&client).await;
    assert_eq!(result_of(&messages).subtype, "error_during_execution");
    assert_eq!(received.recv().await, Some("dropped"));

    // The session can still be used after the interruption.
    client.send("And now?").await.unwrap();
    let messages = receive_turn(&client).await;
    assert_eq!(result_of(&messages).result.as_deref(), Some("Back again."));
    client.close().await;
    harness.close().await;
}

#[tokio::test]
async fn megabyte_result_arrives() {
    const SIZE: usize = 1_000_000;
    /// Size of a result that the CLI passes to the model in full. The limit of the CLI is half a
    /// megabyte.
    const INLINE_SIZE: usize = 400_000;
    let turns = [
        Turn::tool("mcp__it__large", json!({})),
        Turn::tool("mcp__it__inline", json!({})),
        Turn::text("That was much."),
    ];
    let Some(harness) = Harness::with_turns(turns).await else {
        return;
    };
    let large = || async { Ok("x".repeat(SIZE)) };
    let medium = || async { Ok("x".repeat(INLINE_SIZE)) };
    let inline = InProcessTool::new("inline", "Returns a text to inline", medium)
        .meta("anthropic/maxResultSizeChars", INLINE_SIZE);
    let server = InProcessServer::new("it", "1.0")
        .tool("large", "Returns a large text", large)
        .with_tool(inline);
    let options = harness.options().sdk_server("it", server);
    let messages = run_query("Go on", options.allowed_tools(["mcp__it"])).await;
    assert!(result_of(&messages).is_success());
    let tool_results = harness.model.last_request().tool_results();
    assert!(
        tool_results.iter().all(|outcome| !outcome.is_error),
        "{tool_results:#?}"
    );
    // The CLI saves the result of `large` to a file and gives the model only the path.
    let text = tool_results[0].text();
    assert!(text.contains("saved to"), "{text}");
    let words = text.split_whitespace();
    let mut files = words.filter_map(|word| std::fs::read(word.trim_end_matches('.')).ok());
    let saved = files.next().expect("no saved file");
    assert!(saved.len() >= SIZE, "{} bytes", saved.len());
    assert_eq!(tool_results[1].text().len(), INLINE_SIZE);
    harness.close().await;
}
