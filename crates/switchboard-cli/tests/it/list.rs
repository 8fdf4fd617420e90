//! `list` and `get`: status, approval and exit codes.

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::{Script, Step};

use crate::support::{TestCli, echo_server, entry};

#[tokio::test]
async fn servers_are_listed_in_file_order() {
    let cli = TestCli::with_servers([
        ("zebra", echo_server().into()),
        ("ant", Script::modern().tool("echo").into()),
        ("off", json!({"command": "x", "disabled": true}).into()),
        ("later", entry(echo_server(), json!({"lazy": true}))),
        ("remote", json!({"url": "http://127.0.0.1:1/mcp"}).into()),
    ]);
    assert_snapshot!(cli.run(&["list"]).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✓ connected  zebra  project  stdio  2  [time]
        ✓ connected  ant  project  stdio  1  [time]
        - disabled  off  project  stdio  -  -
            disabled in its entry
        ○ pending  later  project  stdio  -  -
            not started; the first call starts it
        ✗ failed  remote  project  http  -  -
            cannot connect to 127.0.0.1:1: Connection refused (os error 111)
        ");
}

#[tokio::test]
async fn json_contains_server_details() {
    let cli = TestCli::with_servers([("one", echo_server().into())]);
    let output = cli.run(&["list", "--json"]).await;
    let data = output.json();
    let server = &data["servers"][0];
    assert_eq!(output.code, 0);
    assert_eq!(data["diagnostics"], json!([]));
    assert_eq!(server["name"], "one");
    assert_eq!(server["status"], "connected");
    assert_eq!(server["scope"], "project");
    assert_eq!(server["transport"], "stdio");
    assert_eq!(server["origin"]["line"], 1);
    assert_eq!(
        server["serverInfo"],
        json!({"name": "scripted", "version": "1.0.0"})
    );
    assert_eq!(server["hello"]["version"], "2025-11-25");
    assert_eq!(server["tools"].as_array().unwrap().len(), 2);
    assert!(server["connectTime"].is_u64());
}

#[tokio::test]
async fn empty_config_prints_help() {
    let cli = TestCli::empty();
    assert_snapshot!(cli.run(&["list"]).await, @r#"
        exit 0
        --- stdout
        No servers configured.

        Add one:

          switchboard add everything -- npx -y @modelcontextprotocol/server-everything

        Or create .mcp.json in your project, or ~/.mcp.json for all projects:

          {
            "mcpServers": {
              "everything": {
                "command": "npx",
                "args": ["-y", "@modelcontextprotocol/server-everything"]
              }
            }
          }

        Then run:  switchboard trust && switchboard list
        Use another file:  switchboard --mcp-config FILE list
        Try it without config:  switchboard demo
        "#);
    assert_eq!(
        cli.run(&["list", "--json"]).await.json()["servers"],
        json!([])
    );
}

#[tokio::test]
async fn unapproved_servers_are_not_started() {
    let touch = json!({"command": "touch", "args": ["started", "two words"]});
    let cli = TestCli::with_servers([("one", touch.clone().into()), ("two", touch.into())]);
    let output = cli.run_command(cli.command_without_trust(&["list"])).await;
    assert_snapshot!(output, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ○ pending  one  project  stdio  -  -
            not approved
        ○ pending  two  project  stdio  -  -
            not approved

        2 project servers need approval and were not started.
        To review and approve: switchboard trust
        ");
    assert!(!cli.sandbox.project().join("started").exists());
    let output = cli
        .run_command(cli.command_without_trust(&["get", "one"]))
        .await;
    assert_snapshot!(output, @"
        exit 4
        --- stdout
        one
          status  ○ pending
                        not approved, not started: switchboard trust one
          scope  project
          origin  [sandbox]/project/.mcp.json:1:16
          command  touch started 'two words'
        ");
}

#[tokio::test]
async fn user_and_command_line_servers_need_no_approval() {
    let cli = TestCli::with_servers([("one", echo_server().into())]);
    let config = cli.sandbox.read(".mcp.json");
    std::fs::remove_file(cli.sandbox.project().join(".mcp.json")).unwrap();
    cli.sandbox
        .write_home(".mcp.json", config.replace("one", "mine"));
    cli.sandbox.write("named.json", &config);
    let command = cli.command_without_trust(&["list", "--mcp-config", "named.json"]);
    assert_snapshot!(cli.run_command(command).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✓ connected  one  command-line  stdio  2  [time]
        ✓ connected  mine  user  stdio  2  [time]
        ");
    let command =
        cli.command_without_trust(&["list", "--mcp-config", &config, "--strict-mcp-config"]);
    assert_snapshot!(cli.run_command(command).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✓ connected  one  command-line  stdio  2  [time]
        ");
}

#[tokio::test]
async fn exit_status_reports_failed_server() {
    let cli = TestCli::with_servers([("bad", json!({"command": "no-such-program"}).into())]);
    assert_eq!(cli.run(&["list"]).await.code, 0);
    assert_eq!(cli.run(&["list", "--exit-status"]).await.code, 4);
}

#[tokio::test]
async fn exit_status_reports_failed_listing() {
    let mute = Script::legacy().on("tools/list", [Step::error(-32603, "database is locked")]);
    let cli = TestCli::with_servers([("good", echo_server().into()), ("mute", mute.into())]);
    assert_eq!(cli.run(&["list"]).await.code, 0);
    assert_eq!(cli.run(&["list", "--exit-status"]).await.code, 4);
}

#[tokio::test]
async fn get_shows_failed_server() {
    let cli = TestCli::with_servers([
        (
            "one",
            entry(
                echo_server(),
                json!({"args": ["--flag", "two words"], "env": {"TOKEN": "hush-hush", "HOME": "${HOME}"}}),
            ),
        ),
        (
            "other",
            Script::legacy().on_start([Step::count("started")]).into(),
        ),
    ]);
    // The test server exits, because `--flag` is not a script that it can run.
    let output = cli.run(&["get", "one"]).await;
    assert_snapshot!(output, @"
        exit 4
        --- stdout
        one
          status  ✗ failed
          reason  the server exited with code 64; last lines of its stderr:
                          │ scripted-server: usage: scripted-server <script as JSON or @file>
          scope  project
          origin  [sandbox]/project/.mcp.json:1:16
          command  [server] --flag 'two words'
          env  SWITCHBOARD_TEST_TAG=***
                        TOKEN=***
                        HOME=${HOME}
        ");
    assert!(!cli.sandbox.project().join("started").exists());
}

#[tokio::test]
async fn get_shows_connected_server() {
    let script = echo_server()
        .instructions("Use it \u{1b}[31mwell.\nAlways.")
        .on_start([Step::stderr("listening")]);
    // Pass the script of the test server in a file, to keep the printed command line short.
    let by_file = json!({"args": ["@script.json"]});
    let cli = TestCli::with_servers([("one", entry(script.clone(), by_file))]);
    cli.sandbox.write("script.json", script.to_json());
    assert_snapshot!(cli.run(&["get", "one"]).await, @"
        exit 0
        --- stdout
        one
          status  ✓ connected in [time]
          scope  project
          origin  [sandbox]/project/.mcp.json:1:16
          command  [server] @script.json
          env  SWITCHBOARD_TEST_TAG=***
          protocol  2025-11-25 (legacy era)
          server  scripted 1.0.0
          capabilities  tools
          instructions  │ Use it well.
                        │ Always.
          tools  2: switchboard tools mcp__one__
          stderr  │ listening
        ");
    let data = cli.run(&["get", "one", "--json"]).await.json();
    assert_eq!(
        (&data["name"], &data["status"]),
        (&json!("one"), &json!("connected"))
    );
}

#[tokio::test]
async fn unknown_server_suggests_nearest() {
    let cli = TestCli::with_servers([("everything", echo_server().into())]);
    assert_snapshot!(cli.run(&["get", "everythin"]).await, @r#"
        exit 2
        --- stderr
        error: no server named "everythin"
        hint: did you mean everything?
        "#);
    assert_snapshot!(cli.run(&["get", "quite-different"]).await, @r#"
        exit 2
        --- stderr
        error: no server named "quite-different"
        hint: run `switchboard list` to see all servers
        "#);
}
