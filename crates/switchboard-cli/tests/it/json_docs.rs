//! `--json` output matches the tables of `docs/json.md`.
//!
//! A section of the page has a table with the columns key (`list[].key`), meaning and presence. A
//! link in the column meaning refers to the section that describes the value. A meaning that starts
//! with `JSON` allows any value. A new command needs a section on the page and a check in this
//! file.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::LazyLock;

use serde_json::{Value, json};
use switchboard_testkit::{Script, Step};

use crate::support::{CliOutput, TestCli, echo_server, entry};

static PAGE: LazyLock<HashMap<String, Section>> = LazyLock::new(|| {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");
    let page = fs::read_to_string(path).unwrap();
    let sections = page.split("\n## ").skip(1);
    sections.map(Section::parse).collect()
});

#[derive(Debug, Default)]
struct Section {
    rows: Vec<Row>,
    /// The title of the section that describes the same type, if this section has no table.
    same_as: Option<String>,
    examples: Vec<Value>,
}

#[derive(Debug)]
struct Row {
    key: String,
    /// The title of the section that describes the value of this key.
    link: Option<String>,
    allows_any: bool,
    is_required: bool,
}

impl Section {
    fn parse(text: &str) -> (String, Self) {
        let (title, body) = text.split_once('\n').unwrap();
        let rows = body.lines().filter_map(Row::parse);
        let examples = body.split("```json\n").skip(1);
        let examples = examples.map(|text| text.split("```").next().unwrap());
        let section = Self {
            rows: rows.collect(),
            same_as: body.trim_start().strip_prefix("One ").and_then(link),
            examples: examples
                .map(|text| serde_json::from_str(text).unwrap())
                .collect(),
        };
        (title.replace('`', ""), section)
    }

    /// Asserts that the object or array at `path` has every required key of the table, and no key
    /// that is not in the table.
    fn compare(&self, path: &str, value: &Value) {
        match value {
            Value::Object(members) => {
                for (key, value) in members {
                    self.compare_member(&join(path, key), value);
                }
                let always = self.rows.iter().filter(|row| row.is_required);
                for key in always.filter_map(|row| row.required_member(path)) {
                    assert!(members.contains_key(key), "{path} has no {key}: {value}");
                }
            }
            Value::Array(_) => self.compare_member(path, value),
            _ => {}
        }
    }

    fn compare_member(&self, path: &str, value: &Value) {
        assert!(!value.is_null(), "{path} is null");
        if let Value::Array(items) = value {
            let path = format!("{path}[]");
            return items
                .iter()
                .for_each(|item| self.compare_member(&path, item));
        }
        let row = self.rows.iter().find(|row| row.key == path);
        match row {
            Some(row) if row.allows_any => {}
            Some(Row {
                link: Some(link), ..
            }) => check(link, value),
            Some(_) => self.compare(path, value),
            None => {
                let prefix = format!("{path}.");
                let is_known = self.rows.iter().any(|row| row.key.starts_with(&prefix));
                assert!(
                    is_known && value.is_object(),
                    "docs/json.md does not list {path}"
                );
                self.compare(path, value);
            }
        }
    }
}

impl Row {
    fn parse(line: &str) -> Option<Self> {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let (key, meaning, presence) = (cells.next()?, cells.next()?, cells.next()?);
        Some(Self {
            key: key.trim_end_matches('`').to_owned(),
            link: link(meaning),
            allows_any: meaning.starts_with("JSON"),
            is_required: presence.trim_end_matches(" |") == "always",
        })
    }

    /// Returns the member that an object at `path` must have for this row.
    fn required_member(&self, path: &str) -> Option<&str> {
        let below = match path {
            "" => self.key.as_str(),
            _ => self.key.strip_prefix(path)?.strip_prefix('.')?,
        };
        match below.split_once('.') {
            // A list may be empty or missing.
            Some((list, _)) if list.ends_with("[]") => None,
            Some((object, _)) => Some(object),
            None => Some(below.trim_end_matches("[]")),
        }
    }
}

