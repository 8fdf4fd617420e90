//! Credentials for requests to remote servers.
//!
//! The transport asks an [`AuthProvider`] for a [`Credential`] before each request and reports the
//! first three rejections of a request by the server. After each report, the provider decides
//! whether the request is retried. The provider neither sends requests to the server nor receives
//! responses.
//!
//! Invariant: formatting a credential never reveals its values.

mod challenge;
mod credential;
mod layers;
mod login_required;
mod static_headers;

pub use challenge::{Challenge, ChallengeScheme};
pub use credential::Credential;
#[doc(hidden)]
pub use credential::secrets_in_header;
#[doc(hidden)]
pub use layers::{ForPrincipal, RedactingProvider, WithStaticHeaders};
pub use login_required::LoginRequired;
#[doc(hidden)]
pub use static_headers::is_protocol_header;
pub use static_headers::{Bearer, StaticHeaders};
use switchboard_wire::BoxFuture;
use switchboard_wire::id::ServerName;

/// Provides the credentials for requests to a server, and decides how to go on after a rejection.
///
/// ```
/// use switchboard_client::auth::{
///     AuthError, AuthProvider, AuthRefusal, AuthRequest, AuthVerdict, Credential,
/// };
/// use switchboard_wire::BoxFuture;
///
/// /// Fetches a token from the vault of the platform.
/// struct Vault;
///
/// impl AuthProvider for Vault {
///     fn credential<'a>(
///         &'a self,
///         request: AuthRequest<'a>,
///     ) -> BoxFuture<'a, Result<Credential, AuthError>> {
///         Box::pin(async move { Credential::bearer(&token_for(request.server.as_str()).into()) })
///     }
///
///     fn refused<'a>(&'a self, refusal: AuthRefusal<'a>) -> BoxFuture<'a, AuthVerdict> {
///         // There is no other token to try.
///         Box::pin(async move { refusal.final_verdict() })
///     }
/// }
/// # fn token_for(_: &str) -> String { "t".to_owned() }
/// ```
///
/// Programs that embed the crate `switchboard` pass the provider to `HostBuilder::auth`, and import
/// these types from `switchboard::auth`.
pub trait AuthProvider: Send + Sync + 'static {
    /// Returns the credential for a request. Called before every request, so cache the credential.
    fn credential<'a>(
        &'a self,
        request: AuthRequest<'a>,
    ) -> BoxFuture<'a, Result<Credential, AuthError>>;

    /// Called when the server rejected a request with status 401 or 403. Decides whether the
    /// transport sends the request again with another credential. Called at most three times per
    /// request.
    fn refused<'a>(&'a self, refusal: AuthRefusal<'a>) -> BoxFuture<'a, AuthVerdict>;

    /// Whether different principals get different credentials. If `true`, a host opens a session of
    /// its own for every principal, so that principals never share a session or a listing. The
    /// default is `false`: all principals share one session.
    fn depends_on_principal(&self) -> bool {
        false
    }
}

/// The principal of a program with a single user, and of requests that no principal made.
pub const DEFAULT_PRINCIPAL: &str = "default";

/// What a provider needs to choose a credential: the server that the request is sent to, and on
/// whose behalf.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AuthRequest<'a> {
    /// Name of the server.
    pub server: &'a ServerName,
    /// URL of the server.
    pub url: &'a str,
    /// The principal whose session sends the request. Always [`DEFAULT_PRINCIPAL`] if
    /// [`AuthProvider::depends_on_principal`] is `false`.
    pub principal: &'a str,
}

impl<'a> AuthRequest<'a> {
    /// Describes a request of the default principal to the server `server` at `url`.
    pub fn new(server: &'a ServerName, url: &'a str) -> Self {
        Self {
            server,
            url,
            principal: DEFAULT_PRINCIPAL,
        }
    }

    /// Sets the principal.
    pub fn for_principal(mut self, principal: &'a str) -> Self {
        self.principal = principal;
        self
    }
}

/// A response with status 401 or 403 to one request of the session, and the credential that the
/// request carried.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AuthRefusal<'a> {
    /// Name of the server.
    pub server: &'a ServerName,
    /// Status of the response: 401 or 403.
    pub status: u16,
    /// The authentication schemes that the server accepts.
    pub challenge: &'a Challenge,
    /// The credential that the rejected request carried. The provider may already have a newer
    /// credential, which it obtained for a concurrent request.
    pub credential: &'a Credential,
    /// How often the server rejected this request before; 0 for the first rejection.
    pub previous_refusals: u32,
    /// The principal of the rejected request, as in [`AuthRequest`].
    pub principal: &'a str,
}

