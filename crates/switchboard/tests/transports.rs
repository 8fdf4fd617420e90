//! Transports that carry messages: those of the embedding program, and servers of a host offered as
//! transports. Raw requests.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

mod common;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Calculator, InMemory, host_with, permissive};
use serde_json::{Map, Value, json};
use switchboard::call::Delivery;
use switchboard::mcp::Json;
use switchboard::query::QueryError;
use switchboard::status::ConnectionStatus;
use switchboard::transport::{BoxFuture, Transport};
use switchboard::{CallError, Host, Readiness};
use switchboard_testkit::{MemoryServer, Script, Step};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, Lines};

/// What goes wrong when a message with this text is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendFault {
    /// The send fails when it is first polled.
    AtOnce,
    /// The send fails later, before the message was sent.
    Later,
    Panics,
}

type Reader = Lines<BufReader<Box<dyn AsyncRead + Send + Unpin>>>;
type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// A transport to a scripted server that runs in the test process.
#[derive(Clone)]
struct ScriptedTransport(Arc<TransportState>);

struct TransportState {
    server: MemoryServer,
    reader: tokio::sync::Mutex<Option<Reader>>,
    writer: tokio::sync::Mutex<Option<Writer>>,
    is_connected: AtomicBool,
    /// Fails sends of messages that contain this text.
    fault: Mutex<Option<(&'static str, SendFault)>>,
    /// The calls of `connect` and `close`.
    log: Mutex<Vec<&'static str>>,
}

impl ScriptedTransport {
    fn new(script: Script) -> Self {
        Self(Arc::new(TransportState {
            server: MemoryServer::new(script),
            reader: tokio::sync::Mutex::default(),
            writer: tokio::sync::Mutex::default(),
            is_connected: AtomicBool::new(false),
            fault: Mutex::default(),
            log: Mutex::default(),
        }))
    }

    fn arm(&self, text: &'static str, fault: SendFault) {
        *self.0.fault.lock().unwrap() = Some((text, fault));
    }

    fn log(&self) -> Vec<&'static str> {
        self.0.log.lock().unwrap().clone()
    }

    fn fault_of(&self, message: &Json) -> Option<SendFault> {
        let fault = *self.0.fault.lock().unwrap();
        let (text, fault) = fault?;
        message.as_str().contains(text).then_some(fault)
    }
}

impl Transport for ScriptedTransport {
    fn connect(&self) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async {
            self.0.log.lock().unwrap().push("connect");
            let (reader, writer) = self.0.server.open();
            let reader: Box<dyn AsyncRead + Send + Unpin> = Box::new(reader);
            *self.0.reader.lock().await = Some(BufReader::new(reader).lines());
            *self.0.writer.lock().await = Some(Box::new(writer));
            self.0.is_connected.store(true, Ordering::Relaxed);
            Ok(())
        })
    }

    fn send(&self, message: Json) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async move {
            match self.fault_of(&message) {
                None => {}
                Some(SendFault::AtOnce) => return Err(io::Error::other("refused")),
                Some(SendFault::Later) => {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    return Err(io::Error::other("broken"));
                }
                Some(SendFault::Panics) => panic!("no signal"),
            }
            let mut writer = self.0.writer.lock().await;
            let writer = writer.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            writer.write_all(message.as_str().as_bytes()).await?;
            writer.write_all(b"\n").await
        })
    }

    fn receive(&self) -> BoxFuture<'_, io::Result<Option<Json>>> {
        Box::pin(async {
            let mut reader = self.0.reader.lock().await;
            let reader = reader.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            let line = reader.next_line().await?;
            // Pretty-printed, so that the message has line breaks.
            let pretty = |line: String| {
                let value: Value = serde_json::from_str(&line)?;
                Json::parse(&serde_json::to_string_pretty(&value)?)
            };
            Ok(line.map(pretty).transpose()?)
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.0.is_connected.store(false, Ordering::Relaxed);
            *self.0.writer.lock().await = None;
            self.0.log.lock().unwrap().push("close");
        })
    }

    fn is_connected(&self) -> bool {
        self.0.is_connected.load(Ordering::Relaxed)
    }
}

fn script() -> Script {
    Script::legacy()
        .tool("echo")
        .tool("work")
        .on("tools/call echo", [Step::text("hi")])
        .on("tools/call work", [Step::text("done")])
}

async fn start(transport: ScriptedTransport) -> Host {
    let host = permissive().transport("s", transport).start().unwrap();
    host.wait_for(Readiness::All).await;
    host
}

