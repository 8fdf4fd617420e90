//! The protocol, spoken to a server that speaks it itself.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard::inprocess::{Adapter, ByteStreams, Connector, ServerInstance};
use switchboard::interaction::BoxFuture;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::task::JoinSet;

use crate::{LIMIT, answer, ask, call, cancelled, heard, request, text_of};

/// Less than a message, so that both sides have to read while they write.
const PIPE: usize = 256;

/// A server that reads lines and answers them when it is done, in whatever order that is.
#[derive(Clone, Default)]
pub struct Lines {
    /// How many connections were made.
    pub opened: Arc<AtomicUsize>,
    /// All that it was told and did not answer.
    pub told: Arc<Mutex<Vec<Value>>>,
}

impl Lines {
    fn told(&self) -> Vec<Value> {
        self.told.lock().unwrap().clone()
    }

    async fn serve(self, ours: DuplexStream, connection: usize) {
        let (reader, mut writer) = tokio::io::split(ours);
        let mut lines = BufReader::new(reader).lines();
        let mut work = JoinSet::new();
        loop {
            let said = tokio::select! {
                line = lines.next_line() => {
                    let Ok(Some(line)) = line else { return };
                    let message: Value = serde_json::from_str(&line).unwrap();
                    match self.take(&message, connection) {
                        Some(Reply::Now(reply)) => reply,
                        Some(Reply::After(delay, reply)) => {
                            work.spawn(async move {
                                tokio::time::sleep(delay).await;
                                reply
                            });
                            continue;
                        }
                        Some(Reply::Leave) => return,
                        None => continue,
                    }
                }
                Some(done) = work.join_next() => done.unwrap(),
            };
            if writer.write_all(said.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    fn take(&self, message: &Value, connection: usize) -> Option<Reply> {
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
            (Some("tools/call"), Some("say")) => {
                let said = arguments["lines"].as_str().unwrap();
                Some(Reply::Now(format!("{said}\n{}", text("said"))))
            }
            (Some("tools/call"), Some("leave")) => Some(Reply::Leave),
            _ => {
                self.told.lock().unwrap().push(message.clone());
                None
            }
        }
    }
}

enum Reply {
    Now(String),
    After(Duration, String),
    Leave,
}

impl Connector for Lines {
    fn connect(&self) -> BoxFuture<'_, io::Result<ByteStreams>> {
        let (theirs, ours) = tokio::io::duplex(PIPE);
        let connection = self.opened.fetch_add(1, Ordering::SeqCst) + 1;
        tokio::spawn(self.clone().serve(ours, connection));
        let (reader, writer) = tokio::io::split(theirs);
        Box::pin(std::future::ready(Ok(ByteStreams::new(reader, writer))))
    }
}

/// Cannot be reached.
struct Nowhere;

impl Connector for Nowhere {
    fn connect(&self) -> BoxFuture<'_, io::Result<ByteStreams>> {
        Box::pin(std::future::ready(Err(io::Error::other("no route"))))
    }
}

fn connect(server: &Lines) -> (Adapter, tokio::sync::mpsc::Receiver<switchboard::mcp::Json>) {
    Adapter::connect(&ServerInstance::stream(server.clone()), LIMIT)
}

fn say(id: u64, lines: &[Value]) -> Value {
    let lines: Vec<_> = lines.iter().map(Value::to_string).collect();
    call(id, "say", json!({"lines": lines.join("\n")}))
}

