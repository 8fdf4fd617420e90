//! Tasks of servers behind a URL.

use super::modern::{created, done, state, working};
use super::*;

use common::launch;
use switchboard_config::{RemoteKind, ServerConfig};
use switchboard_testkit::http::{Fault, HttpServer, Mode};

async fn connected(server: &HttpServer) -> Host {
    let config = ServerConfig::remote(server.url(), RemoteKind::Http);
    let host = permissive().launch(launch("s", config)).start().unwrap();
    host.wait_for(Readiness::All).await;
    host
}

fn begun() -> Step {
    created(json!({"pollIntervalMs": 50}))
}

fn soon(status: &str) -> Step {
    state(status, json!({"pollIntervalMs": 50}))
}

#[tokio::test]
async fn a_task_is_named_in_the_headers_of_what_concerns_it() {
    let looks = [
        Step::until(1, [soon("working")]),
        Step::after(2, [done("42")]),
    ];
    for mode in [Mode::JSON, Mode::SSE] {
        let script = working(looks.clone()).on("tools/call work", [begun()]);
        let server = HttpServer::start(script, mode).await;
        let host = connected(&server).await;
        assert_eq!(work(&host).await.unwrap().to_text(), "42");
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
async fn a_task_that_nobody_waits_for_is_cancelled_even_at_the_very_end() {
    let script = working([soon("working")]);
    let server = HttpServer::start(script, Mode::JSON).await;
    let host = connected(&server).await;
    {
        let call = work(&host);
        tokio::pin!(call);
        let looked = async {
            while server.requests_with("tasks/get").is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            outcome = &mut call => panic!("{outcome:?}"),
            () = looked => {}
        }
    }
    host.shutdown().await;
    let cancelled = server.requests_with("tasks/cancel");
    assert_eq!(cancelled.len(), 1);
    assert_eq!(cancelled[0].header("mcp-name"), Some("t-1"));
}

#[tokio::test]
async fn what_fails_on_the_way_to_a_task_is_asked_again() {
    let faults = [
        Fault::status(503),
        Fault::close_after_execution(),
        Fault::close_before_execution(),
    ];
    for fault in faults {
        let looks = [
            Step::until(1, [soon("working")]),
            Step::after(2, [done("42")]),
        ];
        let script = working(looks).on("tools/call work", [Step::count("executed"), begun()]);
        let server = HttpServer::start(script, Mode::JSON).await;
        let host = connected(&server).await;
        server.arm(fault.on("tasks/get").times(1));
        assert_eq!(work(&host).await.unwrap().to_text(), "42");
        assert_eq!(server.count("executed"), 1);
        host.shutdown().await;
    }
}

#[tokio::test]
async fn a_task_outlives_the_session_that_a_server_forgot() {
    let script = legacy::working([
        Step::until(2, [legacy::soon("working")]),
        Step::after(3, [legacy::soon("completed")]),
    ]);
    let server = HttpServer::start(script, Mode::JSON).await;
    let host = connected(&server).await;
    server.arm(Fault::status(404).on("tasks/get").times(1));
    assert_eq!(work(&host).await.unwrap().to_text(), "42");
    assert_eq!(server.count("executed"), 1);
    assert_eq!(server.requests_with("initialize").len(), 2);
    host.shutdown().await;
}
