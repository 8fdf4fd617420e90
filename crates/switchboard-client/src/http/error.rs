//! Errors of the HTTP client.
//!
//! Invariant: no message contains a credential, or the query or user name of a URL.

use std::error::Error as _;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio_rustls::rustls;

use crate::connect_stage::ConnectStage;
use crate::delivery::Delivery;
use switchboard_wire::limits::truncate_to_millis;

/// Why a request has no complete response, and whether the request may have been sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpError {
    /// Whether the server may have received the request.
    pub(crate) delivery: Delivery,
    pub(crate) kind: HttpErrorKind,
}

impl HttpError {
    pub(super) fn not_sent(kind: HttpErrorKind) -> Self {
        Self {
            delivery: Delivery::NotSent,
            kind,
        }
    }

    pub(super) fn unknown(kind: HttpErrorKind) -> Self {
        Self {
            delivery: Delivery::Unknown,
            kind,
        }
    }

    /// The stage of a connection attempt that failed, if this error ended the attempt.
    pub(crate) fn stage(&self) -> ConnectStage {
        use HttpErrorKind as Kind;
        match self.kind {
            Kind::Tls { .. } | Kind::TlsFile { .. } | Kind::TlsSetup(_) => ConnectStage::Secure,
            Kind::ClosedBeforeResponse { .. }
            | Kind::IncompleteResponse { .. }
            | Kind::Io { .. }
            | Kind::InvalidResponse { .. }
            | Kind::UnsupportedEncoding { .. }
            | Kind::CorruptGzip { .. } => ConnectStage::Alive,
            _ => ConnectStage::Open,
        }
    }
}

impl HttpErrorKind {
    /// Adds a hint to the error for a response that is not HTTP: over unencrypted http, a server
    /// that speaks TLS answers with a TLS alert.
    pub(super) fn with_tls_hint(mut self) -> Self {
        if let Self::InvalidResponse { error, .. } = &mut self {
            error.push_str("; if the server speaks TLS, use `https://` in the URL");
        }
        self
    }
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl std::error::Error for HttpError {}

/// What failed. In all variants, `address` is `host:port` of the server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HttpErrorKind {
    /// The URL or the TLS configuration of the server is invalid. Holds the error message.
    #[error("{0}")]
    InvalidConfig(&'static str),
    #[error("TLS cannot be set up: {0}")]
    TlsSetup(String),
    #[error("request to {url} not sent: its origin differs from that of the server, {address}")]
    OtherOrigin { address: String, url: String },
    #[error(
        "credentials not sent to {address} over unencrypted http; use `https://` (http is allowed \
         only for servers on this machine)"
    )]
    UnencryptedCredential { address: String },
    #[error("the header `{name}` is reserved for the HTTP client; remove it from the entry")]
    ReservedHeader { name: String },
    #[error("cannot resolve host {host}: {error}")]
    DnsLookup { host: String, error: String },
    #[error("cannot connect to {address}: {error}")]
    Connect { address: String, error: String },
    #[error("cannot connect to {address} within {:?}", truncate_to_millis(*.limit))]
    ConnectTimeout { address: String, limit: Duration },
    #[error("cannot connect to {address} through proxy {proxy}: {problem}")]
    Proxy {
        proxy: String,
        address: String,
        problem: String,
    },
    #[error("no TLS connection to {address}: {problem}")]
    Tls {
        address: String,
        problem: TlsProblem,
    },
    /// A certificate or key file is invalid.
    #[error("cannot use {}: {problem}", .file.display())]
    TlsFile { file: PathBuf, problem: String },
    #[error("{address} closed the connection before it responded")]
    ClosedBeforeResponse { address: String },
    #[error("{address} closed the connection in the middle of its response")]
    IncompleteResponse { address: String },
    #[error("connection to {address} failed: {error}")]
    Io { address: String, error: String },
    #[error("{address} sent an invalid HTTP response: {error}")]
    InvalidResponse { address: String, error: String },
    #[error("{address} sent a response with the unsupported encoding `{encoding}`")]
    UnsupportedEncoding { address: String, encoding: String },
    #[error("{address} sent corrupt gzip data: {error}")]
    CorruptGzip { address: String, error: String },
}

