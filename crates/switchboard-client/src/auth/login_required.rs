//! Describes to the user why a server requires a login, and how to log in.

use std::fmt;

use super::{AuthError, Challenge, Credential};
use switchboard_wire::id::ServerName;
use switchboard_wire::redact::Redactor;
use switchboard_wire::text::quote_for_shell;

/// Why a server requires a login, and how the user can log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginRequired {
    /// Why the login is required, as text for the user.
    pub reason: String,
    /// The authentication schemes that the server accepts. Empty if no request was sent, or if the
    /// response lists no scheme. Secrets are masked.
    pub challenge: Challenge,
    /// What the user can do to log in: a command or a change of the config entry.
    pub hint: String,
}

impl LoginRequired {
    /// Describes a response with status 401 or 403. `credential` is what the rejected request
    /// carried; it may be empty.
    pub(crate) fn after_refusal(
        server: &ServerName,
        status: u16,
        challenge: Challenge,
        credential: &Credential,
    ) -> Self {
        // The server may have repeated the credential in its response.
        let challenge = challenge.redacted(&Redactor::new(credential.secrets()));
        let sent: Vec<_> = credential.names().collect();
        let reason = if sent.is_empty() {
            format!("the server requires a login (HTTP {status})")
        } else {
            let sent = sent.join(", ");
            format!("the server rejected the login credential ({sent}; HTTP {status})")
        };
        let reason = match challenge.to_string() {
            schemes if schemes.is_empty() => reason,
            schemes => format!("{reason}: {schemes}"),
        };
        let hint = if sent.is_empty() {
            let server = quote_for_shell(server.as_str());
            format!(
                "switchboard add {server} URL -H \"Authorization: Bearer …\" --force, or a \
                 `headersHelper` that prints the header"
            )
        } else {
            "renew the token in `headers` of the entry, or the one that its `headersHelper` prints"
                .to_owned()
        };
        Self {
            reason,
            challenge,
            hint,
        }
    }

    /// Describes a provider that has no credential because the user has not logged in. No request
    /// was sent.
    pub(crate) fn without_credential(error: &AuthError) -> Self {
        Self {
            reason: "not logged in".to_owned(),
            challenge: Challenge::default(),
            hint: error.hint().unwrap_or_default(),
        }
    }
}

impl fmt::Display for LoginRequired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_names_challenge_and_hint_names_command() {
        let name = ServerName::new("tickets").unwrap();
        let challenge = Challenge::parse([br#"Bearer error="invalid_token""#.as_slice()]);
        let login =
            LoginRequired::after_refusal(&name, 401, challenge.clone(), &Credential::none());
        assert_eq!(
            login.to_string(),
            "the server requires a login (HTTP 401): Bearer (error: invalid_token)"
        );
        assert!(login.hint.starts_with("switchboard add tickets URL -H"));

        let sent = Credential::bearer(&"hush-hush".into()).unwrap();
        let login = LoginRequired::after_refusal(&name, 401, challenge, &sent);
        assert_eq!(
            login.to_string(),
            "the server rejected the login credential (authorization; HTTP 401): \
             Bearer (error: invalid_token)"
        );
        assert!(!format!("{login:?}").contains("hush"));
    }
}
