//! What a server of this process has, and what it says of it by itself.

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
use crate::fixture_server::{Board, URI};
use crate::{A_WHILE, hosting, next};

#[tokio::test(start_paused = true)]
async fn its_resources_templates_and_prompts_are_there_without_a_word_of_json() {
    let host = hosting(&Board::new()).await;
    let resources = host.resources(None).await.unwrap().items;
    assert_eq!(resources[0].item.uri, URI);
    let templates = host.resource_templates(Some("b")).await.unwrap().items;
    assert_eq!(templates[0].item.uri_template, "board://line/{number}");
    let read = host.read_resource_raw("b", URI).await.unwrap();
    assert_eq!(read.contents[0].text.as_deref(), Some("one"));
    let prompt = host.find_prompt("mcp__b__greet").await.unwrap().unwrap();
    assert_eq!(prompt.item.arguments[0].name, "who");
    let who = BTreeMap::from([("who".to_owned(), "Ada".to_owned())]);
    let filled = host.get_prompt_raw("b", "greet", &who).await.unwrap();
    assert_eq!(
        serde_json::to_value(&filled).unwrap(),
        json!({"messages": [
            {"role": "user", "content": {"type": "text", "text": "Greet Ada."}},
        ]})
    );
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_said_and_a_panic_or_a_wait_fails_the_one_question() {
    let host = hosting(&Board::new()).await;
    let error = host.read_resource_raw("b", "board://no").await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    let error = host
        .read_resource_raw("b", "board://panic")
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "server b refused: reading board://panic panicked (code -32603)"
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
        "server b refused: the prompt other panicked (code -32603)"
    );
    host.read_resource_raw("b", URI).await.unwrap();
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_of_its_tools_is_in_the_catalog_soon() {
    let board = Board::new();
    let host = hosting(&board).await;
    let mut events = host.events();
    board.set_tools(&["look", "new"]);
    let changed = next(&mut events, |event| {
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
async fn a_listing_that_panics_leaves_the_tools_as_they_were_and_is_tried_again() {
    let board = Board::new();
    let host = hosting(&board).await;
    let mut events = host.events();
    board.set_tools(&[]);
    next(
        &mut events,
        |event| matches!(event, Event::ServerChanged { detail: Some(detail), .. } if detail.contains("panicked")),
    )
    .await;
    let status = host.server_status("b").unwrap();
    assert_eq!(
        status.error.as_deref(),
        Some(
            "its tools could not be listed: the server returned an error: listing tools panicked (code -32603)"
        )
    );
    host.call("mcp__b__look", json!({})).await.unwrap();
    board.set_tools(&["look"]);
    next(&mut events, |event| {
        matches!(event, Event::ToolsChanged { .. })
    })
    .await;
    assert_eq!(host.server_status("b").unwrap().error, None);
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn changes_of_resources_and_prompts_are_told_also_to_who_fell_behind() {
    let board = Board::new();
    let host = hosting(&board).await;
    let mut events = host.events();
    board.tell(ServerNotification::ResourcesChanged);
    next(&mut events, |event| {
        matches!(event, Event::ResourcesChanged { .. })
    })
    .await;
    // More than are kept for anybody: what was in the first of them is not known.
    board.tell(ServerNotification::PromptsChanged);
    for _ in 0..100 {
        board.tell(ServerNotification::ResourceUpdated("board://other".into()));
    }
    next(&mut events, |event| {
        matches!(event, Event::PromptsChanged { .. })
    })
    .await;
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_told_and_does_not_poll() {
    let board = Board::new();
    let host = hosting(&board).await;
    let watch = host.watch(WatchRequest::subscription("b", URI)).await;
    assert_eq!(watch.unwrap().kind, WatchKind::Subscription);
    assert_eq!(host.watches()[0].effective_kind, WatchKind::Subscription);
    let reads = board.reads.load(Ordering::Relaxed);
    sleep(A_WHILE * 60).await;
    assert_eq!(board.reads.load(Ordering::Relaxed), reads);
    board.write("two");
    let event = timeout(A_WHILE, host.next_watch_event()).await;
    let event = event.unwrap().unwrap();
    assert_eq!(event.change, WatchChange::Changed { times: 1 });
    assert_eq!(event.diff.as_deref(), Some("-one\n+two"));
    // It goes on after the server was connected anew, and nothing is missed meanwhile.
    host.reconnect("b").await.unwrap();
    board.write("three");
    let event = timeout(A_WHILE, host.next_watch_event()).await;
    assert_eq!(
        event.unwrap().unwrap().diff.as_deref(),
        Some("-two\n+three")
    );
    host.shutdown().await;
    assert_eq!(board.listeners(), 0);
}

struct Person(Arc<AtomicUsize>, PermissionResponse);

impl Interaction for Person {
    fn can_use_tool(&self, _: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(self.1))
    }
}

#[tokio::test(start_paused = true)]
async fn rules_hold_and_people_are_asked() {
    let board = Board::new();
    let asked = Arc::new(AtomicUsize::new(0));
    let host = |answer| {
        Host::builder()
            .rule(Rule::new(Action::Deny, "mcp__b__wipe").unwrap())
            .rule(Rule::new(Action::Allow, "mcp__b__long").unwrap())
            .interaction(Person(Arc::clone(&asked), answer))
            .in_process_server("b", Arc::clone(&board))
            .start()
            .unwrap()
    };
    let permitting = host(PermissionResponse::Allow);
    permitting.wait_for(Readiness::All).await;
    let error = permitting.call("mcp__b__wipe", json!({})).await;
    assert!(matches!(error, Err(CallError::Denied { .. })), "{error:?}");
    permitting.call("mcp__b__long", json!({})).await.unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    permitting.call("mcp__b__look", json!({})).await.unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    let forbidding = host(PermissionResponse::Deny);
    forbidding.wait_for(Readiness::All).await;
    let error = forbidding.call("mcp__b__look", json!({})).await;
    assert!(matches!(error, Err(CallError::Denied { .. })), "{error:?}");
    assert_eq!(board.calls.load(Ordering::Relaxed), 2);
    permitting.shutdown().await;
    forbidding.shutdown().await;
}
