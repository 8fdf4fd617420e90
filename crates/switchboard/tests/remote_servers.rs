//! Servers behind a URL: every transport, both eras, and what happens when they go away.

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
use switchboard::status::ConnectionStatus;
use switchboard::{CallError, Host, HostBuilder, Readiness};
use switchboard_config::{RemoteKind, ServerConfig};
use switchboard_testkit::http::{Fault, HttpServer, Mode, ReceivedRequest};
use switchboard_testkit::{Script, Step};

use common::{launch, permissive, tool_names};

const ECHO: &str = "mcp__s__echo";

fn entry(server: &HttpServer, kind: RemoteKind) -> ServerConfig {
    ServerConfig::remote(server.url(), kind)
}

async fn started(builder: HostBuilder, config: ServerConfig) -> Host {
    let host = builder.launch(launch("s", config)).start().unwrap();
    host.wait_for(Readiness::All).await;
    host
}

async fn connected(server: &HttpServer, kind: RemoteKind) -> Host {
    started(permissive(), entry(server, kind)).await
}

fn echoing(script: Script) -> Script {
    script
        .tool("echo")
        .on("tools/call echo", [Step::text("hello")])
}

async fn call(host: &Host) -> Result<String, CallError> {
    let output = host.call(ECHO, json!({"message": "m"})).await?;
    Ok(output.to_text())
}

/// Waits until the one server is in this state.
async fn until(host: &Host, wanted: ConnectionStatus) {
    let mut events = host.events();
    while host.status()[0].status != wanted {
        tokio::time::timeout(Duration::from_secs(60), events.next())
            .await
            .unwrap();
    }
}

/// Servers are asked soon whether they are there.
fn impatient() -> Deadlines {
    let mut deadlines = Deadlines::default();
    deadlines.silence = Duration::from_millis(200);
    deadlines
}

