//! The arguments of `call`, as the server gets them.

use std::io::Write as _;
use std::process::Stdio;

use insta::assert_snapshot;
use serde_json::{Value, json};
use switchboard_testkit::{Script, Step, read_record};

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
    let script = Script::legacy()
        .raw_tool(tool)
        .record("record")
        .on("tools/call t", [Step::text("done")]);
    Desk::with([("ant", script.into())])
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

fn with_stdin(desk: &Desk, text: &str) -> crate::support::Ran {
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
    assert_eq!(with_stdin(&desk, "{\"count\": 4}\n").code, 0);
    assert_eq!(received(&desk), json!({"count": 4}));
    assert_snapshot!(with_stdin(&desk, ""), @"
        exit 2
        --- stderr
        error: the arguments are not valid JSON: EOF while parsing a value at line 1 column 0
        hint: write key=value, key:=json, one JSON object, or - to read stdin
        ");
    assert_snapshot!(with_stdin(&desk, "[1]"), @"
        exit 2
        --- stderr
        error: the arguments are JSON, but not an object
        hint: write key=value, key:=json, one JSON object, or - to read stdin
        ");
}

#[tokio::test]
async fn what_does_not_fit_is_a_usage_error_and_never_reaches_the_server() {
    let desk = Desk::with([("ant", polite().record("record").into())]);
    assert_snapshot!(desk.run(&["call", "mcp__ant__add", "a=many", "--yes"]).await, @r#"
        exit 2
        --- stderr
        error: the arguments do not fit add of server ant: "b" is a required property; at /a: "many" is not of type "number"
        hint: switchboard describe mcp__ant__add
        "#);
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
    assert_snapshot!(desk.run(&["call", "mcp__ant__add", "15", "27"]).await, @"
        exit 2
        --- stderr
        error: `15` is not an argument; expected key=value
        hint: write key=value, key:=json, one JSON object, or - to read stdin
        ");
    assert_snapshot!(desk.run(&["call", "mcp__ant__add", "a:=many"]).await, @"
        exit 2
        --- stderr
        error: the value of `a` is not valid JSON: expected value at line 1 column 1
        hint: for plain text write a=…
        ");
    assert_snapshot!(desk.run(&["call", "mcp__ant__add", "{\"a\": 1"]).await, @"
        exit 2
        --- stderr
        error: the arguments are not valid JSON: EOF while parsing an object at line 1 column 7
        hint: write key=value, key:=json, one JSON object, or - to read stdin
        ");
    assert!(!desk.sandbox.project().join("record").exists());
}
