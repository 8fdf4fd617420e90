//! Trusted certificates, client certificates, and the errors of failed TLS handshakes.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::super::error::{HttpErrorKind, TlsProblem};
use super::*;
use crate::delivery::Delivery;

/// A certificate authority for tests, and a directory that contains its certificate as `ca.pem`.
pub(super) struct Authority {
    directory: TempDir,
    issuer: Issuer<'static, KeyPair>,
    root: rcgen::Certificate,
}

/// A certificate and its private key.
pub(super) struct Identity {
    cert: rcgen::Certificate,
    key: KeyPair,
}

impl Authority {
    pub(super) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = params.self_signed(&key).unwrap();
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("ca.pem"), root.pem()).unwrap();
        Self {
            directory,
            issuer: Issuer::new(params, key),
            root,
        }
    }

    pub(super) fn file(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    pub(super) fn tls(&self) -> TlsConfig {
        TlsConfig {
            ca: Some(self.file()),
            ..TlsConfig::default()
        }
    }

    pub(super) fn issue(&self, name: &str) -> Identity {
        self.issue_with(name, |_| {})
    }

    fn issue_with(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        change(&mut params);
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        Identity { cert, key }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Identity {
    /// Returns a TLS acceptor with this certificate. With `client_authority`, it accepts only
    /// clients whose certificate this authority signed.
    pub(super) fn acceptor(&self, client_authority: Option<&Authority>) -> TlsAcceptor {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match client_authority {
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.root.der().clone()).unwrap();
                let roots = Arc::new(roots);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
            None => builder.with_no_client_auth(),
        };
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).unwrap();
        let config = builder.with_single_cert(vec![self.cert.der().clone()], key);
        TlsAcceptor::from(Arc::new(config.unwrap()))
    }
}

/// Accepts a TLS connection and responds to each request with `hi`.
pub(super) async fn serve_tls(acceptor: &TlsAcceptor, stream: TcpStream) {
    let Ok(mut stream) = acceptor.accept(stream).await else {
        return;
    };
    let mut buffer = Vec::new();
    while stream
        .read_buf(&mut buffer)
        .await
        .is_ok_and(|read| read > 0)
    {
        if let Some(length) = request_length(&buffer) {
            buffer.drain(..length);
            stream.write_all(ok("hi").as_bytes()).await.ok();
        }
    }
}

async fn tls_server(acceptor: TlsAcceptor) -> (Server, Url) {
    let server = Server::start(move |peer, _| {
        let acceptor = acceptor.clone();
        async move { serve_tls(&acceptor, peer.stream).await }
    })
    .await;
    let url = format!("https://localhost:{}/mcp", server.address.port());
    (server, Url::parse(&url).unwrap())
}

