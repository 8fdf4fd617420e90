//! Proxies: forwarded and tunnelled requests, and the data that a proxy must not see.

use super::tls::{Authority, serve_tls};
use super::*;
use crate::delivery::Delivery;

fn network(proxy: &Server) -> Network {
    let address = format!("http://me:proxy-secret@{}", proxy.address);
    let network = Network::new().http_proxy(&address).unwrap();
    network.https_proxy(&address).unwrap()
}

#[tokio::test]
async fn plain_http_requests_are_forwarded_with_full_url() {
    let proxy = Server::responding(ok("from the proxy")).await;
    let url = Url::parse("http://server.test:81/mcp?a=b").unwrap();
    let client = client_with(url, TlsConfig::default(), network(&proxy));
    for _ in 0..2 {
        let response = client.send(post("x")).await.unwrap();
        assert_eq!(read_text(response).await, "from the proxy");
    }
    let received = proxy.received();
    assert!(
        received.starts_with("POST http://server.test:81/mcp?a=b HTTP/1.1\r\n"),
        "{received}"
    );
    assert!(
        received.contains("\r\nhost: server.test:81\r\n"),
        "{received}"
    );
    assert!(
        received.contains("\r\nproxy-authorization: Basic bWU6cHJveHktc2VjcmV0\r\n"),
        "{received}"
    );
    assert_eq!(proxy.connections(), 1);
    let error = expect_error(&client, secret_post("x")).await;
    assert_eq!(error.delivery, Delivery::NotSent);
}

#[tokio::test]
async fn tunnelling_proxy_sees_no_credential() {
    let authority = Authority::new();
    let acceptor = authority.issue("server.test").acceptor(None);
    let target = Server::start(move |peer, _| {
        let acceptor = acceptor.clone();
        async move { serve_tls(&acceptor, peer.stream).await }
    })
    .await;
    let address = target.address;
    let proxy = Server::start(move |mut peer, _| async move {
        peer.request().await;
        peer.write(b"HTTP/1.1 200 Connection established\r\nX-Proxy: 1\r\n\r\n")
            .await;
        let mut upstream = TcpStream::connect(address).await.unwrap();
        let mut buffer = [0; 4096];
        loop {
            tokio::select! {
                outcome = peer.read_more() => match outcome {
                    Some(()) => upstream.write_all(&std::mem::take(&mut peer.buffer)).await.unwrap(),
                    None => return,
                },
                outcome = upstream.read(&mut buffer) => match outcome {
                    Ok(length) if length > 0 => peer.write(&buffer[..length]).await,
                    _ => return,
                },
            }
        }
    })
    .await;
    let url = Url::parse("https://server.test/mcp").unwrap();
    let client = client_with(url, authority.tls(), network(&proxy));
    for _ in 0..3 {
        assert_eq!(
            read_text(client.send(secret_post("x")).await.unwrap()).await,
            "hi"
        );
    }
    assert_eq!((proxy.connections(), target.connections()), (1, 1));
    let received = proxy.received();
    let expected = "CONNECT server.test:443 HTTP/1.1\r\nHost: server.test:443\r\n\
                 Proxy-Authorization: Basic bWU6cHJveHktc2VjcmV0\r\n\r\n";
    assert!(received.starts_with(expected), "{received}");
    assert!(!received.contains(SECRET) && !received.contains("/mcp"));
}

#[tokio::test]
async fn error_of_proxy_contains_reason_but_no_password() {
    for (response, reason) in [
        (
            "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
            "user name and password",
        ),
        ("HTTP/1.1 502 Bad\x1b[31m Gateway\r\n\r\n", "502 Bad"),
        ("SSH-2.0\r\n\r\n", "does not speak HTTP"),
        ("", "closed the connection"),
    ] {
        let proxy = Server::start(move |mut peer, _| async move {
            peer.request().await;
            peer.write(response.as_bytes()).await;
        })
        .await;
        let url = Url::parse("https://server.test/mcp?key=hidden").unwrap();
        let client = client_with(url, TlsConfig::default(), network(&proxy));
        let error = expect_error(&client, secret_post("x")).await;
        assert_eq!(error.delivery, Delivery::NotSent);
        let error = error.to_string();
        assert!(
            error.contains(reason) && error.contains("server.test:443"),
            "{error}"
        );
        assert!(error.contains(&proxy.address.to_string()), "{error}");
        assert!(
            !error.contains("proxy-secret") && !error.contains("hidden"),
            "{error}"
        );
        assert!(!error.contains('\x1b'), "{error}");
    }
}

#[tokio::test]
async fn endless_proxy_response_is_refused() {
    let proxy = Server::start(|mut peer, _| async move {
        peer.request().await;
        while peer.stream.write_all(&[b'x'; 1024]).await.is_ok() {}
    })
    .await;
    let url = Url::parse("https://server.test/").unwrap();
    let client = client_with(url, TlsConfig::default(), network(&proxy));
    let error = expect_error(&client, post("x")).await;
    assert!(error.to_string().contains("too long"), "{error}");
}

#[tokio::test]
async fn loopback_server_is_reached_without_proxy() {
    let proxy = Server::responding(ok("from the proxy")).await;
    let server = Server::responding(ok("from the server")).await;
    let client = client_with(server.url("/"), TlsConfig::default(), network(&proxy));
    let response = client.send(secret_post("x")).await.unwrap();
    assert_eq!(read_text(response).await, "from the server");
    assert_eq!(proxy.connections(), 0);
}

#[tokio::test]
async fn unreachable_proxy_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let network = Network::new().https_proxy(&address.to_string()).unwrap();
    let url = Url::parse("https://server.test/").unwrap();
    let error = expect_error(&client_with(url, TlsConfig::default(), network), post("x")).await;
    assert_eq!(error.delivery, Delivery::NotSent);
    let expected = format!("cannot connect to server.test:443 through proxy {address}: ");
    assert!(error.to_string().starts_with(&expected), "{error}");
}
