//! Encryption: whom we trust, and who we are.
//!
//! The certificates of the platform are read once per network, and only when they are needed; the
//! files of an entry are read for each connection, so that renewed ones count at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_util::task::TaskTracker;

use super::error::{HttpError, HttpErrorKind};
use super::network::Network;

/// TLS files of one server, in PEM format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsConfig {
    /// An additional certificate authority to trust.
    pub ca: Option<PathBuf>,
    /// The client certificate.
    pub cert: Option<PathBuf>,
    /// The private key of the client certificate.
    pub key: Option<PathBuf>,
}

/// Where platforms keep the certificates they trust, in one file. The first that exists is used.
const BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/ssl/cert.pem",
    "/opt/etc/ssl/certs/ca-certificates.crt",
];

/// Where they keep them one by one.
const FOLDERS: &[&str] = &["/etc/ssl/certs", "/etc/pki/tls/certs"];

/// The largest file of certificates that is read.
const LARGEST_FILE: u64 = 16 * 1024 * 1024;

impl TlsConfig {
    /// Whether there are files of the entry that may be renewed.
    pub(super) fn has_files(&self) -> bool {
        *self != Self::default()
    }

    /// Reads the files, and makes of them what connections are set up with.
    pub(super) async fn connector(
        &self,
        network: &Arc<Network>,
        tasks: &TaskTracker,
    ) -> Result<TlsConnector, HttpError> {
        let roots = self.roots(network, tasks).await?;
        let own = self.clone();
        let reading = tasks.spawn_blocking(move || own.read(roots));
        let config = reading.await.unwrap_or_else(|_| Err(interrupted()))?;
        Ok(TlsConnector::from(Arc::new(config)))
    }

    async fn roots(
        &self,
        network: &Arc<Network>,
        tasks: &TaskTracker,
    ) -> Result<Arc<RootCertStore>, HttpError> {
        let read = async || {
            let network = Arc::clone(network);
            let reading = tasks.spawn_blocking(move || trusted(&network).map(Arc::new));
            reading.await.unwrap_or_else(|_| Err(interrupted()))
        };
        network.roots.get_or_try_init(read).await.cloned()
    }

    fn read(&self, mut roots: Arc<RootCertStore>) -> Result<ClientConfig, HttpError> {
        if let Some(file) = &self.ca {
            add_file(Arc::make_mut(&mut roots), file)?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| HttpError::not_sent(HttpErrorKind::Setup(error.to_string())))?
            .with_root_certificates(roots);
        let mut config = match (&self.cert, &self.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(cert), Some(key)) => builder
                .with_client_auth_cert(certificates(cert)?, private_key(key)?)
                .map_err(|error| {
                    unusable(cert, format!("with the key {}: {error}", key.display()))
                })?,
            (Some(_), None) | (None, Some(_)) => {
                return Err(HttpError::not_sent(HttpErrorKind::Address(
                    "`tls.cert` and `tls.key` go together: name both files",
                )));
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// What the network says is trusted.
fn trusted(network: &Network) -> Result<RootCertStore, HttpError> {
    let mut roots = RootCertStore::empty();
    if network.uses_platform_certificates() {
        add_those_of_the_platform(&mut roots);
    }
    for path in network.certificate_paths() {
        if path.is_dir() {
            add_folder(&mut roots, path);
        } else {
            add_file(&mut roots, path)?;
        }
    }
    Ok(roots)
}

/// A platform without any is no error here: then no server is trusted, and each says so.
fn add_those_of_the_platform(roots: &mut RootCertStore) {
    let bundle = BUNDLES.iter().map(Path::new).find(|path| path.is_file());
    if let Some(bundle) = bundle
        && add_file(roots, bundle).is_ok()
    {
        return;
    }
    for folder in FOLDERS {
        add_folder(roots, Path::new(folder));
    }
}

/// Such folders hold other things as well, which are passed over.
fn add_folder(roots: &mut RootCertStore, folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        if let Ok(certificates) = certificates(&entry.path()) {
            roots.add_parsable_certificates(certificates);
        }
    }
}

fn add_file(roots: &mut RootCertStore, file: &Path) -> Result<(), HttpError> {
    let (added, _) = roots.add_parsable_certificates(certificates(file)?);
    if added == 0 {
        return Err(unusable(file, "none of its certificates can be used"));
    }
    Ok(())
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, HttpError> {
    let text = contents(file)?;
    let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(certificates) if certificates.is_empty() => Err(unusable(
            file,
            "there is no certificate in PEM format in it",
        )),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(unusable(file, error)),
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, HttpError> {
    let text = contents(file)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        pem::Error::NoItemsFound => unusable(
            file,
            "there is no private key in PEM format in it that can be read without a password",
        ),
        error => unusable(file, error),
    })
}

fn contents(file: &Path) -> Result<Vec<u8>, HttpError> {
    let size = fs::metadata(file).map_err(|error| unusable(file, error))?;
    if !size.is_file() || size.len() > LARGEST_FILE {
        return Err(unusable(file, "it is no file of certificates"));
    }
    fs::read(file).map_err(|error| unusable(file, error))
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "it is an error that ends here"
)]
fn unusable(file: &Path, problem: impl ToString) -> HttpError {
    HttpError::not_sent(HttpErrorKind::Certificate {
        file: file.to_owned(),
        problem: problem.to_string(),
    })
}

fn interrupted() -> HttpError {
    let text = "reading the certificates was interrupted";
    HttpError::not_sent(HttpErrorKind::Setup(text.to_owned()))
}