async fn call(host: &Host, tool: &str) -> Result<String, CallError> {
    let call = host.call(format!("mcp__s__{tool}"), json!({"message": "m"}));
    Ok(call.await?.to_text())
}

#[tokio::test(start_paused = true)]
async fn custom_transport_carries_calls_in_both_eras() {
    for script in [
        script(),
        Script::modern()
            .tool("echo")
            .on("tools/call echo", [Step::text("hi")]),
    ] {
        let transport = ScriptedTransport::new(script);
        let host = start(transport.clone()).await;
        assert_eq!(call(&host, "echo").await.unwrap(), "hi");
        let calls = (0..50).map(|_| call(&host, "echo"));
        for outcome in futures_util::future::join_all(calls).await {
            assert_eq!(outcome.unwrap(), "hi");
        }
        host.shutdown().await;
        assert_eq!(transport.log(), ["connect", "close"]);
        assert!(!transport.is_connected());
    }
}

#[tokio::test(start_paused = true)]
async fn message_that_was_refused_at_once_is_not_sent() {
    let transport = ScriptedTransport::new(script());
    let host = start(transport.clone()).await;
    transport.arm("\"work\"", SendFault::AtOnce);
    let error = call(&host, "work").await.unwrap_err();
    assert_eq!(error.delivery(), Delivery::NotSent, "{error}");
    assert_eq!(transport.0.server.count("tools/call work"), 0);
}

