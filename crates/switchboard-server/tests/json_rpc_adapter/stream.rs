//! A server that speaks JSON-RPC over a byte stream.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_server::{JsonRpcAdapter, ServerInstance};
use switchboard_wire::{BoxFuture, ByteStreams, Connector};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::task::JoinSet;

use crate::{
    LIMIT, call_request, cancel_notification, next_message, request, respond, send_request, text_of,
};

/// Capacity of the stream. Smaller than some messages, so that both sides must read while they
/// write.
const PIPE_BYTES: usize = 256;

/// A server that reads JSON-RPC lines. It responds to a request when the work for the request is
/// done, so responses may arrive in any order.
#[derive(Clone, Default)]
pub struct LineServer {
    /// Number of connections so far.
    pub opened: Arc<AtomicUsize>,
    /// All messages to which the server did not respond.
    pub received: Arc<Mutex<Vec<Value>>>,
}

impl LineServer {
    fn received(&self) -> Vec<Value> {
        self.received.lock().unwrap().clone()
    }

    async fn serve(self, ours: DuplexStream, connection: usize) {
        let (reader, mut writer) = tokio::io::split(ours);
        let mut lines = BufReader::new(reader).lines();
        let mut work = JoinSet::new();
        loop {
            let output = tokio::select! {
                line = lines.next_line() => {
                    let Ok(Some(line)) = line else { return };
                    let message: Value = serde_json::from_str(&line).unwrap();
                    match self.handle(&message, connection) {
                        Some(Reply::Now(reply)) => reply,
                        Some(Reply::After(delay, reply)) => {
                            work.spawn(async move {
                                tokio::time::sleep(delay).await;
                                reply
                            });
                            continue;
                        }
                        Some(Reply::Close) => return,
                        None => continue,
                    }
                }
                Some(done) = work.join_next() => done.unwrap(),
            };
            if writer.write_all(output.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    fn handle(&self, message: &Value, connection: usize) -> Option<Reply> {
        let id = &message["id"];
        let text = |text: &str| {
            let result = json!({"content": [{"type": "text", "text": text}]});
            format!(
                "{}\n",
                json!({"jsonrpc": "2.0", "id": id, "result": result})
            )
        };
        let arguments = &message["params"]["arguments"];
        match (
            message["method"].as_str(),
            message["params"]["name"].as_str(),
        ) {
            (Some("initialize"), _) => Some(Reply::Now(text(&format!("connection {connection}")))),
            (Some("tools/call"), Some("wait")) => {
                let millis = arguments["millis"].as_u64().unwrap();
                let delay = Duration::from_millis(millis);
                Some(Reply::After(delay, text(&millis.to_string())))
            }
            (Some("tools/call"), Some("send")) => {
                let lines = arguments["lines"].as_str().unwrap();
                Some(Reply::Now(format!("{lines}\n{}", text("sent"))))
            }
            (Some("tools/call"), Some("close")) => Some(Reply::Close),
            _ => {
                self.received.lock().unwrap().push(message.clone());
                None
            }
        }
    }
}

enum Reply {
    Now(String),
    After(Duration, String),
    Close,
}

impl Connector for LineServer {
    fn connect(&self) -> BoxFuture<'_, io::Result<ByteStreams>> {
        let (theirs, ours) = tokio::io::duplex(PIPE_BYTES);
        let connection = self.opened.fetch_add(1, Ordering::SeqCst) + 1;
        tokio::spawn(self.clone().serve(ours, connection));
        let (reader, writer) = tokio::io::split(theirs);
        Box::pin(std::future::ready(Ok(ByteStreams::new(reader, writer))))
    }
}

/// A connector whose `connect` always fails.
struct UnreachableConnector;

impl Connector for UnreachableConnector {
    fn connect(&self) -> BoxFuture<'_, io::Result<ByteStreams>> {
        Box::pin(std::future::ready(Err(io::Error::other("no route"))))
    }
}

fn connect(
    server: &LineServer,
) -> (
    JsonRpcAdapter,
    tokio::sync::mpsc::Receiver<switchboard_wire::mcp::Json>,
) {
    JsonRpcAdapter::connect(&ServerInstance::stream(server.clone()), LIMIT)
}

/// A tool call that makes the server send `lines` before its response.
fn send_lines(id: u64, lines: &[Value]) -> Value {
    let lines: Vec<_> = lines.iter().map(Value::to_string).collect();
    call_request(id, "send", json!({"lines": lines.join("\n")}))
}

#[tokio::test]
async fn each_initialize_opens_a_connection() {
    let server = LineServer::default();
    let (adapter, _messages) = connect(&server);
    for connection in 1..=3 {
        let result = send_request(&adapter, 0, "initialize", json!({})).await;
        assert_eq!(text_of(&result), format!("connection {connection}"));
    }
    assert_eq!(server.opened.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn reinitialize_keeps_in_flight_requests() {
    let server = LineServer::default();
    let (adapter, _messages) = connect(&server);
    let earlier = adapter.handle(&call_request(0, "wait", json!({"millis": 1})).to_string());
    let result = send_request(&adapter, 0, "initialize", json!({})).await;
    assert_eq!(text_of(&result), "connection 2");
    let response = earlier.await.unwrap().to_value().unwrap();
    assert_eq!(text_of(&response["result"]), "1");
}

#[tokio::test]
async fn unmatched_responses_and_noise_are_ignored() {
    let server = LineServer::default();
    let (adapter, _messages) = connect(&server);
    let mut waiting =
        Box::pin(adapter.handle(&call_request(1, "wait", json!({"millis": 1})).to_string()));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    let noise = [
        json!({"jsonrpc": "2.0", "id": 77, "result": "foreign"}),
        json!({"jsonrpc": "2.0", "id": "1", "result": "another id"}),
        json!("noise"),
        json!({"jsonrpc": "2.0", "id": 2, "result": "early"}),
        json!({"jsonrpc": "2.0", "result": "no id"}),
    ];
    let response = respond(&adapter, &send_lines(2, &noise)).await.unwrap();
    assert_eq!(
        response,
        json!({"jsonrpc": "2.0", "id": 2, "result": "early"})
    );
    let waited = waiting.await.unwrap().to_value().unwrap();
    assert_eq!(text_of(&waited["result"]), "1");
}

#[tokio::test]
async fn id_in_flight_is_rejected() {
    let (adapter, _messages) = connect(&LineServer::default());
    let hanging = adapter.handle(&request(5, "hang", json!({})).to_string());
    assert_eq!(
        send_request(&adapter, 5, "hang", json!({})).await["code"],
        -32600
    );
    drop(hanging);
}

#[tokio::test]
async fn server_requests_are_forwarded_both_ways() {
    let server = LineServer::default();
    let (adapter, mut messages) = connect(&server);
    let own = [
        json!({"jsonrpc": "2.0", "id": "s1", "method": "roots/list"}),
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": 1}}),
    ];
    respond(&adapter, &send_lines(1, &own)).await;
    assert_eq!(next_message(&mut messages).await, own[0]);
    assert_eq!(next_message(&mut messages).await, own[1]);
    let response = json!({"jsonrpc": "2.0", "id": "s1", "result": {"roots": []}});
    assert_eq!(respond(&adapter, &response).await, None);
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(respond(&adapter, &notification).await, None);
    respond(&adapter, &call_request(2, "wait", json!({"millis": 0}))).await;
    assert_eq!(server.received(), [response, notification]);
}

#[tokio::test]
async fn server_request_without_receiver_is_refused() {
    let server = LineServer::default();
    let (adapter, messages) = connect(&server);
    drop(messages);
    let own = json!({"jsonrpc": "2.0", "id": "s1", "method": "roots/list"});
    respond(&adapter, &send_lines(1, &[own])).await;
    while server.received().is_empty() {
        tokio::task::yield_now().await;
    }
    let refusal = &server.received()[0];
    assert_eq!(
        (&refusal["id"], &refusal["error"]["code"]),
        (&json!("s1"), &json!(-32603))
    );
}

#[tokio::test(start_paused = true)]
async fn flood_of_notifications_is_merged_and_blocks_no_call() {
    let (adapter, mut messages) = connect(&LineServer::default());
    let message = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}});
    let change = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    // Send more messages than the channel to the client holds.
    respond(&adapter, &send_lines(1, &vec![message; 1000]))
        .await
        .unwrap();
    respond(&adapter, &send_lines(2, &vec![change.clone(); 1000]))
        .await
        .unwrap();
    let mut changes = 0;
    while let Ok(message) = tokio::time::timeout(LIMIT, next_message(&mut messages)).await {
        changes += usize::from(message == change);
    }
    assert_eq!(changes, 1);
}

