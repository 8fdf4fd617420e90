//! What authorizes requests to a remote server: the seam that logins plug into.
//!
//! A provider is asked for a [`Credential`] before each request and told when the server refused it.
//! It decides whether another try is worth it; it never sends anything to the server itself, and it
//! never sees an answer. Invariant: a credential cannot be printed.

mod challenge;
mod credential;
mod layers;
mod login_required;
mod static_headers;

pub use challenge::{Challenge, ChallengeScheme};
pub use credential::Credential;
#[doc(hidden)]
pub use credential::secret_parts;
#[doc(hidden)]
pub use layers::{RedactingProvider, WithStaticHeaders};
pub use login_required::LoginRequired;
#[doc(hidden)]
pub use static_headers::is_protocol_header;
pub use static_headers::{Bearer, StaticHeaders};
use switchboard_wire::BoxFuture;
use switchboard_wire::id::ServerName;

/// Provides what authorizes requests to one server.
///
/// ```
/// use switchboard::auth::{
///     AuthError, AuthProvider, AuthRefusal, AuthRequest, AuthVerdict, Credential,
/// };
/// use switchboard::Host;
/// use switchboard::interaction::BoxFuture;
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
///
/// let builder = Host::builder().auth("tickets", Vault);
/// ```
pub trait AuthProvider: Send + Sync + 'static {
    /// What authorizes one request. Asked for each: be quick, and keep what you have.
    fn credential<'a>(
        &'a self,
        request: AuthRequest<'a>,
    ) -> BoxFuture<'a, Result<Credential, AuthError>>;

    /// The server refused the credential (401 or 403): is another try with another one worth it?
    /// A server that keeps refusing is asked about no more than a few times for one request.
    fn refused<'a>(&'a self, refusal: AuthRefusal<'a>) -> BoxFuture<'a, AuthVerdict>;
}

/// The request that is to be authorized.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AuthRequest<'a> {
    /// Whose request it is.
    pub server: &'a ServerName,
    /// Where it goes.
    pub url: &'a str,
}

impl<'a> AuthRequest<'a> {
    /// A request to the server of this name at this address.
    pub fn new(server: &'a ServerName, url: &'a str) -> Self {
        Self { server, url }
    }
}

/// A request that the server refused.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AuthRefusal<'a> {
    /// Who refused it.
    pub server: &'a ServerName,
    /// 401 or 403.
    pub status: u16,
    /// What the server wants instead, in its own words.
    pub challenge: &'a Challenge,
    /// What it refused. Another request may have got a newer one meanwhile.
    pub credential: &'a Credential,
    /// How often this one request was refused before.
    pub before: u32,
}

impl<'a> AuthRefusal<'a> {
    /// The first refusal of a request.
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
            before: 0,
        }
    }

    /// The same after `before` earlier refusals of the same request.
    pub fn after(mut self, before: u32) -> Self {
        self.before = before;
        self
    }

    /// What a refusal means for whoever has no other credential: a 403 is a no to this one, anything
    /// else asks for a login.
    pub fn final_verdict(&self) -> AuthVerdict {
        match self.status {
            403 => AuthVerdict::Forbidden,
            _ => AuthVerdict::NeedsLogin,
        }
    }
}

/// What follows a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthVerdict {
    /// There is another credential now: once more, please.
    TryAgain,
    /// Somebody has to log in. The server is not tried again until somebody asks for it.
    NeedsLogin,
    /// The credential is good, and does not permit this. Only the one request fails.
    Forbidden,
    /// Another credential was to be had, and could not.
    Failed(AuthError),
}

/// Why there is no credential. Never holds one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// That cannot be sent as a header.
    #[error("{name:?} is not the name of a header")]
    InvalidName {
        /// What was to be its name.
        name: String,
    },
    /// Its value cannot be sent.
    #[error("the value of the header {name} holds line breaks or other control characters")]
    InvalidValue {
        /// The header.
        name: String,
    },
    /// It frames the message, so it is not for others to set.
    #[error("the header {name} is made from the request and cannot be given")]
    Reserved {
        /// The header.
        name: String,
    },
    /// There would be more than a request can carry.
    #[error(
        "there are more than {MAX_HEADERS} headers, or more than {MAX_HEADER_BYTES} bytes of them"
    )]
    TooMany,
    /// The command in `headersHelper` did not do its part.
    #[error("`headersHelper` {what}")]
    Helper {
        /// What happened.
        what: String,
    },
    /// Nobody has logged in.
    #[error("a login is needed: {hint}")]
    LoginNeeded {
        /// What to do about it.
        hint: String,
    },
    /// The provider could not get one now; later it may.
    #[error("no credential could be had: {why}")]
    Unavailable {
        /// In words, without any secret.
        why: String,
    },
}

/// As many headers fit into any server.
pub(crate) const MAX_HEADERS: usize = 64;
/// As many bytes of headers, names and values together.
pub(crate) const MAX_HEADER_BYTES: usize = 32 * 1024;

impl AuthError {
    /// Whether somebody has to log in.
    pub fn wants_login(&self) -> bool {
        matches!(self, Self::LoginNeeded { .. })
    }

    /// Whether the same is to be expected of another try.
    pub fn is_permanent(&self) -> bool {
        !matches!(self, Self::Helper { .. } | Self::Unavailable { .. })
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::InvalidName { .. } | Self::InvalidValue { .. } | Self::Reserved { .. } => {
                Some("mend `headers` in its entry, or what `headersHelper` prints".to_owned())
            }
            Self::TooMany => Some("give fewer headers".to_owned()),
            Self::Helper { .. } => Some(
                "run the command by hand: it prints a JSON object of strings, or lines such as \
                 `Authorization: Bearer …`, and exits with 0"
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
