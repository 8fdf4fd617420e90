//! Config entries of the type `sdk` and the in-process servers registered for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use switchboard::{Host, Readiness};
use switchboard_config::{ConfigSources, HostConfig, Profile, ServerConfig, Trust, load};

use crate::common::{permissive, tool_names};
use crate::fixture_server::NoteServer;

/// Loads these entries from a user config file.
fn config(servers: &Value) -> HostConfig {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("user.json");
    std::fs::write(&file, json!({"mcpServers": servers}).to_string()).unwrap();
    let sources = ConfigSources {
        user: Some(file),
        ..ConfigSources::default()
    };
    load(&sources, &|_: &str| None).config
}

async fn start(server: &Arc<NoteServer>, servers: &Value) -> Host {
    let host = permissive()
        .sdk_server("board", Arc::clone(server))
        .config(config(servers), &Trust::none())
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    host
}

fn status(host: &Host, server: &str) -> (String, String) {
    let status = host.server_status(server).unwrap();
    let transport = host.server_details(server).unwrap().transport;
    (status.status.to_string(), transport.to_string())
}

#[tokio::test(start_paused = true)]
async fn sdk_entry_connects_to_server_of_its_name() {
    let server = NoteServer::new();
    let entries = json!({
        "b": {"type": "sdk", "name": "board"},
        "board": {"type": "sdk"},
        "off": {"type": "sdk", "name": "board", "disabled": true},
        "later": {"type": "sdk", "name": "board", "lazy": true},
    });
    let host = start(&server, &entries).await;
    let connected = ("connected".to_owned(), "sdk".to_owned());
    assert_eq!(status(&host, "b"), connected);
    assert_eq!(status(&host, "board"), connected);
    assert_eq!(status(&host, "off").0, "disabled");
    assert_eq!(status(&host, "later"), connected);
    host.call("mcp__b__look", json!({})).await.unwrap();
    host.call("mcp__board__look", json!({})).await.unwrap();
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn missing_sdk_server_error_lists_registered_ones() {
    let server = NoteServer::new();
    let host = start(&server, &json!({"calc": {"type": "sdk"}})).await;
    let calc = host.server_status("calc").unwrap();
    assert_eq!(calc.status.as_str(), "failed");
    assert_eq!(
        calc.error.as_deref(),
        Some("the embedding program offers no server named calc; it offers board")
    );
    assert_eq!(
        calc.detail.as_deref(),
        Some(
            "an entry of type `sdk` needs a server of the embedding program: \
             HostBuilder::sdk_server(\"calc\", …), or Host::register_sdk_server(\"calc\", …) and then Host::reconnect"
        )
    );
    assert!(
        host.register_sdk_server("calc", Arc::clone(&server))
            .is_none()
    );
    host.reconnect("calc").await.unwrap();
    host.call("mcp__calc__look", json!({})).await.unwrap();
    assert!(host.unregister_sdk_server("calc").is_some());
    host.call("mcp__calc__look", json!({})).await.unwrap();
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn readded_sdk_entry_reuses_its_server() {
    let server = NoteServer::new();
    let entries = json!({"b": {"type": "sdk", "name": "board"}});
    let host = start(&server, &entries).await;
    host.call("mcp__b__wipe", json!({})).await.unwrap();
    let applied = host.apply_config(config(&json!({})), &Trust::none()).await;
    assert_eq!(applied.removed, ["b"]);
    assert_eq!((tool_names(&host).len(), server.listeners()), (0, 0));
    let applied = host.apply_config(config(&entries), &Trust::none()).await;
    assert_eq!(applied.added, ["b"]);
    host.wait_for(Readiness::All).await;
    let output = host.call("mcp__b__look", json!({})).await.unwrap();
    assert_eq!(output.to_text(), "");
    // The config entry did not change, so the host keeps the session.
    let applied = host.apply_config(config(&entries), &Trust::none()).await;
    assert_eq!(
        (applied.kept, server.listeners()),
        (vec!["b".to_owned()], 1)
    );
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn sdk_servers_work_in_server_profile() {
    let server = NoteServer::new();
    let host = permissive()
        .profile(Profile::Server)
        .sdk_server("board", Arc::clone(&server))
        .start()
        .unwrap();
    let wanted = BTreeMap::from([("b".to_owned(), ServerConfig::sdk("board"))]);
    let result = host.set_servers(wanted).await;
    assert_eq!(result.added, ["b"]);
    assert!(result.errors.is_empty(), "{:?}", result.errors);
    host.start_server("b").await.unwrap();
    host.call("mcp__b__look", json!({})).await.unwrap();
    let result = host.set_servers(BTreeMap::new()).await;
    assert_eq!((result.removed.len(), server.listeners()), (1, 0));
    let result = host.connect("b", ServerConfig::sdk("other")).await;
    let error = result.unwrap_err().to_string();
    assert!(
        error.ends_with("no server named other; it offers board"),
        "{error}"
    );
    host.shutdown().await;
}
