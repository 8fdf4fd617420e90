//! Invalid config: valid entries are used, and problems are reported.

use insta::assert_snapshot;
use serde_json::json;

use crate::support::{TestCli, echo_server};

#[tokio::test]
async fn unset_variable_fails_only_its_server() {
    let cli = TestCli::with_servers([
        (
            "bad",
            json!({"command": "x", "args": ["${NOT_SET}"]}).into(),
        ),
        ("good", echo_server().into()),
    ]);
    let output = cli.run(&["list"]).await;
    // Do not use a snapshot: the config file is one long line, so the printed source snippet is not
    // readable.
    assert!(
        output
            .stderr
            .starts_with("warning: server `bad`: variable NOT_SET is not set"),
        "{output}"
    );
    assert_snapshot!(output.stdout, @"
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✗ failed  bad  project  stdio  -  -
            variable NOT_SET is not set
            hint: export NOT_SET=… or write ${NOT_SET:-default}
        ✓ connected  good  project  stdio  2  [time]
        ");
    assert_eq!(
        cli.run(&["call", "mcp__good__echo", "message=hi", "--yes"])
            .await
            .to_string(),
        "exit 0\n--- stdout\nhi"
    );
    let output = cli.run(&["call", "mcp__bad__x", "--yes", "-q"]).await;
    assert_snapshot!(output, @"
        exit 3
        --- stderr
        error: server bad has an invalid entry: variable NOT_SET is not set ([sandbox]/project/.mcp.json:1:16)
        hint: export NOT_SET=… or write ${NOT_SET:-default}
        ");
    assert_eq!(cli.run(&["get", "bad"]).await.code, 3);
}

#[tokio::test]
async fn broken_only_config_file_is_fatal() {
    let cli = TestCli::empty();
    cli.sandbox.write(
        ".mcp.json",
        "{\n  \"mcpServers\": {\n    \"a\": {\"command\": }\n  }\n}\n",
    );
    assert_snapshot!(cli.run(&["list"]).await, @r#"
        exit 3
        --- stderr
        warning: not valid JSON: unexpected close brace
         --> [sandbox]/project/.mcp.json:3:22
          |
        3 |  "a": {"command": }
          |  ^
        error: no valid server entries
        "#);
    assert_eq!(cli.run(&["tools"]).await.code, 3);
    let output = cli.run(&["call", "mcp__a__b", "--yes", "--json"]).await;
    assert_eq!(output.code, 3);
    assert_eq!(output.json()["error"]["kind"], "config");
    assert_eq!(output.json()["diagnostics"][0]["origin"]["line"], 3);
}

#[tokio::test]
async fn broken_project_file_keeps_user_servers() {
    let cli = TestCli::with_servers([("good", echo_server().into())]);
    let config = cli.sandbox.read(".mcp.json");
    cli.sandbox.write_home(".mcp.json", config);
    cli.sandbox.write(".mcp.json", "{\"mcpServers\": ");
    assert_snapshot!(cli.run(&["list"]).await, @r#"
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
async fn broken_or_missing_mcp_config_is_fatal() {
    let cli = TestCli::with_servers([("good", echo_server().into())]);
    cli.sandbox.write("broken.json", "nonsense");
    assert_snapshot!(cli.run(&["list", "--mcp-config", "broken.json"]).await, @"
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
    assert_snapshot!(cli.run(&["list", "--mcp-config", "missing.json"]).await, @"
        exit 3
        --- stderr
        error: file not found
         --> missing.json
          = hint: pass the path of a file
        error: cannot use the value of --mcp-config
        ");
    assert_eq!(
        cli.run(&["list", "--mcp-config", "{nonsense"]).await.code,
        3
    );
}

#[tokio::test]
async fn quiet_suppresses_warnings() {
    let cli = TestCli::with_servers([("good", echo_server().into())]);
    let config = cli
        .sandbox
        .read(".mcp.json")
        .replace("\"args\"", "\"colour\": 1, \"args\"");
    cli.sandbox.write(".mcp.json", config);
    let loud = cli
        .run(&["call", "mcp__good__echo", "message=hi", "--yes"])
        .await;
    assert!(loud.stderr.contains("colour"), "{loud}");
    let output = cli
        .run(&["call", "mcp__good__echo", "message=hi", "--yes", "-q"])
        .await;
    assert_eq!(output.to_string(), "exit 0\n--- stdout\nhi");
}

#[tokio::test]
async fn invalid_command_line_is_usage_error() {
    let cli = TestCli::empty();
    assert_eq!(cli.run(&["lsit"]).await.code, 2);
    assert_eq!(cli.run(&["call"]).await.code, 2);
    assert_eq!(cli.run(&["list", "--no-such-flag"]).await.code, 2);
    assert_eq!(cli.run(&["tools", "["]).await.code, 2);
    assert_eq!(
        cli.run_command(cli.command_without_trust(&["--version"]))
            .await
            .code,
        0
    );
    assert_eq!(
        cli.run_command(cli.command_without_trust(&["call", "--help"]))
            .await
            .code,
        0
    );
    let output = cli.run(&["list", "--trace", "no/such/folder/trace"]).await;
    assert_snapshot!(output, @"
        exit 2
        --- stderr
        error: cannot write no/such/folder/trace: No such file or directory (os error 2)
        ");
}

#[tokio::test]
async fn mcp_config_without_servers_has_hint() {
    let cli = TestCli::empty();
    assert_snapshot!(cli.run(&["list", "--mcp-config", "{}"]).await, @r#"
        exit 3
        --- stderr
        warning: no servers loaded: `mcpServers` is missing
         --> <inline>:1:1
          |
        1 | {}
          | ^^
          = hint: write { "mcpServers": { "name": { "command": "…" } } }
        error: no valid server entries
        "#);
    let args = ["list", "--mcp-config", r#"{"mcpServers": {}}"#];
    assert_eq!(cli.run(&args).await.code, 0);
}

#[tokio::test]
async fn non_utf8_file_is_rejected() {
    let cli = TestCli::empty();
    cli.sandbox.write(
        "latin.json",
        b"{ \"mcpServers\": { \"a\": { \"cwd\": \"caf\xe9\" } } }",
    );
    assert_snapshot!(cli.run(&["list", "--mcp-config", "latin.json"]).await, @r#"
        exit 3
        --- stderr
        error: file is not valid UTF-8
         --> latin.json:1:37
          |
        1 | { "mcpServers": { "a": { "cwd": "caf�" } } }
          |  ^
          = hint: save it as UTF-8
        error: cannot use the value of --mcp-config
        "#);
}
