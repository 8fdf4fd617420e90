//! Masks the secrets of a server wherever its text is shown.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::mcp::{ErrorObject, Json, ServerHello};

/// The secrets of one server's entry, to be masked wherever its traffic or its words are shown.
#[derive(Clone, Default)]
pub struct Redactor {
    secrets: Arc<[String]>,
    /// Those that came later, newest last: logins change.
    learnt: Arc<ArcSwap<Vec<String>>>,
}

impl Redactor {
    /// Shorter values (`1`, `true`, `8080`) would mask half of any text.
    const SHORTEST: usize = 8;

    /// As many are learnt; a server that still repeats older ones has been replaced long since.
    const MOST_LEARNT: usize = 64;

    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        Self {
            secrets: spellings(values).into(),
            learnt: Arc::default(),
        }
    }

    /// Masks these from now on as well, wherever this redactor is used.
    pub fn learn(&self, values: impl IntoIterator<Item = String>) {
        let new = spellings(values);
        self.learnt.rcu(|known| {
            let known = known.iter().filter(|secret| !new.contains(secret));
            let mut all: Vec<_> = known.cloned().chain(new.clone()).collect();
            let surplus = all.len().saturating_sub(Self::MOST_LEARNT);
            all.drain(..surplus);
            all
        });
    }

    pub fn redact(&self, text: &str) -> String {
        let learnt = self.learnt.load();
        let mut secrets: Vec<_> = self.secrets.iter().chain(learnt.iter()).collect();
        if !learnt.is_empty() {
            secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        }
        let secrets = secrets.into_iter();
        secrets.fold(text.to_owned(), |text, secret| text.replace(secret, "***"))
    }

    fn is_empty(&self) -> bool {
        self.secrets.is_empty() && self.learnt.load().is_empty()
    }
}

/// How secrets may be spelled; the longest first, so that one that contains another is masked whole.
fn spellings(values: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut secrets: Vec<_> = values
        .into_iter()
        .flat_map(|value| {
            // A key of several lines is printed, and cut, line by line.
            let lines: Vec<_> = value.lines().map(str::to_owned).collect();
            lines.into_iter().chain([as_json(&value), value])
        })
        .filter(|value| value.len() >= Redactor::SHORTEST)
        .collect();
    secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    secrets.dedup();
    secrets
}

impl Redactor {
    /// Masks what a server says in an error.
    pub fn redact_error(&self, error: &mut ErrorObject) {
        if !self.is_empty() {
            error.message = self.redact(&error.message);
            error.data = error.data.take().and_then(|data| self.redact_json(data));
        }
    }

    /// Masks what a server says of itself.
    pub fn redact_hello(&self, hello: &mut ServerHello) {
        if self.is_empty() {
            return;
        }
        let info = hello.server_info.as_mut();
        let named = info.map(|info| (&mut info.name, &mut info.version, &mut info.title));
        if let Some((name, version, title)) = named {
            *name = self.redact(name);
            *version = self.redact(version);
            self.redact_some(title);
        }
        self.redact_some(&mut hello.instructions);
    }

    /// Masks what a server says in words.
    pub fn redact_texts<const COUNT: usize>(&self, texts: [&mut Option<String>; COUNT]) {
        if self.is_empty() {
            return;
        }
        for text in texts {
            self.redact_some(text);
        }
    }

    fn redact_some(&self, text: &mut Option<String>) {
        if let Some(text) = text {
            *text = self.redact(text);
        }
    }

    /// Masks a piece of JSON; drops it if masking broke it.
    pub fn redact_json(&self, json: Json) -> Option<Json> {
        if self.is_empty() {
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
        let count = self.secrets.len() + self.learnt.load().len();
        write!(f, "Redactor({count} secrets)")
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

    #[test]
    fn what_is_learnt_later_is_masked_by_every_copy() {
        let redactor = Redactor::new(["first-secret".to_owned()]);
        let copy = redactor.clone();
        redactor.learn(["first-secret-longer".to_owned()]);
        assert_eq!(copy.redact("first-secret-longer, first-secret"), "***, ***");
        for number in 0..10 * Redactor::MOST_LEARNT {
            redactor.learn([format!("token-number-{number:04}")]);
        }
        assert_eq!(copy.redact("token-number-0639"), "***");
        assert_eq!(copy.redact("token-number-0000"), "token-number-0000");
        assert_eq!(copy.redact("first-secret"), "***");
    }
}
