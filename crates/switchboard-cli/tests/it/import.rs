//! `import`: from the files of other programs to servers that connect.

use insta::assert_snapshot;
use serde_json::{Map, Value, json};

use crate::support::{Desk, Entry, polite};

/// What Claude Code keeps in the home folder.
fn claude_code(desk: &Desk, servers: Vec<(&str, Value)>) {
    let servers: Map<String, Value> = servers
        .into_iter()
        .map(|(name, entry)| (name.to_owned(), entry))
        .collect();
    let file = json!({"numStartups": 7, "mcpServers": servers, "projects": {}});
    desk.sandbox.write_home(".claude.json", file.to_string());
}

/// The entry of a server that works.
fn working(desk: &Desk) -> Value {
    Entry::from(polite()).on(&desk.sandbox)
}

#[tokio::test]
async fn what_is_imported_connects_and_a_second_time_adds_nothing() {
    let desk = Desk::empty();
    claude_code(&desk, vec![("talker", working(&desk))]);
    let mine = "{\n  // what I wrote\n  \"mcpServers\": {\n    \"old\": { \"command\": \"no-such-program\" }, // keep\n  },\n}\n";
    desk.sandbox.write_home(".mcp.json", mine);

    let shown = desk.finish(desk.untrusting(&["import"])).await;
    assert_eq!(shown.code, 0);
    assert!(shown.stdout.contains("+ add"), "{shown}");
    assert!(shown.stderr.contains("switchboard import --yes"), "{shown}");
    let home = desk.sandbox.home();
    let read = || std::fs::read_to_string(home.join(".mcp.json")).unwrap();
    assert_eq!(read(), mine);

    let taken = desk.finish(desk.untrusting(&["import", "--yes"])).await;
    assert_eq!(taken.code, 0, "{taken}");
    assert!(
        taken
            .stdout
            .contains("Added talker to the user scope: [sandbox]/"),
        "{taken}"
    );
    let after = read();
    assert!(
        after.contains("// what I wrote") && after.contains("// keep"),
        "{after}"
    );

    let listed = desk
        .finish(desk.untrusting(&["list", "--json"]))
        .await
        .json();
    let status = |name: &str| {
        let servers = listed["servers"].as_array().unwrap();
        let server = servers.iter().find(|server| server["name"] == name);
        server.unwrap()["status"].clone()
    };
    assert_eq!(status("talker"), "connected");
    assert_eq!(status("old"), "failed");

    let again = desk.finish(desk.untrusting(&["import", "--yes"])).await;
    assert!(again.stdout.contains("= same  talker"), "{again}");
    assert!(again.stdout.contains("There is nothing to add."), "{again}");
    assert_eq!(read(), after);
}

