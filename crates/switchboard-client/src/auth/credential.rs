//! The headers that authorize a request.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use switchboard_wire::Secret;

use super::{AuthError, MAX_HEADER_BYTES, MAX_HEADERS};

/// Headers that say where a message ends or whom a connection belongs to: whoever sets them may hide
/// one request in another.
const FRAMING: [HeaderName; 9] = [
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

/// What authorizes a request: headers whose values cannot be printed. They go to the server's own
/// origin only, and over `http://` only to this machine.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credential(HeaderMap);

impl Credential {
    /// Nothing: for a server that asks for nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// `Authorization: Bearer …`.
    pub fn bearer(token: &Secret) -> Result<Self, AuthError> {
        let value = Secret::from(format!("Bearer {}", token.expose()));
        Self::none().header(header::AUTHORIZATION.as_str(), &value)
    }

    /// The same with another header; one of the same name is replaced.
    pub fn header(mut self, name: &str, value: &Secret) -> Result<Self, AuthError> {
        let parsed = HeaderName::from_bytes(name.as_bytes());
        let parsed = parsed.map_err(|_| AuthError::InvalidName {
            name: name.chars().take(80).collect(),
        })?;
        let name = parsed.to_string();
        if FRAMING.contains(&parsed) {
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

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Which headers there are.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(HeaderName::as_str)
    }

    /// The headers, for the one place that sends them. Their values are marked as sensitive.
    pub fn headers(&self) -> &HeaderMap {
        &self.0
    }

    /// These headers and those below that they do not replace.
    pub(crate) fn over(mut self, below: &Self) -> Self {
        for (name, value) in &below.0 {
            if !self.0.contains_key(name) {
                self.0.insert(name.clone(), value.clone());
            }
        }
        self
    }

    /// Whether all of `part` stands in it.
    pub fn includes(&self, part: &Self) -> bool {
        part.0
            .iter()
            .all(|(name, value)| self.0.get(name) == Some(value))
    }

    /// What to mask wherever the server is quoted: the values, and what follows a scheme such as
    /// `Bearer`.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let values = self.0.values();
        values
            .flat_map(|value| secret_parts(&String::from_utf8_lossy(value.as_bytes())))
            .collect()
    }
}

/// A header's value, and what of it follows a scheme such as `Bearer`.
pub fn secret_parts(value: &str) -> Vec<String> {
    let parts = value
        .split_once(' ')
        .map(|(_, rest)| rest.trim().to_owned());
    std::iter::once(value.to_owned()).chain(parts).collect()
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
    fn a_credential_cannot_be_printed() {
        let credential = Credential::bearer(&"hush-hush".into()).unwrap();
        assert_eq!(format!("{credential:?}"), r#"Credential["authorization"]"#);
        assert!(!format!("{:?}", credential.headers()).contains("hush"));
        assert_eq!(credential.headers()["authorization"], "Bearer hush-hush");
        assert_eq!(credential.secrets(), ["Bearer hush-hush", "hush-hush"]);
    }

    #[test]
    fn what_is_no_header_is_refused_in_words() {
        let give = |name: &str, value: &str| Credential::none().header(name, &value.into());
        for (name, value, says) in [
            ("", "x", r#""" is not the name of a header"#),
            (
                "A: b\r\nX",
                "x",
                r#""A: b\r\nX" is not the name of a header"#,
            ),
            ("Ä", "x", r#""Ä" is not the name of a header"#),
            (
                "X-A",
                "one\r\nHost: evil",
                "the value of the header x-a holds line breaks or other control characters",
            ),
            (
                "Content-Length",
                "0",
                "the header content-length is made from the request and cannot be given",
            ),
        ] {
            let error = give(name, value).unwrap_err();
            assert_eq!(error.to_string(), says);
            assert!(error.hint().is_some());
        }
        let long = "x".repeat(MAX_HEADER_BYTES);
        assert_eq!(give("X-A", &long), Err(AuthError::TooMany));
        // A file that was read ends with a line break.
        assert_eq!(give("X-A", "token\n").unwrap().headers()["x-a"], "token");
    }

    #[test]
    fn the_upper_headers_win() {
        let below = Credential::none().header("A", &"1".into()).unwrap();
        let below = below.header("B", &"1".into()).unwrap();
        let upper = Credential::none().header("b", &"2".into()).unwrap();
        let both = upper.clone().over(&below);
        assert_eq!(both.headers()["a"], "1");
        assert_eq!(both.headers()["b"], "2");
        assert!(both.includes(&upper));
        assert!(!both.includes(&below));
    }
}