#[tokio::test(start_paused = true)]
async fn call_on_disconnected_transport_is_not_sent() {
    let transport = ScriptedTransport::new(script());
    let host = start(transport.clone()).await;
    transport.0.is_connected.store(false, Ordering::Relaxed);
    let error = call(&host, "work").await.unwrap_err();
    assert_eq!(error.delivery(), Delivery::NotSent, "{error}");
    while host.server_status("s").unwrap().status != ConnectionStatus::Connected {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(call(&host, "work").await.unwrap(), "done");
    assert_eq!(transport.0.server.count("tools/call work"), 1);
    assert_eq!(transport.log(), ["connect", "close", "connect"]);
}

#[tokio::test(start_paused = true)]
async fn message_whose_send_failed_later_has_unknown_outcome() {
    let transport = ScriptedTransport::new(script());
    let host = start(transport.clone()).await;
    transport.arm("\"work\"", SendFault::Later);
    let error = call(&host, "work").await.unwrap_err();
    assert_eq!(error.delivery(), Delivery::Unknown, "{error}");
}

#[tokio::test(start_paused = true)]
async fn transport_is_closed_before_it_connects_again() {
    let transport = ScriptedTransport::new(script());
    let host = start(transport.clone()).await;
    transport.0.server.kill();
    let mut events = host.events();
    while transport.0.server.opened() < 2 {
        events.next().await;
    }
    host.wait_for(Readiness::All).await;
    assert_eq!(call(&host, "echo").await.unwrap(), "hi");
    assert_eq!(transport.log(), ["connect", "close", "connect"]);
}

#[tokio::test(start_paused = true)]
async fn panic_of_transport_fails_only_its_server() {
    let transport = ScriptedTransport::new(script());
    let host = permissive()
        .transport("s", transport.clone())
        .in_process_server("calculator", Calculator)
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    transport.arm("\"work\"", SendFault::Panics);
    let error = call(&host, "work").await.unwrap_err();
    assert!(error.to_string().contains("no signal"), "{error}");
    let sum = host
        .call("mcp__calculator__add", json!({"a": 1, "b": 2}))
        .await;
    assert_eq!(sum.unwrap().to_text(), "3");
}

#[tokio::test(start_paused = true)]
async fn raw_request_returns_the_result_of_the_server() {
    for script in [Script::legacy(), Script::modern()] {
        let result = json!({"skills": [{"name": "pdf"}], "n": 1});
        let (host, server) =
            host_with(script.on("skills/list", [Step::Reply(result.clone())])).await;
        let params = Map::from_iter([("query".to_owned(), json!("p"))]);
        let received = host.request("s", "skills/list", params).await.unwrap();
        assert_eq!(received.to_value().unwrap(), result);
        assert_eq!(
            server.received_with("skills/list")[0]["params"]["query"],
            "p"
        );
        let unknown = host.request("s", "no/such", Map::new()).await;
        let Err(QueryError::ErrorResponse { error, .. }) = unknown else {
            panic!("{unknown:?}");
        };
        assert_eq!(error.code, -32601);
    }
}

#[tokio::test(start_paused = true)]
async fn raw_request_is_refused_for_methods_with_checks_or_state() {
    let (host, server) = host_with(script()).await;
    for method in [
        "tools/call",
        "initialize",
        "server/discover",
        "resources/subscribe",
        "notifications/cancelled",
    ] {
        let before = server.received().len();
        let error = host.request("s", method, Map::new()).await.unwrap_err();
        assert!(matches!(error, QueryError::NotRaw { .. }), "{error}");
        assert_eq!(server.received().len(), before, "{method}");
    }
    let denied = Host::builder()
        .deny("mcp__s")
        .connector("s", InMemory(server.clone()))
        .start()
        .unwrap();
    denied.wait_for(Readiness::All).await;
    let error = denied.request("s", "tools/list", Map::new()).await;
    assert!(matches!(error, Err(QueryError::Denied { .. })), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn raw_request_is_sent_once() {
    let script = Script::legacy().on("work/start", [Step::Abort]);
    let (host, server) = host_with(script).await;
    let error = host.request("s", "work/start", Map::new()).await;
    assert!(
        matches!(error, Err(QueryError::ConnectionLost { .. })),
        "{error:?}"
    );
    assert_eq!(server.received_with("work/start").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn server_of_a_host_is_a_transport_for_another_host() {
    let denied = "mcp__s__work";
    let server = MemoryServer::new(script().resource("demo://x", "text"));
    let inner = permissive()
        .deny(denied)
        .connector("s", InMemory(server.clone()))
        .start()
        .unwrap();
    inner.wait_for(Readiness::All).await;
    let outer = permissive()
        .transport("s", inner.transport("s").unwrap())
        .start()
        .unwrap();
    outer.wait_for(Readiness::All).await;
    assert_eq!(
        outer.server_status("s").unwrap().status,
        ConnectionStatus::Connected
    );
    assert_eq!(call(&outer, "echo").await.unwrap(), "hi");
    let read = outer.read_resource_raw("s", "demo://x").await.unwrap();
    assert_eq!(read.contents[0].text.as_deref(), Some("text"));
    let error = call(&outer, "work").await.unwrap_err().to_string();
    assert!(error.contains("denied"), "{error}");
    assert_eq!(server.count("tools/call work"), 0);
    outer.shutdown().await;
    assert_eq!(call(&inner, "echo").await.unwrap(), "hi");
    assert_eq!(server.opened(), 1);
}

#[tokio::test(start_paused = true)]
async fn modern_and_in_process_servers_are_transports() {
    let script = Script::modern()
        .tool("echo")
        .on("tools/call echo", [Step::text("hi")]);
    let inner = permissive()
        .connector("s", InMemory(MemoryServer::new(script)))
        .in_process_server("calculator", Calculator)
        .start()
        .unwrap();
    inner.wait_for(Readiness::All).await;
    let outer = permissive()
        .transport("s", inner.transport("s").unwrap())
        .transport("calculator", inner.transport("calculator").unwrap())
        .start()
        .unwrap();
    outer.wait_for(Readiness::All).await;
    assert_eq!(call(&outer, "echo").await.unwrap(), "hi");
    let sum = outer.call("mcp__calculator__add", json!({"a": 1, "b": 2}));
    assert_eq!(sum.await.unwrap().to_text(), "3");
}

#[tokio::test(start_paused = true)]
async fn closed_server_transport_ends_its_requests_and_can_connect_again() {
    let (host, server) = host_with(script().on("slow", [Step::Hang])).await;
    let transport = host.transport("s").unwrap();
    let message =
        |id: u64, method: &str| Json::from(&json!({"jsonrpc": "2.0", "id": id, "method": method}));
    let error = transport.send(message(1, "ping")).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotConnected);
    transport.connect().await.unwrap();
    transport.send(message(2, "slow")).await.unwrap();
    server.wait_received("slow", 1).await;
    transport.close().await;
    assert!(!transport.is_connected());
    assert_eq!(transport.receive().await.unwrap(), None);
    transport.connect().await.unwrap();
    transport.send(message(3, "ping")).await.unwrap();
    let response = transport.receive().await.unwrap().unwrap();
    let expected = json!({"jsonrpc": "2.0", "id": 3, "result": {}});
    assert_eq!(response.to_value().unwrap(), expected);
    server.wait_received("notifications/cancelled", 1).await;
}
