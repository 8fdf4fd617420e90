//! Resources, prompts, notifications and permissions of in-process servers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use switchboard::in_process::ServerNotification;
use switchboard::interaction::BoxFuture;
use switchboard::permission::{Action, PermissionRequest, PermissionResponse, Rule};
use switchboard::query::QueryError;
use switchboard::watch::{WatchChange, WatchKind, WatchRequest};
use switchboard::{CallError, Event, Host, Interaction, Readiness};
use tokio::time::{sleep, timeout};

use crate::common::tool_names;
use crate::fixture_server::{NoteServer, URI};
use crate::{TIMEOUT, host_with_server, next_event};

#[tokio::test(start_paused = true)]
async fn host_lists_and_reads_in_process_resources() {
    let host = host_with_server(&NoteServer::new()).await;
    let resources = host.resources(None).await.unwrap().items;
    assert_eq!(resources[0].item.uri, URI);
    let templates = host.resource_templates(Some("b")).await.unwrap().items;
    assert_eq!(templates[0].item.uri_template, "board://line/{number}");
    let read = host.read_resource_raw("b", URI).await.unwrap();
    assert_eq!(read.contents[0].text.as_deref(), Some("one"));
    let prompt = host.find_prompt("mcp__b__greet").await.unwrap().unwrap();
    assert_eq!(prompt.item.arguments[0].name, "who");
    let who = BTreeMap::from([("who".to_owned(), "Ada".to_owned())]);
    let prompt_result = host.get_prompt_raw("b", "greet", &who).await.unwrap();
    assert_eq!(
        serde_json::to_value(&prompt_result).unwrap(),
        json!({"messages": [
            {"role": "user", "content": {"type": "text", "text": "Greet Ada."}},
        ]})
    );
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn failed_read_or_prompt_fails_only_itself() {
    let host = host_with_server(&NoteServer::new()).await;
    let error = host.read_resource_raw("b", "board://no").await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    let error = host
        .read_resource_raw("b", "board://panic")
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "server b returned an error: reading board://panic panicked (code -32603)"
    );
    let error = host
        .read_resource_raw("b", "board://wait")
        .await
        .unwrap_err();
    assert!(matches!(error, QueryError::TimedOut { .. }), "{error}");
    let none = BTreeMap::new();
    let error = host.get_prompt_raw("b", "other", &none).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "server b returned an error: the prompt other panicked (code -32603)"
    );
    host.read_resource_raw("b", URI).await.unwrap();
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn tool_change_updates_the_catalog() {
    let server = NoteServer::new();
    let host = host_with_server(&server).await;
    let mut events = host.events();
    server.set_tools(&["look", "new"]);
    let changed = next_event(&mut events, |event| {
        matches!(event, Event::ToolsChanged { .. })
    });
    let Event::ToolsChanged { added, removed, .. } = changed.await else {
        panic!();
    };
    assert_eq!((added.len(), removed.len()), (1, 7));
    assert_eq!(tool_names(&host), ["mcp__b__look", "mcp__b__new"]);
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn panicking_listing_keeps_previous_tools() {
    let server = NoteServer::new();
    let host = host_with_server(&server).await;
    let mut events = host.events();
    server.set_tools(&[]);
    next_event(
        &mut events,
        |event| matches!(event, Event::ServerChanged { detail: Some(detail), .. } if detail.contains("panicked")),
    )
    .await;
    let status = host.server_status("b").unwrap();
    assert_eq!(
        status.error.as_deref(),
        Some(
            "listing the tools failed: the server returned an error: listing tools panicked (code -32603)"
        )
    );
    host.call("mcp__b__look", json!({})).await.unwrap();
    server.set_tools(&["look"]);
    next_event(&mut events, |event| {
        matches!(event, Event::ToolsChanged { .. })
    })
    .await;
    assert_eq!(host.server_status("b").unwrap().error, None);
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn list_changes_survive_a_lagging_receiver() {
    let server = NoteServer::new();
    let host = host_with_server(&server).await;
    let mut events = host.events();
    server.notify(ServerNotification::ResourcesChanged);
    next_event(&mut events, |event| {
        matches!(event, Event::ResourcesChanged { .. })
    })
    .await;
    // Send more notifications than the channel of the server holds. The first notifications are
    // lost, so the host must assume that everything changed.
    server.notify(ServerNotification::PromptsChanged);
    for _ in 0..100 {
        server.notify(ServerNotification::ResourceUpdated("board://other".into()));
    }
    next_event(&mut events, |event| {
        matches!(event, Event::PromptsChanged { .. })
    })
    .await;
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn watch_uses_notifications_instead_of_polling() {
    let server = NoteServer::new();
    let host = host_with_server(&server).await;
    let watch = host.watch(WatchRequest::subscription("b", URI)).await;
    assert_eq!(watch.unwrap().kind, WatchKind::Subscription);
    assert_eq!(host.watches()[0].effective_kind, WatchKind::Subscription);
    let reads = server.reads.load(Ordering::Relaxed);
    sleep(TIMEOUT * 60).await;
    assert_eq!(server.reads.load(Ordering::Relaxed), reads);
    server.write("two");
    let event = timeout(TIMEOUT, host.next_watch_event()).await;
    let event = event.unwrap().unwrap();
    assert_eq!(event.change, WatchChange::Changed { times: 1 });
    assert_eq!(event.diff.as_deref(), Some("-one\n+two"));
    // The watch continues after a reconnect and misses no change of the resource.
    host.reconnect("b").await.unwrap();
    server.write("three");
    let event = timeout(TIMEOUT, host.next_watch_event()).await;
    assert_eq!(
        event.unwrap().unwrap().diff.as_deref(),
        Some("-two\n+three")
    );
    host.shutdown().await;
    assert_eq!(server.listeners(), 0);
}

struct CountingPermission(Arc<AtomicUsize>, PermissionResponse);

impl Interaction for CountingPermission {
    fn can_use_tool(&self, _: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(self.1))
    }
}

#[tokio::test(start_paused = true)]
async fn rules_and_permission_requests_apply() {
    let server = NoteServer::new();
    let request_count = Arc::new(AtomicUsize::new(0));
    let host = |answer| {
        Host::builder()
            .rule(Rule::new(Action::Deny, "mcp__b__wipe").unwrap())
            .rule(Rule::new(Action::Allow, "mcp__b__long").unwrap())
            .interaction(CountingPermission(Arc::clone(&request_count), answer))
            .in_process_server("b", Arc::clone(&server))
            .start()
            .unwrap()
    };
    let allowing = host(PermissionResponse::Allow);
    allowing.wait_for(Readiness::All).await;
    let error = allowing.call("mcp__b__wipe", json!({})).await;
    assert!(matches!(error, Err(CallError::Denied { .. })), "{error:?}");
    allowing.call("mcp__b__long", json!({})).await.unwrap();
    assert_eq!(request_count.load(Ordering::Relaxed), 0);
    allowing.call("mcp__b__look", json!({})).await.unwrap();
    assert_eq!(request_count.load(Ordering::Relaxed), 1);
    let denying = host(PermissionResponse::Deny);
    denying.wait_for(Readiness::All).await;
    let error = denying.call("mcp__b__look", json!({})).await;
    assert!(matches!(error, Err(CallError::Denied { .. })), "{error:?}");
    assert_eq!(server.calls.load(Ordering::Relaxed), 2);
    allowing.shutdown().await;
    denying.shutdown().await;
}
