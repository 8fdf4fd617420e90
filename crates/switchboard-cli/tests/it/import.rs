//! `import`: reads the configs of other MCP clients and writes servers that connect.

use insta::assert_snapshot;
use serde_json::{Map, Value, json};

use crate::support::{Entry, TestCli, echo_server};

/// Writes the config of Claude Code in the home directory.
fn claude_code(cli: &TestCli, servers: Vec<(&str, Value)>) {
    let servers: Map<String, Value> = servers
        .into_iter()
        .map(|(name, entry)| (name.to_owned(), entry))
        .collect();
    let file = json!({"numStartups": 7, "mcpServers": servers, "projects": {}});
    cli.sandbox.write_home(".claude.json", file.to_string());
}

/// Returns the entry of a server that works.
fn working(cli: &TestCli) -> Value {
    Entry::from(echo_server()).into_json(&cli.sandbox)
}

#[tokio::test]
async fn imported_server_connects_and_reimport_is_noop() {
    let cli = TestCli::empty();
    claude_code(&cli, vec![("talker", working(&cli))]);
    let mine = "{\n  // what I wrote\n  \"mcpServers\": {\n    \"old\": { \"command\": \"no-such-program\" }, // keep\n  },\n}\n";
    cli.sandbox.write_home(".mcp.json", mine);

    let shown = cli
        .run_command(cli.command_without_trust(&["import"]))
        .await;
    assert_eq!(shown.code, 0);
    assert!(shown.stdout.contains("+ add"), "{shown}");
    assert!(shown.stderr.contains("switchboard import --yes"), "{shown}");
    let home = cli.sandbox.home();
    let read = || std::fs::read_to_string(home.join(".mcp.json")).unwrap();
    assert_eq!(read(), mine);

    let imported = cli
        .run_command(cli.command_without_trust(&["import", "--yes"]))
        .await;
    assert_eq!(imported.code, 0, "{imported}");
    assert!(
        imported
            .stdout
            .contains("Imported talker to the user scope: [sandbox]/"),
        "{imported}"
    );
    let after = read();
    assert!(
        after.contains("// what I wrote") && after.contains("// keep"),
        "{after}"
    );

    let listed = cli
        .run_command(cli.command_without_trust(&["list", "--json"]))
        .await
        .json();
    let status = |name: &str| {
        let servers = listed["servers"].as_array().unwrap();
        let server = servers.iter().find(|server| server["name"] == name);
        server.unwrap()["status"].clone()
    };
    assert_eq!(status("talker"), "connected");
    assert_eq!(status("old"), "failed");

    let again = cli
        .run_command(cli.command_without_trust(&["import", "--yes"]))
        .await;
    assert!(again.stdout.contains("= same  talker"), "{again}");
    assert!(again.stdout.contains("Nothing to import."), "{again}");
    assert_eq!(read(), after);
}