/// Converts the link `a [server](#a-server)` to the title `A server`.
fn link(text: &str) -> Option<String> {
    let (_, anchor) = text.split_once("](#a-")?;
    let (name, _) = anchor.split_once(')')?;
    Some(format!("A {name}"))
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// Asserts that `value` matches the table of the section with this title.
pub(crate) fn check(section: &str, value: &Value) {
    let found = PAGE.get(section);
    let found = found.unwrap_or_else(|| panic!("docs/json.md has no section {section}"));
    match &found.same_as {
        Some(other) => check(other, value),
        None => found.compare("", value),
    }
}

fn check_run(section: &str, output: &CliOutput) {
    check(section, &output.json());
}

#[test]
fn examples_match_their_tables() {
    for (title, section) in &*PAGE {
        assert!(
            section.same_as.is_some() || !section.rows.is_empty(),
            "{title}"
        );
        section
            .examples
            .iter()
            .for_each(|example| check(title, example));
    }
}

#[tokio::test]
async fn list_and_get_match_docs() {
    let cli = TestCli::with_servers([
        (
            "good",
            entry(echo_server(), json!({"env": {"TOKEN": "hush"}})),
        ),
        ("modern", Script::modern().tool("echo").into()),
        (
            "bad",
            json!({"command": "no-such-program", "lazzy": true}).into(),
        ),
        ("wrong", json!({"command": 5}).into()),
        ("off", json!({"command": "x", "disabled": true}).into()),
        (
            "loud",
            Script::legacy()
                .on_start([Step::stderr("oh no"), Step::Exit(3)])
                .into(),
        ),
    ]);
    check_run("list", &cli.run(&["list", "--json"]).await);
    for name in ["good", "modern", "bad", "wrong", "off", "loud"] {
        check_run("get", &cli.run(&["get", name, "--json"]).await);
    }
    let inline = json!({"mcpServers": {"inline": {"command": "x", "comand": "y"}}}).to_string();
    let args = [
        "list",
        "--json",
        "--strict-mcp-config",
        "--mcp-config",
        &inline,
    ];
    check_run("list", &cli.run(&args).await);
}

#[tokio::test]
async fn tools_and_describe_match_docs() {
    let cli = TestCli::with_servers([("good", echo_server().into())]);
    check_run("tools", &cli.run(&["tools", "--json"]).await);
    check_run(
        "describe",
        &cli.run(&["describe", "mcp__good__add", "--json"]).await,
    );
}

#[tokio::test]
async fn doctor_and_why_match_docs() {
    let cli = TestCli::with_servers([
        ("good", echo_server().into()),
        (
            "bad",
            json!({"command": "no-such-program", "lazzy": 1}).into(),
        ),
    ]);
    check_run("doctor", &cli.run(&["doctor", "--json"]).await);
    for tool in ["mcp__good__add", "mcp__good__nothing", "mcp__bad__x"] {
        check_run("why", &cli.run(&["why", tool, "--json"]).await);
    }
}

#[tokio::test]
async fn policy_test_and_enable_match_docs() {
    let cli = TestCli::with_servers([("good", echo_server().into())]);
    let test = ["policy", "test", "mcp__good__add", "a=1", "b=2", "--json"];
    check_run("policy test", &cli.run(&test).await);
    let rules = r#"{"permissions": [
        {"tool": "mcp__*", "action": "allow"},
        {"tool": "mcp__good", "pattern": ["a=1", "*"], "action": "deny"}
    ]}"#;
    cli.sandbox.write(".switchboard/settings.json", rules);
    check_run("policy test", &cli.run(&test).await);
    check_run(
        "policy test",
        &cli.run_command(cli.command_without_trust(&test)).await,
    );
    cli.sandbox.write(".switchboard/settings.json", "{");
    check_run("policy test", &cli.run(&test).await);
    for command in ["disable", "disable", "enable"] {
        check_run("enable", &cli.run(&[command, "good", "--json"]).await);
    }
}