#[tokio::test]
async fn everything_is_shown_before_anything_is_done_and_no_secret_with_it() {
    let desk = Desk::empty();
    claude_code(
        &desk,
        vec![
            (
                "hub",
                json!({"type": "http", "url": "https://hub.example/mcp", "headers": {"Authorization": "Bearer hush-hush"}}),
            ),
            ("live", json!({"type": "ws", "url": "wss://live.example"})),
            ("taken", json!({"command": "mine"})),
        ],
    );
    desk.sandbox.write_home(
        ".codex/config.toml",
        "[mcp_servers.docs]\ncommand = \"docs-mcp\"\nargs = [\"--api-key\", \"hush-hush\"]\nenabled_tools = [\"read\"]\n",
    );
    desk.sandbox.write_home(
        ".mcp.json",
        r#"{"mcpServers": {"taken": {"command": "other"}}}"#,
    );
    desk.sandbox
        .write_home(".gemini/settings.json", r#"{"mcpServers": {"a" 1}}"#);
    let ran = desk.finish(desk.untrusting(&["import"])).await;
    assert_snapshot!(ran, @r#"
        exit 0
        --- stdout
        Claude Code  [sandbox]/home/.claude.json
          + add  hub  https://hub.example/mcp
              headers: Authorization=***
              into the user scope
          ✘ unusable  live  it is reached over WebSocket, which is not spoken here
              ask whether the server speaks streamable HTTP too
          ! differs  taken  another one of that name is there: [sandbox]/home/.mcp.json:1
              to replace it, first: switchboard remove taken -s user

        Codex  [sandbox]/home/.codex/config.toml
          + add  docs  docs-mcp --api-key ***
              into the user scope
              note: `enabled_tools` is left out: write permission rules for its tools instead

        2 servers to add.
        --- stderr
        warning: not valid JSON: expected colon after the string or word in object property
         --> [sandbox]/home/.gemini/settings.json:1:21
          |
        1 | {"mcpServers": {"*" *}}
          |  ^
        to add what is new: switchboard import --yes
        "#);
}

#[tokio::test]
async fn what_comes_with_a_project_is_not_taken_by_yes_alone() {
    let desk = Desk::empty();
    desk.sandbox.write(".mcp.json", "{}");
    let entry = working(&desk);
    desk.sandbox.write(
        ".cursor/mcp.json",
        json!({"mcpServers": {"theirs": entry}}).to_string(),
    );
    let ran = desk.finish(desk.untrusting(&["import", "--yes"])).await;
    assert!(ran.stdout.contains("(comes with this project)"), "{ran}");
    assert!(ran.stdout.contains("runs in [sandbox]/project"), "{ran}");
    assert!(!ran.stdout.contains("Added"), "{ran}");
    assert!(
        ran.stderr
            .contains("switchboard import --trust-project --yes"),
        "{ran}"
    );
    let listed = desk
        .finish(desk.untrusting(&["list", "--json"]))
        .await
        .json();
    assert_eq!(listed["servers"], json!([]));

    let ran = desk.run(&["import", "--yes"]).await;
    assert!(
        ran.stdout.contains("Added theirs to the local scope"),
        "{ran}"
    );
    let listed = desk
        .finish(desk.untrusting(&["list", "--json"]))
        .await
        .json();
    assert_eq!(listed["servers"][0]["status"], "connected");
    assert_eq!(listed["servers"][0]["scope"], "local");
}

#[tokio::test]
async fn data_says_what_was_found_and_what_was_added() {
    let desk = Desk::empty();
    claude_code(
        &desk,
        vec![(
            "hub",
            json!({"command": "hub", "env": {"TOKEN": "hush-hush"}, "timeout": 5000}),
        )],
    );
    let data = desk
        .finish(desk.untrusting(&["import", "claude-code", "--json", "--yes"]))
        .await
        .json();
    let home = desk.sandbox.home();
    let path = |name: &str| home.join(name).to_string_lossy().into_owned();
    assert_eq!(
        data,
        json!({
            "files": [{
                "client": "claude-code",
                "path": path(".claude.json"),
                "authorship": "user",
                "servers": [{
                    "name": "hub",
                    "action": "add",
                    "scope": "user",
                    "origin": {"file": path(".claude.json"), "line": 1, "column": 32},
                    "config": {"type": "stdio", "command": "hub", "env": {"TOKEN": "***"}, "timeout": 5000},
                    "notes": [],
                }],
                "notes": [],
            }],
            "added": [{"name": "hub", "scope": "user", "file": path(".mcp.json")}],
            "diagnostics": [],
        })
    );
    let written = std::fs::read_to_string(path(".mcp.json")).unwrap();
    assert!(written.contains("hush-hush"));
}

#[tokio::test]
async fn a_file_may_be_named() {
    let desk = Desk::empty();
    let text = json!({"servers": {"named": working(&desk)}}).to_string();
    desk.sandbox.write("elsewhere/settings.json", &text);
    let unknown = desk
        .finish(desk.untrusting(&["import", "--file", "elsewhere/settings.json"]))
        .await;
    assert_eq!(unknown.code, 2, "{unknown}");
    let named = desk
        .finish(desk.untrusting(&[
            "import",
            "vscode",
            "--file",
            "elsewhere/settings.json",
            "-s",
            "project",
            "-y",
        ]))
        .await;
    assert_eq!(named.code, 0, "{named}");
    assert!(desk.sandbox.read(".mcp.json").contains("named"));
    let missing = desk
        .finish(desk.untrusting(&["import", "vscode", "--file", "missing.json"]))
        .await;
    assert_eq!(missing.code, 3);
    desk.sandbox.write("broken.json", "{");
    let broken = desk
        .finish(desk.untrusting(&["import", "vscode", "--file", "broken.json", "--yes"]))
        .await;
    assert_eq!(broken.code, 3, "{broken}");
    let wrong = desk.finish(desk.untrusting(&["import", "curser"])).await;
    assert_eq!(wrong.code, 2);
}

#[tokio::test]
async fn nothing_to_import_is_no_error() {
    let desk = Desk::empty();
    let ran = desk.finish(desk.untrusting(&["import"])).await;
    assert_eq!(ran.code, 0);
    assert!(
        ran.stdout
            .starts_with("No servers of other programs were found.")
    );
}

#[tokio::test]
async fn what_comes_with_a_project_is_shown_whole_and_with_the_command_that_takes_it() {
    let desk = Desk::empty();
    desk.sandbox.write(".mcp.json", "{}");
    desk.sandbox.write(
        ".codex/config.toml",
        "[mcp_servers.theirs]\ncommand = \"tool\"\nargs = [\"--api-key\", \"two  blanks\"]\n\
         env_vars = [\"AWS_SECRET\"]\nenv = { LD_PRELOAD = \"./evil.so\", HIDDEN = \"a\\u200bb\" }\n\
         [mcp_servers.far]\nurl = \"https://far.example/mcp\"\nhttp_headers = { Authorization = \"Bearer theirs\" }\n",
    );
    let ran = desk.finish(desk.untrusting(&["import", "codex"])).await;
    assert_snapshot!(ran, @r"
    exit 0
    --- stdout
    Codex  [sandbox]/project/.codex/config.toml  (comes with this project)
      + add  theirs
          runs tool --api-key 'two  blanks'
          env: LD_PRELOAD=./evil.so
          env: HIDDEN=a\u{200b}b
          runs in [sandbox]/project
          inheritEnv: AWS_SECRET
          into the local scope
      + add  far
          type: http
          connects to https://far.example/mcp
          headers: Authorization=Bearer theirs
          into the local scope

    2 servers to add.
    --- stderr
    to add what comes with this project: switchboard import codex --trust-project --yes
    ");
    let data = desk
        .finish(desk.untrusting(&["import", "codex", "--json"]))
        .await
        .json();
    let config = &data["files"][0]["servers"][0]["config"];
    assert_eq!(config["env"]["LD_PRELOAD"], "./evil.so");
    claude_code(&desk, vec![("mine", working(&desk))]);
    let both = desk.finish(desk.untrusting(&["import"])).await;
    assert!(
        both.stderr.contains("new: switchboard import --yes"),
        "{both}"
    );
    assert!(
        both.stderr
            .contains("this project too: switchboard import --trust-project --yes"),
        "{both}"
    );
}

#[tokio::test]
async fn a_secret_that_goes_into_the_shared_file_is_warned_about() {
    let desk = Desk::empty();
    desk.sandbox.write(".mcp.json", "{}");
    let hub =
        json!({"command": "hub", "env": {"API_TOKEN": "ghp_0123456789abcdefghij0123456789abcdef"}});
    claude_code(&desk, vec![("hub", hub)]);
    let args = ["import", "-s", "project", "--yes"];
    let ran = desk.finish(desk.untrusting(&args)).await;
    assert!(
        ran.stderr
            .contains("warning: hub: `API_TOKEN` in `env` looks like a secret"),
        "{ran}"
    );
    assert!(ran.stdout.contains("Added hub"), "{ran}");
}

#[tokio::test]
async fn what_is_switched_off_there_is_marked_or_told() {
    let desk = Desk::empty();
    desk.sandbox.write(".mcp.json", "{}");
    let here = desk.sandbox.project().to_string_lossy().into_owned();
    let file = json!({
        "mcpServers": {"time": {"command": "time-mcp"}},
        "projects": {here: {"disabledMcpServers": ["time"]}},
    });
    desk.sandbox.write_home(".claude.json", file.to_string());
    let ran = desk.finish(desk.untrusting(&["import"])).await;
    assert!(ran.stdout.contains("switchboard disable time"), "{ran}");
    let ran = desk
        .finish(desk.untrusting(&["import", "-s", "local"]))
        .await;
    assert!(
        ran.stdout.contains("into the local scope, switched off"),
        "{ran}"
    );
}
