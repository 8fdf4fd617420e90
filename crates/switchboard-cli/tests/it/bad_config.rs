//! Config that is wrong: what can be used is used, and the rest is told.

use insta::assert_snapshot;
use serde_json::json;

use crate::support::{Desk, polite};

#[tokio::test]
async fn an_unset_variable_fails_its_server_and_no_other() {
    let desk = Desk::with([
        (
            "bad",
            json!({"command": "x", "args": ["${NOT_SET}"]}).into(),
        ),
        ("good", polite().into()),
    ]);
    let ran = desk.run(&["list"]).await;
    // The file is one long line, so the snippet is not worth a snapshot.
    assert!(
        ran.stderr
            .starts_with("warning: server `bad`: variable NOT_SET is not set"),
        "{ran}"
    );
    assert_snapshot!(ran.stdout, @"
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✗ failed  bad  project  stdio  -  -
            variable NOT_SET is not set
            hint: export NOT_SET=… or write ${NOT_SET:-default}
        ✓ connected  good  project  stdio  2  [time]
        ");
    assert_eq!(
        desk.run(&["call", "mcp__good__echo", "message=hi", "--yes"])
            .await
            .to_string(),
        "exit 0\n--- stdout\nhi"
    );
    let ran = desk.run(&["call", "mcp__bad__x", "--yes", "-q"]).await;
    assert_snapshot!(ran, @"
        exit 3
        --- stderr
        error: server bad cannot be used: variable NOT_SET is not set ([sandbox]/project/.mcp.json:1:16)
        hint: export NOT_SET=… or write ${NOT_SET:-default}
        ");
    assert_eq!(desk.run(&["get", "bad"]).await.code, 3);
}

#[tokio::test]
async fn a_project_file_that_is_broken_and_alone() {
    let desk = Desk::empty();
    desk.sandbox.write(
        ".mcp.json",
        "{\n  \"mcpServers\": {\n    \"a\": {\"command\": }\n  }\n}\n",
    );
    assert_snapshot!(desk.run(&["list"]).await, @r#"
        exit 3
        --- stderr
        warning: not valid JSON: unexpected close brace
         --> [sandbox]/project/.mcp.json:3:22
          |
        3 |  "a": {"command": }
          |  ^
        error: no valid server entries
        "#);
    assert_eq!(desk.run(&["tools"]).await.code, 3);
    let ran = desk.run(&["call", "mcp__a__b", "--yes", "--json"]).await;
    assert_eq!(ran.code, 3);
    assert_eq!(ran.json()["error"]["kind"], "config");
    assert_eq!(ran.json()["diagnostics"][0]["origin"]["line"], 3);
}

#[tokio::test]
async fn a_project_file_that_is_broken_beside_a_good_one() {
    let desk = Desk::with([("good", polite().into())]);
    let config = desk.sandbox.read(".mcp.json");
    desk.sandbox.write_home(".mcp.json", config);
    desk.sandbox.write(".mcp.json", "{\"mcpServers\": ");
    assert_snapshot!(desk.run(&["list"]).await, @r#"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✓ connected  good  user  stdio  2  [time]
        --- stderr
        warning: not valid JSON: expected value after colon in object property
         --> [sandbox]/project/.mcp.json:1:16
          |
        1 | {"mcpServers":
          |  ^
        "#);
}

#[tokio::test]
async fn a_named_file_that_is_broken_or_missing_is_fatal() {
    let desk = Desk::with([("good", polite().into())]);
    desk.sandbox.write("broken.json", "nonsense");
    assert_snapshot!(desk.run(&["list", "--mcp-config", "broken.json"]).await, @"
        exit 3
        --- stderr
        error: not valid JSON: unexpected word
         --> broken.json:1:1
          |
        1 | ********
          | ^^^^^^^^
          = hint: put it in double quotes
        error: cannot use the value of --mcp-config
        ");
    assert_snapshot!(desk.run(&["list", "--mcp-config", "missing.json"]).await, @"
        exit 3
        --- stderr
        error: there is no such file
         --> missing.json
          = hint: give the path of a file
        error: cannot use the value of --mcp-config
        ");
    assert_eq!(
        desk.run(&["list", "--mcp-config", "{nonsense"]).await.code,
        3
    );
}

#[tokio::test]
async fn quiet_leaves_warnings_out() {
    let desk = Desk::with([("good", polite().into())]);
    let config = desk
        .sandbox
        .read(".mcp.json")
        .replace("\"args\"", "\"colour\": 1, \"args\"");
    desk.sandbox.write(".mcp.json", config);
    let loud = desk
        .run(&["call", "mcp__good__echo", "message=hi", "--yes"])
        .await;
    assert!(loud.stderr.contains("colour"), "{loud}");
    let ran = desk
        .run(&["call", "mcp__good__echo", "message=hi", "--yes", "-q"])
        .await;
    assert_eq!(ran.to_string(), "exit 0\n--- stdout\nhi");
}

#[tokio::test]
async fn what_was_typed_wrong_is_a_usage_error() {
    let desk = Desk::empty();
    assert_eq!(desk.run(&["lsit"]).await.code, 2);
    assert_eq!(desk.run(&["call"]).await.code, 2);
    assert_eq!(desk.run(&["list", "--no-such-flag"]).await.code, 2);
    assert_eq!(desk.run(&["tools", "["]).await.code, 2);
    assert_eq!(desk.finish(desk.untrusting(&["--version"])).await.code, 0);
    assert_eq!(
        desk.finish(desk.untrusting(&["call", "--help"])).await.code,
        0
    );
    let ran = desk.run(&["list", "--trace", "no/such/folder/trace"]).await;
    assert_snapshot!(ran, @"
        exit 2
        --- stderr
        error: cannot write no/such/folder/trace: No such file or directory (os error 2)
        ");
}

#[tokio::test]
async fn a_named_config_without_servers_says_how_to_write_some() {
    let desk = Desk::empty();
    assert_snapshot!(desk.run(&["list", "--mcp-config", "{}"]).await, @r#"
        exit 3
        --- stderr
        warning: no servers are read: `mcpServers` is missing
         --> <inline>:1:1
          |
        1 | {}
          | ^^
          = hint: write { "mcpServers": { "name": { "command": "…" } } }
        error: no valid server entries
        "#);
    let args = ["list", "--mcp-config", r#"{"mcpServers": {}}"#];
    assert_eq!(desk.run(&args).await.code, 0);
}

#[tokio::test]
async fn a_file_that_is_not_utf8_is_told_as_such() {
    let desk = Desk::empty();
    desk.sandbox.write(
        "latin.json",
        b"{ \"mcpServers\": { \"a\": { \"cwd\": \"caf\xe9\" } } }",
    );
    assert_snapshot!(desk.run(&["list", "--mcp-config", "latin.json"]).await, @r#"
        exit 3
        --- stderr
        error: the file is not valid UTF-8
         --> latin.json:1:37
          |
        1 | { "mcpServers": { "a": { "cwd": "caf�" } } }
          |  ^
          = hint: save it as UTF-8
        error: cannot use the value of --mcp-config
        "#);
}
