//! Rejects options that the CLI would ignore or misunderstand.

use super::Options;
use crate::hooks::check_matcher;

impl Options {
    /// Checks the environment, the numbers and the hook matchers. The error says what to change.
    pub(crate) fn validate(&self) -> Result<(), String> {
        for (name, value) in &self.env {
            let bytes = name.as_encoded_bytes();
            let name = name.to_string_lossy();
            if bytes.is_empty() || bytes.contains(&b'=') || bytes.contains(&0) {
                return Err(format!(
                    "invalid variable name {name:?} in `Options::env`: it must not be empty or contain `=` or NUL"
                ));
            }
            if value.as_encoded_bytes().contains(&0) {
                return Err(format!(
                    "the value of the variable {name:?} in `Options::env` contains NUL"
                ));
            }
        }
        if self.max_turns == Some(0) {
            return Err("`Options::max_turns` must be at least 1".to_owned());
        }
        if let Some(dollars) = self.max_budget_usd
            && !(dollars.is_finite() && dollars > 0.0)
        {
            return Err(format!(
                "`Options::max_budget_usd` must be a positive number, not {dollars}"
            ));
        }
        for pattern in self.hooks.tool_patterns() {
            check_matcher(pattern).map_err(|problem| {
                format!("the hook matcher {pattern:?} is not a regular expression: {problem}")
            })?;
        }
        Ok(())
    }
}
