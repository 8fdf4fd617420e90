//! The `Host` API: adding, removing, enabling, disabling and inspecting servers.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::{Calculator, InMemory, child, host_with, launch, name, permissive, tool_names};
use serde_json::json;
use switchboard::cache::ServerCache;
use switchboard::content::MemoryResultStore;
use switchboard::in_process::{ByteStreams, Connector};
use switchboard::interaction::BoxFuture;
use switchboard::limits::Limits;
use switchboard::mcp::{Era, Hint, Json, ToolDefinition};
use switchboard::permission::{Action, PermissionRequest, PermissionResponse, Rule};
use switchboard::{CallError, Host, Interaction, Readiness, ServerError, StartError};
use switchboard_config::{ConfigSource, ConfigSources, ServerConfig, TransportConfig, Trust, load};
use switchboard_testkit::{
    MemoryServer, Script, Step, assert_no_process_left, processes_with_tag, unique_tag,
};

fn host_with_calculator() -> Host {
    permissive()
        .in_process_server("calc", Calculator)
        .start()
        .unwrap()
}

#[tokio::test]
async fn in_process_server_is_called_like_others() {
    let host = host_with_calculator();
    let output = host
        .call("mcp__calc__add", json!({"a": 15, "b": 27}))
        .await
        .unwrap();
    assert_eq!(output.to_text(), "42");
    let error = host
        .call("mcp__calc__add", json!({"a": 15}))
        .await
        .unwrap_err();
    assert!(matches!(error, CallError::InvalidArguments { .. }));
    let status = serde_json::to_value(host.server_status("calc").unwrap()).unwrap();
    assert_eq!(
        status,
        json!({
            "name": "calc",
            "status": "connected",
            "serverInfo": {"name": "calculator", "version": "1.0"},
            "config": {"type": "sdk", "name": "calc"},
            "scope": "dynamic",
            "tools": [
                {"name": "add", "description": "Adds two numbers", "annotations": {"readOnly": true}},
                {"name": "panic"},
            ],
        })
    );
}

#[tokio::test]
async fn in_process_panic_fails_one_call() {
    let host = host_with_calculator();
    let error = host.call("mcp__calc__panic", json!({})).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "server calc returned an error for panic: the tool panic panicked (code -32603)"
    );
    host.call("mcp__calc__add", json!({"a": 1, "b": 1}))
        .await
        .unwrap();
}

#[tokio::test]
async fn panic_in_server_task_fails_only_that_server() {
    struct Panicking;
    impl Connector for Panicking {
        fn connect(&self) -> BoxFuture<'_, std::io::Result<ByteStreams>> {
            panic!("connect panicked")
        }
    }
    let host = permissive()
        .connector("bad", Panicking)
        .in_process_server("calc", Calculator)
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    assert_eq!(host.server_status("bad").unwrap().status.as_str(), "failed");
    let error = host.call("mcp__bad__x", json!({})).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "server bad is failed: internal error: the task of the server panicked"
    );
    host.call("mcp__calc__add", json!({"a": 1, "b": 1}))
        .await
        .unwrap();
    host.shutdown().await;
}

#[tokio::test]
async fn status_json_masks_secrets() {
    let config = child(&Script::legacy().tool("echo"), "status").env("TOKEN", "hunter2");
    let host = permissive().launch(launch("s", config)).start().unwrap();
    host.wait_for(Readiness::All).await;
    let status = serde_json::to_value(host.server_status("s").unwrap()).unwrap();
    let keys: Vec<_> = status
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        keys,
        ["name", "status", "serverInfo", "config", "scope", "tools"]
    );
    assert_eq!(status["config"]["type"], "stdio");
    assert_eq!(status["config"]["env"]["TOKEN"], "***");
    assert_eq!(
        status["serverInfo"],
        json!({"name": "scripted", "version": "1.0.0"})
    );
    host.shutdown().await;
}

