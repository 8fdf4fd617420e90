//! Slips at `add` and `add-json`: each is told with what to type, and nothing is written.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::servers_in;
use crate::support::Desk;

/// What is said to each of these, none of which writes anything.
async fn refusals(slips: &[&[&str]]) -> String {
    let desk = Desk::fresh();
    let mut told = Vec::new();
    for args in slips {
        let ran = desk.plain(args).await;
        told.push(format!("$ {}\n{ran}", args.join(" ")));
    }
    let written = desk.sandbox.config_home().join("switchboard");
    assert!(!written.exists(), "nothing was written");
    told.join("\n\n")
}

#[tokio::test]
async fn what_is_no_url_is_shown_as_a_command_or_with_its_scheme() {
    let slips: [&[&str]; 8] = [
        &["add", "a"],
        &["add", "a", "npx -y foo"],
        &["add", "a", "npx", "foo"],
        &["add", "a", "npx", "-y", "foo"],
        &["add", "a", "./server.py"],
        &["add", "a", "example.com/mcp"],
        &["add", "a", "localhost:3000"],
        &["add", "a", "ftp://example.com"],
    ];
    assert_snapshot!(refusals(&slips).await, @r#"
    $ add a
    exit 2
    --- stderr
    error: neither a URL nor a command is given
    hint: switchboard add a https://example.com/mcp, or switchboard add a -- npx -y some-server

    $ add a npx -y foo
    exit 2
    --- stderr
    error: 'npx -y foo' is not a URL; a command stands behind --
    hint: switchboard add a -- npx -y foo

    $ add a npx foo
    exit 2
    --- stderr
    error: npx foo is not a URL; a command stands behind --
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
    error: ./server.py is not a URL; a command stands behind --
    hint: switchboard add a -- ./server.py

    $ add a example.com/mcp
    exit 2
    --- stderr
    error: "example.com/mcp" is not a URL: it does not say how to get there
    hint: switchboard add a https://example.com/mcp

    $ add a localhost:3000
    exit 2
    --- stderr
    error: "localhost:3000" is not a URL: it does not say how to get there
    hint: switchboard add a http://localhost:3000

    $ add a ftp://example.com
    exit 3
    --- stderr
    error: server a was not added: `url` is not a web address
    hint: it begins with https:// or http:// and a host
    "#);
}

#[tokio::test]
async fn what_does_not_go_together_is_told_with_what_does() {
    let slips: [&[&str]; 8] = [
        &["add", "a", "https://example.com", "--", "x"],
        &["add", "a", "https://example.com", "-e", "A=1"],
        &["add", "a", "-H", "A: 1", "--", "x"],
        &["add", "a", "-t", "http", "--", "x"],
        &["add", "a", "-e", "hush", "--", "x"],
        &["add", "a", "-e", "A=1", "-e", "A=2", "--", "x"],
        &["add", "a", "-e", "=1", "--", "x"],
        &["add", "", "--", "x"],
    ];
    assert_snapshot!(refusals(&slips).await, @r#"
    $ add a https://example.com -- x
    exit 2
    --- stderr
    error: https://example.com stands before --
    hint: give either a URL, or a command with all of its words behind --

    $ add a https://example.com -e A=1
    exit 2
    --- stderr
    error: a URL is given no variables
    hint: send headers with -H 'NAME: VALUE'

    $ add a -H A: 1 -- x
    exit 2
    --- stderr
    error: a command is sent no headers
    hint: set variables for it with -e NAME=VALUE, before --

    $ add a -t http -- x
    exit 2
    --- stderr
    error: --transport http needs a URL, and a command is given
    hint: leave --transport out

    $ add a -e hush -- x
    exit 2
    --- stderr
    error: what follows -e is not NAME=VALUE
    hint: -e NAME=VALUE, or --env-from-stdin NAME for what nobody should see

    $ add a -e A=1 -e A=2 -- x
    exit 2
    --- stderr
    error: A is given twice
    hint: give it once

    $ add a -e =1 -- x
    exit 2
    --- stderr
    error: what follows -e is not NAME=VALUE
    hint: -e NAME=VALUE, or --env-from-stdin NAME for what nobody should see

    $ add  -- x
    exit 2
    --- stderr
    error: server name must not be empty
    hint: choose another name
    "#);
}

#[tokio::test]
async fn an_option_behind_the_dashes_is_told_about() {
    let desk = Desk::fresh();
    let ran = desk.plain(&["add", "a", "--", "x", "-e", "A=1"]).await;
    assert_snapshot!(ran.stderr, @r"
    warning: -e stands behind --, so the command gets it as an argument
    hint: if it was meant for switchboard, put -e before -- and add --force
    ");
    let docker = ["add", "b", "--", "docker", "run", "-e", "A=1", "image"];
    assert_eq!(desk.plain(&docker).await.stderr, "");
}

#[tokio::test]
async fn entries_given_as_json_are_checked_before_they_are_written() {
    let desk = Desk::fresh();
    let slips = [
        "{",
        "[]",
        r#"{"command": 5}"#,
        r#"{"command": "x", "url": "https://example.com"}"#,
        r#"{"mcpServers": {"a": {"command": "x"}}}"#,
        r#"{"a": {"command": "x"}}"#,
    ];
    let mut told = Vec::new();
    for json in slips {
        let ran = desk.plain(&["add-json", "a", json]).await;
        told.push(format!("$ {json}\n{ran}"));
    }
    assert_snapshot!(told.join("\n\n"), @r#"
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
    error: server a was not added: both `command` and `url` are given
    hint: keep `command` for a program to start, or `url` for a remote server

    $ {"mcpServers": {"a": {"command": "x"}}}
    exit 2
    --- stderr
    error: the entry stands inside of "mcpServers"
    hint: give only what stands behind the server's name

    $ {"a": {"command": "x"}}
    exit 2
    --- stderr
    error: the entry stands inside of "a"
    hint: give only what stands behind the server's name
    "#);
    assert!(
        !desk.sandbox.config_home().join("switchboard").exists(),
        "nothing was written"
    );

    let json = r#"{"command": "x", "argz": [], "env": {"A": "${NOBODY_SET_THIS}"}}"#;
    let ran = desk.plain(&["add-json", "a", json]).await;
    assert_snapshot!(ran, @r"
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
    let ran = desk.with_stdin(&["add-json", "b", "-"], json);
    assert_eq!(ran.code, 0, "{ran}");
    let entry: Value = serde_json::from_str(json).unwrap();
    assert_eq!(
        servers_in(desk.local_file()),
        json!({ "a": entry, "b": entry })
    );
}

#[tokio::test]
async fn a_command_in_one_word_is_taken_apart() {
    let slips: [&[&str]; 2] = [
        &["add", "a", "--", "npx -y foo"],
        &["add", "a", "--", "npx -y", "foo bar"],
    ];
    assert_snapshot!(refusals(&slips).await, @r"
    $ add a -- npx -y foo
    exit 2
    --- stderr
    error: 'npx -y foo' is one word, and no program is called that
    hint: write the words apart: switchboard add a -- npx -y foo

    $ add a -- npx -y foo bar
    exit 2
    --- stderr
    error: 'npx -y' is one word, and no program is called that
    hint: write the words apart: switchboard add a -- npx -y 'foo bar'
    ");
}
