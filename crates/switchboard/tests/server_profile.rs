//! The profile `server`: the host starts no program and never asks for permission.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{Calculator, child, launch};
use serde_json::json;
use switchboard::interaction::BoxFuture;
use switchboard::permission::{PermissionRequest, PermissionResponse};
use switchboard::{CallError, Host, HostBuilder, Interaction, Readiness};
use switchboard_config::{
    ConfigSource, ConfigSources, Profile, RemoteKind, ServerConfig, TransportConfig, Trust, load,
};
use switchboard_testkit::{Script, Step, processes_with_tag, unique_tag};

/// Grants every permission request.
struct AllowAll;

impl Interaction for AllowAll {
    fn can_use_tool(&self, _: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        Box::pin(std::future::ready(PermissionResponse::Allow))
    }
}

fn server_profile() -> HostBuilder {
    Host::builder()
        .profile(Profile::Server)
        .interaction(AllowAll)
}

/// Returns the config of a server that would write the file `marker` if its process were started.
fn child_with_marker(marker: &Path, tag: &str) -> ServerConfig {
    let marker = marker.to_str().unwrap();
    child(&Script::legacy().on_start([Step::count(marker)]), tag)
}

const COMMAND_REFUSED: &str = "profile `server` forbids running programs (its `command`)";

#[tokio::test]
async fn no_api_starts_a_program() {
    let folder = tempfile::tempdir().unwrap();
    let marker = folder.path().join("marker");
    let tag = unique_tag();
    let config = || child_with_marker(&marker, &tag);
    let mut lazy = config();
    lazy.lazy = true;
    let text = json!({"mcpServers": {"file": {"command": "touch", "args": [marker]}}});
    let sources = ConfigSources {
        command_line: vec![ConfigSource::Inline(text.to_string())],
        ..ConfigSources::default()
    };
    let loaded = load(&sources, &|_: &str| None);
    let host = server_profile()
        .launch(launch("code", config()))
        .launch(launch("lazy", lazy))
        .config(loaded.config, &Trust::none())
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    assert!(host.connect("later", config()).await.is_err());
    let wanted = BTreeMap::from([("later".to_owned(), config()), ("set".to_owned(), config())]);
    // `set_servers` already knows `later` from the failed `connect`, so it adds only `set`, which
    // fails.
    let errors = host.set_servers(wanted).await.errors;
    assert_eq!(errors.keys().collect::<Vec<_>>(), ["set"]);
    for server in host.status() {
        let name = server.name.as_str();
        assert_eq!(server.status.as_str(), "failed", "{name}");
        assert_eq!(server.error.as_deref(), Some(COMMAND_REFUSED), "{name}");
        assert!(host.start_server(name).await.is_err());
        // The host checks the profile only when it adds a server, so `reconnect` tries to start the
        // program. The code that spawns processes refuses.
        let error = host.reconnect(name).await.unwrap_err().to_string();
        assert!(
            error.contains("this host may not start programs"),
            "{error}"
        );
        host.enable_server(name).await.unwrap();
        let call = host.call(format!("mcp__{name}__x"), json!({})).await;
        assert!(matches!(call, Err(CallError::Unavailable { .. })));
    }
    assert!(!marker.exists());
    assert!(processes_with_tag(&tag).is_empty());
    host.shutdown().await;
}

#[tokio::test]
async fn headers_helper_is_refused() {
    let mut config = ServerConfig::remote("https://example.com", RemoteKind::Http);
    let TransportConfig::Remote(remote) = &mut config.transport else {
        panic!();
    };
    remote.headers_helper = Some("touch marker".to_owned());
    let host = server_profile()
        .launch(launch("with_helper", config))
        .in_process_server("calc", Calculator)
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let with_helper = host.server_status("with_helper").unwrap();
    assert_eq!(
        with_helper.error.as_deref(),
        Some("profile `server` forbids running programs (its `headersHelper`)")
    );
    assert_eq!(
        host.server_status("calc").unwrap().status.as_str(),
        "connected"
    );
    host.shutdown().await;
}

#[tokio::test]
async fn permission_is_never_requested() {
    let add = json!({"a": 1, "b": 2});
    let local = Host::builder()
        .interaction(AllowAll)
        .in_process_server("calc", Calculator)
        .start()
        .unwrap();
    local.call("mcp__calc__add", add.clone()).await.unwrap();
    let host = server_profile()
        .in_process_server("calc", Calculator)
        .start()
        .unwrap();
    let error = host.call("mcp__calc__add", add).await.unwrap_err();
    assert!(matches!(error, CallError::Denied { .. }), "{error}");
    local.shutdown().await;
    host.shutdown().await;
}
