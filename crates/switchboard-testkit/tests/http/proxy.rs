//! A proxy between the client and a scripted server.

use std::io::ErrorKind;
use std::time::Duration;

use serde_json::json;
use switchboard_testkit::Script;
use switchboard_testkit::http::{FaultProxy, How, HttpServer, Link, Mode, Way};
use tokio::time::timeout;

use crate::client::Wire;

async fn server() -> HttpServer {
    HttpServer::start(Script::modern().tool("echo"), Mode::JSON).await
}

async fn proxy(server: &HttpServer, link: Link) -> FaultProxy {
    FaultProxy::start(server.address(), move |_| link.clone()).await
}

fn to_server(at: usize, how: How) -> Link {
    Link {
        to_server: Way::broken(at, how),
        ..Link::SOUND
    }
}

fn to_client(at: usize, how: How) -> Link {
    Link {
        to_client: Way::broken(at, how),
        ..Link::SOUND
    }
}

async fn call(wire: &mut Wire) {
    let params = json!({"name": "echo", "arguments": {"message": "hi"}});
    wire.send_modern("tools/call", params).await;
}

#[test]
fn the_same_seed_draws_the_same_plans() {
    let plans = |seed| (0..50).map(move |connection| Link::draw(seed, connection, 500));
    assert!(plans(7).eq(plans(7)));
    assert!(plans(7).ne(plans(8)));
    assert!(plans(7).any(|link| link.is_refused));
    assert!(plans(7).any(|link| link == Link::SOUND || link.to_server.fault.is_none()));
}

#[tokio::test]
async fn all_passes_in_pieces_until_it_is_armed() {
    let server = server().await;
    let mut link = to_client(0, How::Close);
    link.to_server.piece = 3;
    let proxy = proxy(&server, link).await;
    assert_eq!(
        proxy.url(&server.url()),
        format!("http://{}/mcp", proxy.address())
    );
    let mut wire = Wire::to(proxy.address()).await;
    call(&mut wire).await;
    assert_eq!(wire.answer().await.unwrap().status, 200);
    proxy.arm();
    call(&mut wire).await;
    assert_eq!(wire.rest().await, (Vec::new(), ErrorKind::UnexpectedEof));
    assert_eq!(server.count("tools/call"), 2);
    assert_eq!(proxy.used().len(), 1);
}

#[tokio::test]
async fn a_request_is_cut_where_the_plan_says_so() {
    for (how, end) in [
        (How::Close, ErrorKind::UnexpectedEof),
        (How::Reset, ErrorKind::ConnectionReset),
    ] {
        let server = server().await;
        let proxy = proxy(&server, to_server(100, how)).await;
        proxy.arm();
        let mut wire = Wire::to(proxy.address()).await;
        call(&mut wire).await;
        assert_eq!(wire.rest().await, (Vec::new(), end), "{how:?}");
        server
            .wait_until("it is over", |server| server.open_connections() == 0)
            .await;
        assert_eq!(server.count("tools/call"), 0);
        if how == How::Close {
            assert_eq!(server.received_bytes().len(), 100);
        }
    }
}

#[tokio::test]
async fn an_answer_is_cut_where_the_plan_says_so() {
    let server = server().await;
    let proxy = proxy(&server, to_client(12, How::Close)).await;
    proxy.arm();
    let mut wire = Wire::to(proxy.address()).await;
    call(&mut wire).await;
    let end = (b"HTTP/1.1 200".to_vec(), ErrorKind::UnexpectedEof);
    assert_eq!(wire.rest().await, end);
    assert_eq!(server.count("tools/call"), 1);
}

#[tokio::test]
async fn what_is_swallowed_or_silenced_is_never_answered() {
    for how in [How::Swallow, How::Silence, How::HalfClose] {
        let server = server().await;
        let proxy = proxy(&server, to_server(50, how)).await;
        proxy.arm();
        let mut wire = Wire::to(proxy.address()).await;
        call(&mut wire).await;
        if how == How::HalfClose {
            assert_eq!(wire.rest().await.0, b"");
        } else {
            let answer = timeout(Duration::from_millis(20), wire.answer()).await;
            assert!(answer.is_err(), "{how:?}: {answer:?}");
        }
        assert_eq!(server.count("tools/call"), 0);
    }
}

#[tokio::test]
async fn a_delay_passes_and_a_calm_proxy_does_nothing() {
    let server = server().await;
    let delay = How::Delay(Duration::from_millis(5));
    let proxy = proxy(&server, to_server(10, delay)).await;
    proxy.arm();
    let mut wire = Wire::to(proxy.address()).await;
    call(&mut wire).await;
    assert_eq!(wire.answer().await.unwrap().status, 200);

    let refusing = Link {
        is_refused: true,
        ..Link::SOUND
    };
    let proxy = FaultProxy::start(server.address(), move |_| refusing.clone()).await;
    proxy.arm();
    let mut refused = Wire::to(proxy.address()).await;
    assert_eq!(refused.rest().await.1, ErrorKind::ConnectionReset);
    proxy.calm();
    let mut wire = Wire::to(proxy.address()).await;
    call(&mut wire).await;
    assert_eq!(wire.answer().await.unwrap().status, 200);
    proxy.drop_connections().await;
    assert_eq!(wire.rest().await.1, ErrorKind::UnexpectedEof);
}
