//! Servers that misbehave before a call: each ends in bounded time, with the right words and exit code,
//! and leaves the one beside it alone.

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::{Script, Step};

use crate::support::{Desk, Entry, Ran, polite};

/// How long a server may take to start, in milliseconds: more than the probe alone.
const PATIENCE: &str = "3000";

/// The bad one, and a good one beside it, which must be connected whatever the other does.
fn beside(bad: impl Into<Entry>) -> Desk {
    Desk::with([("bad", bad.into()), ("good", polite().into())])
}

async fn list(desk: &Desk) -> Ran {
    let mut command = desk.command(&["list"]);
    command.env("MCP_TIMEOUT", PATIENCE);
    desk.finish(command).await
}

async fn call(desk: &Desk, tool: &str) -> Ran {
    let mut command = desk.command(&["call", tool, "message=hi", "--yes"]);
    command.env("MCP_TIMEOUT", PATIENCE);
    desk.finish(command).await
}

#[tokio::test]
async fn a_command_that_does_not_exist() {
    let desk = beside(json!({"command": "no-such-program"}));
    assert_snapshot!(list(&desk).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✗ failed  bad  project  stdio  -  -
            command not found: no-such-program
            hint: is `no-such-program` installed and on the PATH? An absolute path in `command` works too
        ✓ connected  good  project  stdio  2  [time]
        ");
    assert_snapshot!(call(&desk, "mcp__bad__echo").await, @"
        exit 4
        --- stderr
        error: server bad failed: command not found: no-such-program
        hint: is `no-such-program` installed and on the PATH? An absolute path in `command` works too
        ");
    assert_eq!(call(&desk, "mcp__good__echo").await.stdout, "hi");
}

#[tokio::test]
async fn a_path_at_which_there_is_nothing() {
    let desk = Desk::empty();
    let work = desk.sandbox.root().join("project/work");
    std::fs::create_dir(&work).unwrap();
    // A file of that name elsewhere is no reason to speak of its first line.
    desk.sandbox.write("run.sh", "#!/bin/sh");
    let servers = json!({"mcpServers": {
        "absolute": {"command": "/no/such/program"},
        "relative": {"command": "./bin/server"},
        "elsewhere": {"command": "./run.sh", "cwd": "work"},
    }});
    desk.sandbox.write(".mcp.json", servers.to_string());
    assert_snapshot!(list(&desk).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✗ failed  absolute  project  stdio  -  -
            command not found: /no/such/program
            hint: there is no such file: mend the path in `command`, or install it there
        ✗ failed  relative  project  stdio  -  -
            command not found: ./bin/server
            hint: a relative path counts from the folder that the server works in, here [sandbox]/project: mend `command` or `cwd` in its entry, or write an absolute path
        ✗ failed  elsewhere  project  stdio  -  -
            command not found: ./run.sh
            hint: a relative path counts from the folder that the server works in, here [sandbox]/project/work: mend `command` or `cwd` in its entry, or write an absolute path
        ");
}

#[tokio::test]
async fn a_command_that_cannot_be_executed() {
    let desk = beside(json!({"command": "./plain.txt"}));
    desk.sandbox.write("plain.txt", "just text");
    assert_snapshot!(list(&desk).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✗ failed  bad  project  stdio  -  -
            ./plain.txt cannot be executed: no permission (try: chmod +x ./plain.txt)
        ✓ connected  good  project  stdio  2  [time]
        ");
    assert_snapshot!(call(&desk, "mcp__bad__echo").await, @"
        exit 4
        --- stderr
        error: server bad failed: ./plain.txt cannot be executed: no permission (try: chmod +x ./plain.txt)
        ");
}

#[tokio::test]
async fn a_server_that_exits_at_once() {
    let script = "echo first >&2; printf 'second \\033[31mred\\n' >&2; exit 3";
    let desk = beside(json!({"command": "sh", "args": ["-c", script]}));
    assert_snapshot!(list(&desk).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✗ failed  bad  project  stdio  -  -
            the server exited with code 3; its last words on stderr:
            first
            second red
        ✓ connected  good  project  stdio  2  [time]
        ");
    assert_snapshot!(call(&desk, "mcp__bad__echo").await, @"
        exit 4
        --- stderr
        error: server bad failed: the server exited with code 3; its last words on stderr:
          first
          second red
        ");
}

#[tokio::test]
async fn a_server_that_prints_banners_before_it_speaks() {
    let banners = [
        Step::raw("=== My Server v1 ==="),
        Step::raw(""),
        Step::raw("[info] ready"),
    ];
    let desk = beside(polite().on_start(banners));
    assert_snapshot!(list(&desk).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✓ connected  bad  project  stdio  2  [time]
        ✓ connected  good  project  stdio  2  [time]
        ");
    assert_eq!(call(&desk, "mcp__bad__echo").await.stdout, "hi");
}

#[tokio::test]
async fn a_server_that_speaks_half_a_line_and_dies() {
    let script = Script::legacy().on(
        "*",
        [Step::bytes("{\"jsonrpc\": \"2.0\", \"id"), Step::Exit(1)],
    );
    let desk = beside(script);
    assert_snapshot!(list(&desk).await, @r#"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✗ failed  bad  project  stdio  -  -
            the server stopped in the middle of a message: "{\"jsonrpc\": \"2.0\", \"id"; it exited with code 1
        ✓ connected  good  project  stdio  2  [time]
        "#);
    assert_snapshot!(call(&desk, "mcp__bad__echo").await, @r#"
        exit 4
        --- stderr
        error: server bad failed: the server stopped in the middle of a message: "{\"jsonrpc\": \"2.0\", \"id"; it exited with code 1
        "#);
}

#[tokio::test]
async fn a_server_that_never_answers() {
    let desk = beside(Script::legacy().on("*", [Step::Hang]));
    assert_snapshot!(list(&desk).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✗ failed  bad  project  stdio  -  -
            no answer to the handshake within 3s
            hint: a slow start needs more time: `startupTimeout` in its entry, in milliseconds
        ✓ connected  good  project  stdio  2  [time]
        ");
    assert_snapshot!(call(&desk, "mcp__bad__echo").await, @"
        exit 4
        --- stderr
        error: server bad failed: no answer to the handshake within 3s
        hint: a slow start needs more time: `startupTimeout` in its entry, in milliseconds
        ");
}

#[tokio::test]
async fn a_server_of_which_only_one_tool_can_be_used() {
    let script = Script::legacy()
        .raw_tool(json!({"description": "has no name"}))
        .raw_tool(json!({"name": 7}))
        .tool("echo");
    let desk = beside(script);
    assert_snapshot!(list(&desk).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✓ connected  bad  project  stdio  1  [time]
            note: tool number 1: it has no name
            note: tool number 2: invalid type: integer `7`, expected a string
        ✓ connected  good  project  stdio  2  [time]
        ");
    assert_snapshot!(desk.run(&["tools"]).await, @"
        exit 0
        --- stdout
        mcp__bad__echo  The scripted tool echo.

        mcp__good__echo  The scripted tool echo.
        mcp__good__add  The scripted tool add.
        --- stderr
        server bad: tool number 1: it has no name
        server bad: tool number 2: invalid type: integer `7`, expected a string
        ");
    assert_eq!(call(&desk, "mcp__bad__echo").await.stdout, "hi");
}

#[tokio::test]
async fn a_server_that_cannot_list_its_tools() {
    let script = Script::legacy().on("tools/list", [Step::error(-32603, "database is locked")]);
    let desk = beside(script);
    assert_snapshot!(list(&desk).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✓ connected  bad  project  stdio  0  [time]
            its tools could not be listed: the server refused: database is locked (code -32603)
        ✓ connected  good  project  stdio  2  [time]
        ");
    assert_snapshot!(call(&desk, "mcp__bad__echo").await, @"
        exit 4
        --- stderr
        error: server bad: its tools could not be listed: the server refused: database is locked (code -32603)
        ");
}

#[tokio::test]
async fn a_strange_value_of_a_timeout_is_warned_about() {
    let desk = Desk::with([("good", polite().into())]);
    let mut command = desk.command(&["list"]);
    command
        .env("MCP_TIMEOUT", "soon")
        .env("MCP_TOOL_TIMEOUT", "0");
    assert_snapshot!(desk.finish(command).await, @r#"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✓ connected  good  project  stdio  2  [time]
        --- stderr
        warning: ignoring MCP_TIMEOUT="soon": expected a positive integer
        warning: ignoring MCP_TOOL_TIMEOUT="0": expected a positive integer
        "#);
}

#[tokio::test]
async fn a_secret_among_the_arguments_is_masked_in_what_the_server_says() {
    let says = "echo \"I was given $2\" >&2; exit 1";
    let desk = Desk::with([(
        "talkative",
        json!({"command": "sh", "args": ["-c", says, "x", "--token", "hush-hush-hush"]}).into(),
    )]);
    let list = desk.run(&["list"]).await;
    assert!(list.stdout.contains("I was given ***"), "{list}");
    let get = desk.run(&["get", "talkative", "--json"]).await;
    for ran in [list, get] {
        assert!(!ran.to_string().contains("hush"), "{ran}");
    }
}
