//! Redirects, and the rule that credentials never leave the origin.

use super::super::HttpErrorKind;
use super::super::redirect::display_url;
use super::*;
use crate::delivery::Delivery;

/// Starts a server that redirects every request to `location`, except for `/end`.
async fn redirecting_to(status: u16, location: &str) -> Server {
    let redirect =
        format!("HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
    Server::start(move |mut peer, _| {
        let redirect = redirect.clone();
        async move {
            while let Some(request) = peer.request().await {
                let is_end = request.starts_with("POST /end");
                let response = if is_end {
                    ok("arrived")
                } else {
                    redirect.clone()
                };
                peer.write(response.as_bytes()).await;
            }
        }
    })
    .await
}

#[tokio::test]
async fn only_307_and_308_within_the_server_are_followed() {
    for status in [300, 301, 302, 303, 304, 307, 308] {
        let server = redirecting_to(status, "/end?x=1").await;
        let client = server.client();
        let response = client.send(secret_post("body")).await.unwrap();
        if status == 307 || status == 308 {
            assert_eq!(read_text(response).await, "arrived");
            assert_eq!(server.received().matches(SECRET).count(), 2);
            assert_eq!(server.received().matches("\r\n\r\nbody").count(), 2);
            assert_eq!(server.connections(), 1);
        } else {
            assert_eq!(response.status, status);
            assert_eq!(server.received().matches("POST").count(), 1);
        }
    }
}

#[tokio::test]
async fn request_that_must_not_be_redirected_is_sent_once() {
    for (status, location) in [(307, "/end"), (308, "/end"), (307, "/mcp"), (308, "/mcp")] {
        let server = redirecting_to(status, location).await;
        let request = || HttpRequest {
            redirects: Redirects::Return,
            ..secret_post("body")()
        };
        let response = server.client().send(request).await.unwrap();
        assert_eq!(response.status, status, "{location}");
        assert_eq!(response.redirected_to, None);
        assert_eq!(server.received().matches("POST").count(), 1, "{location}");
    }
}

#[tokio::test]
async fn redirects_to_other_origins_are_not_followed() {
    let other_port = Server::responding(ok("stolen")).await;
    let other_address = Server::start_at("127.0.0.2:0", |mut peer, _| async move {
        peer.wait_until_closed().await;
    })
    .await;
    for status in [300, 301, 302, 303, 304, 305, 307, 308] {
        for location in [
            // URLs whose origin differs in the port, the address, the name of the same host, or the
            // scheme.
            format!("http://{}/end", other_port.address),
            format!("http://{}/end", other_address.address),
            format!("http://localhost:{}/end", other_port.address.port()),
            format!("https://{}/end", other_port.address),
            format!("//{}/end", other_port.address),
            format!("http://user:pass@{}/end?q=1", other_port.address),
            format!("http://{0}%2f@{0}/end", other_port.address),
            "file:///etc/passwd".to_owned(),
            "http://169.254.169.254/latest".to_owned(),
            "http://[::1]:1/".to_owned(),
            "data:text/plain,hello".to_owned(),
            "http://[broken".to_owned(),
        ] {
            let server = redirecting_to(status, &location).await;
            let response = server.client().send(secret_post("x")).await.unwrap();
            assert_eq!(response.status, status, "{location}");
        }
    }
    assert_eq!(other_port.connections() + other_address.connections(), 0);
}

#[tokio::test]
async fn requests_to_other_origins_are_refused() {
    let server = redirecting_to(307, "/end").await;
    let port = server.address.port();
    let client = client(Url::parse(&format!("http://localhost:{port}/end")).unwrap());
    for other in [
        format!("http://127.0.0.1:{port}/end"),
        format!("https://localhost:{port}/end"),
        "http://localhost:1/end".to_owned(),
        format!("http://localhost.evil.test:{port}/end"),
    ] {
        let request = || HttpRequest {
            url: Some(Url::parse(&other).unwrap()),
            ..secret_post("x")()
        };
        let error = expect_error(&client, request).await;
        assert_eq!(error.delivery, Delivery::NotSent);
        assert!(
            matches!(error.kind, HttpErrorKind::OtherOrigin { .. }),
            "{error:?}"
        );
    }
    let request = || HttpRequest {
        url: Some(Url::parse(&format!("http://LOCALHOST:{port}/end")).unwrap()),
        ..secret_post("x")()
    };
    assert_eq!(
        read_text(client.send(request).await.unwrap()).await,
        "arrived"
    );
}

#[tokio::test]
async fn redirect_loop_ends() {
    let server = redirecting_to(307, "/again").await;
    let response = server.client().send(post("x")).await.unwrap();
    assert_eq!(response.status, 307);
    assert_eq!(server.received().matches("POST").count(), 6);
}

#[tokio::test]
async fn credentials_over_plain_http_are_sent_only_to_loopback() {
    for remote in [
        "http://192.0.2.1/",
        "http://server.test/",
        "http://localhost.test/",
    ] {
        let error = expect_error(&client(Url::parse(remote).unwrap()), secret_post("x")).await;
        assert_eq!(error.delivery, Delivery::NotSent);
        assert!(error.to_string().contains("`https://`"), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    let server = Server::responding(ok("hi")).await;
    let port = server.address.port();
    for local in [
        format!("http://localhost:{port}/"),
        format!("http://127.0.0.1:{port}/"),
    ] {
        let client = client(Url::parse(&local).unwrap());
        assert_eq!(
            read_text(client.send(secret_post("x")).await.unwrap()).await,
            "hi"
        );
    }
}

#[tokio::test]
async fn framing_headers_are_refused() {
    let server = Server::responding(ok("hi")).await;
    for name in [
        "content-length",
        "transfer-encoding",
        "connection",
        "upgrade",
        "keep-alive",
    ] {
        let request = || {
            let mut request = post("x")();
            let value = HeaderValue::from_static("5");
            request.credential.insert(name, value);
            request
        };
        let error = expect_error(&server.client(), request).await;
        assert_eq!(error.delivery, Delivery::NotSent);
        assert!(error.to_string().contains(name), "{error}");
    }
    assert_eq!(server.connections(), 0);
}

#[test]
fn unusable_urls_are_refused() {
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
fn displayed_url_has_no_secrets_and_is_truncated() {
    let url = Url::parse("https://me:secret@server.test:8/a/b?key=secret#c").unwrap();
    assert_eq!(display_url(&url), "https://server.test:8/a/b");
    let url = Url::parse(&format!("https://server.test/{}", "x".repeat(1_000))).unwrap();
    assert!(display_url(&url).chars().count() < 210);
}