/// All the ways in which a server can be spoken to.
fn ways() -> Vec<(Script, Mode, RemoteKind)> {
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
async fn tools_are_listed_and_called_whichever_way() {
    for (script, mode, kind) in ways() {
        let server = HttpServer::start(echoing(script), mode).await;
        let host = connected(&server, kind).await;
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
async fn a_modern_request_says_in_its_headers_what_its_body_says() {
    let server = HttpServer::start(echoing(Script::modern()), Mode::JSON).await;
    let host = connected(&server, RemoteKind::Http).await;
    call(&host).await.unwrap();
    host.shutdown().await;
    for seen in server.requests() {
        let body = seen.json();
        assert_eq!(seen.method, "POST");
        assert_eq!(seen.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(seen.header("mcp-method"), body["method"].as_str());
        assert_eq!(seen.header("mcp-name"), body["params"]["name"].as_str());
        assert_eq!(seen.header("mcp-session-id"), None);
        let meta = &body["params"]["_meta"];
        assert_eq!(
            meta["io.modelcontextprotocol/protocolVersion"],
            "2026-07-28"
        );
    }
}

#[tokio::test]
async fn a_legacy_session_is_named_in_every_request_and_taken_leave_of() {
    let server = HttpServer::start(echoing(Script::legacy()), Mode::JSON).await;
    let host = connected(&server, RemoteKind::Http).await;
    call(&host).await.unwrap();
    host.shutdown().await;
    let seen = server.requests();
    let after = seen
        .iter()
        .skip_while(|seen| seen.rpc_method().as_deref() != Some("initialize"))
        .skip(1);
    let after: Vec<_> = after.collect();
    assert!(after.len() > 3, "{seen:?}");
    for seen in &after {
        assert!(seen.header("mcp-session-id").is_some(), "{seen:?}");
        assert_eq!(seen.header("mcp-protocol-version"), Some("2025-11-25"));
    }
    assert_eq!(after.last().unwrap().method, "DELETE");
}

#[tokio::test]
async fn a_session_that_the_server_forgot_is_made_anew_and_the_call_is_made_once() {
    let server = HttpServer::start(echoing(Script::legacy()), Mode::JSON).await;
    let host = connected(&server, RemoteKind::Http).await;
    let before = host.server_details("s").unwrap().generation;
    server.expire_sessions();
    assert_eq!(call(&host).await.unwrap(), "hello");
    assert_eq!(server.count("tools/call"), 1);
    assert!(host.server_details("s").unwrap().generation > before);
    host.shutdown().await;
}

#[tokio::test]
async fn a_server_that_went_away_is_seen_to_be_gone_and_comes_back() {
    for (script, mode, kind) in ways() {
        let server = HttpServer::start(echoing(script), mode).await;
        let builder = permissive().deadlines(impatient());
        let host = started(builder, entry(&server, kind)).await;
        server.stop().await;
        until(&host, ConnectionStatus::Pending).await;
        assert_eq!(tool_names(&host), [ECHO], "its tools stay listed");
        server.restart().await;
        until(&host, ConnectionStatus::Connected).await;
        assert_eq!(call(&host).await.unwrap(), "hello", "{mode:?}");
        assert_eq!(server.count("tools/call"), 1, "{mode:?}");
        host.shutdown().await;
    }
}

#[tokio::test]
async fn a_call_in_the_middle_of_a_restart_is_delivered_once_it_is_over() {
    let server = HttpServer::start(echoing(Script::modern()), Mode::JSON).await;
    let host = connected(&server, RemoteKind::Http).await;
    server.stop().await;
    let (answer, ()) = tokio::join!(call(&host), async {
        until(&host, ConnectionStatus::Pending).await;
        server.restart().await;
    });
    assert_eq!(answer.unwrap(), "hello");
    assert_eq!(server.count("tools/call"), 1);
    host.shutdown().await;
}

#[tokio::test]
async fn what_broke_off_after_it_was_sent_is_of_unknown_outcome_and_not_repeated() {
    for (script, mode, kind) in ways() {
        for fault in [
            Fault::close_after_execution(),
            Fault::close_in_answer(20),
            Fault::status(502),
        ] {
            let server = HttpServer::start(echoing(script.clone()), mode).await;
            let host = connected(&server, kind).await;
            server.arm(fault.clone().on("tools/call").after_execution());
            match call(&host).await {
                Err(error) => assert_eq!(
                    error.delivery(),
                    Delivery::Unknown,
                    "{mode:?} {fault:?} {error}"
                ),
                // Where answers have a stream of their own, they do not break off with the request.
                Ok(_) => assert_eq!(mode, Mode::LegacySse, "{fault:?}"),
            }
            assert_eq!(server.count("tools/call"), 1);
            host.shutdown().await;
        }
    }
}

#[tokio::test]
async fn changed_tools_are_noticed() {
    for (script, mode, kind) in [
        (Script::modern(), Mode::SSE, RemoteKind::Http),
        (Script::legacy(), Mode::JSON, RemoteKind::Http),
        (Script::legacy(), Mode::LegacySse, RemoteKind::Sse),
    ] {
        let server = HttpServer::start(echoing(script), mode).await;
        let host = connected(&server, kind).await;
        server
            .wait_until("somebody listens", |server| server.open_streams() > 0)
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
async fn a_call_that_nobody_waits_for_is_cancelled() {
    let hanging = |script: Script| script.tool("echo").on("tools/call echo", [Step::Hang]);
    let server = HttpServer::start(hanging(Script::modern()), Mode::JSON).await;
    let host = connected(&server, RemoteKind::Http).await;
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
        .wait_until("its connection is closed", |server| {
            server.open_connections() <= idle + 1
        })
        .await;
    host.shutdown().await;

    let server = HttpServer::start(hanging(Script::legacy()), Mode::JSON).await;
    let host = connected(&server, RemoteKind::Http).await;
    {
        let call = call(&host);
        tokio::pin!(call);
        tokio::select! {
            outcome = &mut call => panic!("{outcome:?}"),
            () = server.wait_count("tools/call", 1) => {}
        }
    }
    server
        .wait_until("it is told", |server| {
            let mut seen = server.requests().into_iter();
            seen.any(|seen| seen.rpc_method().as_deref() == Some("notifications/cancelled"))
        })
        .await;
    host.shutdown().await;
}

#[tokio::test]
async fn a_stream_that_broke_off_is_taken_up_again() {
    let server = HttpServer::start(echoing(Script::legacy()), Mode::SSE).await;
    let host = connected(&server, RemoteKind::Http).await;
    let soon = Duration::from_millis(10);
    server.arm(Fault::end_stream_with_retry(soon).on("tools/call"));
    assert_eq!(call(&host).await.unwrap(), "hello");
    assert_eq!(server.count("tools/call"), 1);
    let seen = server.requests();
    let is_resumption =
        |seen: &ReceivedRequest| seen.method == "GET" && seen.header("last-event-id").is_some();
    assert!(seen.iter().any(is_resumption), "{seen:?}");
    host.shutdown().await;
}

#[tokio::test]
async fn a_server_that_wants_a_login_is_not_asked_again() {
    let server = HttpServer::start(echoing(Script::modern()), Mode::JSON).await;
    server.require_bearer("the-right-token");
    let host = connected(&server, RemoteKind::Http).await;
    assert_eq!(host.status()[0].status, ConnectionStatus::NeedsAuth);
    let asked = server.requests().len();
    assert!(call(&host).await.is_err());
    assert_eq!(server.requests().len(), asked);
    host.shutdown().await;
    let config = entry(&server, RemoteKind::Http).header("Authorization", "Bearer the-right-token");
    let host = started(permissive(), config).await;
    assert_eq!(call(&host).await.unwrap(), "hello");
    host.shutdown().await;
}

#[tokio::test]
async fn a_server_that_fails_one_call_after_the_other_is_left_alone_for_a_while() {
    let server = HttpServer::start(echoing(Script::modern()), Mode::JSON).await;
    let host = connected(&server, RemoteKind::Http).await;
    server.arm(Fault::status(500).on("tools/call").always());
    for _ in 0..5 {
        assert_eq!(call(&host).await.unwrap_err().delivery(), Delivery::Unknown);
    }
    until(&host, ConnectionStatus::Pending).await;
    let error = host.status()[0].error.clone().unwrap();
    assert!(
        error.contains("too many requests failed in a row"),
        "{error}"
    );
    host.shutdown().await;
}

#[tokio::test]
async fn a_silent_server_is_asked_whether_it_is_there() {
    for (script, mode, kind, asked) in [
        (
            Script::modern(),
            Mode::STATELESS,
            RemoteKind::Http,
            "server/discover",
        ),
        (Script::legacy(), Mode::STATELESS, RemoteKind::Http, "ping"),
        (Script::legacy(), Mode::LegacySse, RemoteKind::Sse, "ping"),
    ] {
        let server = HttpServer::start(echoing(script), mode).await;
        let builder = permissive().deadlines(impatient());
        let host = started(builder, entry(&server, kind)).await;
        let before = server.count(asked);
        server.wait_count(asked, before + 2).await;
        assert_eq!(host.status()[0].status, ConnectionStatus::Connected);
        server.stop().await;
        until(&host, ConnectionStatus::Pending).await;
        host.shutdown().await;
    }
}

#[tokio::test]
async fn after_a_sleep_all_servers_are_looked_after_at_once() {
    let asleep = Arc::new(AtomicU64::new(0));
    let clock = Arc::clone(&asleep);
    let server = HttpServer::start(echoing(Script::modern()), Mode::STATELESS).await;
    let builder =
        permissive().suspend_clock(move || Duration::from_secs(clock.load(Ordering::Relaxed)));
    let host = started(builder, entry(&server, RemoteKind::Http)).await;
    let before = server.count("server/discover");
    asleep.store(3600, Ordering::Relaxed);
    server.wait_count("server/discover", before + 1).await;
    host.shutdown().await;
}

#[tokio::test]
async fn progress_of_a_call_is_heard() {
    for (script, mode, kind) in ways() {
        let script = script.tool("echo").on(
            "tools/call echo",
            [Step::progress(1), Step::progress(2), Step::text("hello")],
        );
        let server = HttpServer::start(script, mode).await;
        let host = connected(&server, kind).await;
        let mut heard = Vec::new();
        let output = host
            .call(ECHO, json!({"message": "m"}))
            .on_progress(|note| heard.push(note.progress))
            .await
            .unwrap();
        assert_eq!(output.to_text(), "hello");
        assert_eq!(heard, [1.0, 2.0], "{mode:?}");
        host.shutdown().await;
    }
}

#[tokio::test]
async fn arguments_are_mirrored_in_headers_where_the_tool_asks_for_it() {
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
    let host = connected(&server, RemoteKind::Http).await;
    assert_eq!(tool_names(&host), [ECHO]);
    let notes = host.server_details("s").unwrap().notes;
    assert!(notes.iter().any(|note| note.contains("bad")), "{notes:?}");
    let arguments = json!({"region": "Zürich"});
    host.call(ECHO, arguments).await.unwrap();
    let seen = server.requests();
    let call = seen
        .iter()
        .find(|seen| seen.rpc_method().as_deref() == Some("tools/call"));
    let header = call.unwrap().header("mcp-param-region");
    assert_eq!(header, Some("=?base64?WsO8cmljaA==?="));
    host.shutdown().await;
}

#[tokio::test]
async fn a_server_that_is_down_at_the_start_costs_nothing_but_its_own_tools() {
    let down = HttpServer::start(echoing(Script::modern()), Mode::JSON).await;
    down.stop().await;
    let up = HttpServer::start(echoing(Script::modern()), Mode::JSON).await;
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
        status.error.unwrap().contains("no connection"),
        "{:?}",
        status.detail
    );
    host.shutdown().await;
}

#[tokio::test]
async fn a_server_that_is_busy_with_a_call_is_not_taken_for_dead() {
    // Answers nothing else while it works.
    let long = [Step::delay(Duration::from_millis(1500)), Step::text("done")];
    let script = Script::legacy()
        .serial()
        .tool("echo")
        .on("tools/call echo", long);
    let server = HttpServer::start(script, Mode::STATELESS).await;
    let mut deadlines = impatient();
    deadlines.sign_of_life = Duration::from_millis(200);
    let builder = permissive().deadlines(deadlines);
    let host = started(builder, entry(&server, RemoteKind::Http)).await;
    assert_eq!(call(&host).await.unwrap(), "done");
    assert_eq!(server.count("tools/call"), 1);
    host.shutdown().await;
}

#[tokio::test]
async fn a_credential_that_a_server_repeats_is_masked_in_all_that_it_says_of_itself() {
    let token = "a-token-of-somebody";
    let tool = json!({
        "name": "echo",
        "title": format!("Echo {token}"),
        "description": format!("Knows {token}"),
        "inputSchema": {"type": "object"},
    });
    for (script, mode, kind) in ways() {
        let script = script
            .raw_tool(tool.clone())
            .instructions(&format!("say {token}"));
        let server = HttpServer::start(script, mode).await;
        let config = entry(&server, kind).header("Authorization", format!("Bearer {token}"));
        let host = started(permissive(), config).await;
        let told = format!("{:?} {:?}", host.server_details("s").unwrap(), host.tools());
        assert!(
            told.contains("Knows ***") && told.contains("say ***"),
            "{told}"
        );
        assert!(!told.contains(token), "{told}");
        host.shutdown().await;
    }
}
