//! The servers of this program, as the CLI meets them.

use std::future::{pending, ready};
use std::io;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use switchboard::mcp::{CallToolResult, ErrorObject, Implementation, Json, Tool};
use switchboard::{BoxFuture, ByteStreams, Dial, Instance, LocalCall, LocalNotice, LocalServer};
use tokio::sync::{broadcast, mpsc};

use super::sdk::SdkServers;

const LIMIT: Duration = Duration::from_secs(60);

struct Echo {
    name: &'static str,
    notices: broadcast::Sender<LocalNotice>,
}

impl Echo {
    fn new(name: &'static str) -> Self {
        let notices = broadcast::channel(4).0;
        Self { name, notices }
    }
}

impl LocalServer for Echo {
    fn implementation(&self) -> Implementation {
        Implementation::new(self.name, "1.0")
    }

    fn tools(&self) -> Vec<Tool> {
        let any = Json::from(&json!({"type": "object"}));
        vec![Tool::new("who", any.clone()), Tool::new("hang", any)]
    }

    fn call<'a>(
        &'a self,
        call: LocalCall<'a>,
    ) -> BoxFuture<'a, Result<CallToolResult, ErrorObject>> {
        match call.tool {
            "who" => Box::pin(ready(Ok(CallToolResult::text(self.name)))),
            _ => Box::pin(pending()),
        }
    }

    fn notices(&self) -> Option<broadcast::Receiver<LocalNotice>> {
        Some(self.notices.subscribe())
    }
}

/// Opens, and is silent.
struct Silent;

impl Dial for Silent {
    fn dial(&self) -> BoxFuture<'_, io::Result<ByteStreams>> {
        Box::pin(pending())
    }
}

fn two() -> (SdkServers, mpsc::Receiver<(String, Json)>) {
    let servers = vec![
        ("my srv.v1.0".to_owned(), Instance::from(Echo::new("one"))),
        ("two".to_owned(), Instance::from(Echo::new("two"))),
    ];
    SdkServers::new(servers, LIMIT)
}

fn raw(message: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(message).unwrap()
}

fn call(tool: &str) -> Box<RawValue> {
    raw(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool}}))
}

async fn answer(servers: &SdkServers, server: &str, message: &RawValue) -> Value {
    servers.message(server, message).await.to_value().unwrap()
}

fn bare_result() -> Value {
    json!({"jsonrpc": "2.0", "result": {}})
}

#[tokio::test]
async fn a_message_goes_to_the_server_that_was_declared_by_that_name() {
    let (servers, _said) = two();
    assert_eq!(servers.names(), ["my srv.v1.0", "two"]);
    for (name, who) in [("my srv.v1.0", "one"), ("two", "two")] {
        let answer = answer(&servers, name, &call("who")).await;
        assert_eq!(answer["id"], 2);
        assert_eq!(answer["result"]["content"][0]["text"], who);
    }
}

#[tokio::test]
async fn everything_is_acknowledged() {
    let (servers, _said) = two();
    for message in [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}),
        json!({"jsonrpc": "2.0", "id": "s1", "result": {}}),
    ] {
        for server in ["two", "nobody"] {
            assert_eq!(
                answer(&servers, server, &raw(&message)).await,
                bare_result()
            );
        }
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_to_whoever_asks_it() {
    let (servers, _said) = two();
    let answer = answer(&servers, "x", &call("who")).await;
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&json!(2), &json!(-32601))
    );
    let text = answer["error"]["message"].as_str().unwrap();
    assert!(text.starts_with("Server 'x' not found"), "{text}");
}

#[tokio::test]
async fn a_cancelled_call_ends_in_order_of_the_messages() {
    let (servers, _said) = two();
    let hanging = servers.message("two", &call("hang"));
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
    assert_eq!(answer(&servers, "two", &raw(&cancel)).await, bare_result());
    assert_eq!(hanging.await.to_value().unwrap(), bare_result());
}

#[tokio::test(start_paused = true)]
async fn manifests_say_what_the_cli_would_ask_and_leave_out_who_is_slow() {
    let servers = vec![
        ("echo".to_owned(), Instance::from(Echo::new("echo"))),
        ("silent".to_owned(), Instance::stream(Silent)),
    ];
    let (servers, _said) = SdkServers::new(servers, LIMIT);
    let any = json!({"type": "object"});
    assert_eq!(
        Value::Object(servers.manifests().await),
        json!({"echo": {
            "initializeResult": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "echo", "version": "1.0"},
            },
            "toolsListResult": {"tools": [
                {"name": "who", "inputSchema": any},
                {"name": "hang", "inputSchema": any},
            ]},
        }})
    );
    // The CLI begins to count where it would be after asking.
    assert_eq!(answer(&servers, "echo", &call("who")).await["id"], 2);
}

#[tokio::test]
async fn what_a_server_says_by_itself_bears_its_name() {
    let echo = Echo::new("echo");
    let notices = echo.notices.clone();
    let (_servers, mut said) = SdkServers::new(vec![("e".to_owned(), echo.into())], LIMIT);
    let _ = notices.send(LocalNotice::ToolsChanged);
    let (name, message) = said.recv().await.unwrap();
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    assert_eq!((name.as_str(), message.to_value().unwrap()), ("e", changed));
}

#[tokio::test]
async fn servers_that_stay_keep_what_is_under_way_and_others_say_that_it_is_over() {
    let stays = Instance::from(Echo::new("stays"));
    let goes = Instance::from(Echo::new("goes"));
    let declared = vec![("a".to_owned(), stays.clone()), ("b".to_owned(), goes)];
    let (servers, _said) = SdkServers::new(declared, LIMIT);
    let mut kept = Box::pin(servers.message("a", &call("hang")));
    let dropped = servers.message("b", &call("hang"));
    let new = Instance::from(Echo::new("new"));
    servers.replace(vec![("a".to_owned(), stays), ("c".to_owned(), new)]);
    assert_eq!(servers.names(), ["a", "c"]);
    let dropped = dropped.await.to_value().unwrap();
    assert_eq!(dropped["id"], 2);
    let why = dropped["error"]["message"].as_str().unwrap();
    assert!(why.contains("was replaced or closed"), "{why}");
    assert!(futures_util::poll!(&mut kept).is_pending());
    let answer = answer(&servers, "c", &call("who")).await;
    assert_eq!(answer["result"]["content"][0]["text"], "new");
}

#[tokio::test]
async fn tools_that_are_to_be_seen_from_the_beginning_say_so() {
    let declared = ["eager", "other"].map(|name| (name.to_owned(), Echo::new(name).into()));
    let (servers, _said) = SdkServers::new(declared.into(), LIMIT);
    let servers = servers.loading(["eager".to_owned()]);
    let manifests = Value::Object(servers.manifests().await);
    let list = raw(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
    for (name, expected) in [
        ("eager", json!({"anthropic/alwaysLoad": true})),
        ("other", json!(null)),
    ] {
        let listed = answer(&servers, name, &list).await;
        assert_eq!(listed["id"], 1);
        assert_eq!(listed["result"]["tools"][1]["_meta"], expected);
        let manifest = &manifests[name]["toolsListResult"];
        assert_eq!(manifest["tools"][1]["_meta"], expected);
    }
}
