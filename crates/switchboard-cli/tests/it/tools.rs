//! `tools` and `describe`: listing, filters and a tool's arguments.

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::{Script, Step};

use crate::support::{Entry, TestCli, echo_server, entry};

fn search_tool() -> serde_json::Value {
    json!({
        "name": "search",
        "title": "Search",
        "description": "Finds things.\n\nSecond \u{1b}[2Jparagraph.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "limit": {"type": "integer", "description": "How many", "default": 10},
                "query": {"type": "string", "description": "What to look for"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "order": {"enum": ["up", "down"]},
            },
            "required": ["query"],
        },
        "annotations": {"readOnlyHint": true, "openWorldHint": false},
    })
}

#[tokio::test]
async fn tools_are_listed_in_file_order() {
    let cli = TestCli::with_servers([
        ("zebra", echo_server().into()),
        (
            "later",
            entry(Script::legacy().tool("sleep"), json!({"lazy": true})),
        ),
        ("ant", Script::modern().raw_tool(search_tool()).into()),
    ]);
    assert_snapshot!(cli.run(&["tools"]).await, @"
        exit 0
        --- stdout
        mcp__zebra__echo  The scripted tool echo.
        mcp__zebra__add  The scripted tool add.

        mcp__later__sleep  The scripted tool sleep.

        mcp__ant__search  Finds things.
        ");
    assert_snapshot!(cli.run(&["tools", "ECHO"]).await, @"
        exit 0
        --- stdout
        mcp__zebra__echo  The scripted tool echo.
        ");
    assert_snapshot!(cli.run(&["tools", "mcp__zebra__*"]).await, @"
        exit 0
        --- stdout
        mcp__zebra__echo  The scripted tool echo.
        mcp__zebra__add  The scripted tool add.
        ");
    assert_snapshot!(cli.run(&["tools", "nothing-like-it"]).await, @r#"
        exit 0
        --- stderr
        no tool matches "nothing-like-it" (4 tools checked)
        "#);
}

#[tokio::test]
async fn pattern_that_names_a_server_starts_only_it() {
    let cli = TestCli::with_servers([
        ("ant", echo_server().into()),
        ("bee", Entry::Raw(json!({"command": "no-such-program"}))),
    ]);
    for pattern in ["mcp__ant__*", "mcp__ant__echo", "mcp__an*__echo"] {
        let output = cli.run(&["tools", pattern]).await;
        assert!(output.stdout.contains("mcp__ant__echo"), "{output}");
        assert_eq!(output.stderr, "", "the other server was not started");
    }
    let output = cli.run(&["tools", "*echo"]).await;
    assert!(output.stderr.contains("server bee failed"), "{output}");
    assert_snapshot!(cli.run(&["tools", "mcp__none__*"]).await, @r#"
        exit 0
        --- stderr
        no tool matches "mcp__none__*"
        "#);
}

#[tokio::test]
async fn json_contains_tool_definition() {
    let cli = TestCli::with_servers([("ant", Script::legacy().raw_tool(search_tool()).into())]);
    let tools = cli.run(&["tools", "--json"]).await.json();
    assert_eq!(
        tools,
        json!([{
            "name": "mcp__ant__search",
            "server": "ant",
            "tool": "search",
            "title": "Search",
            "description": "Finds things.\n\nSecond paragraph.",
            "inputSchema": search_tool()["inputSchema"],
            "annotations": {"readOnlyHint": true, "openWorldHint": false},
            "available": true,
        }])
    );
    let tool = cli
        .run(&["describe", "mcp__ant__search", "--json"])
        .await
        .json();
    assert_eq!(tool, tools[0]);
}

#[tokio::test]
async fn failed_server_is_reported_on_one_line() {
    let cli = TestCli::with_servers([
        (
            "bad",
            json!({"command": "sh", "args": ["-c", "echo one >&2; echo two >&2; exit 3"]}).into(),
        ),
        ("good", echo_server().into()),
    ]);
    assert_snapshot!(cli.run(&["tools"]).await, @"
        exit 4
        --- stdout
        mcp__good__echo  The scripted tool echo.
        mcp__good__add  The scripted tool add.
        --- stderr
        server bad failed: the server exited with code 3; last lines of its stderr: one two
        ");
}

#[tokio::test]
async fn tools_fails_without_connected_server() {
    assert_snapshot!(TestCli::empty().run(&["tools"]).await, @"
        exit 0
        --- stderr
        no servers configured; add one with `switchboard add`
        ");
    let cli = TestCli::with_servers([("bad", json!({"command": "no-such-program"}).into())]);
    assert_snapshot!(cli.run(&["tools"]).await, @"
        exit 4
        --- stderr
        server bad failed: command not found: no-such-program
        ");
}

#[tokio::test]
async fn describe_shows_arguments_and_usage() {
    let cli = TestCli::with_servers([
        (
            "ant",
            Script::legacy().raw_tool(search_tool()).tool("ping").into(),
        ),
        (
            "other",
            Script::legacy().on_start([Step::count("started")]).into(),
        ),
    ]);
    assert_snapshot!(cli.run(&["describe", "mcp__ant__search"]).await, @r#"
        exit 0
        --- stdout
        mcp__ant__search
          server  ant
          tool  search
          title  Search
          hints  read-only, closed world

          │ Finds things.
          │
          │ Second paragraph.

        Arguments
          query  string  required  What to look for
          limit  integer  How many (default 10)
          tags  list of string
          order  "up" or "down"

        Usage
          switchboard call mcp__ant__search query=… [limit=…] [tags=…] [order=…]
        "#);
    assert_snapshot!(cli.run(&["describe", "mcp__ant__ping"]).await, @"
        exit 0
        --- stdout
        mcp__ant__ping
          server  ant
          tool  ping

          │ The scripted tool ping.

        Arguments
          none

        Usage
          switchboard call mcp__ant__ping
        ");
    assert!(!cli.sandbox.project().join("started").exists());
}

#[tokio::test]
async fn unknown_tool_suggests_nearest() {
    let cli = TestCli::with_servers([("ant", echo_server().into())]);
    assert_snapshot!(cli.run(&["describe", "mcp__ant__ecco"]).await, @"
        exit 2
        --- stderr
        error: unknown tool mcp__ant__ecco
        hint: did you mean mcp__ant__echo?
        ");
    assert_snapshot!(cli.run(&["describe", "mcp__amt__echo"]).await, @r#"
        exit 2
        --- stderr
        error: unknown tool mcp__amt__echo: no server named "amt"
        hint: did you mean mcp__ant__echo?
        "#);
    assert_snapshot!(cli.run(&["describe", "echo"]).await, @r#"
        exit 2
        --- stderr
        error: "echo" is not a tool name (expected mcp__server__tool or SERVER.TOOL)
        hint: switchboard tools echo
        "#);
}
