//! The headers that authorize a request.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use switchboard_wire::Secret;

use super::{AuthError, MAX_HEADER_BYTES, MAX_HEADERS};

/// Headers that affect the framing or routing of a message. Setting them would allow request
/// smuggling.
const RESERVED: [HeaderName; 9] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
    header::EXPECT,
    header::PROXY_AUTHORIZATION,
];

/// The HTTP headers that authorize a request to a server. `Debug` prints their names, never their
/// values.
///
/// The HTTP client sends a credential only to the origin of the server. Over `http://`, it sends
/// one only to a server on this machine.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credential(HeaderMap);

impl Credential {
    /// Returns a credential without headers, for a server that needs no login.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns a credential with the header `Authorization: Bearer …`.
    pub fn bearer(token: &Secret) -> Result<Self, AuthError> {
        let value = Secret::from(format!("Bearer {}", token.expose()));
        Self::none().header(header::AUTHORIZATION.as_str(), &value)
    }

    /// Adds a header. If the credential already has a header with this name, replaces its value.
    pub fn header(mut self, name: &str, value: &Secret) -> Result<Self, AuthError> {
        let parsed = HeaderName::from_bytes(name.as_bytes());
        let parsed = parsed.map_err(|_| AuthError::InvalidName {
            name: name.chars().take(80).collect(),
        })?;
        let name = parsed.to_string();
        if RESERVED.contains(&parsed) {
            return Err(AuthError::Reserved { name });
        }
        let invalid = |_| AuthError::InvalidValue { name };
        let mut value =
            HeaderValue::from_bytes(value.expose().trim().as_bytes()).map_err(invalid)?;
        value.set_sensitive(true);
        self.0.insert(parsed, value);
        let bytes = self
            .0
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len());
        if self.0.len() > MAX_HEADERS || bytes.sum::<usize>() > MAX_HEADER_BYTES {
            return Err(AuthError::TooMany);
        }
        Ok(self)
    }

    /// Whether the credential has no headers.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names of the headers, in lower case.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(HeaderName::as_str)
    }

    /// The headers to send. Their values are marked as sensitive, so that formatting the map does
    /// not print them.
    pub fn headers(&self) -> &HeaderMap {
        &self.0
    }

    /// Adds those headers of `defaults` whose names this credential does not have.
    pub(crate) fn with_defaults(mut self, defaults: &Self) -> Self {
        for (name, value) in &defaults.0 {
            if !self.0.contains_key(name) {
                self.0.insert(name.clone(), value.clone());
            }
        }
        self
    }

    /// Whether this credential contains every header of `other` with the same value.
    pub fn includes(&self, other: &Self) -> bool {
        other
            .0
            .iter()
            .all(|(name, value)| self.0.get(name) == Some(value))
    }

    /// The texts to mask in output: each header value, and separately the part after a scheme such
    /// as `Bearer`.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let values = self.0.values();
        values
            .flat_map(|value| secrets_in_header(&String::from_utf8_lossy(value.as_bytes())))
            .collect()
    }
}

/// Returns the texts to mask for one header value: the whole value, and the part after its first
/// space (the token in `Bearer …`).
pub fn secrets_in_header(value: &str) -> Vec<String> {
    let after_scheme = value
        .split_once(' ')
        .map(|(_, rest)| rest.trim().to_owned());
    std::iter::once(value.to_owned())
        .chain(after_scheme)
        .collect()
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential")?;
        f.debug_list().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_contains_no_values() {
        let credential = Credential::bearer(&"hush-hush".into()).unwrap();
        assert_eq!(format!("{credential:?}"), r#"Credential["authorization"]"#);
        assert!(!format!("{:?}", credential.headers()).contains("hush"));
        assert_eq!(credential.headers()["authorization"], "Bearer hush-hush");
        assert_eq!(credential.secrets(), ["Bearer hush-hush", "hush-hush"]);
    }

    #[test]
    fn invalid_headers_are_refused() {
        let with_header = |name: &str, value: &str| Credential::none().header(name, &value.into());
        for (name, value, message) in [
            ("", "x", r#""" is not a valid header name"#),
            (
                "A: b\r\nX",
                "x",
                r#""A: b\r\nX" is not a valid header name"#,
            ),
            ("Ä", "x", r#""Ä" is not a valid header name"#),
            (
                "X-A",
                "one\r\nHost: evil",
                "the value of header x-a contains line breaks or other control characters",
            ),
            (
                "Content-Length",
                "0",
                "the header content-length is reserved for the HTTP client",
            ),
        ] {
            let error = with_header(name, value).unwrap_err();
            assert_eq!(error.to_string(), message);
            assert!(error.hint().is_some());
        }
        let long = "x".repeat(MAX_HEADER_BYTES);
        assert_eq!(with_header("X-A", &long), Err(AuthError::TooMany));
        // A token that is read from a file may end with a line break.
        assert_eq!(
            with_header("X-A", "token\n").unwrap().headers()["x-a"],
            "token"
        );
    }

    #[test]
    fn defaults_do_not_replace_headers() {
        let defaults = Credential::none().header("A", &"1".into()).unwrap();
        let defaults = defaults.header("B", &"1".into()).unwrap();
        let own = Credential::none().header("b", &"2".into()).unwrap();
        let both = own.clone().with_defaults(&defaults);
        assert_eq!(both.headers()["a"], "1");
        assert_eq!(both.headers()["b"], "2");
        assert!(both.includes(&own));
        assert!(!both.includes(&defaults));
    }
}
