//! What the HTTP server records, and its back-pressure and idle connections.

use serde_json::json;
use switchboard_testkit::http::{HttpServer, Mode};
use switchboard_testkit::{Script, Step};

use crate::client::HttpClient;

fn script() -> Script {
    Script::modern().tool("echo")
}

#[tokio::test]
async fn requests_are_recorded_verbatim() {
    let server = HttpServer::start(script(), Mode::JSON).await;
    let mut client = HttpClient::open(&server).await.with("X-Secret", "hidden");
    client.request_modern("tools/list", json!({})).await;
    let mut other = HttpClient::open(&server).await;
    other.send("GET /other?a=b", &[], b"").await;
    assert_eq!(other.response().await.unwrap().status, 404);
    let requests = server.requests();
    let lines: Vec<_> = requests
        .iter()
        .map(|request| {
            let (method, path) = (request.method.as_str(), request.path.as_str());
            (method, path, request.connection)
        })
        .collect();
    assert_eq!(lines, [("POST", "/mcp", 1), ("GET", "/other?a=b", 2)]);
    assert_eq!(requests[0].header("x-secret"), Some("hidden"));
    assert_eq!(requests[0].rpc_method().as_deref(), Some("tools/list"));
    let bytes = String::from_utf8(server.received_bytes()).unwrap();
    assert_eq!(bytes.matches("hidden").count(), 1);
}

#[tokio::test]
async fn endless_response_waits_for_reader() {
    let script = script().on("tools/call", [Step::repeated_bytes("x", u64::MAX)]);
    for mode in [Mode::JSON, Mode::SSE] {
        let server = HttpServer::start(script.clone(), mode).await;
        let mut client = HttpClient::open(&server).await;
        client
            .send_modern("tools/call", json!({"name": "echo"}))
            .await;
        assert_eq!(client.head().await.unwrap().status, 200);
        for _ in 0..100 {
            let chunk = client.chunk().await.unwrap().unwrap();
            assert!(chunk.bytes().all(|byte| byte == b'x'));
        }
        drop(client);
        server
            .wait_until("the connection is closed", |server| {
                server.open_connections() == 0
            })
            .await;
    }
}

#[tokio::test]
async fn idle_connections_are_closed() {
    let script = script().on("tools/call", [Step::Hang]);
    let server = HttpServer::start(script, Mode::JSON).await;
    let mut waiting = HttpClient::open(&server).await;
    waiting.request_modern("tools/list", json!({})).await;
    let mut busy = HttpClient::open(&server).await;
    busy.send_modern("tools/call", json!({"name": "echo"}))
        .await;
    server.wait_count("tools/call", 1).await;

    server.close_idle_connections();
    assert!(
        waiting.response().await.is_err(),
        "the connection is closed"
    );
    assert_eq!(server.open_connections(), 2, "the client has not closed it");
    drop(waiting);
    server
        .wait_until("the connection is closed", |server| {
            server.open_connections() == 1
        })
        .await;

    let mut new = HttpClient::open(&server).await;
    let response = new.request_modern("tools/list", json!({})).await;
    assert_eq!(response.status, 200);
    assert!(new.response().await.is_err(), "the connection is closed");
}