#[tokio::test]
async fn call_matches_docs() {
    let result = json!({
        "content": [
            {"type": "text", "text": "x"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
            {"type": "strange", "what": 1},
        ],
        "structuredContent": {"n": 1},
    });
    let script = echo_server()
        .tool("t")
        .on("tools/call t", [Step::Reply(result)]);
    let cli = TestCli::with_servers([("good", script.into())]);
    for tool in ["mcp__good__t", "mcp__good__echo"] {
        let args = [
            "call",
            tool,
            "message=long enough to be cut",
            "--yes",
            "--json",
        ];
        check_run("call", &cli.run(&args[..]).await);
        let mut command = cli.command(&args);
        command.env("MAX_MCP_OUTPUT_TOKENS", "1");
        check_run("call", &cli.run_command(command).await);
    }
}

#[tokio::test]
async fn resources_and_prompts_match_docs() {
    let full = json!({
        "uri": "demo://full", "name": "full", "title": "Full", "description": "All of it",
        "mimeType": "text/plain", "size": 3, "annotations": {"priority": 1}, "_meta": {"a": 1},
        "text": "long enough to be cut",
    });
    let script = echo_server()
        .raw_resource(full)
        .blob("demo://blob", "image/png", "aGk=")
        .resource_template("demo://item/{id}")
        .completion("demo://item/{id}", "id", ["7"])
        .completion("greet", "name", ["Ann"])
        .prompt("greet")
        .prompt("picture");
    let cli = TestCli::with_servers([("good", script.into())]);
    let template = "demo://item/{id}";
    let complete = "read --complete";
    for (section, args) in [
        ("resources", &["resources"][..]),
        ("resources --templates", &["resources", "--templates"]),
        ("read", &["read", "good", "demo://full"]),
        ("read", &["read", "good", "demo://blob"]),
        ("read", &["read", "good", "demo://blob", "-o", "file"]),
        (complete, &["read", "good", template, "--complete", "id=7"]),
        ("prompts", &["prompts"]),
        ("prompt", &["prompt", "good", "greet", "name=A"]),
        ("prompt", &["prompt", "good", "picture"]),
        (
            complete,
            &["prompt", "good", "greet", "--complete", "name="],
        ),
    ] {
        let args = [args, &["--json"]].concat();
        check_run(section, &cli.run(&args).await);
    }
    for (section, args) in [
        ("read", ["read", "good", "demo://full"]),
        ("prompt", ["prompt", "good", "picture"]),
    ] {
        let mut command = cli.command(&[&args[..], &["--json"]].concat());
        command.env("MAX_MCP_OUTPUT_TOKENS", "1");
        check_run(section, &cli.run_command(command).await);
    }
}

#[tokio::test]
async fn errors_match_docs() {
    let cli = TestCli::with_servers([
        ("good", echo_server().into()),
        ("bad", json!({"command": "no-such-program"}).into()),
    ]);
    for args in [
        &["get", "missing"][..],
        &["call", "nonsense"],
        &["call", "mcp__bad__x"],
        &["call", "mcp__good__add", "a=x", "--yes"],
        &["call", "mcp__good__echo", "message=x"],
        &["list", "--mcp-config", "missing.json"],
        &["list", "--mcp-config", "{ \"mcpServers\": [ }"],
        &["read", "good", "demo://x"],
        &["prompt", "good", "nothing"],
        &["nonsense"],
    ] {
        let output = cli.run(&[args, &["--json"]].concat()).await;
        assert_ne!(output.code, 0, "{output}");
        check_run("Errors", &output);
    }
}

#[tokio::test]
async fn demo_matches_docs() {
    check_run("demo", &TestCli::empty().run(&["demo", "--json"]).await);
}

#[tokio::test]
async fn import_matches_docs() {
    let cli = TestCli::empty();
    let servers = json!({
        "new": {"command": "new", "description": "a note"},
        "same": {"command": "same"},
        "other": {"command": "other"},
        "useless": {"type": "ws", "url": "wss://x.example"},
    });
    for file in [".cursor/mcp.json", ".codeium/windsurf/mcp_config.json"] {
        cli.sandbox
            .write_home(file, json!({"mcpServers": servers}).to_string());
    }
    cli.sandbox.write_home(".gemini/settings.json", "{");
    let existing = json!({"same": {"command": "same"}, "other": {"command": "another"}});
    cli.sandbox
        .write_home(".mcp.json", json!({"mcpServers": existing}).to_string());
    check_run("import", &cli.run(&["import", "--yes", "--json"]).await);
}

#[tokio::test]
async fn add_and_remove_match_docs() {
    let cli = TestCli::empty();
    cli.sandbox.write(".mcp.json", "{}");
    let secret = "API_TOKEN=ghp_0123456789abcdefghij0123456789abcdef";
    let shared = [
        "add", "a", "-s", "project", "-e", secret, "--json", "--", "x",
    ];
    check_run(
        "add",
        &cli.run_command(cli.command_without_trust(&shared)).await,
    );
    // Adds an entry in the local scope, which overrides the project's entry of the same name.
    let own = ["add-json", "a", r#"{"command": "y"}"#, "--json"];
    check_run(
        "add",
        &cli.run_command(cli.command_without_trust(&own)).await,
    );
    let user = ["add", "a", "-s", "user", "--json", "--", "z"];
    check_run(
        "add",
        &cli.run_command(cli.command_without_trust(&user)).await,
    );
    for scope in ["local", "project", "user"] {
        let remove = ["remove", "a", "-s", scope, "--json"];
        check_run(
            "remove",
            &cli.run_command(cli.command_without_trust(&remove)).await,
        );
    }
}

#[tokio::test]
async fn list_watch_lines_match_docs() {
    let cli = TestCli::with_servers([("good", echo_server().into())]);
    let mut command = cli.command(&["list", "--watch", "--json"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    loop {
        let line = lines.next().unwrap().unwrap();
        let state: Value = serde_json::from_str(&line).unwrap();
        check("list --watch", &state);
        if state["servers"][0]["status"] == "connected" {
            break;
        }
    }
    // Close stdout and change the config. The command cannot write the change to the closed stdout,
    // and exits.
    drop(lines);
    cli.sandbox.write(".mcp.json", "{}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
