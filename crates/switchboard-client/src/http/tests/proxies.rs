//! Proxies: what they are asked, and what they do not see.

use super::tls::{Authority, greet};
use super::*;
use crate::delivery::Delivery;

fn network(proxy: &Server) -> Network {
    let address = format!("http://me:proxy-secret@{}", proxy.address);
    let network = Network::new().http_proxy(&address).unwrap();
    network.https_proxy(&address).unwrap()
}

#[tokio::test]
async fn plain_targets_are_asked_for_by_their_whole_address() {
    let proxy = Server::answering(ok("from the proxy")).await;
    let url = Url::parse("http://server.test:81/mcp?a=b").unwrap();
    let client = client_with(url, TlsConfig::default(), network(&proxy));
    for _ in 0..2 {
        let incoming = client.send(post("x")).await.unwrap();
        assert_eq!(text(incoming).await, "from the proxy");
    }
    let seen = proxy.seen();
    assert!(
        seen.starts_with("POST http://server.test:81/mcp?a=b HTTP/1.1\r\n"),
        "{seen}"
    );
    assert!(seen.contains("\r\nhost: server.test:81\r\n"), "{seen}");
    assert!(
        seen.contains("\r\nproxy-authorization: Basic bWU6cHJveHktc2VjcmV0\r\n"),
        "{seen}"
    );
    assert_eq!(proxy.connections(), 1);
    let error = failure(&client, secret_post("x")).await;
    assert_eq!(error.delivery, Delivery::NotSent);
}

#[tokio::test]
async fn encrypted_targets_are_tunnelled_to_and_the_proxy_sees_no_credential() {
    let authority = Authority::new();
    let acceptor = authority.issue("server.test").acceptor(None);
    let target = Server::start(move |peer, _| {
        let acceptor = acceptor.clone();
        async move { greet(&acceptor, peer.stream).await }
    })
    .await;
    let address = target.address;
    let proxy = Server::start(move |mut peer, _| async move {
        peer.request().await;
        peer.write(b"HTTP/1.1 200 Connection established\r\nX-Proxy: 1\r\n\r\n")
            .await;
        let mut far = TcpStream::connect(address).await.unwrap();
        let mut answer = [0; 4096];
        loop {
            tokio::select! {
                more = peer.more() => match more {
                    Some(()) => far.write_all(&std::mem::take(&mut peer.buffer)).await.unwrap(),
                    None => return,
                },
                read = far.read(&mut answer) => match read {
                    Ok(length) if length > 0 => peer.write(&answer[..length]).await,
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
            text(client.send(secret_post("x")).await.unwrap()).await,
            "hi"
        );
    }
    assert_eq!((proxy.connections(), target.connections()), (1, 1));
    let seen = proxy.seen();
    let asked = "CONNECT server.test:443 HTTP/1.1\r\nHost: server.test:443\r\n\
                 Proxy-Authorization: Basic bWU6cHJveHktc2VjcmV0\r\n\r\n";
    assert!(seen.starts_with(asked), "{seen}");
    assert!(!seen.contains(SECRET) && !seen.contains("/mcp"));
}

#[tokio::test]
async fn a_proxy_that_refuses_is_named_with_its_reason_and_without_its_password() {
    for (answer, word) in [
        (
            "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
            "name and a password",
        ),
        ("HTTP/1.1 502 Bad\x1b[31m Gateway\r\n\r\n", "502 Bad"),
        ("SSH-2.0\r\n\r\n", "does not speak HTTP"),
        ("", "closed the connection"),
    ] {
        let proxy = Server::start(move |mut peer, _| async move {
            peer.request().await;
            peer.write(answer.as_bytes()).await;
        })
        .await;
        let url = Url::parse("https://server.test/mcp?key=hidden").unwrap();
        let client = client_with(url, TlsConfig::default(), network(&proxy));
        let error = failure(&client, secret_post("x")).await;
        assert_eq!(error.delivery, Delivery::NotSent);
        let error = error.to_string();
        assert!(
            error.contains(word) && error.contains("server.test:443"),
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
async fn a_proxy_that_answers_without_end_is_given_up() {
    let proxy = Server::start(|mut peer, _| async move {
        peer.request().await;
        while peer.stream.write_all(&[b'x'; 1024]).await.is_ok() {}
    })
    .await;
    let url = Url::parse("https://server.test/").unwrap();
    let client = client_with(url, TlsConfig::default(), network(&proxy));
    let error = failure(&client, post("x")).await;
    assert!(error.to_string().contains("too long"), "{error}");
}

#[tokio::test]
async fn this_machine_and_exceptions_are_reached_directly() {
    let proxy = Server::answering(ok("from the proxy")).await;
    let server = Server::answering(ok("from the server")).await;
    let client = client_with(server.url("/"), TlsConfig::default(), network(&proxy));
    let incoming = client.send(secret_post("x")).await.unwrap();
    assert_eq!(text(incoming).await, "from the server");
    assert_eq!(proxy.connections(), 0);
}

#[tokio::test]
async fn a_proxy_that_is_not_there_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let network = Network::new().https_proxy(&address.to_string()).unwrap();
    let url = Url::parse("https://server.test/").unwrap();
    let error = failure(&client_with(url, TlsConfig::default(), network), post("x")).await;
    assert_eq!(error.delivery, Delivery::NotSent);
    let words = format!("the proxy {address} does not connect us to server.test:443");
    assert!(error.to_string().starts_with(&words), "{error}");
}
