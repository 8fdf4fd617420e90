//! What a server that is called directly says by itself.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard::inprocess::{Adapter, ServerNotification};

use crate::server::Workshop;
use crate::{LIMIT, ask, heard};

fn changed(what: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": format!("notifications/{what}/list_changed")})
}

#[tokio::test]
async fn changes_are_told_and_updates_only_to_those_who_subscribed() {
    let server = Workshop::new();
    let (adapter, mut said) = Adapter::connect(&server.instance(), LIMIT);
    let uri = json!({"uri": "shop://a"});
    assert_eq!(
        ask(&adapter, 1, "resources/subscribe", uri.clone()).await,
        json!({})
    );
    let _ = server
        .notices
        .send(ServerNotification::ResourceUpdated("shop://b".into()));
    let _ = server
        .notices
        .send(ServerNotification::ResourceUpdated("shop://a".into()));
    assert_eq!(
        heard(&mut said).await,
        json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": uri})
    );
    assert_eq!(
        ask(&adapter, 2, "resources/unsubscribe", uri).await,
        json!({})
    );
    let _ = server
        .notices
        .send(ServerNotification::ResourceUpdated("shop://a".into()));
    let _ = server.notices.send(ServerNotification::PromptsChanged);
    assert_eq!(heard(&mut said).await, changed("prompts"));
}

#[tokio::test]
async fn subscriptions_end_with_another_hello() {
    let server = Workshop::new();
    let (adapter, mut said) = Adapter::connect(&server.instance(), LIMIT);
    ask(
        &adapter,
        1,
        "resources/subscribe",
        json!({"uri": "shop://a"}),
    )
    .await;
    ask(
        &adapter,
        0,
        "initialize",
        json!({"protocolVersion": "2025-11-25"}),
    )
    .await;
    let _ = server
        .notices
        .send(ServerNotification::ResourceUpdated("shop://a".into()));
    let _ = server.notices.send(ServerNotification::ToolsChanged);
    assert_eq!(heard(&mut said).await, changed("tools"));
}

#[tokio::test]
async fn there_is_an_end_to_subscriptions() {
    let (adapter, _) = Adapter::connect(&Workshop::new().instance(), LIMIT);
    for number in 0..1024 {
        let uri = json!({"uri": format!("shop://{number}")});
        assert_eq!(
            ask(&adapter, number, "resources/subscribe", uri).await,
            json!({})
        );
    }
    let beyond = ask(
        &adapter,
        1,
        "resources/subscribe",
        json!({"uri": "shop://more"}),
    )
    .await;
    assert_eq!(beyond["code"], -32600);
    let again = ask(
        &adapter,
        2,
        "resources/subscribe",
        json!({"uri": "shop://7"}),
    )
    .await;
    assert_eq!(again, json!({}));
}

/// Calls go on while nobody takes what the server says, and of a flood one notice of each kind is left.
#[tokio::test(start_paused = true)]
async fn a_flood_of_changes_is_one_and_blocks_no_call() {
    let server = Workshop::new();
    let (adapter, mut said) = Adapter::connect(&server.instance(), LIMIT);
    // The queue fills with progress first.
    for id in 0..100 {
        let counted = json!({"name": "count", "_meta": {"progressToken": id}});
        ask(&adapter, id, "tools/call", counted).await;
    }
    for _ in 0..1000 {
        let _ = server.notices.send(ServerNotification::ToolsChanged);
        tokio::task::yield_now().await;
    }
    assert_eq!(ask(&adapter, 1, "ping", json!({})).await, json!({}));
    let mut changes = Vec::new();
    while let Ok(message) = tokio::time::timeout(Duration::from_secs(1), heard(&mut said)).await {
        if message["method"] != "notifications/progress" {
            changes.push(message);
        }
    }
    assert_eq!(changes, [changed("tools")]);
}

#[tokio::test]
async fn a_server_that_nobody_listens_to_is_let_go_of() {
    let server = Workshop::new();
    let (adapter, said) = Adapter::connect(&server.instance(), LIMIT);
    assert_eq!(server.notices.receiver_count(), 1);
    drop(said);
    while server.notices.receiver_count() > 0 {
        tokio::task::yield_now().await;
    }
    let counted = json!({"name": "count", "_meta": {"progressToken": 1}});
    ask(&adapter, 1, "tools/call", counted).await;
}
