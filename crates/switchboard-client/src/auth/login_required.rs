//! A server that does nothing before somebody logs in, in words.

use std::fmt;

use super::{AuthError, Challenge, Credential};
use switchboard_wire::id::ServerName;
use switchboard_wire::redact::Redactor;

/// What a server wants before it does anything, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginRequired {
    /// What happened.
    pub what: String,
    /// What the server said it wants.
    pub challenge: Challenge,
    /// What to do about it.
    pub hint: String,
}

impl LoginRequired {
    /// The server refused what it was sent, if it was sent anything.
    pub(crate) fn after_refusal(
        server: &ServerName,
        status: u16,
        challenge: Challenge,
        credential: &Credential,
    ) -> Self {
        // What it wants need not be what it got.
        let challenge = challenge.masked(&Redactor::new(credential.secrets()));
        let sent: Vec<_> = credential.names().collect();
        let what = if sent.is_empty() {
            format!("the server wants a login (HTTP {status})")
        } else {
            let sent = sent.join(", ");
            format!("the server refused what it was sent to log in ({sent}; HTTP {status})")
        };
        let what = match challenge.to_string() {
            wants if wants.is_empty() => what,
            wants => format!("{what}: {wants}"),
        };
        let hint = if sent.is_empty() {
            format!(
                "switchboard add {server} URL -H \"Authorization: Bearer …\" --force, or a \
                 `headersHelper` that prints the header"
            )
        } else {
            "renew the token that `headers` or `headersHelper` of its entry gives".to_owned()
        };
        Self {
            what,
            challenge,
            hint,
        }
    }

    /// There is nothing to send before somebody has logged in.
    pub(crate) fn before_asking(error: &AuthError) -> Self {
        Self {
            what: "nobody has logged in to it".to_owned(),
            challenge: Challenge::default(),
            hint: error.hint().unwrap_or_default(),
        }
    }
}

impl fmt::Display for LoginRequired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_the_server_wants_and_what_to_type() {
        let name = ServerName::new("tickets").unwrap();
        let challenge = Challenge::parse([br#"Bearer error="invalid_token""#.as_slice()]);
        let login =
            LoginRequired::after_refusal(&name, 401, challenge.clone(), &Credential::none());
        assert_eq!(
            login.to_string(),
            "the server wants a login (HTTP 401): Bearer (error: invalid_token)"
        );
        assert!(login.hint.starts_with("switchboard add tickets URL -H"));

        let sent = Credential::bearer(&"hush-hush".into()).unwrap();
        let login = LoginRequired::after_refusal(&name, 401, challenge, &sent);
        assert_eq!(
            login.to_string(),
            "the server refused what it was sent to log in (authorization; HTTP 401): \
             Bearer (error: invalid_token)"
        );
        assert!(!format!("{login:?}").contains("hush"));
    }
}
