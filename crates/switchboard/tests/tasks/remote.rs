//! Tasks of HTTP servers.

use super::modern::{created, done, server_with_task, task_state};
use super::*;

use common::launch;
use switchboard_config::{RemoteKind, ServerConfig};
use switchboard_testkit::http::{Fault, HttpServer, Mode};

async fn start_host(server: &HttpServer) -> Host {
    let config = ServerConfig::remote(server.url(), RemoteKind::Http);
    let host = permissive().launch(launch("s", config)).start().unwrap();
    host.wait_for(Readiness::All).await;
    host
}

fn task_created() -> Step {
    created(json!({"pollIntervalMs": 50}))
}

fn task_state_soon(status: &str) -> Step {
    task_state(status, json!({"pollIntervalMs": 50}))
}

#[tokio::test]
async fn task_requests_carry_task_id_header() {
    let poll_replies = [
        Step::until(1, [task_state_soon("working")]),
        Step::after(2, [done("42")]),
    ];
    for mode in [Mode::JSON, Mode::SSE] {
        let script = server_with_task(poll_replies.clone()).on("tools/call work", [task_created()]);
        let server = HttpServer::start(script, mode).await;
        let host = start_host(&server).await;
        assert_eq!(call_work(&host).await.unwrap().to_text(), "42");
        let seen = server.requests_with("tasks/get");
        assert_eq!(seen.len(), 2);
        for seen in seen {
            assert_eq!(seen.header("mcp-method"), Some("tasks/get"));
            assert_eq!(seen.header("mcp-name"), Some("t-1"));
        }
        host.shutdown().await;
    }
}

#[tokio::test]
async fn shutdown_sends_pending_task_cancellations() {
    let script = server_with_task([task_state_soon("working")]);
    let server = HttpServer::start(script, Mode::JSON).await;
    let host = start_host(&server).await;
    {
        let call = call_work(&host);
        tokio::pin!(call);
        let polled = async {
            while server.requests_with("tasks/get").is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            outcome = &mut call => panic!("{outcome:?}"),
            () = polled => {}
        }
    }
    host.shutdown().await;
    let cancelled = server.requests_with("tasks/cancel");
    assert_eq!(cancelled.len(), 1);
    assert_eq!(cancelled[0].header("mcp-name"), Some("t-1"));
}

#[tokio::test]
async fn failed_poll_requests_are_retried() {
    let faults = [
        Fault::status(503),
        Fault::close_after_execution(),
        Fault::close_before_execution(),
    ];
    for fault in faults {
        let poll_replies = [
            Step::until(1, [task_state_soon("working")]),
            Step::after(2, [done("42")]),
        ];
        let script = server_with_task(poll_replies)
            .on("tools/call work", [Step::count("executed"), task_created()]);
        let server = HttpServer::start(script, Mode::JSON).await;
        let host = start_host(&server).await;
        server.arm(fault.on("tasks/get").times(1));
        assert_eq!(call_work(&host).await.unwrap().to_text(), "42");
        assert_eq!(server.count("executed"), 1);
        host.shutdown().await;
    }
}

#[tokio::test]
async fn task_survives_expired_session() {
    let script = legacy::server_with_task([
        Step::until(2, [legacy::task_state_soon("working")]),
        Step::after(3, [legacy::task_state_soon("completed")]),
    ]);
    let server = HttpServer::start(script, Mode::JSON).await;
    let host = start_host(&server).await;
    server.arm(Fault::status(404).on("tasks/get").times(1));
    assert_eq!(call_work(&host).await.unwrap().to_text(), "42");
    assert_eq!(server.count("executed"), 1);
    assert_eq!(server.requests_with("initialize").len(), 2);
    host.shutdown().await;
}