#[tokio::test]
async fn plan_is_printed_without_secrets() {
    let cli = TestCli::empty();
    claude_code(
        &cli,
        vec![
            (
                "hub",
                json!({"type": "http", "url": "https://hub.example/mcp", "headers": {"Authorization": "Bearer hush-hush"}}),
            ),
            ("live", json!({"type": "ws", "url": "wss://live.example"})),
            ("taken", json!({"command": "mine"})),
        ],
    );
    cli.sandbox.write_home(
        ".codex/config.toml",
        "[mcp_servers.docs]\ncommand = \"docs-mcp\"\nargs = [\"--api-key\", \"hush-hush\"]\nenabled_tools = [\"read\"]\n",
    );
    cli.sandbox.write_home(
        ".mcp.json",
        r#"{"mcpServers": {"taken": {"command": "other"}}}"#,
    );
    cli.sandbox
        .write_home(".gemini/settings.json", r#"{"mcpServers": {"a" 1}}"#);
    let output = cli
        .run_command(cli.command_without_trust(&["import"]))
        .await;
    assert_snapshot!(output, @r#"
        exit 0
        --- stdout
        Claude Code  [sandbox]/home/.claude.json
          + add  hub  https://hub.example/mcp
              headers: Authorization=***
              → user scope
          ✗ unusable  live  WebSocket transport is not supported
              check whether the server also supports streamable HTTP
          ! differs  taken  a different server with this name exists: [sandbox]/home/.mcp.json:1
              to replace it: switchboard remove taken -s user, then import again

        Codex  [sandbox]/home/.codex/config.toml
          + add  docs  docs-mcp --api-key '***'
              → user scope
              note: ignored `enabled_tools`: add permission rules for its tools instead

        2 servers to import.
        --- stderr
        warning: not valid JSON: expected colon after the string or word in object property
         --> [sandbox]/home/.gemini/settings.json:1:21
          |
        1 | {"mcpServers": {"*" *}}
          |  ^
        to import: switchboard import --yes
        "#);
}

#[tokio::test]
async fn yes_skips_project_files() {
    let cli = TestCli::empty();
    cli.sandbox.write(".mcp.json", "{}");
    let entry = working(&cli);
    cli.sandbox.write(
        ".cursor/mcp.json",
        json!({"mcpServers": {"theirs": entry}}).to_string(),
    );
    let output = cli
        .run_command(cli.command_without_trust(&["import", "--yes"]))
        .await;
    assert!(output.stdout.contains("(project file)"), "{output}");
    assert!(output.stdout.contains("cwd: [sandbox]/project"), "{output}");
    assert!(!output.stdout.contains("Imported"), "{output}");
    assert!(
        output
            .stderr
            .contains("switchboard import --trust-project --yes"),
        "{output}"
    );
    let listed = cli
        .run_command(cli.command_without_trust(&["list", "--json"]))
        .await
        .json();
    assert_eq!(listed["servers"], json!([]));

    let output = cli.run(&["import", "--yes"]).await;
    assert!(
        output.stdout.contains("Imported theirs to the local scope"),
        "{output}"
    );
    let listed = cli
        .run_command(cli.command_without_trust(&["list", "--json"]))
        .await
        .json();
    assert_eq!(listed["servers"][0]["status"], "connected");
    assert_eq!(listed["servers"][0]["scope"], "local");
}

#[tokio::test]
async fn json_reports_found_and_added_servers() {
    let cli = TestCli::empty();
    claude_code(
        &cli,
        vec![(
            "hub",
            json!({"command": "hub", "env": {"TOKEN": "hush-hush"}, "timeout": 5000}),
        )],
    );
    let data = cli
        .run_command(cli.command_without_trust(&["import", "claude-code", "--json", "--yes"]))
        .await
        .json();
    let home = cli.sandbox.home();
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
async fn file_option_imports_named_file() {
    let cli = TestCli::empty();
    let text = json!({"servers": {"named": working(&cli)}}).to_string();
    cli.sandbox.write("elsewhere/settings.json", &text);
    let unknown = cli
        .run_command(cli.command_without_trust(&["import", "--file", "elsewhere/settings.json"]))
        .await;
    assert_eq!(unknown.code, 2, "{unknown}");
    let named = cli
        .run_command(cli.command_without_trust(&[
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
    assert!(cli.sandbox.read(".mcp.json").contains("named"));
    let missing = cli
        .run_command(cli.command_without_trust(&["import", "vscode", "--file", "missing.json"]))
        .await;
    assert_eq!(missing.code, 3);
    cli.sandbox.write("broken.json", "{");
    let broken = cli
        .run_command(cli.command_without_trust(&[
            "import",
            "vscode",
            "--file",
            "broken.json",
            "--yes",
        ]))
        .await;
    assert_eq!(broken.code, 3, "{broken}");
    let wrong = cli
        .run_command(cli.command_without_trust(&["import", "curser"]))
        .await;
    assert_eq!(wrong.code, 2);
}

#[tokio::test]
async fn nothing_to_import_succeeds() {
    let cli = TestCli::empty();
    let output = cli
        .run_command(cli.command_without_trust(&["import"]))
        .await;
    assert_eq!(output.code, 0);
    assert!(
        output
            .stdout
            .starts_with("No servers found in other MCP clients.")
    );
}

#[tokio::test]
async fn project_entries_are_shown_in_full() {
    let cli = TestCli::empty();
    cli.sandbox.write(".mcp.json", "{}");
    cli.sandbox.write(
        ".codex/config.toml",
        "[mcp_servers.theirs]\ncommand = \"tool\"\nargs = [\"--api-key\", \"two  blanks\"]\n\
         env_vars = [\"AWS_SECRET\"]\nenv = { LD_PRELOAD = \"./evil.so\", HIDDEN = \"a\\u200bb\" }\n\
         [mcp_servers.far]\nurl = \"https://far.example/mcp\"\nhttp_headers = { Authorization = \"Bearer theirs\" }\n",
    );
    let output = cli
        .run_command(cli.command_without_trust(&["import", "codex"]))
        .await;
    assert_snapshot!(output, @r"
    exit 0
    --- stdout
    Codex  [sandbox]/project/.codex/config.toml  (project file)
      + add  theirs
          runs tool --api-key 'two  blanks'
          env: LD_PRELOAD=./evil.so
          env: HIDDEN=a\u{200b}b
          cwd: [sandbox]/project
          inheritEnv: AWS_SECRET
          → local scope
      + add  far
          type: http
          connects to https://far.example/mcp
          headers: Authorization=Bearer theirs
          → local scope

    2 servers to import.
    --- stderr
    to import from project files: switchboard import codex --trust-project --yes
    ");
    let data = cli
        .run_command(cli.command_without_trust(&["import", "codex", "--json"]))
        .await
        .json();
    let config = &data["files"][0]["servers"][0]["config"];
    assert_eq!(config["env"]["LD_PRELOAD"], "./evil.so");
    claude_code(&cli, vec![("mine", working(&cli))]);
    let mixed = cli
        .run_command(cli.command_without_trust(&["import"]))
        .await;
    assert!(
        mixed.stderr.contains("to import: switchboard import --yes"),
        "{mixed}"
    );
    assert!(
        mixed
            .stderr
            .contains("project files too: switchboard import --trust-project --yes"),
        "{mixed}"
    );
}

#[tokio::test]
async fn secret_for_project_scope_is_warned_about() {
    let cli = TestCli::empty();
    cli.sandbox.write(".mcp.json", "{}");
    let hub =
        json!({"command": "hub", "env": {"API_TOKEN": "ghp_0123456789abcdefghij0123456789abcdef"}});
    claude_code(&cli, vec![("hub", hub)]);
    let args = ["import", "-s", "project", "--yes"];
    let output = cli.run_command(cli.command_without_trust(&args)).await;
    assert!(
        output
            .stderr
            .contains("warning: hub: `API_TOKEN` in `env` looks like a secret"),
        "{output}"
    );
    assert!(output.stdout.contains("Imported hub"), "{output}");
}

#[tokio::test]
async fn disabled_server_is_imported_disabled() {
    let cli = TestCli::empty();
    cli.sandbox.write(".mcp.json", "{}");
    let here = cli.sandbox.project().to_string_lossy().into_owned();
    let file = json!({
        "mcpServers": {"time": {"command": "time-mcp"}},
        "projects": {here: {"disabledMcpServers": ["time"]}},
    });
    cli.sandbox.write_home(".claude.json", file.to_string());
    let output = cli
        .run_command(cli.command_without_trust(&["import"]))
        .await;
    assert!(
        output.stdout.contains("switchboard disable time"),
        "{output}"
    );
    let output = cli
        .run_command(cli.command_without_trust(&["import", "-s", "local"]))
        .await;
    assert!(
        output.stdout.contains("→ local scope, disabled"),
        "{output}"
    );
}
