//! Masks the secrets of a server in text from and about that server.
//!
//! A secret is masked in its plain form, in the form that it has inside a JSON string, and line by
//! line if it has several lines. Which values are secrets is decided by the caller.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::Secret;
use crate::mcp::{ErrorObject, Json, ServerHello};

/// The secrets of one server. Clones share the secrets that are added later.
#[derive(Clone, Default)]
pub struct Redactor {
    secrets: Arc<[String]>,
    /// Secrets added later, such as renewed tokens; newest last.
    later_secrets: Arc<ArcSwap<Vec<String>>>,
}

impl Redactor {
    /// Shorter values such as `1`, `true` or `8080` are not masked: they occur in harmless text.
    const MIN_SECRET_BYTES: usize = 8;

    /// How many spellings of later secrets are kept. Older tokens have probably expired.
    const MAX_LATER_SECRETS: usize = 64;

    /// Creates a redactor that masks these values.
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        Self {
            secrets: secret_spellings(values).into(),
            later_secrets: Arc::default(),
        }
    }

    /// Masks these values, too, from now on and in all clones.
    pub fn learn(&self, values: impl IntoIterator<Item = String>) {
        let new = secret_spellings(values);
        self.later_secrets.rcu(|known| {
            let known = known.iter().filter(|secret| !new.contains(secret));
            let mut all: Vec<_> = known.cloned().chain(new.clone()).collect();
            let surplus = all.len().saturating_sub(Self::MAX_LATER_SECRETS);
            all.drain(..surplus);
            all
        });
    }

    /// Replaces every secret in `text` with [`Secret::MASK`].
    pub fn redact(&self, text: &str) -> String {
        let later = self.later_secrets.load();
        let mut secrets: Vec<_> = self.secrets.iter().chain(later.iter()).collect();
        if !later.is_empty() {
            secrets.sort_by_key(|secret| Reverse(secret.len()));
        }
        let secrets = secrets.into_iter();
        secrets.fold(text.to_owned(), |text, secret| {
            text.replace(secret, Secret::MASK)
        })
    }

    /// Masks secrets in the message and data of a server's error.
    pub fn redact_error(&self, error: &mut ErrorObject) {
        if !self.is_empty() {
            error.message = self.redact(&error.message);
            error.data = error.data.take().and_then(|data| self.redact_json(data));
        }
    }

    /// Masks secrets in a server's name, version, title and instructions.
    pub fn redact_handshake(&self, handshake: &mut ServerHello) {
        if self.is_empty() {
            return;
        }
        if let Some(info) = &mut handshake.server_info {
            info.name = self.redact(&info.name);
            info.version = self.redact(&info.version);
            self.redact_optional(&mut info.title);
        }
        self.redact_optional(&mut handshake.instructions);
    }

    /// Masks secrets in each text that is present.
    pub fn redact_texts<const COUNT: usize>(&self, texts: [&mut Option<String>; COUNT]) {
        if self.is_empty() {
            return;
        }
        for text in texts {
            self.redact_optional(text);
        }
    }

    /// Masks secrets in JSON text. Returns `None` if the masked text is not JSON any more.
    pub fn redact_json(&self, json: Json) -> Option<Json> {
        if self.is_empty() {
            return Some(json);
        }
        Json::parse(&self.redact(json.as_str())).ok()
    }

    fn redact_optional(&self, text: &mut Option<String>) {
        if let Some(text) = text {
            *text = self.redact(text);
        }
    }

    fn is_empty(&self) -> bool {
        self.secrets.is_empty() && self.later_secrets.load().is_empty()
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.secrets.len() + self.later_secrets.load().len();
        write!(f, "Redactor({count} secrets)")
    }
}

/// Returns the spellings in which these secrets may appear, without those that are too short to be
/// masked. The longest spelling is first, so that a secret that contains another one is masked
/// whole.
fn secret_spellings(values: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut secrets: Vec<_> = values
        .into_iter()
        .flat_map(|value| {
            // Programs print a key of several lines line by line.
            let lines: Vec<_> = value.lines().map(str::to_owned).collect();
            lines.into_iter().chain([json_escaped(&value), value])
        })
        .filter(|value| value.len() >= Redactor::MIN_SECRET_BYTES)
        .collect();
    secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    secrets.dedup();
    secrets
}

/// Returns the text as it appears between the quotes of a JSON string.
fn json_escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    let escaped = quoted
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    escaped.unwrap_or(&quoted).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_that_ends_with_a_quote_is_masked_in_json() {
        let secret = "hunter2-hunter2\"".to_owned();
        let line = serde_json::json!({"key": secret}).to_string();
        let redactor = Redactor::new([secret]);
        assert_eq!(redactor.redact(&line), r#"{"key":"***"}"#);
    }

    #[test]
    fn secrets_are_masked_plain_and_in_json() {
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

    #[test]
    fn later_secrets_are_masked_by_all_clones() {
        let redactor = Redactor::new(["first-secret".to_owned()]);
        let copy = redactor.clone();
        redactor.learn(["first-secret-longer".to_owned()]);
        assert_eq!(copy.redact("first-secret-longer, first-secret"), "***, ***");
        for number in 0..10 * Redactor::MAX_LATER_SECRETS {
            redactor.learn([format!("token-number-{number:04}")]);
        }
        assert_eq!(copy.redact("token-number-0639"), "***");
        assert_eq!(copy.redact("token-number-0000"), "token-number-0000");
        assert_eq!(copy.redact("first-secret"), "***");
    }
}
