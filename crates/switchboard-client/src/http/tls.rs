//! TLS configuration: trusted certificates and the client certificate.
//!
//! The trusted certificates of a [`Network`] are read once, when the first encrypted connection is
//! opened. The files that the config entry of a server names are read for each connection, so that
//! renewed files take effect.

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

/// Certificate and key files for the connections to one server, in PEM format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsConfig {
    /// An additional certificate authority to trust.
    pub ca: Option<PathBuf>,
    /// The client certificate. Requires `key`.
    pub cert: Option<PathBuf>,
    /// The private key of the client certificate. Requires `cert`.
    pub key: Option<PathBuf>,
}

/// Files in which Linux and Unix systems keep all trusted certificates. Only the first existing
/// file is read.
const PLATFORM_BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/ssl/cert.pem",
    "/opt/etc/ssl/certs/ca-certificates.crt",
];

/// Directories in which Linux and Unix systems keep each trusted certificate in its own file. Read
/// only if the file from `PLATFORM_BUNDLES` is missing or invalid.
const PLATFORM_DIRECTORIES: &[&str] = &["/etc/ssl/certs", "/etc/pki/tls/certs"];

/// Maximum size of a certificate or key file. A larger file is refused.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

impl TlsConfig {
    /// Whether the config entry names any file. Files may be renewed at any time, so the connector
    /// must not be cached.
    pub(super) fn has_files(&self) -> bool {
        *self != Self::default()
    }

    /// Reads the files of the config entry and builds a TLS connector from them.
    pub(super) async fn connector(
        &self,
        network: &Arc<Network>,
        tasks: &TaskTracker,
    ) -> Result<TlsConnector, HttpError> {
        let roots = self.roots(network, tasks).await?;
        let files = self.clone();
        let task = tasks.spawn_blocking(move || files.build_config(roots));
        let config = task.await.unwrap_or_else(|_| Err(cancelled()))?;
        Ok(TlsConnector::from(Arc::new(config)))
    }

    async fn roots(
        &self,
        network: &Arc<Network>,
        tasks: &TaskTracker,
    ) -> Result<Arc<RootCertStore>, HttpError> {
        let read = async || {
            let network = Arc::clone(network);
            let task = tasks.spawn_blocking(move || read_roots(&network).map(Arc::new));
            task.await.unwrap_or_else(|_| Err(cancelled()))
        };
        network.roots.get_or_try_init(read).await.cloned()
    }

    fn build_config(&self, mut roots: Arc<RootCertStore>) -> Result<ClientConfig, HttpError> {
        if let Some(file) = &self.ca {
            add_file(Arc::make_mut(&mut roots), file)?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| HttpError::not_sent(HttpErrorKind::TlsSetup(error.to_string())))?
            .with_root_certificates(roots);
        let mut config = match (&self.cert, &self.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(cert), Some(key)) => builder
                .with_client_auth_cert(read_certificates(cert)?, read_private_key(key)?)
                .map_err(|error| {
                    invalid_file(cert, format!("with the key {}: {error}", key.display()))
                })?,
            (Some(_), None) | (None, Some(_)) => {
                return Err(HttpError::not_sent(HttpErrorKind::InvalidConfig(
                    "`tls.cert` and `tls.key` must be set together",
                )));
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// Reads the certificates of the platform, unless they are disabled, and those that the embedding
/// program added.
fn read_roots(network: &Network) -> Result<RootCertStore, HttpError> {
    let mut roots = RootCertStore::empty();
    if network.uses_platform_certificates() {
        add_platform_certificates(&mut roots);
    }
    for path in network.certificate_paths() {
        if path.is_dir() {
            add_directory(&mut roots, path);
        } else {
            add_file(&mut roots, path)?;
        }
    }
    Ok(roots)
}

/// Adds the platform's certificates, if any are found. Without any trusted certificate, every TLS
/// connection fails with [`TlsProblem::UnknownIssuer`](super::error::TlsProblem::UnknownIssuer).
fn add_platform_certificates(roots: &mut RootCertStore) {
    let bundle = PLATFORM_BUNDLES
        .iter()
        .map(Path::new)
        .find(|path| path.is_file());
    if let Some(bundle) = bundle
        && add_file(roots, bundle).is_ok()
    {
        return;
    }
    for directory in PLATFORM_DIRECTORIES {
        add_directory(roots, Path::new(directory));
    }
}

/// Adds the certificates of all files in a directory. Skips files that contain none.
fn add_directory(roots: &mut RootCertStore, directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        if let Ok(certificates) = read_certificates(&entry.path()) {
            roots.add_parsable_certificates(certificates);
        }
    }
}

fn add_file(roots: &mut RootCertStore, file: &Path) -> Result<(), HttpError> {
    let (added, _) = roots.add_parsable_certificates(read_certificates(file)?);
    if added == 0 {
        return Err(invalid_file(file, "it contains no valid certificate"));
    }
    Ok(())
}

fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, HttpError> {
    let text = read_file(file)?;
    let parsed: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&text).collect();
    match parsed {
        Ok(certificates) if certificates.is_empty() => Err(invalid_file(
            file,
            "it contains no certificate in PEM format",
        )),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(invalid_file(file, error)),
    }
}

fn read_private_key(file: &Path) -> Result<PrivateKeyDer<'static>, HttpError> {
    let text = read_file(file)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            invalid_file(file, "it contains no unencrypted private key in PEM format")
        }
        error => invalid_file(file, error),
    })
}

fn read_file(file: &Path) -> Result<Vec<u8>, HttpError> {
    let metadata = fs::metadata(file).map_err(|error| invalid_file(file, error))?;
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        let problem = format!("it is not a regular file of at most {MAX_FILE_BYTES} bytes");
        return Err(invalid_file(file, problem));
    }
    fs::read(file).map_err(|error| invalid_file(file, error))
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "callers pass temporary errors and strings"
)]
fn invalid_file(file: &Path, problem: impl ToString) -> HttpError {
    HttpError::not_sent(HttpErrorKind::TlsFile {
        file: file.to_owned(),
        problem: problem.to_string(),
    })
}

/// The error for a blocking task that panicked or was cancelled before it read the files.
fn cancelled() -> HttpError {
    let text = "the task that reads the certificates was cancelled";
    HttpError::not_sent(HttpErrorKind::TlsSetup(text.to_owned()))
}