#[tokio::test]
async fn servers_connect_disconnect_and_reconnect() {
    let tag = unique_tag();
    let host = permissive().start().unwrap();
    let config = child(&Script::legacy().tool("echo").tool("pid"), &tag);
    let status = host.connect("s", config.clone()).await.unwrap();
    assert_eq!(status.tools.len(), 2);
    assert!(matches!(
        host.connect("s", config).await,
        Err(ServerError::NameTaken(_))
    ));

    let pid = host.call("mcp__s__pid", json!({})).await.unwrap().to_text();
    host.reconnect("s").await.unwrap();
    let other = host.call("mcp__s__pid", json!({})).await.unwrap().to_text();
    assert_ne!(pid, other);
    assert_eq!(processes_with_tag(&tag).len(), 1);

    host.disconnect("s").await.unwrap();
    assert!(tool_names(&host).is_empty());
    assert_no_process_left(&tag).await;
    assert!(matches!(
        host.disconnect("s").await,
        Err(ServerError::Unknown(_))
    ));
}

#[tokio::test]
async fn reused_name_belongs_to_new_server() {
    let tag = unique_tag();
    let stubborn = Script::legacy().tool("old").on_eof([Step::Hang]);
    let host = permissive().start().unwrap();
    host.connect("s", child(&stubborn, &tag)).await.unwrap();
    // The old server ignores EOF, so `disconnect` is still pending when the new server connects.
    let disconnecting = host.disconnect("s");
    tokio::pin!(disconnecting);
    assert!(futures_util::poll!(&mut disconnecting).is_pending());
    let new = child(&Script::legacy().tool("new"), &tag);
    host.connect("s", new).await.unwrap();
    disconnecting.await.unwrap();
    assert_eq!(tool_names(&host), ["mcp__s__new"]);
    host.shutdown().await;
    assert_no_process_left(&tag).await;
}

#[tokio::test]
async fn extreme_limits_still_work() {
    let mut limits = Limits::default();
    limits.calls_in_flight = usize::MAX;
    limits.calls_per_server = 0;
    let mut deadlines = switchboard::limits::Deadlines::default();
    deadlines.call = std::time::Duration::MAX;
    deadlines.exit_after_eof = std::time::Duration::MAX;
    let host = permissive()
        .limits(limits)
        .deadlines(deadlines)
        .in_process_server("calc", Calculator)
        .start()
        .unwrap();
    host.call("mcp__calc__add", json!({"a": 1, "b": 1}))
        .await
        .unwrap();
    let unlimited = child(&Script::legacy().tool("echo"), "unlimited")
        .startup_timeout(std::time::Duration::MAX)
        .call_timeout(std::time::Duration::MAX)
        .max_concurrent_calls(std::num::NonZeroUsize::MAX);
    host.connect("s", unlimited).await.unwrap();
    host.call("mcp__s__echo", json!({"message": "hi"}))
        .await
        .unwrap();
    host.shutdown().await;
}

#[tokio::test]
async fn failed_connect_keeps_server_status() {
    let host = permissive().start().unwrap();
    let config = switchboard_config::ServerConfig::stdio("no-such-command", [""; 0]);
    let error = host.connect("s", config).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "server s is failed: command not found: no-such-command"
    );
    assert_eq!(host.server_status("s").unwrap().status.as_str(), "failed");
}

#[tokio::test(start_paused = true)]
async fn disabled_server_hides_tools_and_stays_connected() {
    let (host, server) = host_with(Script::legacy().tool("echo")).await;
    host.disable_server("s").await.unwrap();
    assert!(tool_names(&host).is_empty());
    let status = host.server_status("s").unwrap();
    assert_eq!(status.status.as_str(), "disabled");
    let error = host
        .call("mcp__s__echo", json!({"message": "hi"}))
        .await
        .unwrap_err();
    assert!(matches!(error, CallError::Unavailable { .. }), "{error}");

    host.enable_server("s").await.unwrap();
    host.call("mcp__s__echo", json!({"message": "hi"}))
        .await
        .unwrap();
    assert_eq!(server.opened(), 1);
}

