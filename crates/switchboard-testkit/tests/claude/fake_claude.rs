//! The stand-in for the CLI, seen from a host.

use std::process::Stdio;

use serde_json::{Value, json};
use switchboard_testkit::fake_claude::{FAKE_CLAUDE_TEXT, FakeClaude, FakeStep};
use switchboard_testkit::{Sandbox, read_record};

use crate::lines::Talk;

fn is_result(message: &Value) -> bool {
    message["type"] == "result"
}

fn nothing(request: &Value) -> Value {
    panic!("nothing is asked: {request}")
}

/// The number of a call, as the text of its answer.
fn number(request: &Value) -> Value {
    let message = &request["message"];
    let number = message["params"]["arguments"]["number"].to_string();
    let result = json!({"content": [{"type": "text", "text": number}]});
    json!({"mcp_response": {"jsonrpc": "2.0", "id": message["id"], "result": result}})
}

#[tokio::test]
async fn without_a_script_it_is_polite() {
    let sandbox = Sandbox::new();
    let record = sandbox.root().join("record");
    let mut command = FakeClaude::well_behaved().record(&record).command();
    command.arg("--verbose");
    let mut talk = Talk::start(command);
    talk.say("hello").await;
    talk.ask("1", json!({"subtype": "initialize"})).await;
    talk.ask("2", json!({"subtype": "nonsense"})).await;
    let answers = |id: &'static str| move |message: &Value| message["response"]["request_id"] == id;
    let result = talk.until(nothing, is_result).await;
    assert_eq!(result["result"], FAKE_CLAUDE_TEXT);
    let hello = talk.until(nothing, answers("1")).await;
    assert_eq!(hello["response"]["subtype"], "success");
    let refusal = talk.until(nothing, answers("2")).await;
    assert_eq!(
        refusal["response"]["error"],
        "Unsupported control request subtype: nonsense"
    );
    assert_eq!(talk.finish().await, Some(0));
    let record = read_record(&record);
    assert_eq!(record[0]["started"]["arguments"], json!(["--verbose"]));
    assert_eq!(record[1]["message"]["content"], "hello");
    assert_eq!(record[3]["request"]["subtype"], "nonsense");
}

#[tokio::test]
async fn a_crowd_of_calls_is_checked_one_by_one() {
    let crowd = FakeStep::ConcurrentCalls {
        server: "s".to_owned(),
        tool: "t".to_owned(),
        count: 500,
    };
    let mut talk =
        Talk::start(FakeClaude::new([crowd.clone(), FakeStep::ReportResponse]).command());
    let report = talk.until(number, is_result).await;
    let all = json!({"answered": 500, "own": 500, "left": 0});
    assert_eq!(report["result"], all.to_string());
    talk.finish().await;

    // One who mixes up its answers is found out.
    let mut talk = Talk::start(FakeClaude::new([crowd, FakeStep::ReportResponse]).command());
    let mut is_first = true;
    let mixed = |request: &Value| {
        if std::mem::take(&mut is_first) {
            return json!({"mcp_response": {"jsonrpc": "2.0", "id": 500, "result": {}}});
        }
        number(request)
    };
    let report = talk.until(mixed, is_result).await;
    assert!(report["result"].as_str().unwrap().contains(r#""own":499"#));
}

#[tokio::test]
async fn it_ends_as_it_is_told() {
    let table = [
        (FakeStep::Exit(3), Some(3)),
        (FakeStep::KillSelf(9), None),
        (FakeStep::Silence, Some(0)),
    ];
    for (act, code) in table {
        let mut command = FakeClaude::new([act.clone()]).command();
        let status = command.stdin(Stdio::null()).output().unwrap().status;
        assert_eq!(status.code(), code, "{act:?}");
    }
}

#[tokio::test]
async fn a_line_has_the_size_that_was_asked_for() {
    let script = FakeClaude::new([
        FakeStep::LongLine(100_000),
        FakeStep::raw("{no json"),
        FakeStep::Exit(0),
    ]);
    let mut talk = Talk::start(script.command());
    assert_eq!(talk.next_line().await.unwrap().len(), 100_000);
    assert_eq!(talk.next_line().await.unwrap(), "{no json");
}