fn tls_problem(error: HttpError) -> TlsProblem {
    match error.kind {
        HttpErrorKind::Tls { problem, .. } => problem,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn private_authority_is_trusted_if_configured() {
    let authority = Authority::new();
    let (server, url) = tls_server(authority.issue("localhost").acceptor(None)).await;
    let by_entry = client_with(url.clone(), authority.tls(), Network::new());
    let file = Network::new().certificates(authority.file());
    let by_file = client_with(url.clone(), TlsConfig::default(), file);
    let directory = Network::new().certificates(authority.directory.path());
    let directory = directory.without_platform_certificates();
    let by_directory = client_with(url.clone(), TlsConfig::default(), directory);
    for client in [by_entry, by_file, by_directory] {
        for _ in 0..3 {
            assert_eq!(
                read_text(client.send(secret_post("x")).await.unwrap()).await,
                "hi"
            );
        }
    }
    assert_eq!(server.connections(), 3);

    let other = Authority::new();
    let distrustful = client_with(url, other.tls(), Network::new());
    let error = expect_error(&distrustful, secret_post("x")).await;
    assert_eq!(error.delivery, Delivery::NotSent);
    assert!(error.to_string().contains("`tls.ca`"), "{error}");
    assert_eq!(tls_problem(error), TlsProblem::UnknownIssuer);
}

#[tokio::test]
async fn self_signed_certificate_is_refused() {
    let key = KeyPair::generate().unwrap();
    for (is_ca, expected) in [
        (IsCa::NoCa, TlsProblem::UnknownIssuer),
        (
            IsCa::Ca(BasicConstraints::Unconstrained),
            TlsProblem::CaCertificate,
        ),
    ] {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.is_ca = is_ca;
        let cert = params.self_signed(&key).unwrap();
        let key = KeyPair::from_pem(&key.serialize_pem()).unwrap();
        let identity = Identity { cert, key };
        let (_server, url) = tls_server(identity.acceptor(None)).await;
        let error = expect_error(&client(url), secret_post("x")).await;
        assert_eq!(error.delivery, Delivery::NotSent);
        assert_eq!(tls_problem(error), expected);
    }
}

#[tokio::test]
async fn certificate_for_other_host_or_time_is_refused() {
    let authority = Authority::new();
    let expired = authority.issue_with("localhost", |params| {
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(2001, 1, 1);
    });
    let early = authority.issue_with("localhost", |params| {
        params.not_before = date_time_ymd(2200, 1, 1);
        params.not_after = date_time_ymd(2201, 1, 1);
    });
    let other = authority.issue("other.test");
    let mut problems = Vec::new();
    for identity in [expired, early, other] {
        let (_server, url) = tls_server(identity.acceptor(None)).await;
        let client = client_with(url, authority.tls(), Network::new());
        let error = expect_error(&client, secret_post("x")).await;
        assert_eq!(error.delivery, Delivery::NotSent);
        problems.push(tls_problem(error));
    }
    let [expired, early, TlsProblem::OtherHost(names)] = problems.as_slice() else {
        panic!("{problems:?}");
    };
    assert_eq!(*expired, TlsProblem::Expired);
    assert_eq!(*early, TlsProblem::NotYetValid);
    assert!(names.contains("other.test"), "{names}");
}

#[tokio::test]
async fn client_certificate_is_sent_on_request() {
    let authority = Authority::new();
    let identity = authority.issue("client");
    let (_server, url) = tls_server(authority.issue("localhost").acceptor(Some(&authority))).await;
    let tls = TlsConfig {
        cert: Some(authority.write("cert.pem", &identity.cert.pem())),
        key: Some(authority.write("key.pem", &identity.key.serialize_pem())),
        ..authority.tls()
    };
    let client = client_with(url.clone(), tls, Network::new());
    assert_eq!(read_text(client.send(post("x")).await.unwrap()).await, "hi");

    let without = client_with(url, authority.tls(), Network::new());
    let error = expect_error(&without, post("x")).await;
    assert!(error.to_string().contains("`tls.cert`"), "{error}");
}

#[tokio::test]
async fn errors_name_invalid_files() {
    let authority = Authority::new();
    let identity = authority.issue("client");
    let other = authority.issue("other");
    let cert = authority.write("cert.pem", &identity.cert.pem());
    let key = authority.write("key.pem", &other.key.serialize_pem());
    let text = authority.write("text.pem", "no certificate");
    let missing = authority.directory.path().join("missing.pem");
    let ca = |path: &PathBuf| TlsConfig {
        ca: Some(path.clone()),
        ..TlsConfig::default()
    };
    let client_auth = |cert: &PathBuf, key: &PathBuf| TlsConfig {
        cert: Some(cert.clone()),
        key: Some(key.clone()),
        ..TlsConfig::default()
    };
    let (_server, url) = tls_server(authority.issue("localhost").acceptor(None)).await;
    for (tls, name) in [
        (ca(&missing), "missing.pem"),
        (ca(&text), "text.pem"),
        (client_auth(&cert, &key), "cert.pem"),
        (client_auth(&cert, &text), "text.pem"),
        (client_auth(&missing, &key), "missing.pem"),
    ] {
        let client = client_with(url.clone(), tls, Network::new());
        let error = expect_error(&client, post("x")).await;
        assert_eq!(error.delivery, Delivery::NotSent);
        assert!(error.to_string().contains(name), "{error}");
    }
    let without_key = TlsConfig {
        cert: Some(cert),
        ..TlsConfig::default()
    };
    let error = expect_error(
        &client_with(url.clone(), without_key, Network::new()),
        post("x"),
    )
    .await;
    assert!(error.to_string().contains("`tls.key`"), "{error}");
    let network = Network::new().certificates(missing);
    let error = expect_error(&client_with(url, TlsConfig::default(), network), post("x")).await;
    assert!(error.to_string().contains("missing.pem"), "{error}");
}

#[tokio::test]
async fn plain_http_server_is_reported_as_not_tls() {
    let server = Server::start(|mut peer, _| async move {
        peer.read_more().await;
        peer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    })
    .await;
    let url = Url::parse(&format!("https://{}/", server.address)).unwrap();
    let error = expect_error(&client(url), secret_post("x")).await;
    assert_eq!(error.delivery, Delivery::NotSent);
    assert_eq!(tls_problem(error), TlsProblem::NotTls);
    assert!(!server.received().contains("secret"));
}

#[tokio::test]
async fn tls_server_behind_plain_http_url_gets_a_hint() {
    let acceptor = Authority::new().issue("localhost").acceptor(None);
    let server = Server::start(move |peer, _| {
        let acceptor = acceptor.clone();
        async move {
            assert!(acceptor.accept(peer.stream).await.is_err());
        }
    })
    .await;
    let error = expect_error(&server.client(), post("x")).await.to_string();
    assert!(error.contains("use `https://` in the URL"), "{error}");
}

#[tokio::test]
async fn redirect_from_https_to_http_is_not_followed() {
    let authority = Authority::new();
    let other = Server::responding(ok("stolen")).await;
    let acceptor = authority.issue("localhost").acceptor(None);
    let location = format!("http://localhost:{}/mcp", other.address.port());
    let server = Server::start(move |peer, _| {
        let (acceptor, location) = (acceptor.clone(), location.clone());
        async move {
            let mut stream = acceptor.accept(peer.stream).await.unwrap();
            let mut buffer = Vec::new();
            while request_length(&buffer).is_none() {
                stream.read_buf(&mut buffer).await.unwrap();
            }
            let redirect =
                format!("HTTP/1.1 307 X\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
            stream.write_all(redirect.as_bytes()).await.unwrap();
        }
    })
    .await;
    let url = Url::parse(&format!("https://localhost:{}/mcp", server.address.port())).unwrap();
    let client = client_with(url, authority.tls(), Network::new());
    let response = client.send(secret_post("x")).await.unwrap();
    assert_eq!(response.status, 307);
    assert_eq!(other.connections(), 0);
}
