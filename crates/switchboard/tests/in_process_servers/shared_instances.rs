//! One server instance in several hosts, and when hosts release it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use switchboard::in_process::{
    JsonRpcAdapter, LocalCall, LocalServer, ServerInstance, ServerNotification,
};
use switchboard::interaction::BoxFuture;
use switchboard::mcp::{CallToolResult, ErrorObject, Implementation, ToolDefinition};
use switchboard::status::TransportKind;
use switchboard::{Host, InProcessServer, ServerError};
use tokio::sync::broadcast;

use crate::common::{permissive, tool_names};
use crate::fixture_server::NoteServer;
use crate::{host_with_server, wait_until};

async fn call_look(host: &Host) -> String {
    let output = host.call("mcp__b__look", json!({})).await;
    output.unwrap().to_text()
}

#[tokio::test(start_paused = true)]
async fn one_instance_serves_several_hosts() {
    let server = NoteServer::new();
    let instance = ServerInstance::from(Arc::clone(&server));
    let one = permissive().in_process_server("b", instance.clone());
    let two = permissive().in_process_server("b", instance);
    let (one, two) = (one.start().unwrap(), two.start().unwrap());
    assert_eq!(call_look(&one).await, "one");
    two.call("mcp__b__wipe", json!({})).await.unwrap();
    server.write("both");
    assert_eq!(
        [call_look(&one).await, call_look(&two).await],
        ["both", "both"]
    );
    one.shutdown().await;
    assert_eq!(call_look(&two).await, "both");
    drop(one);
    assert_eq!(call_look(&two).await, "both");
    two.shutdown().await;
    drop(two);
    assert_eq!((server.listeners(), Arc::strong_count(&server)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn disconnect_releases_the_instance() {
    let server = NoteServer::new();
    let host = host_with_server(&server).await;
    host.disconnect("b").await.unwrap();
    assert!(tool_names(&host).is_empty());
    assert_eq!((server.listeners(), Arc::strong_count(&server)), (0, 1));
    let status = host
        .add_in_process_server("b", Arc::clone(&server))
        .await
        .unwrap();
    assert_eq!(status.status.as_str(), "connected");
    assert_eq!(
        host.server_details("b").unwrap().transport,
        TransportKind::Sdk
    );
    assert_eq!(call_look(&host).await, "one");
    let taken = host
        .add_in_process_server("b", Arc::clone(&server))
        .await
        .unwrap_err();
    assert!(matches!(taken, ServerError::NameTaken(_)), "{taken}");
    // Dropping a host without shutdown also releases the instance.
    drop(host);
    wait_until(|| Arc::strong_count(&server) == 1).await;
    assert_eq!(server.listeners(), 0);
}

#[test]
fn instances_of_one_server_are_equal() {
    let typed = InProcessServer::new("typed", "1.0");
    let (one, two) = (
        ServerInstance::from(typed.clone()),
        ServerInstance::from(typed),
    );
    assert!(one.is_same(&two) && one.is_same(&one.clone()));
    let other = ServerInstance::from(InProcessServer::new("typed", "1.0"));
    assert!(!one.is_same(&other));
    let server = NoteServer::new();
    let from_arc = ServerInstance::from(Arc::clone(&server));
    assert!(from_arc.is_same(&ServerInstance::from(server)));
    assert!(!from_arc.is_same(&ServerInstance::from(NoteServer::new())) && !from_arc.is_same(&one));
}

/// Panics in two methods that the host calls while it connects: `implementation` and
/// `notifications`.
struct PanickingServer;

impl LocalServer for PanickingServer {
    fn implementation(&self) -> Implementation {
        panic!("implementation")
    }

    fn tools(&self) -> Vec<ToolDefinition> {
        Vec::new()
    }

    fn call_tool<'a>(
        &'a self,
        _: LocalCall<'a>,
    ) -> BoxFuture<'a, Result<CallToolResult, ErrorObject>> {
        Box::pin(std::future::ready(Ok(CallToolResult::default())))
    }

    fn notifications(&self) -> Option<broadcast::Receiver<ServerNotification>> {
        panic!("notifications")
    }
}

#[tokio::test(start_paused = true)]
async fn panicking_handshake_fails_only_its_server() {
    let server = NoteServer::new();
    let host = host_with_server(&server).await;
    let error = host
        .add_in_process_server("panicking", PanickingServer)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("panicked: notifications"), "{error}");
    let status = host.server_status("panicking").unwrap().status;
    assert_eq!(status.as_str(), "failed");
    assert_eq!(call_look(&host).await, "one");
    host.shutdown().await;
    let (adapter, _notifications) =
        JsonRpcAdapter::connect(&PanickingServer.into(), Duration::from_secs(1));
    let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#;
    let response = adapter.handle(initialize).await.unwrap();
    assert!(
        response.as_str().contains("initialize panicked"),
        "{response:?}"
    );
}
