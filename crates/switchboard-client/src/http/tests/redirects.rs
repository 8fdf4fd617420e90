//! Where answers send us, and that credentials do not go along.

use super::super::HttpErrorKind;
use super::super::redirect::place;
use super::*;
use crate::delivery::Delivery;

/// A server that sends everything but `/end` to where `location` says.
async fn sending_to(status: u16, location: &str) -> Server {
    let answer =
        format!("HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
    Server::start(move |mut peer, _| {
        let answer = answer.clone();
        async move {
            while let Some(request) = peer.request().await {
                let is_end = request.starts_with("POST /end");
                let answer = if is_end {
                    ok("arrived")
                } else {
                    answer.clone()
                };
                peer.write(answer.as_bytes()).await;
            }
        }
    })
    .await
}

#[tokio::test]
async fn only_307_and_308_are_followed_and_only_with_the_same_server() {
    for status in [300, 301, 302, 303, 304, 307, 308] {
        let server = sending_to(status, "/end?x=1").await;
        let client = server.client();
        let incoming = client.send(secret_post("body")).await.unwrap();
        if status == 307 || status == 308 {
            assert_eq!(text(incoming).await, "arrived");
            assert_eq!(server.seen().matches(SECRET).count(), 2);
            assert_eq!(server.seen().matches("\r\n\r\nbody").count(), 2);
            assert_eq!(server.connections(), 1);
        } else {
            assert_eq!(incoming.status, status);
            assert_eq!(server.seen().matches("POST").count(), 1);
        }
    }
}

#[tokio::test]
async fn no_redirect_takes_a_credential_to_another_server() {
    let other = Server::answering(ok("stolen")).await;
    let elsewhere = Server::start_at("127.0.0.2:0", |mut peer, _| async move {
        peer.until_closed().await;
    })
    .await;
    for status in [300, 301, 302, 303, 304, 305, 307, 308] {
        for location in [
            // Another port, another address, another name for the same, another scheme.
            format!("http://{}/end", other.address),
            format!("http://{}/end", elsewhere.address),
            format!("http://localhost:{}/end", other.address.port()),
            format!("https://{}/end", other.address),
            format!("//{}/end", other.address),
            format!("http://user:pass@{}/end?q=1", other.address),
            format!("http://{0}%2f@{0}/end", other.address),
            "file:///etc/passwd".to_owned(),
            "http://169.254.169.254/latest".to_owned(),
            "http://[::1]:1/".to_owned(),
            "data:text/plain,hello".to_owned(),
            "http://[broken".to_owned(),
        ] {
            let server = sending_to(status, &location).await;
            let incoming = server.client().send(secret_post("x")).await.unwrap();
            assert_eq!(incoming.status, status, "{location}");
        }
    }
    assert_eq!(other.connections() + elsewhere.connections(), 0);
}

#[tokio::test]
async fn the_same_host_under_another_name_or_port_is_another_server() {
    let server = sending_to(307, "/end").await;
    let port = server.address.port();
    let client = client(Url::parse(&format!("http://localhost:{port}/end")).unwrap());
    for other in [
        format!("http://127.0.0.1:{port}/end"),
        format!("https://localhost:{port}/end"),
        "http://localhost:1/end".to_owned(),
        format!("http://localhost.evil.test:{port}/end"),
    ] {
        let request = || Outgoing {
            url: Some(Url::parse(&other).unwrap()),
            ..secret_post("x")()
        };
        let error = failure(&client, request).await;
        assert_eq!(error.delivery, Delivery::NotSent);
        assert!(
            matches!(error.kind, HttpErrorKind::OtherOrigin { .. }),
            "{error:?}"
        );
    }
    let request = || Outgoing {
        url: Some(Url::parse(&format!("http://LOCALHOST:{port}/end")).unwrap()),
        ..secret_post("x")()
    };
    assert_eq!(text(client.send(request).await.unwrap()).await, "arrived");
}

#[tokio::test]
async fn a_circle_of_redirects_comes_to_an_end() {
    let server = sending_to(307, "/again").await;
    let incoming = server.client().send(post("x")).await.unwrap();
    assert_eq!(incoming.status, 307);
    assert_eq!(server.seen().matches("POST").count(), 6);
}

#[tokio::test]
async fn credentials_are_not_sent_over_plain_http_but_to_this_machine() {
    for far in [
        "http://192.0.2.1/",
        "http://server.test/",
        "http://localhost.test/",
    ] {
        let error = failure(&client(Url::parse(far).unwrap()), secret_post("x")).await;
        assert_eq!(error.delivery, Delivery::NotSent);
        assert!(error.to_string().contains("`https://`"), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    let server = Server::answering(ok("hi")).await;
    let port = server.address.port();
    for near in [
        format!("http://localhost:{port}/"),
        format!("http://127.0.0.1:{port}/"),
    ] {
        let client = client(Url::parse(&near).unwrap());
        assert_eq!(
            text(client.send(secret_post("x")).await.unwrap()).await,
            "hi"
        );
    }
}

#[tokio::test]
async fn headers_that_frame_a_message_are_not_taken_from_a_config() {
    let server = Server::answering(ok("hi")).await;
    for name in [
        "content-length",
        "transfer-encoding",
        "connection",
        "upgrade",
        "keep-alive",
    ] {
        let request = || {
            let mut request = post("x")();
            let length = HeaderValue::from_static("5");
            request.credential.insert(name, length);
            request
        };
        let error = failure(&server.client(), request).await;
        assert_eq!(error.delivery, Delivery::NotSent);
        assert!(error.to_string().contains(name), "{error}");
    }
    assert_eq!(server.connections(), 0);
}

#[test]
fn addresses_that_cannot_be_used_are_refused_at_once() {
    for (url, word) in [
        ("ftp://server.test/", "`https://`"),
        ("https://me:secret@server.test/", "headers"),
    ] {
        let target = Target {
            url: Url::parse(url).unwrap(),
            tls: TlsConfig::default(),
        };
        let network = Arc::new(Network::new());
        let outcome = HttpClient::new(target, network, CONNECT_LIMIT, TaskTracker::new());
        let error = outcome.err().unwrap().to_string();
        assert!(error.contains(word) && !error.contains("secret"), "{error}");
    }
}

#[test]
fn an_address_is_shown_without_its_secrets_and_not_at_length() {
    let url = Url::parse("https://me:secret@server.test:8/a/b?key=secret#c").unwrap();
    assert_eq!(place(&url), "https://server.test:8/a/b");
    let url = Url::parse(&format!("https://server.test/{}", "x".repeat(1_000))).unwrap();
    assert!(place(&url).chars().count() < 210);
}
