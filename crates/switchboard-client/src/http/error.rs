//! What can go wrong between us and a server, in words.
//!
//! Invariant: no message holds a secret, the query of an address, or what stands before its `@`.

use std::error::Error as _;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio_rustls::rustls;

use crate::connect_stage::ConnectStage;
use crate::delivery::Delivery;
use switchboard_wire::limits::truncate_to_millis;

/// Why there is no answer, or only half of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpError {
    /// What is known of the request.
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
}

impl HttpError {
    /// The step on the way to a server that it did not get past.
    pub(crate) fn stage(&self) -> ConnectStage {
        use HttpErrorKind as Kind;
        match self.kind {
            Kind::Tls { .. } | Kind::Certificate { .. } | Kind::Setup(_) => ConnectStage::Secure,
            Kind::PlainCredential { .. } | Kind::ReservedHeader { .. } => ConnectStage::Login,
            Kind::Closed { .. }
            | Kind::Cut { .. }
            | Kind::Broken { .. }
            | Kind::Malformed { .. }
            | Kind::Encoding { .. }
            | Kind::Gzip { .. } => ConnectStage::Alive,
            _ => ConnectStage::Open,
        }
    }
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl std::error::Error for HttpError {}

/// What went wrong. `at` is `host:port`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HttpErrorKind {
    #[error("{0}")]
    Address(&'static str),
    #[error("no safe connection can be set up: {0}")]
    Setup(String),
    #[error("the address {to} is not of {at}: nothing is sent to another server")]
    OtherOrigin { at: String, to: String },
    #[error(
        "credentials are not sent to {at} over plain http, where anybody on the way can read \
         them: use `https://` (only servers on this machine are excepted)"
    )]
    PlainCredential { at: String },
    #[error(
        "the header `{name}` is set by the connection itself: take it out of the server's headers"
    )]
    ReservedHeader { name: String },
    #[error("the name {host} could not be looked up: {error}")]
    Lookup { host: String, error: String },
    #[error("no connection to {at}: {error}")]
    Connect { at: String, error: String },
    #[error("no connection to {at} within {:?}", truncate_to_millis(*.limit))]
    ConnectTimeout { at: String, limit: Duration },
    #[error("the proxy {proxy} does not connect us to {at}: {answer}")]
    Proxy {
        proxy: String,
        at: String,
        answer: String,
    },
    #[error("no safe connection to {at}: {problem}")]
    Tls { at: String, problem: TlsProblem },
    #[error("the file {} cannot be used: {problem}", .file.display())]
    Certificate { file: PathBuf, problem: String },
    #[error("{at} closed the connection before it answered")]
    Closed { at: String },
    #[error("{at} closed the connection in the middle of its answer")]
    Cut { at: String },
    #[error("the connection to {at} broke: {error}")]
    Broken { at: String, error: String },
    #[error("{at} did not answer with valid HTTP: {error}")]
    Malformed { at: String, error: String },
    #[error("the answer of {at} is encoded as `{encoding}`, which was not asked for")]
    Encoding { at: String, encoding: String },
    #[error("the gzip data of {at} is damaged: {error}")]
    Gzip { at: String, error: String },
}

/// What is wrong with the encryption, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TlsProblem {
    #[error(
        "its certificate is not signed by an authority that is known here; if it is your own, \
         name the file of that authority as `tls.ca` in the entry, or in SSL_CERT_FILE"
    )]
    UnknownIssuer,
    #[error(
        "its certificate is that of an authority (CA:TRUE), and an authority is no server: trusted \
         or not, it is refused; have a certificate for the server made (with openssl: `-addext \
         basicConstraints=critical,CA:FALSE`), and name its authority, or itself, as `tls.ca`"
    )]
    Authority,
    #[error("its certificate has expired: it has to be renewed there (is the clock here right?)")]
    Expired,
    #[error("its certificate is not valid yet: is the clock here right?")]
    NotYetValid,
    #[error("its certificate is for another name{0}: is the address right?")]
    OtherName(String),
    #[error(
        "it wants a certificate of ours that it knows: name the files as `tls.cert` and `tls.key` \
         in the entry"
    )]
    WantsCertificate,
    #[error("it does not speak TLS there: is the address meant to begin with `http://`?")]
    NoTls,
    #[error("{0}")]
    Other(String),
}

impl TlsProblem {
    pub(super) fn of(error: &io::Error) -> Self {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
        match cause {
            Some(cause) => Self::of_rustls(cause),
            None if error.kind() == io::ErrorKind::UnexpectedEof => {
                Self::Other("it closed the connection while that was being set up".to_owned())
            }
            None => Self::Other(error.to_string()),
        }
    }

    fn of_rustls(error: &rustls::Error) -> Self {
        use rustls::{AlertDescription as Alert, CertificateError as Bad, Error as Tls};
        match error {
            Tls::InvalidCertificate(bad) => match bad {
                Bad::Expired | Bad::ExpiredContext { .. } => Self::Expired,
                Bad::NotValidYet | Bad::NotValidYetContext { .. } => Self::NotYetValid,
                // The second: by an authority of the same name, but not by the same authority.
                Bad::UnknownIssuer | Bad::BadSignature => Self::UnknownIssuer,
                Bad::NotValidForName => Self::OtherName(String::new()),
                Bad::NotValidForNameContext { presented, .. } => {
                    Self::OtherName(names(presented.as_slice()))
                }
                // Somebody's own certificate, which is an authority and a server at once.
                Bad::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
                    Self::Authority
                }
                other => Self::Other(format!("its certificate is refused: {other}")),
            },
            Tls::AlertReceived(
                Alert::CertificateRequired
                | Alert::BadCertificate
                | Alert::UnknownCA
                | Alert::CertificateUnknown
                | Alert::CertificateExpired
                | Alert::AccessDenied,
            ) => Self::WantsCertificate,
            Tls::InvalidMessage(_) => Self::NoTls,
            other => Self::Other(other.to_string()),
        }
    }
}

fn names(presented: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<String> = presented
        .iter()
        .take(SHOWN)
        .map(|name| name.escape_debug().take(100).collect())
        .collect();
    if shown.is_empty() {
        String::new()
    } else {
        format!(" ({})", shown.join(", "))
    }
}

fn is_tls(error: &io::Error) -> bool {
    let cause = error.get_ref();
    cause
        .and_then(|cause| cause.downcast_ref::<rustls::Error>())
        .is_some()
}

/// What hyper says of an exchange that failed, `at` being the server. `answering` is whether the
/// head of the answer was there already.
pub(super) fn of_exchange(at: &str, error: &hyper::Error, answering: bool) -> HttpErrorKind {
    let at = at.to_owned();
    if error.is_parse() {
        return HttpErrorKind::Malformed {
            at,
            error: error.to_string(),
        };
    }
    if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        return if answering {
            HttpErrorKind::Cut { at }
        } else {
            HttpErrorKind::Closed { at }
        };
    }
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(inner) = inner.downcast_ref::<io::Error>() {
            if is_tls(inner) {
                let problem = TlsProblem::of(inner);
                return HttpErrorKind::Tls { at, problem };
            }
            if answering && inner.kind() == io::ErrorKind::UnexpectedEof {
                return HttpErrorKind::Cut { at };
            }
            let error = inner.to_string();
            return HttpErrorKind::Broken { at, error };
        }
        cause = inner.source();
    }
    HttpErrorKind::Broken {
        at,
        error: error.to_string(),
    }
}
