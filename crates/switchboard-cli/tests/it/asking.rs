//! Permission, as far as flags decide.

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::{Script, read_record};

use crate::support::{Desk, polite};

fn desk() -> Desk {
    Desk::with([("ant", polite().record("record").into())])
}

fn calls(desk: &Desk) -> usize {
    let record = read_record(desk.sandbox.project().join("record"));
    record
        .iter()
        .filter(|message| message["method"] == "tools/call")
        .count()
}

const CALL: [&str; 3] = ["call", "mcp__ant__echo", "message=hi"];

async fn call(desk: &Desk, flags: &[&str]) -> crate::support::Ran {
    let args: Vec<_> = CALL.iter().chain(flags).copied().collect();
    desk.run(&args).await
}

#[tokio::test]
async fn without_a_terminal_nobody_can_be_asked() {
    let desk = desk();
    assert_snapshot!(call(&desk, &[]).await, @"
        exit 6
        --- stderr
        error: echo of server ant was not called: it needs permission, and there is nobody to ask
        hint: pass --yes, or --allow mcp__ant__echo
        ");
    assert_eq!(
        call(&desk, &["--json"]).await.json(),
        json!({"error": {
            "kind": "denied",
            "message": "echo of server ant was not called: it needs permission, and there is nobody to ask",
            "hint": "pass --yes, or --allow mcp__ant__echo",
            "exitCode": 6,
            "delivery": "not-sent",
        }})
    );
    assert_eq!(calls(&desk), 0);
}

#[tokio::test]
async fn an_allow_or_a_yes_lets_it_through() {
    let desk = desk();
    assert_eq!(call(&desk, &["--yes"]).await.code, 0);
    assert_eq!(call(&desk, &["--allow", "mcp__ant__ech?"]).await.code, 0);
    assert_eq!(call(&desk, &["--ask", "mcp__ant", "--yes"]).await.code, 0);
    assert_eq!(calls(&desk), 3);
}

#[tokio::test]
async fn a_denied_call_never_reaches_the_server() {
    let desk = desk();
    assert_snapshot!(call(&desk, &["--yes", "--deny", "mcp__ant__ec*"]).await, @"
        exit 6
        --- stderr
        error: echo of server ant was not called: denied by rule `mcp__ant__ec*` (command line)
        ");
    // Before the command, with an allow after it.
    let args = [
        "--deny",
        "mcp__ant",
        "call",
        "mcp__ant__echo",
        "message=hi",
        "--allow",
        "mcp__*",
    ];
    assert_eq!(desk.run(&args).await.code, 6);
    assert_eq!(calls(&desk), 0);
}

#[tokio::test]
async fn of_allow_and_ask_the_first_counts() {
    let desk = desk();
    let first_allow = ["--allow", "mcp__ant", "--ask", "mcp__*"];
    let first_ask = ["--ask", "mcp__*", "--allow", "mcp__ant"];
    assert_eq!(call(&desk, &first_allow).await.code, 0);
    assert_eq!(call(&desk, &first_ask).await.code, 6);
}

#[tokio::test]
async fn a_pattern_that_is_none_is_a_usage_error() {
    let desk = Desk::with([("ant", Script::legacy().into())]);
    assert_snapshot!(desk.run(&["list", "--deny", "mcp__[a"]).await, @r#"
        exit 2
        --- stderr
        error: --deny: the pattern "mcp__[a" is not valid: a `[` is never closed
        "#);
}

#[tokio::test]
async fn an_unapproved_server_is_not_called() {
    let desk = desk();
    let ran = desk
        .finish(desk.untrusting(&["call", "mcp__ant__echo", "message=two words", "--yes"]))
        .await;
    assert_snapshot!(ran, @"
        exit 4
        --- stderr
        error: server ant comes with the project and is not approved; it was not started
        hint: switchboard trust ant
          for this run only: switchboard --trust-project call mcp__ant__echo 'message=two words' --yes
        ");
    assert!(!desk.sandbox.project().join("record").exists());
}
