//! `completions`, `man` and `schema`, and the answers that a completing shell gets.

use std::fs;

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::Script;

use crate::support::{Desk, polite};

impl Desk {
    /// What a shell is offered behind these words, as fish asks.
    async fn offered(&self, words: &[&str]) -> Vec<String> {
        let mut command = self.untrusting(&["--", "switchboard"]);
        command.args(words).env("SWITCHBOARD_COMPLETE", "fish");
        let ran = self.finish(command).await;
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran}");
        let words = ran
            .stdout
            .lines()
            .filter_map(|line| line.split('\t').next());
        words.map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn a_shell_completes_the_names_of_servers_without_starting_them() {
    let touch = json!({"command": "touch", "args": ["started"]});
    let desk = Desk::with([
        ("files", touch.clone().into()),
        ("filters", touch.clone().into()),
        ("broken", json!({"command": 5}).into()),
        ("x;touch started", touch.clone().into()),
        ("$(touch started)", touch.into()),
    ]);
    assert_eq!(desk.offered(&["get", "fi"]).await, ["files", "filters"]);
    assert_eq!(
        desk.offered(&["--json", "get", ""]).await[..3],
        ["files", "filters", "broken"]
    );
    assert_eq!(desk.offered(&["get", "x"]).await, [""; 0]);
    assert_eq!(desk.offered(&["get", "$"]).await, [""; 0]);
    assert!(!desk.sandbox.project().join("started").exists());
}

#[tokio::test]
async fn a_shell_completes_the_names_of_tools_once_a_server_has_listed_them() {
    let desk = Desk::with([("calc", polite().into())]);
    assert_eq!(desk.offered(&["call", "mcp"]).await, [""; 0]);
    desk.run(&["tools"]).await;
    let expected = ["mcp__calc__echo", "mcp__calc__add"];
    assert_eq!(desk.offered(&["call", "mcp"]).await, expected);
    assert_eq!(desk.offered(&["describe", "mcp"]).await, expected);
}

#[tokio::test]
async fn a_shell_completes_what_the_config_on_the_line_names() {
    let desk = Desk::with([("here", polite().into())]);
    let named = json!({"mcpServers": {"there": {"command": "x"}}}).to_string();
    desk.sandbox.write("other.json", named);
    let line = ["--mcp-config", "other.json", "get", ""];
    assert_eq!(desk.offered(&line).await[..2], ["there", "here"]);
    let line = ["--strict-mcp-config", "--mcp-config=other.json", "get", "h"];
    assert_eq!(desk.offered(&line).await, [""; 0]);
}

#[tokio::test]
async fn a_broken_config_completes_to_nothing_and_says_nothing() {
    let desk = Desk::empty();
    desk.sandbox.write(".mcp.json", "{ not json");
    assert_eq!(desk.offered(&["get", "x"]).await, [""; 0]);
}

#[tokio::test]
async fn every_shell_has_a_script() {
    let desk = Desk::empty();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ran = desk.finish(desk.untrusting(&["completions", shell])).await;
        assert_eq!(ran.code, 0, "{ran}");
        assert!(ran.stdout.contains("SWITCHBOARD_COMPLETE"), "{ran}");
    }
    assert_eq!(desk.run(&["completions", "csh"]).await.code, 2);
}

#[tokio::test]
async fn there_is_a_manual_of_the_program_and_of_each_command() {
    let desk = Desk::empty();
    let ran = desk.finish(desk.untrusting(&["man"])).await;
    assert_eq!(ran.code, 0);
    assert!(ran.stdout.contains(".TH switchboard 1"), "{ran}");
    assert!(!ran.stdout.contains("__demo"), "{ran}");
    let ran = desk.finish(desk.untrusting(&["man", "call"])).await;
    assert!(ran.stdout.contains(".TH switchboard-call 1"), "{ran}");
    let ran = desk.finish(desk.untrusting(&["man", "cal"])).await;
    assert_snapshot!(ran, @r#"
        exit 2
        --- stderr
        error: there is no command "cal"
        hint: did you mean call?
        "#);
}

#[tokio::test]
async fn the_schemas_are_those_of_the_documentation() {
    let desk = Desk::empty();
    for file in ["mcp", "settings"] {
        let ran = desk.finish(desk.untrusting(&["schema", file])).await;
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
        let written = fs::read_to_string(format!("{docs}/{file}.schema.json")).unwrap();
        assert_eq!(
            ran.json().to_string(),
            serde_json::from_str::<serde_json::Value>(&written)
                .unwrap()
                .to_string()
        );
    }
}

#[tokio::test]
async fn a_file_may_name_its_schema() {
    let desk = Desk::empty();
    let server = switchboard_testkit::scripted_server();
    let entry = json!({"command": server, "args": [Script::legacy().to_json()]});
    let file = json!({"$schema": "./mcp.schema.json", "mcpServers": {"a": entry}});
    desk.sandbox.write(".mcp.json", file.to_string());
    let ran = desk.run(&["tools"]).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran}");
}
