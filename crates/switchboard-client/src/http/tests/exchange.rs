//! Connections: used again, closed, given back.

use tokio::sync::oneshot;

use super::*;

#[tokio::test]
async fn one_connection_serves_one_request_after_the_other() {
    let server = Server::answering(ok("hello")).await;
    let client = server.client();
    for _ in 0..20 {
        assert_eq!(text(client.send(post("x")).await.unwrap()).await, "hello");
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_a_time_are_answered_on_few_connections() {
    const CALLERS: usize = 16;
    let server = Server::answering(ok("hello")).await;
    let client = server.client();
    let tasks = TaskTracker::new();
    for _ in 0..CALLERS {
        let client = client.clone();
        tasks.spawn(async move {
            for _ in 0..50 {
                assert_eq!(text(client.send(post("x")).await.unwrap()).await, "hello");
            }
        });
    }
    tasks.close();
    tasks.wait().await;
    assert_eq!(server.seen().matches("POST /mcp").count(), CALLERS * 50);
    assert!(server.connections() <= 2 * CALLERS);
}

#[tokio::test]
async fn the_head_is_as_it_should_be() {
    let server = Server::answering(ok("")).await;
    let client = client(server.url("/a/b?c=d#e"));
    let request = || {
        let mut request = secret_post("body")();
        let value = HeaderValue::from_static("tools/call");
        request.headers.insert("mcp-method", value);
        request
    };
    client.send(request).await.unwrap();
    let seen = server.seen();
    assert!(seen.starts_with("POST /a/b?c=d HTTP/1.1\r\n"), "{seen}");
    for line in [
        &format!("host: {}", server.address),
        "accept-encoding: gzip",
        concat!("user-agent: switchboard/", env!("CARGO_PKG_VERSION")),
        "mcp-method: tools/call",
        "authorization: Bearer very-secret",
        "content-length: 4",
    ] {
        assert!(seen.contains(&format!("\r\n{line}\r\n")), "{line}: {seen}");
    }
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_not_used_again() {
    let server = Server::start(|mut peer, _| async move {
        peer.request().await;
        peer.write(ok("one").as_bytes()).await;
    })
    .await;
    let client = server.client();
    for round in 1..=5 {
        assert_eq!(text(client.send(post("x")).await.unwrap()).await, "one");
        assert_eq!(server.connections(), round);
        // The end of the connection is noticed with the next look at it.
        while client.0.pool.take().await.is_some() {}
    }
}

#[tokio::test]
async fn what_the_server_closes_or_says_it_will_close_is_not_kept() {
    for header in [
        "Connection: close",
        "Keep-Alive: timeout=1",
        "Keep-Alive: max=9, timeout=0",
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\n{header}\r\nContent-Length: 2\r\n\r\nhi");
        let server = Server::answering(answer).await;
        let client = server.client();
        for round in 1..=3 {
            assert_eq!(text(client.send(post("x")).await.unwrap()).await, "hi");
            assert_eq!(server.connections(), round, "{header}");
        }
    }
}

#[tokio::test]
async fn a_body_that_is_dropped_before_its_end_closes_the_connection() {
    let (closed, is_closed) = oneshot::channel();
    let closed = Mutex::new(Some(closed));
    let server = Server::start(move |mut peer, _| {
        let closed = lock(&closed).take();
        async move {
            peer.request().await;
            peer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n")
                .await;
            peer.until_closed().await;
            closed.unwrap().send(()).unwrap();
        }
    })
    .await;
    let client = server.client();
    let mut incoming = client.send(post("x")).await.unwrap();
    assert_eq!(incoming.body.chunk().await.unwrap().unwrap(), "hi");
    drop(incoming);
    is_closed.await.unwrap();
    assert_eq!(client.0.pool.len(), 0);
}

#[tokio::test]
async fn a_request_that_is_dropped_before_its_answer_closes_the_connection() {
    let (arrived, has_arrived) = oneshot::channel();
    let (closed, is_closed) = oneshot::channel();
    let ends = Mutex::new(Some((arrived, closed)));
    let server = Server::start(move |mut peer, _| {
        let ends = lock(&ends).take();
        async move {
            let (arrived, closed) = ends.unwrap();
            peer.request().await;
            arrived.send(()).unwrap();
            peer.until_closed().await;
            closed.send(()).unwrap();
        }
    })
    .await;
    let client = server.client();
    tokio::select! {
        _ = client.send(post("x")) => panic!("there is no answer"),
        _ = has_arrived => {}
    }
    is_closed.await.unwrap();
}

#[tokio::test]
async fn nothing_is_left_of_a_client_that_is_dropped() {
    let (closed, is_closed) = oneshot::channel();
    let closed = Mutex::new(Some(closed));
    let server = Server::start(move |mut peer, _| {
        let closed = lock(&closed).take();
        async move {
            peer.request().await;
            peer.write(ok("hi").as_bytes()).await;
            peer.until_closed().await;
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
    assert_eq!(text(client.send(post("x")).await.unwrap()).await, "hi");
    assert!(!tasks.is_empty());
    drop(client);
    tasks.close();
    tasks.wait().await;
    is_closed.await.unwrap();
}

#[tokio::test]
async fn an_unused_connection_is_closed_after_a_while() {
    let (closed, is_closed) = oneshot::channel();
    let closed = Mutex::new(Some(closed));
    let server = Server::start(move |mut peer, _| {
        let closed = lock(&closed).take();
        async move {
            peer.request().await;
            peer.write(ok("hi").as_bytes()).await;
            peer.until_closed().await;
            closed.unwrap().send(()).unwrap();
        }
    })
    .await;
    let client = server.client();
    assert_eq!(text(client.send(post("x")).await.unwrap()).await, "hi");
    assert_eq!(client.0.pool.len(), 1);
    tokio::time::pause();
    is_closed.await.unwrap();
    assert_eq!(client.0.pool.len(), 0);
}

#[tokio::test]
async fn a_large_body_comes_whole_and_one_piece_is_not_copied() {
    let large: String = ('a'..='z').cycle().take(1_000_000).collect();
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{large}\r\n0\r\nX-Trailer: \
         1\r\n\r\n",
        large.len()
    );
    for answer in [ok(&large), chunked] {
        let server = Server::answering(answer).await;
        let client = server.client();
        for _ in 0..3 {
            assert!(text(client.send(post("x")).await.unwrap()).await == large);
        }
        assert_eq!(server.connections(), 1);
    }
}

#[tokio::test]
async fn answers_without_a_body_leave_the_connection_in_use() {
    let server = Server::answering("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n").await;
    let client = server.client();
    for _ in 0..3 {
        let incoming = client.send(post("x")).await.unwrap();
        assert_eq!(incoming.status, 202);
        assert!(incoming.body.is_done());
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn cookies_are_neither_kept_nor_sent() {
    let answer = "HTTP/1.1 200 OK\r\nSet-Cookie: id=1\r\nContent-Length: 0\r\n\r\n";
    let server = Server::answering(answer).await;
    let client = server.client();
    for _ in 0..2 {
        client.send(post("x")).await.unwrap();
    }
    assert!(!server.seen().to_lowercase().contains("cookie"));
}
