//! Calls that go wrong: at most once, told apart, with the right exit code.

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::{Script, Step, count_lines};

use crate::support::{Desk, Ran};

/// What `call` says when the tool `t` takes these steps.
async fn call(steps: impl IntoIterator<Item = Step>) -> Ran {
    let steps = [Step::count("calls")].into_iter().chain(steps);
    let desk = Desk::with([(
        "ant",
        Script::legacy().tool("t").on("tools/call t", steps).into(),
    )]);
    let mut command = desk.command(&["call", "mcp__ant__t", "--yes"]);
    command.env("MCP_TOOL_TIMEOUT", "1000");
    let ran = desk.finish(command).await;
    assert_eq!(
        count_lines(desk.sandbox.project().join("calls")),
        1,
        "sent once"
    );
    ran
}

#[tokio::test]
async fn a_tool_that_never_answers() {
    assert_snapshot!(call([Step::Hang]).await, @"");
}

#[tokio::test]
async fn a_server_that_dies_in_the_middle_of_a_call() {
    assert_snapshot!(call([Step::Abort]).await, @"");
    assert_snapshot!(call([Step::bytes("{\"jsonrpc\""), Step::Exit(1)]).await, @"");
}

#[tokio::test]
async fn a_server_that_refuses_the_call() {
    assert_snapshot!(call([Step::error(-32000, "out of \u{1b}[31mcheese")]).await, @"");
}

#[tokio::test]
async fn a_server_that_answers_twice() {
    let result = json!({"content": [{"type": "text", "text": "once"}]});
    assert_snapshot!(call([Step::ReplyTwice(result)]).await, @"");
}

#[tokio::test]
async fn an_answer_that_is_too_long() {
    assert_snapshot!(call([Step::ReplyOfSize(17 * 1024 * 1024)]).await, @"");
}

#[tokio::test]
async fn an_answer_that_is_no_result() {
    assert_snapshot!(call([Step::Reply(json!([1, 2]))]).await, @"");
}

#[tokio::test]
async fn a_content_block_that_nobody_knows() {
    let result = json!({"content": [{"type": "hologram", "beams": 3}, {"type": "text", "text": "and text"}]});
    assert_snapshot!(call([Step::Reply(result)]).await, @"");
}

#[tokio::test]
async fn a_tool_with_a_broken_schema_can_be_called() {
    let tool = json!({"name": "t", "inputSchema": {"type": "object", "properties": {"a": {"type": "no such type"}}}});
    let script = Script::legacy()
        .raw_tool(tool)
        .on("tools/call t", [Step::text("fine")]);
    let desk = Desk::with([("ant", script.into())]);
    assert_snapshot!(desk.run(&["call", "mcp__ant__t", "a=1", "--yes"]).await, @"");
    assert_snapshot!(desk.run(&["describe", "mcp__ant__t"]).await, @"");
    assert_snapshot!(desk.run(&["list"]).await, @"");
}

#[tokio::test]
async fn a_tool_that_there_is_not() {
    let desk = Desk::with([("ant", Script::legacy().tool("echo").into())]);
    assert_snapshot!(desk.run(&["call", "mcp__ant__ecco", "--yes"]).await, @"");
    assert_snapshot!(desk.run(&["call", "mcp__ant__quite_different", "--yes"]).await, @"");
    assert_snapshot!(desk.run(&["call", "mcp__bee__echo", "--yes"]).await, @"");
    assert_eq!(
        desk.run(&["call", "mcp__ant__ecco", "--yes", "--json"])
            .await
            .json(),
        json!({"error": {
            "kind": "unknown-tool",
            "message": "there is no tool mcp__ant__ecco",
            "hint": "did you mean mcp__ant__echo?",
            "exitCode": 2,
        }})
    );
}
