//! HTTP in the legacy era: sessions, resumed streams and the transport of revision 2024-11-05.

use serde_json::json;
use switchboard_testkit::http::{Fault, HttpServer, Mode, ResponseFormat};
use switchboard_testkit::{Script, Step, resource};

use crate::client::HttpClient;

fn script() -> Script {
    Script::legacy().tool("echo")
}

fn call(message: &str) -> serde_json::Value {
    json!({"name": "echo", "arguments": {"message": message}})
}

#[tokio::test]
async fn session_id_is_required() {
    let server = HttpServer::start(script(), Mode::JSON).await;
    let mut client = HttpClient::open(&server).await;
    assert_eq!(
        client.request_legacy("tools/list", json!({})).await.status,
        400
    );
    let response = client.initialize().await;
    assert_eq!(response.json()["result"]["protocolVersion"], "2025-11-25");
    let response = client.request_legacy("tools/call", call("hi")).await;
    assert_eq!(response.json()["result"]["content"][0]["text"], "hi");
    client.send("DELETE /mcp", &[], b"").await;
    assert_eq!(client.response().await.unwrap().status, 204);
    assert_eq!(
        client.request_legacy("tools/list", json!({})).await.status,
        404
    );
}

#[tokio::test]
async fn cut_stream_resumes_after_last_event() {
    let script = script().on(
        "tools/call",
        [
            Step::notify("notifications/one"),
            Step::notify("notifications/two"),
            Step::text("three"),
        ],
    );
    let mode = Mode::Streamable {
        format: ResponseFormat::Sse,
        session: true,
        get_stream: false,
    };
    let server = HttpServer::start(script, mode).await;
    let mut client = HttpClient::open(&server).await;
    client.initialize().await;
    let message = client.message("tools/call", call("hi"));
    client.send_post("/mcp", &message).await;
    client.head().await.unwrap();
    client.chunk().await.unwrap();
    let one = client.chunk().await.unwrap().unwrap();
    assert!(one.contains("notifications/one"));
    let last = one.split_once("id: ").unwrap().1;
    let last = last.split_once('\n').unwrap().0.to_owned();
    let mut again = client.another().await;
    drop(client);
    again.send_get("/mcp", &[("Last-Event-ID", &last)]).await;
    let events = again.response().await.unwrap().events();
    assert_eq!(events[0]["method"], "notifications/two");
    assert_eq!(events[1]["result"]["content"][0]["text"], "three");
}

#[tokio::test]
async fn notification_cancels_and_disconnect_does_not() {
    let script = script().on(
        "tools/call",
        [Step::DelayMs(1), Step::Hang, Step::text("never")],
    );
    let server = HttpServer::start(script, Mode::SSE).await;
    let mut client = HttpClient::open(&server).await;
    client.initialize().await;
    let message = client.message("tools/call", call("hi"));
    client.send_post("/mcp", &message).await;
    client.head().await.unwrap();
    let primed = client.chunk().await.unwrap().unwrap();
    let last = primed.trim_start_matches("id: ");
    let last = last.split_once('\n').unwrap().0.to_owned();
    let mut other = client.another().await;
    drop(client);
    let mut resumed = other.another().await;
    resumed.send_get("/mcp", &[("Last-Event-ID", &last)]).await;
    resumed.head().await.unwrap();
    resumed.chunk().await.unwrap();
    let params = json!({"requestId": message["id"]});
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    assert_eq!(other.post(&cancel).await.status, 202);
    assert_eq!(resumed.chunk().await.unwrap(), None);
}

/// Opens the notification stream of the client's session on a new connection.
async fn open_notifications(client: &HttpClient) -> HttpClient {
    let mut stream = client.another().await;
    stream.send_get("/mcp", &[]).await;
    stream.head().await.unwrap();
    stream.chunk().await.unwrap();
    stream
}

#[tokio::test]
async fn update_reaches_only_subscribed_session() {
    let server = HttpServer::start(script().resource("demo://a", "one"), Mode::JSON).await;
    let mut first = HttpClient::open(&server).await;
    first.initialize().await;
    let mut second = HttpClient::open(&server).await;
    second.initialize().await;
    let (mut first_stream, mut second_stream) = (
        open_notifications(&first).await,
        open_notifications(&second).await,
    );
    let subscribed = first
        .request_legacy("resources/subscribe", json!({"uri": "demo://a"}))
        .await;
    assert_eq!(subscribed.json()["result"], json!({}));
    let catalog = server.catalog();
    assert_eq!(catalog.subscribed(), ["demo://a"]);
    catalog.set_resource("demo://a", "two").await;
    catalog.add_resource(resource("demo://b", "new")).await;
    assert!(
        first_stream
            .chunk()
            .await
            .unwrap()
            .unwrap()
            .contains("notifications/resources/updated")
    );
    let changed = "notifications/resources/list_changed";
    assert!(
        first_stream
            .chunk()
            .await
            .unwrap()
            .unwrap()
            .contains(changed)
    );
    assert!(
        second_stream
            .chunk()
            .await
            .unwrap()
            .unwrap()
            .contains(changed)
    );
    first.send("DELETE /mcp", &[], b"").await;
    first.response().await.unwrap();
    assert!(catalog.subscribed().is_empty());
    assert_eq!(server.count("resources/subscribe"), 1);
}

/// Opens the event stream of the 2024-11-05 transport and returns the endpoint that it announces.
async fn open_sse(server: &HttpServer) -> (HttpClient, String) {
    let mut stream = HttpClient::open(server).await;
    stream.send_get("/sse", &[]).await;
    assert_eq!(stream.head().await.unwrap().status, 200);
    let endpoint = stream.chunk().await.unwrap().unwrap();
    let path = endpoint.strip_prefix("event: endpoint\ndata: ").unwrap();
    (stream, path.trim_end().to_owned())
}

#[tokio::test]
async fn sse_call_executes_although_post_fails() {
    let server = HttpServer::start(Script::legacy().tool("echo"), Mode::LegacySse).await;
    let (mut stream, path) = open_sse(&server).await;
    server.arm(Fault::close_after_execution().on("tools/call"));
    let mut client = HttpClient::open(&server).await;
    let call = client.message("tools/call", json!({"name": "echo"}));
    client.send_post(&path, &call).await;
    assert!(client.response().await.is_err());
    assert_eq!(server.count("tools/call"), 1);
    assert!(stream.chunk().await.unwrap().unwrap().contains("result"));
}