/// Why a TLS handshake failed, and what the user can do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TlsProblem {
    #[error(
        "its certificate is not signed by a trusted authority; to trust a private authority, set \
         `tls.ca` in the entry or SSL_CERT_FILE to its certificate"
    )]
    UnknownIssuer,
    #[error(
        "its certificate is that of a certificate authority (CA:TRUE), which is not accepted for a \
         server; create a server certificate (with openssl: `-addext \
         basicConstraints=critical,CA:FALSE`), then set `tls.ca` in the entry to its issuer or to \
         the certificate itself"
    )]
    CaCertificate,
    #[error("its certificate has expired; renew it, or check the clock of this machine")]
    Expired,
    #[error("its certificate is not valid yet; check the clock of this machine")]
    NotYetValid,
    /// The certificate is valid for other hosts only. Holds their names in parentheses.
    #[error("its certificate is for another host{0}; check the URL")]
    OtherHost(String),
    #[error(
        "it requires a client certificate that it trusts; set `tls.cert` and `tls.key` in the entry"
    )]
    ClientCertificateRequired,
    #[error("it does not speak TLS; if it serves unencrypted http, use `http://` in the URL")]
    NotTls,
    #[error("{0}")]
    Other(String),
}

impl TlsProblem {
    pub(super) fn from_io(error: &io::Error) -> Self {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
        match cause {
            Some(cause) => Self::from_rustls(cause),
            None if error.kind() == io::ErrorKind::UnexpectedEof => {
                Self::Other("it closed the connection during the handshake".to_owned())
            }
            None => Self::Other(error.to_string()),
        }
    }

    fn from_rustls(error: &rustls::Error) -> Self {
        use rustls::{AlertDescription as Alert, CertificateError as Bad, Error as Tls};
        match error {
            Tls::InvalidCertificate(bad) => match bad {
                Bad::Expired | Bad::ExpiredContext { .. } => Self::Expired,
                Bad::NotValidYet | Bad::NotValidYetContext { .. } => Self::NotYetValid,
                // rustls returns `BadSignature` if the issuer has the same name as a trusted
                // authority but another key.
                Bad::UnknownIssuer | Bad::BadSignature => Self::UnknownIssuer,
                Bad::NotValidForName => Self::OtherHost(String::new()),
                Bad::NotValidForNameContext { presented, .. } => {
                    Self::OtherHost(format_names(presented.as_slice()))
                }
                // The server presents a self-signed certificate that is marked as a certificate
                // authority.
                Bad::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
                    Self::CaCertificate
                }
                other => Self::Other(format!("its certificate is invalid: {other}")),
            },
            Tls::AlertReceived(
                Alert::CertificateRequired
                | Alert::BadCertificate
                | Alert::UnknownCA
                | Alert::CertificateUnknown
                | Alert::CertificateExpired
                | Alert::AccessDenied,
            ) => Self::ClientCertificateRequired,
            Tls::InvalidMessage(_) => Self::NotTls,
            other => Self::Other(other.to_string()),
        }
    }
}

/// Lists the first host names of a certificate in parentheses, for [`TlsProblem::OtherHost`].
fn format_names(presented: &[String]) -> String {
    const MAX_NAMES: usize = 3;
    let names: Vec<String> = presented
        .iter()
        .take(MAX_NAMES)
        .map(|name| name.escape_debug().take(100).collect())
        .collect();
    if names.is_empty() {
        String::new()
    } else {
        format!(" ({})", names.join(", "))
    }
}

fn is_tls_error(error: &io::Error) -> bool {
    let cause = error.get_ref();
    cause
        .and_then(|cause| cause.downcast_ref::<rustls::Error>())
        .is_some()
}

/// Converts an error of hyper. `has_head`: whether the head of the response had already arrived.
pub(super) fn from_hyper(address: &str, error: &hyper::Error, has_head: bool) -> HttpErrorKind {
    let address = address.to_owned();
    if error.is_parse() {
        return HttpErrorKind::InvalidResponse {
            address,
            error: error.to_string(),
        };
    }
    if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        return if has_head {
            HttpErrorKind::IncompleteResponse { address }
        } else {
            HttpErrorKind::ClosedBeforeResponse { address }
        };
    }
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(inner) = inner.downcast_ref::<io::Error>() {
            if is_tls_error(inner) {
                let problem = TlsProblem::from_io(inner);
                return HttpErrorKind::Tls { address, problem };
            }
            if has_head && inner.kind() == io::ErrorKind::UnexpectedEof {
                return HttpErrorKind::IncompleteResponse { address };
            }
            let error = inner.to_string();
            return HttpErrorKind::Io { address, error };
        }
        cause = inner.source();
    }
    HttpErrorKind::Io {
        address,
        error: error.to_string(),
    }
}