#[tokio::test]
async fn cancellation_is_forwarded_once() {
    let server = LineServer::default();
    let (adapter, _messages) = connect(&server);
    let hanging = adapter.handle(&request(3, "hang", json!({})).to_string());
    assert_eq!(respond(&adapter, &cancel_notification(3)).await, None);
    assert_eq!(hanging.await, None);
    send_request(
        &adapter,
        4,
        "tools/call",
        json!({"name": "wait", "arguments": {"millis": 1}}),
    )
    .await;
    assert_eq!(
        server.received(),
        [request(3, "hang", json!({})), cancel_notification(3)]
    );
}

#[tokio::test]
async fn dropped_request_is_cancelled_at_server() {
    let server = LineServer::default();
    let (adapter, _messages) = connect(&server);
    drop(adapter.handle(&request(3, "hang", json!({})).to_string()));
    send_request(
        &adapter,
        4,
        "tools/call",
        json!({"name": "wait", "arguments": {"millis": 1}}),
    )
    .await;
    let received = server.received();
    assert_eq!(received[1]["method"], "notifications/cancelled");
    assert_eq!(received[1]["params"]["requestId"], 3);
}

/// Connects to a stream that no server reads. The test may read it.
struct StalledConnector(Mutex<Option<DuplexStream>>);

