//! Delivery of failed requests: *not sent* or *unknown*; no request is sent twice.

use std::collections::HashMap;

use super::super::HttpErrorKind;
use super::*;
use crate::delivery::Delivery;

/// Sends one request to a server that runs `script` and returns the error.
async fn error_with<F, S>(script: F) -> HttpError
where
    F: Fn(Peer, usize) -> S + Send + 'static,
    S: Future<Output = ()> + Send + 'static,
{
    let server = Server::start(script).await;
    expect_error(&server.client(), post("hello")).await
}

#[tokio::test]
async fn refused_connection_sends_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let url = Url::parse(&format!("http://{address}/")).unwrap();
    let error = expect_error(&client(url), post("x")).await;
    assert_eq!(error.delivery, Delivery::NotSent);
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[tokio::test]
async fn unresolvable_host_sends_nothing() {
    // A label of more than 63 characters fails without a DNS query.
    let name = "a".repeat(70);
    let url = Url::parse(&format!("http://{name}.test/?key=hidden")).unwrap();
    let error = expect_error(&client(url), post("x")).await;
    assert_eq!(error.delivery, Delivery::NotSent);
    assert!(error.to_string().contains(&name), "{error}");
    assert!(!error.to_string().contains("hidden"), "{error}");
}

#[tokio::test]
async fn request_is_sent_once_the_connection_is_open() {
    for (scheme, delivery) in [("https", Delivery::NotSent), ("http", Delivery::Unknown)] {
        // The server never responds: neither to the TLS handshake nor to the request.
        let server = Server::start(|mut peer, _| async move { peer.wait_until_closed().await });
        let server = server.await;
        let client = client(Url::parse(&format!("{scheme}://{}/", server.address)).unwrap());
        let sent = SentFlag::default();
        let request = || HttpRequest {
            sent: sent.clone(),
            ..post("x")()
        };
        let response = tokio::time::timeout(Duration::from_millis(200), client.send(request));
        assert!(response.await.is_err());
        assert_eq!(sent.delivery(), delivery, "{scheme}");
    }
}

#[tokio::test]
async fn connect_timeout_sends_nothing() {
    let server = Server::start(|mut peer, _| async move { peer.wait_until_closed().await }).await;
    let target = Target {
        url: Url::parse(&format!("https://{}/", server.address)).unwrap(),
        tls: TlsConfig::default(),
    };
    let limit = Duration::from_millis(50);
    let network = Arc::new(Network::new().without_platform_certificates());
    let client = HttpClient::new(target, network, limit, TaskTracker::new()).unwrap();
    let error = expect_error(&client, secret_post("x")).await;
    assert_eq!(error.delivery, Delivery::NotSent);
    assert!(
        matches!(error.kind, HttpErrorKind::ConnectTimeout { .. }),
        "{error:?}"
    );
    assert!(!server.received().contains("secret"));
}

#[tokio::test]
async fn close_after_request_is_unknown() {
    let error = error_with(|mut peer, _| async move {
        peer.request().await;
    })
    .await;
    assert_eq!(error.delivery, Delivery::Unknown);
    assert!(
        matches!(error.kind, HttpErrorKind::ClosedBeforeResponse { .. }),
        "{error:?}"
    );

    let error = error_with(|mut peer, _| async move {
        peer.request().await;
        peer.reset();
    })
    .await;
    assert_eq!(error.delivery, Delivery::Unknown);
}

#[tokio::test]
async fn reset_during_request_is_unknown() {
    let server = Server::start(|mut peer, _| async move {
        peer.read_more().await;
        peer.reset();
    })
    .await;
    let large = "x".repeat(LIMIT);
    let error = expect_error(&server.client(), post(&large)).await;
    assert_eq!(error.delivery, Delivery::Unknown);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn close_during_response_is_unknown() {
    let cases = [
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nha",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nha\r\n",
    ];
    for part in cases {
        for reset in [false, true] {
            let error = error_with(move |mut peer, _| async move {
                peer.request().await;
                peer.write(part.as_bytes()).await;
                if reset {
                    peer.reset();
                }
            })
            .await;
            assert_eq!(error.delivery, Delivery::Unknown, "{part:?}: {error}");
        }
    }
}

/// The server closes idle connections around the moment at which the client writes its next
/// request, and counts the requests that it reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_arrives_twice_when_idle_connections_close() {
    const ROUNDS: u64 = 400;
    let counts: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
    let server_counts = Arc::clone(&counts);
    let server = Server::start(move |mut peer, index| {
        let counts = Arc::clone(&server_counts);
        async move {
            let mut random = fastrand::Rng::with_seed(index as u64);
            let requests = random.usize(1..4);
            for number in 1..=requests {
                let Some(request) = peer.request().await else {
                    return;
                };
                let id = request.rsplit("\r\n\r\n").next().unwrap().to_owned();
                *lock(&counts).entry(id).or_default() += 1;
                peer.write(ok("done").as_bytes()).await;
                if number == requests {
                    // Wait a random time, so that the connection is closed shortly before, while or
                    // after the client writes its next request.
                    for _ in 0..random.usize(0..40) {
                        tokio::task::yield_now().await;
                    }
                    if random.bool() {
                        peer.reset();
                        return;
                    }
                }
            }
        }
    })
    .await;
    let client = server.client();
    let (mut answered, mut unknown) = (0, 0);
    for round in 0..ROUNDS {
        let id = format!("call-{round}");
        let mut random = fastrand::Rng::with_seed(round);
        for _ in 0..random.usize(0..40) {
            tokio::task::yield_now().await;
        }
        match client.send(post(&id)).await {
            Ok(response) => {
                assert_eq!(read_text(response).await, "done");
                assert_eq!(lock(&counts).get(&id), Some(&1));
                answered += 1;
            }
            Err(error) => {
                let count = lock(&counts).get(&id).copied().unwrap_or(0);
                match error.delivery {
                    Delivery::NotSent => assert_eq!(count, 0, "{id}: {error}"),
                    _ => unknown += 1,
                }
            }
        }
    }
    assert!(lock(&counts).values().all(|count| *count == 1));
    assert!(
        answered > ROUNDS / 2,
        "{answered} answered, {unknown} unknown"
    );
}
