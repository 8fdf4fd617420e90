//! `tools` and `describe`.

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::{Script, Step};

use crate::support::{Desk, entry, polite};

fn described() -> serde_json::Value {
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
async fn tools_of_all_servers_in_the_order_of_the_file() {
    let desk = Desk::with([
        ("zebra", polite().into()),
        (
            "later",
            entry(Script::legacy().tool("sleep"), json!({"lazy": true})),
        ),
        ("ant", Script::modern().raw_tool(described()).into()),
    ]);
    assert_snapshot!(desk.run(&["tools"]).await, @"
        exit 0
        --- stdout
        mcp__zebra__echo  The scripted tool echo.
        mcp__zebra__add  The scripted tool add.

        mcp__later__sleep  The scripted tool sleep.

        mcp__ant__search  Finds things.
        ");
    assert_snapshot!(desk.run(&["tools", "ECHO"]).await, @"
        exit 0
        --- stdout
        mcp__zebra__echo  The scripted tool echo.
        ");
    assert_snapshot!(desk.run(&["tools", "mcp__zebra__*"]).await, @"
        exit 0
        --- stdout
        mcp__zebra__echo  The scripted tool echo.
        mcp__zebra__add  The scripted tool add.
        ");
    assert_snapshot!(desk.run(&["tools", "nothing-like-it"]).await, @"
        exit 0
        --- stderr
        none of 4 tools fits the pattern
        ");
}

#[tokio::test]
async fn the_same_as_data() {
    let desk = Desk::with([("ant", Script::legacy().raw_tool(described()).into())]);
    let tools = desk.run(&["tools", "--json"]).await.json();
    assert_eq!(
        tools,
        json!([{
            "name": "mcp__ant__search",
            "server": "ant",
            "tool": "search",
            "title": "Search",
            "description": described()["description"],
            "inputSchema": described()["inputSchema"],
            "annotations": {"readOnlyHint": true, "openWorldHint": false},
            "available": true,
        }])
    );
    let tool = desk
        .run(&["describe", "mcp__ant__search", "--json"])
        .await
        .json();
    assert_eq!(tool, tools[0]);
}

#[tokio::test]
async fn a_failed_server_is_told_in_one_line_and_the_rest_is_there() {
    let desk = Desk::with([
        (
            "bad",
            json!({"command": "sh", "args": ["-c", "echo one >&2; echo two >&2; exit 3"]}).into(),
        ),
        ("good", polite().into()),
    ]);
    assert_snapshot!(desk.run(&["tools"]).await, @"
        exit 0
        --- stdout
        mcp__good__echo  The scripted tool echo.
        mcp__good__add  The scripted tool add.
        --- stderr
        server bad failed: the server exited with code 3; its last words on stderr: one two
        ");
}

#[tokio::test]
async fn no_server_at_all_or_none_connected() {
    assert_snapshot!(Desk::empty().run(&["tools"]).await, @"
        exit 0
        --- stderr
        no servers are configured: switchboard list says what to do
        ");
    let desk = Desk::with([("bad", json!({"command": "no-such-program"}).into())]);
    assert_snapshot!(desk.run(&["tools"]).await, @"
        exit 4
        --- stderr
        server bad failed: command not found: no-such-program
        ");
}

#[tokio::test]
async fn one_tool_and_how_to_call_it() {
    let desk = Desk::with([
        (
            "ant",
            Script::legacy().raw_tool(described()).tool("ping").into(),
        ),
        (
            "other",
            Script::legacy().on_start([Step::count("started")]).into(),
        ),
    ]);
    assert_snapshot!(desk.run(&["describe", "mcp__ant__search"]).await, @r#"
        exit 0
        --- stdout
        mcp__ant__search
          server  ant
          tool  search
          title  Search
          claims  read-only, closed world

          Finds things.

          Second paragraph.

        Arguments
          query  string  required  What to look for
          limit  integer  How many (default 10)
          tags  list of string
          order  "up" or "down"

        Usage
          switchboard call mcp__ant__search query=… [limit=…] [tags=…] [order=…]
        "#);
    assert_snapshot!(desk.run(&["describe", "mcp__ant__ping"]).await, @"
        exit 0
        --- stdout
        mcp__ant__ping
          server  ant
          tool  ping

          The scripted tool ping.

        Arguments
          none

        Usage
          switchboard call mcp__ant__ping
        ");
    assert!(!desk.sandbox.project().join("started").exists());
}

#[tokio::test]
async fn unknown_names_come_with_the_nearest() {
    let desk = Desk::with([("ant", polite().into())]);
    assert_snapshot!(desk.run(&["describe", "mcp__ant__ecco"]).await, @"
        exit 2
        --- stderr
        error: there is no tool mcp__ant__ecco
        hint: did you mean mcp__ant__echo?
        ");
    assert_snapshot!(desk.run(&["describe", "mcp__amt__echo"]).await, @r#"
        exit 2
        --- stderr
        error: there is no tool mcp__amt__echo: no server is called "amt"
        hint: did you mean mcp__ant__echo?
        "#);
    assert_snapshot!(desk.run(&["describe", "echo"]).await, @r#"
        exit 2
        --- stderr
        error: "echo" is not the name of a tool: they look like mcp__server__tool
        hint: switchboard tools echo
        "#);
}