#[tokio::test]
async fn every_hello_has_a_connection_of_its_own() {
    let server = Lines::default();
    let (adapter, _said) = connect(&server);
    for connection in 1..=3 {
        let hello = ask(&adapter, 0, "initialize", json!({})).await;
        assert_eq!(text_of(&hello), format!("connection {connection}"));
    }
    assert_eq!(server.opened.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn what_is_under_way_when_another_hello_comes_is_answered_all_the_same() {
    let server = Lines::default();
    let (adapter, _said) = connect(&server);
    let earlier = adapter.handle(&call(0, "wait", json!({"millis": 1})).to_string());
    let hello = ask(&adapter, 0, "initialize", json!({})).await;
    assert_eq!(text_of(&hello), "connection 2");
    let answered = earlier.await.unwrap().to_value().unwrap();
    assert_eq!(text_of(&answered["result"]), "1");
}

#[tokio::test]
async fn foreign_late_and_double_answers_and_noise_change_nothing() {
    let server = Lines::default();
    let (adapter, _said) = connect(&server);
    let mut waiting = Box::pin(adapter.handle(&call(1, "wait", json!({"millis": 1})).to_string()));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    let noise = [
        json!({"jsonrpc": "2.0", "id": 77, "result": "foreign"}),
        json!({"jsonrpc": "2.0", "id": "1", "result": "another id"}),
        json!("noise"),
        json!({"jsonrpc": "2.0", "id": 2, "result": "early"}),
        json!({"jsonrpc": "2.0", "result": "for nobody"}),
    ];
    let said = answer(&adapter, &say(2, &noise)).await.unwrap();
    assert_eq!(said, json!({"jsonrpc": "2.0", "id": 2, "result": "early"}));
    let waited = waiting.await.unwrap().to_value().unwrap();
    assert_eq!(text_of(&waited["result"]), "1");
}

#[tokio::test]
async fn an_id_that_is_under_way_is_refused() {
    let (adapter, _said) = connect(&Lines::default());
    let hanging = adapter.handle(&request(5, "hang", json!({})).to_string());
    assert_eq!(ask(&adapter, 5, "hang", json!({})).await["code"], -32600);
    drop(hanging);
}

#[tokio::test]
async fn what_the_server_says_by_itself_goes_to_the_receiver_and_responses_go_back() {
    let server = Lines::default();
    let (adapter, mut said) = connect(&server);
    let own = [
        json!({"jsonrpc": "2.0", "id": "s1", "method": "roots/list"}),
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": 1}}),
    ];
    answer(&adapter, &say(1, &own)).await;
    assert_eq!(heard(&mut said).await, own[0]);
    assert_eq!(heard(&mut said).await, own[1]);
    let response = json!({"jsonrpc": "2.0", "id": "s1", "result": {"roots": []}});
    assert_eq!(answer(&adapter, &response).await, None);
    let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(answer(&adapter, &note).await, None);
    answer(&adapter, &call(2, "wait", json!({"millis": 0}))).await;
    assert_eq!(server.told(), [response, note]);
}

#[tokio::test]
async fn a_request_of_the_server_that_nobody_can_answer_is_refused() {
    let server = Lines::default();
    let (adapter, said) = connect(&server);
    drop(said);
    let own = json!({"jsonrpc": "2.0", "id": "s1", "method": "roots/list"});
    answer(&adapter, &say(1, &[own])).await;
    while server.told().is_empty() {
        tokio::task::yield_now().await;
    }
    let refusal = &server.told()[0];
    assert_eq!(
        (&refusal["id"], &refusal["error"]["code"]),
        (&json!("s1"), &json!(-32603))
    );
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_the_servers_own_blocks_no_call_and_its_changes_are_one() {
    let (adapter, mut said) = connect(&Lines::default());
    let message = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {}});
    let change = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    // More than may wait.
    answer(&adapter, &say(1, &vec![message; 1000]))
        .await
        .unwrap();
    answer(&adapter, &say(2, &vec![change.clone(); 1000]))
        .await
        .unwrap();
    let mut changes = 0;
    while let Ok(message) = tokio::time::timeout(LIMIT, heard(&mut said)).await {
        changes += usize::from(message == change);
    }
    assert_eq!(changes, 1);
}

#[tokio::test]
async fn a_cancelled_request_is_not_answered_and_the_server_is_told_once() {
    let server = Lines::default();
    let (adapter, _said) = connect(&server);
    let hanging = adapter.handle(&request(3, "hang", json!({})).to_string());
    assert_eq!(answer(&adapter, &cancelled(3)).await, None);
    assert_eq!(hanging.await, None);
    ask(
        &adapter,
        4,
        "tools/call",
        json!({"name": "wait", "arguments": {"millis": 1}}),
    )
    .await;
    assert_eq!(server.told(), [request(3, "hang", json!({})), cancelled(3)]);
}

#[tokio::test]
async fn a_server_is_told_that_nobody_waits_any_more() {
    let server = Lines::default();
    let (adapter, _said) = connect(&server);
    drop(adapter.handle(&request(3, "hang", json!({})).to_string()));
    ask(
        &adapter,
        4,
        "tools/call",
        json!({"name": "wait", "arguments": {"millis": 1}}),
    )
    .await;
    let told = server.told();
    assert_eq!(told[1]["method"], "notifications/cancelled");
    assert_eq!(told[1]["params"]["requestId"], 3);
}

/// Waits to be read from, until the test does.
struct Deaf(Mutex<Option<DuplexStream>>);

impl Connector for Deaf {
    fn connect(&self) -> BoxFuture<'_, io::Result<ByteStreams>> {
        let theirs = self.0.lock().unwrap().take().unwrap();
        let (reader, writer) = tokio::io::split(theirs);
        Box::pin(std::future::ready(Ok(ByteStreams::new(reader, writer))))
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_slow_to_read_hears_of_every_cancellation_but_the_hellos() {
    let (theirs, ours) = tokio::io::duplex(PIPE);
    let instance = ServerInstance::stream(Deaf(Mutex::new(Some(theirs))));
    let (adapter, _said) = Adapter::connect(&instance, LIMIT);
    let hello = request(0, "initialize", json!({}));
    let mut asked = vec![adapter.handle(&hello.to_string())];
    // One less than may wait: all have their place, and little is left for what comes then.
    let requests = 1023;
    for id in 1..=requests {
        asked.push(adapter.handle(&request(id, "ping", json!({})).to_string()));
    }
    drop(asked);
    let mut lines = BufReader::new(ours).lines();
    let (mut pings, mut cancellations) = (0, Vec::new());
    // The hello, and two lines of each request.
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
    let silence = lines.next_line();
    assert!(tokio::time::timeout(LIMIT, silence).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_blocks_nobody_and_costs_the_time_limit() {
    let (adapter, _said) = connect(&Lines::default());
    let began = tokio::time::Instant::now();
    let hanging = ask(&adapter, 1, "hang", json!({}));
    let quick = ask(&adapter, 2, "initialize", json!({}));
    let (hanging, quick) = tokio::join!(hanging, quick);
    assert_eq!(began.elapsed(), LIMIT);
    assert_eq!(hanging["code"], -32603);
    assert!(hanging["message"].as_str().unwrap().contains("within 60s"));
    assert!(text_of(&quick).starts_with("connection"));
}

#[tokio::test]
async fn when_the_stream_ends_all_is_failed_until_another_hello() {
    let (adapter, _said) = connect(&Lines::default());
    let hanging = adapter.handle(&request(1, "hang", json!({})).to_string());
    let left = ask(&adapter, 2, "tools/call", json!({"name": "leave"})).await;
    let hanging = hanging.await.unwrap().to_value().unwrap();
    let later = ask(&adapter, 3, "tools/call", json!({"name": "wait"})).await;
    for error in [&left, &hanging["error"], &later] {
        assert_eq!(error["code"], -32603);
        let text = error["message"].as_str().unwrap();
        assert!(
            text.contains("has ended (the server closed it): initialize it again"),
            "{text}"
        );
    }
    let hello = ask(&adapter, 0, "initialize", json!({})).await;
    assert_eq!(text_of(&hello), "connection 2");
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_says_why() {
    let (adapter, _said) = Adapter::connect(&ServerInstance::stream(Nowhere), LIMIT);
    let error = ask(&adapter, 0, "initialize", json!({})).await;
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("could not be opened: no route")
    );
}

#[tokio::test]
async fn a_message_over_several_lines_arrives_as_one() {
    let (adapter, _said) = connect(&Lines::default());
    let pretty = serde_json::to_string_pretty(&request(9, "initialize", json!({}))).unwrap();
    let answer = adapter.handle(&pretty).await.unwrap();
    assert_eq!(answer.to_value().unwrap()["id"], 9);
}

#[tokio::test]
async fn nothing_outlives_the_adapter() {
    let server = Lines::default();
    let (adapter, mut said) = connect(&server);
    let hanging = tokio::spawn(adapter.handle(&request(1, "hang", json!({})).to_string()));
    while server.told().is_empty() {
        tokio::task::yield_now().await;
    }
    drop(adapter);
    assert_eq!(hanging.await.unwrap(), None);
    assert_eq!(said.recv().await, None);
}
