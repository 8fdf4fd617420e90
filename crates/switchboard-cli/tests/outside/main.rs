//! Real servers from the package registries: listed, and one tool of each called.
//!
//! They lie in the folder that `SWITCHBOARD_FIXTURES` names. Without them these tests say so and pass,
//! except in CI, where a missing server is a failure.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed expectation fails the test that had it"
)]

mod asks;
mod long;
mod offers;
mod remote;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use switchboard_testkit::{Sandbox, TAG_VARIABLE, assert_no_process_left};

/// Where a server's entry point is, seen from the folder.
struct Server {
    entry_point: String,
    /// What is given to `node` or to the environment's `python`.
    args: Vec<String>,
}

fn node(package: &str, more: &[&str]) -> Server {
    Server {
        entry_point: format!("node_modules/@modelcontextprotocol/{package}/dist/index.js"),
        args: more.iter().map(|word| (*word).to_owned()).collect(),
    }
}

fn python(args: &[&str]) -> Server {
    Server {
        entry_point: "venv/bin/python".to_owned(),
        args: args.iter().map(|word| (*word).to_owned()).collect(),
    }
}

/// The folder with the servers; `None` if there is none and none is needed.
#[expect(
    clippy::disallowed_methods,
    reason = "the test is told by its environment where the servers are"
)]
fn fixtures(entry_point: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("SWITCHBOARD_FIXTURES").map(PathBuf::from);
    let found = folder.filter(|folder| folder.join(entry_point).exists());
    if found.is_none() {
        assert!(
            std::env::var_os("CI").is_none(),
            "{entry_point} is missing: run `cargo xtask fixtures`, and set SWITCHBOARD_FIXTURES"
        );
        eprintln!("SKIPPED: {entry_point} is missing, run `cargo xtask fixtures`");
    }
    found
}

fn entry(server: &Server, fixtures: &Path, sandbox: &Sandbox) -> Value {
    let entry_point = fixtures.join(&server.entry_point);
    let entry_point = entry_point.to_str().unwrap().to_owned();
    let (command, args) = if server.entry_point.starts_with("node_modules/") {
        let args = std::iter::once(entry_point).chain(server.args.clone());
        ("node".to_owned(), args.collect())
    } else {
        (entry_point, server.args.clone())
    };
    json!({"command": command, "args": args, "env": {TAG_VARIABLE: sandbox.tag()}})
}

fn run(sandbox: &Sandbox, args: &[&str]) -> Value {
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_switchboard"));
    command.args(args).args(["--trust-project", "--json"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {text}\n{told}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Lists the server and its tools, and calls one of them; returns its text.
async fn try_out(server: Server, tool: &str, arguments: &Value) -> Option<String> {
    let fixtures = fixtures(&server.entry_point)?;
    let sandbox = Sandbox::new();
    sandbox.write("notes.txt", "remember the milk");
    let entry = entry(&server, &fixtures, &sandbox);
    let answer = try_entry(&sandbox, &entry, tool, arguments);
    assert_no_process_left(sandbox.tag()).await;
    Some(answer)
}

/// The same with an entry as it is written.
fn try_entry(sandbox: &Sandbox, entry: &Value, tool: &str, arguments: &Value) -> String {
    sandbox.write(
        ".mcp.json",
        json!({"mcpServers": {"it": entry}}).to_string(),
    );
    let listed = run(sandbox, &["list"]);
    assert_eq!(listed["servers"][0]["status"], "connected", "{listed:#}");
    let tools = run(sandbox, &["tools"]);
    let name = format!("mcp__it__{tool}");
    let mut tools = tools.as_array().unwrap().iter();
    assert!(tools.any(|tool| tool["name"] == name), "{tools:?}");
    let answer = run(sandbox, &["call", &name, &arguments.to_string(), "--yes"]);
    answer["content"][0]["text"].as_str().unwrap().to_owned()
}

/// What the answer must hold, unless the server is not there.
fn assert_says(answer: Option<String>, expected: &str) {
    if let Some(answer) = answer {
        assert!(answer.contains(expected), "{answer}");
    }
}

#[tokio::test]
async fn everything() {
    let server = node("server-everything", &["stdio"]);
    let answer = try_out(server, "echo", &json!({"message": "hello"})).await;
    assert_says(answer, "hello");
}

#[tokio::test]
async fn filesystem() {
    let server = node("server-filesystem", &["."]);
    let answer = try_out(server, "read_text_file", &json!({"path": "notes.txt"})).await;
    assert_says(answer, "remember the milk");
}

#[tokio::test]
async fn memory() {
    let server = node("server-memory", &[]);
    let answer = try_out(server, "read_graph", &json!({})).await;
    assert_says(answer, "entities");
}

#[tokio::test]
async fn time() {
    let server = python(&["-m", "mcp_server_time"]);
    let answer = try_out(server, "get_current_time", &json!({"timezone": "UTC"})).await;
    assert_says(answer, "\"timezone\": \"UTC\"");
}

#[tokio::test]
async fn git() {
    let server = python(&["-m", "mcp_server_git"]);
    let Some(fixtures) = fixtures(&server.entry_point) else {
        return;
    };
    let sandbox = Sandbox::new();
    let made = sandbox.command("git").args(["init", "--quiet"]).status();
    assert!(made.unwrap().success());
    let entry = entry(&server, &fixtures, &sandbox);
    sandbox.write(
        ".mcp.json",
        json!({"mcpServers": {"it": entry}}).to_string(),
    );
    let answer = run(
        &sandbox,
        &["call", "mcp__it__git_status", "repo_path=.", "--yes"],
    );
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(".mcp.json"), "{text}");
    assert_no_process_left(sandbox.tag()).await;
}

#[tokio::test]
async fn fastmcp() {
    let program = "\
from fastmcp import FastMCP
server = FastMCP('sums')
@server.tool
def add(a: int, b: int) -> int:
    return a + b
server.run(show_banner=True)
";
    let answer = try_out(python(&["-c", program]), "add", &json!({"a": 15, "b": 27})).await;
    assert_says(answer, "42");
}
