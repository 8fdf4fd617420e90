//! Permission to call a tool, decided by flags and without a terminal.

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::{Script, read_record};

use crate::support::{TestCli, echo_server};

fn test_cli() -> TestCli {
    TestCli::with_servers([("ant", echo_server().record("record").into())])
}

fn calls(cli: &TestCli) -> usize {
    let record = read_record(cli.sandbox.project().join("record"));
    record
        .iter()
        .filter(|message| message["method"] == "tools/call")
        .count()
}

const CALL: [&str; 3] = ["call", "mcp__ant__echo", "message=hi"];

async fn call(cli: &TestCli, flags: &[&str]) -> crate::support::CliOutput {
    let args: Vec<_> = CALL.iter().chain(flags).copied().collect();
    cli.run(&args).await
}

#[tokio::test]
async fn call_without_terminal_is_denied() {
    let cli = test_cli();
    assert_snapshot!(call(&cli, &[]).await, @"
        exit 6
        --- stderr
        error: echo of server ant was not called: it needs permission and no user can be asked
        hint: pass --yes, or --allow mcp__ant__echo
        ");
    assert_eq!(
        call(&cli, &["--json"]).await.json(),
        json!({"error": {
            "kind": "denied",
            "message": "echo of server ant was not called: it needs permission and no user can be asked",
            "hint": "pass --yes, or --allow mcp__ant__echo",
            "exitCode": 6,
            "delivery": "not-sent",
        }})
    );
    assert_eq!(calls(&cli), 0);
}

#[tokio::test]
async fn allow_and_yes_permit_call() {
    let cli = test_cli();
    assert_eq!(call(&cli, &["--yes"]).await.code, 0);
    assert_eq!(call(&cli, &["--allow", "mcp__ant__ech?"]).await.code, 0);
    assert_eq!(call(&cli, &["--ask", "mcp__ant", "--yes"]).await.code, 0);
    assert_eq!(calls(&cli), 3);
}

#[tokio::test]
async fn denied_call_never_reaches_server() {
    let cli = test_cli();
    assert_snapshot!(call(&cli, &["--yes", "--deny", "mcp__ant__ec*"]).await, @"
        exit 6
        --- stderr
        error: echo of server ant was not called: denied by rule `mcp__ant__ec*` (command line)
        ");
    // `--deny` is given before the command name, and `--allow` after it.
    let args = [
        "--deny",
        "mcp__ant",
        "call",
        "mcp__ant__echo",
        "message=hi",
        "--allow",
        "mcp__*",
    ];
    assert_eq!(cli.run(&args).await.code, 6);
    assert_eq!(calls(&cli), 0);
}

#[tokio::test]
async fn first_of_allow_and_ask_decides() {
    let cli = test_cli();
    let first_allow = ["--allow", "mcp__ant", "--ask", "mcp__*"];
    let first_ask = ["--ask", "mcp__*", "--allow", "mcp__ant"];
    assert_eq!(call(&cli, &first_allow).await.code, 0);
    assert_eq!(call(&cli, &first_ask).await.code, 6);
}

#[tokio::test]
async fn invalid_pattern_is_usage_error() {
    let cli = TestCli::with_servers([("ant", Script::legacy().into())]);
    assert_snapshot!(cli.run(&["list", "--deny", "mcp__[a"]).await, @r#"
        exit 2
        --- stderr
        error: --deny: the pattern "mcp__[a" is not valid: a `[` is never closed
        "#);
}

#[tokio::test]
async fn unapproved_server_is_not_called() {
    let cli = test_cli();
    let output = cli
        .run_command(cli.command_without_trust(&[
            "call",
            "mcp__ant__echo",
            "message=two words",
            "--yes",
        ]))
        .await;
    assert_snapshot!(output, @"
        exit 4
        --- stderr
        error: server ant was not started: it comes from the project and is not approved
        hint: switchboard trust ant
          for this run only: switchboard --trust-project call mcp__ant__echo 'message=two words' --yes
        ");
    assert!(!cli.sandbox.project().join("record").exists());
}
