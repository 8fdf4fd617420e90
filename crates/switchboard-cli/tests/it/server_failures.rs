//! Servers that fail to start: each fails in bounded time with its own message and exit code, and
//! does not affect a second server.

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::{Script, Step};

use crate::support::{CliOutput, Entry, TestCli, echo_server};

/// The startup timeout in milliseconds. Longer than the timeout of the probe that detects the
/// protocol era.
const STARTUP_TIMEOUT: &str = "3000";

/// Configures the server `bad`, and a server `good` that has to connect in every test.
fn with_bad_server(bad: impl Into<Entry>) -> TestCli {
    TestCli::with_servers([("bad", bad.into()), ("good", echo_server().into())])
}

async fn list(cli: &TestCli) -> CliOutput {
    let mut command = cli.command(&["list"]);
    command.env("MCP_TIMEOUT", STARTUP_TIMEOUT);
    cli.run_command(command).await
}

async fn call(cli: &TestCli, tool: &str) -> CliOutput {
    let mut command = cli.command(&["call", tool, "message=hi", "--yes"]);
    command.env("MCP_TIMEOUT", STARTUP_TIMEOUT);
    cli.run_command(command).await
}

#[tokio::test]
async fn missing_command_is_reported() {
    let cli = with_bad_server(json!({"command": "no-such-program"}));
    assert_snapshot!(list(&cli).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✗ failed  bad  project  stdio  -  -
            command not found: no-such-program
            hint: is `no-such-program` installed and on the PATH? An absolute path in `command` works too
        ✓ connected  good  project  stdio  2  [time]
        ");
    assert_snapshot!(call(&cli, "mcp__bad__echo").await, @"
        exit 4
        --- stderr
        error: server bad failed: command not found: no-such-program
        hint: is `no-such-program` installed and on the PATH? An absolute path in `command` works too
        ");
    assert_eq!(call(&cli, "mcp__good__echo").await.stdout, "hi");
}

#[tokio::test]
async fn missing_path_hint_names_working_directory() {
    let cli = TestCli::empty();
    let work = cli.sandbox.root().join("project/work");
    std::fs::create_dir(&work).unwrap();
    // `run.sh` exists in the project but not in `work`, the working directory of the server. The
    // hint must not mention the interpreter line (`#!`) of that file.
    cli.sandbox.write("run.sh", "#!/bin/sh");
    let servers = json!({"mcpServers": {
        "absolute": {"command": "/no/such/program"},
        "relative": {"command": "./bin/server"},
        "elsewhere": {"command": "./run.sh", "cwd": "work"},
    }});
    cli.sandbox.write(".mcp.json", servers.to_string());
    assert_snapshot!(list(&cli).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✗ failed  absolute  project  stdio  -  -
            command not found: /no/such/program
            hint: the file does not exist: correct the path in `command`, or install the program there
        ✗ failed  relative  project  stdio  -  -
            command not found: ./bin/server
            hint: a relative path starts from the working directory of the server, [sandbox]/project: correct `command` or `cwd` in its entry, or use an absolute path
        ✗ failed  elsewhere  project  stdio  -  -
            command not found: ./run.sh
            hint: a relative path starts from the working directory of the server, [sandbox]/project/work: correct `command` or `cwd` in its entry, or use an absolute path
        ");
}

#[tokio::test]
async fn non_executable_command_is_reported() {
    let cli = with_bad_server(json!({"command": "./plain.txt"}));
    cli.sandbox.write("plain.txt", "just text");
    assert_snapshot!(list(&cli).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✗ failed  bad  project  stdio  -  -
            ./plain.txt cannot be executed: no permission (try: chmod +x ./plain.txt)
        ✓ connected  good  project  stdio  2  [time]
        ");
    assert_snapshot!(call(&cli, "mcp__bad__echo").await, @"
        exit 4
        --- stderr
        error: server bad failed: ./plain.txt cannot be executed: no permission (try: chmod +x ./plain.txt)
        ");
}

#[tokio::test]
async fn immediate_exit_shows_stderr() {
    let script = "echo first >&2; printf 'second \\033[31mred\\n' >&2; exit 3";
    let cli = with_bad_server(json!({"command": "sh", "args": ["-c", script]}));
    assert_snapshot!(list(&cli).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✗ failed  bad  project  stdio  -  -
            the server exited with code 3; last lines of its stderr:
              │ first
              │ second red
        ✓ connected  good  project  stdio  2  [time]
        ");
    assert_snapshot!(call(&cli, "mcp__bad__echo").await, @"
        exit 4
        --- stderr
        error: server bad failed: the server exited with code 3; last lines of its stderr:
          │ first
          │ second red
        ");
}

#[tokio::test]
async fn banner_on_stdout_is_ignored() {
    let banners = [
        Step::raw("=== My Server v1 ==="),
        Step::raw(""),
        Step::raw("[info] ready"),
    ];
    let cli = with_bad_server(echo_server().on_start(banners));
    assert_snapshot!(list(&cli).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✓ connected  bad  project  stdio  2  [time]
        ✓ connected  good  project  stdio  2  [time]
        ");
    assert_eq!(call(&cli, "mcp__bad__echo").await.stdout, "hi");
}

#[tokio::test]
async fn exit_inside_message_is_reported() {
    let script = Script::legacy().on(
        "*",
        [Step::bytes("{\"jsonrpc\": \"2.0\", \"id"), Step::Exit(1)],
    );
    let cli = with_bad_server(script);
    assert_snapshot!(list(&cli).await, @r#"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✗ failed  bad  project  stdio  -  -
            the server closed the connection in the middle of a message: "{\"jsonrpc\": \"2.0\", \"id"; it exited with code 1
        ✓ connected  good  project  stdio  2  [time]
        "#);
    assert_snapshot!(call(&cli, "mcp__bad__echo").await, @r#"
        exit 4
        --- stderr
        error: server bad failed: the server closed the connection in the middle of a message: "{\"jsonrpc\": \"2.0\", \"id"; it exited with code 1
        "#);
}

#[tokio::test]
async fn unanswered_handshake_times_out() {
    let cli = with_bad_server(Script::legacy().on("*", [Step::Hang]));
    assert_snapshot!(list(&cli).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✗ failed  bad  project  stdio  -  -
            no response to the handshake within 3s
            hint: if the server starts slowly, raise `startupTimeout` (milliseconds) in its entry
        ✓ connected  good  project  stdio  2  [time]
        ");
    assert_snapshot!(call(&cli, "mcp__bad__echo").await, @"
        exit 4
        --- stderr
        error: server bad failed: no response to the handshake within 3s
        hint: if the server starts slowly, raise `startupTimeout` (milliseconds) in its entry
        ");
}

#[tokio::test]
async fn invalid_tools_are_skipped() {
    let script = Script::legacy()
        .raw_tool(json!({"description": "has no name"}))
        .raw_tool(json!({"name": 7}))
        .tool("echo");
    let cli = with_bad_server(script);
    assert_snapshot!(list(&cli).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✓ connected  bad  project  stdio  1  [time]
            note: tool number 1: it has no name
            note: tool number 2: invalid type: integer `7`, expected a string
        ✓ connected  good  project  stdio  2  [time]
        ");
    assert_snapshot!(cli.run(&["tools"]).await, @"
        exit 0
        --- stdout
        mcp__bad__echo  The scripted tool echo.

        mcp__good__echo  The scripted tool echo.
        mcp__good__add  The scripted tool add.
        --- stderr
        server bad: tool number 1: it has no name
        server bad: tool number 2: invalid type: integer `7`, expected a string
        ");
    assert_eq!(call(&cli, "mcp__bad__echo").await.stdout, "hi");
}

#[tokio::test]
async fn failed_tool_listing_is_reported() {
    let script = Script::legacy().on("tools/list", [Step::error(-32603, "database is locked")]);
    let cli = with_bad_server(script);
    assert_snapshot!(list(&cli).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✓ connected  bad  project  stdio  0  [time]
            listing the tools failed: the server returned an error: database is locked (code -32603)
        ✓ connected  good  project  stdio  2  [time]
        ");
    assert_snapshot!(call(&cli, "mcp__bad__echo").await, @"
        exit 4
        --- stderr
        error: server bad: listing the tools failed: the server returned an error: database is locked (code -32603)
        ");
}

#[tokio::test]
async fn invalid_timeout_variable_is_ignored() {
    let cli = TestCli::with_servers([("good", echo_server().into())]);
    let mut command = cli.command(&["list"]);
    command
        .env("MCP_TIMEOUT", "soon")
        .env("MCP_TOOL_TIMEOUT", "0");
    assert_snapshot!(cli.run_command(command).await, @r#"
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
async fn secret_argument_is_masked_in_stderr() {
    let script = "echo \"I was given $2\" >&2; exit 1";
    let cli = TestCli::with_servers([(
        "talkative",
        json!({"command": "sh", "args": ["-c", script, "x", "--token", "hush-hush-hush"]}).into(),
    )]);
    let list = cli.run(&["list"]).await;
    assert!(list.stdout.contains("I was given ***"), "{list}");
    let get = cli.run(&["get", "talkative", "--json"]).await;
    for output in [list, get] {
        assert!(!output.to_string().contains("hush"), "{output}");
    }
}

#[tokio::test]
async fn slow_start_hint_is_left_out_after_an_error_on_stderr() {
    let script = "echo 'npm error code ENOTFOUND' >&2; exec sleep 60";
    let entry = json!({"command": "sh", "args": ["-c", script], "startupTimeout": 500});
    let cli = TestCli::with_servers([("bad", entry.into())]);
    let output = list(&cli).await;
    assert!(
        output.stdout.contains("│ npm error code ENOTFOUND"),
        "{output}"
    );
    assert!(!output.stdout.contains("hint:"), "{output}");
}
