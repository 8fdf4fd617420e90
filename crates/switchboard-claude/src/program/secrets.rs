//! Values of the environment that are not to be repeated in error messages.

use std::collections::BTreeMap;
use std::sync::Arc;

/// What a variable with a secret is called.
const SIGNS: [&str; 4] = ["KEY", "TOKEN", "SECRET", "PASSWORD"];
/// Anything shorter may be a word of any message.
const SHORTEST: usize = 8;

/// Secrets, the longest first: one may be the beginning of another.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Arc<[String]>);

impl Secrets {
    /// Those of an environment, told by the names of its variables.
    pub(crate) fn of(variables: &BTreeMap<String, String>) -> Self {
        let is_secret = |name: &str| {
            let name = name.to_ascii_uppercase();
            SIGNS.iter().any(|sign| name.contains(sign))
        };
        let secrets = variables
            .iter()
            .filter(|(name, value)| is_secret(name) && value.len() >= SHORTEST);
        let mut secrets: Vec<_> = secrets.map(|(_, value)| value.clone()).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets.into())
    }

    /// A text without them.
    pub(crate) fn masked(&self, text: &str) -> String {
        let mask = |text: String, secret: &String| text.replace(secret.as_str(), "***");
        self.0.iter().fold(text.to_owned(), mask)
    }

    /// The same, of a text whose beginning was cut off, perhaps in the middle of a secret.
    pub(crate) fn masked_rest(&self, text: &str) -> String {
        let ends = self.0.iter().flat_map(|secret| {
            let inner = secret.char_indices().skip(1);
            inner.filter_map(|(at, _)| secret.get(at..))
        });
        let begun = ends.filter(|end| text.starts_with(end));
        let begun = begun.map(str::len).max().unwrap_or_default();
        self.masked(text.get(begun..).unwrap_or_default())
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(variables: &[(&str, &str)]) -> Secrets {
        let variables = variables.iter();
        let variables = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Secrets::of(&variables.collect())
    }

    #[test]
    fn secrets_are_told_by_their_names_and_masked() {
        let secrets = secrets(&[
            ("ANTHROPIC_API_KEY", "sk-12345678"),
            ("github_token", "sk-12345678-more"),
            ("A_KEY", "short"),
            ("PATH", "/usr/bin:/bin"),
        ]);
        let text = "sk-12345678 sk-12345678-more short /usr/bin:/bin";
        assert_eq!(secrets.masked(text), "*** *** short /usr/bin:/bin");
        assert!(!format!("{secrets:?}").contains("1234"));
    }

    #[test]
    fn the_end_of_a_secret_is_one_too() {
        let secrets = secrets(&[("KEY", "sk-1234\n5678")]);
        assert_eq!(secrets.masked_rest("34\n5678 and so on"), " and so on");
        assert_eq!(secrets.masked_rest("sk-1234\n5678 twice"), "*** twice");
        assert_eq!(secrets.masked_rest("nothing"), "nothing");
    }
}
