//! Which clients receive a notification. A fake that notified every client would hide missing
//! subscriptions.

use serde_json::{Value, json};
use switchboard_testkit::{MemoryServer, Script, resource};

use crate::client::{LineClient, modern, open};

fn legacy() -> Script {
    Script::legacy()
        .resource("demo://a", "one")
        .resource("demo://b", "two")
        .prompt("greet")
}

fn all_notifications() -> Value {
    json!({
        "toolsListChanged": true,
        "promptsListChanged": true,
        "resourcesListChanged": true,
        "resourceSubscriptions": ["demo://a", "demo://b"],
    })
}

/// Opens a `subscriptions/listen` request. Returns its id and the acknowledged filter.
async fn listen(client: &mut LineClient, filter: &Value) -> (u64, Value) {
    let params = modern(&json!({"notifications": filter}));
    let id = client.request("subscriptions/listen", params).await;
    let acknowledged = client.next().await;
    assert_eq!(
        acknowledged["method"],
        "notifications/subscriptions/acknowledged"
    );
    assert_eq!(
        acknowledged["params"]["_meta"],
        json!({"io.modelcontextprotocol/subscriptionId": id})
    );
    (id, acknowledged["params"]["notifications"].clone())
}

fn modern_server() -> MemoryServer {
    MemoryServer::new(Script {
        era: switchboard_testkit::Era::Modern,
        ..legacy()
    })
}

#[tokio::test(start_paused = true)]
async fn legacy_client_gets_only_subscribed_updates() {
    let server = MemoryServer::new(legacy());
    let mut client = open(&server);
    client.request_result("initialize", json!({})).await;
    let catalog = server.catalog();
    catalog.set_resource("demo://a", "not sent").await;
    let a = json!({"uri": "demo://a"});
    assert_eq!(
        client
            .request_result("resources/subscribe", a.clone())
            .await,
        json!({})
    );
    assert_eq!(catalog.subscribed(), ["demo://a"]);
    catalog.set_resource("demo://b", "not sent").await;
    catalog.set_resource("demo://a", "sent").await;
    assert_eq!(
        client.next().await,
        json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": a})
    );
    client.request_result("resources/unsubscribe", a).await;
    assert!(catalog.subscribed().is_empty());
    catalog.set_resource("demo://a", "not sent").await;
    client.assert_next_is_pong().await;
    assert_eq!(server.count("resources/subscribe"), 1);
    assert_eq!(server.count("resources/unsubscribe demo://a"), 1);
}

#[tokio::test(start_paused = true)]
async fn modern_client_gets_only_requested_notifications() {
    let server = modern_server();
    let mut client = open(&server);
    let filter = json!({"resourceSubscriptions": ["demo://a"]});
    let (id, acknowledged) = listen(&mut client, &filter).await;
    assert_eq!(acknowledged, filter);
    let catalog = server.catalog();
    assert_eq!(catalog.listen_filters(), [filter]);
    assert_eq!(catalog.subscribed(), ["demo://a"]);
    catalog.set_resource("demo://b", "not sent").await;
    catalog.add_resource(resource("demo://c", "not sent")).await;
    catalog.set_resource("demo://a", "sent").await;
    assert_eq!(
        client.next().await,
        json!({
            "jsonrpc": "2.0",
            "method": "notifications/resources/updated",
            "params": {
                "uri": "demo://a",
                "_meta": {"io.modelcontextprotocol/subscriptionId": id},
            },
        })
    );
    client
        .notify("notifications/cancelled", json!({"requestId": id}))
        .await;
    client
        .request_result("resources/list", modern(&json!({})))
        .await;
    assert!(catalog.listen_filters().is_empty());
    let response = client
        .request_result("resources/subscribe", modern(&json!({"uri": "demo://a"})))
        .await;
    assert_eq!(response["error"]["code"], -32601);
}

#[tokio::test(start_paused = true)]
async fn only_declared_notifications_are_acknowledged() {
    let all = all_notifications();
    let without = Script::modern()
        .resource("demo://a", "one")
        .without_subscribe();
    let some = Script::modern()
        .resource("demo://a", "one")
        .accepting_only(json!({"toolsListChanged": true, "resourceSubscriptions": ["demo://b"]}));
    for (script, expected) in [
        (Script::modern(), json!({"toolsListChanged": true})),
        (
            without,
            json!({"toolsListChanged": true, "resourcesListChanged": true}),
        ),
        (
            some,
            json!({"toolsListChanged": true, "resourceSubscriptions": ["demo://b"]}),
        ),
    ] {
        let mut client = open(&MemoryServer::new(script));
        assert_eq!(listen(&mut client, &all).await.1, expected);
    }
}
