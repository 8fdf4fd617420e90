//! What is known of a request that was lost, and that none is ever sent twice.

use std::collections::HashMap;

use super::super::HttpErrorKind;
use super::*;
use crate::delivery::Delivery;

/// Runs a request against a server with this script, on a connection of its own.
async fn lost<F, S>(script: F) -> HttpError
where
    F: Fn(Peer, usize) -> S + Send + 'static,
    S: Future<Output = ()> + Send + 'static,
{
    let server = Server::start(script).await;
    failure(&server.client(), post("hello")).await
}

#[tokio::test]
async fn where_nobody_listens_nothing_was_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let url = Url::parse(&format!("http://{address}/")).unwrap();
    let error = failure(&client(url), post("x")).await;
    assert_eq!(error.delivery, Delivery::NotSent);
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_named_and_nothing_was_sent() {
    // Longer than a name can be: nobody has to be asked about it.
    let name = "a".repeat(70);
    let url = Url::parse(&format!("http://{name}.test/?key=hidden")).unwrap();
    let error = failure(&client(url), post("x")).await;
    assert_eq!(error.delivery, Delivery::NotSent);
    assert!(error.to_string().contains(&name), "{error}");
    assert!(!error.to_string().contains("hidden"), "{error}");
}

#[tokio::test]
async fn a_connection_that_does_not_come_about_in_time_carried_nothing() {
    let server = Server::start(|mut peer, _| async move { peer.until_closed().await }).await;
    let target = Target {
        url: Url::parse(&format!("https://{}/", server.address)).unwrap(),
        tls: TlsConfig::default(),
    };
    let limit = Duration::from_millis(50);
    let network = Arc::new(Network::new().without_platform_certificates());
    let client = HttpClient::new(target, network, limit, TaskTracker::new()).unwrap();
    let error = failure(&client, secret_post("x")).await;
    assert_eq!(error.delivery, Delivery::NotSent);
    assert!(
        matches!(error.kind, HttpErrorKind::ConnectTimeout { .. }),
        "{error:?}"
    );
    assert!(!server.seen().contains("secret"));
}

#[tokio::test]
async fn a_server_that_read_it_and_left_may_have_carried_it_out() {
    let error = lost(|mut peer, _| async move {
        peer.request().await;
    })
    .await;
    assert_eq!(error.delivery, Delivery::Unknown);
    assert!(
        matches!(error.kind, HttpErrorKind::Closed { .. }),
        "{error:?}"
    );

    let error = lost(|mut peer, _| async move {
        peer.request().await;
        peer.reset();
    })
    .await;
    assert_eq!(error.delivery, Delivery::Unknown);
}

#[tokio::test]
async fn half_a_request_that_was_read_is_unknown() {
    let server = Server::start(|mut peer, _| async move {
        peer.more().await;
        peer.reset();
    })
    .await;
    let large = "x".repeat(LIMIT);
    let error = failure(&server.client(), post(&large)).await;
    assert_eq!(error.delivery, Delivery::Unknown);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn half_an_answer_is_unknown() {
    let cases = [
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nha",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nha\r\n",
    ];
    for half in cases {
        for reset in [false, true] {
            let error = lost(move |mut peer, _| async move {
                peer.request().await;
                peer.write(half.as_bytes()).await;
                if reset {
                    peer.reset();
                }
            })
            .await;
            assert_eq!(error.delivery, Delivery::Unknown, "{half:?}: {error}");
        }
    }
}

/// A server that closes its connections at the worst moment, and counts what it read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whenever_a_kept_connection_is_closed_no_request_arrives_twice() {
    const ROUNDS: u64 = 400;
    let counts: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
    let counted = Arc::clone(&counts);
    let server = Server::start(move |mut peer, number| {
        let counts = Arc::clone(&counted);
        async move {
            let mut random = fastrand::Rng::with_seed(number as u64);
            let lives = random.usize(1..4);
            for life in 1..=lives {
                let Some(request) = peer.request().await else {
                    return;
                };
                let id = request.rsplit("\r\n\r\n").next().unwrap().to_owned();
                *lock(&counts).entry(id).or_default() += 1;
                peer.write(ok("done").as_bytes()).await;
                if life == lives {
                    // Some time around the moment at which the next one is written.
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
            Ok(incoming) => {
                assert_eq!(text(incoming).await, "done");
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