impl<'a> AuthRefusal<'a> {
    /// Describes the first rejection of a request: `previous_refusals` is 0.
    pub fn new(
        server: &'a ServerName,
        status: u16,
        challenge: &'a Challenge,
        credential: &'a Credential,
    ) -> Self {
        Self {
            server,
            status,
            challenge,
            credential,
            previous_refusals: 0,
            principal: DEFAULT_PRINCIPAL,
        }
    }

    /// Sets the principal.
    pub fn for_principal(mut self, principal: &'a str) -> Self {
        self.principal = principal;
        self
    }

    /// Sets `previous_refusals`, the number of earlier rejections of the same request.
    pub fn with_previous_refusals(mut self, count: u32) -> Self {
        self.previous_refusals = count;
        self
    }

    /// The verdict of a provider that has no other credential: `Forbidden` for status 403,
    /// `NeedsLogin` for status 401.
    pub fn final_verdict(&self) -> AuthVerdict {
        match self.status {
            403 => AuthVerdict::Forbidden,
            _ => AuthVerdict::NeedsLogin,
        }
    }
}

/// What the transport does after the server rejected a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthVerdict {
    /// Send the request again: the provider has a new credential.
    TryAgain,
    /// The user has to log in. The request fails, and the server is not retried until the user
    /// requests it.
    NeedsLogin,
    /// The credential is valid but does not permit this request. Only this request fails; the
    /// session continues.
    Forbidden,
    /// The provider tried to obtain a new credential and failed. The request fails with this error.
    Failed(AuthError),
}

/// Why a provider has no credential for a request. The error contains no header value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// The name is not a valid HTTP header name.
    #[error("{name:?} is not a valid header name")]
    InvalidName {
        /// The invalid name, at most 80 characters of it.
        name: String,
    },
    /// The value contains characters that are not allowed in an HTTP header, such as line breaks.
    #[error("the value of header {name} contains line breaks or other control characters")]
    InvalidValue {
        /// Name of the header with the invalid value.
        name: String,
    },
    /// A credential contains a header that affects the framing or routing of a request, such as
    /// `Host`. Only the HTTP client sets these headers.
    #[error("the header {name} is reserved for the HTTP client")]
    Reserved {
        /// Name of the reserved header.
        name: String,
    },
    /// The credential has more than 64 headers, or its headers are larger than 32 KiB in total.
    #[error("more than {MAX_HEADERS} headers, or more than {MAX_HEADER_BYTES} bytes of headers")]
    TooMany,
    /// The command in `headersHelper` failed or printed no valid headers.
    #[error("`headersHelper` {problem}")]
    Helper {
        /// What happened, as the rest of a sentence: "exited with code 1".
        problem: String,
    },
    /// The provider obtains its credential by a login, and the user has not logged in.
    #[error("login required: {hint}")]
    LoginNeeded {
        /// What the user can do to log in.
        hint: String,
    },
    /// The provider has no credential at present. A later request may succeed.
    #[error("no credential available: {reason}")]
    Unavailable {
        /// Why the provider has no credential, as text for the user. Must not contain secrets.
        reason: String,
    },
}

/// Maximum number of headers in a credential. Common HTTP servers accept at least this many.
pub(crate) const MAX_HEADERS: usize = 64;
/// Maximum total size of the header names and values in a credential.
pub(crate) const MAX_HEADER_BYTES: usize = 32 * 1024;

impl AuthError {
    /// Whether the error is [`AuthError::LoginNeeded`]: a login of the user would fix it.
    pub fn wants_login(&self) -> bool {
        matches!(self, Self::LoginNeeded { .. })
    }

    /// Whether a later attempt would fail with the same error. `false` only for a failed
    /// `headersHelper` and for [`AuthError::Unavailable`].
    pub fn is_permanent(&self) -> bool {
        !matches!(self, Self::Helper { .. } | Self::Unavailable { .. })
    }

    /// What the user can do to fix the error. `None` if only waiting helps
    /// ([`AuthError::Unavailable`]).
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::InvalidName { .. } | Self::InvalidValue { .. } | Self::Reserved { .. } => {
                Some("fix `headers` of the entry, or the output of its `headersHelper`".to_owned())
            }
            Self::TooMany => Some("remove headers from `headers` or `headersHelper` of the entry".to_owned()),
            Self::Helper { .. } => Some(
                "run the command by hand; it must print a JSON object of strings, or lines such as \
                 `Authorization: Bearer …`, and exit with code 0"
                    .to_owned(),
            ),
            Self::LoginNeeded { hint } => Some(hint.clone()),
            Self::Unavailable { .. } => None,
        }
    }
}

impl std::fmt::Debug for dyn AuthProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AuthProvider")
    }
}
