//! Usage errors of `add` and `add-json`: each has a hint, and nothing is written.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::servers_in;
use crate::support::TestCli;

/// Runs the command lines, asserts that none of them writes a file, and returns their output.
async fn run_rejected(rejected: &[&[&str]]) -> String {
    let cli = TestCli::with_git_project();
    let mut outputs = Vec::new();
    for args in rejected {
        let output = cli.run_without_trust(args).await;
        outputs.push(format!("$ {}\n{output}", args.join(" ")));
    }
    let written = cli.sandbox.config_home().join("switchboard");
    assert!(!written.exists(), "nothing was written");
    outputs.join("\n\n")
}

#[tokio::test]
async fn non_url_suggests_command_or_scheme() {
    let rejected: [&[&str]; 8] = [
        &["add", "a"],
        &["add", "a", "npx -y foo"],
        &["add", "a", "npx", "foo"],
        &["add", "a", "npx", "-y", "foo"],
        &["add", "a", "./server.py"],
        &["add", "a", "example.com/mcp"],
        &["add", "a", "localhost:3000"],
        &["add", "a", "ftp://example.com"],
    ];
    assert_snapshot!(run_rejected(&rejected).await, @r#"
    $ add a
    exit 2
    --- stderr
    error: missing URL or command
    hint: switchboard add a https://example.com/mcp, or switchboard add a -- npx -y some-server

    $ add a npx -y foo
    exit 2
    --- stderr
    error: 'npx -y foo' is not a URL; a command goes after --
    hint: switchboard add a -- npx -y foo

    $ add a npx foo
    exit 2
    --- stderr
    error: npx foo is not a URL; a command goes after --
    hint: switchboard add a -- npx foo

    $ add a npx -y foo
    exit 2
    --- stderr
    error: unexpected argument '-y' found

      tip: put the command after --: switchboard add a -- npx -y foo

    Usage: switchboard add [OPTIONS] NAME URL
           switchboard add [OPTIONS] NAME -- COMMAND [ARG]...

    For more information, try '--help'.

    $ add a ./server.py
    exit 2
    --- stderr
    error: ./server.py is not a URL; a command goes after --
    hint: switchboard add a -- ./server.py

    $ add a example.com/mcp
    exit 2
    --- stderr
    error: "example.com/mcp" is not a URL: the scheme is missing
    hint: switchboard add a https://example.com/mcp

    $ add a localhost:3000
    exit 2
    --- stderr
    error: "localhost:3000" is not a URL: the scheme is missing
    hint: switchboard add a http://localhost:3000

    $ add a ftp://example.com
    exit 3
    --- stderr
    error: server a was not added: `url` is not an http(s) URL
    hint: expected https://HOST or http://HOST
    "#);
}

#[tokio::test]
async fn conflicting_options_are_rejected() {
    let rejected: [&[&str]; 8] = [
        &["add", "a", "https://example.com", "--", "x"],
        &["add", "a", "https://example.com", "-e", "A=1"],
        &["add", "a", "-H", "A: 1", "--", "x"],
        &["add", "a", "-t", "http", "--", "x"],
        &["add", "a", "-e", "hush", "--", "x"],
        &["add", "a", "-e", "A=1", "-e", "A=2", "--", "x"],
        &["add", "a", "-e", "=1", "--", "x"],
        &["add", "", "--", "x"],
    ];
    assert_snapshot!(run_rejected(&rejected).await, @r#"
    $ add a https://example.com -- x
    exit 2
    --- stderr
    error: unexpected https://example.com before --
    hint: pass either a URL or `-- COMMAND ARGS`

    $ add a https://example.com -e A=1
    exit 2
    --- stderr
    error: --env needs a command; a URL takes no variables
    hint: send headers with -H 'NAME: VALUE'

    $ add a -H A: 1 -- x
    exit 2
    --- stderr
    error: --header needs a URL; a command takes no headers
    hint: set environment variables with -e NAME=VALUE before --

    $ add a -t http -- x
    exit 2
    --- stderr
    error: --transport http needs a URL, but a command was given
    hint: remove --transport

    $ add a -e hush -- x
    exit 2
    --- stderr
    error: invalid value for -e: expected NAME=VALUE
    hint: -e NAME=VALUE, or --env-from-stdin NAME to read a secret value

    $ add a -e A=1 -e A=2 -- x
    exit 2
    --- stderr
    error: A was given more than once
    hint: pass it once

    $ add a -e =1 -- x
    exit 2
    --- stderr
    error: invalid value for -e: expected NAME=VALUE
    hint: -e NAME=VALUE, or --env-from-stdin NAME to read a secret value

    $ add  -- x
    exit 2
    --- stderr
    error: server name must not be empty
    hint: pick a different name
    "#);
}

#[tokio::test]
async fn option_after_double_dash_is_warned_about() {
    let cli = TestCli::with_git_project();
    let output = cli
        .run_without_trust(&["add", "a", "--", "x", "-e", "A=1"])
        .await;
    assert_snapshot!(output.stderr, @r"
    warning: -e comes after --, so it is passed to the command
    hint: if -e is meant for switchboard, put it before -- and add --force
    ");
    let docker = ["add", "b", "--", "docker", "run", "-e", "A=1", "image"];
    assert_eq!(cli.run_without_trust(&docker).await.stderr, "");
}

#[tokio::test]
async fn add_json_validates_entry() {
    let cli = TestCli::with_git_project();
    let rejected = [
        "{",
        "[]",
        r#"{"command": 5}"#,
        r#"{"command": "x", "url": "https://example.com"}"#,
        r#"{"mcpServers": {"a": {"command": "x"}}}"#,
        r#"{"a": {"command": "x"}}"#,
    ];
    let mut outputs = Vec::new();
    for json in rejected {
        let output = cli.run_without_trust(&["add-json", "a", json]).await;
        outputs.push(format!("$ {json}\n{output}"));
    }
    assert_snapshot!(outputs.join("\n\n"), @r#"
    $ {
    exit 2
    --- stderr
    error: the entry is not valid JSON: EOF while parsing an object at line 1 column 1
    hint: put it in single quotes: '{"command": "npx", "args": ["-y", "some-server"]}'

    $ []
    exit 3
    --- stderr
    error: server a was not added: expected an object, found a list
    hint: write { "command": "…" } or { "url": "…" }

    $ {"command": 5}
    exit 3
    --- stderr
    error: server a was not added: `command` must be a string, not a number

    $ {"command": "x", "url": "https://example.com"}
    exit 3
    --- stderr
    error: server a was not added: `command` and `url` are mutually exclusive
    hint: keep `command` for a program to start, or `url` for a remote server

    $ {"mcpServers": {"a": {"command": "x"}}}
    exit 2
    --- stderr
    error: the entry is wrapped in "mcpServers"
    hint: pass only the server's own object

    $ {"a": {"command": "x"}}
    exit 2
    --- stderr
    error: the entry is wrapped in "a"
    hint: pass only the server's own object
    "#);
    assert!(
        !cli.sandbox.config_home().join("switchboard").exists(),
        "nothing was written"
    );

    let json = r#"{"command": "x", "argz": [], "env": {"A": "${NOBODY_SET_THIS}"}}"#;
    let output = cli.run_without_trust(&["add-json", "a", json]).await;
    assert_snapshot!(output, @r"
    exit 0
    --- stdout
    Added a to the local scope
      file  [sandbox]/home/.config/switchboard/projects/[project]/mcp.json:3
      command  x
      env  A=${NOBODY_SET_THIS}
    Next: switchboard list
    --- stderr
    warning: unknown key `argz`; did you mean `args`?
    warning: variable NOBODY_SET_THIS is not set
    hint: export NOBODY_SET_THIS=… or write ${NOBODY_SET_THIS:-default}
    ");
    let output = cli.with_stdin(&["add-json", "b", "-"], json);
    assert_eq!(output.code, 0, "{output}");
    let entry: Value = serde_json::from_str(json).unwrap();
    assert_eq!(
        servers_in(cli.local_file()),
        json!({ "a": entry, "b": entry })
    );
}

#[tokio::test]
async fn quoted_command_line_is_split_in_hint() {
    let rejected: [&[&str]; 2] = [
        &["add", "a", "--", "npx -y foo"],
        &["add", "a", "--", "npx -y", "foo bar"],
    ];
    assert_snapshot!(run_rejected(&rejected).await, @r"
    $ add a -- npx -y foo
    exit 2
    --- stderr
    error: 'npx -y foo' contains spaces; pass program and arguments as separate words
    hint: switchboard add a -- npx -y foo

    $ add a -- npx -y foo bar
    exit 2
    --- stderr
    error: 'npx -y' contains spaces; pass program and arguments as separate words
    hint: switchboard add a -- npx -y 'foo bar'
    ");
}
