//! Calls that go wrong: at most once, told apart, with the right exit code.

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::{Script, Step, count_lines};

use crate::support::{Desk, Ran};

/// What `call` says when the tool `t` takes these steps, all the time that they need.
async fn call(steps: impl IntoIterator<Item = Step>) -> Ran {
    call_within("20000", steps).await
}

/// The same, and only so many milliseconds are waited for an answer.
async fn call_within(limit: &str, steps: impl IntoIterator<Item = Step>) -> Ran {
    let steps = [Step::count("calls")].into_iter().chain(steps);
    let desk = Desk::with([(
        "ant",
        Script::legacy().tool("t").on("tools/call t", steps).into(),
    )]);
    let mut command = desk.command(&["call", "mcp__ant__t", "--yes"]);
    command.env("MCP_TOOL_TIMEOUT", limit);
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
    let ran = call_within("1000", [Step::Hang]).await;
    assert_eq!(ran.code, 8);
    assert!(
        ran.stderr
            .starts_with("error: t of server ant: no response within "),
        "{ran}"
    );
    assert!(
        ran.stderr
            .contains("it may or may not have been carried out\nhint: raise MCP_TOOL_TIMEOUT, or "),
        "{ran}"
    );
}

#[tokio::test]
async fn a_tool_that_says_on_stderr_what_it_waits_for() {
    let ran = call_within("1000", [Step::stderr("log in at the door"), Step::Hang]).await;
    assert_eq!(ran.code, 8);
    let said = "; its last words on stderr:\n  log in at the door\nhint: ";
    assert!(ran.stderr.contains(said), "{ran}");
}

#[tokio::test]
async fn a_server_that_dies_in_the_middle_of_a_call() {
    assert_snapshot!(call([Step::Abort]).await, @"
        exit 9
        --- stderr
        error: t of server ant may or may not have been carried out: the server was killed by signal 9
        ");
    assert_snapshot!(call([Step::bytes("{\"jsonrpc\""), Step::Exit(1)]).await, @r#"
        exit 9
        --- stderr
        error: t of server ant may or may not have been carried out: the server stopped in the middle of a message: "{\"jsonrpc\""; it exited with code 1
        "#);
}

#[tokio::test]
async fn a_server_that_refuses_the_call() {
    assert_snapshot!(call([Step::error(-32000, "out of \u{1b}[31mcheese")]).await, @"
        exit 7
        --- stderr
        error: server ant refused t: out of cheese (code -32000)
        ");
}

#[tokio::test]
async fn a_server_that_answers_twice() {
    let result = json!({"content": [{"type": "text", "text": "once"}]});
    assert_snapshot!(call([Step::ReplyTwice(result)]).await, @"
        exit 0
        --- stdout
        once
        ");
}

#[tokio::test]
async fn an_answer_that_is_too_long() {
    assert_snapshot!(call([Step::ReplyOfSize(17 * 1024 * 1024)]).await, @r#"
        exit 7
        --- stderr
        error: the answer of t of server ant cannot be used: longer than 16777216 bytes (limit `message_bytes`; raise it to accept more)
        hint: raise it by "limits": { "messageBytes": … } in [sandbox]/home/.config/switchboard/settings.json
        "#);
}

#[tokio::test]
async fn an_answer_that_is_no_result() {
    assert_snapshot!(call([Step::Reply(json!([1, 2]))]).await, @"
        exit 7
        --- stderr
        error: the answer of t of server ant cannot be used: the result is not an object
        ");
}

#[tokio::test]
async fn a_content_block_that_nobody_knows() {
    let result = json!({"content": [{"type": "hologram", "beams": 3}, {"type": "text", "text": "and text"}]});
    assert_snapshot!(call([Step::Reply(result)]).await, @r#"
        exit 0
        --- stdout
        [content of type "hologram", 29 bytes, cannot be shown]
        and text
        "#);
}

#[tokio::test]
async fn a_tool_with_a_broken_schema_can_be_called() {
    let tool = json!({"name": "t", "inputSchema": {"type": "object", "properties": {"a": {"type": "no such type"}}}});
    let script = Script::legacy()
        .raw_tool(tool)
        .on("tools/call t", [Step::text("fine")]);
    let desk = Desk::with([("ant", script.into())]);
    assert_snapshot!(desk.run(&["call", "mcp__ant__t", "a=1", "--yes"]).await, @"
        exit 0
        --- stdout
        fine
        ");
    assert_snapshot!(desk.run(&["describe", "mcp__ant__t"]).await, @"
        exit 0
        --- stdout
        mcp__ant__t
          server  ant
          tool  t

        Arguments
          a  no such type

        Usage
          switchboard call mcp__ant__t [a=…]
        ");
    assert_snapshot!(desk.run(&["list"]).await, @r#"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✓ connected  ant  project  stdio  1  [time]
            note: tool t: its arguments are not checked: "no such type" is not valid under any of the schemas listed in the 'anyOf' keyword
        "#);
}

#[tokio::test]
async fn a_tool_that_there_is_not() {
    let desk = Desk::with([("ant", Script::legacy().tool("echo").into())]);
    assert_snapshot!(desk.run(&["call", "mcp__ant__ecco", "--yes"]).await, @"
        exit 2
        --- stderr
        error: there is no tool mcp__ant__ecco
        hint: did you mean mcp__ant__echo?
        ");
    assert_snapshot!(desk.run(&["call", "mcp__ant__quite_different", "--yes"]).await, @"
        exit 2
        --- stderr
        error: there is no tool mcp__ant__quite_different
        hint: switchboard tools mcp__ant__ shows which there are
        ");
    assert_snapshot!(desk.run(&["call", "mcp__bee__echo", "--yes"]).await, @r#"
        exit 2
        --- stderr
        error: there is no tool mcp__bee__echo: no server is called "bee"
        hint: switchboard tools shows which there are
        "#);
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
