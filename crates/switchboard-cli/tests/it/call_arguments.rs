//! Arguments of `call`: parsing, coercion and what the server receives.

use std::io::Write as _;
use std::process::Stdio;

use insta::assert_snapshot;
use serde_json::{Value, json};
use switchboard_testkit::{Script, Step, read_record};

use crate::support::{TestCli, echo_server};

fn test_cli() -> TestCli {
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
    TestCli::with_servers([("ant", script.into())])
}

fn received(cli: &TestCli) -> Value {
    let record = read_record(cli.sandbox.project().join("record"));
    let mut calls = record
        .iter()
        .filter(|message| message["method"] == "tools/call");
    calls.next_back().unwrap()["params"]["arguments"].clone()
}

#[tokio::test]
async fn pairs_are_coerced_by_schema() {
    let cli = test_cli();
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
    assert_eq!(cli.run(&args).await.code, 0);
    assert_eq!(
        received(&cli),
        json!({"count": 15, "deep": true, "tags": ["a", "b"], "text": "15", "more": {"x": [1]}})
    );
}

#[tokio::test]
async fn json_object_is_sent_unchanged() {
    let cli = test_cli();
    let output = cli
        .run(&[
            "call",
            "mcp__ant__t",
            r#"{"count": 3, "text": "x"}"#,
            "--yes",
        ])
        .await;
    assert_eq!(output.code, 0);
    assert_eq!(received(&cli), json!({"count": 3, "text": "x"}));
}

fn with_stdin(cli: &TestCli, text: &str) -> crate::support::CliOutput {
    let mut command = cli.command(&["call", "mcp__ant__t", "-", "--yes"]);
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
    cli.to_output(&child.wait_with_output().unwrap())
}

#[tokio::test]
async fn dash_reads_arguments_from_stdin() {
    let cli = test_cli();
    assert_eq!(with_stdin(&cli, "{\"count\": 4}\n").code, 0);
    assert_eq!(received(&cli), json!({"count": 4}));
    assert_snapshot!(with_stdin(&cli, ""), @"
        exit 2
        --- stderr
        error: the arguments are not valid JSON: EOF while parsing a value at line 1 column 0
        hint: write key=value, key:=json, one JSON object, or - to read stdin
        ");
    assert_snapshot!(with_stdin(&cli, "[1]"), @"
        exit 2
        --- stderr
        error: the arguments are JSON, but not an object
        hint: write key=value, key:=json, one JSON object, or - to read stdin
        ");
}

#[tokio::test]
async fn invalid_arguments_never_reach_server() {
    let cli = TestCli::with_servers([("ant", echo_server().record("record").into())]);
    assert_snapshot!(cli.run(&["call", "mcp__ant__add", "a=many", "--yes"]).await, @r#"
        exit 2
        --- stderr
        error: invalid arguments for add of server ant: "b" is a required property; at /a: "many" is not of type "number"
        hint: switchboard describe mcp__ant__add
        "#);
    let record = read_record(cli.sandbox.project().join("record"));
    assert!(
        record
            .iter()
            .all(|message| message["method"] != "tools/call")
    );
}

#[tokio::test]
async fn malformed_arguments_start_no_server() {
    let cli = TestCli::with_servers([("ant", echo_server().record("record").into())]);
    assert_snapshot!(cli.run(&["call", "mcp__ant__add", "15", "27"]).await, @"
        exit 2
        --- stderr
        error: `15` is not an argument; expected key=value
        hint: write key=value, key:=json, one JSON object, or - to read stdin
        ");
    assert_snapshot!(cli.run(&["call", "mcp__ant__add", "a:=many"]).await, @"
        exit 2
        --- stderr
        error: the value of `a` is not valid JSON: expected value at line 1 column 1
        hint: for plain text write a=…
        ");
    assert_snapshot!(cli.run(&["call", "mcp__ant__add", "{\"a\": 1"]).await, @"
        exit 2
        --- stderr
        error: the arguments are not valid JSON: EOF while parsing an object at line 1 column 7
        hint: write key=value, key:=json, one JSON object, or - to read stdin
        ");
    assert!(!cli.sandbox.project().join("record").exists());
}

#[tokio::test]
async fn unknown_argument_is_named() {
    let tool = json!({"name": "t", "inputSchema": {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
    }});
    let cli = TestCli::with_servers([("ant", Script::legacy().raw_tool(tool).into())]);
    let output = cli.run(&["call", "ant.t", "paths=x", "--yes"]).await;
    assert_eq!(output.code, 2, "{output}");
    let expected = "the tool has no argument `paths` (did you mean `path`?)";
    assert!(output.stderr.contains(expected), "{output}");
    let output = cli.run(&["policy", "test", "ant.t", "paths=x"]).await;
    assert_eq!(output.code, 0, "{output}");
    assert!(
        output.stdout.contains("note: a call would be rejected: "),
        "{output}"
    );
}
