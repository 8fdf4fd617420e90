//! `add`, `add-json` and `remove`, with real files.

mod slips;

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::support::{Desk, Ran};

impl Desk {
    /// A project without servers.
    fn fresh() -> Self {
        let desk = Self::empty();
        fs::create_dir(desk.sandbox.project().join(".git")).unwrap();
        desk
    }

    async fn plain(&self, args: &[&str]) -> Ran {
        let mut ran = self.finish(self.untrusting(args)).await;
        // The folder of the local scope is named after the path of the project.
        for text in [&mut ran.stdout, &mut ran.stderr] {
            *text = local_folder_named(text);
        }
        ran
    }

    fn with_stdin(&self, args: &[&str], input: &str) -> Ran {
        let mut command = self.untrusting(args);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        self.ran(&child.wait_with_output().unwrap())
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

fn local_folder_named(text: &str) -> String {
    const BEFORE: &str = "/projects/";
    let mut named = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(BEFORE) {
        let (before, behind) = rest.split_at(at + BEFORE.len());
        named.push_str(before);
        named.push_str("[project]");
        rest = behind.find('/').map_or("", |end| &behind[end..]);
    }
    named + rest
}

fn servers_in(path: PathBuf) -> Value {
    let text = fs::read_to_string(path).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["mcpServers"].clone()
}

#[tokio::test]
async fn a_command_is_added_for_the_user_in_this_project() {
    let desk = Desk::fresh();
    let ran = desk
        .plain(&[
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
    assert_snapshot!(ran, @r"
    exit 0
    --- stdout
    Added time to the local scope
      file  [sandbox]/home/.config/switchboard/projects/[project]/mcp.json:3
      command  uvx time -v
      env  ZONE=***, KEY=${KEY:-}
    Next: switchboard list
    ");
    assert_eq!(
        servers_in(desk.local_file()),
        json!({
            "time": {
                "command": "uvx",
                "args": ["time", "-v"],
                "env": { "ZONE": "UTC", "KEY": "${KEY:-}" }
            }
        })
    );
    let listed = desk.plain(&["list", "--json"]).await.json();
    let server = &listed["servers"][0];
    assert_eq!(
        (&server["name"], &server["scope"]),
        (&json!("time"), &json!("local"))
    );
}

#[tokio::test]
async fn a_url_is_added_for_the_user_everywhere() {
    let desk = Desk::fresh();
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
    let ran = desk.plain(&args).await;
    assert_eq!(
        ran.json(),
        json!({
            "name": "docs",
            "scope": "user",
            "origin": { "file": desk.sandbox.home().join(".mcp.json"), "line": 3, "column": 5 },
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
    assert_eq!(servers_in(desk.sandbox.home().join(".mcp.json")), expected);
}

#[tokio::test]
async fn the_file_of_the_project_keeps_its_comments_and_its_order() {
    let desk = Desk::empty();
    let text = "{\n\t// ours\n\t\"mcpServers\": {\n\t\t\"b\": { \"command\": \"b\" }, // second\n\t\t\"a\": { \"command\": \"a\" },\n\t},\n}\n";
    desk.sandbox.write(".mcp.json", text);
    let ran = desk
        .plain(&["add", "c", "-s", "project", "--", "c", "x"])
        .await;
    assert_snapshot!(ran, @r"
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
        fs::read_to_string(desk.project_file()).unwrap(),
        text.replace("\t},\n}\n", added)
    );
    let ran = desk.plain(&["remove", "c"]).await;
    assert_snapshot!(ran, @r"
    exit 0
    --- stdout
    Removed c from the project scope: [sandbox]/project/.mcp.json:6
    ");
    assert_eq!(fs::read_to_string(desk.project_file()).unwrap(), text);
}

#[tokio::test]
async fn a_name_that_exists_is_refused_unless_forced() {
    let desk = Desk::fresh();
    desk.plain(&["add", "a", "--", "old"]).await;
    let ran = desk.plain(&["add", "a", "--", "new"]).await;
    assert_snapshot!(ran, @r"
    exit 2
    --- stderr
    error: there is a server a in the local scope already ([sandbox]/home/.config/switchboard/projects/[project]/mcp.json:3:5)
    hint: choose another name, or replace it with --force
    ");
    assert_eq!(
        servers_in(desk.local_file()),
        json!({"a": {"command": "old"}})
    );
    let ran = desk.plain(&["add", "a", "--force", "--", "new"]).await;
    assert_eq!(
        ran.stdout.lines().next(),
        Some("Replaced a in the local scope")
    );
    assert_eq!(
        servers_in(desk.local_file()),
        json!({"a": {"command": "new"}})
    );
}

#[tokio::test]
async fn other_scopes_with_the_same_name_are_told_about() {
    let desk = Desk::fresh();
    desk.plain(&["add", "a", "-s", "project", "--", "x"]).await;
    let above = desk.plain(&["add", "a", "--", "x"]).await;
    assert_snapshot!(above, @r"
    exit 0
    --- stdout
    Added a to the local scope
      file  [sandbox]/home/.config/switchboard/projects/[project]/mcp.json:3
      command  x
      instead  of the one in the project scope: [sandbox]/project/.mcp.json:3
    Next: switchboard list
    ");
    let below = desk.plain(&["add", "a", "-s", "user", "--", "x"]).await;
    assert_snapshot!(below, @r"
    exit 0
    --- stdout
    Added a to the user scope
      file  [sandbox]/home/.mcp.json:3
      command  x
    Next: switchboard list
    --- stderr
    warning: the local scope has a server a as well, and it is used instead: [sandbox]/home/.config/switchboard/projects/[project]/mcp.json:3:5
    hint: switchboard remove a -s local
    ");
    let several = desk.plain(&["remove", "a"]).await;
    assert_snapshot!(several, @r"
    exit 2
    --- stderr
    error: server a is in 3 scopes: local ([sandbox]/home/.config/switchboard/projects/[project]/mcp.json:3:5), project ([sandbox]/project/.mcp.json:3:5), user ([sandbox]/home/.mcp.json:3:5)
    hint: switchboard remove a -s local, or switchboard remove a -s project, or switchboard remove a -s user
    ");
    let one = desk.plain(&["remove", "a", "-s", "local"]).await;
    assert_snapshot!(one, @r"
    exit 0
    --- stdout
    Removed a from the local scope: [sandbox]/home/.config/switchboard/projects/[project]/mcp.json:3
    The one in the project scope is used now: [sandbox]/project/.mcp.json:3
    ");
    desk.plain(&["remove", "a", "-s", "user"]).await;
    let elsewhere = desk.plain(&["remove", "a", "-s", "user"]).await;
    assert_snapshot!(elsewhere, @r"
    exit 2
    --- stderr
    error: there is no server a in the user scope; there is one in the project scope
    hint: switchboard remove a -s project
    ");
    assert_eq!(desk.plain(&["remove", "a"]).await.code, 0);
    assert_snapshot!(desk.plain(&["remove", "a"]).await, @r#"
    exit 2
    --- stderr
    error: there is no server "a"
    hint: switchboard list shows which there are
    "#);
}

#[tokio::test]
async fn secrets_come_from_stdin_and_are_shown_nowhere() {
    let desk = Desk::fresh();
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
    let ran = desk.with_stdin(&args, "hush-1\r\nhush = 2\n");
    assert_eq!(ran.code, 0, "{ran}");
    assert!(!ran.to_string().contains("hush"), "{ran}");
    assert_eq!(
        servers_in(desk.local_file())["a"]["env"],
        json!({ "LEVEL": "info", "ONE": "hush-1", "TWO": "hush = 2" })
    );
    let args = [
        "add",
        "b",
        "--header-from-stdin",
        "Authorization",
        "https://example.com",
    ];
    let ran = desk.with_stdin(&args, "Bearer hush");
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(
        servers_in(desk.local_file())["b"]["headers"],
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
    let too_few = desk.with_stdin(&args, "hush\n");
    assert_snapshot!(too_few, @r"
    exit 2
    --- stderr
    error: no value for TWO on stdin
    hint: pass one line per name, in the same order
    ");
    let too_many = desk.with_stdin(&args, "hush\nhush\nhush\n");
    assert_snapshot!(too_many, @r"
    exit 2
    --- stderr
    error: too many lines on stdin (expected one each for ONE, TWO)
    hint: pass one line per name, in the same order
    ");
}

#[tokio::test]
async fn secrets_in_the_file_of_a_project_are_warned_about() {
    let desk = Desk::fresh();
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
    let ran = desk.with_stdin(&args, "hush\n");
    assert_snapshot!(ran, @r#"
    exit 0
    --- stdout
    Added hub to the project scope
      file  [sandbox]/project/.mcp.json:3
      command  hub --token ***
      env  API_KEY=***, LEVEL=***, PIN=***
    Next: switchboard list
    --- stderr
    warning: `API_KEY` in `env` looks like a secret, and everybody who has the project can read it
    hint: write "${API_KEY}" instead, and set the variable outside of the project
    warning: `args` holds what looks like a secret, and everybody who has the project can read it
    hint: write ${HUB_TOKEN} in place of the secret, and set the variable outside of the project
    warning: the value of PIN now stands in the project's file, and everybody who has the project can read it
    hint: give it by reference, -e 'PIN=${PIN}', or keep the server to yourself with -s local
    "#);
    let list = desk.plain(&["list"]).await;
    assert!(list.stderr.contains("looks like a secret"), "{list}");
    let get = desk.plain(&["get", "hub"]).await;
    let json = desk.plain(&["get", "hub", "--json"]).await;
    for ran in [list, get, json] {
        assert!(!ran.to_string().contains("hush"), "{ran}");
    }
}

#[tokio::test]
async fn a_broken_file_is_refused_and_stays_as_it_is() {
    let desk = Desk::empty();
    desk.sandbox.write(
        ".mcp.json",
        "{\n  \"mcpServers\": {\n    \"a\": {}\n  \"b\"\n",
    );
    let ran = desk.plain(&["add", "c", "-s", "project", "--", "x"]).await;
    assert_snapshot!(ran, @r"
    exit 3
    --- stderr
    error: [sandbox]/project/.mcp.json:3:12 was not changed: not valid JSON: expected comma
    hint: put a comma here
    ");
    assert_snapshot!(desk.plain(&["remove", "a"]).await, @r#"
    exit 2
    --- stderr
    warning: not valid JSON: expected comma
     --> [sandbox]/project/.mcp.json:3:12
      |
    3 |  "a": {}
      |  ^
      = hint: put a comma here
    error: there is no server "a"
    hint: switchboard list shows which there are
    "#);
    assert_eq!(
        fs::read_to_string(desk.project_file()).unwrap(),
        "{\n  \"mcpServers\": {\n    \"a\": {}\n  \"b\"\n"
    );
}

#[tokio::test]
async fn a_folder_becomes_a_project_by_its_first_server() {
    let desk = Desk::empty();
    let ran = desk.plain(&["add", "a", "-s", "project", "--", "x"]).await;
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(
        servers_in(desk.project_file()),
        json!({"a": {"command": "x"}})
    );
    let mut command = desk.untrusting(&["add", "a", "-s", "project", "--", "x"]);
    command.current_dir(desk.sandbox.home());
    assert_snapshot!(desk.finish(command).await, @r"
    exit 2
    --- stderr
    error: the home folder is not a project
    hint: go to your project, or choose -s user
    ");
}

#[tokio::test]
async fn of_several_programs_at_once_none_loses_an_edit() {
    let desk = Desk::fresh();
    let children: Vec<_> = (0..8)
        .map(|number| {
            let name = format!("s{number}");
            desk.untrusting(&["add", &name, "--", "x"])
                .stdout(Stdio::null())
                .stderr(Stdio::inherit())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let servers = servers_in(desk.local_file());
    let mut names: Vec<_> = servers.as_object().unwrap().keys().cloned().collect();
    names.sort();
    assert_eq!(names, ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"]);
}
