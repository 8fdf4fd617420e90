//! HTTP servers: every transport, both eras, restarts, cancellation and health checks.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use switchboard::call::Delivery;
use switchboard::limits::Deadlines;
use switchboard::status::{ConnectionStatus, TransportKind};
use switchboard::{CallError, Host, HostBuilder, Readiness};
use switchboard_config::{RemoteKind, ServerConfig};
use switchboard_testkit::http::{Fault, HttpServer, Mode, ReceivedRequest, ResponseFormat};
use switchboard_testkit::{Script, Step};

use common::{launch, permissive, tool_names};

const ECHO: &str = "mcp__s__echo";

fn entry(server: &HttpServer, kind: RemoteKind) -> ServerConfig {
    ServerConfig::remote(server.url(), kind)
}

async fn start_with(builder: HostBuilder, config: ServerConfig) -> Host {
    let host = builder.launch(launch("s", config)).start().unwrap();
    host.wait_for(Readiness::All).await;
    host
}

async fn start_host(server: &HttpServer, kind: RemoteKind) -> Host {
    start_with(permissive(), entry(server, kind)).await
}

fn with_echo(script: Script) -> Script {
    script
        .tool("echo")
        .on("tools/call echo", [Step::text("hello")])
}

async fn call(host: &Host) -> Result<String, CallError> {
    let output = host.call(ECHO, json!({"message": "m"})).await?;
    Ok(output.to_text())
}

/// Waits until the only server has this status.
async fn wait_for_status(host: &Host, wanted: ConnectionStatus) {
    let mut events = host.events();
    while host.status()[0].status != wanted {
        tokio::time::timeout(Duration::from_secs(60), events.next())
            .await
            .unwrap();
    }
}

/// Deadlines with which the host pings a server after 200 ms without a message.
fn quick_health_checks() -> Deadlines {
    let mut deadlines = Deadlines::default();
    deadlines.ping_after_idle = Duration::from_millis(200);
    deadlines
}

/// Every transport of both eras, each with a config kind that connects to it.
fn transports() -> Vec<(Script, Mode, RemoteKind)> {
    vec![
        (Script::modern(), Mode::JSON, RemoteKind::Http),
        (Script::modern(), Mode::SSE, RemoteKind::Negotiated),
        (Script::legacy(), Mode::JSON, RemoteKind::Http),
        (Script::legacy(), Mode::SSE, RemoteKind::Negotiated),
        (Script::legacy(), Mode::STATELESS, RemoteKind::Http),
        (Script::legacy(), Mode::LegacySse, RemoteKind::Sse),
        (Script::legacy(), Mode::LegacySse, RemoteKind::Negotiated),
    ]
}

#[tokio::test]
async fn tools_work_over_every_transport() {
    for (script, mode, kind) in transports() {
        let server = HttpServer::start(with_echo(script), mode).await;
        let host = start_host(&server, kind).await;
        let status = &host.status()[0];
        assert_eq!(
            status.status,
            ConnectionStatus::Connected,
            "{mode:?}: {status:?}"
        );
        assert_eq!(tool_names(&host), [ECHO], "{mode:?}");
        assert_eq!(call(&host).await.unwrap(), "hello", "{mode:?}");
        assert_eq!(server.count("tools/call"), 1);
        host.shutdown().await;
    }
}

#[tokio::test]
async fn details_name_the_transport_that_was_detected() {
    let cases = [
        (Script::legacy(), Mode::LegacySse, TransportKind::Sse),
        (Script::legacy(), Mode::JSON, TransportKind::Http),
        (Script::modern(), Mode::JSON, TransportKind::Http),
    ];
    for (script, mode, transport) in cases {
        let server = HttpServer::start(with_echo(script), mode).await;
        let host = start_host(&server, RemoteKind::Negotiated).await;
        assert_eq!(host.server_details("s").unwrap().transport, transport);
        host.shutdown().await;
    }
}

