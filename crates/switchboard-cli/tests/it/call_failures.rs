//! Calls that fail: each request is sent at most once, and each kind of failure has its own message
//! and exit code.

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::{Script, Step, count_lines};

use crate::support::{CliOutput, TestCli};

/// Calls the tool `t`, which runs these steps, with a timeout of 20 seconds that no test reaches.
async fn call(steps: impl IntoIterator<Item = Step>) -> CliOutput {
    call_within("20000", steps).await
}

/// Calls the tool `t`, which runs these steps, with a timeout in milliseconds.
async fn call_within(timeout_ms: &str, steps: impl IntoIterator<Item = Step>) -> CliOutput {
    let steps = [Step::count("calls")].into_iter().chain(steps);
    let cli = TestCli::with_servers([(
        "ant",
        Script::legacy().tool("t").on("tools/call t", steps).into(),
    )]);
    let mut command = cli.command(&["call", "mcp__ant__t", "--yes"]);
    command.env("MCP_TOOL_TIMEOUT", timeout_ms);
    let output = cli.run_command(command).await;
    assert_eq!(
        count_lines(cli.sandbox.project().join("calls")),
        1,
        "sent once"
    );
    output
}

#[tokio::test]
async fn unanswered_call_times_out() {
    let output = call_within("1000", [Step::Hang]).await;
    assert_eq!(output.code, 8);
    assert!(
        output
            .stderr
            .starts_with("error: t of server ant: no response within "),
        "{output}"
    );
    assert!(
        output
            .stderr
            .contains("it may or may not have run\nhint: raise MCP_TOOL_TIMEOUT, or "),
        "{output}"
    );
}

#[tokio::test]
async fn timeout_message_includes_stderr() {
    let output = call_within("1000", [Step::stderr("log in at the door"), Step::Hang]).await;
    assert_eq!(output.code, 8);
    let expected = "; last lines on stderr:\n  │ log in at the door\nhint: ";
    assert!(output.stderr.contains(expected), "{output}");
}

#[tokio::test]
async fn server_crash_leaves_delivery_unknown() {
    assert_snapshot!(call([Step::Abort]).await, @"
        exit 9
        --- stderr
        error: t of server ant may or may not have run: the server was killed by signal 9
        ");
    assert_snapshot!(call([Step::bytes("{\"jsonrpc\""), Step::Exit(1)]).await, @r#"
        exit 9
        --- stderr
        error: t of server ant may or may not have run: the server closed the connection in the middle of a message: "{\"jsonrpc\""; it exited with code 1
        "#);
}

#[tokio::test]
async fn error_response_is_printed() {
    assert_snapshot!(call([Step::error(-32000, "out of \u{1b}[31mcheese")]).await, @"
        exit 7
        --- stderr
        error: server ant returned an error for t: out of cheese (code -32000)
        ");
}

#[tokio::test]
async fn duplicate_response_is_ignored() {
    let result = json!({"content": [{"type": "text", "text": "once"}]});
    assert_snapshot!(call([Step::ReplyTwice(result)]).await, @"
        exit 0
        --- stdout
        once
        ");
}

#[tokio::test]
async fn oversized_response_is_rejected() {
    assert_snapshot!(call([Step::ReplyOfSize(17 * 1024 * 1024)]).await, @r#"
        exit 7
        --- stderr
        error: invalid response to t of server ant: longer than 16777216 bytes (limit `messageBytes`; raise it to accept more)
        hint: raise "limits": { "messageBytes": … } in [sandbox]/home/.config/switchboard/settings.json
        "#);
}

#[tokio::test]
async fn malformed_result_is_rejected() {
    assert_snapshot!(call([Step::Reply(json!([1, 2]))]).await, @"
        exit 7
        --- stderr
        error: invalid response to t of server ant: the result is not an object
        ");
}

#[tokio::test]
async fn unknown_content_block_is_described() {
    let result = json!({"content": [{"type": "hologram", "beams": 3}, {"type": "text", "text": "and text"}]});
    assert_snapshot!(call([Step::Reply(result)]).await, @r#"
        exit 0
        --- stdout
        [content of type "hologram", 29 bytes, cannot be shown]
        and text
        "#);
}

#[tokio::test]
async fn tool_with_invalid_schema_is_callable() {
    let tool = json!({"name": "t", "inputSchema": {"type": "object", "properties": {"a": {"type": "no such type"}}}});
    let script = Script::legacy()
        .raw_tool(tool)
        .on("tools/call t", [Step::text("fine")]);
    let cli = TestCli::with_servers([("ant", script.into())]);
    assert_snapshot!(cli.run(&["call", "mcp__ant__t", "a=1", "--yes"]).await, @"
        exit 0
        --- stdout
        fine
        ");
    assert_snapshot!(cli.run(&["describe", "mcp__ant__t"]).await, @r#"
        exit 0
        --- stdout
        mcp__ant__t
          server  ant
          tool  t

        Arguments
          a  no such type

        Usage
          switchboard call mcp__ant__t [a=…]

          note: tool t: arguments are not validated: "no such type" is not valid under any of the schemas listed in the 'anyOf' keyword
        "#);
    let described = cli.run(&["describe", "mcp__ant__t", "--json"]).await.json();
    assert_eq!(described["notes"].as_array().unwrap().len(), 1);
    let doctor = cli.run(&["doctor"]).await;
    assert!(
        doctor.stdout.contains("arguments are not validated"),
        "{doctor}"
    );
    // `list` compiles no schemas.
    assert_snapshot!(cli.run(&["list"]).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✓ connected  ant  project  stdio  1  [time]
        ");
}

#[tokio::test]
async fn unknown_tool_suggests_nearest() {
    let cli = TestCli::with_servers([("ant", Script::legacy().tool("echo").into())]);
    assert_snapshot!(cli.run(&["call", "mcp__ant__ecco", "--yes"]).await, @"
        exit 2
        --- stderr
        error: unknown tool mcp__ant__ecco
        hint: did you mean mcp__ant__echo?
        ");
    assert_snapshot!(cli.run(&["call", "mcp__ant__quite_different", "--yes"]).await, @"
        exit 2
        --- stderr
        error: unknown tool mcp__ant__quite_different
        hint: run `switchboard tools mcp__ant__` to list its tools
        ");
    assert_snapshot!(cli.run(&["call", "mcp__bee__echo", "--yes"]).await, @r#"
        exit 2
        --- stderr
        error: unknown tool mcp__bee__echo: no server named "bee"
        hint: run `switchboard tools` to list tools
        "#);
    assert_eq!(
        cli.run(&["call", "mcp__ant__ecco", "--yes", "--json"])
            .await
            .json(),
        json!({"error": {
            "kind": "unknown-tool",
            "message": "unknown tool mcp__ant__ecco",
            "hint": "did you mean mcp__ant__echo?",
            "exitCode": 2,
        }})
    );
}
