//! `completions`, `man` and `schema`, and dynamic shell completion.

use std::fs;

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::Script;

use crate::support::{TestCli, echo_server};

impl TestCli {
    /// Requests completions of the last word in the same way as the shell fish.
    async fn completions(&self, words: &[&str]) -> Vec<String> {
        let mut command = self.command_without_trust(&["--", "switchboard"]);
        command.args(words).env("SWITCHBOARD_COMPLETE", "fish");
        let output = self.run_command(command).await;
        assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output}");
        let words = output
            .stdout
            .lines()
            .filter_map(|line| line.split('\t').next());
        words.map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn server_names_complete_without_start() {
    let touch = json!({"command": "touch", "args": ["started"]});
    let cli = TestCli::with_servers([
        ("files", touch.clone().into()),
        ("filters", touch.clone().into()),
        ("broken", json!({"command": 5}).into()),
        ("x;touch started", touch.clone().into()),
        ("$(touch started)", touch.into()),
    ]);
    assert_eq!(cli.completions(&["get", "fi"]).await, ["files", "filters"]);
    assert_eq!(
        cli.completions(&["--json", "get", ""]).await[..3],
        ["files", "filters", "broken"]
    );
    assert_eq!(cli.completions(&["get", "x"]).await, [""; 0]);
    assert_eq!(cli.completions(&["get", "$"]).await, [""; 0]);
    assert!(!cli.sandbox.project().join("started").exists());
}

#[tokio::test]
async fn tool_names_complete_from_cache() {
    let cli = TestCli::with_servers([("calc", echo_server().into())]);
    assert_eq!(cli.completions(&["call", "mcp"]).await, [""; 0]);
    cli.run(&["tools"]).await;
    let expected = ["mcp__calc__echo", "mcp__calc__add"];
    assert_eq!(cli.completions(&["call", "mcp"]).await, expected);
    assert_eq!(cli.completions(&["describe", "mcp"]).await, expected);
}

#[tokio::test]
async fn completion_reads_mcp_config_flag() {
    let cli = TestCli::with_servers([("here", echo_server().into())]);
    let named = json!({"mcpServers": {"there": {"command": "x"}}}).to_string();
    cli.sandbox.write("other.json", named);
    let line = ["--mcp-config", "other.json", "get", ""];
    assert_eq!(cli.completions(&line).await[..2], ["there", "here"]);
    let line = ["--strict-mcp-config", "--mcp-config=other.json", "get", "h"];
    assert_eq!(cli.completions(&line).await, [""; 0]);
}

#[tokio::test]
async fn broken_config_completes_to_nothing() {
    let cli = TestCli::empty();
    cli.sandbox.write(".mcp.json", "{ not json");
    assert_eq!(cli.completions(&["get", "x"]).await, [""; 0]);
}

#[tokio::test]
async fn every_shell_has_completion_script() {
    let cli = TestCli::empty();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = cli
            .run_command(cli.command_without_trust(&["completions", shell]))
            .await;
        assert_eq!(output.code, 0, "{output}");
        assert!(output.stdout.contains("SWITCHBOARD_COMPLETE"), "{output}");
    }
    assert_eq!(cli.run(&["completions", "csh"]).await.code, 2);
}

#[tokio::test]
async fn every_command_has_manual_page() {
    let cli = TestCli::empty();
    let output = cli.run_command(cli.command_without_trust(&["man"])).await;
    assert_eq!(output.code, 0);
    assert!(output.stdout.contains(".TH switchboard 1"), "{output}");
    assert!(!output.stdout.contains("__demo"), "{output}");
    let output = cli
        .run_command(cli.command_without_trust(&["man", "call"]))
        .await;
    assert!(output.stdout.contains(".TH switchboard-call 1"), "{output}");
    let output = cli
        .run_command(cli.command_without_trust(&["man", "cal"]))
        .await;
    assert_snapshot!(output, @r#"
        exit 2
        --- stderr
        error: no such command: "cal"
        hint: did you mean call?
        "#);
}

#[tokio::test]
async fn schemas_match_docs() {
    let cli = TestCli::empty();
    for file in ["mcp", "settings"] {
        let output = cli
            .run_command(cli.command_without_trust(&["schema", file]))
            .await;
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
        let written = fs::read_to_string(format!("{docs}/{file}.schema.json")).unwrap();
        assert_eq!(
            output.json().to_string(),
            serde_json::from_str::<serde_json::Value>(&written)
                .unwrap()
                .to_string()
        );
    }
}

#[tokio::test]
async fn config_file_may_name_its_schema() {
    let cli = TestCli::empty();
    let server = switchboard_testkit::scripted_server();
    let entry = json!({"command": server, "args": [Script::legacy().to_json()]});
    let file = json!({"$schema": "./mcp.schema.json", "mcpServers": {"a": entry}});
    cli.sandbox.write(".mcp.json", file.to_string());
    let output = cli.run(&["tools"]).await;
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output}");
}
