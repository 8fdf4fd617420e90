//! Change notifications and subscriptions of a directly called server.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_server::{JsonRpcAdapter, ServerNotification};

use crate::fixture_server::FixtureServer;
use crate::{LIMIT, next_message, send_request};

fn list_changed(kind: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": format!("notifications/{kind}/list_changed")})
}

#[tokio::test]
async fn updates_are_sent_only_for_subscribed_resources() {
    let server = FixtureServer::new();
    let (adapter, mut messages) = JsonRpcAdapter::connect(&server.instance(), LIMIT);
    let uri = json!({"uri": "test://a"});
    assert_eq!(
        send_request(&adapter, 1, "resources/subscribe", uri.clone()).await,
        json!({})
    );
    let _ = server
        .notifications
        .send(ServerNotification::ResourceUpdated("test://b".into()));
    let _ = server
        .notifications
        .send(ServerNotification::ResourceUpdated("test://a".into()));
    assert_eq!(
        next_message(&mut messages).await,
        json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": uri})
    );
    assert_eq!(
        send_request(&adapter, 2, "resources/unsubscribe", uri).await,
        json!({})
    );
    let _ = server
        .notifications
        .send(ServerNotification::ResourceUpdated("test://a".into()));
    let _ = server
        .notifications
        .send(ServerNotification::PromptsChanged);
    assert_eq!(next_message(&mut messages).await, list_changed("prompts"));
}

#[tokio::test]
async fn initialize_clears_subscriptions() {
    let server = FixtureServer::new();
    let (adapter, mut messages) = JsonRpcAdapter::connect(&server.instance(), LIMIT);
    send_request(
        &adapter,
        1,
        "resources/subscribe",
        json!({"uri": "test://a"}),
    )
    .await;
    send_request(
        &adapter,
        0,
        "initialize",
        json!({"protocolVersion": "2025-11-25"}),
    )
    .await;
    let _ = server
        .notifications
        .send(ServerNotification::ResourceUpdated("test://a".into()));
    let _ = server.notifications.send(ServerNotification::ToolsChanged);
    assert_eq!(next_message(&mut messages).await, list_changed("tools"));
}

#[tokio::test]
async fn number_of_subscriptions_is_limited() {
    let (adapter, _) = JsonRpcAdapter::connect(&FixtureServer::new().instance(), LIMIT);
    for number in 0..1024 {
        let uri = json!({"uri": format!("test://{number}")});
        assert_eq!(
            send_request(&adapter, number, "resources/subscribe", uri).await,
            json!({})
        );
    }
    let rejected = send_request(
        &adapter,
        1,
        "resources/subscribe",
        json!({"uri": "test://more"}),
    )
    .await;
    assert_eq!(rejected["code"], -32600);
    let again = send_request(
        &adapter,
        2,
        "resources/subscribe",
        json!({"uri": "test://7"}),
    )
    .await;
    assert_eq!(again, json!({}));
}

/// The test reads no unsolicited message during the flood.
#[tokio::test(start_paused = true)]
async fn flood_of_changes_is_merged_and_blocks_no_call() {
    let server = FixtureServer::new();
    let (adapter, mut messages) = JsonRpcAdapter::connect(&server.instance(), LIMIT);
    // Fill the channel of unsolicited messages with progress.
    for id in 0..100 {
        let params = json!({"name": "count", "_meta": {"progressToken": id}});
        send_request(&adapter, id, "tools/call", params).await;
    }
    for _ in 0..1000 {
        let _ = server.notifications.send(ServerNotification::ToolsChanged);
        tokio::task::yield_now().await;
    }
    assert_eq!(
        send_request(&adapter, 1, "ping", json!({})).await,
        json!({})
    );
    let mut changes = Vec::new();
    while let Ok(message) =
        tokio::time::timeout(Duration::from_secs(1), next_message(&mut messages)).await
    {
        if message["method"] != "notifications/progress" {
            changes.push(message);
        }
    }
    assert_eq!(changes, [list_changed("tools")]);
}

#[tokio::test]
async fn dropped_receiver_ends_the_subscription() {
    let server = FixtureServer::new();
    let (adapter, messages) = JsonRpcAdapter::connect(&server.instance(), LIMIT);
    assert_eq!(server.notifications.receiver_count(), 1);
    drop(messages);
    while server.notifications.receiver_count() > 0 {
        tokio::task::yield_now().await;
    }
    let params = json!({"name": "count", "_meta": {"progressToken": 1}});
    send_request(&adapter, 1, "tools/call", params).await;
}