#[tokio::test]
async fn set_servers_keeps_unchanged_processes() {
    let tag = unique_tag();
    let script = |tool: &str| Script::legacy().tool("pid").tool(tool);
    let host = permissive()
        .connector(
            "file",
            InMemory(MemoryServer::new(Script::legacy().tool("echo"))),
        )
        .start()
        .unwrap();
    let set = |entries: &[(&str, &str)]| -> BTreeMap<_, _> {
        let entry = |(name, tool): &(&str, &str)| ((*name).to_owned(), child(&script(tool), &tag));
        entries.iter().map(entry).collect()
    };
    let result = host.set_servers(set(&[("a", "x"), ("b", "x")])).await;
    assert_eq!(
        serde_json::to_value(result).unwrap(),
        json!({"added": ["a", "b"], "removed": [], "errors": {}})
    );
    let pid = host.call("mcp__a__pid", json!({})).await.unwrap().to_text();

    let mut wanted = set(&[("a", "x"), ("b", "changed"), ("c", "x"), ("file", "x")]);
    wanted.insert(
        "bad".into(),
        switchboard_config::ServerConfig::stdio("no-such-command", [""; 0]),
    );
    let result = host.set_servers(wanted).await;
    assert_eq!(result.added, ["b", "c"]);
    assert_eq!(result.removed, ["b"]);
    assert_eq!(result.errors["file"], "a server named file already exists");
    assert_eq!(
        result.errors["bad"],
        "server bad is failed: command not found: no-such-command"
    );
    assert_eq!(
        host.call("mcp__a__pid", json!({})).await.unwrap().to_text(),
        pid
    );
    assert!(tool_names(&host).contains(&"mcp__file__echo".to_owned()));

    let result = host.set_servers(BTreeMap::new()).await;
    assert_eq!(result.removed, ["a", "b", "bad", "c"]);
    assert_eq!(tool_names(&host), ["mcp__file__echo"]);
    assert_no_process_left(&tag).await;
}

#[tokio::test]
async fn unapproved_and_invalid_entries_do_not_start() {
    let tag = unique_tag();
    let folder = tempfile::tempdir().unwrap();
    let program = switchboard_testkit::scripted_server();
    let script = Script::legacy().tool("echo").to_json();
    let entry = json!({"command": program, "args": [script], "env": {"SWITCHBOARD_TEST_TAG": tag}});
    let file = folder.path().join(".mcp.json");
    let servers = json!({"mcpServers": {
        "good": entry,
        "unset": {"command": "x", "args": ["${NO_SUCH_VARIABLE}"]},
        "both": {"command": "x", "url": "http://localhost"},
        "off": {"command": "x", "disabled": true},
    }});
    std::fs::write(&file, servers.to_string()).unwrap();
    let sources = ConfigSources {
        project: Some(file),
        ..ConfigSources::default()
    };
    let loaded = load(&sources, &|_: &str| None);

    let host = permissive()
        .config(loaded.config.clone(), &Trust::none())
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let good = host.server_status("good").unwrap();
    assert_eq!(good.status.as_str(), "pending");
    assert_eq!(
        good.detail.unwrap(),
        "not approved, not started: switchboard trust good"
    );
    assert!(processes_with_tag(&tag).is_empty());
    let error = host
        .call("mcp__good__echo", json!({"message": "hi"}))
        .await
        .unwrap_err();
    assert!(matches!(error, CallError::Unavailable { .. }), "{error}");
    // Neither `reconnect` nor `enable_server` starts an unapproved entry.
    assert!(host.reconnect("good").await.is_err());
    host.enable_server("good").await.unwrap();
    assert!(processes_with_tag(&tag).is_empty());
    assert_eq!(
        host.server_status("good").unwrap().status.as_str(),
        "pending"
    );
    host.shutdown().await;

    let trust = Trust::project_for_this_run();
    let host = permissive().config(loaded.config, &trust).start().unwrap();
    host.wait_for(Readiness::All).await;
    let states: Vec<_> = host
        .status()
        .into_iter()
        .map(|status| {
            (
                status.name.to_string(),
                status.status.as_str(),
                status.error,
            )
        })
        .collect();
    assert_eq!(
        states,
        [
            ("good".to_owned(), "connected", None),
            (
                "unset".to_owned(),
                "failed",
                Some("variable NO_SUCH_VARIABLE is not set".to_owned())
            ),
            (
                "both".to_owned(),
                "failed",
                Some("`command` and `url` are mutually exclusive".to_owned())
            ),
            ("off".to_owned(), "disabled", None),
        ]
    );
    host.shutdown().await;
    assert_no_process_left(&tag).await;
}

