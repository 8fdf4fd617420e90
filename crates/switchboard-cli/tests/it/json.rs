//! `--json` prints what `docs/json.md` says.
//!
//! A section of the page has a table of keys: `list[].key`, what it is, and whether it is always there.
//! A link in a row leads to the section that goes on; a row that begins with `JSON` holds anything.
//! For another command: write its section, and check what it prints.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::LazyLock;

use serde_json::{Value, json};
use switchboard_testkit::{Script, Step};

use crate::support::{Desk, Ran, entry, polite};

static PAGE: LazyLock<HashMap<String, Section>> = LazyLock::new(|| {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");
    let page = fs::read_to_string(path).unwrap();
    let sections = page.split("\n## ").skip(1);
    sections.map(Section::parse).collect()
});

#[derive(Debug, Default)]
struct Section {
    rows: Vec<Row>,
    /// Where the whole section is nothing but another one.
    same_as: Option<String>,
    examples: Vec<Value>,
}

#[derive(Debug)]
struct Row {
    key: String,
    /// The section that goes on.
    link: Option<String>,
    is_anything: bool,
    is_always_there: bool,
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

    /// Compares an object or a list at `path` with the rows.
    fn compare(&self, path: &str, value: &Value) {
        match value {
            Value::Object(members) => {
                for (key, value) in members {
                    self.compare_member(&join(path, key), value);
                }
                let always = self.rows.iter().filter(|row| row.is_always_there);
                for key in always.filter_map(|row| row.first_below(path)) {
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
            Some(row) if row.is_anything => {}
            Some(Row {
                link: Some(link), ..
            }) => check(link, value),
            Some(_) => self.compare(path, value),
            None => {
                let begins = format!("{path}.");
                let is_known = self.rows.iter().any(|row| row.key.starts_with(&begins));
                assert!(
                    is_known && value.is_object(),
                    "docs/json.md does not know {path}"
                );
                self.compare(path, value);
            }
        }
    }
}

impl Row {
    fn parse(line: &str) -> Option<Self> {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let (key, is, there) = (cells.next()?, cells.next()?, cells.next()?);
        Some(Self {
            key: key.trim_end_matches('`').to_owned(),
            link: link(is),
            is_anything: is.starts_with("JSON"),
            is_always_there: there.trim_end_matches(" |") == "always",
        })
    }

    /// The member of what is at `path` that must be there for this row to be.
    fn first_below(&self, path: &str) -> Option<&str> {
        let below = match path {
            "" => self.key.as_str(),
            _ => self.key.strip_prefix(path)?.strip_prefix('.')?,
        };
        match below.split_once('.') {
            // A list may be empty, or not be there at all.
            Some((list, _)) if list.ends_with("[]") => None,
            Some((object, _)) => Some(object),
            None => Some(below.trim_end_matches("[]")),
        }
    }
}

/// `a [server](#a-server)` leads to `A server`.
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

/// Fails unless `value` is what the section says.
pub(crate) fn check(section: &str, value: &Value) {
    let found = PAGE.get(section);
    let found = found.unwrap_or_else(|| panic!("docs/json.md has no section {section}"));
    match &found.same_as {
        Some(other) => check(other, value),
        None => found.compare("", value),
    }
}

fn check_run(section: &str, ran: &Ran) {
    check(section, &ran.json());
}

#[test]
fn the_examples_of_the_page_are_what_it_says() {
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
async fn servers_are_as_documented() {
    let desk = Desk::with([
        ("good", entry(polite(), json!({"env": {"TOKEN": "hush"}}))),
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
    check_run("list", &desk.run(&["list", "--json"]).await);
    for name in ["good", "modern", "bad", "wrong", "off", "loud"] {
        check_run("get", &desk.run(&["get", name, "--json"]).await);
    }
    let inline = json!({"mcpServers": {"inline": {"command": "x", "comand": "y"}}}).to_string();
    let args = [
        "list",
        "--json",
        "--strict-mcp-config",
        "--mcp-config",
        &inline,
    ];
    check_run("list", &desk.run(&args).await);
}

#[tokio::test]
async fn tools_are_as_documented() {
    let desk = Desk::with([("good", polite().into())]);
    check_run("tools", &desk.run(&["tools", "--json"]).await);
    check_run(
        "describe",
        &desk.run(&["describe", "mcp__good__add", "--json"]).await,
    );
}

#[tokio::test]
async fn chains_are_as_documented() {
    let desk = Desk::with([
        ("good", polite().into()),
        (
            "bad",
            json!({"command": "no-such-program", "lazzy": 1}).into(),
        ),
    ]);
    check_run("doctor", &desk.run(&["doctor", "--json"]).await);
    for tool in ["mcp__good__add", "mcp__good__nothing", "mcp__bad__x"] {
        check_run("why", &desk.run(&["why", tool, "--json"]).await);
    }
}

#[tokio::test]
async fn rules_and_switches_are_as_documented() {
    let desk = Desk::with([("good", polite().into())]);
    let test = ["policy", "test", "mcp__good__add", "a=1", "b=2", "--json"];
    check_run("policy test", &desk.run(&test).await);
    let rules = r#"{"permissions": [
        {"tool": "mcp__*", "action": "allow"},
        {"tool": "mcp__good", "pattern": ["a=1", "*"], "action": "deny"}
    ]}"#;
    desk.sandbox.write(".switchboard/settings.json", rules);
    check_run("policy test", &desk.run(&test).await);
    check_run("policy test", &desk.finish(desk.untrusting(&test)).await);
    desk.sandbox.write(".switchboard/settings.json", "{");
    check_run("policy test", &desk.run(&test).await);
    for switch in ["disable", "disable", "enable"] {
        check_run("enable", &desk.run(&[switch, "good", "--json"]).await);
    }
}

#[tokio::test]
async fn answers_are_as_documented() {
    let result = json!({
        "content": [
            {"type": "text", "text": "x"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
            {"type": "strange", "what": 1},
        ],
        "structuredContent": {"n": 1},
    });
    let script = polite().tool("t").on("tools/call t", [Step::Reply(result)]);
    let desk = Desk::with([("good", script.into())]);
    for tool in ["mcp__good__t", "mcp__good__echo"] {
        let args = [
            "call",
            tool,
            "message=long enough to be cut",
            "--yes",
            "--json",
        ];
        check_run("call", &desk.run(&args[..]).await);
        let mut command = desk.command(&args);
        command.env("MAX_MCP_OUTPUT_TOKENS", "1");
        check_run("call", &desk.finish(command).await);
    }
}

#[tokio::test]
async fn resources_and_prompts_are_as_documented() {
    let full = json!({
        "uri": "demo://full", "name": "full", "title": "Full", "description": "All of it",
        "mimeType": "text/plain", "size": 3, "annotations": {"priority": 1}, "_meta": {"a": 1},
        "text": "long enough to be cut",
    });
    let script = polite()
        .raw_resource(full)
        .blob("demo://blob", "image/png", "aGk=")
        .resource_template("demo://item/{id}")
        .completion("demo://item/{id}", "id", ["7"])
        .completion("greet", "name", ["Ann"])
        .prompt("greet")
        .prompt("picture");
    let desk = Desk::with([("good", script.into())]);
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
        check_run(section, &desk.run(&args).await);
    }
    for (section, args) in [
        ("read", ["read", "good", "demo://full"]),
        ("prompt", ["prompt", "good", "picture"]),
    ] {
        let mut command = desk.command(&[&args[..], &["--json"]].concat());
        command.env("MAX_MCP_OUTPUT_TOKENS", "1");
        check_run(section, &desk.finish(command).await);
    }
}

#[tokio::test]
async fn failures_are_as_documented() {
    let desk = Desk::with([
        ("good", polite().into()),
        ("bad", json!({"command": "no-such-program"}).into()),
    ]);
    for args in [
        &["get", "nobody"][..],
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
        let ran = desk.run(&[args, &["--json"]].concat()).await;
        assert_ne!(ran.code, 0, "{ran}");
        check_run("Whatever fails", &ran);
    }
}

#[tokio::test]
async fn the_demo_is_as_documented() {
    check_run("demo", &Desk::empty().run(&["demo", "--json"]).await);
}

#[tokio::test]
async fn imports_are_as_documented() {
    let desk = Desk::empty();
    let servers = json!({
        "new": {"command": "new", "description": "a note"},
        "same": {"command": "same"},
        "other": {"command": "other"},
        "useless": {"type": "ws", "url": "wss://x.example"},
    });
    for file in [".cursor/mcp.json", ".codeium/windsurf/mcp_config.json"] {
        desk.sandbox
            .write_home(file, json!({"mcpServers": servers}).to_string());
    }
    desk.sandbox.write_home(".gemini/settings.json", "{");
    let existing = json!({"same": {"command": "same"}, "other": {"command": "another"}});
    desk.sandbox
        .write_home(".mcp.json", json!({"mcpServers": existing}).to_string());
    check_run("import", &desk.run(&["import", "--yes", "--json"]).await);
}

#[tokio::test]
async fn edits_are_as_documented() {
    let desk = Desk::empty();
    desk.sandbox.write(".mcp.json", "{}");
    let secret = "API_TOKEN=ghp_0123456789abcdefghij0123456789abcdef";
    let shared = [
        "add", "a", "-s", "project", "-e", secret, "--json", "--", "x",
    ];
    check_run("add", &desk.finish(desk.untrusting(&shared)).await);
    // It is used in place of the project's.
    let own = ["add-json", "a", r#"{"command": "y"}"#, "--json"];
    check_run("add", &desk.finish(desk.untrusting(&own)).await);
    let user = ["add", "a", "-s", "user", "--json", "--", "z"];
    check_run("add", &desk.finish(desk.untrusting(&user)).await);
    for scope in ["local", "project", "user"] {
        let remove = ["remove", "a", "-s", scope, "--json"];
        check_run("remove", &desk.finish(desk.untrusting(&remove)).await);
    }
}

#[tokio::test]
async fn each_line_of_a_watch_is_as_documented() {
    let desk = Desk::with([("good", polite().into())]);
    let mut command = desk.command(&["list", "--watch", "--json"]);
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
    // Nobody reads any more, and that ends it at the next change.
    drop(lines);
    desk.sandbox.write(".mcp.json", "{}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
