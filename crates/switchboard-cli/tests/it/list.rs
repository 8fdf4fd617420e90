//! `list` and `get`.

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::{Script, Step};

use crate::support::{Desk, entry, polite};

#[tokio::test]
async fn servers_are_listed_in_the_order_of_the_file() {
    let desk = Desk::with([
        ("zebra", polite().into()),
        ("ant", Script::modern().tool("echo").into()),
        ("off", json!({"command": "x", "disabled": true}).into()),
        ("later", entry(polite(), json!({"lazy": true}))),
        ("remote", json!({"url": "http://127.0.0.1:1/mcp"}).into()),
    ]);
    assert_snapshot!(desk.run(&["list"]).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✓ connected  zebra  project  stdio  2  [time]
        ✓ connected  ant  project  stdio  1  [time]
        - disabled  off  project  stdio  -  -
            switched off in its entry
        ○ pending  later  project  stdio  -  -
            not started; the first call starts it
        ✗ failed  remote  project  http  -  -
            no connection to 127.0.0.1:1: Connection refused (os error 111)
        ");
}

#[tokio::test]
async fn the_same_as_data() {
    let desk = Desk::with([("one", polite().into())]);
    let ran = desk.run(&["list", "--json"]).await;
    let data = ran.json();
    let server = &data["servers"][0];
    assert_eq!(ran.code, 0);
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
async fn without_servers_it_says_what_to_type() {
    let desk = Desk::empty();
    assert_snapshot!(desk.run(&["list"]).await, @r#"
        exit 0
        --- stdout
        No servers are configured.

        Add one:

          switchboard add everything -- npx -y @modelcontextprotocol/server-everything

        Or put some into .mcp.json in your project, or into ~/.mcp.json for all of them:

          {
            "mcpServers": {
              "everything": {
                "command": "npx",
                "args": ["-y", "@modelcontextprotocol/server-everything"]
              }
            }
          }

        Then type  switchboard trust && switchboard list
        Or name one  switchboard --mcp-config FILE list
        To see it work without any: switchboard demo
        "#);
    assert_eq!(
        desk.run(&["list", "--json"]).await.json()["servers"],
        json!([])
    );
}

#[tokio::test]
async fn a_projects_servers_wait_for_approval_and_are_not_started() {
    let touch = json!({"command": "touch", "args": ["started", "two words"]});
    let desk = Desk::with([("one", touch.clone().into()), ("two", touch.into())]);
    let ran = desk.finish(desk.untrusting(&["list"])).await;
    assert_snapshot!(ran, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ○ pending  one  project  stdio  -  -
            not approved
        ○ pending  two  project  stdio  -  -
            not approved

        2 servers of this project are not approved and were not started.
        To see what would run, and approve it: switchboard trust
        ");
    assert!(!desk.sandbox.project().join("started").exists());
    let ran = desk.finish(desk.untrusting(&["get", "one"])).await;
    assert_snapshot!(ran, @"
        exit 4
        --- stdout
        one
          status  ○ pending
                        not approved, nothing was started: switchboard trust one
          scope  project
          origin  [sandbox]/project/.mcp.json:1:16
          command  touch started 'two words'
        ");
}

#[tokio::test]
async fn what_the_user_keeps_or_names_needs_no_approval() {
    let desk = Desk::with([("one", polite().into())]);
    let config = desk.sandbox.read(".mcp.json");
    std::fs::remove_file(desk.sandbox.project().join(".mcp.json")).unwrap();
    desk.sandbox
        .write_home(".mcp.json", config.replace("one", "mine"));
    desk.sandbox.write("named.json", &config);
    let command = desk.untrusting(&["list", "--mcp-config", "named.json"]);
    assert_snapshot!(desk.finish(command).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✓ connected  one  command-line  stdio  2  [time]
        ✓ connected  mine  user  stdio  2  [time]
        ");
    let command = desk.untrusting(&["list", "--mcp-config", &config, "--strict-mcp-config"]);
    assert_snapshot!(desk.finish(command).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✓ connected  one  command-line  stdio  2  [time]
        ");
}

#[tokio::test]
async fn exit_status_tells_of_a_failed_server_when_asked_to() {
    let desk = Desk::with([("bad", json!({"command": "no-such-program"}).into())]);
    assert_eq!(desk.run(&["list"]).await.code, 0);
    assert_eq!(desk.run(&["list", "--exit-status"]).await.code, 4);
}

#[tokio::test]
async fn exit_status_counts_a_server_whose_tools_could_not_be_listed() {
    let mute = Script::legacy().on("tools/list", [Step::error(-32603, "database is locked")]);
    let desk = Desk::with([("good", polite().into()), ("mute", mute.into())]);
    assert_eq!(desk.run(&["list"]).await.code, 0);
    assert_eq!(desk.run(&["list", "--exit-status"]).await.code, 4);
}

#[tokio::test]
async fn a_failed_server_in_detail() {
    let desk = Desk::with([
        (
            "one",
            entry(
                polite(),
                json!({"args": ["--flag", "two words"], "env": {"TOKEN": "hush-hush", "HOME": "${HOME}"}}),
            ),
        ),
        (
            "other",
            Script::legacy().on_start([Step::count("started")]).into(),
        ),
    ]);
    // The arguments are no script, which the server minds.
    let ran = desk.run(&["get", "one"]).await;
    assert_snapshot!(ran, @"
        exit 4
        --- stdout
        one
          status  ✗ failed
          reason  the server exited with code 64; its last words on stderr:
                        scripted-server: usage: scripted-server <script as JSON or @file>
          scope  project
          origin  [sandbox]/project/.mcp.json:1:16
          command  [server] --flag 'two words'
          env  SWITCHBOARD_TEST_TAG=***
                        TOKEN=***
                        HOME=${HOME}
        ");
    assert!(!desk.sandbox.project().join("started").exists());
}

#[tokio::test]
async fn a_connected_server_in_detail() {
    let script = polite()
        .instructions("Use it \u{1b}[31mwell.\nAlways.")
        .on_start([Step::stderr("listening")]);
    // By way of a file, so that the command line is short enough to be read.
    let by_file = json!({"args": ["@script.json"]});
    let desk = Desk::with([("one", entry(script.clone(), by_file))]);
    desk.sandbox.write("script.json", script.to_json());
    assert_snapshot!(desk.run(&["get", "one"]).await, @"
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
          offers  tools
          instructions  Use it well.
                        Always.
          tools  2: switchboard tools mcp__one__
          stderr  listening
        ");
    let data = desk.run(&["get", "one", "--json"]).await.json();
    assert_eq!(
        (&data["name"], &data["status"]),
        (&json!("one"), &json!("connected"))
    );
}

#[tokio::test]
async fn an_unknown_server_is_a_usage_error_with_the_nearest_name() {
    let desk = Desk::with([("everything", polite().into())]);
    assert_snapshot!(desk.run(&["get", "everythin"]).await, @r#"
        exit 2
        --- stderr
        error: there is no server "everythin"
        hint: did you mean everything?
        "#);
    assert_snapshot!(desk.run(&["get", "quite-different"]).await, @r#"
        exit 2
        --- stderr
        error: there is no server "quite-different"
        hint: switchboard list shows which there are
        "#);
}