impl Connector for StalledConnector {
    fn connect(&self) -> BoxFuture<'_, io::Result<ByteStreams>> {
        let theirs = self.0.lock().unwrap().take().unwrap();
        let (reader, writer) = tokio::io::split(theirs);
        Box::pin(std::future::ready(Ok(ByteStreams::new(reader, writer))))
    }
}

#[tokio::test(start_paused = true)]
async fn full_queue_still_takes_all_cancellations() {
    let (theirs, ours) = tokio::io::duplex(PIPE_BYTES);
    let instance = ServerInstance::stream(StalledConnector(Mutex::new(Some(theirs))));
    let (adapter, _messages) = JsonRpcAdapter::connect(&instance, LIMIT);
    let initialize = request(0, "initialize", json!({}));
    let mut responses = vec![adapter.handle(&initialize.to_string())];
    // Together with `initialize`, these requests fill the write queue.
    let requests = 1023;
    for id in 1..=requests {
        responses.push(adapter.handle(&request(id, "ping", json!({})).to_string()));
    }
    drop(responses);
    let mut lines = BufReader::new(ours).lines();
    let (mut pings, mut cancellations) = (0, Vec::new());
    // The lines are `initialize`, which is never cancelled, the `ping` requests, and a cancellation
    // of each `ping`.
    for _ in 0..=2 * requests {
        let line = lines.next_line();
        let line = tokio::time::timeout(LIMIT, line).await.unwrap();
        let message: Value = serde_json::from_str(&line.unwrap().unwrap()).unwrap();
        match message["method"].as_str().unwrap() {
            "ping" => pings += 1,
            "notifications/cancelled" => cancellations.push(message["params"]["requestId"].clone()),
            other => assert_eq!(other, "initialize"),
        }
    }
    assert_eq!(pings, requests);
    cancellations.sort_by_key(Value::as_u64);
    let all: Vec<_> = (1..=requests).map(Value::from).collect();
    assert_eq!(cancellations, all);
    let nothing = lines.next_line();
    assert!(tokio::time::timeout(LIMIT, nothing).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn silent_server_times_out_and_blocks_nothing() {
    let (adapter, _messages) = connect(&LineServer::default());
    let started_at = tokio::time::Instant::now();
    let hanging = send_request(&adapter, 1, "hang", json!({}));
    let quick = send_request(&adapter, 2, "initialize", json!({}));
    let (hanging, quick) = tokio::join!(hanging, quick);
    assert_eq!(started_at.elapsed(), LIMIT);
    assert_eq!(hanging["code"], -32603);
    assert!(
        hanging["message"]
            .as_str()
            .unwrap()
            .contains("timed out after 60s")
    );
    assert!(text_of(&quick).starts_with("connection"));
}

#[tokio::test]
async fn closed_stream_fails_requests_until_initialize() {
    let (adapter, _messages) = connect(&LineServer::default());
    let hanging = adapter.handle(&request(1, "hang", json!({})).to_string());
    let closed = send_request(&adapter, 2, "tools/call", json!({"name": "close"})).await;
    let hanging = hanging.await.unwrap().to_value().unwrap();
    let later = send_request(&adapter, 3, "tools/call", json!({"name": "wait"})).await;
    for error in [&closed, &hanging["error"], &later] {
        assert_eq!(error["code"], -32603);
        let text = error["message"].as_str().unwrap();
        assert!(
            text.contains("has ended (the server closed it); send `initialize` again"),
            "{text}"
        );
    }
    let result = send_request(&adapter, 0, "initialize", json!({})).await;
    assert_eq!(text_of(&result), "connection 2");
}

#[tokio::test]
async fn connect_error_is_reported() {
    let (adapter, _messages) =
        JsonRpcAdapter::connect(&ServerInstance::stream(UnreachableConnector), LIMIT);
    let error = send_request(&adapter, 0, "initialize", json!({})).await;
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("cannot connect: no route")
    );
}

#[tokio::test]
async fn multi_line_message_arrives_as_one() {
    let (adapter, _messages) = connect(&LineServer::default());
    let pretty = serde_json::to_string_pretty(&request(9, "initialize", json!({}))).unwrap();
    let response = adapter.handle(&pretty).await.unwrap();
    assert_eq!(response.to_value().unwrap()["id"], 9);
}

#[tokio::test]
async fn dropped_adapter_releases_everything() {
    let server = LineServer::default();
    let (adapter, mut messages) = connect(&server);
    let hanging = tokio::spawn(adapter.handle(&request(1, "hang", json!({})).to_string()));
    while server.received().is_empty() {
        tokio::task::yield_now().await;
    }
    drop(adapter);
    assert_eq!(hanging.await.unwrap(), None);
    assert_eq!(messages.recv().await, None);
}
