//! Reuse and closing of connections, request headers, large bodies.

use tokio::sync::oneshot;

use super::*;

#[tokio::test]
async fn sequential_requests_share_one_connection() {
    let server = Server::responding(ok("hello")).await;
    let client = server.client();
    for _ in 0..20 {
        assert_eq!(
            read_text(client.send(post("x")).await.unwrap()).await,
            "hello"
        );
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_requests_reuse_connections() {
    const CALLERS: usize = 16;
    let server = Server::responding(ok("hello")).await;
    let client = server.client();
    let tasks = TaskTracker::new();
    for _ in 0..CALLERS {
        let client = client.clone();
        tasks.spawn(async move {
            for _ in 0..50 {
                assert_eq!(
                    read_text(client.send(post("x")).await.unwrap()).await,
                    "hello"
                );
            }
        });
    }
    tasks.close();
    tasks.wait().await;
    assert_eq!(server.received().matches("POST /mcp").count(), CALLERS * 50);
    assert!(server.connections() <= 2 * CALLERS);
}

#[tokio::test]
async fn request_head_is_complete() {
    let server = Server::responding(ok("")).await;
    let client = client(server.url("/a/b?c=d#e"));
    let request = || {
        let mut request = secret_post("body")();
        let value = HeaderValue::from_static("tools/call");
        request.headers.insert("mcp-method", value);
        request
    };
    client.send(request).await.unwrap();
    let received = server.received();
    assert!(
        received.starts_with("POST /a/b?c=d HTTP/1.1\r\n"),
        "{received}"
    );
    for line in [
        &format!("host: {}", server.address),
        "accept-encoding: gzip",
        concat!("user-agent: switchboard/", env!("CARGO_PKG_VERSION")),
        "mcp-method: tools/call",
        "authorization: Bearer very-secret",
        "content-length: 4",
    ] {
        assert!(
            received.contains(&format!("\r\n{line}\r\n")),
            "{line}: {received}"
        );
    }
}

#[tokio::test]
async fn closed_connection_is_not_reused() {
    let server = Server::start(|mut peer, _| async move {
        peer.request().await;
        peer.write(ok("one").as_bytes()).await;
    })
    .await;
    let client = server.client();
    for round in 1..=5 {
        assert_eq!(
            read_text(client.send(post("x")).await.unwrap()).await,
            "one"
        );
        assert_eq!(server.connections(), round);
        // Wait until hyper notices that the server closed the connection: from then on the pool is
        // empty.
        while client.0.pool.take().await.is_some() {}
    }
}

#[tokio::test]
async fn connection_announced_as_closing_is_not_reused() {
    for header in [
        "Connection: close",
        "Keep-Alive: timeout=1",
        "Keep-Alive: max=9, timeout=0",
    ] {
        let raw = format!("HTTP/1.1 200 OK\r\n{header}\r\nContent-Length: 2\r\n\r\nhi");
        let server = Server::responding(raw).await;
        let client = server.client();
        for round in 1..=3 {
            assert_eq!(read_text(client.send(post("x")).await.unwrap()).await, "hi");
            assert_eq!(server.connections(), round, "{header}");
        }
    }
}

#[tokio::test]
async fn dropping_unfinished_body_closes_connection() {
    let (closed, is_closed) = oneshot::channel();
    let closed = Mutex::new(Some(closed));
    let server = Server::start(move |mut peer, _| {
        let closed = lock(&closed).take();
        async move {
            peer.request().await;
            peer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n")
                .await;
            peer.wait_until_closed().await;
            closed.unwrap().send(()).unwrap();
        }
    })
    .await;
    let client = server.client();
    let mut response = client.send(post("x")).await.unwrap();
    assert_eq!(response.body.chunk().await.unwrap().unwrap(), "hi");
    drop(response);
    is_closed.await.unwrap();
    assert_eq!(client.0.pool.len(), 0);
}

#[tokio::test]
async fn dropping_pending_request_closes_connection() {
    let (arrived, has_arrived) = oneshot::channel();
    let (closed, is_closed) = oneshot::channel();
    let ends = Mutex::new(Some((arrived, closed)));
    let server = Server::start(move |mut peer, _| {
        let ends = lock(&ends).take();
        async move {
            let (arrived, closed) = ends.unwrap();
            peer.request().await;
            arrived.send(()).unwrap();
            peer.wait_until_closed().await;
            closed.send(()).unwrap();
        }
    })
    .await;
    let client = server.client();
    tokio::select! {
        _ = client.send(post("x")) => panic!("unexpected response"),
        _ = has_arrived => {}
    }
    is_closed.await.unwrap();
}

#[tokio::test]
async fn dropping_client_closes_connections_and_ends_tasks() {
    let (closed, is_closed) = oneshot::channel();
    let closed = Mutex::new(Some(closed));
    let server = Server::start(move |mut peer, _| {
        let closed = lock(&closed).take();
        async move {
            peer.request().await;
            peer.write(ok("hi").as_bytes()).await;
            peer.wait_until_closed().await;
            closed.unwrap().send(()).unwrap();
        }
    })
    .await;
    let tasks = TaskTracker::new();
    let target = Target {
        url: server.url("/"),
        tls: TlsConfig::default(),
    };
    let network = Arc::new(Network::new());
    let client = HttpClient::new(target, network, CONNECT_LIMIT, tasks.clone()).unwrap();
    assert_eq!(read_text(client.send(post("x")).await.unwrap()).await, "hi");
    assert!(!tasks.is_empty());
    drop(client);
    tasks.close();
    tasks.wait().await;
    is_closed.await.unwrap();
}

#[tokio::test]
async fn idle_connection_expires() {
    let (closed, is_closed) = oneshot::channel();
    let closed = Mutex::new(Some(closed));
    let server = Server::start(move |mut peer, _| {
        let closed = lock(&closed).take();
        async move {
            peer.request().await;
            peer.write(ok("hi").as_bytes()).await;
            peer.wait_until_closed().await;
            closed.unwrap().send(()).unwrap();
        }
    })
    .await;
    let client = server.client();
    assert_eq!(read_text(client.send(post("x")).await.unwrap()).await, "hi");
    assert_eq!(client.0.pool.len(), 1);
    tokio::time::pause();
    is_closed.await.unwrap();
    assert_eq!(client.0.pool.len(), 0);
}

#[tokio::test]
async fn large_bodies_arrive_complete() {
    let large: String = ('a'..='z').cycle().take(1_000_000).collect();
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{large}\r\n0\r\nX-Trailer: \
         1\r\n\r\n",
        large.len()
    );
    for raw in [ok(&large), chunked] {
        let server = Server::responding(raw).await;
        let client = server.client();
        for _ in 0..3 {
            assert!(read_text(client.send(post("x")).await.unwrap()).await == large);
        }
        assert_eq!(server.connections(), 1);
    }
}

#[tokio::test]
async fn connection_is_reused_after_empty_body() {
    let server = Server::responding("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n").await;
    let client = server.client();
    for _ in 0..3 {
        let response = client.send(post("x")).await.unwrap();
        assert_eq!(response.status, 202);
        assert!(response.body.has_released_connection());
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn cookies_are_ignored() {
    let raw = "HTTP/1.1 200 OK\r\nSet-Cookie: id=1\r\nContent-Length: 0\r\n\r\n";
    let server = Server::responding(raw).await;
    let client = server.client();
    for _ in 0..2 {
        client.send(post("x")).await.unwrap();
    }
    assert!(!server.received().to_lowercase().contains("cookie"));
}
