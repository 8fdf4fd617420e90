//! The arguments of `call`, as the server gets them.

use std::io::Write as _;
use std::process::Stdio;

use insta::assert_snapshot;
use serde_json::{Value, json};
use switchboard_testkit::{Script, read_record};

use crate::support::{Desk, polite};

fn desk() -> Desk {
    let tool = json!({
        "name": "t",
        "inputSchema": {
            "type": "object",
            "properties": {
                "count": {"type": "integer"},
                "deep": {"type": "boolean"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "text": {"type": "string"},
            },
        },
    });
    Desk::with([(
        "ant",
        Script::legacy().raw_tool(tool).record("record").into(),
    )])
}

fn received(desk: &Desk) -> Value {
    let record = read_record(desk.sandbox.project().join("record"));
    let mut calls = record
        .iter()
        .filter(|message| message["method"] == "tools/call");
    calls.next_back().unwrap()["params"]["arguments"].clone()
}

#[tokio::test]
async fn pairs_are_coerced_by_the_schema() {
    let desk = desk();
    let words = [
        "count=15",
        "deep=true",
        "tags=a",
        "tags=b",
        "text=15",
        "more:={\"x\": [1]}",
    ];
    let args: Vec<_> = ["call", "mcp__ant__t", "--yes"]
        .into_iter()
        .chain(words)
        .collect();
    assert_eq!(desk.run(&args).await.code, 0);
    assert_eq!(
        received(&desk),
        json!({"count": 15, "deep": true, "tags": ["a", "b"], "text": "15", "more": {"x": [1]}})
    );
}

#[tokio::test]
async fn an_object_is_taken_as_it_stands() {
    let desk = desk();
    let ran = desk
        .run(&[
            "call",
            "mcp__ant__t",
            r#"{"count": 3, "text": "x"}"#,
            "--yes",
        ])
        .await;
    assert_eq!(ran.code, 0);
    assert_eq!(received(&desk), json!({"count": 3, "text": "x"}));
}

async fn with_stdin(desk: &Desk, text: &str) -> crate::support::Ran {
    let mut command = desk.command(&["call", "mcp__ant__t", "-", "--yes"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    desk.ran(&child.wait_with_output().unwrap())
}

#[tokio::test]
async fn a_dash_reads_them_from_stdin() {
    let desk = desk();
    assert_eq!(with_stdin(&desk, "{\"count\": 4}\n").await.code, 0);
    assert_eq!(received(&desk), json!({"count": 4}));
    assert_snapshot!(with_stdin(&desk, "").await, @"");
    assert_snapshot!(with_stdin(&desk, "[1]").await, @"");
}

#[tokio::test]
async fn what_does_not_fit_is_a_usage_error_and_never_reaches_the_server() {
    let desk = Desk::with([("ant", polite().record("record").into())]);
    assert_snapshot!(desk.run(&["call", "mcp__ant__add", "a=many", "--yes"]).await, @"");
    let record = read_record(desk.sandbox.project().join("record"));
    assert!(
        record
            .iter()
            .all(|message| message["method"] != "tools/call")
    );
}

#[tokio::test]
async fn what_cannot_be_understood_starts_nothing() {
    let desk = Desk::with([("ant", polite().record("record").into())]);
    assert_snapshot!(desk.run(&["call", "mcp__ant__add", "15", "27"]).await, @"");
    assert_snapshot!(desk.run(&["call", "mcp__ant__add", "a:=many"]).await, @"");
    assert_snapshot!(desk.run(&["call", "mcp__ant__add", "{\"a\": 1"]).await, @"");
    assert!(!desk.sandbox.project().join("record").exists());
}
