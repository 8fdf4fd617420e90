//! One server in several hosts, and what becomes of it when they go.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use switchboard::in_process::{
    JsonRpcAdapter, LocalCall, LocalServer, ServerInstance, ServerNotification,
};
use switchboard::interaction::BoxFuture;
use switchboard::mcp::{CallToolResult, ErrorObject, Implementation, Tool};
use switchboard::{Host, InProcessServer, ServerError};
use tokio::sync::broadcast;

use crate::common::{permissive, tool_names};
use crate::fixture_server::Board;
use crate::{hosting, until};

async fn looks(host: &Host) -> String {
    let output = host.call("mcp__b__look", json!({})).await;
    output.unwrap().to_text()
}

#[tokio::test(start_paused = true)]
async fn one_server_serves_several_hosts_and_outlives_each() {
    let board = Board::new();
    let instance = ServerInstance::from(Arc::clone(&board));
    let one = permissive().in_process_server("b", instance.clone());
    let two = permissive().in_process_server("b", instance);
    let (one, two) = (one.start().unwrap(), two.start().unwrap());
    assert_eq!(looks(&one).await, "one");
    two.call("mcp__b__wipe", json!({})).await.unwrap();
    board.write("both");
    assert_eq!([looks(&one).await, looks(&two).await], ["both", "both"]);
    one.shutdown().await;
    assert_eq!(looks(&two).await, "both");
    drop(one);
    assert_eq!(looks(&two).await, "both");
    two.shutdown().await;
    drop(two);
    assert_eq!((board.listeners(), Arc::strong_count(&board)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn disconnecting_lets_go_of_the_server_and_no_more() {
    let board = Board::new();
    let host = hosting(&board).await;
    host.disconnect("b").await.unwrap();
    assert!(tool_names(&host).is_empty());
    assert_eq!((board.listeners(), Arc::strong_count(&board)), (0, 1));
    let status = host
        .add_in_process_server("b", Arc::clone(&board))
        .await
        .unwrap();
    assert_eq!(status.status.as_str(), "connected");
    assert_eq!(host.server_details("b").unwrap().transport, "sdk");
    assert_eq!(looks(&host).await, "one");
    let taken = host
        .add_in_process_server("b", Arc::clone(&board))
        .await
        .unwrap_err();
    assert!(matches!(taken, ServerError::NameTaken(_)), "{taken}");
    // A host that is dropped without a word lets go as well.
    drop(host);
    until(|| Arc::strong_count(&board) == 1).await;
    assert_eq!(board.listeners(), 0);
}

#[test]
fn what_is_made_of_clones_of_one_server_is_the_same() {
    let typed = InProcessServer::new("typed", "1.0");
    let (one, two) = (
        ServerInstance::from(typed.clone()),
        ServerInstance::from(typed),
    );
    assert!(one.is_same(&two) && one.is_same(&one.clone()));
    let other = ServerInstance::from(InProcessServer::new("typed", "1.0"));
    assert!(!one.is_same(&other));
    let board = Board::new();
    let by_hand = ServerInstance::from(Arc::clone(&board));
    assert!(by_hand.is_same(&ServerInstance::from(board)));
    assert!(!by_hand.is_same(&ServerInstance::from(Board::new())) && !by_hand.is_same(&one));
}

/// Panics when it is asked about itself.
struct Shy;

impl LocalServer for Shy {
    fn implementation(&self) -> Implementation {
        panic!("not me")
    }

    fn tools(&self) -> Vec<Tool> {
        Vec::new()
    }

    fn call_tool<'a>(
        &'a self,
        _: LocalCall<'a>,
    ) -> BoxFuture<'a, Result<CallToolResult, ErrorObject>> {
        Box::pin(std::future::ready(Ok(CallToolResult::default())))
    }

    fn notifications(&self) -> Option<broadcast::Receiver<ServerNotification>> {
        panic!("nothing to say")
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_panics_when_it_introduces_itself_fails_alone_and_in_words() {
    let board = Board::new();
    let host = hosting(&board).await;
    let error = host
        .add_in_process_server("shy", Shy)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("panicked: nothing to say"), "{error}");
    let status = host.server_status("shy").unwrap().status;
    assert_eq!(status.as_str(), "failed");
    assert_eq!(looks(&host).await, "one");
    host.shutdown().await;
    let (adapter, _said) = JsonRpcAdapter::connect(&Shy.into(), Duration::from_secs(1));
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#;
    let answer = adapter.handle(hello).await.unwrap();
    assert!(
        answer.as_str().contains("initialize panicked"),
        "{answer:?}"
    );
}
