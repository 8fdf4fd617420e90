//! Connecting: era detection, startup deadlines, crashes, retries and the era cache.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

mod common;

use std::time::Duration;

use common::{InMemory, host_with, permissive, tool_names};
use serde_json::{Value, json};
use switchboard::cache::ServerCache;
use switchboard::limits::Deadlines;
use switchboard::mcp::{Era, ProtocolVersion};
use switchboard::status::Unavailable;
use switchboard::{CallError, Event, Host, Readiness};
use switchboard_testkit::{Era as ScriptEra, MemoryServer, Script, Step};
use tokio::time::Instant;

fn methods(server: &MemoryServer) -> Vec<String> {
    let method = |message: &Value| message["method"].as_str().unwrap_or("response").to_owned();
    server.received().iter().map(method).collect()
}

fn version_of(host: &Host) -> ProtocolVersion {
    host.server_details("s").unwrap().handshake.unwrap().version
}

#[tokio::test(start_paused = true)]
async fn probe_detects_modern_server() {
    let (host, server) = host_with(Script::modern().tool("echo").instructions("be kind")).await;
    let mut methods = methods(&server);
    methods.sort();
    assert_eq!(
        methods,
        ["server/discover", "subscriptions/listen", "tools/list"]
    );
    assert_eq!(version_of(&host), ProtocolVersion::V2026_07_28);
    let handshake = host.server_details("s").unwrap().handshake.unwrap();
    assert_eq!(handshake.server_info.unwrap().name, "scripted");
    assert_eq!(handshake.instructions.unwrap(), "be kind");
    // Every modern request carries the protocol version, the client capabilities and the client
    // info.
    host.call("mcp__s__echo", json!({"message": "hi"}))
        .await
        .unwrap();
    for request in server.received() {
        let meta = &request["params"]["_meta"];
        assert_eq!(
            meta["io.modelcontextprotocol/protocolVersion"],
            "2026-07-28"
        );
        assert!(meta["io.modelcontextprotocol/clientCapabilities"].is_object());
        assert_eq!(
            meta["io.modelcontextprotocol/clientInfo"]["name"],
            "switchboard"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn rejected_probe_falls_back_to_initialize() {
    let (host, server) = host_with(Script::legacy().tool("echo")).await;
    assert_eq!(
        methods(&server),
        [
            "server/discover",
            "initialize",
            "notifications/initialized",
            "tools/list"
        ]
    );
    assert_eq!(version_of(&host), ProtocolVersion::V2025_11_25);
    assert_eq!(server.opened(), 1);
}

#[tokio::test(start_paused = true)]
async fn crash_on_probe_restarts_with_initialize() {
    let (host, server) =
        host_with(Script::of_era(ScriptEra::LegacyExitsOnProbe).tool("echo")).await;
    assert_eq!(version_of(&host), ProtocolVersion::V2025_11_25);
    assert_eq!(server.opened(), 2);
}

#[tokio::test(start_paused = true)]
async fn unanswered_probe_costs_two_seconds() {
    let server = MemoryServer::new(Script::of_era(ScriptEra::LegacySilentOnProbe).tool("echo"));
    let host = permissive()
        .connector("s", InMemory(server.clone()))
        .start()
        .unwrap();
    let start_time = Instant::now();
    host.wait_for(Readiness::All).await;
    assert_eq!(start_time.elapsed().as_secs(), 2);
    assert_eq!(version_of(&host), ProtocolVersion::V2025_11_25);
    assert_eq!(server.opened(), 1);
}

#[tokio::test(start_paused = true)]
async fn late_probe_response_still_wins() {
    let script = Script::modern()
        .tool("echo")
        .on(
            "server/discover",
            [Step::delay(Duration::from_secs(5)), Step::Default],
        )
        .on("initialize", [Step::Hang]);
    let (host, _) = host_with(script).await;
    assert_eq!(version_of(&host), ProtocolVersion::V2026_07_28);
    // Modern servers reject `initialize`. The probe also wins if this rejection arrives before the
    // response to the probe.
    let script = Script::modern().tool("echo").on(
        "server/discover",
        [Step::delay(Duration::from_secs(5)), Step::Default],
    );
    let (host, server) = host_with(script).await;
    assert_eq!(version_of(&host), ProtocolVersion::V2026_07_28);
    assert_eq!(server.opened(), 1);
}

#[tokio::test(start_paused = true)]
async fn error_without_id_ends_the_probe() {
    let rejection = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}"#;
    let server = MemoryServer::new(
        Script::legacy()
            .tool("echo")
            .on("server/discover", [Step::raw(rejection)]),
    );
    let host = permissive()
        .connector("s", InMemory(server))
        .start()
        .unwrap();
    let start_time = Instant::now();
    host.wait_for(Readiness::All).await;
    assert_eq!(version_of(&host), ProtocolVersion::V2025_11_25);
    assert!(start_time.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn unknown_protocol_version_fails() {
    let odd =
        json!({"protocolVersion": "1999-01-01", "capabilities": {}, "serverInfo": {"name": "x"}});
    let script = Script::legacy().on("initialize", [Step::Reply(odd)]);
    let (host, _) = host_with(script).await;
    let status = host.server_status("s").unwrap();
    assert_eq!(status.status.as_str(), "failed");
    let error = status.error.unwrap();
    assert!(
        error.starts_with("protocol version \"1999-01-01\" is not one of 2024-11-05,"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn non_json_lines_before_handshake_are_ignored() {
    let script = Script::legacy().tool("echo").on_start([
        Step::raw("Starting server v1.2 …"),
        Step::raw(r#"{"level":"info","msg":"listening"}"#),
        Step::raw(""),
        Step::raw("[2026-11-15] ready"),
    ]);
    let (host, _) = host_with(script).await;
    assert_eq!(tool_names(&host), ["mcp__s__echo"]);
}

#[tokio::test(start_paused = true)]
async fn silent_server_fails_at_startup_deadline() {
    let silent = Script::legacy()
        .on("server/discover", [Step::Hang])
        .on("initialize", [Step::Hang])
        .on_start([Step::raw("Usage: server [options]")]);
    let server = MemoryServer::new(silent);
    let host = permissive()
        .no_reconnect()
        .connector("s", InMemory(server))
        .start()
        .unwrap();
    let start_time = Instant::now();
    host.wait_for(Readiness::All).await;
    assert_eq!(start_time.elapsed().as_secs(), 30);
    let status = host.server_status("s").unwrap();
    assert_eq!(
        status.error.unwrap(),
        "no response to the handshake within 30s; it printed \"Usage: server [options]\" on stdout, \
         which is not an MCP message"
    );
    assert!(status.detail.unwrap().contains("startupTimeout"));
}

#[tokio::test(start_paused = true)]
async fn short_startup_deadline_leaves_time_for_initialize() {
    let mut deadlines = Deadlines::default();
    deadlines.startup = Duration::from_secs(1);
    for (script, status) in [
        (
            Script::of_era(ScriptEra::LegacySilentOnProbe).tool("echo"),
            "connected",
        ),
        (
            Script::legacy()
                .on("server/discover", [Step::Hang])
                .on("initialize", [Step::Hang]),
            "failed",
        ),
    ] {
        let server = InMemory(MemoryServer::new(script));
        let host = permissive()
            .no_reconnect()
            .deadlines(deadlines.clone())
            .connector("s", server)
            .start()
            .unwrap();
        let start_time = Instant::now();
        host.wait_for(Readiness::All).await;
        let actual = host.server_status("s").unwrap();
        assert_eq!(actual.status.as_str(), status, "{actual:?}");
        assert!(start_time.elapsed() <= Duration::from_secs(1));
    }
}

#[tokio::test(start_paused = true)]
async fn slow_server_delays_no_other() {
    let slow = Script::legacy()
        .on("initialize", [Step::Hang])
        .on("server/discover", [Step::Hang]);
    let host = permissive()
        .connector("slow", InMemory(MemoryServer::new(slow)))
        .connector(
            "s",
            InMemory(MemoryServer::new(Script::legacy().tool("echo"))),
        )
        .start()
        .unwrap();
    let start_time = Instant::now();
    host.wait_for(Readiness::First).await;
    assert!(start_time.elapsed() < Duration::from_secs(1));
    host.call("mcp__s__echo", json!({"message": "hi"}))
        .await
        .unwrap();
    host.wait_for(Readiness::Servers(vec![common::name("s")]))
        .await;
    assert!(start_time.elapsed() < Duration::from_secs(1));
    assert_eq!(
        host.server_status("slow").unwrap().status.as_str(),
        "pending"
    );
}

#[tokio::test(start_paused = true)]
async fn crashed_server_reconnects_and_keeps_tools() {
    let (host, server) = host_with(Script::legacy().tool("echo").tool("add")).await;
    let before = tool_names(&host);
    let mut events = host.events();
    server.kill();
    let mut seen = Vec::new();
    while seen.last() != Some(&"connected") {
        match events.next().await.unwrap() {
            Event::ServerChanged { status, .. } => {
                seen.push(status.as_str());
                assert_eq!(tool_names(&host), before);
            }
            Event::ToolsChanged {
                added,
                removed,
                changed,
                ..
            } => {
                panic!("the tool list changed: {added:?} {removed:?} {changed:?}")
            }
            _ => {}
        }
    }
    assert_eq!(server.opened(), 2);
    let generation = host.server_details("s").unwrap().generation;
    assert_eq!(generation.0, 2);
    host.call("mcp__s__echo", json!({"message": "back"}))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn call_to_disconnected_server_fails_at_once() {
    let (host, server) = host_with(Script::legacy().tool("echo")).await;
    let mut events = host.events();
    server.kill();
    while !matches!(events.next().await.unwrap(), Event::ServerChanged { .. }) {}
    assert!(host.tools().iter().all(|tool| !tool.available));
    let error = host
        .call("mcp__s__echo", json!({"message": "hi"}))
        .await
        .unwrap_err();
    match &error {
        CallError::Unavailable(Unavailable {
            retry_in: Some(wait),
            ..
        }) => {
            assert!(*wait <= Duration::from_millis(1_200), "{wait:?}");
        }
        other => panic!("{other:?}"),
    }
    assert!(error.is_transient());
}

#[tokio::test]
async fn crash_loop_ends_in_failed() {
    let folder = tempfile::tempdir().unwrap();
    let starts = folder.path().join("starts");
    let script = Script::legacy()
        .tool("echo")
        .on_start([Step::count(&starts)])
        .on("tools/list", [Step::Default, Step::Exit(3)]);
    let host = permissive()
        .launch(common::launch("s", common::child(&script, "crashes")))
        .start()
        .unwrap();
    let mut events = host.events();
    loop {
        if let Some(Event::ServerChanged { status, .. }) = events.next().await
            && status.as_str() == "failed"
        {
            break;
        }
    }
    assert_eq!(switchboard_testkit::count_lines(&starts), 5);
    let status = host.server_status("s").unwrap();
    assert_eq!(
        status.error.unwrap(),
        "crashed 5 times within 180 s: the server exited with code 3"
    );
    assert!(tool_names(&host).is_empty());
    // After the host has given up, an explicit `reconnect` still makes an attempt.
    let _ = host.reconnect("s").await;
    assert_eq!(switchboard_testkit::count_lines(&starts), 6);
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn broken_stream_is_reconnected_without_limit() {
    let script = Script::legacy().tool("echo").on(
        "tools/list",
        [
            Step::Default,
            Step::delay(Duration::from_secs(1)),
            Step::Exit(3),
        ],
    );
    let (host, server) = host_with(script).await;
    let mut events = host.events();
    while server.opened() < 10 {
        events.next().await.unwrap();
    }
    assert_eq!(tool_names(&host), ["mcp__s__echo"]);
}

#[tokio::test(start_paused = true)]
async fn no_reconnect_host_does_not_retry() {
    let server = MemoryServer::new(Script::legacy().on_start([Step::Exit(1)]));
    let host = permissive()
        .no_reconnect()
        .connector("s", InMemory(server.clone()))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    assert_eq!(host.server_status("s").unwrap().status.as_str(), "failed");
    // A single attempt opens two connections. The first sends the probe, the second only
    // `initialize`.
    assert_eq!(server.opened(), 2);
}

#[tokio::test(start_paused = true)]
async fn failed_listing_is_retried_while_connected() {
    let script = Script::legacy().tool("echo").on(
        "tools/list",
        [
            Step::until(2, [Step::error(-32603, "not yet")]),
            Step::after(3, [Step::Default]),
        ],
    );
    let (host, _) = host_with(script).await;
    let status = host.server_status("s").unwrap();
    assert_eq!(status.status.as_str(), "connected");
    assert_eq!(
        status.error.unwrap(),
        "listing the tools failed: the server returned an error: not yet (code -32603)"
    );
    let mut events = host.events();
    while !matches!(events.next().await.unwrap(), Event::ToolsChanged { .. }) {}
    assert_eq!(tool_names(&host), ["mcp__s__echo"]);
}

#[tokio::test(start_paused = true)]
async fn successful_era_is_cached() {
    #[derive(Default)]
    struct RecordingCache(std::sync::Mutex<Vec<(String, Era)>>);
    impl ServerCache for &'static RecordingCache {
        fn era(&self, key: &str) -> Option<Era> {
            let known = self.0.lock().unwrap();
            known
                .iter()
                .rev()
                .find(|(known, _)| known == key)
                .map(|(_, era)| *era)
        }
        fn remember_era(&self, key: &str, era: Era) {
            self.0.lock().unwrap().push((key.to_owned(), era));
        }
    }
    tokio::time::resume();
    let cache: &'static RecordingCache = Box::leak(Box::default());
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record");
    let script = Script::legacy().tool("echo").record(&record);
    for expected in [
        &[
            "server/discover",
            "initialize",
            "notifications/initialized",
            "tools/list",
        ][..],
        &["initialize", "notifications/initialized", "tools/list"],
    ] {
        let _ = std::fs::remove_file(&record);
        let host = permissive()
            .server_cache(cache)
            .launch(common::launch("s", common::child(&script, "remembered")))
            .start()
            .unwrap();
        host.wait_for(Readiness::All).await;
        assert_eq!(
            host.server_status("s").unwrap().status.as_str(),
            "connected"
        );
        host.shutdown().await;
        let received = switchboard_testkit::read_record(&record);
        let methods: Vec<_> = received
            .iter()
            .map(|message| message["method"].as_str().unwrap())
            .collect();
        assert_eq!(methods, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn wrong_cached_era_is_corrected() {
    #[derive(Default)]
    struct WrongCache;
    impl ServerCache for WrongCache {
        fn era(&self, _: &str) -> Option<Era> {
            Some(Era::Legacy)
        }
        fn remember_era(&self, _: &str, era: Era) {
            assert_eq!(era, Era::Modern);
        }
    }
    tokio::time::resume();
    let script = Script::modern().tool("echo");
    let host = permissive()
        .server_cache(WrongCache)
        .launch(common::launch("s", common::child(&script, "corrected")))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    assert_eq!(version_of(&host), ProtocolVersion::V2026_07_28);
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn startup_deadline_covers_tool_listing() {
    let page = r#"{"jsonrpc":"2.0","id":$ID,"result":{"tools":[],"nextCursor":"$ID"}}"#;
    for steps in [
        vec![Step::Hang],
        vec![Step::delay(Duration::from_secs(2)), Step::raw(page)],
    ] {
        let server = MemoryServer::new(Script::legacy().on("tools/list", steps));
        let host = permissive()
            .no_reconnect()
            .connector("s", InMemory(server))
            .start()
            .unwrap();
        let start_time = Instant::now();
        host.wait_for(Readiness::All).await;
        assert!(
            start_time.elapsed() <= Duration::from_secs(31),
            "{:?}",
            start_time.elapsed()
        );
        let error = host.server_status("s").unwrap().error.unwrap();
        assert!(
            error.starts_with("listing the tools failed: no response within"),
            "{error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn startup_deadline_is_configurable() {
    let mut deadlines = Deadlines::default();
    deadlines.startup = Duration::from_secs(4);
    let silent = Script::legacy()
        .on("server/discover", [Step::Hang])
        .on("initialize", [Step::Hang]);
    let host = permissive()
        .no_reconnect()
        .deadlines(deadlines)
        .connector("s", InMemory(MemoryServer::new(silent)))
        .start()
        .unwrap();
    let start_time = Instant::now();
    host.wait_for(Readiness::All).await;
    assert_eq!(start_time.elapsed().as_secs(), 4);
}
