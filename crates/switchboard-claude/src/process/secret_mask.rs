//! Masks secrets from the environment of the CLI in error messages.

use std::collections::BTreeMap;
use std::sync::Arc;

/// If the name of a variable contains one of these, ignoring case, the value of the variable is a
/// secret.
const SECRET_NAME_PARTS: [&str; 4] = ["KEY", "TOKEN", "SECRET", "PASSWORD"];
/// Minimum length of a masked value, in bytes. Shorter values are not masked, because they could be
/// ordinary words of a message.
const MIN_SECRET_BYTES: usize = 8;

/// The values to mask, longest first: a value may be the beginning of a longer one, which must be
/// masked first.
#[derive(Clone, Default)]
pub(crate) struct SecretMask(Arc<[String]>);

impl SecretMask {
    /// Collects the values of those variables whose names indicate a secret.
    pub(crate) fn from_env(variables: &BTreeMap<String, String>) -> Self {
        let is_secret = |name: &str| {
            let name = name.to_ascii_uppercase();
            SECRET_NAME_PARTS.iter().any(|part| name.contains(part))
        };
        let secrets = variables
            .iter()
            .filter(|(name, value)| is_secret(name) && value.len() >= MIN_SECRET_BYTES);
        let mut secrets: Vec<_> = secrets.map(|(_, value)| value.clone()).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets.into())
    }

    /// Replaces each secret in a text by `***`.
    pub(crate) fn mask(&self, text: &str) -> String {
        let mask = |text: String, secret: &String| text.replace(secret.as_str(), "***");
        self.0.iter().fold(text.to_owned(), mask)
    }

    /// Like [`SecretMask::mask`], for a text whose beginning was cut off. If the text starts with
    /// the end of a secret, removes that part.
    pub(crate) fn mask_truncated(&self, text: &str) -> String {
        let suffixes = self.0.iter().flat_map(|secret| {
            let inner = secret.char_indices().skip(1);
            inner.filter_map(|(at, _)| secret.get(at..))
        });
        let cut = suffixes.filter(|suffix| text.starts_with(suffix));
        let cut = cut.map(str::len).max().unwrap_or_default();
        self.mask(text.get(cut..).unwrap_or_default())
    }
}

impl std::fmt::Debug for SecretMask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SecretMask({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(variables: &[(&str, &str)]) -> SecretMask {
        let variables = variables.iter();
        let variables = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        SecretMask::from_env(&variables.collect())
    }

    #[test]
    fn secrets_are_recognized_by_variable_name() {
        let mask = mask(&[
            ("ANTHROPIC_API_KEY", "sk-12345678"),
            ("github_token", "sk-12345678-more"),
            ("A_KEY", "short"),
            ("PATH", "/usr/bin:/bin"),
        ]);
        let text = "sk-12345678 sk-12345678-more short /usr/bin:/bin";
        assert_eq!(mask.mask(text), "*** *** short /usr/bin:/bin");
        assert!(!format!("{mask:?}").contains("1234"));
    }

    #[test]
    fn end_of_cut_secret_is_removed() {
        let mask = mask(&[("KEY", "sk-1234\n5678")]);
        assert_eq!(mask.mask_truncated("34\n5678 and so on"), " and so on");
        assert_eq!(mask.mask_truncated("sk-1234\n5678 twice"), "*** twice");
        assert_eq!(mask.mask_truncated("nothing"), "nothing");
    }
}