#[tokio::test]
async fn missing_sdk_server_is_reported() {
    let inline = r#"{"mcpServers": {"mine": {"type": "sdk", "name": "mine"}}}"#;
    let sources = ConfigSources {
        command_line: vec![ConfigSource::from_argument(inline)],
        ..ConfigSources::default()
    };
    let loaded = load(&sources, &|_: &str| None);
    let host = permissive()
        .config(loaded.config, &Trust::none())
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let status = host.server_status("mine").unwrap();
    assert_eq!(
        status.error.unwrap(),
        "the embedding program offers no server named mine"
    );
}

#[tokio::test]
async fn lazy_server_starts_on_first_call() {
    let tag = unique_tag();
    let mut config = child(&Script::legacy().tool("echo"), &tag);
    config.lazy = true;
    let host = permissive().launch(launch("s", config)).start().unwrap();
    host.wait_for(Readiness::Settled).await;
    assert_eq!(host.server_status("s").unwrap().status.as_str(), "pending");
    assert!(processes_with_tag(&tag).is_empty());
    let output = host
        .call("mcp__s__echo", json!({"message": "awake"}))
        .await
        .unwrap();
    assert_eq!(output.to_text(), "awake");
    assert_eq!(
        host.server_status("s").unwrap().status.as_str(),
        "connected"
    );
    host.shutdown().await;
}

#[tokio::test]
async fn events_end_after_shutdown_while_a_clone_lives() {
    let host = permissive()
        .in_process_server("calc", Calculator)
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let clone = host.clone();
    let mut events = host.events();
    let logger = async {
        let mut last = None;
        while let Some(event) = events.next().await {
            last = Some(event);
        }
        last
    };
    host.call("mcp__calc__add", json!({"a": 1, "b": 2}))
        .await
        .unwrap();
    let (last, ()) = tokio::join!(logger, host.shutdown());
    assert!(last.is_some());
    assert!(clone.events().next().await.is_none());
}

#[tokio::test]
async fn shared_interaction_is_accepted() {
    struct AllowAll;
    impl Interaction for AllowAll {
        fn can_use_tool(&self, _: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
            Box::pin(std::future::ready(PermissionResponse::Allow))
        }
    }
    let interaction = std::sync::Arc::new(AllowAll);
    let host = Host::builder()
        .in_process_server("calc", Calculator)
        .interaction(std::sync::Arc::clone(&interaction))
        .start()
        .unwrap();
    let sum = host.call("mcp__calc__add", json!({"a": 1, "b": 2})).await;
    assert_eq!(sum.unwrap().to_text(), "3");
    host.shutdown().await;
}

