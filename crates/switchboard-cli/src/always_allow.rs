//! Saves an allow rule when the user answers "always" to a permission question.
//!
//! The rule matches only the tool that the user was asked about. Invariant: rules go to the user's
//! own settings files, never to a file of the project.

use std::path::PathBuf;

use serde_json::json;
use switchboard::id::ToolId;
use switchboard::permission::{Action, Decision, Reason, Rule, RuleScope};
use switchboard_config::{EditError, JsonEditor, Scope, ScopePaths};

use crate::render::text::path_on_one_line;

/// A settings file that an allow rule can be saved to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnSettingsFile {
    pub(crate) scope: RuleScope,
    file: PathBuf,
}

/// A rule that was written to a settings file.
#[derive(Debug)]
pub(crate) struct SavedRule {
    pub(crate) rule: String,
    /// Where the rule was written: `file:line`, or only the file if the line was not found.
    pub(crate) location: String,
}

/// The settings files that an allow rule can be saved to: local scope first, then user scope.
pub(crate) fn own_settings_files(paths: &ScopePaths) -> Vec<OwnSettingsFile> {
    let rule_file = |(rule_scope, scope): (RuleScope, Scope)| {
        let file = paths.settings_file(scope)?;
        Some(OwnSettingsFile {
            scope: rule_scope,
            file,
        })
    };
    [
        (RuleScope::Local, Scope::Local),
        (RuleScope::User, Scope::User),
    ]
    .into_iter()
    .filter_map(rule_file)
    .collect()
}

impl OwnSettingsFile {
    /// Whether an allow rule in this file takes precedence over `asked`, the decision to ask the
    /// user.
    pub(crate) fn overrides(&self, asked: &Decision) -> bool {
        match &asked.reason {
            Reason::Rule(rule) => self.scope < rule.scope,
            _ => true,
        }
    }

    /// Saves a rule that allows the tools matching `pattern`.
    pub(crate) fn allow(&self, pattern: &str) -> Result<SavedRule, EditError> {
        let rule = json!({"tool": pattern, "action": "allow"});
        let mut file = JsonEditor::open(&self.file)?;
        file.append(&["permissions"], &rule)?;
        let name = json!(pattern).to_string();
        let line = file.text().lines().enumerate();
        let line = line.filter(|(_, line)| line.contains(&name)).last();
        let location = match line {
            Some((before, _)) => format!("{}:{}", path_on_one_line(file.path()), before + 1),
            None => path_on_one_line(file.path()),
        };
        file.save()?;
        Ok(SavedRule {
            rule: format!(r#"{{ "tool": {name}, "action": "allow" }}"#),
            location,
        })
    }
}

/// The pattern that matches this tool and no other; `None` if no pattern does.
///
/// Built from the raw names, because allow rules are matched against raw names.
pub(crate) fn pattern(tool: &ToolId) -> Option<String> {
    let (server, name) = (tool.server.as_str(), tool.tool.as_str());
    // After `mcp__`, a pattern is split at its first `__`. A server name that contains `__` or ends
    // with `_` would be split at the wrong place.
    if server.contains("__") || server.ends_with('_') {
        return None;
    }
    let pattern = format!("mcp__{}__{}", escape_glob(server), escape_glob(name));
    Rule::new(Action::Allow, &pattern).ok().map(|_| pattern)
}

/// A glob that matches exactly `text`.
fn escape_glob(text: &str) -> String {
    let mut glob = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, '*' | '?' | '[' | ']' | '{' | '}' | '(' | ')' | '\\') {
            glob.push('\\');
        }
        glob.push(letter);
    }
    glob
}

#[cfg(test)]
mod tests {
    use switchboard::id::ServerName;
    use switchboard::mcp::ToolAnnotations;
    use switchboard::naming::wire_name;
    use switchboard::permission::{CallFacts, Policy};

    use super::*;

    #[test]
    fn pattern_matches_only_its_tool() {
        let names = [
            "read", "a.b", "*", "[a]", "f(x)", "{a,b}", r"a\b", "a__b", "?",
        ];
        let id = |name: &str| ToolId::new(ServerName::new("fs").unwrap(), name);
        for name in names {
            let pattern = pattern(&id(name)).unwrap();
            let policy = Policy::new([Rule::new(Action::Allow, &pattern).unwrap()]);
            for other in names {
                let tool = id(other);
                let decided = policy.decide(&CallFacts {
                    tool: &tool,
                    wire_name: &wire_name(&tool.server, &tool.tool),
                    annotations: &ToolAnnotations::default(),
                    trust_annotations: false,
                    arguments: None,
                });
                let is_allowed = decided.action == Action::Allow;
                assert_eq!(is_allowed, other == name, "{pattern} on {other}");
            }
        }
    }

    #[test]
    fn ambiguous_names_have_no_pattern() {
        for (server, name) in [("a__b", "t"), ("a_", "t"), ("a", ""), ("a", "x\ny")] {
            let tool = ToolId::new(ServerName::new(server).unwrap(), name);
            assert_eq!(pattern(&tool), None, "{server} {name:?}");
        }
    }
}
