//! The profile `server`: nothing external is executed, and nobody is asked.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that meets the unexpected shall fail"
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

/// Says yes to everything, if anybody asks.
struct Generous;

impl Interaction for Generous {
    fn can_use_tool(&self, _: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        Box::pin(std::future::ready(PermissionResponse::Allow))
    }
}

fn for_many() -> HostBuilder {
    Host::builder()
        .profile(Profile::Server)
        .interaction(Generous)
}

/// A child that would leave a file behind if it were ever started.
fn marking(marker: &Path, tag: &str) -> ServerConfig {
    let marker = marker.to_str().unwrap();
    child(&Script::legacy().on_start([Step::count(marker)]), tag)
}

const BARRED: &str = "with the profile `server` no program is executed, and its `command` is one";

#[tokio::test]
async fn no_way_to_a_server_executes_anything() {
    let folder = tempfile::tempdir().unwrap();
    let marker = folder.path().join("marker");
    let tag = unique_tag();
    let config = || marking(&marker, &tag);
    let mut lazy = config();
    lazy.lazy = true;
    let text = json!({"mcpServers": {"file": {"command": "touch", "args": [marker]}}});
    let sources = ConfigSources {
        command_line: vec![ConfigSource::Inline(text.to_string())],
        ..ConfigSources::default()
    };
    let loaded = load(&sources, &|_: &str| None);
    let host = for_many()
        .launch(launch("code", config()))
        .launch(launch("lazy", lazy))
        .config(loaded.config, &Trust::none())
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    assert!(host.connect("later", config()).await.is_err());
    let wanted = BTreeMap::from([("later".to_owned(), config()), ("set".to_owned(), config())]);
    // The other was there already.
    let errors = host.set_servers(wanted).await.errors;
    assert_eq!(errors.keys().collect::<Vec<_>>(), ["set"]);
    for server in host.status() {
        let name = server.name.as_str();
        assert_eq!(server.status.as_str(), "failed", "{name}");
        assert_eq!(server.error.as_deref(), Some(BARRED), "{name}");
        assert!(host.start_server(name).await.is_err());
        // Past what the host says beforehand, to the place where processes are started.
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
async fn a_helper_for_headers_is_refused_and_other_servers_are_not() {
    let mut with_helper = ServerConfig::remote("https://example.com", RemoteKind::Http);
    let TransportConfig::Remote(remote) = &mut with_helper.transport else {
        panic!();
    };
    remote.headers_helper = Some("touch marker".to_owned());
    let host = for_many()
        .launch(launch("helped", with_helper))
        .in_process_server("calc", Calculator)
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let helped = host.server_status("helped").unwrap();
    assert_eq!(
        helped.error.as_deref(),
        Some("with the profile `server` no program is executed, and its `headersHelper` is one")
    );
    assert_eq!(
        host.server_status("calc").unwrap().status.as_str(),
        "connected"
    );
    host.shutdown().await;
}

#[tokio::test]
async fn nobody_is_asked() {
    let add = json!({"a": 1, "b": 2});
    let local = Host::builder()
        .interaction(Generous)
        .in_process_server("calc", Calculator)
        .start()
        .unwrap();
    local.call("mcp__calc__add", add.clone()).await.unwrap();
    let host = for_many()
        .in_process_server("calc", Calculator)
        .start()
        .unwrap();
    let error = host.call("mcp__calc__add", add).await.unwrap_err();
    assert!(matches!(error, CallError::Denied { .. }), "{error}");
    local.shutdown().await;
    host.shutdown().await;
}