#[tokio::test]
async fn every_status_has_config_and_scope() {
    let account = ServerConfig::new(TransportConfig::ClaudeAiProxy {
        url: "https://mcp-proxy.anthropic.com".to_owned(),
        id: "abc".to_owned(),
    });
    let script = Script::legacy().tool("echo");
    let host = permissive()
        .in_process_server("calc", Calculator)
        .connector("s", InMemory(MemoryServer::new(script)))
        .server("mail", account)
        .start()
        .unwrap();
    let status = host.status();
    let configs: Vec<_> = status
        .iter()
        .map(|server| json!([server.name, server.scope, server.config]))
        .collect();
    assert_eq!(
        configs,
        [
            json!(["calc", "dynamic", {"type": "sdk", "name": "calc"}]),
            json!(["s", "dynamic", {"type": "stream"}]),
            json!(["mail", "claudeai", {
                "type": "claudeai-proxy", "url": "https://mcp-proxy.anthropic.com", "id": "abc",
            }]),
        ]
    );
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn status_tells_connecting_from_initializing() {
    struct Unreachable;
    impl Connector for Unreachable {
        fn connect(&self) -> BoxFuture<'_, std::io::Result<ByteStreams>> {
            Box::pin(std::future::pending())
        }
    }
    let silent = Script::legacy()
        .on("server/discover", [Step::Hang])
        .on("initialize", [Step::Hang]);
    let slow_list = Script::legacy().on("tools/list", [Step::Hang]);
    let host = permissive()
        .connector("unreachable", Unreachable)
        .connector("silent", InMemory(MemoryServer::new(silent)))
        .connector("slow_list", InMemory(MemoryServer::new(slow_list)))
        .start()
        .unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let details: Vec<_> = host
        .status()
        .into_iter()
        .map(|server| server.detail)
        .collect();
    let expected = ["connecting", "initializing", "listing tools"];
    assert_eq!(details, expected.map(|detail| Some(detail.to_owned())));
    host.shutdown().await;
}

#[tokio::test]
async fn redefined_tool_is_not_called() {
    /// A cache that holds an outdated definition of the tool `work`, without the destructive hint.
    struct OutdatedCache;
    impl ServerCache for OutdatedCache {
        fn era(&self, _: &str) -> Option<Era> {
            None
        }
        fn remember_era(&self, _: &str, _: Era) {}
        fn tools(&self, _: &str) -> Option<Vec<ToolDefinition>> {
            let schema = Json::from(&json!({"type": "object"}));
            Some(vec![ToolDefinition::new("work", schema)])
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let ran = folder.path().join("ran");
    let destructive = json!({
        "name": "work",
        "inputSchema": {"type": "object"},
        "annotations": {"destructiveHint": true},
    });
    let script = Script::legacy()
        .raw_tool(destructive)
        .on("tools/call", [Step::count(&ran), Step::text("done")]);
    let mut config = child(&script, "outdated");
    config.lazy = true;
    let deny_all = Rule::new(Action::Deny, "mcp__*").unwrap();
    let host = permissive()
        .rule(deny_all.hint(Hint::Destructive))
        .server_cache(OutdatedCache)
        .launch(launch("s", config))
        .start()
        .unwrap();
    assert_eq!(tool_names(&host), ["mcp__s__work"]);
    let error = host.call("mcp__s__work", json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::ToolChanged { .. }), "{error}");
    let error = host.call("mcp__s__work", json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::Denied { .. }), "{error}");
    assert!(!ran.exists());
    host.shutdown().await;
}

#[tokio::test]
async fn duplicate_or_empty_names_are_refused() {
    let outcome = permissive()
        .in_process_server("calc", Calculator)
        .in_process_server("calc", Calculator)
        .start();
    assert!(matches!(outcome, Err(StartError::NameTaken(taken)) if taken == name("calc")));
    assert!(
        permissive()
            .in_process_server("", Calculator)
            .start()
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn long_result_is_truncated_and_stored() {
    let long = "line\n".repeat(1_000);
    let script = Script::legacy()
        .tool("long")
        .on("tools/call", [Step::text(&long)]);
    let mut limits = Limits::default();
    limits.result_text_bytes = 100;
    let host = permissive()
        .limits(limits)
        .result_store(MemoryResultStore::new(1 << 20))
        .connector("s", InMemory(MemoryServer::new(script)))
        .start()
        .unwrap();
    let output = host.call("mcp__s__long", json!({})).await.unwrap();
    let text = output.to_text();
    assert!(
        text.len() < 300 && text.contains("5000 bytes total"),
        "{text}"
    );
    assert_eq!(host.stored_result(&output.stored.unwrap()).unwrap(), long);
}
