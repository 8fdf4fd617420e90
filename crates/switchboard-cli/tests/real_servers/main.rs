//! Real servers from the package registries: lists each server and calls one of its tools.
//!
//! The servers are installed in the directory `SWITCHBOARD_FIXTURES`. A test without its server
//! prints `SKIPPED` and passes, except in CI, where it fails.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod guide;
mod listings;
mod long_calls;
mod remote;
mod server_requests;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use switchboard_testkit::{Sandbox, TAG_VARIABLE, assert_no_process_left};

/// A server that is installed in `SWITCHBOARD_FIXTURES`, and how to start it.
struct Server {
    /// The script or program to run, relative to the directory `SWITCHBOARD_FIXTURES`.
    entry_point: String,
    /// Arguments after the script or program.
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

/// Returns the directory with the installed servers. `None` means that the test is skipped.
#[expect(
    clippy::disallowed_methods,
    reason = "the environment names the directory of the servers"
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
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {text}\n{stderr}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Lists the server and its tools, calls one of them and returns the text.
async fn try_out(server: Server, tool: &str, arguments: &Value) -> Option<String> {
    let fixtures = fixtures(&server.entry_point)?;
    let sandbox = Sandbox::new();
    sandbox.write("notes.txt", "remember the milk");
    let entry = entry(&server, &fixtures, &sandbox);
    let result = try_entry(&sandbox, &entry, tool, arguments);
    assert_no_process_left(sandbox.tag()).await;
    Some(result)
}

/// Lists the server of this entry and its tools, calls one of them and returns the text.
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
    let result = run(sandbox, &["call", &name, &arguments.to_string(), "--yes"]);
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

/// Asserts that the result contains the text, unless the test is skipped.
fn assert_contains(result: Option<String>, expected: &str) {
    if let Some(result) = result {
        assert!(result.contains(expected), "{result}");
    }
}

#[tokio::test]
async fn lists_and_calls_everything() {
    let server = node("server-everything", &["stdio"]);
    let result = try_out(server, "echo", &json!({"message": "hello"})).await;
    assert_contains(result, "hello");
}

#[tokio::test]
async fn lists_and_calls_filesystem() {
    let server = node("server-filesystem", &["."]);
    let result = try_out(server, "read_text_file", &json!({"path": "notes.txt"})).await;
    assert_contains(result, "remember the milk");
}

#[tokio::test]
async fn lists_and_calls_memory() {
    let server = node("server-memory", &[]);
    let result = try_out(server, "read_graph", &json!({})).await;
    assert_contains(result, "entities");
}

#[tokio::test]
async fn lists_and_calls_time() {
    let server = python(&["-m", "mcp_server_time"]);
    let result = try_out(server, "get_current_time", &json!({"timezone": "UTC"})).await;
    assert_contains(result, "\"timezone\": \"UTC\"");
}

#[tokio::test]
async fn lists_and_calls_git() {
    let server = python(&["-m", "mcp_server_git"]);
    let Some(fixtures) = fixtures(&server.entry_point) else {
        return;
    };
    let sandbox = Sandbox::new();
    let init = sandbox.command("git").args(["init", "--quiet"]).status();
    assert!(init.unwrap().success());
    let entry = entry(&server, &fixtures, &sandbox);
    sandbox.write(
        ".mcp.json",
        json!({"mcpServers": {"it": entry}}).to_string(),
    );
    let result = run(
        &sandbox,
        &["call", "mcp__it__git_status", "repo_path=.", "--yes"],
    );
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(".mcp.json"), "{text}");
    assert_no_process_left(sandbox.tag()).await;
}

#[tokio::test]
async fn lists_and_calls_fastmcp() {
    let program = "\
from fastmcp import FastMCP
server = FastMCP('sums')
@server.tool
def add(a: int, b: int) -> int:
    return a + b
server.run(show_banner=True)
";
    let result = try_out(python(&["-c", program]), "add", &json!({"a": 15, "b": 27})).await;
    assert_contains(result, "42");
}
