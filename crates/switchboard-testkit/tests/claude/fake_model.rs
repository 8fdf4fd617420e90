//! Error responses and connection failures of the fake model.

use serde_json::{Value, json};
use switchboard_testkit::fake_model::{FakeModel, Turn};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Posts `body` and returns the raw response; empty if the connection ends before a response.
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
    let mut response = String::new();
    let _ = socket.read_to_string(&mut response).await;
    response
}

#[tokio::test]
async fn errors_and_resets_reach_client() {
    let model = FakeModel::start([Turn::overloaded(), Turn::Reset, Turn::text("fine")]).await;
    let body = json!({"model": "m", "stream": true});
    let ask = || post(&model, "/v1/messages", &body);
    assert!(ask().await.starts_with("HTTP/1.1 529 "));
    assert_eq!(ask().await, "");
    assert!(ask().await.starts_with("HTTP/1.1 200 "));
    let missing = ask().await;
    assert!(missing.starts_with("HTTP/1.1 400 "), "{missing}");
    assert!(missing.contains("the model has no turn left"), "{missing}");
}