#[tokio::test]
async fn sse_entry_for_streamable_server_gets_a_hint() {
    for (script, mode) in [
        (Script::modern(), Mode::JSON),
        (Script::legacy(), Mode::STATELESS),
    ] {
        let server = HttpServer::start(with_echo(script), mode).await;
        let host = start_host(&server, RemoteKind::Sse).await;
        let status = host.server_status("s").unwrap();
        let error = status.error.unwrap();
        assert!(error.contains("\"type\": \"http\""), "{error}");
        host.shutdown().await;
    }
}

#[tokio::test]
async fn retry_after_is_part_of_the_error() {
    let server = HttpServer::start(with_echo(Script::modern()), Mode::JSON).await;
    let host = start_host(&server, RemoteKind::Http).await;
    let busy = Fault::status(429).header("Retry-After", "7");
    server.arm(busy.on("tools/call"));
    let error = call(&host).await.unwrap_err().to_string();
    assert!(error.contains("it asks to wait 7s"), "{error}");
    host.shutdown().await;
}

#[tokio::test]
async fn modern_headers_mirror_the_body() {
    let server = HttpServer::start(with_echo(Script::modern()), Mode::JSON).await;
    let host = start_host(&server, RemoteKind::Http).await;
    call(&host).await.unwrap();
    host.shutdown().await;
    for request in server.requests() {
        let body = request.json();
        assert_eq!(request.method, "POST");
        assert_eq!(request.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(request.header("mcp-method"), body["method"].as_str());
        assert_eq!(request.header("mcp-name"), body["params"]["name"].as_str());
        assert_eq!(request.header("mcp-session-id"), None);
        let meta = &body["params"]["_meta"];
        assert_eq!(
            meta["io.modelcontextprotocol/protocolVersion"],
            "2026-07-28"
        );
    }
}

#[tokio::test]
async fn legacy_session_id_is_sent_and_deleted() {
    let server = HttpServer::start(with_echo(Script::legacy()), Mode::JSON).await;
    let host = start_host(&server, RemoteKind::Http).await;
    call(&host).await.unwrap();
    host.shutdown().await;
    let requests = server.requests();
    let after = requests
        .iter()
        .skip_while(|request| request.rpc_method().as_deref() != Some("initialize"))
        .skip(1);
    let after: Vec<_> = after.collect();
    assert!(after.len() > 3, "{requests:?}");
    for request in &after {
        assert!(request.header("mcp-session-id").is_some(), "{request:?}");
        assert_eq!(request.header("mcp-protocol-version"), Some("2025-11-25"));
    }
    assert_eq!(after.last().unwrap().method, "DELETE");
}

#[tokio::test]
async fn call_on_expired_session_is_sent_once_and_next_call_runs() {
    // Without a stream from the server, only the response to the call tells that the session
    // expired.
    let mode = Mode::Streamable {
        format: ResponseFormat::Json,
        session: true,
        get_stream: false,
    };
    let server = HttpServer::start(with_echo(Script::legacy()), mode).await;
    let host = start_host(&server, RemoteKind::Http).await;
    let before = host.server_details("s").unwrap().generation;
    server.expire_sessions();
    let error = call(&host).await.unwrap_err();
    assert_eq!(error.delivery(), Delivery::NotSent);
    assert!(error.is_transient());
    assert!(error.to_string().contains("call it again"), "{error}");
    assert_eq!(server.requests_with("tools/call").len(), 1);
    assert_eq!(call(&host).await.unwrap(), "hello");
    assert_eq!(server.count("tools/call"), 1);
    assert_eq!(server.requests_with("tools/call").len(), 2);
    assert!(host.server_details("s").unwrap().generation > before);
    host.shutdown().await;
}

#[tokio::test]
async fn stopped_server_is_detected_and_reconnected() {
    for (script, mode, kind) in transports() {
        let server = HttpServer::start(with_echo(script), mode).await;
        let builder = permissive().deadlines(quick_health_checks());
        let host = start_with(builder, entry(&server, kind)).await;
        server.stop().await;
        wait_for_status(&host, ConnectionStatus::Pending).await;
        assert_eq!(tool_names(&host), [ECHO], "the tools disappeared");
        server.restart().await;
        wait_for_status(&host, ConnectionStatus::Connected).await;
        assert_eq!(call(&host).await.unwrap(), "hello", "{mode:?}");
        assert_eq!(server.count("tools/call"), 1, "{mode:?}");
        host.shutdown().await;
    }
}

#[tokio::test]
async fn call_waits_for_restarting_server() {
    let server = HttpServer::start(with_echo(Script::modern()), Mode::JSON).await;
    let host = start_host(&server, RemoteKind::Http).await;
    server.stop().await;
    let (outcome, ()) = tokio::join!(call(&host), async {
        wait_for_status(&host, ConnectionStatus::Pending).await;
        server.restart().await;
    });
    assert_eq!(outcome.unwrap(), "hello");
    assert_eq!(server.count("tools/call"), 1);
    host.shutdown().await;
}

#[tokio::test]
async fn connection_lost_after_execution_is_outcome_unknown() {
    for (script, mode, kind) in transports() {
        for fault in [
            Fault::close_after_execution(),
            Fault::close_in_response(20),
            Fault::status(502),
        ] {
            let server = HttpServer::start(with_echo(script.clone()), mode).await;
            let host = start_host(&server, kind).await;
            server.arm(fault.clone().on("tools/call").after_execution());
            match call(&host).await {
                Err(error) => assert_eq!(
                    error.delivery(),
                    Delivery::Unknown,
                    "{mode:?} {fault:?} {error}"
                ),
                // The transport of revision 2024-11-05 returns responses on a separate stream,
                // which survives the failed POST.
                Ok(_) => assert_eq!(mode, Mode::LegacySse, "{fault:?}"),
            }
            assert_eq!(server.count("tools/call"), 1);
            host.shutdown().await;
        }
    }
}

#[tokio::test]
async fn list_changed_notification_refreshes_tools() {
    for (script, mode, kind) in [
        (Script::modern(), Mode::SSE, RemoteKind::Http),
        (Script::legacy(), Mode::JSON, RemoteKind::Http),
        (Script::legacy(), Mode::LegacySse, RemoteKind::Sse),
    ] {
        let server = HttpServer::start(with_echo(script), mode).await;
        let host = start_host(&server, kind).await;
        server
            .wait_until("a listen stream is open", |server| {
                server.open_streams() > 0
            })
            .await;
        let before = server.count("tools/list");
        server
            .push_notification("notifications/tools/list_changed", json!({}))
            .await;
        server.wait_count("tools/list", before + 1).await;
        host.shutdown().await;
    }
}

#[tokio::test]
async fn dropped_call_is_cancelled_at_server() {
    let hanging = |script: Script| script.tool("echo").on("tools/call echo", [Step::Hang]);
    let server = HttpServer::start(hanging(Script::modern()), Mode::JSON).await;
    let host = start_host(&server, RemoteKind::Http).await;
    {
        let call = call(&host);
        tokio::pin!(call);
        tokio::select! {
            outcome = &mut call => panic!("{outcome:?}"),
            () = server.wait_count("tools/call", 1) => {}
        }
    }
    let idle = server.open_streams();
    server
        .wait_until("the connection of the call is closed", |server| {
            server.open_connections() <= idle + 1
        })
        .await;
    host.shutdown().await;

    let server = HttpServer::start(hanging(Script::legacy()), Mode::JSON).await;
    let host = start_host(&server, RemoteKind::Http).await;
    {
        let call = call(&host);
        tokio::pin!(call);
        tokio::select! {
            outcome = &mut call => panic!("{outcome:?}"),
            () = server.wait_count("tools/call", 1) => {}
        }
    }
    server
        .wait_until("the cancellation arrives", |server| {
            let mut requests = server.requests().into_iter();
            requests
                .any(|request| request.rpc_method().as_deref() == Some("notifications/cancelled"))
        })
        .await;
    host.shutdown().await;
}

#[tokio::test]
async fn interrupted_stream_is_resumed() {
    let server = HttpServer::start(with_echo(Script::legacy()), Mode::SSE).await;
    let host = start_host(&server, RemoteKind::Http).await;
    let soon = Duration::from_millis(10);
    server.arm(Fault::end_stream_with_retry(soon).on("tools/call"));
    assert_eq!(call(&host).await.unwrap(), "hello");
    assert_eq!(server.count("tools/call"), 1);
    let requests = server.requests();
    let is_resumption = |request: &ReceivedRequest| {
        request.method == "GET" && request.header("last-event-id").is_some()
    };
    assert!(requests.iter().any(is_resumption), "{requests:?}");
    host.shutdown().await;
}

#[tokio::test]
async fn server_needing_login_gets_no_requests() {
    let server = HttpServer::start(with_echo(Script::modern()), Mode::JSON).await;
    server.require_bearer("the-right-token");
    let host = start_host(&server, RemoteKind::Http).await;
    assert_eq!(host.status()[0].status, ConnectionStatus::NeedsAuth);
    let request_count = server.requests().len();
    assert!(call(&host).await.is_err());
    assert_eq!(server.requests().len(), request_count);
    host.shutdown().await;
    let config = entry(&server, RemoteKind::Http).header("Authorization", "Bearer the-right-token");
    let host = start_with(permissive(), config).await;
    assert_eq!(call(&host).await.unwrap(), "hello");
    host.shutdown().await;
}

#[tokio::test]
async fn repeated_failures_open_the_circuit() {
    let server = HttpServer::start(with_echo(Script::modern()), Mode::JSON).await;
    let host = start_host(&server, RemoteKind::Http).await;
    server.arm(Fault::status(500).on("tools/call").always());
    for _ in 0..5 {
        assert_eq!(call(&host).await.unwrap_err().delivery(), Delivery::Unknown);
    }
    wait_for_status(&host, ConnectionStatus::Pending).await;
    let error = host.status()[0].error.clone().unwrap();
    assert!(
        error.contains("too many requests failed in a row"),
        "{error}"
    );
    host.shutdown().await;
}

#[tokio::test]
async fn silent_server_is_pinged() {
    for (script, mode, kind, health_check) in [
        (
            Script::modern(),
            Mode::STATELESS,
            RemoteKind::Http,
            "server/discover",
        ),
        (Script::legacy(), Mode::STATELESS, RemoteKind::Http, "ping"),
        (Script::legacy(), Mode::LegacySse, RemoteKind::Sse, "ping"),
    ] {
        let server = HttpServer::start(with_echo(script), mode).await;
        let builder = permissive().deadlines(quick_health_checks());
        let host = start_with(builder, entry(&server, kind)).await;
        let before = server.count(health_check);
        server.wait_count(health_check, before + 2).await;
        assert_eq!(host.status()[0].status, ConnectionStatus::Connected);
        server.stop().await;
        wait_for_status(&host, ConnectionStatus::Pending).await;
        host.shutdown().await;
    }
}

#[tokio::test]
async fn servers_are_checked_after_system_suspend() {
    let suspended_seconds = Arc::new(AtomicU64::new(0));
    let clock = Arc::clone(&suspended_seconds);
    let server = HttpServer::start(with_echo(Script::modern()), Mode::STATELESS).await;
    let builder =
        permissive().suspend_clock(move || Duration::from_secs(clock.load(Ordering::Relaxed)));
    let host = start_with(builder, entry(&server, RemoteKind::Http)).await;
    let before = server.count("server/discover");
    suspended_seconds.store(3600, Ordering::Relaxed);
    server.wait_count("server/discover", before + 1).await;
    host.shutdown().await;
}

#[tokio::test]
async fn progress_arrives_over_every_transport() {
    for (script, mode, kind) in transports() {
        let script = script.tool("echo").on(
            "tools/call echo",
            [Step::progress(1), Step::progress(2), Step::text("hello")],
        );
        let server = HttpServer::start(script, mode).await;
        let host = start_host(&server, kind).await;
        let mut progress = Vec::new();
        let output = host
            .call(ECHO, json!({"message": "m"}))
            .on_progress(|note| progress.push(note.progress))
            .await
            .unwrap();
        assert_eq!(output.to_text(), "hello");
        assert_eq!(progress, [1.0, 2.0], "{mode:?}");
        host.shutdown().await;
    }
}

#[tokio::test]
async fn arguments_are_mirrored_in_declared_headers() {
    let schema = json!({
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    });
    let bad = json!({
        "type": "object",
        "properties": {"size": {"type": "number", "x-mcp-header": "Size"}},
    });
    let script = Script::modern()
        .raw_tool(json!({"name": "echo", "inputSchema": schema}))
        .raw_tool(json!({"name": "bad", "inputSchema": bad}))
        .on("tools/call echo", [Step::text("hello")]);
    let server = HttpServer::start(script, Mode::JSON).await;
    let host = start_host(&server, RemoteKind::Http).await;
    assert_eq!(tool_names(&host), [ECHO]);
    let notes = host.server_details("s").unwrap().notes;
    assert!(notes.iter().any(|note| note.contains("bad")), "{notes:?}");
    let arguments = json!({"region": "Zürich"});
    host.call(ECHO, arguments).await.unwrap();
    let requests = server.requests();
    let call = requests
        .iter()
        .find(|request| request.rpc_method().as_deref() == Some("tools/call"));
    let header = call.unwrap().header("mcp-param-region");
    assert_eq!(header, Some("=?base64?WsO8cmljaA==?="));
    host.shutdown().await;
}

#[tokio::test]
async fn server_down_at_start_affects_no_other() {
    let down = HttpServer::start(with_echo(Script::modern()), Mode::JSON).await;
    down.stop().await;
    let up = HttpServer::start(with_echo(Script::modern()), Mode::JSON).await;
    let host = permissive()
        .launch(launch("down", entry(&down, RemoteKind::Http)))
        .launch(launch("s", entry(&up, RemoteKind::Http)))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    assert_eq!(call(&host).await.unwrap(), "hello");
    let status = host.server_status("down").unwrap();
    assert_eq!(status.status, ConnectionStatus::Pending);
    assert!(
        status.error.unwrap().contains("cannot connect"),
        "{:?}",
        status.detail
    );
    host.shutdown().await;
}

#[tokio::test]
async fn busy_server_is_not_considered_dead() {
    // A serial server does not respond to a ping while it executes a call.
    let long = [Step::delay(Duration::from_millis(1500)), Step::text("done")];
    let script = Script::legacy()
        .serial()
        .tool("echo")
        .on("tools/call echo", long);
    let server = HttpServer::start(script, Mode::STATELESS).await;
    let mut deadlines = quick_health_checks();
    deadlines.ping_timeout = Duration::from_millis(200);
    let builder = permissive().deadlines(deadlines);
    let host = start_with(builder, entry(&server, RemoteKind::Http)).await;
    assert_eq!(call(&host).await.unwrap(), "done");
    assert_eq!(server.count("tools/call"), 1);
    host.shutdown().await;
}

#[tokio::test]
async fn credential_repeated_by_server_is_masked() {
    let token = "a-secret-test-token";
    let tool = json!({
        "name": "echo",
        "title": format!("Echo {token}"),
        "description": format!("Knows {token}"),
        "inputSchema": {"type": "object"},
    });
    for (script, mode, kind) in transports() {
        let script = script
            .raw_tool(tool.clone())
            .instructions(&format!("say {token}"));
        let server = HttpServer::start(script, mode).await;
        let config = entry(&server, kind).header("Authorization", format!("Bearer {token}"));
        let host = start_with(permissive(), config).await;
        let output = format!("{:?} {:?}", host.server_details("s").unwrap(), host.tools());
        assert!(
            output.contains("Knows ***") && output.contains("say ***"),
            "{output}"
        );
        assert!(!output.contains(token), "{output}");
        host.shutdown().await;
    }
}
