//! `add`, `add-json` and `remove`: the files they write.

mod usage_errors;

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::support::{CliOutput, TestCli};

impl TestCli {
    /// Creates a project without servers.
    fn with_git_project() -> Self {
        let cli = Self::empty();
        fs::create_dir(cli.sandbox.project().join(".git")).unwrap();
        cli
    }

    async fn run_without_trust(&self, args: &[&str]) -> CliOutput {
        let mut output = self.run_command(self.command_without_trust(args)).await;
        for text in [&mut output.stdout, &mut output.stderr] {
            *text = filter_project_folder(text);
        }
        output
    }

    fn with_stdin(&self, args: &[&str], input: &str) -> CliOutput {
        let mut command = self.command_without_trust(args);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        self.to_output(&child.wait_with_output().unwrap())
    }

    fn project_file(&self) -> PathBuf {
        self.sandbox.project().join(".mcp.json")
    }

    fn local_file(&self) -> PathBuf {
        let projects = self.sandbox.config_home().join("switchboard/projects");
        let folder = fs::read_dir(projects).unwrap().next().unwrap().unwrap();
        folder.path().join("mcp.json")
    }
}

/// Replaces the directory of the local scope, whose name depends on the path of the sandbox.
fn filter_project_folder(text: &str) -> String {
    const PARENT: &str = "/projects/";
    let mut filtered = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(PARENT) {
        let (before, after) = rest.split_at(at + PARENT.len());
        filtered.push_str(before);
        filtered.push_str("[project]");
        rest = after.find('/').map_or("", |end| &after[end..]);
    }
    filtered + rest
}

fn servers_in(path: PathBuf) -> Value {
    let text = fs::read_to_string(path).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["mcpServers"].clone()
}

