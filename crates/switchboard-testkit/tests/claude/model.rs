//! The scripted model by itself.

use serde_json::{Value, json};
use switchboard_testkit::fake_model::{Block, FakeModel, ModelRequest, Turn};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The whole answer to one request, as it comes; empty if the connection ends before.
async fn post(model: &FakeModel, path: &str, body: &Value) -> String {
    let address = model.url().replace("http://", "");
    let mut socket = TcpStream::connect(&address).await.unwrap();
    let body = body.to_string();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    socket.shutdown().await.unwrap();
    let mut answer = String::new();
    let _ = socket.read_to_string(&mut answer).await;
    answer
}

/// A request for a stream.
fn asked(model: &str) -> Value {
    json!({"model": model, "stream": true})
}

/// The events of an answer.
fn events(answer: &str) -> Vec<Value> {
    let data = answer
        .lines()
        .filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

#[tokio::test]
async fn a_message_is_streamed_block_by_block() {
    let input = json!({"a": 1});
    let turn = Turn::blocks([
        Block::text("so"),
        Block::tool("add", input.clone()),
        Block::tool("add", input),
    ]);
    let model = FakeModel::start([turn]).await;
    let answer = post(&model, "/v1/messages?beta=true", &asked("m")).await;
    let events = events(&answer);
    let kinds: Vec<_> = events.iter().map(|event| &event["type"]).collect();
    let block = [
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
    ];
    let mut expected = vec!["message_start"];
    expected.extend([block, block, block].concat());
    expected.extend(["message_delta", "message_stop"]);
    assert_eq!(kinds, expected);
    assert_eq!(events[0]["message"]["model"], "m");
    assert_eq!(events[10]["delta"]["stop_reason"], "tool_use");
    let ids = [4, 7].map(|place: usize| events[place]["content_block"]["id"].clone());
    assert_ne!(ids[0], ids[1]);
    assert!(answer.ends_with("\r\n0\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn refusals_resets_and_the_end_of_the_script() {
    let model = FakeModel::start([Turn::overloaded(), Turn::Reset, Turn::text("fine")]).await;
    let body = asked("m");
    let ask = || post(&model, "/v1/messages", &body);
    assert!(ask().await.starts_with("HTTP/1.1 529 "));
    assert_eq!(ask().await, "");
    assert!(ask().await.starts_with("HTTP/1.1 200 "));
    let over = ask().await;
    assert!(over.starts_with("HTTP/1.1 400 "), "{over}");
    assert!(over.contains("the script of the model is over"), "{over}");
}

#[tokio::test]
async fn without_a_stream_there_is_one_message() {
    let turn = Turn::blocks([Block::text("so"), Block::tool("add", json!({"a": 1}))]);
    let model = FakeModel::start([turn]).await;
    let probe = post(
        &model,
        "/v1/messages",
        &json!({"model": "m", "max_tokens": 1}),
    )
    .await;
    assert!(probe.starts_with("HTTP/1.1 200 "), "{probe}");
    let answer = post(&model, "/v1/messages", &json!({"model": "m"})).await;
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let message: Value = serde_json::from_str(body).unwrap();
    assert_eq!(message["stop_reason"], "tool_use");
    assert_eq!(message["content"][0]["text"], "so");
    assert_eq!(message["content"][1]["input"], json!({"a": 1}));
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn tokens_are_counted_and_other_paths_are_unknown() {
    let model = FakeModel::start([]).await;
    let counted = post(&model, "/v1/messages/count_tokens?beta=true", &json!({})).await;
    assert!(counted.ends_with(r#"{"input_tokens":10}"#), "{counted}");
    let elsewhere = post(&model, "/v1/models", &json!({})).await;
    assert!(elsewhere.starts_with("HTTP/1.1 404 "), "{elsewhere}");
    assert_eq!(model.requests(), []);
}

#[tokio::test]
async fn a_function_of_the_request_may_decide() {
    let echo = |request: &ModelRequest| Turn::text(request.model());
    let model = FakeModel::answering(echo).await;
    let answer = post(&model, "/v1/messages", &asked("small")).await;
    assert_eq!(events(&answer)[2]["delta"]["text"], "small");
}

#[tokio::test]
async fn what_tools_said_is_found_in_the_conversation() {
    let said = json!([{"type": "text", "text": "3"}]);
    let failed =
        json!({"type": "tool_result", "tool_use_id": "u2", "content": "no", "is_error": true});
    let request = ModelRequest {
        body: json!({
            "tools": [{"name": "add"}, {"name": "sub", "description": "takes away"}],
            "system": [{"type": "text", "text": "be brief"}],
            "messages": [
                {"role": "user", "content": "hello"},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "u1", "content": said}]},
                {"role": "user", "content": [failed, {"type": "text", "text": "go on"}]},
            ],
        }),
    };
    assert_eq!(request.tools(), ["add", "sub"]);
    assert_eq!(request.tool("sub").unwrap()["description"], "takes away");
    let results = request.tool_results();
    let told: Vec<_> = results
        .iter()
        .map(|result| (result.id.as_str(), result.text(), result.is_error))
        .collect();
    let expected = [("u1", "3".to_owned(), false), ("u2", "no".to_owned(), true)];
    assert_eq!(told, expected);
    assert_eq!(request.last_tool_result(), results[1]);
    assert_eq!(request.all_text(), "be brief\nhello\n\ngo on");
}
