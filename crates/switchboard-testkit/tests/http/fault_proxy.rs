//! The fault proxy between a client and a scripted server.

use std::io::ErrorKind;
use std::time::Duration;

use serde_json::json;
use switchboard_testkit::Script;
use switchboard_testkit::http::{
    ConnectionPlan, DirectionPlan, FaultKind, FaultProxy, HttpServer, Mode,
};
use tokio::time::timeout;

use crate::client::HttpClient;

async fn server() -> HttpServer {
    HttpServer::start(Script::modern().tool("echo"), Mode::JSON).await
}

async fn proxy(server: &HttpServer, plan: ConnectionPlan) -> FaultProxy {
    FaultProxy::start(server.address(), move |_| plan.clone()).await
}

fn to_server(at: usize, kind: FaultKind) -> ConnectionPlan {
    ConnectionPlan {
        to_server: DirectionPlan::with_fault(at, kind),
        ..ConnectionPlan::NO_FAULT
    }
}

fn to_client(at: usize, kind: FaultKind) -> ConnectionPlan {
    ConnectionPlan {
        to_client: DirectionPlan::with_fault(at, kind),
        ..ConnectionPlan::NO_FAULT
    }
}

async fn call(client: &mut HttpClient) {
    let params = json!({"name": "echo", "arguments": {"message": "hi"}});
    client.send_modern("tools/call", params).await;
}

#[test]
fn same_seed_gives_same_plans() {
    let plans =
        |seed| (0..50).map(move |connection| ConnectionPlan::from_seed(seed, connection, 500));
    assert!(plans(7).eq(plans(7)));
    assert!(plans(7).ne(plans(8)));
    assert!(plans(7).any(|plan| plan.is_refused));
    assert!(
        plans(7).any(|plan| plan == ConnectionPlan::NO_FAULT || plan.to_server.fault.is_none())
    );
}

#[tokio::test]
async fn unarmed_proxy_forwards_everything() {
    let server = server().await;
    let mut plan = to_client(0, FaultKind::Close);
    plan.to_server.write_bytes = 3;
    let proxy = proxy(&server, plan).await;
    assert_eq!(
        proxy.url(&server.url()),
        format!("http://{}/mcp", proxy.address())
    );
    let mut client = HttpClient::connect(proxy.address()).await;
    call(&mut client).await;
    assert_eq!(client.response().await.unwrap().status, 200);
    proxy.arm();
    call(&mut client).await;
    assert_eq!(client.rest().await, (Vec::new(), ErrorKind::UnexpectedEof));
    assert_eq!(server.count("tools/call"), 2);
    assert_eq!(proxy.plans().len(), 1);
}

#[tokio::test]
async fn request_is_cut_at_planned_byte() {
    for (kind, end) in [
        (FaultKind::Close, ErrorKind::UnexpectedEof),
        (FaultKind::Reset, ErrorKind::ConnectionReset),
    ] {
        let server = server().await;
        let proxy = proxy(&server, to_server(100, kind)).await;
        proxy.arm();
        let mut client = HttpClient::connect(proxy.address()).await;
        call(&mut client).await;
        assert_eq!(client.rest().await, (Vec::new(), end), "{kind:?}");
        server
            .wait_until("the connection is closed", |server| {
                server.open_connections() == 0
            })
            .await;
        assert_eq!(server.count("tools/call"), 0);
        if kind == FaultKind::Close {
            assert_eq!(server.received_bytes().len(), 100);
        }
    }
}

#[tokio::test]
async fn response_is_cut_at_planned_byte() {
    let server = server().await;
    let proxy = proxy(&server, to_client(12, FaultKind::Close)).await;
    proxy.arm();
    let mut client = HttpClient::connect(proxy.address()).await;
    call(&mut client).await;
    let end = (b"HTTP/1.1 200".to_vec(), ErrorKind::UnexpectedEof);
    assert_eq!(client.rest().await, end);
    assert_eq!(server.count("tools/call"), 1);
}

#[tokio::test]
async fn discarded_requests_get_no_response() {
    for kind in [FaultKind::Discard, FaultKind::Stall, FaultKind::HalfClose] {
        let server = server().await;
        let proxy = proxy(&server, to_server(50, kind)).await;
        proxy.arm();
        let mut client = HttpClient::connect(proxy.address()).await;
        call(&mut client).await;
        if kind == FaultKind::HalfClose {
            assert_eq!(client.rest().await.0, b"");
        } else {
            let response = timeout(Duration::from_millis(20), client.response()).await;
            assert!(response.is_err(), "{kind:?}: {response:?}");
        }
        assert_eq!(server.count("tools/call"), 0);
    }
}

#[tokio::test]
async fn delays_end_and_disarm_stops_faults() {
    let server = server().await;
    let delay = FaultKind::Delay(Duration::from_millis(5));
    let proxy = proxy(&server, to_server(10, delay)).await;
    proxy.arm();
    let mut client = HttpClient::connect(proxy.address()).await;
    call(&mut client).await;
    assert_eq!(client.response().await.unwrap().status, 200);

    let refusing = ConnectionPlan {
        is_refused: true,
        ..ConnectionPlan::NO_FAULT
    };
    let proxy = FaultProxy::start(server.address(), move |_| refusing.clone()).await;
    proxy.arm();
    let mut refused = HttpClient::connect(proxy.address()).await;
    assert_eq!(refused.rest().await.1, ErrorKind::ConnectionReset);
    proxy.disarm();
    let mut client = HttpClient::connect(proxy.address()).await;
    call(&mut client).await;
    assert_eq!(client.response().await.unwrap().status, 200);
    proxy.drop_connections().await;
    assert_eq!(client.rest().await.1, ErrorKind::UnexpectedEof);
}
