//! Seeing what goes over the wire.

use crate::id::ServerName;
use crate::mcp::{ErrorObject, Json};

/// Which way a line went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From us to the server.
    Sent,
    /// From the server to us.
    Received,
}

/// Watches the wire traffic of text transports. Called in the middle of things: be quick.
///
/// Values of the entry's `env` and `headers` are masked before a line gets here.
pub trait WireTap: Send + Sync + 'static {
    /// One line was sent or received.
    fn line(&self, server: &ServerName, direction: Direction, text: &str);
}

/// The secrets of one server's entry, to be masked wherever its traffic or its words are shown.
#[derive(Clone, Default)]
pub(crate) struct Redactor {
    secrets: Vec<String>,
}

impl Redactor {
    /// Shorter values (`1`, `true`, `8080`) would mask half of any text.
    const SHORTEST: usize = 8;

    pub(crate) fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut secrets: Vec<_> = values
            .into_iter()
            .flat_map(|value| {
                // A key of several lines is printed, and cut, line by line.
                let lines: Vec<_> = value.lines().map(str::to_owned).collect();
                lines.into_iter().chain([as_json(&value), value])
            })
            .filter(|value| value.len() >= Self::SHORTEST)
            .collect();
        // The longest first, so that a secret that contains another is masked whole.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self { secrets }
    }

    pub(crate) fn redact(&self, text: &str) -> String {
        self.secrets
            .iter()
            .fold(text.to_owned(), |text, secret| text.replace(secret, "***"))
    }
}

impl Redactor {
    /// Masks what a server says in an error.
    pub(crate) fn redact_error(&self, error: &mut ErrorObject) {
        if !self.secrets.is_empty() {
            error.message = self.redact(&error.message);
            error.data = error.data.take().and_then(|data| self.redact_json(data));
        }
    }

    /// Masks a piece of JSON; drops it if masking broke it.
    pub(crate) fn redact_json(&self, json: Json) -> Option<Json> {
        if self.secrets.is_empty() {
            return Some(json);
        }
        Json::parse(&self.redact(json.as_str())).ok()
    }
}

/// How a text looks inside a JSON string, where quotes and backslashes are escaped.
fn as_json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.trim_matches('"').to_owned()
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({} secrets)", self.secrets.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_as_they_are_and_as_json() {
        let secret = "pass\"word\\1".to_owned();
        let redactor = Redactor::new([
            secret.clone(),
            "pass\"word\\1-and-more".to_owned(),
            "8080".to_owned(),
        ]);
        let line = serde_json::json!({"key": secret, "port": "8080"}).to_string();
        assert_eq!(redactor.redact(&line), r#"{"key":"***","port":"8080"}"#);
        assert_eq!(redactor.redact(&secret), "***");
        assert_eq!(redactor.redact("pass\"word\\1-and-more"), "***");
    }
}
