//! Whom we trust, who we are, and what is said when that does not fit.

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

/// An authority, and a folder with its files.
pub(super) struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
    root: rcgen::Certificate,
}

/// Somebody's certificate and key.
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
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), root.pem()).unwrap();
        Self {
            folder,
            issuer: Issuer::new(params, key),
            root,
        }
    }

    pub(super) fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
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
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Identity {
    /// What a server needs to show it; with `clients`, it asks for theirs.
    pub(super) fn acceptor(&self, clients: Option<&Authority>) -> TlsAcceptor {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
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

/// Serves one connection after its handshake, and answers all of it with `hi`.
pub(super) async fn greet(acceptor: &TlsAcceptor, stream: TcpStream) {
    let Ok(mut stream) = acceptor.accept(stream).await else {
        return;
    };
    let mut buffer = Vec::new();
    while stream
        .read_buf(&mut buffer)
        .await
        .is_ok_and(|read| read > 0)
    {
        if let Some(length) = whole_request(&buffer) {
            buffer.drain(..length);
            stream.write_all(ok("hi").as_bytes()).await.ok();
        }
    }
}

async fn safe_server(acceptor: TlsAcceptor) -> (Server, Url) {
    let server = Server::start(move |peer, _| {
        let acceptor = acceptor.clone();
        async move { greet(&acceptor, peer.stream).await }
    })
    .await;
    let url = format!("https://localhost:{}/mcp", server.address.port());
    (server, Url::parse(&url).unwrap())
}

fn problem(error: HttpError) -> TlsProblem {
    match error.kind {
        HttpErrorKind::Tls { problem, .. } => problem,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_private_authority_is_trusted_where_it_was_named() {
    let authority = Authority::new();
    let (server, url) = safe_server(authority.issue("localhost").acceptor(None)).await;
    let by_entry = client_with(url.clone(), authority.tls(), Network::new());
    let file = Network::new().certificates(authority.file());
    let by_file = client_with(url.clone(), TlsConfig::default(), file);
    let only = Network::new().certificates(authority.folder.path());
    let only = only.without_platform_certificates();
    let by_folder = client_with(url.clone(), TlsConfig::default(), only);
    for client in [by_entry, by_file, by_folder] {
        for _ in 0..3 {
            assert_eq!(
                text(client.send(secret_post("x")).await.unwrap()).await,
                "hi"
            );
        }
    }
    assert_eq!(server.connections(), 3);

    let other = Authority::new();
    let stranger = client_with(url, other.tls(), Network::new());
    let error = failure(&stranger, secret_post("x")).await;
    assert_eq!(error.delivery, Delivery::NotSent);
    assert!(error.to_string().contains("`tls.ca`"), "{error}");
    assert_eq!(problem(error), TlsProblem::UnknownIssuer);
}

#[tokio::test]
async fn a_certificate_that_signed_itself_is_refused() {
    let key = KeyPair::generate().unwrap();
    for (is_ca, expected) in [
        (IsCa::NoCa, TlsProblem::UnknownIssuer),
        (
            IsCa::Ca(BasicConstraints::Unconstrained),
            TlsProblem::Authority,
        ),
    ] {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.is_ca = is_ca;
        let cert = params.self_signed(&key).unwrap();
        let key = KeyPair::from_pem(&key.serialize_pem()).unwrap();
        let identity = Identity { cert, key };
        let (_server, url) = safe_server(identity.acceptor(None)).await;
        let error = failure(&client(url), secret_post("x")).await;
        assert_eq!(error.delivery, Delivery::NotSent);
        assert_eq!(problem(error), expected);
    }
}

#[tokio::test]
async fn certificates_for_another_name_or_another_time_are_refused() {
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
        let (_server, url) = safe_server(identity.acceptor(None)).await;
        let client = client_with(url, authority.tls(), Network::new());
        let error = failure(&client, secret_post("x")).await;
        assert_eq!(error.delivery, Delivery::NotSent);
        problems.push(problem(error));
    }
    let [expired, early, TlsProblem::OtherName(names)] = problems.as_slice() else {
        panic!("{problems:?}");
    };
    assert_eq!(*expired, TlsProblem::Expired);
    assert_eq!(*early, TlsProblem::NotYetValid);
    assert!(names.contains("other.test"), "{names}");
}

#[tokio::test]
async fn a_server_that_wants_to_know_us_is_shown_our_certificate() {
    let authority = Authority::new();
    let ours = authority.issue("us");
    let (_server, url) = safe_server(authority.issue("localhost").acceptor(Some(&authority))).await;
    let with = TlsConfig {
        cert: Some(authority.write("cert.pem", &ours.cert.pem())),
        key: Some(authority.write("key.pem", &ours.key.serialize_pem())),
        ..authority.tls()
    };
    let client = client_with(url.clone(), with, Network::new());
    assert_eq!(text(client.send(post("x")).await.unwrap()).await, "hi");

    let without = client_with(url, authority.tls(), Network::new());
    let error = failure(&without, post("x")).await;
    assert!(error.to_string().contains("`tls.cert`"), "{error}");
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let authority = Authority::new();
    let ours = authority.issue("us");
    let other = authority.issue("other");
    let cert = authority.write("cert.pem", &ours.cert.pem());
    let key = authority.write("key.pem", &other.key.serialize_pem());
    let text = authority.write("text.pem", "no certificate");
    let missing = authority.folder.path().join("missing.pem");
    let ca = |path: &PathBuf| TlsConfig {
        ca: Some(path.clone()),
        ..TlsConfig::default()
    };
    let own = |cert: &PathBuf, key: &PathBuf| TlsConfig {
        cert: Some(cert.clone()),
        key: Some(key.clone()),
        ..TlsConfig::default()
    };
    let (_server, url) = safe_server(authority.issue("localhost").acceptor(None)).await;
    for (tls, name) in [
        (ca(&missing), "missing.pem"),
        (ca(&text), "text.pem"),
        (own(&cert, &key), "cert.pem"),
        (own(&cert, &text), "text.pem"),
        (own(&missing, &key), "missing.pem"),
    ] {
        let client = client_with(url.clone(), tls, Network::new());
        let error = failure(&client, post("x")).await;
        assert_eq!(error.delivery, Delivery::NotSent);
        assert!(error.to_string().contains(name), "{error}");
    }
    let half = TlsConfig {
        cert: Some(cert),
        ..TlsConfig::default()
    };
    let error = failure(&client_with(url.clone(), half, Network::new()), post("x")).await;
    assert!(error.to_string().contains("`tls.key`"), "{error}");
    let network = Network::new().certificates(missing);
    let error = failure(&client_with(url, TlsConfig::default(), network), post("x")).await;
    assert!(error.to_string().contains("missing.pem"), "{error}");
}

#[tokio::test]
async fn plain_http_where_tls_is_expected_is_said_to_be() {
    let server = Server::start(|mut peer, _| async move {
        peer.more().await;
        peer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    })
    .await;
    let url = Url::parse(&format!("https://{}/", server.address)).unwrap();
    let error = failure(&client(url), secret_post("x")).await;
    assert_eq!(error.delivery, Delivery::NotSent);
    assert_eq!(problem(error), TlsProblem::NoTls);
    assert!(!server.seen().contains("secret"));
}

#[tokio::test]
async fn a_redirect_from_https_to_http_is_not_followed() {
    let authority = Authority::new();
    let other = Server::answering(ok("stolen")).await;
    let acceptor = authority.issue("localhost").acceptor(None);
    let location = format!("http://localhost:{}/mcp", other.address.port());
    let server = Server::start(move |peer, _| {
        let (acceptor, location) = (acceptor.clone(), location.clone());
        async move {
            let mut stream = acceptor.accept(peer.stream).await.unwrap();
            let mut buffer = Vec::new();
            while whole_request(&buffer).is_none() {
                stream.read_buf(&mut buffer).await.unwrap();
            }
            let answer =
                format!("HTTP/1.1 307 X\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await;
    let url = Url::parse(&format!("https://localhost:{}/mcp", server.address.port())).unwrap();
    let client = client_with(url, authority.tls(), Network::new());
    let incoming = client.send(secret_post("x")).await.unwrap();
    assert_eq!(incoming.status, 307);
    assert_eq!(other.connections(), 0);
}