#[tokio::test]
async fn add_command_writes_local_scope() {
    let cli = TestCli::with_git_project();
    let output = cli
        .run_without_trust(&[
            "add",
            "time",
            "-e",
            "ZONE=UTC",
            "-e",
            "KEY=${KEY:-}",
            "--",
            "uvx",
            "time",
            "-v",
        ])
        .await;
    assert_snapshot!(output, @r"
    exit 0
    --- stdout
    Added time to the local scope
      file  [sandbox]/home/.config/switchboard/projects/[project]/mcp.json:3
      command  uvx time -v
      env  ZONE=***, KEY=${KEY:-}
    Next: switchboard list
    ");
    assert_eq!(
        servers_in(cli.local_file()),
        json!({
            "time": {
                "command": "uvx",
                "args": ["time", "-v"],
                "env": { "ZONE": "UTC", "KEY": "${KEY:-}" }
            }
        })
    );
    let listed = cli.run_without_trust(&["list", "--json"]).await.json();
    let server = &listed["servers"][0];
    assert_eq!(
        (&server["name"], &server["scope"]),
        (&json!("time"), &json!("local"))
    );
}

#[tokio::test]
async fn add_url_writes_user_scope() {
    let cli = TestCli::with_git_project();
    let args = [
        "add",
        "-s",
        "user",
        "docs",
        "https://example.com/mcp",
        "-t",
        "sse",
        "-H",
        "X-Key: hush",
        "--json",
    ];
    let output = cli.run_without_trust(&args).await;
    assert_eq!(
        output.json(),
        json!({
            "name": "docs",
            "scope": "user",
            "origin": { "file": cli.sandbox.home().join(".mcp.json"), "line": 3, "column": 5 },
            "config": {
                "type": "sse",
                "url": "https://example.com/mcp",
                "headers": { "X-Key": "***" }
            },
            "replaced": false,
            "approved": true
        })
    );
    let expected = json!({ "docs": {
        "type": "sse", "url": "https://example.com/mcp", "headers": { "X-Key": "hush" }
    } });
    assert_eq!(servers_in(cli.sandbox.home().join(".mcp.json")), expected);
}

#[tokio::test]
async fn edits_keep_comments_and_order() {
    let cli = TestCli::empty();
    let text = "{\n\t// ours\n\t\"mcpServers\": {\n\t\t\"b\": { \"command\": \"b\" }, // second\n\t\t\"a\": { \"command\": \"a\" },\n\t},\n}\n";
    cli.sandbox.write(".mcp.json", text);
    let output = cli
        .run_without_trust(&["add", "c", "-s", "project", "--", "c", "x"])
        .await;
    assert_snapshot!(output, @r"
    exit 0
    --- stdout
    Added c to the project scope
      file  [sandbox]/project/.mcp.json:6
      command  c x
    Next: switchboard list
    ");
    let added =
        "\t\t\"c\": {\n\t\t\t\"command\": \"c\",\n\t\t\t\"args\": [\"x\"]\n\t\t},\n\t},\n}\n";
    assert_eq!(
        fs::read_to_string(cli.project_file()).unwrap(),
        text.replace("\t},\n}\n", added)
    );
    let output = cli.run_without_trust(&["remove", "c"]).await;
    assert_snapshot!(output, @r"
    exit 0
    --- stdout
    Removed c from the project scope: [sandbox]/project/.mcp.json:6
    Deleted its recorded approval or rejection
    ");
    assert_eq!(fs::read_to_string(cli.project_file()).unwrap(), text);
}

#[tokio::test]
async fn existing_name_needs_force() {
    let cli = TestCli::with_git_project();
    cli.run_without_trust(&["add", "a", "--", "old"]).await;
    let output = cli.run_without_trust(&["add", "a", "--", "new"]).await;
    assert_snapshot!(output, @r"
    exit 2
    --- stderr
    error: server a already exists in the local scope ([sandbox]/home/.config/switchboard/projects/[project]/mcp.json:3:5)
    hint: pick a different name, or pass --force to overwrite it
    ");
    assert_eq!(
        servers_in(cli.local_file()),
        json!({"a": {"command": "old"}})
    );
    let output = cli
        .run_without_trust(&["add", "a", "--force", "--", "new"])
        .await;
    assert_eq!(
        output.stdout.lines().next(),
        Some("Replaced a in the local scope")
    );
    assert_eq!(
        servers_in(cli.local_file()),
        json!({"a": {"command": "new"}})
    );
}

#[tokio::test]
async fn same_name_in_other_scopes_is_reported() {
    let cli = TestCli::with_git_project();
    cli.run_without_trust(&["add", "a", "-s", "project", "--", "x"])
        .await;
    let overriding = cli.run_without_trust(&["add", "a", "--", "x"]).await;
    assert_snapshot!(overriding, @r"
    exit 0
    --- stdout
    Added a to the local scope
      file  [sandbox]/home/.config/switchboard/projects/[project]/mcp.json:3
      command  x
      overrides  the entry in the project scope: [sandbox]/project/.mcp.json:3
    Next: switchboard list
    ");
    let overridden = cli
        .run_without_trust(&["add", "a", "-s", "user", "--", "x"])
        .await;
    assert_snapshot!(overridden, @r"
    exit 0
    --- stdout
    Added a to the user scope
      file  [sandbox]/home/.mcp.json:3
      command  x
    Next: switchboard list
    --- stderr
    warning: a is overridden by the entry in the local scope: [sandbox]/home/.config/switchboard/projects/[project]/mcp.json:3:5
    hint: switchboard remove a -s local
    ");
    let several = cli.run_without_trust(&["remove", "a"]).await;
    assert_snapshot!(several, @r"
    exit 2
    --- stderr
    error: server a is defined in 3 scopes: local ([sandbox]/home/.config/switchboard/projects/[project]/mcp.json:3:5), project ([sandbox]/project/.mcp.json:3:5), user ([sandbox]/home/.mcp.json:3:5)
    hint: switchboard remove a -s local, or switchboard remove a -s project, or switchboard remove a -s user
    ");
    let one = cli.run_without_trust(&["remove", "a", "-s", "local"]).await;
    assert_snapshot!(one, @r"
    exit 0
    --- stdout
    Removed a from the local scope: [sandbox]/home/.config/switchboard/projects/[project]/mcp.json:3
    Now using the entry in the project scope: [sandbox]/project/.mcp.json:3
    ");
    cli.run_without_trust(&["remove", "a", "-s", "user"]).await;
    let elsewhere = cli.run_without_trust(&["remove", "a", "-s", "user"]).await;
    assert_snapshot!(elsewhere, @r"
    exit 2
    --- stderr
    error: no server named a in the user scope, but in the project scope
    hint: switchboard remove a -s project
    ");
    assert_eq!(cli.run_without_trust(&["remove", "a"]).await.code, 0);
    assert_snapshot!(cli.run_without_trust(&["remove", "a"]).await, @r#"
    exit 2
    --- stderr
    error: no server named "a"
    hint: no servers configured; add one with `switchboard add`
    "#);
}

#[tokio::test]
async fn secrets_from_stdin_are_never_printed() {
    let cli = TestCli::with_git_project();
    let args = [
        "add",
        "a",
        "-e",
        "LEVEL=info",
        "--env-from-stdin",
        "ONE",
        "--env-from-stdin",
        "TWO",
        "--",
        "x",
    ];
    let output = cli.with_stdin(&args, "hush-1\r\nhush = 2\n");
    assert_eq!(output.code, 0, "{output}");
    assert!(!output.to_string().contains("hush"), "{output}");
    assert_eq!(
        servers_in(cli.local_file())["a"]["env"],
        json!({ "LEVEL": "info", "ONE": "hush-1", "TWO": "hush = 2" })
    );
    let args = [
        "add",
        "b",
        "--header-from-stdin",
        "Authorization",
        "https://example.com",
    ];
    let output = cli.with_stdin(&args, "Bearer hush");
    assert_eq!(output.code, 0, "{output}");
    assert_eq!(
        servers_in(cli.local_file())["b"]["headers"],
        json!({ "Authorization": "Bearer hush" })
    );
    let args = [
        "add",
        "c",
        "--env-from-stdin",
        "ONE",
        "--env-from-stdin",
        "TWO",
        "--",
        "x",
    ];
    let too_few = cli.with_stdin(&args, "hush\n");
    assert_snapshot!(too_few, @r"
    exit 2
    --- stderr
    error: no value for TWO on stdin
    hint: pass one line per name, in the same order
    ");
    let too_many = cli.with_stdin(&args, "hush\nhush\nhush\n");
    assert_snapshot!(too_many, @r"
    exit 2
    --- stderr
    error: too many lines on stdin (expected one each for ONE, TWO)
    hint: pass one line per name, in the same order
    ");
}

#[tokio::test]
async fn secrets_in_project_file_are_warned_about() {
    let cli = TestCli::with_git_project();
    let args = [
        "add",
        "hub",
        "-s",
        "project",
        "-e",
        "API_KEY=hush-a1b2c3",
        "-e",
        "LEVEL=info",
        "--env-from-stdin",
        "PIN",
        "--",
        "hub",
        "--token",
        "hush",
    ];
    let output = cli.with_stdin(&args, "hush\n");
    assert_snapshot!(output, @r#"
    exit 0
    --- stdout
    Added hub to the project scope
      file  [sandbox]/project/.mcp.json:3
      command  hub --token '***'
      env  API_KEY=***, LEVEL=***, PIN=***
    Next: switchboard list
    --- stderr
    warning: `API_KEY` in `env` looks like a secret; everyone with the project can read it
    hint: write "${API_KEY}" instead and set the variable in your environment
    warning: `args` seems to contain a secret; everyone with the project can read it
    hint: write ${HUB_TOKEN} in place of the secret and set the variable in your environment
    warning: the value of PIN is now stored in the project's .mcp.json, readable by everyone with the project
    hint: use a variable reference instead (-e 'PIN=${PIN}'), or keep the entry private with -s local
    "#);
    let list = cli.run_without_trust(&["list"]).await;
    assert!(list.stderr.contains("looks like a secret"), "{list}");
    let get = cli.run_without_trust(&["get", "hub"]).await;
    let json = cli.run_without_trust(&["get", "hub", "--json"]).await;
    for output in [list, get, json] {
        assert!(!output.to_string().contains("hush"), "{output}");
    }
}

#[tokio::test]
async fn broken_file_is_not_changed() {
    let cli = TestCli::empty();
    cli.sandbox.write(
        ".mcp.json",
        "{\n  \"mcpServers\": {\n    \"a\": {}\n  \"b\"\n",
    );
    let output = cli
        .run_without_trust(&["add", "c", "-s", "project", "--", "x"])
        .await;
    assert_snapshot!(output, @r"
    exit 3
    --- stderr
    error: [sandbox]/project/.mcp.json:3:12 not changed: not valid JSON: expected comma
    hint: put a comma here
    ");
    assert_snapshot!(cli.run_without_trust(&["remove", "a"]).await, @r#"
    exit 2
    --- stderr
    warning: not valid JSON: expected comma
     --> [sandbox]/project/.mcp.json:3:12
      |
    3 |  "a": {}
      |  ^
      = hint: put a comma here
    error: no server named "a"
    hint: run `switchboard list` to see all servers
    "#);
    assert_eq!(
        fs::read_to_string(cli.project_file()).unwrap(),
        "{\n  \"mcpServers\": {\n    \"a\": {}\n  \"b\"\n"
    );
}

#[tokio::test]
async fn first_server_creates_project_file() {
    let cli = TestCli::empty();
    let output = cli
        .run_without_trust(&["add", "a", "-s", "project", "--", "x"])
        .await;
    assert_eq!(output.code, 0, "{output}");
    assert_eq!(
        servers_in(cli.project_file()),
        json!({"a": {"command": "x"}})
    );
    let mut command = cli.command_without_trust(&["add", "a", "-s", "project", "--", "x"]);
    command.current_dir(cli.sandbox.home());
    assert_snapshot!(cli.run_command(command).await, @r"
    exit 2
    --- stderr
    error: the home directory cannot be a project
    hint: run this in your project, or pass -s user
    ");
}

#[tokio::test]
async fn concurrent_edits_are_not_lost() {
    let cli = TestCli::with_git_project();
    let children: Vec<_> = (0..8)
        .map(|number| {
            let name = format!("s{number}");
            cli.command_without_trust(&["add", &name, "--", "x"])
                .stdout(Stdio::null())
                .stderr(Stdio::inherit())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let servers = servers_in(cli.local_file());
    let mut names: Vec<_> = servers.as_object().unwrap().keys().cloned().collect();
    names.sort();
    assert_eq!(names, ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"]);
}
